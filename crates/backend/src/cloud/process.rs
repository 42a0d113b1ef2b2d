//! Runs a profile's `credential_process`, a program that prints credentials.

use std::io;
use std::process::{ExitStatus, Stdio};

use reqsign_core::{CommandExecute, CommandOutput, Error, Result};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use super::deadline;

/// Runs programs without a terminal and with a deadline.
#[derive(Debug, Clone, Copy)]
pub(super) struct Processes;

impl CommandExecute for Processes {
    /// `args` are split at white space only. Quotes are resolved here, as by other programs that
    /// read the file.
    async fn command_execute(&self, program: &str, args: &[&str]) -> Result<CommandOutput> {
        let line = [&[program], args].concat().join(" ");
        let words = shlex::split(&line).filter(|words| !words.is_empty());
        let words = words.ok_or_else(|| Error::config_invalid("credential_process has a quote without its end"))?;
        match tokio::time::timeout(deadline::CREDENTIALS, run(&words)).await {
            Ok(Ok((status, [stdout, stderr]))) if stdout.len() <= BYTES_MAX => {
                Ok(CommandOutput { status: status.code().unwrap_or(-1), stdout, stderr })
            }
            Ok(Ok(_)) => Err(Error::config_invalid(format!("{} prints more than {} KiB", words[0], BYTES_MAX >> 10))),
            Ok(Err(error)) => Err(Error::config_invalid(format!("cannot run {}: {error}", words[0]))),
            Err(_) => Err(Error::unexpected(format!("{} does not end", words[0]))),
        }
    }
}

/// Runs a program to its end. Returns the first [`BYTES_MAX`] bytes, and one more if there is, of
/// its stdout and its stderr. It is killed if this future is dropped.
async fn run(words: &[String]) -> io::Result<(ExitStatus, [Vec<u8>; 2])> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    // A program that finds its pipe closed ends as well.
    let (status, stdout, stderr) = tokio::try_join!(child.wait(), start(stdout), start(stderr))?;
    Ok((status, [stdout, stderr]))
}

/// The start of what a program prints. The pipe is closed behind it.
async fn start(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// The longest output of a program that prints credentials, in bytes: tokens are a few KiB. Lower:
/// long tokens are refused. Higher: more memory for a program that prints without end.
const BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    async fn printed(script: &str) -> std::result::Result<CommandOutput, String> {
        Processes.command_execute("sh", &["-c", &format!("'{script}'")]).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn what_a_program_prints_is_taken_with_its_status() {
        let output = printed("echo out; echo err >&2; exit 3").await.expect("it ends");
        assert_eq!((output.status, &*output.stdout, &*output.stderr), (3, &b"out\n"[..], &b"err\n"[..]));
    }

    /// Without a bound each of these fills memory until the deadline.
    #[tokio::test]
    async fn a_program_that_prints_without_end_is_an_error_that_names_it() {
        for script in ["cat /dev/zero", "trap \"\" PIPE; while :; do echo credentials 2>/dev/null || exit 0; done"] {
            let error = printed(script).await.expect_err(script);
            assert!(error.contains("sh prints more than 64 KiB"), "{script}: {error}");
        }
        let output = printed("head -c 65536 /dev/zero").await.expect("as much as there may be");
        assert_eq!(output.stdout.len(), BYTES_MAX);
        // A long complaint is cut.
        let output = printed("head -c 1000000 /dev/zero >&2; echo out").await.expect("it ends");
        assert_eq!((&*output.stdout, output.stderr.len()), (&b"out\n"[..], BYTES_MAX + 1));
    }
}
