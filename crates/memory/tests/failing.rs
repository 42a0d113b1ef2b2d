//! What a region does when something fails: each case in a process of its own, which the test
//! starts and watches from outside.

use std::io::{self, BufRead, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use foreread_memory::{Error, Region, Spill};

const PAGE: usize = 4096;
/// Names the role of the process: a case instead of a test.
const ROLE: &str = "FOREREAD_TEST_ROLE";

/// Runs `test` of this file again, as a process that plays the case.
fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(ROLE, test);
    command
}

fn plays(test: &str) -> bool {
    std::env::var(ROLE).is_ok_and(|role| role == test)
}

/// A spill in memory that fails on demand.
#[derive(Default)]
struct Faulty {
    pages: Mutex<std::collections::HashMap<u64, Vec<u8>>>,
    /// Unless 0: pages that begin with this number cannot be read.
    bad: AtomicU64,
    /// How many writes will fail.
    writes_fail: AtomicU64,
}

// SAFETY: a read gives what was written, or fails.
unsafe impl Spill for Faulty {
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let pages = self.pages.lock().expect("no thread panicked");
        let bad = self.bad.load(Ordering::Relaxed);
        for (index, page) in into.chunks_mut(PAGE).enumerate() {
            let number = offset / PAGE as u64 + index as u64;
            page.copy_from_slice(pages.get(&number).map_or(&[0; PAGE][..], Vec::as_slice));
            if bad != 0 && page.starts_with(&bad.to_le_bytes()) {
                return Err(io::Error::from_raw_os_error(5));
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        if self.writes_fail.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            return Err(io::Error::from_raw_os_error(5));
        }
        let mut pages = self.pages.lock().expect("no thread panicked");
        for (index, page) in from.chunks(PAGE).enumerate() {
            pages.insert(offset / PAGE as u64 + index as u64, page.to_vec());
        }
        Ok(())
    }
}

/// Pages of the region, and of its budget.
const PAGES: usize = 8192;
const BUDGET: usize = 4096;

fn faulty() -> (Arc<Faulty>, Region) {
    let spill = Arc::new(Faulty::default());
    let builder = Region::anonymous(PAGES * PAGE).budget(BUDGET * PAGE).spill_to(Arc::clone(&spill) as Arc<dyn Spill>);
    (spill, builder.create().expect("a region"))
}

fn write_all(region: &mut Region) {
    region.chunks_mut(PAGE).enumerate().for_each(|(page, bytes)| bytes[..8].copy_from_slice(&(page + 1).to_le_bytes()));
}

fn check(region: &Region, pages: impl Iterator<Item = usize>) {
    pages.for_each(|page| assert_eq!(region[page * PAGE..][..8], (page + 1).to_le_bytes(), "page {page}"));
}

/// Tells the process outside how far this one has come.
fn reached(what: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "reached {what}").and_then(|()| out.flush()).expect("standard output");
}

#[test]
fn a_page_that_cannot_be_read_is_a_signal_and_its_neighbours_are_not() {
    const TEST: &str = "a_page_that_cannot_be_read_is_a_signal_and_its_neighbours_are_not";
    const BAD: usize = 3001;
    if plays(TEST) {
        let (spill, mut region) = faulty();
        write_all(&mut region);
        // Pages 0 to 3999 leave memory here.
        region.set_budget(1 << 20).expect("less");
        check(&region, 4000..PAGES);
        region.set_budget(BUDGET * PAGE).expect("as before");
        spill.bad.store(BAD as u64 + 1, Ordering::Relaxed);
        check(&region, (2000..BAD).chain(BAD + 1..4000));
        assert!(region.stats().gauges.reads_failed > 0);
        reached("the bad page");
        let value = region[BAD * PAGE];
        reached(&format!("behind it: {value}"));
        return;
    }
    let output = again(TEST).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("reached the bad page") && !said.contains("behind it"), "{output:?}");
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
}

#[test]
fn pages_that_cannot_be_written_stay_and_faults_beyond_the_budget_get_a_signal() {
    const TEST: &str = "pages_that_cannot_be_written_stay_and_faults_beyond_the_budget_get_a_signal";
    if plays(TEST) {
        let (spill, mut region) = faulty();
        spill.writes_fail.store(u64::MAX, Ordering::Relaxed);
        // Half of the budget leaves room: everything written stays in memory.
        let (some, _) = region.split_at_mut(BUDGET / 2 * PAGE);
        some.chunks_mut(PAGE)
            .enumerate()
            .for_each(|(page, bytes)| bytes[..8].copy_from_slice(&(page + 1).to_le_bytes()));
        check(&region, 0..BUDGET / 2);
        reached("half of the budget");
        write_all(&mut region);
        reached("all of it");
        return;
    }
    let output = again(TEST).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("reached half of the budget") && !said.contains("all of it"), "{said}");
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
}

