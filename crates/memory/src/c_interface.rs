//! Regions for other languages: the functions of `include/foreread.h`, which documents them.
//!
//! To the caller a region is an opaque address. The last error of each thread is kept as text. No
//! panic leaves a function: it is an error as any other.

#![allow(unsafe_code, reason = "the caller is no Rust program")]

use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use crate::error::Error;
use crate::region::{Advice, Region};

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// `struct foreread_stats`.
#[repr(C)]
pub(crate) struct CStats {
    budget_pages: u64,
    mapped_pages: u64,
    staged_pages: u64,
    faults_major: u64,
    faults_minor: u64,
    faults_zero: u64,
    reads: u64,
    pages_read: u64,
    pages_written: u64,
    pages_wasted: u64,
    pages_failed: u64,
}

/// See the header.
///
/// # Safety
///
/// `spill_dir` is null or a string that ends with a zero byte.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn foreread_region_create(
    len: usize,
    budget: usize,
    spill_dir: *const c_char,
    flags: u32,
) -> *mut Region {
    caught(|| {
        let mut builder = Region::anonymous(len).budget(budget);
        if !spill_dir.is_null() {
            // SAFETY: the caller's contract.
            let dir = unsafe { CStr::from_ptr(spill_dir) };
            builder = builder.spill(OsStr::from_bytes(dir.to_bytes()));
        }
        let known = FLAG_ENCRYPTED | FLAG_KERNEL_FAULTS | FLAG_NO_IO_URING;
        if flags & !known != 0 {
            return Err(Error::Invalid { what: "an unknown flag" });
        }
        let has = |flag: u32| flags & flag != 0;
        let builder = builder.encrypted(has(FLAG_ENCRYPTED)).kernel_faults(has(FLAG_KERNEL_FAULTS));
        Ok(Box::into_raw(Box::new(builder.io_uring(!has(FLAG_NO_IO_URING)).create()?)))
    })
    .unwrap_or(ptr::null_mut())
}

/// See the header.
///
/// # Safety
///
/// `region` was created and is not destroyed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn foreread_region_data(region: *const Region) -> *mut c_void {
    // SAFETY: the caller's contract.
    unsafe { &*region }.as_mut_ptr().cast()
}

/// See the header.
///
/// # Safety
///
/// `region` was created and is not destroyed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn foreread_region_len(region: *const Region) -> usize {
    // SAFETY: the caller's contract.
    unsafe { &*region }.len()
}

/// See the header.
///
/// # Safety
///
/// `region` was created and is not destroyed; no thread uses bytes that are given up.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn foreread_region_advise(
    region: *const Region,
    offset: usize,
    len: usize,
    advice: c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    let region = unsafe { &*region };
    told(|| {
        let end = offset.checked_add(len).filter(|end| *end <= region.len());
        let end = end.ok_or(Error::Invalid { what: "the range does not lie in the region" })?;
        let advice = match advice {
            0 => Advice::Normal,
            1 => Advice::Sequential,
            2 => Advice::Random,
            3 => Advice::WillNeed,
            // SAFETY: the range lies in the region; the rest is the caller's contract.
            4 => return unsafe { region.discard_shared(offset..end) },
            _ => return Err(Error::Invalid { what: "unknown advice" }),
        };
        region.advise(offset..end, advice)
    })
}

/// See the header.
///
/// # Safety
///
/// `region` was created and is not destroyed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn foreread_region_resize(region: *const Region, budget: usize) -> c_int {
    // SAFETY: the caller's contract.
    let region = unsafe { &*region };
    told(|| region.set_budget(budget))
}

/// See the header.
///
/// # Safety
///
/// `region` was created and is not destroyed; `stats` points to memory for one structure.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn foreread_region_stats(region: *const Region, stats: *mut CStats) {
    // SAFETY: the caller's contract.
    let found = unsafe { &*region }.stats();
    let (counters, gauges) = (found.counters, found.gauges);
    let found = CStats {
        budget_pages: gauges.budget_pages,
        mapped_pages: gauges.mapped_pages,
        staged_pages: gauges.staged_pages,
        faults_major: counters.faults_major,
        faults_minor: counters.faults_minor,
        faults_zero: counters.faults_zero,
        reads: gauges.requests_read,
        pages_read: counters.pages_read,
        pages_written: counters.pages_cleaned,
        pages_wasted: counters.pages_wasted,
        pages_failed: gauges.pages_failed,
    };
    // SAFETY: the caller's contract.
    unsafe { stats.write(found) };
}

/// See the header.
///
/// # Safety
///
/// `region` is null, or was created and is not destroyed, and no thread touches its memory any
/// more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn foreread_region_destroy(region: *mut Region) {
    if !region.is_null() {
        // SAFETY: `foreread_region_create` returned it; the rest is the caller's contract.
        let region = unsafe { Box::from_raw(region) };
        caught(|| {
            drop(region);
            Ok(())
        });
    }
}

/// See the header.
// SAFETY: no other function of this library has the name.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn foreread_last_error() -> *const c_char {
    LAST_ERROR.with_borrow(|error| error.as_ptr())
}

fn told(work: impl FnOnce() -> Result<(), Error>) -> c_int {
    if caught(work).is_some() { 0 } else { -1 }
}

/// Runs `work`. An error or a panic is kept as the thread's last error.
fn caught<T>(work: impl FnOnce() -> Result<T, Error>) -> Option<T> {
    let panicked = |_| Err(Error::Invalid { what: "an error in foreread itself (a panic): see standard error" });
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(panicked);
    result.map_err(|error| keep(&error)).ok()
}

fn keep(error: &Error) {
    let text = CString::new(error.to_string().replace('\0', " ")).unwrap_or_default();
    LAST_ERROR.set(text);
}

const FLAG_ENCRYPTED: u32 = 1;
const FLAG_KERNEL_FAULTS: u32 = 2;
const FLAG_NO_IO_URING: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_to_c() {
        assert_eq!(told(|| panic!("planted")), -1);
        // SAFETY: the text lives until the next call in this thread.
        let text = unsafe { CStr::from_ptr(foreread_last_error()) };
        assert!(text.to_str().expect("text").contains("panic"));
    }
}
