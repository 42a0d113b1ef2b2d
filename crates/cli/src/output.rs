//! What a command has to say, on stdout. Whoever reads it may have enough before its end (`| head`): that is a failure which ends
//! the command, not a panic.

use std::fmt::Arguments;
use std::io::Write;

use crate::failure::Failure;

/// Prints `text`.
pub(crate) fn print(text: Arguments<'_>) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_fmt(text).and_then(|()| stdout.flush()).map_err(|cause| Failure::Output { cause })
}

/// Prints `text` and ends the line.
pub(crate) fn line(text: Arguments<'_>) -> Result<(), Failure> {
    print(format_args!("{text}\n"))
}
