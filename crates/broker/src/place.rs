//! Where processes of a user meet: a folder with a lock and a socket for each identity.
//!
//! ```text
//!   $XDG_RUNTIME_DIR/foreread, else /tmp/foreread-UID      0700, of this user
//!     1-0.1.0-HASH.lock      locked by the process that serves, as long as it lives
//!     1-0.1.0-HASH.sock      its socket
//!
//!   elect ── the lock is free ──> a new socket: Serves
//!     └── it is not ──> connect ── accepted, and welcome ──> Joins
//!                          ├── refused, or silent ──> Alone
//!                          └── nothing there yet, or the server has ended ──> again
//! ```
//!
//! The kernel gives a lock back when its process ends, however that is, so a successor is certain.
//! The lock's file is never removed: two processes could lock two files of one name. The name has
//! the versions of protocol and program: another version meets elsewhere.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, sockopt};

use crate::area::Area;
use crate::identity::Identity;
use crate::kept::Kept;
use crate::socket::{is_ours, receive, send_with, stream};
use crate::wire::{Asked, PROTOCOL, Told, first_frame};

/// The version of this crate.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long an election waits between its attempts. They grow to 64 ms; all of them together are
/// about two seconds, which a process needs between its lock and its socket on a busy machine.
/// Fewer: processes read alone that could share. More: a lock that is held without a socket delays
/// the first read.
const ATTEMPTS: u32 = 36;

/// Clients that may wait to be accepted. Lower: a crowd of workers that start together is turned
/// away; higher has no use.
const BACKLOG: i32 = 1024;

/// What became of an election.
pub(crate) enum Elected {
    /// This process serves.
    Serves(Seat),
    /// Another one does: a connection to it.
    Joins(Joined),
    /// No engine can be shared, for this reason.
    Alone(String),
}

/// The right to serve.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) listener: Kept,
    socket: PathBuf,
    #[expect(dead_code, reason = "held until it is dropped")]
    lock: Kept,
}

impl Drop for Seat {
    fn drop(&mut self) {
        // While the lock is held: the socket is this one's.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        let _ = rustix::fs::unlink(&self.socket);
    }
}

/// A connection to a server that has said welcome.
pub(crate) struct Joined {
    pub(crate) socket: Kept,
    pub(crate) area: Area,
}

/// The folder that processes of this user meet in.
///
/// Errors: it is not to be had, or is not this user's alone.
fn folder(chosen: Option<&Path>) -> io::Result<PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    let path = match (chosen, std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)) {
        (Some(chosen), _) => chosen.to_owned(),
        (None, Some(runtime)) if runtime.is_absolute() && is_private(&runtime, uid).is_ok() => runtime.join("foreread"),
        (None, _) => PathBuf::from(format!("/tmp/foreread-{uid}")),
    };
    match rustix::fs::mkdir(&path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    is_private(&path, uid)?;
    Ok(path)
}

