//! `foreread top DIR`: a screen with what a mount is doing, once a second.
//!
//! ```text
//!   mount ── stats, streams ──> sample ── the one before ──> rates ─┐
//!   keys ──────────────────────> view: sort, filter, pause, place ──┴─> screen
//! ```
//!
//! - `sample`: what the mount says, and what has changed since.
//! - `view`: what the user has chosen to see.
//! - `screen`: draws both.

mod sample;
mod screen;
mod view;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use miette::Diagnostic;
use ratatui::crossterm::event::{self, Event};
use thiserror::Error as ThisError;

use crate::commands::top::sample::{History, Sample};
use crate::commands::top::view::View;
use crate::last_cause::LastCause;

/// Show what a mount is doing, on the whole terminal
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  foreread top /mnt/data
  foreread top /mnt/data --interval 5

Keys: q quits, p pauses, s sorts by the next column, r reverses, / filters by name, o shows the processes in place of \
the patterns, the arrows and the keys for pages move. SHARE is a stream's part of the storage's time. It needs no colour, and 80 columns of 24 lines show all of it. `foreread stats --json` has the same figures for programs.")]
pub(crate) struct Args {
    /// Directory on which `foreread mount` mounted
    dir: PathBuf,

    /// Seconds between two looks
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
}

/// Why `foreread top` fails.
#[derive(Debug, ThisError, Diagnostic)]
enum Error {
    #[error("{}: gives no statistics", .dir.display())]
    #[diagnostic(
        code(foreread::top),
        help("name a directory on which `foreread mount` mounted; `grep fuse.foreread /proc/mounts` shows them")
    )]
    NoStats {
        dir: PathBuf,
        #[source]
        cause: LastCause,
    },

    #[error("the output is no terminal")]
    #[diagnostic(code(foreread::top), help("`foreread stats {} --json` is for programs", .dir.display()))]
    NoTerminal { dir: PathBuf },

    #[error("the terminal cannot be used")]
    #[diagnostic(code(foreread::top), help("`foreread stats {} --watch` needs less of a terminal", .dir.display()))]
    Terminal {
        dir: PathBuf,
        #[source]
        cause: io::Error,
    },
}

/// How the screen ended.
enum End {
    /// The user has seen enough.
    Quit,
    /// The mount is gone.
    Unmounted,
}

/// Shows the screen until the user or the mount ends it.
pub(crate) fn run(args: &Args) -> miette::Result<ExitCode> {
    let dir = &args.dir;
    let mut view = View::new(dir.display().to_string(), std::env::var_os("NO_COLOR").is_none());
    let first = ask(dir, &view).map_err(|cause| Error::NoStats { dir: dir.clone(), cause })?;
    if !io::stdout().is_terminal() {
        return Err(Error::NoTerminal { dir: dir.clone() }.into());
    }
    let mut terminal = ratatui::try_init().map_err(|cause| Error::Terminal { dir: dir.clone(), cause })?;
    let shown = show(&mut terminal, dir, Duration::from_secs(args.interval), first, &mut view);
    ratatui::restore();
    match shown.map_err(|cause| Error::Terminal { dir: dir.clone(), cause })? {
        End::Quit => {}
        End::Unmounted => _ = writeln!(io::stderr(), "{}: the mount has ended", dir.display()),
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(dir: &Path, view: &View) -> Result<Sample, LastCause> {
    let stats = foreread_fuse::query_stats(dir).map_err(|cause| LastCause::from(&cause))?;
    let watched = foreread_fuse::query_watched(dir, &view.wanted()).map_err(|cause| LastCause::from(&cause))?;
    Ok(Sample::new(Instant::now(), &stats, &watched))
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    dir: &Path,
    interval: Duration,
    first: Sample,
    view: &mut View,
) -> io::Result<End> {
    let mut history = History::new(first);
    let mut next = Instant::now() + interval;
    loop {
        terminal.draw(|frame| screen::draw(frame, &history, view))?;
        let left = next.saturating_duration_since(Instant::now());
        if event::poll(left)? {
            let before = view.question();
            if let Event::Key(key) = event::read()?
                && view.key(key)
            {
                return Ok(End::Quit);
            }
            // Other streams than those that the mount has told of: not all of them are here.
            if !view.is_paused()
                && view.question() != before
                && let Ok(sample) = ask(dir, view)
            {
                history.replace(sample);
            }
            continue;
        }
        next = Instant::now() + interval;
        match ask(dir, view) {
            // While it pauses, what it shows stays, and the end of the mount is noticed.
            Ok(sample) if !view.is_paused() => history.add(sample),
            Ok(_) => {}
            Err(_) => return Ok(End::Unmounted),
        }
    }
}
