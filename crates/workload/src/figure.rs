//! Metrics of a run, and the figures expected of it.
//!
//! An expectation is written `">= 0.85"`, `"<= 160 MiB"`: an operator, a number, and the metric's
//! unit. The unit must be written out, and there is only one for each metric, so no figure can be
//! pinned in a unit other than the measured one.

use std::fmt;

use serde::Serialize;

/// One measured quantity. [`Metric::unit`] says in what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Metric {
    /// Bytes read over wall time, as a share of what 16 connections of a bare HTTP client reach in
    /// the same run.
    ThroughputOfCeiling,
    /// Bytes read over wall time.
    Throughput,
    /// Operations over wall time.
    Operations,
    /// Operations over wall time, as a share of a bare client that asks for the same ranges, as
    /// many at a time.
    OperationsOfBare,
    /// Operations over wall time, over those of the best baseline in the same run.
    OperationsOfBest,
    /// Time of submitting a read: 99 of 100 took no longer.
    SubmitP99,
    /// Bytes fetched from storage over bytes asked by the program.
    Amp,
    /// The largest resident set of the process that serves the mount.
    Rss,
    /// From `open()` to the end of the first read: the slowest of all readers.
    FirstByte,
    /// From `open()` to the end of the first read: the median of all readers.
    FirstByteP50,
    /// From `open()` until 64 MiB have been read.
    #[serde(rename = "first_64_mib")]
    First64Mib,
    /// Reads that were done more than a period after they were due. A stream's first read is
    /// judged by the first byte.
    Late,
    /// Requests for data to storage, for each GiB that the program asked for.
    RequestsPerGib,
    /// Throughput of the slowest reader over that of the fastest.
    SlowestOfFastest,
    /// Bytes read in the best second. Simulated only, as are the three that follow.
    ThroughputMax,
    /// Mean bytes of a request.
    IoSize,
    /// The smallest mean over five seconds.
    IoSizeMin,
    /// The part of the fetched bytes that no read used. Simulated, or of trees.
    Waste,
    /// Of the pages that were fetched, the part that the tier had. Simulated only, as is the next.
    TierHits,
    /// What was written to the tier, over what was offered to it and new.
    TierWritten,
    /// Time of a read: half of all took no longer.
    ReadP50,
    /// Time of a read: 99 of 100 took no longer.
    ReadP99,
    /// Bytes read by the threads beside, over wall time.
    BesideThroughput,
    /// Time of a read of the threads beside: 99 of 100 took no longer.
    BesideReadP99,
    /// Time of `find` over a tree. Simulated only, as are those that follow.
    FindTime,
    /// How often it had to wait.
    FindWaits,
    /// What `grep -r` took beside it.
    GrepTime,
    /// What `cp` took beside it.
    CopyTime,
    /// Of the blocks of directories those that were read ahead in windows.
    ReadAhead,
    /// What it took to touch the pages of a region. Simulated only, as are the three that follow.
    TouchTime,
    /// How many touches had to wait for a page.
    TouchWaits,
    /// Pages that were read into memory.
    PagesIn,
    /// Pages that were written from memory.
    PagesOut,
    /// What a walk through the whole tree took, the last epoch, or the first run of a program. The
    /// next ones are of trees only, up to [`Metric::ReadsPerFile`].
    Seconds,
    /// The same, over the time to the first byte: how many answers one after the other that would
    /// be.
    Rounds,
    /// Names that were found, over wall time.
    Entries,
    /// Files that were read whole, over wall time; of several epochs the last one.
    FilesRead,
    /// Pages of listings that storage was asked for, for each directory that was read.
    ListsPerDirectory,
    /// Requests for attributes, for each name that was found.
    StatsPerEntry,
    /// Requests for data, for each file that was read.
    ReadsPerFile,
    /// The first run of a program, over the same program without a mount, in the same run. Of
    /// programs only, as are those that follow.
    SecondsOfOwn,
    /// The program's second run through the same mount, with the kernel's caches dropped between.
    Again,
    /// Bytes of objects that the first run fetched.
    Fetched,
    /// The same, over what the program fetched without a mount.
    FetchedOfOwn,
    /// Requests for data of the first run.
    Gets,
    /// Requests for attributes of the first run.
    Heads,
    /// Pages of listings of the first run.
    Lists,
    /// Requests for data of the second run.
    AgainGets,
    /// Requests for attributes and pages of listings of the second run.
    AgainNames,
    /// Processor time of the mount's process, from its start to the end of the first run.
    Cpu,
}

