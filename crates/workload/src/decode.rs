//! A workload's TOML, read by hand: every complaint names the file, the line and the dotted key, an unknown key is an
//! error, and a key that has no meaning for the chosen pattern is one too. (A derived decoder loses the place as soon
//! as an enum is tagged.)

use std::fmt::Display;
use std::num::NonZeroU32;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::disk_tree::{DiskTree, Shape};
use crate::error::{Error, Problem};
use crate::figure::{Figure, Metric};
use crate::quantity;
use crate::region::{Order, Region};
use crate::tree::Tree;
use crate::workload::{
    Baseline, Descriptor, Device, Files, Mount, Pattern, Ratio, Simulate, Slow, Store, Visit, Workload,
};

/// Threads at most: a thread is a real one when the workload runs in real time.
const THREADS_MAX: u64 = 4096;
/// Files at most: every one is an object of the testbed, and its name an argument.
const FILES_MAX: u64 = 100_000;
/// Files of a tree at most: it exists in virtual time only.
const TREE_FILES_MAX: u64 = 10_000_000;
/// Directories of a system at least: those at the top, and the large ones.
const SYSTEM_DIRECTORIES_MIN: u64 = 50;
/// Bytes of a name at most.
const NAME_BYTES_MAX: u64 = 255;
/// Levels of a tree at most: a path has 4,096 bytes.
const DEPTH_MAX: u64 = 200;
/// Bytes of an extent at least: a page.
const EXTENT_BYTES_MIN: u64 = 4096;
/// Passes at most: a day of them takes no fewer.
const PASSES_MAX: u64 = 1_000_000;
/// Hot areas at most.
const AREAS_MAX: u64 = 1_000_000;
/// Seeds at most.
const SEEDS_MAX: u64 = 100_000;
/// Bytes of a read at most; a read larger than this tests the allocator.
const RECORD_BYTES_MAX: u64 = 1 << 30;

/// Reads and checks a whole workload.
pub(crate) fn workload(file: &str, text: &str) -> Result<Workload, Error> {
    let source = Source { file, text };
    let root = DeTable::parse(text).map_err(|error| {
        let at = error.span().unwrap_or(0..0);
        source.error("", &at, Problem::Syntax(error))
    })?;
    let mut top = Section::new(source, "", root.span(), root.into_inner());
    let name = top.text("name", "a name such as \"random-4k-16\"")?;
    let description = top.text("description", "a sentence")?;
    let seed = top.integer("seed", "a whole number")?.value;
    let duration_ns = top.duration("duration")?.at_least(1)?;
    let Group { threads, operations_max, files, tree, pattern } = group(&mut top)?;
    let beside = top.optional_section("beside")?.map(|mut section| {
        let beside = group(&mut section)?;
        if tree.is_some() || beside.tree.is_some() {
            return Err(section.breaks("nobody reads beside who walks a tree"));
        }
        section.end().map(|()| beside)
    });
    let beside = beside.transpose()?;
    let processes = processes(&mut top, threads, &pattern, tree.is_some() || beside.is_some())?;
    let baselines = baselines(&mut top)?;

    let mut section = top.section("device")?;
    let device = device(&mut section)?;
    if pattern.is_no_reads() && !matches!(device, Device::Profile(_)) {
        return Err(
            section.missing("profile", "the name of a device's model, for trees and regions are simulated only")
        );
    }
    if tree.is_some() && device.store().is_none() {
        return Err(section.breaks("a tree is an object store's"));
    }
    section.end()?;

    let mut section = top.section("mount")?;
    let memory_bytes = section.size("memory")?.at_least(1 << 20)?;
    let cgroup = section.optional_size("cgroup")?;
    if let Some(cgroup) = &cgroup
        && cgroup.value <= memory_bytes
    {
        return Err(cgroup.breaks("the cgroup must be larger than the mount's own memory"));
    }
    section.end()?;
    let mount = Mount { memory_bytes, cgroup_bytes: cgroup.map(|cgroup| cgroup.value) };

    let expect = match top.optional_section("expect")? {
        Some(section) => figures(section, &pattern, files.count, beside.is_some())?,
        None => Vec::new(),
    };
    let simulate = match top.optional_section("simulate")? {
        Some(section) => simulate(section, &pattern, files.count, beside.is_some())?,
        None => Simulate::default(),
    };
    top.end()?;
    let mut workload = Workload {
        name,
        description,
        seed,
        threads,
        processes,
        duration_ns,
        operations_max,
        files,
        tree,
        pattern,
        beside: None,
        device,
        mount,
        baselines,
        expect,
        simulate,
    };
    workload.beside = beside.map(|Group { threads, operations_max, files, tree, pattern }| {
        let name = format!("{}-beside", workload.name);
        let simulate = Simulate::default();
        Box::new(Workload {
            name,
            threads,
            operations_max,
            files,
            tree,
            pattern,
            expect: Vec::new(),
            simulate,
            ..workload.clone()
        })
    });
    Ok(workload)
}

