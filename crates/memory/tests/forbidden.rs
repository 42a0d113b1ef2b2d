//! What a program does to the memory of a region behind the pager's back: each case is served, or
//! refused with an error, and ends.
//!
//! Each case is a process of its own, since locks of memory belong to a process. An alarm ends a
//! case that hangs.

#![allow(unsafe_code, reason = "system calls on the memory of a region")]

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::Command;

use foreread_memory::{Error, Region};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
/// Names the role of the process: a case instead of a test.
const ROLE: &str = "FOREREAD_TEST_ROLE";
/// Ends a case that hangs. A hundred times what a case takes.
const ALARM_S: u32 = 300;

/// Whether this process plays the case of `test`. If not, it starts one that does, and the case
/// has passed when this returns `false`.
fn plays(test: &str) -> bool {
    if std::env::var(ROLE).is_ok_and(|role| role == test) {
        // SAFETY: it changes a timer of this process.
        unsafe { libc::alarm(ALARM_S) };
        return true;
    }
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(ROLE, test);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    false
}

fn region(bytes: usize, budget: usize, kernel_faults: bool) -> Option<Region> {
    let dir = tempfile::tempdir().expect("a directory");
    match Region::anonymous(bytes).budget(budget).spill(dir.path()).kernel_faults(kernel_faults).create() {
        Ok(region) => Some(region),
        Err(Error::Forbidden { .. }) => {
            println!("skipped: not privileged");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn word(page: usize, round: usize) -> u64 {
    (page as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round as u64
}

fn write_all(region: &mut Region, round: usize) {
    for (page, bytes) in region.chunks_mut(PAGE).enumerate() {
        bytes[..8].copy_from_slice(&word(page, round).to_le_bytes());
    }
}

/// Pages that do not hold what [`write_all`] wrote.
fn wrong(region: &Region, round: usize) -> usize {
    let wrong = |(page, bytes): &(usize, &[u8])| bytes[..8] != word(*page, round).to_le_bytes();
    region.chunks(PAGE).enumerate().filter(wrong).count()
}

/// A file of `bytes` bytes that is read past the page cache; page n begins with `word(n, 9)`.
fn direct_file(dir: &std::path::Path, bytes: usize) -> std::fs::File {
    let path = dir.join("direct");
    let mut content = vec![0_u8; bytes];
    for (page, bytes) in content.chunks_mut(PAGE).enumerate() {
        bytes[..8].copy_from_slice(&word(page, 9).to_le_bytes());
    }
    let mut file = std::fs::File::create(&path).expect("a file");
    file.write_all(&content).and_then(|()| file.sync_all()).expect("written");
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path).expect("a file system with O_DIRECT")
}

#[test]
fn pages_that_a_device_writes_to_do_not_leave() {
    if !plays("pages_that_a_device_writes_to_do_not_leave") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let file = direct_file(dir.path(), 128 * MIB);
    for budget in [MIB / 2, MIB, 2 * MIB, 4 * MIB, 8 * MIB, 32 * MIB, 64 * MIB] {
        let bytes = (2 * budget).max(16 * MIB);
        let Some(mut region) = region(bytes, budget, true) else { return };
        write_all(&mut region, 1);
        let mut refused = 0;
        let mut at = 0;
        while at < bytes {
            // A piece that does not fit in the budget is refused; a smaller one is read.
            let piece = (MIB >> (refused % 5)).min(bytes - at);
            if file.read_exact_at(&mut region[at..at + piece], at as u64).is_ok() {
                at += piece;
            } else {
                refused += 1;
                assert!(refused < 400, "nothing can be read with a budget of {budget}");
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        }
        assert!(refused == 0 || budget <= MIB, "{refused} reads were refused with a budget of {budget}");
        assert_eq!(wrong(&region, 9), 0, "wrong pages with a budget of {budget}");
    }
}

#[test]
fn pages_that_are_pinned_for_long_stay_and_keep_what_comes() {
    if !plays("pages_that_are_pinned_for_long_stay_and_keep_what_comes") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let file = direct_file(dir.path(), MIB);
    let Some(mut region) = region(8 * MIB, 2 * MIB, false) else { return };
    write_all(&mut region, 1);
    let first = 100 * PAGE;
    let buffer = &mut region[first..first + 64 * PAGE];
    buffer.fill(1);
    let iovec = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut ring = io_uring::IoUring::new(4).expect("io_uring");
    // SAFETY: the region outlives the ring.
    unsafe { ring.submitter().register_buffers(&[iovec]) }.expect("all pages are in memory");
    for round in 2..5 {
        write_all(&mut region, round);
        assert_eq!(wrong(&region, round), 0);
    }
    let fd = io_uring::types::Fd(file.as_raw_fd());
    let read = io_uring::opcode::ReadFixed::new(fd, iovec.iov_base.cast(), 64 * PAGE as u32, 0).build();
    // SAFETY: as above.
    unsafe { ring.submission().push(&read) }.expect("room");
    ring.submit_and_wait(1).expect("submitted");
    assert_eq!(ring.completion().next().expect("a completion").result(), 64 * PAGE as i32);
    for page in 0..64 {
        assert_eq!(region[first + page * PAGE..][..8], word(page, 9).to_le_bytes(), "page {page}");
    }
    drop(ring);
    write_all(&mut region, 7);
    assert_eq!(wrong(&region, 7), 0);
}

#[test]
fn pinning_more_than_the_budget_is_an_error_and_not_for_ever() {
    if !plays("pinning_more_than_the_budget_is_an_error_and_not_for_ever") {
        return;
    }
    let Some(mut region) = region(8 * MIB, 2 * MIB, true) else { return };
    write_all(&mut region, 1);
    let iovec = libc::iovec { iov_base: region.as_mut_ptr().cast(), iov_len: 4 * MIB };
    let ring = io_uring::IoUring::new(4).expect("io_uring");
    // SAFETY: the region outlives the ring.
    let refused = unsafe { ring.submitter().register_buffers(&[iovec]) };
    assert!(refused.is_err());
    drop(ring);
    // The page whose touch was refused is there again before long.
    let mut zero = std::fs::File::open("/dev/zero").expect("it is always there");
    let read = |zero: &mut std::fs::File, region: &mut Region| io::Read::read_exact(zero, &mut region[..4 * MIB]);
    while read(&mut zero, &mut region).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(region[..4 * MIB].iter().all(|byte| *byte == 0));
    write_all(&mut region, 2);
    assert_eq!(wrong(&region, 2), 0);
}

fn lock_all(flags: i32) {
    // SAFETY: it changes how memory of this process is kept, and no contents.
    if unsafe { libc::mlockall(flags) } != 0 {
        println!("skipped: locking memory needs a privilege");
        std::process::exit(0);
    }
}

/// Writes and reads all of it; no more than the budget is in memory then.
fn a_round(region: &mut Region, budget: usize) {
    write_all(region, 4);
    assert_eq!(wrong(region, 4), 0);
    let held = region.stats().gauges.mapped_pages + region.stats().gauges.staged_pages;
    assert!(held as usize <= budget / PAGE, "{:?}", region.stats());
    // What the kernel keeps of the region.
    let mut vector = vec![0_u8; region.len() / PAGE];
    // SAFETY: the vector has a byte for each page.
    assert_eq!(unsafe { libc::mincore(region.as_mut_ptr().cast(), region.len(), vector.as_mut_ptr()) }, 0);
    let kept = vector.iter().filter(|byte| **byte & 1 == 1).count();
    assert!(kept <= budget / PAGE, "{kept} pages are in memory");
}

#[test]
fn memory_locked_after_the_region_was_made_does_not_hold_its_pages() {
    if !plays("memory_locked_after_the_region_was_made_does_not_hold_its_pages") {
        return;
    }
    for kernel_faults in [false, true] {
        let Some(mut region) = region(32 * MIB, 4 * MIB, kernel_faults) else { return };
        write_all(&mut region, 5);
        lock_all(libc::MCL_CURRENT | libc::MCL_FUTURE);
        assert_eq!(wrong(&region, 5), 0);
        // SAFETY: it changes no contents.
        unsafe { libc::munlockall() };
        a_round(&mut region, 4 * MIB);
    }
}

#[test]
fn memory_locked_before_the_region_is_made_does_not_hold_its_pages() {
    if !plays("memory_locked_before_the_region_is_made_does_not_hold_its_pages") {
        return;
    }
    lock_all(libc::MCL_CURRENT | libc::MCL_FUTURE);
    let Some(mut region) = region(64 * MIB, 4 * MIB, true) else { return };
    a_round(&mut region, 4 * MIB);
}

#[test]
fn a_lock_of_some_pages_does_not_hold_them() {
    if !plays("a_lock_of_some_pages_does_not_hold_them") {
        return;
    }
    let Some(mut region) = region(16 * MIB, 2 * MIB, true) else { return };
    write_all(&mut region, 3);
    // SAFETY: it changes no contents.
    unsafe { libc::mlock(region.as_ptr().add(3 * PAGE).cast(), MIB) };
    assert_eq!(wrong(&region, 3), 0);
    a_round(&mut region, 2 * MIB);
}

/// A part of the region that begins in the middle of a cluster.
fn part(region: &Region, page: usize) -> *mut libc::c_void {
    region.as_mut_ptr().wrapping_add(page * PAGE).cast()
}

#[test]
fn parts_with_advice_or_protection_of_their_own_come_and_go() {
    if !plays("parts_with_advice_or_protection_of_their_own_come_and_go") {
        return;
    }
    let Some(mut region) = region(16 * MIB, 4 * MIB, false) else { return };
    write_all(&mut region, 1);
    // Every 5 pages another kind: the kernel splits the mapping.
    for page in (3..region.len() / PAGE - 5).step_by(10) {
        // SAFETY: it changes no contents.
        assert_eq!(unsafe { libc::madvise(part(&region, page), 5 * PAGE, libc::MADV_DONTDUMP) }, 0);
    }
    assert_eq!(wrong(&region, 1), 0);
    write_all(&mut region, 2);
    assert_eq!(wrong(&region, 2), 0);
    // A part that may only be read.
    // SAFETY: nothing writes there until it may be written again.
    assert_eq!(unsafe { libc::mprotect(part(&region, 1000), 501 * PAGE, libc::PROT_READ) }, 0);
    assert_eq!(wrong(&region, 2), 0);
    // SAFETY: as it was.
    assert_eq!(unsafe { libc::mprotect(part(&region, 1000), 501 * PAGE, libc::PROT_READ | libc::PROT_WRITE) }, 0);
    write_all(&mut region, 3);
    assert_eq!(wrong(&region, 3), 0);
    assert_eq!(region.stats().gauges.pages_failed, 0);
}

#[test]
fn pages_that_the_program_gives_up_by_itself_are_zeroes_or_as_before() {
    if !plays("pages_that_the_program_gives_up_by_itself_are_zeroes_or_as_before") {
        return;
    }
    let Some(mut region) = region(16 * MIB, 4 * MIB, false) else { return };
    for round in 1..6 {
        write_all(&mut region, round);
        // SAFETY: nothing relies on these contents.
        assert_eq!(unsafe { libc::madvise(part(&region, 3000), 900 * PAGE, libc::MADV_DONTNEED) }, 0);
        for (page, bytes) in region.chunks(PAGE).enumerate() {
            let value = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
            let given_up = (3000..3900).contains(&page);
            assert!(value == word(page, round) || (given_up && value == 0), "page {page}");
        }
    }
    write_all(&mut region, 7);
    assert_eq!(wrong(&region, 7), 0);
}

/// The flags that the kernel keeps of the mapping with this address.
fn flags_of(address: *const u8) -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("it is always there");
    let mut inside = false;
    for line in maps.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let range = range.and_then(|(start, end)| {
            Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
        });
        if let Some((start, end)) = range {
            inside = (start..end).contains(&address.addr());
        }
        if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| inside) {
            return flags.split_whitespace().map(str::to_owned).collect();
        }
    }
    panic!("nothing is mapped at {address:?}");
}

/// `PR_SET_MEMORY_MERGE`, of Linux 6.4.
const SET_MEMORY_MERGE: libc::c_int = 67;

#[test]
fn a_program_that_merges_equal_pages_does_not_merge_those_of_a_region() {
    if !plays("a_program_that_merges_equal_pages_does_not_merge_those_of_a_region") {
        return;
    }
    // SAFETY: it changes how memory of this process is kept, and no contents.
    if unsafe { libc::prctl(SET_MEMORY_MERGE, 1, 0, 0, 0) } != 0 {
        println!("skipped: this kernel cannot merge pages, or this user may not ask for it");
        return;
    }
    let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory.
    let other = unsafe { libc::mmap(std::ptr::null_mut(), MIB, prot, flags, -1, 0) };
    assert_ne!(other, libc::MAP_FAILED);
    assert!(flags_of(other.cast()).contains(&"mg".to_owned()), "other memory of the program is merged");
    let Some(mut region) = region(16 * MIB, 4 * MIB, false) else { return };
    for address in [region.as_ptr(), region.as_ptr().wrapping_add(region.len() - PAGE)] {
        let flags = flags_of(address);
        assert!(!flags.contains(&"mg".to_owned()), "{flags:?}");
        assert!(flags.contains(&"um".to_owned()) || flags.contains(&"uw".to_owned()), "it is the region: {flags:?}");
    }
    // Equal pages, which leave, come back, and are written to.
    for round in 0..3 {
        region.chunks_mut(PAGE).for_each(|page| page.fill(7));
        assert!(region.chunks(PAGE).all(|page| page.iter().all(|byte| *byte == 7)));
        write_all(&mut region, round);
        assert_eq!(wrong(&region, round), 0);
    }
}

/// `UFFDIO_MOVE`.
const MOVE: u32 = 0xc028_aa05;

#[test]
fn a_kernel_that_moves_no_pages_protects_them() {
    if !plays("a_kernel_that_moves_no_pages_protects_them") {
        return;
    }
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut steps = [
        // The call's number; the low half of its second argument; one answer or the other.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 3, libc::SYS_ioctl as u32),
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 24),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, MOVE),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EINVAL as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the program lives through the call, which copies it; it affects this thread and its
    // future children.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
    for io_uring in [true, false] {
        let dir = tempfile::tempdir().expect("a directory");
        let builder = Region::anonymous(16 * MIB).budget(2 * MIB).spill(dir.path()).io_uring(io_uring);
        let mut region = builder.encrypted(!io_uring).create().expect("a region");
        for round in 0..3 {
            write_all(&mut region, round);
            assert_eq!(wrong(&region, round), 0);
        }
        assert!(region.stats().counters.pages_cleaned > 0);
    }
}
