//! A socket between two processes of one user.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, sockopt,
};

use crate::kept::Kept;

/// Bytes that are taken from a socket at a time. Lower costs system calls; higher costs memory for
/// each connection.
pub(crate) const RECEIVED_BYTES: usize = 64 << 10;

/// How long a thread looks for what it expects soon, 30 µs: about what a sleep and a wake take.
/// Lower: both ends sleep between two reads. Higher: an idle end takes more of a core for nothing.
const SOON: Duration = Duration::from_micros(30);

/// A new one.
pub(crate) fn stream() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// Whether the process at the other end is of this user.
pub(crate) fn is_ours(socket: &Kept) -> io::Result<bool> {
    Ok(sockopt::socket_peercred(socket)?.uid == rustix::process::geteuid())
}

/// Whether the other end is gone. Does not wait.
pub(crate) fn has_ended(socket: &Kept) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::RDHUP)];
    let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    rustix::event::poll(&mut polled, Some(&Timespec::default())).is_ok() && polled[0].revents().intersects(ended)
}

/// Sends all of `bytes`. Errors: the other end is gone, or takes nothing.
pub(crate) fn send_all(socket: &Kept, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Sends all of `bytes`, and a descriptor with the first of them.
pub(crate) fn send_with(socket: &Kept, bytes: &[u8], descriptor: &OwnedFd) -> io::Result<()> {
    let descriptors = [descriptor.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let sent = rustix::net::sendmsg(socket, &[io::IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    send_all(socket, &bytes[sent..])
}

/// Appends what has come to `bytes`, once something has. Returns how many bytes: none at the end.
pub(crate) fn receive(socket: &Kept, bytes: &mut Vec<u8>) -> Result<usize, Errno> {
    bytes.reserve(RECEIVED_BYTES);
    loop {
        match rustix::net::recv(socket, rustix::buffer::spare_capacity(bytes), RecvFlags::empty()) {
            Ok((_, count)) => return Ok(count),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The same, where something is expected within microseconds: looks for it for a moment before the
/// thread sleeps, and lets other threads run in between.
pub(crate) fn receive_soon(socket: &Kept, bytes: &mut Vec<u8>) -> Result<usize, Errno> {
    bytes.reserve(RECEIVED_BYTES);
    let began = Instant::now();
    loop {
        match rustix::net::recv(socket, rustix::buffer::spare_capacity(bytes), RecvFlags::DONTWAIT) {
            Ok((_, count)) => return Ok(count),
            Err(Errno::WOULDBLOCK) if began.elapsed() < SOON => std::thread::yield_now(),
            Err(Errno::WOULDBLOCK) => return receive(socket, bytes),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The same, with a descriptor if one was sent. More than one are closed.
pub(crate) fn receive_with(
    socket: &Kept,
    bytes: &mut Vec<u8>,
    descriptor: &mut Option<OwnedFd>,
) -> Result<usize, Errno> {
    let mut room = [0; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let flags = RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(socket, &mut [io::IoSliceMut::new(&mut room)], &mut ancillary, flags) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            *descriptor = descriptors.last();
        }
    }
    bytes.extend_from_slice(&room[..received.bytes]);
    Ok(received.bytes)
}