/// Who reads what in which order.
struct Group {
    threads: u32,
    operations_max: Option<u64>,
    files: Files,
    tree: Option<Tree>,
    pattern: Pattern,
}

fn group(top: &mut Section<'_>) -> Result<Group, Error> {
    let threads = top.integer("threads", "a number of threads such as 16")?.within(1, THREADS_MAX)? as u32;
    let operations_max = top.optional_integer("operations", "a number of operations such as 200")?;
    let operations_max = operations_max.map(|count| count.at_least(1)).transpose()?;

    let tree = top.optional_section("tree")?.map(tree).transpose()?;
    let (files, count) = match &tree {
        Some(tree) => (tree.as_files(), None),
        None => files(top.section("files")?).map(|(files, count)| (files, Some(count)))?,
    };
    let mut section = top.section("pattern")?;
    let pattern = match &tree {
        Some(tree) => walk(&mut section, tree, threads)?,
        None => pattern(&mut section, files.size_bytes)?,
    };
    section.end()?;
    if let Some(count) = count.filter(|_| !matches!(pattern, Pattern::DiskTree(_))) {
        count.within(1, FILES_MAX)?;
    }

    if matches!(pattern, Pattern::Hot { .. }) && operations_max.is_none() {
        return Err(top.missing("operations", "a number of operations, for hot reads have no end"));
    }
    Ok(Group { threads, operations_max, files, tree, pattern })
}

fn files(mut section: Section<'_>) -> Result<(Files, Placed<'_, u64>), Error> {
    let files = section.integer("count", "a number of files such as 1")?;
    let count = files.within(1, TREE_FILES_MAX)? as u32;
    let size_bytes = section.size("size")?.at_least(1)?;
    let extent = section.optional_size("extent")?;
    section.end()?;
    let extent_bytes = extent.map(|extent| extent.at_least(EXTENT_BYTES_MIN)).transpose()?;
    Ok((Files { count, size_bytes, extent_bytes }, files))
}

fn tree(mut section: Section<'_>) -> Result<Tree, Error> {
    let side_by_side = section.integer("directories", "a number of directories such as 100")?;
    let directories = side_by_side.within(1, FILES_MAX)?;
    let each = section.integer("files", "a number of files in each directory such as 200")?;
    let files = each.within(1, FILES_MAX)?;
    let depth = section.optional_integer("depth", "a number of levels such as 3")?;
    let depth = depth.map_or(Ok(1), |depth| depth.within(1, DEPTH_MAX))?;
    if directories * files * depth > FILES_MAX {
        return Err(each.breaks("there are more than 100,000 files in all"));
    }
    let size_bytes = section.size("size")?.at_least(1)?;
    section.end()?;
    Ok(Tree { directories: directories as u32, files: files as u32, depth: depth as u32, size_bytes })
}

/// The patterns of a workload that has a tree.
fn walk(section: &mut Section<'_>, tree: &Tree, threads: u32) -> Result<Pattern, Error> {
    const KINDS: &str = "one of \"walk\", \"epochs\", which are what a tree is read by";
    const VISITS: &str = "one of \"names\", \"attributes\", \"contents\"";
    let kind = section.string("kind", KINDS)?;
    match kind.value.as_str() {
        "walk" if threads > 1 => Err(kind.breaks("one thread walks a tree")),
        "walk" => {
            let visit = section.string("visit", VISITS)?;
            let visit = match visit.value.as_str() {
                "names" => Visit::Names,
                "attributes" => Visit::Attributes,
                "contents" => Visit::Contents { record_bytes: record(section, tree.size_bytes)?.value as u32 },
                _ => return Err(visit.is_not(VISITS)),
            };
            Ok(Pattern::Walk { visit })
        }
        "epochs" => {
            let batch = section.integer("batch", "a number of files such as 32")?.within(1, FILES_MAX)? as u32;
            let passes = section.integer("passes", "a number of epochs such as 2")?.within(2, PASSES_MAX)? as u32;
            Ok(Pattern::Epochs { record_bytes: record(section, tree.size_bytes)?.value as u32, batch, passes })
        }
        _ => Err(kind.is_not(KINDS)),
    }
}

