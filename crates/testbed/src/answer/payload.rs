//! The bytes of a response, before the device and the wire: given bytes, a range of an object,
//! that range compressed, or the body that another server sends.

use std::io::{self, Write};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body::Body;
use hyper::body::Incoming;

use crate::objects::Reader;

/// The source of the bytes.
#[derive(Debug)]
pub(crate) enum Payload {
    Bytes(Bytes),
    Object {
        reader: Reader,
        range: Range<u64>,
    },
    Gzip {
        reader: Reader,
        range: Range<u64>,
        encoder: Option<GzEncoder<Vec<u8>>>,
    },
    /// A range of another server's object, whose next bytes are in `piece`, and then in `body`.
    Upstream {
        body: Incoming,
        range: Range<u64>,
        piece: Bytes,
    },
}

impl Payload {
    pub(crate) fn gzip(reader: Reader, range: Range<u64>) -> Self {
        Self::Gzip { reader, range, encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())) }
    }

    /// The number of bytes; `None` if it is unknown until the end.
    pub(crate) fn len(&self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::Object { range, .. } | Self::Upstream { range, .. } => Some(range.end - range.start),
            Self::Gzip { .. } => None,
        }
    }

    /// How many bytes the device must carry.
    pub(crate) fn device_bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Object { range, .. } | Self::Gzip { range, .. } | Self::Upstream { range, .. } => {
                range.end - range.start
            }
        }
    }

    /// The part of an object that is sent as it is.
    pub(crate) fn part(&self) -> Option<&Range<u64>> {
        match self {
            Self::Object { range, .. } | Self::Upstream { range, .. } => Some(range),
            Self::Bytes(_) | Self::Gzip { .. } => None,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Object { range, .. } | Self::Upstream { range, .. } => range.is_empty(),
            Self::Gzip { encoder, .. } => encoder.is_none(),
        }
    }

    /// The next piece that uses up at most `budget` (not 0) of what the device granted, and how
    /// much it uses up. Only another server's bytes may have to be waited for.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>, budget: u64) -> Poll<io::Result<(Bytes, u64)>> {
        let Self::Upstream { body, range, piece } = self else { return Poll::Ready(self.next(budget)) };
        while piece.is_empty() {
            let frame = ready!(Pin::new(&mut *body).poll_frame(cx)).ok_or(io::ErrorKind::UnexpectedEof)?;
            *piece = frame.map_err(io::Error::other)?.into_data().unwrap_or_default();
        }
        let piece = piece.split_to(piece.len().min(budget.min(range.end - range.start) as usize));
        let used = piece.len() as u64;
        range.start += used;
        Poll::Ready(Ok((piece, used)))
    }

    fn next(&mut self, budget: u64) -> io::Result<(Bytes, u64)> {
        match self {
            Self::Upstream { .. } => unreachable!("polled"),
            Self::Bytes(bytes) => {
                let piece = bytes.split_to(bytes.len().min(budget as usize));
                let used = piece.len() as u64;
                Ok((piece, used))
            }
            Self::Object { reader, range } => {
                let piece = reader.chunk(range.start, budget.min(range.end - range.start))?;
                range.start += piece.len() as u64;
                let used = piece.len() as u64;
                Ok((piece, used))
            }
            Self::Gzip { reader, range, encoder } => {
                let Some(gzip) = encoder else { return Ok((Bytes::new(), 0)) };
                if range.is_empty() {
                    let gzip = encoder.take().expect("just seen");
                    return Ok((gzip.finish()?.into(), 0));
                }
                let piece = reader.chunk(range.start, budget.min(range.end - range.start))?;
                range.start += piece.len() as u64;
                gzip.write_all(&piece)?;
                Ok((std::mem::take(gzip.get_mut()).into(), piece.len() as u64))
            }
        }
    }
}
