//! Runs a profile's `credential_process`, a program that prints credentials.

use std::process::Stdio;

use reqsign_core::{CommandExecute, CommandOutput, Error, Result};
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
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).kill_on_drop(true);
        match tokio::time::timeout(deadline::CREDENTIALS, command.output()).await {
            Ok(Ok(output)) => Ok(CommandOutput {
                status: output.status.code().unwrap_or(-1),
                stdout: output.stdout,
                stderr: output.stderr,
            }),
            Ok(Err(error)) => Err(Error::config_invalid(format!("cannot run {}: {error}", words[0]))),
            Err(_) => Err(Error::unexpected(format!("{} does not end", words[0]))),
        }
    }
}