/// Bytes of a read.
fn record<'a>(section: &mut Section<'a>, size_bytes: u64) -> Result<Placed<'a, u64>, Error> {
    let record = section.size("record")?;
    record.within(1, RECORD_BYTES_MAX)?;
    if record.value > size_bytes {
        return Err(record.breaks("the record is larger than the file"));
    }
    Ok(record)
}

fn processes(top: &mut Section<'_>, threads: u32, pattern: &Pattern, beside: bool) -> Result<u32, Error> {
    let Some(processes) = top.optional_integer("processes", "a number of processes such as 8")? else { return Ok(1) };
    let count = processes.within(1, u64::from(threads))? as u32;
    if count > 1 && pattern.descriptor() == Descriptor::Shared {
        return Err(processes.breaks("threads of several processes share no descriptor"));
    }
    if count > 1 && beside {
        return Err(processes.breaks(
            "whoever reads beside the others ends with them, and who walks a tree waits for the others: in one process",
        ));
    }
    Ok(count)
}

fn baselines(top: &mut Section<'_>) -> Result<Vec<Baseline>, Error> {
    const WANTED: &str = "a list of baselines such as [\"fair-queue-off\"]";
    let baseline = |name: Placed<'_, String>| {
        let found = Baseline::ALL.iter().find(|baseline| baseline.as_str() == name.value);
        found.copied().ok_or_else(|| name.is_not(WANTED))
    };
    top.optional_strings("baselines", WANTED)?.into_iter().map(baseline).collect()
}

fn device(section: &mut Section<'_>) -> Result<Device, Error> {
    const PROFILE: &str = "the name of a device model such as \"hdd-w1\"";
    if let Some(profile) = section.optional_string("profile", PROFILE)? {
        return Ok(Device::Profile(profile.value));
    }
    if let Some(emulated) = section.optional_string("emulated", PROFILE)? {
        return Ok(Device::Emulated(emulated.value));
    }
    if section.optional_bool("local")?.unwrap_or(false) {
        return Ok(Device::Local);
    }
    let one_in = section.optional_integer("slow_one_in", "a number of requests such as 50")?;
    let times = section.optional_integer("slow_times", "a factor such as 20")?;
    let slow = match (one_in, times) {
        (Some(one_in), Some(times)) => {
            Some(Slow { one_in: one_in.within(1, 1_000_000)? as u32, times: times.within(2, 10_000)? as u32 })
        }
        (None, None) => None,
        (Some(one_in), None) => return Err(one_in.breaks("`slow_times` says how slow they are")),
        (None, Some(times)) => return Err(times.breaks("`slow_one_in` says how many are slow")),
    };
    let concurrency = section.optional_integer("concurrency", "a number of requests such as 16")?;
    let concurrency = concurrency.map(|most| most.within(1, 1_000_000)).transpose()?;
    Ok(Device::Store(Store {
        slow,
        concurrency: concurrency.and_then(|most| NonZeroU32::new(most as u32)),
        first_byte_ns: section.duration("first_byte")?.value,
        connection_bytes_per_s: section.rate("connection_rate")?.at_least(1)?,
        total_bytes_per_s: section.optional_rate("total_rate")?.map(|rate| rate.at_least(1)).transpose()?,
        ceiling_min_bytes_per_s: section.optional_rate("ceiling_min")?.map(|rate| rate.value),
    }))
}

