//! What an allocator promises: blocks of zeroes under one budget, and room for those there are.

#![allow(unsafe_code, reason = "blocks are named by their addresses")]

use std::ptr::NonNull;

use foreread_memory::{Allocator, BUDGET_BYTES_MIN, Error};

const MIB: usize = 1 << 20;

fn allocator(budget: usize) -> (tempfile::TempDir, Allocator) {
    let dir = tempfile::tempdir().expect("a directory");
    let made = Allocator::with_budget(budget).spill(dir.path()).create().expect("an allocator");
    (dir, made)
}

/// The block's bytes.
///
/// # Safety
///
/// It has so many bytes, and is used here alone.
unsafe fn bytes<'a>(block: NonNull<u8>, len: usize) -> &'a mut [u8] {
    // SAFETY: the caller's contract.
    unsafe { std::slice::from_raw_parts_mut(block.as_ptr(), len) }
}

fn fill(block: NonNull<u8>, len: usize, seed: usize) {
    // SAFETY: a block of the test's.
    for (page, chunk) in unsafe { bytes(block, len) }.chunks_mut(4096).enumerate() {
        chunk[..8].copy_from_slice(&(seed * 1_000_003 + page).to_le_bytes());
    }
}

fn check(block: NonNull<u8>, len: usize, seed: usize) {
    // SAFETY: as above.
    for (page, chunk) in unsafe { bytes(block, len) }.chunks(4096).enumerate() {
        assert_eq!(chunk[..8], (seed * 1_000_003 + page).to_le_bytes(), "page {page} of block {seed}");
    }
}

#[test]
fn blocks_share_a_budget_and_give_their_room_back() {
    let (_dir, memory) = allocator(2 * MIB);
    let blocks: Vec<_> = (0..12).map(|_| memory.allocate(4 * MIB).expect("a block")).collect();
    for (seed, block) in blocks.iter().enumerate() {
        fill(*block, 4 * MIB, seed);
    }
    for (seed, block) in blocks.iter().enumerate().rev() {
        check(*block, 4 * MIB, seed);
    }
    let full = memory.stats().expect("counts");
    assert_eq!((full.blocks, full.bytes, full.bytes_max), (12, 48 << 20, 48 << 20));
    assert!(full.room_bytes >= 48 << 20 && full.region.gauges.mapped_pages <= 512, "{full:?}");
    for block in &blocks[1..] {
        // SAFETY: it is not used any more.
        unsafe { memory.free(*block) };
    }
    check(blocks[0], 4 * MIB, 0);
    let one = memory.stats().expect("counts");
    assert_eq!((one.blocks, one.bytes, one.bytes_max), (1, 4 << 20, 48 << 20));
    assert!(one.room_bytes >= 4 << 20, "{one:?}");
    // SAFETY: as above.
    unsafe { memory.free(blocks[0]) };
    let none = memory.stats().expect("counts");
    assert_eq!((none.blocks, none.bytes), (0, 0));
    assert!(none.room_bytes <= 16 << 20, "{none:?}");
    assert_eq!(none.region.gauges.pages_failed, 0);
}

#[test]
fn a_new_block_is_zero_where_another_one_was() {
    let (_dir, memory) = allocator(BUDGET_BYTES_MIN);
    for seed in 0..8 {
        let block = memory.allocate(3 * MIB + 5).expect("a block");
        // SAFETY: a block of the test's.
        assert!(unsafe { bytes(block, 3 * MIB + 5) }.iter().all(|byte| *byte == 0));
        fill(block, 3 * MIB, seed + 1);
        // SAFETY: it is not used any more.
        unsafe { memory.free(block) };
    }
    assert_eq!(memory.stats().expect("counts").region.gauges.pages_failed, 0);
}

