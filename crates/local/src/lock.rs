//! Locks that a child of a fork can use: std's, without poison.
//!
//! A lock of std is one word of its own. A lock of `parking_lot` keeps its waiting threads in a
//! table of the whole process, whose entries are locked for moments: a fork in such a moment
//! leaves an entry locked in the child for ever, also for locks that the child makes itself. A
//! program that forks while its threads read, as a loader of training data does, meets that within
//! a few dozen forks.
//!
//! A thread that panics while it holds a lock leaves the protected value as it is. The caller has
//! to know what of it may be used, as with `parking_lot`.

use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// A mutual exclusion. Not poisoned.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

/// The right to use what a [`Mutex`] protects.
#[derive(Debug)]
#[must_use]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// Absent only while a condition is waited for, and in [`MutexGuard::unlocked`].
    held: Option<sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// Protects `value`.
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// Waits until no other thread holds it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, held: Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)) }
    }

    /// What it protects, which no thread can hold any more.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes it if no thread holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = match self.0.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { mutex: self, held: Some(held) })
    }
}

impl<T> MutexGuard<'_, T> {
    /// Runs `f` with the lock given up, then takes it again.
    pub fn unlocked<R>(guard: &mut Self, f: impl FnOnce() -> R) -> R {
        guard.held = None;
        let result = f();
        guard.held = guard.mutex.lock().held;
        result
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect(HELD)
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect(HELD)
    }
}

/// No code runs with a guard whose lock was given up, but after a panic in such code.
const HELD: &str = "the lock is held";

/// A lock that many threads hold to read, and one to write. Not poisoned.
#[derive(Debug, Default)]
pub struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Protects `value`.
    pub const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }

    /// Waits until no thread writes.
    pub fn read(&self) -> sync::RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread holds it.
    pub fn write(&self) -> sync::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A condition that threads wait for.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// Wakes one thread that waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all threads that wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Gives the lock up and waits until woken; sometimes wakes without a cause.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.held.take().expect(HELD);
        guard.held = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
    }

    /// The same for at most `timeout`. Returns whether that passed.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> bool {
        let held = guard.held.take().expect(HELD);
        let (held, result) = self.0.wait_timeout(held, timeout).unwrap_or_else(PoisonError::into_inner);
        guard.held = Some(held);
        result.timed_out()
    }

    /// The same until `until`.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, until: Instant) -> bool {
        self.wait_for(guard, until.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_panic_leaves_the_lock_usable() {
        let lock = Arc::new(Mutex::new(1));
        let other = Arc::clone(&lock);
        let panicked = std::thread::spawn(move || {
            let _held = other.lock();
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        *lock.lock() += 1;
        assert_eq!(lock.try_lock().map(|value| *value), Some(2));
    }

    #[test]
    fn another_thread_has_the_lock_while_it_is_given_up() {
        let (lock, woken) = (Mutex::new(0), Condvar::default());
        let mut guard = lock.lock();
        assert!(lock.try_lock().is_none());
        MutexGuard::unlocked(&mut guard, || *lock.lock() += 1);
        assert_eq!(*guard, 1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                *lock.lock() += 1;
                woken.notify_all();
            });
            while *guard < 2 {
                woken.wait(&mut guard);
            }
        });
        assert!(woken.wait_for(&mut guard, Duration::ZERO));
    }
}