fn pattern(section: &mut Section<'_>, size_bytes: u64) -> Result<Pattern, Error> {
    const KINDS: &str = "one of \"sequential\", \"backward\", \"strided\", \"dealt\", \"interleaved\", \"random\", \
                         \"hot\", \"slow\", \"mmap-random\", \"disk-tree\", \"region\"";
    const PERCENT: &str = "a percentage such as 20";
    let kind = section.string("kind", KINDS)?;
    if kind.value == "disk-tree" {
        return disk_tree(section).map(Pattern::DiskTree);
    }
    if kind.value == "region" {
        return region(section).map(Pattern::Region);
    }
    let record = record(section, size_bytes)?;
    let record_bytes = record.value as u32;
    Ok(match kind.value.as_str() {
        "sequential" => {
            let passes = section.optional_integer("passes", "a number of passes such as 2")?;
            let passes = passes.map_or(Ok(1), |passes| passes.within(1, PASSES_MAX))? as u32;
            Pattern::Sequential { record_bytes, passes }
        }
        "hot" => Pattern::Hot {
            record_bytes,
            areas: section.integer("areas", "a number of areas such as 100")?.within(1, AREAS_MAX)? as u32,
            area_bytes: section.size("area")?.within(record.value, size_bytes)?,
            hot_percent: section.integer("hot_percent", PERCENT)?.within(0, 100)? as u8,
            follow_percent: section.integer("follow_percent", PERCENT)?.within(0, 100)? as u8,
        },
        "backward" => Pattern::Backward { record_bytes },
        "strided" => {
            let stride = section.size("stride")?;
            if stride.value < record.value {
                return Err(stride.breaks("the stride is smaller than the record"));
            }
            Pattern::Strided { record_bytes, stride_bytes: stride.value }
        }
        "dealt" => Pattern::Dealt { record_bytes, descriptor: descriptor(section)? },
        "interleaved" => {
            let streams = section.integer("streams", "a number of streams such as 2")?;
            if streams.value < 2 || streams.value > size_bytes / record.value {
                return Err(streams.breaks("interleaving needs at least 2 streams, and a record for each in the file"));
            }
            Pattern::Interleaved { record_bytes, streams: streams.value as u32 }
        }
        "random" => {
            let descriptor = descriptor(section)?;
            let repeats = section.optional_bool("repeats")?.unwrap_or(false);
            let period_ns = section.optional_duration("period")?.map(|period| period.at_least(1)).transpose()?;
            let run = section.optional_integer("run", "a number of records such as 8")?;
            let run = run.map_or(Ok(1), |run| match size_bytes / record.value {
                records if !records.is_multiple_of(run.value.max(1)) => {
                    Err(run.breaks("a file has no whole number of runs"))
                }
                records => run.within(1, records),
            })? as u32;
            Pattern::Random { record_bytes, repeats, run, descriptor, period_ns }
        }
        "slow" => {
            let period_ns = section.duration("period")?.at_least(1)?;
            let start_every_ns = section.optional_duration("start_every")?.map_or(0, |every| every.value);
            let catches_up = section.optional_bool("catch_up")?.unwrap_or(true);
            Pattern::Slow { record_bytes, period_ns, start_every_ns, catches_up }
        }
        "mmap-random" => Pattern::MmapRandom { record_bytes },
        _ => return Err(kind.is_not(KINDS)),
    })
}

fn disk_tree(section: &mut Section<'_>) -> Result<DiskTree, Error> {
    const SHAPES: &str = "\"flat\" or \"system\"";
    let directories = section.integer("directories", "a number of directories such as 100")?;
    let shape = section.string("shape", SHAPES)?;
    let shape = match shape.value.as_str() {
        "flat" => Shape::Flat,
        "system" => Shape::System,
        _ => return Err(shape.is_not(SHAPES)),
    };
    let least = if shape == Shape::System { SYSTEM_DIRECTORIES_MIN } else { 0 };
    Ok(DiskTree {
        directories: directories.within(least, TREE_FILES_MAX)? as u32,
        shape,
        name_bytes: section.size("name")?.within(1, NAME_BYTES_MAX)? as u32,
        copied: section.optional_bool("copied")?.unwrap_or(false),
        copy_bytes: section.optional_size("copy")?.map(|copy| copy.at_least(1)).transpose()?,
    })
}

