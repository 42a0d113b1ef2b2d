//! A client's connection: TCP or TLS, with a way to end it badly.
//!
//! A response that is to be cut asks for that on the connection ([`Cut`]); the connection ends
//! when everything before the cut has gone into the socket, so where a client sees the cut does
//! not depend on timing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// How a connection is to end, shared by the connection and its responses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cut(Arc<AtomicU8>);

const OPEN: u8 = 0;
const CLOSE: u8 = 1;
const RESET: u8 = 2;

impl Cut {
    /// Ends the connection in order (FIN) once what was written is in the socket.
    pub(crate) fn close(&self) {
        self.0.store(CLOSE, Ordering::Relaxed);
    }

    /// Ends it with a reset (RST), which may overtake bytes on their way.
    pub(crate) fn reset(&self) {
        self.0.store(RESET, Ordering::Relaxed);
    }

    fn state(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The connection.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: Stream,
    cut: Cut,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    pub(crate) fn plain(stream: TcpStream, cut: Cut) -> Self {
        Self { stream: Stream::Plain(stream), cut }
    }

    pub(crate) fn tls(stream: TlsStream<TcpStream>, cut: Cut) -> Self {
        Self { stream: Stream::Tls(Box::new(stream)), cut }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.cut.state() == RESET {
            let tcp = match &self.stream {
                Stream::Plain(tcp) => tcp,
                Stream::Tls(tls) => tls.get_ref().0,
            };
            // Closing a socket that does not linger sends RST. If that fails, it is a FIN.
            let _ = tcp.set_zero_linger();
        }
    }
}

/// Calls the same method of whichever stream it is.
macro_rules! stream {
    ($wire:expr, $method:ident $(, $argument:expr)*) => {
        match &mut $wire.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).$method($($argument),*),
        }
    };
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        stream!(self, poll_read, cx, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        stream!(self, poll_write, cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        stream!(self, poll_write_vectored, cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(stream!(self.as_mut(), poll_flush, cx))?;
        // HTTP flushes when all that it has is written: the place of the cut.
        if self.cut.state() == OPEN {
            Poll::Ready(Ok(()))
        } else {
            Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()))
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        stream!(self, poll_shutdown, cx)
    }
}
