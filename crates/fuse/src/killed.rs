//! Ends the wait of a program that has been killed.
//!
//! ```text
//!   200 ms of waiting ──> /proc/PID/status: SIGKILL pending, or no such process?
//!                              │ no: again in 100 ms       └─ yes: EINTR, the program ends
//!                              └──────────────────^
//! ```
//!
//! A fatal signal ends a buffered read at once: the program waits in the kernel, for a page. A
//! direct read, a look-up or an open waits for this process's answer; the kernel asks for it by an
//! INTERRUPT request, which fuser does not support. But a fatal signal also leaves SIGKILL pending
//! on every thread of the program, and that can be read.
//!
//! Only long waits are checked; hits cost nothing.

use std::time::Duration;

/// Returns once the thread `pid` has been killed; never, where that cannot be seen.
pub(crate) async fn killed(pid: u32) {
    while !killed_while(pid, || true).await {}
}

/// Waits until `waits` is false, or the thread `pid` is killed. Whether it was killed.
pub(crate) async fn killed_while(pid: u32, waits: impl Fn() -> bool) -> bool {
    tokio::time::sleep(FIRST_LOOK).await;
    while waits() {
        // The kernel sends 0 for a process of another PID namespace.
        if pid != 0 && is_dying(pid) {
            return true;
        }
        tokio::time::sleep(NEXT_LOOK).await;
    }
    false
}

fn is_dying(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/status")) {
        Ok(status) => has_sigkill_pending(&status),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
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

/// Time between checks. Lower: more checks. Higher: a killed program takes longer to end.
const NEXT_LOOK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
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
    fn this_process_lives() {
        assert!(!is_dying(std::process::id()));
    }
}