fn region(section: &mut Section<'_>) -> Result<Region, Error> {
    const ORDERS: &str = "one of \"sequential\", \"random\", \"mixed\"";
    let order = section.string("order", ORDERS)?;
    let order = match order.value.as_str() {
        "sequential" => Order::Sequential,
        "random" => Order::Random,
        "mixed" => Order::Mixed,
        _ => return Err(order.is_not(ORDERS)),
    };
    let cycles = section.integer("cycles", "a number of cycles such as 5")?.within(1, PASSES_MAX)? as u32;
    Ok(Region { order, cycles })
}

fn descriptor(section: &mut Section<'_>) -> Result<Descriptor, Error> {
    const WANTED: &str = "\"shared\" or \"own\"";
    let descriptor = section.string("descriptor", WANTED)?;
    match descriptor.value.as_str() {
        "shared" => Ok(Descriptor::Shared),
        "own" => Ok(Descriptor::Own),
        _ => Err(descriptor.is_not(WANTED)),
    }
}

fn figures(mut section: Section<'_>, pattern: &Pattern, files: u32, beside: bool) -> Result<Vec<Figure>, Error> {
    let random = matches!(pattern, Pattern::Random { .. } | Pattern::MmapRandom { .. });
    let walks = matches!(pattern, Pattern::Walk { .. } | Pattern::Epochs { .. });
    let names_only = matches!(pattern, Pattern::Walk { visit: Visit::Names | Visit::Attributes });
    let mut figures = Vec::new();
    for &metric in Metric::ALL {
        if let Some(text) = section.optional_string(metric.key(), Figure::WANTED)? {
            let parsed =
                Figure::parse_all(metric, &text.value, metric.unit()).ok_or_else(|| text.is_not(Figure::WANTED))?;
            match metric {
                Metric::OperationsOfBare if !random || files != 1 => {
                    return Err(text.breaks("only random reads of one file are compared with a bare client"));
                }
                metric if metric.is_of_trees() && !walks => {
                    return Err(text.breaks("only a workload with a tree has this figure"));
                }
                Metric::FilesRead | Metric::ReadsPerFile if names_only => {
                    return Err(text.breaks("this pattern reads no file"));
                }
                Metric::Late if pattern.period_ns().is_none() => {
                    return Err(text.breaks("only a slow pattern can be late"));
                }
                Metric::FindTime | Metric::FindWaits | Metric::GrepTime | Metric::CopyTime | Metric::ReadAhead
                    if !matches!(pattern, Pattern::DiskTree(_)) =>
                {
                    return Err(text.breaks("only a tree has programs that go through it"));
                }
                Metric::TouchTime | Metric::TouchWaits | Metric::PagesIn | Metric::PagesOut
                    if !matches!(pattern, Pattern::Region(_)) =>
                {
                    return Err(text.breaks("only a region is touched"));
                }
                Metric::BesideThroughput | Metric::BesideReadP99 if !beside => {
                    return Err(text.breaks("nobody reads beside: `[beside]` says who"));
                }
                _ => figures.extend(parsed.into_iter().map(|figure| (text.at.start, figure))),
            }
        }
    }
    section.end()?;
    figures.sort_by_key(|&(start, _)| start);
    Ok(figures.into_iter().map(|(_, figure)| figure).collect())
}

fn simulate(mut section: Section<'_>, pattern: &Pattern, files: u32, beside: bool) -> Result<Simulate, Error> {
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
            expect.push((name, figures(section, pattern, files, beside)?));
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

/// Figures that are ratios, whatever the unit of their metric.
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

/// The text that is being read: makes errors.
#[derive(Clone, Copy)]
struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn error(self, key: &str, at: &Range<usize>, problem: Problem) -> Error {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        let line = 1 + before.matches('\n').count();
        Error { file: self.file.to_owned(), line, key: key.to_owned(), problem: Box::new(problem) }
    }
}

/// A value with its place, for rules that are checked later.
struct Placed<'a, T> {
    source: Source<'a>,
    key: String,
    at: Range<usize>,
    value: T,
}

impl<T: Display> Placed<'_, T> {
    fn is_not(&self, wanted: &'static str) -> Error {
        self.source.error(&self.key, &self.at, Problem::Value { found: self.value.to_string(), wanted })
    }

    fn breaks(&self, rule: &'static str) -> Error {
        let found = self.source.text.get(self.at.clone()).map_or_else(|| self.value.to_string(), str::to_owned);
        self.source.error(&self.key, &self.at, Problem::Rule { found, rule })
    }
}

