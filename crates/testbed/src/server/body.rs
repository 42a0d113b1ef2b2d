//! The body of a response: paced by the device, cut or stalled by a fault.
//!
//! ```text
//!   object, bytes, gzip, upstream ──> paced by the device ──> cut, stalled or passed ──> HTTP
//! ```

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::Sleep;

use super::pacer::Pass;
use super::wire::Cut;
use crate::answer::payload::Payload;
use crate::counters::{Accounts, Entry};
use crate::objects::content::BLOCK_BYTES;

/// The effect of a fault within a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Twist {
    Reset,
    Close,
    Stall(Option<Duration>),
}

/// The body of a response.
#[derive(Debug)]
pub(crate) struct Body {
    payload: Payload,
    /// What `Content-Length` says.
    length: Option<u64>,
    /// `None` where the device has no part in it: the control API.
    course: Option<Box<Course>>,
}

/// The progress of a body.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) pass: Pass,
    pub(crate) accounts: Arc<Accounts>,
    /// The request counts as in flight until the body is dropped.
    pub(crate) _entry: Entry,
    pub(crate) cut: Cut,
    /// The effect, and after how many bytes.
    pub(crate) twist: Option<(u64, Twist)>,
    /// Granted by the device, not sent.
    pub(crate) granted: u64,
    /// Sent until now.
    pub(crate) sent: u64,
    pub(crate) stalled: Option<Pin<Box<Sleep>>>,
}

impl Body {
    /// A body that is sent at once.
    pub(crate) fn unpaced(bytes: impl Into<Bytes>) -> Self {
        let payload = Payload::Bytes(bytes.into());
        Self { length: payload.len(), payload, course: None }
    }

    pub(crate) fn paced(payload: Payload, course: Course) -> Self {
        Self { length: payload.len(), payload, course: Some(Box::new(course)) }
    }
}

impl Course {
    /// Ready when the twist is over or not yet reached, with the bytes before it.
    fn poll_twist(&mut self, cx: &mut Context<'_>) -> Poll<u64> {
        let Some((after, twist)) = self.twist else { return Poll::Ready(u64::MAX) };
        if self.sent < after {
            return Poll::Ready(after - self.sent);
        }
        match twist {
            // The connection ends once it has flushed what was sent before. No event wakes this
            // body again.
            Twist::Reset => self.cut.reset(),
            Twist::Close => self.cut.close(),
            Twist::Stall(None) => {}
            Twist::Stall(Some(time)) => {
                let sleep = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
                ready!(sleep.as_mut().poll(cx));
                self.twist = None;
                return Poll::Ready(u64::MAX);
            }
        }
        Poll::Pending
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        let Some(course) = &mut this.course else {
            if this.payload.is_done() {
                return Poll::Ready(None);
            }
            let (bytes, _) = ready!(this.payload.poll_next(cx, u64::MAX))?;
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        };
        loop {
            let until_twist = ready!(course.poll_twist(cx));
            if this.payload.is_done() {
                return Poll::Ready(None);
            }
            // The end of a compressed body follows its last byte and needs no grant.
            let needs_grant = this.payload.device_bytes() > 0;
            if needs_grant && course.granted == 0 {
                course.granted = ready!(course.pass.poll_bytes(cx));
            }
            let budget = if needs_grant { course.granted.min(until_twist) } else { BLOCK_BYTES };
            let (piece, used) = ready!(this.payload.poll_next(cx, budget))?;
            course.granted -= used;
            course.sent += piece.len() as u64;
            let bytes = piece.len() as u64;
            course.accounts.sent(bytes, if matches!(this.payload, Payload::Bytes(_)) { 0 } else { bytes });
            if !piece.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.payload.is_done() && self.course.as_ref().is_none_or(|course| course.twist.is_none())
    }

    fn size_hint(&self) -> SizeHint {
        let sent = self.course.as_ref().map_or(0, |course| course.sent);
        self.length.map_or_else(SizeHint::default, |length| SizeHint::with_exact(length - sent))
    }
}
