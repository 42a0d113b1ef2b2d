//! A command's output, on stdout. A reader of it may have enough before its end (`| head`): that
//! is a failure which ends the command, not a panic.

use std::fmt::Arguments;
use std::io::{self, Write};

use crate::failure::Failure;

/// Prints `text`.
pub(crate) fn print(text: Arguments<'_>) -> Result<(), Failure> {
    write(text).map_err(|cause| Failure::Output { cause })
}

/// Prints `text` and ends the line.
pub(crate) fn line(text: Arguments<'_>) -> Result<(), Failure> {
    print(format_args!("{text}\n"))
}

/// Writes each figure that is not as wanted to stderr; whether there is one.
pub(crate) fn has_misses(misses: &[String]) -> bool {
    for miss in misses {
        eprintln!("{miss}");
    }
    !misses.is_empty()
}

/// Prints `text`, for a caller with an error of its own.
pub(crate) fn write(text: Arguments<'_>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_fmt(text).and_then(|()| stdout.flush())
}
