//! Goes to the background, once the mount answers.
//!
//! ```text
//!   parent                                child
//!   fork ───────────────────────────────> connects, asks the storage, mounts
//!   waits at the pipe (spinner)   notes
//!     prints each  <───────────────────── 'n' text
//!                                mounted
//!     exits 0      <───────────────────── 'm'         setsid, chdir /, stdio to /dev/null; serves
//!     exits 1, prints it  <────────────── 'f' text    exits
//! ```
//!
//! *Invariant:* the fork happens before any thread exists. The child would not have the threads of
//! an earlier runtime, and locks could stay held. Until the mount answers, both processes are in
//! the terminal's process group, so Ctrl-C ends both.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, setsid, waitpid};

use crate::commands::mount::error::Error;
use crate::commands::mount::supervisor;
use crate::terminal::progress::Progress;

/// Which side of the fork this is.
pub(crate) enum Side {
    /// The process that the user started, after the child has reported.
    Parent(ExitCode),
    /// The process that mounts.
    Child(Herald),
}

/// Reports to the user: directly in the foreground, through the waiting parent in the background.
pub(crate) enum Herald {
    /// This process has the user's terminal.
    Foreground,
    /// The parent prints what comes through this pipe.
    Background(File),
}

/// Forks. The parent returns when the child has mounted or failed; `waiting_for` is shown
/// meanwhile.
pub(crate) fn split(waiting_for: &str) -> Result<Side, Error> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| Error::Background { cause: errno.into() })?;
    // SAFETY: no other thread exists yet (see the header), so the child is a consistent process.
    // std has no fork.
    let forked = unsafe { libc::fork() };
    match forked {
        -1 => Err(Error::Background { cause: io::Error::last_os_error() }),
        0 => {
            drop(reader);
            Ok(Side::Child(Herald::Background(writer.into())))
        }
        child => {
            drop(writer);
            Ok(Side::Parent(wait(&mut File::from(reader), Pid::from_raw(child), waiting_for)?))
        }
    }
}

impl Herald {
    /// One line for the user, which does not stop the mount.
    pub(crate) fn note(&mut self, text: &str) {
        let _ = self.say(NOTE, text);
    }

    /// The mount failed for this reason; the process then ends with status 1.
    pub(crate) fn failed(&mut self, report: &miette::Report) {
        let _ = self.say(FAILED, &format!("{report:?}"));
    }

    /// The mount answers. In the background: leaves the terminal, its directory and its files,
    /// then releases the parent. In the foreground: tells systemd, if it has started this.
    ///
    /// An error means that the parent is gone, or that the process cannot leave the terminal: the
    /// mount must end.
    pub(crate) fn mounted(&mut self) -> io::Result<()> {
        if matches!(self, Self::Background(_)) {
            setsid()?;
            std::env::set_current_dir("/")?;
            let null: OwnedFd = File::options().read(true).write(true).open("/dev/null")?.into();
            rustix::stdio::dup2_stdin(&null)?;
            rustix::stdio::dup2_stdout(&null)?;
            rustix::stdio::dup2_stderr(&null)?;
        }
        if matches!(self, Self::Foreground)
            && let Err(cause) = supervisor::ready()
        {
            self.note(&format!("systemd cannot be told that it is mounted: {cause}"));
        }
        self.say(MOUNTED, "")
    }

    fn say(&mut self, word: u8, text: &str) -> io::Result<()> {
        match self {
            Self::Foreground if word == MOUNTED => Ok(()),
            Self::Foreground => writeln!(io::stderr(), "{}", text.trim_end()),
            Self::Background(pipe) => {
                let mut frame = vec![word];
                frame.extend_from_slice(&(text.len() as u32).to_ne_bytes());
                frame.extend_from_slice(text.as_bytes());
                pipe.write_all(&frame)
            }
        }
    }
}

const NOTE: u8 = b'n';
const MOUNTED: u8 = b'm';
const FAILED: u8 = b'f';

fn wait(pipe: &mut impl Read, child: Option<Pid>, waiting_for: &str) -> Result<ExitCode, Error> {
    loop {
        let spinner = Progress::spinner(waiting_for);
        let word = hear(pipe);
        drop(spinner);
        match word {
            Ok((MOUNTED, _)) => return Ok(ExitCode::SUCCESS),
            Ok((FAILED, text)) => {
                eprintln!("{}", text.trim_end());
                return Ok(ExitCode::FAILURE);
            }
            Ok((_, note)) => eprintln!("{}", note.trim_end()),
            Err(_) => return Err(Error::BackgroundDied { how: fate(child) }),
        }
    }
}

fn hear(pipe: &mut impl Read) -> io::Result<(u8, String)> {
    let mut head = [0; 5];
    pipe.read_exact(&mut head)?;
    let [word, length @ ..] = head;
    let mut text = vec![0; u32::from_ne_bytes(length) as usize];
    pipe.read_exact(&mut text)?;
    Ok((word, String::from_utf8_lossy(&text).into_owned()))
}

fn fate(child: Option<Pid>) -> String {
    match waitpid(child, WaitOptions::empty()) {
        Ok(Some((_, status))) => match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => format!("status {code}"),
            (_, Some(signal)) => format!("signal {signal}"),
            _ => "unknown fate".to_owned(),
        },
        _ => "unknown fate".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(speak: impl FnOnce(&mut Herald)) -> Vec<u8> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let mut herald = Herald::Background(writer.into());
        speak(&mut herald);
        drop(herald);
        let mut bytes = Vec::new();
        File::from(reader).read_to_end(&mut bytes).expect("what was said");
        bytes
    }

    #[test]
    fn a_message_arrives_as_it_was_sent() {
        let bytes = spoken(|herald| {
            herald.note("one");
            herald.say(MOUNTED, "").expect("room in the pipe");
        });
        let mut pipe = bytes.as_slice();
        assert_eq!(hear(&mut pipe).expect("a word"), (NOTE, "one".to_owned()));
        assert_eq!(hear(&mut pipe).expect("a word"), (MOUNTED, String::new()));
        assert!(hear(&mut pipe).is_err());
    }

    #[test]
    fn a_child_that_says_nothing_is_a_failure() {
        let words = spoken(|herald| herald.note("still here"));
        assert!(matches!(wait(&mut words.as_slice(), None, "test"), Err(Error::BackgroundDied { .. })));
    }

    #[test]
    fn half_a_message_is_a_failure() {
        let words = spoken(|herald| herald.note("cut off"));
        assert!(hear(&mut &words[..words.len() - 1]).is_err());
    }
}
