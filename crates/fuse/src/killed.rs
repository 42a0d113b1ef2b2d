//! Ends the wait of a program that has been killed.
//!
//! ```text
//!   200 ms of waiting ──> /proc/PID/status: SIGKILL pending, or no such process?
//!                              │ no: again in 100, .. 800 ms    └─ yes: EINTR, the program ends
//!                              └──────────────────^
//! ```
//!
//! A fatal signal ends a buffered read at once: the program waits in the kernel, for a page. A
//! direct read, a look-up or an open waits for this process's answer; the kernel asks for it by an
//! INTERRUPT request, which fuser does not support. But a fatal signal also leaves SIGKILL pending
//! on every thread of the program, and that can be read.
//!
//! `/proc` may hide the processes of other users (`hidepid`). Such a program is alive as long as
//! its number is, which every process can ask; that it was killed cannot be seen, so its waits end
//! with the storage's answer.
//!
//! Only long waits are checked, and all waits of one thread by one look: the kernel reads ahead
//! for a thread by several requests at a time. Hits cost nothing.

use std::collections::HashMap;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, test_kill_process};
use tokio::time::{Instant, sleep};

/// Returns once the thread `pid` has been killed; never, where that cannot be seen.
pub(crate) async fn killed(pid: u32) {
    while !killed_while(pid, || true).await {}
}

/// Waits until `waits` is false, or the thread `pid` is killed. Whether it was killed.
pub(crate) async fn killed_while(pid: u32, waits: impl Fn() -> bool) -> bool {
    static LOOKS: LazyLock<Looks> = LazyLock::new(|| Looks::new(|pid| is_dying(Path::new("/proc"), pid)));
    LOOKS.killed_while(pid, waits).await
}

/// Whether the thread `pid` has ended, or is about to; `false` where that cannot be seen.
pub(crate) fn is_gone(pid: u32) -> bool {
    pid != 0 && is_dying(Path::new("/proc"), pid)
}

/// Looks at threads, shared by their waits.
struct Looks<L = fn(u32) -> bool> {
    look: L,
    /// When each thread was last looked at, and whether it was dying.
    latest: Mutex<HashMap<u32, (Instant, bool)>>,
}

impl<L: Fn(u32) -> bool> Looks<L> {
    fn new(look: L) -> Self {
        Self { look, latest: Mutex::default() }
    }

    async fn killed_while(&self, pid: u32, waits: impl Fn() -> bool) -> bool {
        sleep(FIRST_LOOK).await;
        let mut pause = NEXT_LOOK_MIN;
        while waits() {
            // The kernel sends 0 for a process of another PID namespace.
            if pid != 0 && self.is_dying(pid) {
                return true;
            }
            sleep(pause).await;
            pause = (pause * 2).min(NEXT_LOOK_MAX);
        }
        false
    }

    /// Whether a thread is dying, by a look of its own or by one a moment ago.
    fn is_dying(&self, pid: u32) -> bool {
        let now = Instant::now();
        let known = |(at, _): &(Instant, bool)| now.duration_since(*at) < LOOK_HOLDS;
        if let Some((_, dying)) = self.latest.lock().get(&pid).filter(|look| known(look)) {
            return *dying;
        }
        let dying = (self.look)(pid);
        let latest = &mut *self.latest.lock();
        if latest.len() >= LOOKS_MAX {
            latest.retain(|_, look| known(look));
        }
        latest.insert(pid, (now, dying));
        dying
    }
}