impl Metric {
    /// Every metric, in the order in which a report lists them.
    pub const ALL: &[Metric] = &[
        Metric::ThroughputOfCeiling,
        Metric::Throughput,
        Metric::OperationsOfBare,
        Metric::OperationsOfBest,
        Metric::Operations,
        Metric::SubmitP99,
        Metric::SlowestOfFastest,
        Metric::FirstByte,
        Metric::FirstByteP50,
        Metric::First64Mib,
        Metric::Late,
        Metric::Amp,
        Metric::RequestsPerGib,
        Metric::Rss,
        Metric::ThroughputMax,
        Metric::IoSize,
        Metric::IoSizeMin,
        Metric::Waste,
        Metric::TierHits,
        Metric::TierWritten,
        Metric::ReadP50,
        Metric::ReadP99,
        Metric::BesideThroughput,
        Metric::BesideReadP99,
        Metric::FindTime,
        Metric::FindWaits,
        Metric::GrepTime,
        Metric::CopyTime,
        Metric::ReadAhead,
        Metric::TouchTime,
        Metric::TouchWaits,
        Metric::PagesIn,
        Metric::PagesOut,
        Metric::Seconds,
        Metric::Rounds,
        Metric::Entries,
        Metric::FilesRead,
        Metric::ListsPerDirectory,
        Metric::StatsPerEntry,
        Metric::ReadsPerFile,
        Metric::SecondsOfOwn,
        Metric::Again,
        Metric::Fetched,
        Metric::FetchedOfOwn,
        Metric::Gets,
        Metric::Heads,
        Metric::Lists,
        Metric::AgainGets,
        Metric::AgainNames,
        Metric::Cpu,
    ];

