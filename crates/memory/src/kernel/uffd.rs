//! A userfaultfd: the kernel reports touches of absent pages, and is told what to put there.
//!
//! ```text
//!   a thread touches ──> the kernel suspends it ──> Touch { address, thread, how }
//!                                                                  │ read_touches
//!                                                                  v
//!   it goes on, or is sent SIGBUS <── copy, protect, wake, poison <── the thread that answers
//! ```
//!
//! User-mode-only by default, which every user may have. A system call that is given absent memory
//! then fails with `EFAULT`; the privileged kind answers those touches as well. The kernel takes
//! ranges by address and does not check their owner: code that holds a userfaultfd must own the
//! range that it registers.

#![allow(unsafe_code, reason = "requests to the kernel that carry addresses")]

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use linux_raw_sys::general as raw;
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, opcode};
use rustix::mm::UserfaultfdFlags;

use crate::error::{DEVICE, Error};

/// How a page was touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// A read of an absent page.
    Read,
    /// A write to an absent page.
    Write,
    /// A write to a page that is there but protected.
    WriteProtected,
}

/// A touch whose thread waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Touch {
    /// The address touched.
    pub(crate) address: u64,
    /// The thread's number in the kernel.
    pub(crate) thread: u32,
    pub(crate) how: How,
}

/// Addresses `[start, start + len)`; whole pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

/// How far [`Uffd::take_out`] came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Bytes moved, from the start of the range.
    pub(crate) bytes: u64,
    /// Why the page behind them was not moved.
    pub(crate) stopped: Option<Errno>,
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Uffd {
    fd: OwnedFd,
    can_poison: bool,
    can_move: bool,
}

impl Uffd {
    /// A userfaultfd for memory of this process. `kernel`: reports touches by the kernel, too,
    /// while it works for a thread of this process.
    ///
    /// Errors: [`Error::Forbidden`], with advice; [`Error::Unsupported`] where the kernel is too
    /// old; [`Error::PageSize`].
    pub(crate) fn new(kernel: bool) -> Result<Self, Error> {
        check_page_size(rustix::param::page_size())?;
        for (can_poison, can_move) in [(true, true), (true, false), (false, false)] {
            let poison = if can_poison { u64::from(raw::UFFD_FEATURE_POISON) } else { 0 };
            let move_ = if can_move { u64::from(raw::UFFD_FEATURE_MOVE) } else { 0 };
            // A descriptor takes one handshake: the next needs another descriptor.
            let fd = Self::open(kernel)?;
            match Self::handshake(&fd, FEATURES | poison | move_) {
                Ok(()) => return Ok(Self { fd, can_poison, can_move }),
                Err(Errno::INVAL) => {}
                Err(_) => break,
            }
        }
        Err(Error::Unsupported)
    }

    /// Whether the kernel says that it has [`Uffd::take_out`] (Linux 6.8).
    pub(crate) fn can_move(&self) -> bool {
        self.can_move
    }

    fn open(kernel: bool) -> Result<OwnedFd, Error> {
        let user = if kernel { 0 } else { raw::UFFD_USER_MODE_ONLY };
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK | UserfaultfdFlags::from_bits_retain(user);
        // SAFETY: no memory is registered yet, and the descriptor alone changes none.
        let made = unsafe { rustix::mm::userfaultfd(flags) };
        let refused = match made {
            Ok(fd) => return Ok(fd),
            Err(Errno::INVAL) => return Err(Error::Unsupported),
            Err(errno) => errno,
        };
        // Opening the device depends on its file permissions alone. A userfaultfd from it may
        // always answer for the kernel.
        let device = OpenOptions::new().read(true).write(true).open(DEVICE);
        let device = device.map_err(|_| Error::Forbidden { kernel, cause: refused.into() })?;
        // SAFETY: the request takes flags by value and returns a new descriptor.
        let made = unsafe { libc::ioctl(device.as_raw_fd(), NEW, flags.bits()) };
        if made < 0 {
            return Err(Error::Forbidden { kernel, cause: io::Error::last_os_error() });
        }
        // SAFETY: as above: the descriptor is new, so this is its only owner.
        Ok(unsafe { OwnedFd::from_raw_fd(made) })
    }

    fn handshake(fd: &OwnedFd, features: u64) -> Result<(), Errno> {
        let mut api = raw::uffdio_api { api: u64::from(raw::UFFD_API), features, ioctls: 0 };
        // SAFETY: the structure holds versions and features only.
        unsafe { request::<API, _>(fd.as_fd(), &mut api) }
    }