#[test]
fn writes_that_fail_for_a_while_lose_nothing() {
    let (spill, mut region) = faulty();
    region[0] = 1;
    write_all(&mut region);
    // One failure: a fault survives it. The test above shows failures without end.
    spill.writes_fail.store(1, Ordering::Relaxed);
    for round in 0..4 {
        check(&region, 0..PAGES);
        region.chunks_mut(PAGE).for_each(|page| page[100] = round);
    }
    check(&region, (0..PAGES).rev());
    let stats = region.stats();
    assert_eq!((stats.gauges.writes_failed, stats.gauges.pages_failed), (1, 0), "{stats:?}");
}

#[test]
fn an_outage_of_the_spill_that_is_over_soon_is_no_signal() {
    let (spill, mut region) = faulty();
    write_all(&mut region);
    check(&region, 0..PAGES);
    for _ in 0..3 {
        // One write may meet all of them.
        spill.writes_fail.store(10, Ordering::Relaxed);
        write_all(&mut region);
        check(&region, 0..PAGES);
    }
    let stats = region.stats();
    assert!(stats.gauges.writes_failed == 30 && stats.gauges.pages_failed == 0, "{stats:?}");
}

#[test]
fn a_page_that_was_refused_is_there_again_when_the_spill_works() {
    const TEST: &str = "a_page_that_was_refused_is_there_again_when_the_spill_works";
    if plays(TEST) {
        let dir = tempfile::tempdir().expect("a directory");
        let spill = Arc::new(Faulty::default());
        let given = Arc::clone(&spill) as Arc<dyn Spill>;
        let builder = Region::anonymous(PAGES * PAGE).budget(BUDGET * PAGE).spill_to(given).kernel_faults(true);
        let mut region = match builder.create() {
            Err(Error::Forbidden { .. }) => return,
            made => made.expect("a region"),
        };
        write_all(&mut region);
        spill.bad.store(101, Ordering::Relaxed);
        // The kernel reads the pages, so that the refusal is an error and no signal.
        let path = dir.path().join("copy");
        let page = |region: &Region, page: usize| std::fs::write(&path, &region[page * PAGE..][..PAGE]);
        assert!(page(&region, 100).is_err());
        spill.bad.store(0, Ordering::Relaxed);
        while page(&region, 100).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        check(&region, 0..PAGES);
        // Given up, a page that was refused is there at once.
        region.set_budget(1 << 20).expect("less");
        check(&region, 4000..PAGES);
        spill.bad.store(201, Ordering::Relaxed);
        assert!(page(&region, 200).is_err());
        region.discard(200 * PAGE..201 * PAGE).expect("discarded");
        assert!(region[200 * PAGE..][..PAGE].iter().all(|byte| *byte == 0));
        check(&region, (0..200).chain(201..PAGES));
        reached("the end");
        return;
    }
    let output = again(TEST).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_file_system_without_room_is_an_error_at_creation() {
    const TEST: &str = "a_file_system_without_room_is_an_error_at_creation";
    if plays(TEST) {
        let dir = tempfile::tempdir().expect("a directory");
        // SAFETY: system calls that change only this process's view of the file systems.
        let mounted = unsafe {
            let unshared = libc::unshare(libc::CLONE_NEWNS);
            let none = std::ptr::null();
            let private = libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast());
            let path = std::ffi::CString::new(dir.path().as_os_str().as_encoded_bytes()).expect("no zero in it");
            let (kind, options) = (c"tmpfs".as_ptr(), c"size=1m".as_ptr().cast());
            unshared == 0 && private == 0 && libc::mount(kind, path.as_ptr(), kind, 0, options) == 0
        };
        if !mounted {
            println!("skipped: mounting a file system of 1 MiB needs root");
            return;
        }
        let made = Region::anonymous(4 << 20).budget(1 << 20).spill(dir.path()).create();
        match made {
            Err(error @ Error::Spill { .. }) => {
                let text = error.to_string();
                assert!(text.contains("4194304 bytes") && text.contains("space"), "{text}");
            }
            other => panic!("{other:?}"),
        }
        // A region that fits is made, on the same file system.
        let mut small = Region::anonymous(768 << 10).budget(512 << 10).spill(dir.path()).create().expect("a region");
        small.chunks_mut(PAGE).enumerate().for_each(|(page, bytes)| bytes[0] = page as u8 + 1);
        assert!(small.chunks(PAGE).enumerate().all(|(page, bytes)| bytes[0] == page as u8 + 1));
        return;
    }
    let output = again(TEST).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_child_has_no_region() {
    const TEST: &str = "a_child_has_no_region";
    if plays(TEST) {
        let (_, mut region) = faulty();
        write_all(&mut region);
        let last = region.as_mut_ptr().wrapping_add((PAGES - 1) * PAGE);
        // SAFETY: the child makes only calls that are allowed after a fork: it reads one byte, or
        // ends.
        let status = unsafe {
            let child = libc::fork();
            assert!(child >= 0);
            if child == 0 {
                libc::_exit(i32::from(last.read_volatile()));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            status
        };
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "{status:x}");
        // SAFETY: the child uses its copy of the region, and takes no lock that a thread of the
        // parent may hold.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                let refused = matches!(region.set_budget(1 << 20), Err(Error::Forked));
                drop(region);
                libc::_exit(if refused { 0 } else { 9 });
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            status
        };
        assert_eq!(status, 0);
        check(&region, 0..PAGES);
        return;
    }
    let output = again(TEST).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
}

