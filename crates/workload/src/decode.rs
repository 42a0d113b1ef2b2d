//! Reads the TOML of a workload by hand: every error names the file, the line and the dotted key;
//! an unknown key is an error, and so is a key that has no meaning for the chosen pattern. (A
//! derived decoder loses the position as soon as an enum is tagged.)

mod device;
mod expect;
mod limits;
mod pattern;
mod program;
mod quantity;
mod section;
mod tier;

use toml::de::DeTable;

use crate::error::{Error, Problem};
use crate::load::Load;
use crate::workload::device::Device;
use crate::workload::files::Files;
use crate::workload::pattern::{Descriptor, Pattern};
use crate::workload::simulate::Simulate;
use crate::workload::tree::Tree;
use crate::workload::{Baseline, Mount, Workload};
use device::device;
use expect::{Has, figures, simulate};
use limits::{FILES_MAX, THREADS_MAX, TREE_FILES_MAX};
use pattern::{pattern, walk};
use section::{Placed, Section, Source};

impl Workload {
    /// Reads a workload. `file` is used in messages only.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        workload(top(file, text)?)
    }
}

impl Load {
    /// Reads a workload, or a program if the text has `[program]`. `file` is used in messages
    /// only.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let mut top = top(file, text)?;
        match top.optional_section("program")? {
            Some(section) => program::program(top, section).map(Self::Program),
            None => workload(top).map(Self::Reads),
        }
    }
}

/// Levels of a tree at most: a path has 4,096 bytes.
const DEPTH_MAX: u64 = 200;
/// Fewest bytes of an extent: a page.
const EXTENT_BYTES_MIN: u64 = 4096;

/// The table of a whole file.
fn top<'a>(file: &'a str, text: &'a str) -> Result<Section<'a>, Error> {
    let source = Source { file, text };
    let root = DeTable::parse(text).map_err(|error| {
        let at = error.span().unwrap_or(0..0);
        source.error("", &at, Problem::Syntax(error))
    })?;
    Ok(Section::new(source, "", root.span(), root.into_inner()))
}

/// Reads and checks a whole workload.
fn workload(mut top: Section<'_>) -> Result<Workload, Error> {
    let name = top.text("name", "a name such as \"random-4k-16\"")?;
    let description = top.text("description", "a sentence")?;
    let seed = top.integer("seed", "a whole number")?.value;
    let duration_ns = top.duration("duration")?.at_least(1)?;
    let Group { threads, operations_max, files, tree, pattern } = group(&mut top)?;
    let beside = top.optional_section("beside")?.map(|mut section| {
        let beside = group(&mut section)?;
        if tree.is_some() || beside.tree.is_some() {
            return Err(section.breaks("no threads read beside a walk of a tree"));
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

    let tier = match top.optional_section("tier")? {
        Some(mut section) => {
            let tier = tier::tier(&mut section, &files, &pattern, &device)?;
            section.end()?;
            Some(tier)
        }
        None => None,
    };

    let mut section = top.section("mount")?;
    let memory_bytes = section.size("memory")?.at_least(1 << 20)?;
    let cgroup = section.optional_size("cgroup")?;
    if let Some(cgroup) = &cgroup
        && cgroup.value <= memory_bytes
    {
        return Err(cgroup.breaks("the cgroup must be larger than the mount's own memory"));
    }
    let cache = section.optional_size("cache")?;
    if let Some(cache) = &cache
        && device.store().is_none()
    {
        return Err(cache.breaks("only content of an object store is kept in a cache"));
    }
    section.end()?;
    let cgroup_bytes = cgroup.map(|cgroup| cgroup.value);
    let mount = Mount { memory_bytes, cgroup_bytes, cache_bytes: cache.map(|cache| cache.value) };

    let has = Has { pattern: &pattern, files: files.count, beside: beside.is_some(), tier: tier.is_some() };
    let expect = match top.optional_section("expect")? {
        Some(section) => figures(section, &has)?,
        None => Vec::new(),
    };
    let simulate = match top.optional_section("simulate")? {
        Some(section) => simulate(section, &has)?,
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
        tier,
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
            tier: None,
            expect: Vec::new(),
            simulate,
            ..workload.clone()
        })
    });
    Ok(workload)
}

/// Threads with their files and their pattern.
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
        None => pattern(&mut section, &files)?,
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

fn processes(top: &mut Section<'_>, threads: u32, pattern: &Pattern, beside: bool) -> Result<u32, Error> {
    let Some(processes) = top.optional_integer("processes", "a number of processes such as 8")? else { return Ok(1) };
    let count = processes.within(1, u64::from(threads))? as u32;
    if count > 1 && pattern.descriptor() == Descriptor::Shared {
        return Err(processes.breaks("threads of several processes share no descriptor"));
    }
    if count > 1 && beside {
        return Err(processes.breaks(
            "threads that read beside end with the others, and threads that walk a tree wait for each other: in one process",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_workload_files() {
        let texts = crate::catalogue::TEXTS.iter().chain(crate::catalogue::PROGRAMS);
        let seeds: Vec<&[u8]> = texts.map(|(_, text)| text.as_bytes()).collect();
        let words = [
            "\n[pattern]\n",
            "\n[device]\n",
            "kind = ",
            "threads = ",
            "\"1EiB\"",
            "\"18446744073709551615\"",
            "\"0\"",
            "record",
            "stride",
            "run = ",
            "\n[tree]\n",
            "\n[tier]\n",
            "0B..",
            "\n[beside]\n",
            "\n[expect]\n",
            "\n[program]\n",
            "again = true\n",
            "e9",
            "[[",
            "= nan\n",
        ];
        foreread_fuzz::fuzz("workload files", &seeds, &words, |text| {
            let Ok(text) = std::str::from_utf8(text) else { return };
            let Ok(Load::Reads(workload)) = Load::parse("fuzz.toml", text) else { return };
            for thread in [0, workload.threads - 1] {
                for op in workload.operations(thread).take(64) {
                    let end = op.offset.checked_add(u64::from(op.len));
                    assert!(op.len >= 1 && end.is_some_and(|end| end <= workload.files.size_bytes), "{op:?}");
                    assert!(op.file < workload.files.count, "{op:?}");
                }
            }
        });
    }
}