/// Errors: `path` is no folder, or another user's, or others may look into it.
fn is_private(path: &Path, uid: u32) -> io::Result<()> {
    let stat = rustix::fs::lstat(path)?;
    let is_folder = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
    let of_others = Mode::from_raw_mode(stat.st_mode) & (Mode::RWXG | Mode::RWXO);
    if is_folder && stat.st_uid == uid && of_others.is_empty() {
        return Ok(());
    }
    let text = format!("{} is not a folder of this user alone", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// Finds out whether this process serves, or joins the one that does. Waits for neither storage
/// nor a process that is slow for long: at most `silence` for a welcome.
pub(crate) fn elect(
    identity: &Identity,
    chosen: Option<&Path>,
    memory_bytes: Option<u64>,
    silence: Duration,
) -> Elected {
    let place = folder(chosen).and_then(|folder| {
        let name = folder.join(format!("{PROTOCOL}-{VERSION}-{}", identity.name()));
        let socket = name.with_added_extension("sock");
        let address = SocketAddrUnix::new(&socket)?;
        Ok((name.with_added_extension("lock"), socket, address))
    });
    let (lock, socket, address) = match place {
        Ok(place) => place,
        Err(error) => return Elected::Alone(error.to_string()),
    };
    for attempt in 0..ATTEMPTS {
        match take_seat(&lock, &socket, &address) {
            Ok(Some(seat)) => return Elected::Serves(seat),
            Ok(None) => {}
            Err(error) => return Elected::Alone(format!("{}: {error}", lock.display())),
        }
        match join(&address, identity, memory_bytes, silence) {
            Ok(Ok(joined)) => return Elected::Joins(joined),
            Ok(Err(refused)) => return Elected::Alone(refused),
            Err(error) if will_pass(&error) => {}
            Err(error) => return Elected::Alone(format!("{}: {error}", socket.display())),
        }
        std::thread::sleep(Duration::from_millis(1 << attempt.min(6)));
    }
    Elected::Alone(format!("{} is locked, and no process serves", lock.display()))
}

/// Whether a server is about to come, or has just ended.
fn will_pass(error: &io::Error) -> bool {
    use io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof
    )
}

/// The right to serve, if no process has it.
fn take_seat(lock: &Path, socket: &Path, address: &SocketAddrUnix) -> io::Result<Option<Seat>> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let lock = Kept::new(rustix::fs::open(lock, flags, Mode::RUSR | Mode::WUSR)?)?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    match rustix::fs::unlink(socket) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let listener = Kept::new(stream()?)?;
    rustix::net::bind(&listener, address)?;
    rustix::fs::chmod(socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(Some(Seat { listener, socket: socket.to_owned(), lock }))
}

/// Connects to the process that serves, which says welcome, or why not.
fn join(
    address: &SocketAddrUnix,
    identity: &Identity,
    memory_bytes: Option<u64>,
    silence: Duration,
) -> io::Result<Result<Joined, String>> {
    let socket = Kept::new(stream()?)?;
    rustix::net::connect(&socket, address)?;
    if !is_ours(&socket)? {
        return Ok(Err("the process that serves is another user's".to_owned()));
    }
    for timeout in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        sockopt::set_socket_timeout(&socket, timeout, Some(silence))?;
    }
    let (area, descriptor) = Area::create()?;
    let mut hello = Vec::new();
    let (version, identity) = (VERSION.to_owned(), identity.text());
    Asked::Hello { version, identity, memory_bytes }.encode(0, &mut hello);
    send_with(&socket, &hello, &descriptor)?;
    let mut bytes = Vec::new();
    loop {
        match first_frame(&bytes) {
            Ok(None) => {}
            Ok(Some((frame, _))) => match Told::decode(&frame) {
                Ok(Told::Welcome) => return Ok(Ok(Joined { socket, area })),
                Ok(Told::Refused(why)) => return Ok(Err(why)),
                _ => return Ok(Err("the process that serves speaks another language".to_owned())),
            },
            Err(_) => return Ok(Err("the process that serves speaks another language".to_owned())),
        }
        let count = match receive(&socket, &mut bytes) {
            Ok(count) => count,
            Err(Errno::WOULDBLOCK) => return Ok(Err("the process that serves is silent".to_owned())),
            Err(error) => return Err(error.into()),
        };
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_of_others_is_not_used() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = dir.path().join("own");
        assert_eq!(folder(Some(&own)).expect("made").as_path(), own);
        assert!(folder(Some(&own)).is_ok(), "there already");
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o750)).expect("permissions");
        assert!(folder(Some(&own)).is_err());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).expect("a link");
        assert!(folder(Some(&link)).is_err());
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("a file");
        assert!(folder(Some(&file)).is_err());
    }

    #[test]
    fn one_seat_is_there_and_comes_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let (lock, socket) = (dir.path().join("a.lock"), dir.path().join("a.sock"));
        let address = SocketAddrUnix::new(&socket).expect("an address");
        let seat = take_seat(&lock, &socket, &address).expect("a lock").expect("a seat");
        let mode = std::fs::metadata(&socket).expect("a socket").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(take_seat(&lock, &socket, &address).expect("a lock").is_none());
        drop(seat);
        assert!(!socket.exists() && lock.exists());
        assert!(take_seat(&lock, &socket, &address).expect("a lock").is_some());
    }
}