#[test]
fn a_block_keeps_its_bytes_when_its_length_changes() {
    let (_dir, memory) = allocator(MIB);
    let first = memory.allocate(4 * MIB).expect("a block");
    fill(first, 4 * MIB, 1);
    // SAFETY: blocks of the test's, here and below.
    let grown = unsafe { memory.resize(first, 9 * MIB) }.expect("grown");
    assert_eq!(grown, first);
    let wall = memory.allocate(1).expect("a block");
    let moved = unsafe { memory.resize(grown, 20 * MIB) }.expect("moved");
    assert_ne!(moved, first);
    check(moved, 4 * MIB, 1);
    assert!(unsafe { bytes(moved, 20 * MIB) }[4 * MIB..].iter().all(|byte| *byte == 0));
    fill(moved, 20 * MIB, 2);
    let less = unsafe { memory.resize(moved, 2 * MIB) }.expect("cut");
    check(less, 2 * MIB, 2);
    let more = unsafe { memory.resize(less, 3 * MIB) }.expect("grown");
    // SAFETY: a block of the test's.
    assert!(unsafe { bytes(more, 3 * MIB) }[2 * MIB..].iter().all(|byte| *byte == 0));
    let stats = memory.stats().expect("counts");
    assert_eq!((stats.blocks, stats.bytes), (2, (3 << 20) + 4096));
    assert!(memory.holds(wall.as_ptr()) && Allocator::is_in_any(wall.as_ptr()));
    assert!(!memory.holds((&raw const stats).cast()) && !Allocator::is_in_any((&raw const stats).cast()));
}

#[test]
fn threads_make_and_free_blocks() {
    let (_dir, memory) = allocator(2 * MIB);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let memory = &memory;
            scope.spawn(move || {
                for turn in 0..6 {
                    let (len, seed) = ((1 + (thread + turn) % 5) * MIB, thread * 100 + turn);
                    let block = memory.allocate(len).expect("a block");
                    fill(block, len, seed);
                    check(block, len, seed);
                    // SAFETY: it is not used any more.
                    unsafe { memory.free(block) };
                }
            });
        }
    });
    let stats = memory.stats().expect("counts");
    assert_eq!((stats.blocks, stats.bytes, stats.region.gauges.pages_failed), (0, 0, 0));
}

#[test]
fn a_block_without_room_is_refused_and_nothing_else() {
    let (dir, memory) = allocator(BUDGET_BYTES_MIN);
    let block = memory.allocate(2 * MIB).expect("a block");
    fill(block, 2 * MIB, 3);
    // More than is free in the file system, where there are addresses for it.
    let about = rustix::fs::statvfs(dir.path()).expect("a file system");
    let free = usize::try_from(about.f_bavail * about.f_frsize).expect("addresses");
    let refused = memory.allocate(free + (1 << 30));
    assert!(matches!(refused, Err(Error::Spill { .. })), "{refused:?}");
    // SAFETY: a block of the test's.
    let grown = unsafe { memory.resize(block, 1 << 44) };
    assert!(matches!(grown, Err(Error::Invalid { .. })), "{grown:?}");
    check(block, 2 * MIB, 3);
}

#[test]
fn system_calls_use_blocks_where_that_is_allowed() {
    use std::io::{Read, Seek, Write};
    let (_dir, memory) = allocator(BUDGET_BYTES_MIN);
    let block = memory.allocate(8 * MIB).expect("a block");
    fill(block, 8 * MIB, 4);
    let mut file = tempfile::tempfile().expect("a file");
    // SAFETY: a block of the test's.
    let written = file.write_all(unsafe { bytes(block, 8 * MIB) });
    assert_eq!(written.is_ok(), memory.takes_kernel_faults(), "{written:?}");
    if memory.takes_kernel_faults() {
        let other = memory.allocate(8 * MIB).expect("a block");
        file.rewind().expect("a file");
        // SAFETY: as above.
        file.read_exact(unsafe { bytes(other, 8 * MIB) }).expect("read");
        check(other, 8 * MIB, 4);
    }
}

#[test]
fn a_child_has_no_blocks_and_nothing_at_their_addresses() {
    let (_dir, memory) = allocator(BUDGET_BYTES_MIN);
    let block = memory.allocate(2 * MIB).expect("a block");
    fill(block, 2 * MIB, 5);
    // SAFETY: the child makes only calls that take no lock of the parent's, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = matches!(memory.allocate(MIB), Err(Error::Forked)) && memory.stats().is_err();
        // SAFETY: it does nothing here.
        unsafe { memory.free(block) };
        let taken = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            libc::mmap(block.as_ptr().cast(), 4096, libc::PROT_READ, flags, -1, 0) == libc::MAP_FAILED
        };
        unsafe { libc::_exit(i32::from(!(refused && taken && memory.holds(block.as_ptr())))) };
    }
    let mut status = 0;
    // SAFETY: it waits for the child.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
    check(block, 2 * MIB, 5);
}
