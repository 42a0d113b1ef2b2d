//! The built-in workloads: `foreread bench` needs no checkout.

use crate::load::Load;
use crate::workload::Workload;

/// Name and text of each, in the order of a report.
pub const TEXTS: &[(&str, &str)] = &[
    ("sequential-1m", include_str!("../../../workloads/sequential-1m.toml")),
    ("sequential-128k", include_str!("../../../workloads/sequential-128k.toml")),
    ("files-16", include_str!("../../../workloads/files-16.toml")),
    ("files-16-shared-link", include_str!("../../../workloads/files-16-shared-link.toml")),
    ("one-file-64", include_str!("../../../workloads/one-file-64.toml")),
    ("random-4k-1", include_str!("../../../workloads/random-4k-1.toml")),
    ("random-4k-16", include_str!("../../../workloads/random-4k-16.toml")),
    ("random-4k-16-slow-tail", include_str!("../../../workloads/random-4k-16-slow-tail.toml")),
    ("random-128k-1", include_str!("../../../workloads/random-128k-1.toml")),
    ("random-128k-16", include_str!("../../../workloads/random-128k-16.toml")),
    ("stride-64k-of-1m", include_str!("../../../workloads/stride-64k-of-1m.toml")),
    ("backward-1m", include_str!("../../../workloads/backward-1m.toml")),
    ("interleaved-2", include_str!("../../../workloads/interleaved-2.toml")),
    ("interleaved-5", include_str!("../../../workloads/interleaved-5.toml")),
    ("slow-200", include_str!("../../../workloads/slow-200.toml")),
    ("interactive-beside-16", include_str!("../../../workloads/interactive-beside-16.toml")),
    ("interactive-beside-64-small", include_str!("../../../workloads/interactive-beside-64-small.toml")),
    ("parallel-scan-64", include_str!("../../../workloads/parallel-scan-64.toml")),
    ("slow-200-beside-2", include_str!("../../../workloads/slow-200-beside-2.toml")),
    ("mmap-random", include_str!("../../../workloads/mmap-random.toml")),
    ("find", include_str!("../../../workloads/find.toml")),
    ("find-small", include_str!("../../../workloads/find-small.toml")),
    ("ls", include_str!("../../../workloads/ls.toml")),
    ("grep", include_str!("../../../workloads/grep.toml")),
    ("small", include_str!("../../../workloads/small.toml")),
    ("second-pass", include_str!("../../../workloads/second-pass.toml")),
    ("second-pass-random", include_str!("../../../workloads/second-pass-random.toml")),
    ("epoch", include_str!("../../../workloads/epoch.toml")),
    ("large-directory", include_str!("../../../workloads/large-directory.toml")),
    ("deep-tree", include_str!("../../../workloads/deep-tree.toml")),
    ("grep-stopped", include_str!("../../../workloads/grep-stopped.toml")),
    ("iozone-read", include_str!("../../../workloads/iozone-read.toml")),
    ("iozone-re-read", include_str!("../../../workloads/iozone-re-read.toml")),
    ("iozone-reverse", include_str!("../../../workloads/iozone-reverse.toml")),
    ("iozone-stride", include_str!("../../../workloads/iozone-stride.toml")),
    ("iozone-random", include_str!("../../../workloads/iozone-random.toml")),
    ("iozone-mixed", include_str!("../../../workloads/iozone-mixed.toml")),
    ("iozone-pread", include_str!("../../../workloads/iozone-pread.toml")),
    ("aio-stress-sequential", include_str!("../../../workloads/aio-stress-sequential.toml")),
    ("aio-stress-random", include_str!("../../../workloads/aio-stress-random.toml")),
    ("sysbench-fileio", include_str!("../../../workloads/sysbench-fileio.toml")),
    ("sysbench-oltp", include_str!("../../../workloads/sysbench-oltp.toml")),
    ("disk-interleaved-2", include_str!("../../../workloads/disk-interleaved-2.toml")),
    ("disk-interleaved-5", include_str!("../../../workloads/disk-interleaved-5.toml")),
    ("disk-interleaved-50", include_str!("../../../workloads/disk-interleaved-50.toml")),
    ("disk-epochs", include_str!("../../../workloads/disk-epochs.toml")),
    ("local-random-4k-64", include_str!("../../../workloads/local-random-4k-64.toml")),
    ("array-random-4k-64", include_str!("../../../workloads/array-random-4k-64.toml")),
    ("thrash-200-streams", include_str!("../../../workloads/thrash-200-streams.toml")),
    ("fio-random-serial", include_str!("../../../workloads/fio-random-serial.toml")),
    ("fio-random-async", include_str!("../../../workloads/fio-random-async.toml")),
    ("fio-stream-plain", include_str!("../../../workloads/fio-stream-plain.toml")),
    ("fio-stream-async", include_str!("../../../workloads/fio-stream-async.toml")),
    ("tiobench-32", include_str!("../../../workloads/tiobench-32.toml")),
    ("disk-adjacent-2", include_str!("../../../workloads/disk-adjacent-2.toml")),
    ("disk-cooperators-2", include_str!("../../../workloads/disk-cooperators-2.toml")),
    ("disk-interactive-beside-32", include_str!("../../../workloads/disk-interactive-beside-32.toml")),
    ("find-1000x100", include_str!("../../../workloads/find-1000x100.toml")),
    ("find-system", include_str!("../../../workloads/find-system.toml")),
    ("find-grep-cp", include_str!("../../../workloads/find-grep-cp.toml")),
    ("list-110000", include_str!("../../../workloads/list-110000.toml")),
    ("region-sequential", include_str!("../../../workloads/region-sequential.toml")),
    ("region-random", include_str!("../../../workloads/region-random.toml")),
    ("region-mixed", include_str!("../../../workloads/region-mixed.toml")),
    ("region-sequential-disk", include_str!("../../../workloads/region-sequential-disk.toml")),
    ("region-rows", include_str!("../../../workloads/region-rows.toml")),
    ("region-random-disk", include_str!("../../../workloads/region-random-disk.toml")),
    ("cache-epochs", include_str!("../../../workloads/cache-epochs.toml")),
    ("cache-scan", include_str!("../../../workloads/cache-scan.toml")),
    ("cache-boundary", include_str!("../../../workloads/cache-boundary.toml")),
    ("cache-restart", include_str!("../../../workloads/cache-restart.toml")),
    ("cache-slow-disk", include_str!("../../../workloads/cache-slow-disk.toml")),
];

