//! The runtime context: what timers and sockets of a request need, for callers that are outside
//! the engine's runtime.
//!
//! Timers and sockets are those of the engine's tokio runtime. A future that uses them is polled
//! with that runtime entered, so it makes progress under any executor: another tokio runtime,
//! `futures`, or a thread that blocks.
//!
//! The reads of a [`crate::File`] and everything of [`crate::Submissions`] need no context at all.

use std::future::{Future, poll_fn};
use std::pin::pin;

use tokio::runtime::Handle;

use crate::engine::Engine;

impl Engine {
    /// Waits on this thread for `future`, such as [`Engine::stat`] or [`crate::File::read_at`].
    /// For programs without `async`.
    ///
    /// ```no_run
    /// # fn read(engine: &foreread_engine::Engine) -> Result<(), foreread_engine::Error> {
    /// let object = engine.block_on(engine.stat(&foreread_engine::Key::new("a/b")))?;
    /// let file = engine.open(&object);
    /// let bytes = engine.block_on(file.read_at(0, 4096))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// On a thread of a tokio runtime: there the future is awaited.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime().block_on(future)
    }

    /// `future`, polled with the engine's runtime entered: for what calls the [`crate::Backend`]
    /// directly, from any executor. The engine's own methods do so by themselves.
    pub fn on_runtime<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        entered(self.runtime().clone(), future)
    }
}

/// `future`, polled with `runtime` entered.
pub(crate) async fn entered<F: Future>(runtime: Handle, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(move |context| {
        let _entered = runtime.enter();
        future.as_mut().poll(context)
    })
    .await
}