    /// The key in `[expect]`, and the name in reports.
    pub fn key(self) -> &'static str {
        match self {
            Metric::ThroughputOfCeiling => "throughput_of_ceiling",
            Metric::Throughput => "throughput",
            Metric::Operations => "operations",
            Metric::OperationsOfBare => "operations_of_bare",
            Metric::OperationsOfBest => "operations_of_best",
            Metric::SubmitP99 => "submit_p99",
            Metric::Amp => "amp",
            Metric::Rss => "rss",
            Metric::FirstByte => "first_byte",
            Metric::FirstByteP50 => "first_byte_p50",
            Metric::First64Mib => "first_64_mib",
            Metric::Late => "late",
            Metric::RequestsPerGib => "requests_per_gib",
            Metric::SlowestOfFastest => "slowest_of_fastest",
            Metric::ThroughputMax => "throughput_max",
            Metric::IoSize => "io_size",
            Metric::IoSizeMin => "io_size_min",
            Metric::Waste => "waste",
            Metric::TierHits => "tier_hits",
            Metric::TierWritten => "tier_written",
            Metric::ReadP50 => "read_p50",
            Metric::ReadP99 => "read_p99",
            Metric::BesideThroughput => "beside_throughput",
            Metric::BesideReadP99 => "beside_read_p99",
            Metric::FindTime => "find_time",
            Metric::FindWaits => "find_waits",
            Metric::GrepTime => "grep_time",
            Metric::CopyTime => "copy_time",
            Metric::ReadAhead => "read_ahead",
            Metric::TouchTime => "touch_time",
            Metric::TouchWaits => "touch_waits",
            Metric::PagesIn => "pages_in",
            Metric::PagesOut => "pages_out",
            Metric::Seconds => "seconds",
            Metric::Rounds => "rounds",
            Metric::Entries => "entries",
            Metric::FilesRead => "files_read",
            Metric::ListsPerDirectory => "lists_per_directory",
            Metric::StatsPerEntry => "stats_per_entry",
            Metric::ReadsPerFile => "reads_per_file",
            Metric::SecondsOfOwn => "seconds_of_own",
            Metric::Again => "again",
            Metric::Fetched => "fetched",
            Metric::FetchedOfOwn => "fetched_of_own",
            Metric::Gets => "gets",
            Metric::Heads => "heads",
            Metric::Lists => "lists",
            Metric::AgainGets => "again_gets",
            Metric::AgainNames => "again_names",
            Metric::Cpu => "cpu",
        }
    }

    /// The unit of its values; empty for a ratio.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::Throughput | Metric::ThroughputMax | Metric::BesideThroughput => "MB/s",
            Metric::IoSize | Metric::IoSizeMin => "KiB",
            Metric::Operations | Metric::Entries | Metric::FilesRead => "/s",
            Metric::Rss => "MiB",
            Metric::FirstByte | Metric::FirstByteP50 | Metric::ReadP50 | Metric::ReadP99 | Metric::BesideReadP99 => {
                "ms"
            }
            Metric::First64Mib
            | Metric::FindTime
            | Metric::GrepTime
            | Metric::CopyTime
            | Metric::TouchTime
            | Metric::Seconds
            | Metric::Again
            | Metric::Cpu => "s",
            Metric::Fetched => "MB",
            Metric::Gets | Metric::Heads | Metric::Lists | Metric::AgainGets | Metric::AgainNames => "requests",
            Metric::FindWaits | Metric::TouchWaits => "waits",
            Metric::PagesIn | Metric::PagesOut => "pages",
            Metric::Rounds => "rounds",
            Metric::SubmitP99 => "us",
            Metric::Late => "reads",
            Metric::RequestsPerGib => "/GiB",
            Metric::ThroughputOfCeiling
            | Metric::OperationsOfBare
            | Metric::OperationsOfBest
            | Metric::Amp
            | Metric::SlowestOfFastest
            | Metric::ReadAhead
            | Metric::ListsPerDirectory
            | Metric::StatsPerEntry
            | Metric::ReadsPerFile
            | Metric::SecondsOfOwn
            | Metric::FetchedOfOwn
            | Metric::TierHits
            | Metric::TierWritten
            | Metric::Waste => "",
        }
    }

    /// Whether only workloads with a tree have it.
    pub fn is_of_trees(self) -> bool {
        matches!(
            self,
            Metric::Seconds
                | Metric::Rounds
                | Metric::Entries
                | Metric::FilesRead
                | Metric::ListsPerDirectory
                | Metric::StatsPerEntry
                | Metric::ReadsPerFile
        )
    }

    /// Whether only programs have it.
    pub fn is_of_programs(self) -> bool {
        matches!(
            self,
            Metric::SecondsOfOwn
                | Metric::Again
                | Metric::Fetched
                | Metric::FetchedOfOwn
                | Metric::Gets
                | Metric::Heads
                | Metric::Lists
                | Metric::AgainGets
                | Metric::AgainNames
                | Metric::Cpu
        )
    }

    /// Whether a smaller value is the better one.
    pub fn less_is_better(self) -> bool {
        !matches!(
            self,
            Metric::ThroughputOfCeiling
                | Metric::Throughput
                | Metric::Operations
                | Metric::OperationsOfBare
                | Metric::SlowestOfFastest
                | Metric::ThroughputMax
                | Metric::IoSize
                | Metric::IoSizeMin
                | Metric::BesideThroughput
                | Metric::ReadAhead
                | Metric::TierHits
                | Metric::Entries
                | Metric::FilesRead
        )
    }

    /// A value with its unit, as reports show it.
    pub fn show(self, value: f64) -> String {
        let digits = match value.abs() {
            _ if matches!(self.unit(), "reads" | "requests" | "waits" | "pages") => 0,
            // A ratio is wanted with two digits: a third tells which side of the bound it lies on.
            small if self.unit().is_empty() && small < 10.0 => 3,
            large if large >= 1000.0 => 0,
            middle if middle >= 10.0 => 1,
            _ => 2,
        };
        let unit = self.unit();
        let space = if unit.is_empty() || unit.starts_with('/') { "" } else { " " };
        format!("{value:.digits$}{space}{unit}")
    }
}

/// How a measured value is compared with the wanted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum Operator {
    /// `>=`
    #[serde(rename = ">=")]
    AtLeast,
    /// `<=`
    #[serde(rename = "<=")]
    AtMost,
}