impl Placed<'_, u64> {
    fn at_least(&self, min: u64) -> Result<u64, Error> {
        if self.value < min { Err(self.breaks("too small")) } else { Ok(self.value) }
    }

    fn within(&self, min: u64, max: u64) -> Result<u64, Error> {
        if self.value > max { Err(self.breaks("too large")) } else { self.at_least(min) }
    }
}

/// One table, from which known keys are taken; what is left at the end is unknown.
struct Section<'a> {
    source: Source<'a>,
    path: String,
    at: Range<usize>,
    table: DeTable<'a>,
    known: Vec<&'static str>,
}

impl<'a> Section<'a> {
    fn new(source: Source<'a>, path: &str, at: Range<usize>, table: DeTable<'a>) -> Self {
        Self { source, path: path.to_owned(), at, table, known: Vec::new() }
    }

    fn key(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn take(&mut self, name: &'static str) -> Option<Spanned<DeValue<'a>>> {
        self.known.push(name);
        let key = self.table.keys().find(|key| key.get_ref() == name)?.clone();
        self.table.remove(&key)
    }

    /// The table cannot be together with something else.
    fn breaks(&self, rule: &'static str) -> Error {
        self.source.error(&self.path, &self.at, Problem::Rule { found: format!("[{}]", self.path), rule })
    }

    fn missing(&self, name: &str, wanted: &'static str) -> Error {
        self.source.error(&self.key(name), &self.at, Problem::Missing { wanted })
    }

    fn place<T>(&self, name: &str, at: Range<usize>, value: T) -> Placed<'a, T> {
        Placed { source: self.source, key: self.key(name), at, value }
    }

    /// The value as it stands in the file, for a complaint about its type.
    fn mistyped(&self, name: &str, value: &Spanned<DeValue<'_>>, wanted: &'static str) -> Error {
        let found = self.source.text.get(value.span()).unwrap_or_default().to_owned();
        self.place(name, value.span(), found).is_not(wanted)
    }

    fn optional_string(
        &mut self,
        name: &'static str,
        wanted: &'static str,
    ) -> Result<Option<Placed<'a, String>>, Error> {
        let Some(value) = self.take(name) else { return Ok(None) };
        match value.get_ref().as_str() {
            Some(text) => Ok(Some(self.place(name, value.span(), text.to_owned()))),
            None => Err(self.mistyped(name, &value, wanted)),
        }
    }