/// Whether the thread `pid` has been killed or is gone, by the `/proc` at this path.
fn is_dying(proc: &Path, pid: u32) -> bool {
    if let Ok(status) = std::fs::read_to_string(proc.join(pid.to_string()).join("status")) {
        return has_sigkill_pending(&status);
    }
    // Gone, or hidden from this user.
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

/// Whether a `/proc/PID/status` shows SIGKILL among the pending signals of the thread or its
/// process.
fn has_sigkill_pending(status: &str) -> bool {
    let pending = |line: &str| {
        let mask = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    };
    status.lines().filter_map(pending).any(|mask| mask & (1 << (libc::SIGKILL - 1)) != 0)
}

/// Time of a wait before the first check. Almost every wait for storage is over by then. Lower:
/// more checks. Higher: a killed program takes longer to end.
const FIRST_LOOK: Duration = Duration::from_millis(200);

/// Time between the first two checks of a wait; it doubles from then on, since a long wait can be
/// ended later. Lower: more checks. Higher: a killed program takes longer to end.
const NEXT_LOOK_MIN: Duration = Duration::from_millis(100);

/// The most time between two checks. Lower: more checks while storage is silent. Higher: a killed
/// program takes longer to end.
const NEXT_LOOK_MAX: Duration = Duration::from_millis(800);

/// How long a look counts for other waits of the same thread. Less than [`FIRST_LOOK`], so no look
/// is taken for one at a later thread of the same number. Lower: more looks. Higher: a killed
/// program takes longer to end.
const LOOK_HOLDS: Duration = Duration::from_millis(90);

/// Threads remembered before those that were looked at earlier are forgotten. Lower: they are
/// searched more often. Higher: more memory, 40 bytes each.
const LOOKS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn only_a_pending_sigkill_counts() {
        let status =
            |thread: &str, shared: &str| format!("Name:\tdd\nSigPnd:\t{thread}\nShdPnd:\t{shared}\nSigBlk:\tff\n");
        assert!(has_sigkill_pending(&status("0000000000000100", "0000000000000000")));
        assert!(has_sigkill_pending(&status("0000000000000000", "0000000000004100")));
        assert!(!has_sigkill_pending(&status("0000000000000000", "0000000000004000")));
        assert!(!has_sigkill_pending("Name:\tdd\n"));
    }

    #[test]
    fn a_process_lives_whether_or_not_proc_shows_it() {
        let hides_all = tempfile::tempdir().expect("a folder");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        for proc in [Path::new("/proc"), hides_all.path()] {
            assert!(!is_dying(proc, std::process::id()), "this process, by {proc:?}");
            assert!(!is_dying(proc, child.id()), "another one, by {proc:?}");
        }
        child.kill().expect("a child of this process");
        child.wait().expect("its end");
        for proc in [Path::new("/proc"), hides_all.path()] {
            assert!(is_dying(proc, child.id()), "by {proc:?}");
        }
    }

    /// As many reads as the kernel makes ahead for one thread wait for ten seconds.
    #[tokio::test(start_paused = true)]
    async fn the_waits_of_one_thread_cost_few_looks() {
        let count = Cell::new(0);
        let looks = Looks::new(|_| {
            count.set(count.get() + 1);
            false
        });
        let began = Instant::now();
        let waits = (0..32).map(|_| looks.killed_while(7, || began.elapsed() < Duration::from_secs(10)));
        assert!(futures::future::join_all(waits).await.into_iter().all(|killed| !killed));
        assert!((10..=20).contains(&count.get()), "{} looks", count.get());
    }

    #[tokio::test(start_paused = true)]
    async fn a_kill_ends_each_wait_soon() {
        for alive in [0, 150, 1000, 9000].map(Duration::from_millis) {
            let began = Instant::now();
            let looks = Looks::new(|_| began.elapsed() >= alive);
            assert!(looks.killed_while(7, || true).await);
            let simulated = began.elapsed();
            assert!(simulated <= alive.max(FIRST_LOOK) + NEXT_LOOK_MAX, "{simulated:?}");
        }
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let looks = Looks::new(|_| false);
        for pid in 1..100_000 {
            looks.is_dying(pid);
            if pid % LOOKS_MAX as u32 == 0 {
                let old = Instant::now() - LOOK_HOLDS;
                looks.latest.lock().values_mut().for_each(|look| look.0 = old);
            }
        }
        assert!(looks.latest.lock().len() <= LOOKS_MAX);
    }
}