impl fmt::Display for Operator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Operator::AtLeast => ">=",
            Operator::AtMost => "<=",
        })
    }
}

/// An expectation: this metric, compared so, with this value in the metric's unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Figure {
    /// What is measured.
    pub metric: Metric,
    /// How it is compared.
    pub operator: Operator,
    /// With what, in [`Metric::unit`].
    pub value: f64,
}

impl Figure {
    /// What an expectation looks like, for messages.
    pub(crate) const WANTED: &str = "an expectation such as \">= 0.85\" or \"<= 160 MiB\", in the metric's own unit";

    /// What an expectation of a ratio looks like, for messages.
    pub(crate) const RATIO_WANTED: &str = "an expectation such as \">= 0.99, <= 1.01\", without a unit";

    /// Reads expectations with commas between them; `unit` is that of their values.
    pub(crate) fn parse_all(metric: Metric, text: &str, unit: &str) -> Option<Vec<Self>> {
        text.split(',').map(|text| Self::parse(metric, text, unit)).collect()
    }

    /// Reads `">= 0.85"` or `"<= 160 MiB"`.
    fn parse(metric: Metric, text: &str, unit: &str) -> Option<Self> {
        let text = text.trim();
        let (operator, rest) = if let Some(rest) = text.strip_prefix(">=") {
            (Operator::AtLeast, rest)
        } else {
            (Operator::AtMost, text.strip_prefix("<=")?)
        };
        let number = rest.trim().strip_suffix(unit)?.trim_end();
        let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let value = if plain { number.parse().ok()? } else { return None };
        Some(Self { metric, operator, value })
    }

    /// Whether `measured`, in the metric's unit, is what was wanted. A value that is not a number
    /// never is.
    pub fn met(&self, measured: f64) -> bool {
        match self.operator {
            Operator::AtLeast => measured >= self.value,
            Operator::AtMost => measured <= self.value,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = self.metric.unit();
        let space = if unit.is_empty() || unit.starts_with('/') { "" } else { " " };
        write!(formatter, "{} {}{space}{unit}", self.operator, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_reads_back_as_written() {
        for (metric, text) in [
            (Metric::ThroughputOfCeiling, ">= 0.85"),
            (Metric::Rss, "<= 160 MiB"),
            (Metric::Operations, ">= 800/s"),
            (Metric::Late, "<= 0 reads"),
        ] {
            assert_eq!(Figure::parse(metric, text, metric.unit()).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_wrong_unit_or_operator_is_refused() {
        for (metric, text) in [
            (Metric::Rss, "<= 160 MB"),
            (Metric::Rss, "<= 160"),
            (Metric::Amp, "<= 2 x"),
            (Metric::Amp, "< 2"),
            (Metric::Amp, "2"),
            (Metric::Amp, "<= inf"),
            (Metric::Amp, "<= "),
        ] {
            assert_eq!(Figure::parse(metric, text, metric.unit()), None, "{text}");
        }
    }

    #[test]
    fn values_are_shown_with_the_digits_that_their_bounds_need() {
        assert_eq!(Metric::ThroughputOfCeiling.show(0.848), "0.848");
        assert_eq!(Metric::Amp.show(7440.2), "7440");
        assert_eq!(Metric::Rss.show(320.4), "320.4 MiB");
        assert_eq!(Metric::First64Mib.show(0.297), "0.30 s");
        assert_eq!(Metric::Late.show(2.0), "2 reads");
        assert_eq!(Metric::RequestsPerGib.show(158.5), "158.5/GiB");
    }

    #[test]
    fn the_bound_itself_is_met_and_not_a_number_is_not() {
        let figure = Figure::parse(Metric::Amp, "<= 1.05", "").unwrap();
        assert!(figure.met(1.05));
        assert!(!figure.met(1.06));
        assert!(!figure.met(f64::NAN));
    }

    #[test]
    fn every_metric_has_its_own_key() {
        let keys: std::collections::BTreeSet<_> = Metric::ALL.iter().map(|metric| metric.key()).collect();
        assert_eq!(keys.len(), Metric::ALL.len());
    }
}