    /// Reports touches of `range` from now on.
    ///
    /// # Safety
    ///
    /// The range belongs to the caller, and is private anonymous memory that the caller keeps
    /// mapped while this descriptor is used.
    pub(crate) unsafe fn register(&self, range: Range) -> Result<(), Errno> {
        let mode = u64::from(raw::UFFDIO_REGISTER_MODE_MISSING | raw::UFFDIO_REGISTER_MODE_WP);
        let mut register = raw::uffdio_register { range: range.into(), mode, ioctls: 0 };
        // SAFETY: the range is the caller's own memory, and its pages become absent as the caller
        // wants.
        unsafe { request::<REGISTER, _>(self.fd.as_fd(), &mut register) }
    }

    /// Appends the touches since the last call. Never waits, unless [`Uffd::wait_in_read`] was
    /// called.
    pub(crate) fn read_touches(&self, touches: &mut Vec<Touch>) {
        let mut messages = [[0_u64; MESSAGE_BYTES / 8]; MESSAGES_MAX];
        loop {
            // SAFETY: any bytes are an array of integers, and the kernel writes whole messages
            // only.
            let buffer: &mut [u8] =
                unsafe { std::slice::from_raw_parts_mut(messages.as_mut_ptr().cast(), size_of_val(&messages)) };
            let got = match rustix::io::read(&self.fd, buffer) {
                Ok(bytes) => bytes / MESSAGE_BYTES,
                Err(Errno::INTR) => continue,
                Err(_) => 0,
            };
            touches.extend(messages[..got].iter().filter_map(Touch::of));
            if got < MESSAGES_MAX {
                return;
            }
        }
    }

    /// From now on [`Uffd::read_touches`] waits until there is a touch.
    pub(crate) fn wait_in_read(&self) -> Result<(), Errno> {
        let flags = rustix::fs::fcntl_getfl(&self.fd)?;
        rustix::fs::fcntl_setfl(&self.fd, flags - rustix::fs::OFlags::NONBLOCK)
    }