    fn string(&mut self, name: &'static str, wanted: &'static str) -> Result<Placed<'a, String>, Error> {
        self.optional_string(name, wanted)?.ok_or_else(|| self.missing(name, wanted))
    }

    fn text(&mut self, name: &'static str, wanted: &'static str) -> Result<String, Error> {
        let text = self.string(name, wanted)?;
        if text.value.trim().is_empty() { Err(text.is_not(wanted)) } else { Ok(text.value) }
    }

    /// The whole numbers of a list; none if there is no such key.
    fn optional_integers(&mut self, name: &'static str, wanted: &'static str) -> Result<Vec<Placed<'a, u64>>, Error> {
        let Some(value) = self.take(name) else { return Ok(Vec::new()) };
        let number = |item: &Spanned<DeValue<'_>>| {
            let number = item.get_ref().as_integer()?;
            Some((item.span(), u64::from_str_radix(number.as_str(), number.radix()).ok()?))
        };
        let list = value.get_ref().as_array().and_then(|list| list.iter().map(number).collect::<Option<Vec<_>>>());
        let list = list.ok_or_else(|| self.mistyped(name, &value, wanted))?;
        Ok(list.into_iter().map(|(at, number)| self.place(name, at, number)).collect())
    }

    fn optional_bool(&mut self, name: &'static str) -> Result<Option<bool>, Error> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let found = value.get_ref().as_bool();
        found.ok_or_else(|| self.mistyped(name, &value, "true or false")).map(Some)
    }

    /// The strings of a list; none if there is no such key.
    fn optional_strings(&mut self, name: &'static str, wanted: &'static str) -> Result<Vec<Placed<'a, String>>, Error> {
        let Some(value) = self.take(name) else { return Ok(Vec::new()) };
        let string = |item: &Spanned<DeValue<'_>>| Some((item.span(), item.get_ref().as_str()?.to_owned()));
        let list = value.get_ref().as_array().and_then(|list| list.iter().map(string).collect::<Option<Vec<_>>>());
        let list = list.ok_or_else(|| self.mistyped(name, &value, wanted))?;
        Ok(list.into_iter().map(|(at, string)| self.place(name, at, string)).collect())
    }

    fn optional_integer(&mut self, name: &'static str, wanted: &'static str) -> Result<Option<Placed<'a, u64>>, Error> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = value.get_ref().as_integer();
        match number.and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok()) {
            Some(number) => Ok(Some(self.place(name, value.span(), number))),
            None => Err(self.mistyped(name, &value, wanted)),
        }
    }

    fn integer(&mut self, name: &'static str, wanted: &'static str) -> Result<Placed<'a, u64>, Error> {
        self.optional_integer(name, wanted)?.ok_or_else(|| self.missing(name, wanted))
    }

    fn optional_quantity(
        &mut self,
        name: &'static str,
        wanted: &'static str,
        read: fn(&str) -> Option<u64>,
    ) -> Result<Option<Placed<'a, u64>>, Error> {
        let Some(text) = self.optional_string(name, wanted)? else { return Ok(None) };
        let value = read(&text.value).ok_or_else(|| text.is_not(wanted))?;
        Ok(Some(self.place(name, text.at, value)))
    }

    fn optional_size(&mut self, name: &'static str) -> Result<Option<Placed<'a, u64>>, Error> {
        self.optional_quantity(name, quantity::SIZE_WANTED, quantity::size)
    }

    fn size(&mut self, name: &'static str) -> Result<Placed<'a, u64>, Error> {
        self.optional_size(name)?.ok_or_else(|| self.missing(name, quantity::SIZE_WANTED))
    }

    fn duration(&mut self, name: &'static str) -> Result<Placed<'a, u64>, Error> {
        self.optional_duration(name)?.ok_or_else(|| self.missing(name, quantity::DURATION_WANTED))
    }

    fn optional_duration(&mut self, name: &'static str) -> Result<Option<Placed<'a, u64>>, Error> {
        self.optional_quantity(name, quantity::DURATION_WANTED, quantity::duration)
    }

    fn optional_rate(&mut self, name: &'static str) -> Result<Option<Placed<'a, u64>>, Error> {
        self.optional_quantity(name, quantity::RATE_WANTED, quantity::rate)
    }

    fn rate(&mut self, name: &'static str) -> Result<Placed<'a, u64>, Error> {
        self.optional_rate(name)?.ok_or_else(|| self.missing(name, quantity::RATE_WANTED))
    }

    fn optional_section(&mut self, name: &'static str) -> Result<Option<Section<'a>>, Error> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let at = value.span();
        match value.into_inner() {
            DeValue::Table(table) => Ok(Some(Section::new(self.source, &self.key(name), at, table))),
            other => Err(self.mistyped(name, &Spanned::new(at, other), "a table")),
        }
    }

    fn section(&mut self, name: &'static str) -> Result<Section<'a>, Error> {
        self.optional_section(name)?.ok_or_else(|| self.missing(name, "a table"))
    }

    /// Every table in this one, in the order of the file: name, place, content.
    fn sections(self) -> Result<Vec<(String, Range<usize>, Section<'a>)>, Error> {
        let mut all = Vec::new();
        for (key, value) in self.table {
            let (name, at) = (key.get_ref().to_string(), value.span());
            let path = format!("{}.{name}", self.path);
            match value.into_inner() {
                DeValue::Table(table) => all.push((name, at.clone(), Section::new(self.source, &path, at, table))),
                other => {
                    let found = format!("{other:?}");
                    return Err(Placed { source: self.source, key: path, at, value: found }.is_not("a table"));
                }
            }
        }
        all.sort_by_key(|(_, at, _)| at.start);
        Ok(all)
    }

    /// Complains about the first key that nothing has taken.
    fn end(self) -> Result<(), Error> {
        match self.table.keys().min_by_key(|key| key.span().start) {
            Some(key) => {
                let path = self.key(key.get_ref());
                Err(self.source.error(&path, &key.span(), Problem::Unknown { known: self.known }))
            }
            None => Ok(()),
        }
    }
}
