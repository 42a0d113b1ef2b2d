//! Ends the wait of a program that has been killed.
//!
//! A fatal signal ends a buffered read at once: the program waits for a page, in the kernel. A direct read, a look-up or an open
//! waits for this process's answer, and the kernel asks for it by an INTERRUPT that the protocol's library refuses. What it
//! would have said can be seen elsewhere: a fatal signal leaves SIGKILL pending on every thread of the program.
//!
//! ```text
//!   a wait of 200 ms ──> /proc/PID/status: SIGKILL pending, or no such process? ── yes ──> EINTR, the program ends
//!           └──────────────── every 100 ms ──────────────┘
//! ```
//!
//! Only waits that last are looked after; a hit costs nothing of this.

use std::time::Duration;

/// Returns once the thread `pid` has been killed; never, where that cannot be seen.
pub(crate) async fn killed(pid: u32) {
    while !killed_while(pid, || true).await {}
}

/// Whether the thread `pid` is killed while it `waits`.
pub(crate) async fn killed_while(pid: u32, waits: impl Fn() -> bool) -> bool {
    tokio::time::sleep(FIRST_LOOK).await;
    while waits() {
        // The kernel says 0 for a process of another PID namespace.
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

/// Whether a `/proc/PID/status` shows SIGKILL among the pending signals of the thread or its process.
fn has_sigkill_pending(status: &str) -> bool {
    let pending = |line: &str| {
        let mask = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    };
    status.lines().filter_map(pending).any(|mask| mask & (1 << (libc::SIGKILL - 1)) != 0)
}

/// Almost every wait for storage is over by then.
const FIRST_LOOK: Duration = Duration::from_millis(200);

/// What a killed program may take longer to end.
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