    /// Copies the bytes at `from` to the absent pages `to`, and wakes the threads that wait there.
    /// `protect`: the first write to each page is reported.
    ///
    /// A page that is already there stays as it is. Returns the bytes that were not.
    ///
    /// # Safety
    ///
    /// `[from, from + to.len)` is readable memory that does not change meanwhile; `to` lies in a
    /// range that the caller registered.
    pub(crate) unsafe fn copy(&self, from: u64, to: Range, protect: bool) -> Result<u64, Errno> {
        let mode = if protect { u64::from(raw::UFFDIO_COPY_MODE_WP) } else { 0 };
        let (mut done, mut there) = (0, 0);
        while done < to.len {
            let mut copy =
                raw::uffdio_copy { dst: to.start + done, src: from + done, len: to.len - done, mode, copy: 0 };
            // SAFETY: the caller's contract; the kernel writes absent pages only.
            match unsafe { request::<COPY, _>(self.fd.as_fd(), &mut copy) } {
                Ok(()) => done = to.len,
                // The process's memory map is being changed, or the copy stopped on its way.
                Err(Errno::AGAIN) => done += copy.copy.max(0) as u64,
                Err(Errno::EXIST) => {
                    done += copy.copy.max(0) as u64;
                    self.wake(Range { start: to.start + done, len: PAGE })?;
                    done += PAGE;
                    there += PAGE;
                }
                // The program gave parts of the range a protection or advice of their own, and the
                // kernel copies inside one part only.
                Err(Errno::NOENT) if to.len - done > PAGE => {
                    for start in (to.start + done..to.start + to.len).step_by(PAGE as usize) {
                        let page = Range { start, len: PAGE };
                        // SAFETY: the caller's contract, for one of the pages.
                        there += PAGE - unsafe { self.copy(from + (start - to.start), page, protect)? };
                    }
                    done = to.len;
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(to.len - there)
    }

    /// Moves pages: `from` is absent afterwards, and `to` has what it held. The step is atomic for
    /// each page: no write is lost in between, and a page that a device may still write to is not
    /// moved (`EBUSY`). So is one that another process or the kernel shares. `ENOENT`: the page is
    /// absent.
    ///
    /// # Safety
    ///
    /// Both ranges lie in ranges that the caller registered; `to` is absent, and no code relies on
    /// its contents.
    pub(crate) unsafe fn take_out(&self, from: Range, to: u64) -> Moved {
        let mut done = 0;
        while done < from.len {
            let mut request = raw::uffdio_move {
                dst: to + done,
                src: from.start + done,
                len: from.len - done,
                mode: u64::from(MOVE_MODE_DONTWAKE),
                move_: 0,
            };
            // SAFETY: the caller's contract.
            match unsafe { self::request::<MOVE, _>(self.fd.as_fd(), &mut request) } {
                Ok(()) => done = from.len,
                // The process's memory map is being changed, or the move stopped on its way.
                Err(Errno::AGAIN) => done += request.move_.max(0) as u64,
                Err(errno) => return Moved { bytes: done, stopped: Some(errno) },
            }
        }
        Moved { bytes: done, stopped: None }
    }

    /// Protects pages that are there; or takes the protection away and wakes the threads that wait
    /// there.
    ///
    /// # Safety
    ///
    /// `range` lies in a range that the caller registered.
    pub(crate) unsafe fn protect(&self, range: Range, protect: bool) -> Result<(), Errno> {
        let mode = if protect { u64::from(WRITEPROTECT_MODE_WP) } else { 0 };
        loop {
            let mut change = raw::uffdio_writeprotect { range: range.into(), mode };
            // SAFETY: the caller's contract; contents stay.
            match unsafe { request::<WRITEPROTECT, _>(self.fd.as_fd(), &mut change) } {
                Err(Errno::AGAIN) => {}
                // As for `copy`.
                Err(Errno::NOENT) if range.len > PAGE => {
                    for start in (range.start..range.start + range.len).step_by(PAGE as usize) {
                        // SAFETY: the caller's contract, for one of the pages.
                        unsafe { self.protect(Range { start, len: PAGE }, protect)? };
                    }
                    return Ok(());
                }
                result => return result,
            }
        }
    }

    /// Wakes the threads that wait in `range`: each touches its page again.
    pub(crate) fn wake(&self, range: Range) -> Result<(), Errno> {
        let mut range = raw::uffdio_range::from(range);
        // SAFETY: it changes no memory.
        unsafe { request::<WAKE, _>(self.fd.as_fd(), &mut range) }
    }

    /// Sends SIGBUS to any thread that touches `range`, now or later. `false` where the kernel
    /// cannot (before Linux 6.6).
    ///
    /// # Safety
    ///
    /// `range` is absent, and lies in a range that the caller registered.
    pub(crate) unsafe fn poison(&self, range: Range) -> bool {
        if !self.can_poison {
            return false;
        }
        let mut done = 0;
        loop {
            let rest = Range { start: range.start + done, len: range.len - done };
            let mut poison = raw::uffdio_poison { range: rest.into(), mode: 0, updated: 0 };
            // SAFETY: the caller's contract.
            match unsafe { request::<POISON, _>(self.fd.as_fd(), &mut poison) } {
                Ok(()) => return true,
                Err(Errno::AGAIN) => done += poison.updated.max(0) as u64,
                // As for `copy`.
                Err(Errno::NOENT) if rest.len > PAGE => {
                    return (rest.start..rest.start + rest.len).step_by(PAGE as usize).all(|start| {
                        // SAFETY: the caller's contract, for one of the pages.
                        unsafe { self.poison(Range { start, len: PAGE }) }
                    });
                }
                Err(_) => return false,
            }
        }
    }
}

impl AsFd for Uffd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Range> for raw::uffdio_range {
    fn from(range: Range) -> Self {
        Self { start: range.start, len: range.len }
    }
}

impl Touch {
    /// The page touched.
    pub(crate) fn page(&self) -> Range {
        Range { start: self.address / PAGE * PAGE, len: PAGE }
    }

    /// Parses `struct uffd_msg` as words: the event's number in the first byte, then flags,
    /// address and thread.
    fn of(message: &[u64; MESSAGE_BYTES / 8]) -> Option<Self> {
        let event = message[0].to_ne_bytes()[0];
        if event != PAGEFAULT {
            return None;
        }
        let flags = message[1];
        let has = |flag: u32| flags & u64::from(flag) != 0;
        let how = if has(raw::UFFD_PAGEFAULT_FLAG_WP) {
            How::WriteProtected
        } else if has(raw::UFFD_PAGEFAULT_FLAG_WRITE) {
            How::Write
        } else {
            How::Read
        };
        let thread = message[3].to_ne_bytes();
        let thread = u32::from_ne_bytes([thread[0], thread[1], thread[2], thread[3]]);
        Some(Self { address: message[2], thread, how })
    }
}

/// What is copied, protected and counted here is pages of 4096 bytes: a larger page would be asked
/// for in parts, which the kernel refuses at the first touch.
fn check_page_size(bytes: usize) -> Result<(), Error> {
    if bytes as u64 == PAGE { Ok(()) } else { Err(Error::PageSize { bytes }) }
}

/// Blocks all signals in the calling thread, which answers faults: a handler that touched the
/// region would wait for the thread that it interrupts.
pub(crate) fn take_no_signals() {
    // SAFETY: a set of signals is plain memory. The first call fills it; the second reads it and
    // changes the mask of this thread alone.
    unsafe {
        let mut all = std::mem::zeroed::<libc::sigset_t>();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
}

/// One ioctl with a `struct uffdio_*`, which the kernel reads and writes back, even where it
/// fails.
struct Request<'a, const OPCODE: Opcode, T>(&'a mut T);

// SAFETY: the opcode belongs to this structure (see the constants below), which lives and is
// writable throughout the call.
unsafe impl<const OPCODE: Opcode, T> Ioctl for Request<'_, OPCODE, T> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        OPCODE
    }

    fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
        std::ptr::from_mut(self.0).cast()
    }

