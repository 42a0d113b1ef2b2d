//! What `src/sync.rs` is to the engine, made of loom's types: each use of them is a place at which
//! the schedule may change, and an atomic number may show an older value where its ordering allows
//! that.

use std::future::poll_fn;
use std::task::{Poll, Waker};

use loom::sync as checked;

pub(crate) mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
}

/// As the engine's: not poisoned.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(checked::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(checked::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> checked::MutexGuard<'_, T> {
        self.0.lock().expect("no model goes on after a panic")
    }
}

/// As the engine's: not poisoned.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(checked::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn read(&self) -> checked::RwLockReadGuard<'_, T> {
        self.0.read().expect("no model goes on after a panic")
    }

    pub(crate) fn write(&self) -> checked::RwLockWriteGuard<'_, T> {
        self.0.write().expect("no model goes on after a panic")
    }
}

/// std's cell, and a flag that shows a thread when it sees the value.
#[derive(Debug)]
pub(crate) struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    is_set: atomic::AtomicBool,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self { value: std::sync::OnceLock::new(), is_set: atomic::AtomicBool::new(false) }
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        let result = self.value.set(value);
        // The thread that comes second has seen the value of the first.
        self.is_set.fetch_or(true, atomic::Ordering::AcqRel);
        result
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.is_set.load(atomic::Ordering::Acquire).then(|| self.value.get()).flatten()
    }
}

/// tokio's contract for one waiting task: a wake-up that no task waits for is kept, once.
#[derive(Debug, Default)]
pub(crate) struct Notify(Mutex<(bool, Option<Waker>)>);

impl Notify {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn notify_one(&self) {
        let waker = {
            let mut state = self.0.lock();
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) async fn notified(&self) {
        poll_fn(|context| {
            let mut state = self.0.lock();
            if std::mem::take(&mut state.0) {
                return Poll::Ready(());
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