/// Files without a name that a process has open, and their lengths.
fn nameless_files(process: i32) -> Vec<u64> {
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).expect("the process is there");
    let nameless = open.filter_map(|entry| {
        let path = entry.ok()?.path();
        let to = std::fs::read_link(&path).ok()?;
        to.to_string_lossy().ends_with("(deleted)").then(|| std::fs::metadata(&path).map_or(0, |about| about.len()))
    });
    nameless.collect()
}

#[test]
fn a_child_does_not_keep_the_room_of_the_spill_file() {
    const TEST: &str = "a_child_does_not_keep_the_room_of_the_spill_file";
    if plays(TEST) {
        let dir = tempfile::tempdir().expect("a directory");
        let region = Region::anonymous(1024 * PAGE).budget(160 * PAGE).spill(dir.path()).create().expect("a region");
        assert_eq!(nameless_files(std::process::id() as i32), [1024 * PAGE as u64]);
        // SAFETY: the children wait, and are ended.
        let (fork, raw) = (|| unsafe { libc::fork() }, || unsafe { libc::syscall(libc::SYS_fork) as i32 });
        let child = |child: i32| {
            if child == 0 {
                // SAFETY: the child does nothing else.
                unsafe { libc::pause() };
            }
            child
        };
        let (one, other) = (child(fork()), child(raw()));
        while !nameless_files(one).is_empty() {
            std::thread::yield_now();
        }
        // A child that the C library knows nothing of keeps the file, which is cut to nothing.
        assert_eq!(nameless_files(other), [1024 * PAGE as u64]);
        drop(region);
        assert_eq!(nameless_files(other), [0]);
        for child in [one, other] {
            // SAFETY: they are children of this process.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        return;
    }
    let output = again(TEST).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_directory_for_temporary_files_in_memory_is_not_the_default() {
    const TEST: &str = "a_directory_for_temporary_files_in_memory_is_not_the_default";
    if plays(TEST) {
        let region = Region::anonymous(1024 * PAGE).budget(160 * PAGE).create();
        let open = std::fs::read_dir("/proc/self/fd").expect("this process");
        let paths = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        let in_memory = paths.filter(|path| path.starts_with("/dev/shm")).count();
        assert_eq!(in_memory, 0);
        match region {
            Ok(_) => {}
            Err(error) => assert!(error.to_string().contains("tmpfs"), "{error}"),
        }
        return;
    }
    let output = again(TEST).env("TMPDIR", "/dev/shm").output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_process_that_is_killed_leaves_no_file() {
    const TEST: &str = "a_process_that_is_killed_leaves_no_file";
    const DIR: &str = "FOREREAD_TEST_DIR";
    if plays(TEST) {
        let dir = std::env::var_os(DIR).expect("a directory");
        let mut region = Region::anonymous(1024 * PAGE).budget(160 * PAGE).spill(dir).create().expect("a region");
        write_all(&mut region);
        reached("the end");
        std::thread::sleep(std::time::Duration::from_mins(1));
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = again(TEST).env(DIR, dir.path()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("reached the end"))));
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0, "a name while it runs");
    child.kill().expect("killed");
    assert_eq!(child.wait().expect("it ends").signal(), Some(libc::SIGKILL));
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0, "a file is left");
}