    // SAFETY: nothing is read from the pointer: the kernel wrote to the structure that the caller
    // has.
    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut rustix::ffi::c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// # Safety
///
/// The request does to the addresses in `value` what the kernel documents; the caller answers for
/// it.
unsafe fn request<const OPCODE: Opcode, T>(fd: BorrowedFd<'_>, value: &mut T) -> Result<(), Errno> {
    // SAFETY: the caller's contract.
    unsafe { rustix::ioctl::ioctl(fd, Request::<OPCODE, T>(value)) }
}

const TYPE: u8 = raw::UFFDIO as u8;
const API: Opcode = opcode::read_write::<raw::uffdio_api>(TYPE, raw::_UFFDIO_API as u8);
const REGISTER: Opcode = opcode::read_write::<raw::uffdio_register>(TYPE, raw::_UFFDIO_REGISTER as u8);
const WAKE: Opcode = opcode::read::<raw::uffdio_range>(TYPE, raw::_UFFDIO_WAKE as u8);
const COPY: Opcode = opcode::read_write::<raw::uffdio_copy>(TYPE, raw::_UFFDIO_COPY as u8);
const WRITEPROTECT: Opcode = opcode::read_write::<raw::uffdio_writeprotect>(TYPE, raw::_UFFDIO_WRITEPROTECT as u8);
const MOVE: Opcode = opcode::read_write::<raw::uffdio_move>(TYPE, raw::_UFFDIO_MOVE as u8);
const POISON: Opcode = opcode::read_write::<raw::uffdio_poison>(TYPE, raw::_UFFDIO_POISON as u8);

/// `UFFDIO_WRITEPROTECT_MODE_WP`.
const WRITEPROTECT_MODE_WP: u32 = 1;

/// `UFFDIO_MOVE_MODE_DONTWAKE`.
const MOVE_MODE_DONTWAKE: u32 = 1;

/// `UFFD_EVENT_PAGEFAULT`.
const PAGEFAULT: u8 = raw::UFFD_EVENT_PAGEFAULT as u8;

/// Features that every kernel must have: Linux 5.7; the user-mode-only flag needs 5.11.
const FEATURES: u64 = (raw::UFFD_FEATURE_PAGEFAULT_FLAG_WP | raw::UFFD_FEATURE_THREAD_ID) as u64;

/// `USERFAULTFD_IOC_NEW`.
const NEW: libc::c_ulong = 0xaa00;

const PAGE: u64 = foreread_policy::PAGE_BYTES;

/// Bytes of `struct uffd_msg`.
const MESSAGE_BYTES: usize = 32;

/// Messages read by one system call. Lower: more calls when many threads wait. Higher: a larger
/// buffer on the stack. More than 32 threads rarely wait at once.
const MESSAGES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_with_large_pages_is_refused() {
        assert!(check_page_size(4096).is_ok());
        for bytes in [16 << 10, 64 << 10] {
            let refused = check_page_size(bytes).expect_err("refused").to_string();
            assert!(refused.contains(&bytes.to_string()) && refused.contains("4096"), "{refused}");
        }
    }

    #[test]
    fn a_message_is_read_as_the_kernel_lays_it_out() {
        let message = |flags: u32| [u64::from_ne_bytes([PAGEFAULT, 0, 0, 0, 0, 0, 0, 0]), u64::from(flags), 0x7000, 42];
        let how = |flags| Touch::of(&message(flags)).map(|touch| touch.how);
        assert_eq!(size_of::<raw::uffd_msg>(), MESSAGE_BYTES);
        assert_eq!(Touch::of(&message(0)), Some(Touch { address: 0x7000, thread: 42, how: How::Read }));
        assert_eq!(how(raw::UFFD_PAGEFAULT_FLAG_WRITE), Some(How::Write));
        assert_eq!(how(raw::UFFD_PAGEFAULT_FLAG_WRITE | raw::UFFD_PAGEFAULT_FLAG_WP), Some(How::WriteProtected));
        assert_eq!(Touch::of(&[0x13, 0, 0, 0]), None);
    }
}
