//! An answer of the engine on its way to Python: to the thread that waits, or to an event loop.

use std::future::Future;

use foreread::Error;
use foreread::shared::Shared;
use pyo3::prelude::*;

use crate::completions::Completions;
use crate::errors::raised;
use crate::wait::{block_on, poll_once};

/// Runs `future` and converts its output: for the thread that waits here, or, where `to` is given,
/// for a future of its event loop, which is returned.
pub(crate) fn run<'py, T, F, C>(
    py: Python<'py>,
    engine: &Shared,
    to: Option<&Bound<'py, Completions>>,
    future: F,
    convert: C,
) -> PyResult<Bound<'py, PyAny>>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
    C: for<'a> FnOnce(Python<'a>, T) -> PyResult<Bound<'a, PyAny>> + Send + 'static,
{
    let Some(to) = to else {
        let output = block_on(py, engine, future)?.map_err(|error| raised(&error))?;
        return convert(py, output);
    };
    let runtime = engine.runtime().map_err(|error| raised(&error))?;
    Completions::begin(to, |teller| {
        let outcome = move |output: Result<T, Error>| {
            teller.tell(Box::new(move |py| {
                let output = output.map_err(|error| raised(&error))?;
                convert(py, output).map(Bound::unbind)
            }));
        };
        let mut future = Box::pin(future);
        match poll_once(&runtime, &mut future) {
            std::task::Poll::Ready(output) => outcome(output),
            std::task::Poll::Pending => drop(runtime.spawn(async move { outcome(future.await) })),
        }
    })
}