/// A filter that answers `userfaultfd` with `EPERM` and lets everything else pass.
fn forbid_userfaultfd() {
    const NUMBER: u32 = libc::SYS_userfaultfd as u32;
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut steps = [
        // Load the call's number; compare it; return one answer or the other.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, NUMBER),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the program lives through the call, which copies it; it affects this thread and its
    // children alone.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

#[test]
fn the_error_names_the_settings_that_permit_userfaultfd() {
    const TEST: &str = "the_error_names_the_settings_that_permit_userfaultfd";
    if plays(TEST) {
        // Opening the device is another way, which only its permissions close. SAFETY: changes the
        // user of this process alone, which needs nothing that root may do.
        let root = unsafe { libc::geteuid() == 0 };
        if root {
            // SAFETY: as above.
            unsafe { assert_eq!((libc::setgid(65534), libc::setuid(65534)), (0, 0)) };
        }
        let privileged = Region::anonymous(1 << 20).budget(1 << 20).spill("/tmp").kernel_faults(true).create();
        let sysctl = std::fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").expect("the sysctl");
        let told = |made: Result<Region, Error>, kernel: bool| match made {
            Err(error @ Error::Forbidden { .. }) => {
                let text = error.to_string();
                assert!(text.contains("vm.unprivileged_userfaultfd=1") && text.contains("/dev/userfaultfd"), "{text}");
                assert_eq!(text.contains("without `kernel_faults`"), kernel, "{text}");
            }
            other => panic!("{other:?}"),
        };
        if sysctl.trim() == "0" && std::fs::File::open("/dev/userfaultfd").is_err() {
            told(privileged, true);
        }
        let mut ordinary = Region::anonymous(1 << 20).budget(1 << 20).spill("/tmp").create().expect("for every user");
        ordinary[5] = 1;
        drop(ordinary);
        forbid_userfaultfd();
        if std::fs::File::open("/dev/userfaultfd").is_err() {
            told(Region::anonymous(1 << 20).budget(1 << 20).spill("/tmp").create(), false);
        }
        return;
    }
    let output = again(TEST).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_privileged_kind_answers_the_kernel_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let make = |kernel: bool| {
        let builder = Region::anonymous(1024 * PAGE).budget(160 * PAGE).spill(dir.path());
        builder.kernel_faults(kernel).create()
    };
    let read_into = |region: &mut Region| {
        let mut zeroes = std::fs::File::open("/dev/zero").expect("it is always there");
        io::Read::read_exact(&mut zeroes, &mut region[500 * PAGE..][..10 * PAGE])
    };
    let mut plain = make(false).expect("for every user");
    write_all(&mut plain);
    check(&plain, 0..400);
    assert_eq!(read_into(&mut plain).expect_err("the kernel finds nothing there").raw_os_error(), Some(libc::EFAULT));
    match make(true) {
        Ok(mut region) => {
            write_all(&mut region);
            check(&region, 0..400);
            read_into(&mut region).expect("read");
            assert!(region[500 * PAGE..][..10 * PAGE].iter().all(|byte| *byte == 0));
            check(&region, (400..500).chain(510..1024));
        }
        Err(Error::Forbidden { .. }) => println!("skipped: not privileged"),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_panic_of_the_thread_that_answers_faults_ends_the_process_and_says_why() {
    const TEST: &str = "a_panic_of_the_thread_that_answers_faults_ends_the_process_and_says_why";
    if plays(TEST) {
        let dir = tempfile::tempdir().expect("a directory");
        let builder = Region::anonymous(PAGES * PAGE).budget(BUDGET / 4 * PAGE).spill(dir.path());
        let mut region = builder.panic_after(5_000).create().expect("a region");
        // Ends a process that waits for ever instead.
        // SAFETY: it changes a timer of this process.
        #[allow(unsafe_code, reason = "an alarm")]
        unsafe {
            libc::alarm(120);
        }
        std::thread::scope(|scope| {
            for part in region.chunks_mut(PAGES / 4 * PAGE) {
                scope.spawn(|| {
                    for round in 0..100_u64 {
                        part.chunks_mut(PAGE).for_each(|page| page[..8].copy_from_slice(&round.to_le_bytes()));
                    }
                    reached("the end");
                });
            }
        });
        return;
    }
    let output = again(TEST).output().expect("it runs");
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    assert!(why.contains("a planted panic") && why.contains("foreread-pager"), "{why}");
    assert!(why.contains("page faults of a memory region has failed") && why.contains("report"), "{why}");
    assert!(!said.contains("reached the end"), "{said}");
}
