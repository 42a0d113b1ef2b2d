//! Tells systemd that the mount answers, so that a unit which needs it is started after that.
//!
//! Source: `sd_notify(3)`, "Notes": one datagram to the socket that `NOTIFY_SOCKET` names.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells it, if this process was started by a unit of `Type=notify`.
pub(crate) fn ready() -> io::Result<()> {
    std::env::var_os("NOTIFY_SOCKET").map_or(Ok(()), |name| tell(&name))
}

fn tell(name: &OsStr) -> io::Result<()> {
    let address = match name.as_bytes() {
        // A name that is in no directory.
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> Vec<u8> {
        let mut bytes = [0; 64];
        let len = socket.recv(&mut bytes).expect("a datagram");
        bytes[..len].to_vec()
    }

    #[test]
    fn both_kinds_of_names_are_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        tell(path.as_os_str()).expect("told");
        assert_eq!(heard(&socket), b"READY=1");

        let name = format!("foreread-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let socket = UnixDatagram::bind_addr(&address).expect("a socket");
        tell(format!("@{name}").as_ref()).expect("told");
        assert_eq!(heard(&socket), b"READY=1");
    }

    #[test]
    fn a_socket_that_is_gone_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(tell(dir.path().join("gone").as_os_str()).is_err());
    }
}