/// Name and text of each program, in the order of a report.
pub const PROGRAMS: &[(&str, &str)] = &[
    ("import-pandas", include_str!("../../../workloads/programs/import-pandas.toml")),
    ("import-pandas-stale", include_str!("../../../workloads/programs/import-pandas-stale.toml")),
    ("git-status", include_str!("../../../workloads/programs/git-status.toml")),
    ("git-grep", include_str!("../../../workloads/programs/git-grep.toml")),
    ("git-log", include_str!("../../../workloads/programs/git-log.toml")),
    ("duckdb-columns", include_str!("../../../workloads/programs/duckdb-columns.toml")),
    ("duckdb-wide", include_str!("../../../workloads/programs/duckdb-wide.toml")),
    ("duckdb-key", include_str!("../../../workloads/programs/duckdb-key.toml")),
    ("duckdb-limit", include_str!("../../../workloads/programs/duckdb-limit.toml")),
    ("pyarrow-columns", include_str!("../../../workloads/programs/pyarrow-columns.toml")),
    ("pyarrow-wide", include_str!("../../../workloads/programs/pyarrow-wide.toml")),
    ("pyarrow-key", include_str!("../../../workloads/programs/pyarrow-key.toml")),
    ("pyarrow-limit", include_str!("../../../workloads/programs/pyarrow-limit.toml")),
    ("polars-columns", include_str!("../../../workloads/programs/polars-columns.toml")),
    ("orc-columns", include_str!("../../../workloads/programs/orc-columns.toml")),
    ("numpy-arrays", include_str!("../../../workloads/programs/numpy-arrays.toml")),
    ("small-files", include_str!("../../../workloads/programs/small-files.toml")),
    ("cat-2gib", include_str!("../../../workloads/programs/cat-2gib.toml")),
    ("sqlite-index", include_str!("../../../workloads/programs/sqlite-index.toml")),
    ("thumbnails", include_str!("../../../workloads/programs/thumbnails.toml")),
    ("tar-layers", include_str!("../../../workloads/programs/tar-layers.toml")),
    ("node-module", include_str!("../../../workloads/programs/node-module.toml")),
];

/// Name and text of each script that makes what programs read.
pub const DATA: &[(&str, &str)] = &[
    ("site-packages", include_str!("../../../workloads/programs/data/site-packages")),
    ("site-packages-stale", include_str!("../../../workloads/programs/data/site-packages-stale")),
    ("repository", include_str!("../../../workloads/programs/data/repository")),
    ("parquet", include_str!("../../../workloads/programs/data/parquet")),
    ("arrays", include_str!("../../../workloads/programs/data/arrays")),
    ("small-files", include_str!("../../../workloads/programs/data/small-files")),
    ("large-file", include_str!("../../../workloads/programs/data/large-file")),
    ("sqlite", include_str!("../../../workloads/programs/data/sqlite")),
    ("pictures", include_str!("../../../workloads/programs/data/pictures")),
    ("layers", include_str!("../../../workloads/programs/data/layers")),
    ("node-modules", include_str!("../../../workloads/programs/data/node-modules")),
];

/// Name and text of each script that installs what programs need.
pub const TOOLS: &[(&str, &str)] = &[
    ("pillow", include_str!("../../../workloads/programs/tools/pillow")),
    ("tables", include_str!("../../../workloads/programs/tools/tables")),
];

/// The text of the workload or program of that name.
pub fn text(name: &str) -> Option<&'static str> {
    find_in(TEXTS, name).or_else(|| find_in(PROGRAMS, name))
}

/// The text of that name in one of the lists above.
pub fn find_in(list: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    list.iter().find(|(known, _)| *known == name).map(|&(_, text)| text)
}

/// The workload of that name; `None` for a program.
///
/// # Panics
/// Never in a build that passed its tests: they parse every text.
pub fn find(name: &str) -> Option<Workload> {
    let parsed = Load::parse(&format!("workloads/{name}.toml"), text(name)?);
    match parsed.unwrap_or_else(|error| panic!("{error}")) {
        Load::Reads(workload) => Some(workload),
        Load::Program(_) => None,
    }
}
