//! What is wanted of a run: the `[expect]` and `[simulate]` tables.

use super::limits::THREADS_MAX;
use super::section::Section;
use crate::error::Error;
use crate::figure::{Figure, Metric};
use crate::workload::pattern::{Pattern, Visit};
use crate::workload::simulate::{Ratio, Simulate};

/// What a workload has, on which depends which figures it can have.
pub(super) struct Has<'a> {
    pub(super) pattern: &'a Pattern,
    pub(super) files: u32,
    pub(super) beside: bool,
    pub(super) tier: bool,
}

pub(super) fn figures(section: Section<'_>, has: &Has<'_>) -> Result<Vec<Figure>, Error> {
    let &Has { pattern, files, beside, tier } = has;
    let random = matches!(pattern, Pattern::Random { .. } | Pattern::MmapRandom { .. });
    let walks = matches!(pattern, Pattern::Walk { .. } | Pattern::Epochs { .. });
    let names_only = matches!(pattern, Pattern::Walk { visit: Visit::Names | Visit::Attributes });
    read(section, |metric| match metric {
        Metric::OperationsOfBare if !random || files != 1 => {
            Some("only random reads of one file are compared with a bare client")
        }
        metric if metric.is_of_programs() => Some("only a program has this figure"),
        metric if metric.is_of_trees() && !walks => Some("only a workload with a tree has this figure"),
        Metric::FilesRead | Metric::ReadsPerFile if names_only => Some("this pattern reads no file"),
        Metric::Late if pattern.period_ns().is_none() => Some("only a slow pattern can be late"),
        Metric::FindTime | Metric::FindWaits | Metric::GrepTime | Metric::CopyTime | Metric::ReadAhead
            if !matches!(pattern, Pattern::DiskTree(_)) =>
        {
            Some("only a tree has programs that walk it")
        }
        Metric::TouchTime | Metric::TouchWaits | Metric::PagesIn | Metric::PagesOut
            if !matches!(pattern, Pattern::Region(_)) =>
        {
            Some("only a region is touched")
        }
        Metric::BesideThroughput | Metric::BesideReadP99 if !beside => {
            Some("no threads read beside: `[beside]` names them")
        }
        Metric::TierHits | Metric::TierWritten if !tier => Some("there is no tier: `[tier]` describes one"),
        _ => None,
    })
}

/// The figures of a program. It runs again, and has a form without a mount, if the flags say so.
pub(super) fn figures_of_program(section: Section<'_>, again: bool, own: bool) -> Result<Vec<Figure>, Error> {
    read(section, |metric| match metric {
        Metric::SecondsOfOwn | Metric::FetchedOfOwn if !own => {
            Some("there is no such program without a mount: `own` names one")
        }
        Metric::Again | Metric::AgainGets | Metric::AgainNames if !again => Some("`again = true` runs it again"),
        Metric::Seconds | Metric::Rss => None,
        metric if metric.is_of_programs() => None,
        _ => Some("no program has this figure"),
    })
}

/// Reads each figure of the table; `forbidden` says why there is none of a metric.
fn read(mut section: Section<'_>, forbidden: impl Fn(Metric) -> Option<&'static str>) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    for &metric in Metric::ALL {
        let Some(text) = section.optional_string(metric.key(), Figure::WANTED)? else { continue };
        let parsed = Figure::parse_all(metric, &text.value, metric.unit());
        let parsed = parsed.ok_or_else(|| text.is_not(Figure::WANTED))?;
        if let Some(rule) = forbidden(metric) {
            return Err(text.breaks(rule));
        }
        figures.extend(parsed.into_iter().map(|figure| (text.at.start, figure)));
    }
    section.end()?;
    figures.sort_by_key(|&(start, _)| start);
    Ok(figures.into_iter().map(|(_, figure)| figure).collect())
}

pub(super) fn simulate(mut section: Section<'_>, has: &Has<'_>) -> Result<Simulate, Error> {
    const POLICIES: &str = "a list of policies such as [\"foreread\", \"linux\"]";
    const OVER: &str = "two policies such as \"on-demand-2007 over linux-2.6.20\"";
    let policies = section.optional_strings("policies", POLICIES)?.into_iter().map(|name| name.value).collect();
    let threads = section.optional_integers("threads", "a list of numbers of threads such as [1, 16]")?;
    let threads = threads.into_iter().map(|count| count.within(1, THREADS_MAX).map(|count| count as u32));
    let threads = threads.collect::<Result<Vec<_>, _>>()?;
    let seeds = section.optional_integer("seeds", "a number of seeds such as 10")?;
    let seeds = seeds.map_or(Ok(1), |seeds| seeds.within(1, SEEDS_MAX))? as u32;
    let readahead_max = section.optional_size("readahead_max")?;
    let readahead_max_bytes = readahead_max.map(|size| size.at_least(1)).transpose()?;
    let mut expect = Vec::new();
    if let Some(section) = section.optional_section("expect")? {
        for (name, _, section) in section.sections()? {
            expect.push((name, figures(section, has)?));
        }
    }
    let mut ratios = Vec::new();
    if let Some(section) = section.optional_section("ratio")? {
        for (name, at, mut section) in section.sections()? {
            let Some((policy, over)) = name.split_once(" over ") else {
                return Err(section.place("", at, name).is_not(OVER));
            };
            for figure in wanted_ratios(&mut section)? {
                ratios.push(Ratio { policy: policy.to_owned(), over: over.to_owned(), figure });
            }
            section.end()?;
        }
    }
    let mut predict = Vec::new();
    if let Some(mut section) = section.optional_section("predict")? {
        predict = wanted_ratios(&mut section)?;
        section.end()?;
    }
    section.end()?;
    Ok(Simulate { policies, threads, seeds, readahead_max_bytes, expect, ratios, predict })
}

/// Figures that are ratios, for metrics of any unit.
fn wanted_ratios(section: &mut Section<'_>) -> Result<Vec<Figure>, Error> {
    let mut ratios = Vec::new();
    for &metric in Metric::ALL {
        if let Some(text) = section.optional_string(metric.key(), Figure::RATIO_WANTED)? {
            let parsed = Figure::parse_all(metric, &text.value, "");
            ratios.extend(parsed.ok_or_else(|| text.is_not(Figure::RATIO_WANTED))?);
        }
    }
    Ok(ratios)
}

/// Most seeds.
const SEEDS_MAX: u64 = 100_000;
