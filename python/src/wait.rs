//! A thread of Python waits: without the GIL, and looking for signals.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use foreread::shared::{Helped, Helps, Shared};
use pyo3::prelude::*;
use tokio::runtime::Handle;

use crate::errors::{raised, stopped};

/// How long a wait takes at most to notice a signal such as Ctrl-C, 100 ms. Lower wakes idle
/// threads more often; higher is felt.
pub(crate) const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// Waits for what is sent. Errors: what the handler of a signal raises.
pub(crate) fn wait<T: Send>(py: Python<'_>, receive: Receiver<T>) -> PyResult<T> {
    wait_by(py, receive, |receive| receive.recv_timeout(SIGNALS_EVERY))
}

/// The same, of what the thread helps to take.
pub(crate) fn wait_helping<T: Send>(py: Python<'_>, helped: &Helped<'_>, receive: Receiver<T>) -> PyResult<T> {
    wait_by(py, receive, |receive| receive_helping(helped, receive))
}

/// Waits for what is sent for a while, and helps to take it.
pub(crate) fn receive_helping<T>(helped: &Helped<'_>, receive: &Receiver<T>) -> Result<T, RecvTimeoutError> {
    loop {
        let mut come = receive.try_recv();
        if matches!(come, Err(TryRecvError::Empty)) {
            let helps = helped.turn(|| {
                come = receive.try_recv();
                !matches!(come, Err(TryRecvError::Empty))
            });
            match (&come, helps) {
                (Err(TryRecvError::Empty), Helps::Look) => continue,
                (Err(TryRecvError::Empty), Helps::Nothing) => return Err(RecvTimeoutError::Timeout),
                (Err(TryRecvError::Empty), _) => return receive.recv_timeout(SIGNALS_EVERY),
                _ => {}
            }
        }
        return come.map_err(|_| RecvTimeoutError::Disconnected);
    }
}

fn wait_by<T: Send>(
    py: Python<'_>,
    mut receive: Receiver<T>,
    by: impl Fn(&Receiver<T>) -> Result<T, RecvTimeoutError> + Sync,
) -> PyResult<T> {
    let by = &by;
    loop {
        let received;
        (received, receive) = py.detach(move || (by(&receive), receive));
        match received {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(stopped()),
        }
    }
}

/// Polls `future` once on this thread, then continues it as a task of `engine` and waits for it.
/// When a signal ends the wait, the task ends, too.
pub(crate) fn block_on<F>(py: Python<'_>, engine: &Shared, future: F) -> PyResult<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let mut future = Box::pin(future);
    let runtime = engine.runtime().map_err(|error| raised(&error))?;
    let first = py.detach(|| poll_once(&runtime, &mut future));
    if let Poll::Ready(output) = first {
        return Ok(output);
    }
    let (send, receive) = sync_channel(1);
    let task = runtime.spawn(async move {
        // The waiting thread may have been interrupted.
        let _ = send.send(future.await);
    });
    wait(py, receive).inspect_err(|_| task.abort())
}

/// Polls `future` once on this thread, in the context of the engine's `runtime`.
pub(crate) fn poll_once<F: Future>(runtime: &Handle, future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    let _entered = runtime.enter();
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}
