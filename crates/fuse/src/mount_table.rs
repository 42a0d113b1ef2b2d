//! The kernel's table of mounts (`/proc/self/mountinfo`): what is mounted where.
//!
//! A question to the table never blocks, as one to the directory may: a mount whose server hangs
//! or was killed is still in the table.
//!
//! Format: proc(5). Mount points are escaped in octal; the last line for a point is the one that
//! is visible.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The device of the file system, major and minor: `0:50`.
    pub device: String,
    /// The directory of the file system that is shown at `point`.
    pub root: PathBuf,
    /// The mount point.
    pub point: PathBuf,
    /// The type, such as `fuse.foreread`.
    pub kind: String,
    /// The source, as the mount names it.
    pub source: String,
    /// Options of the file system, comma-separated.
    pub super_options: String,
}

impl Mount {
    /// Whether this program made it.
    pub fn is_ours(&self) -> bool {
        self.kind == KIND
    }
}

/// The type of a foreread mount in the table.
pub const KIND: &str = "fuse.foreread";

/// Every mount that this process sees, in the table's order.
pub fn read() -> io::Result<Vec<Mount>> {
    Ok(parse(&std::fs::read_to_string("/proc/self/mountinfo")?))
}

/// The visible mount at exactly `point` (absolute, without symbolic links), if there is one.
pub fn at(point: &Path) -> io::Result<Option<Mount>> {
    Ok(read()?.into_iter().rev().find(|mount| mount.point == point))
}

/// Whether a foreread mount is on `dir`, dead or alive.
pub fn stands(dir: &Path) -> bool {
    resolve(dir).and_then(|point| at(&point)).is_ok_and(|mount| mount.is_some_and(|mount| mount.is_ours()))
}

/// The mount point of the foreread mount that `dir` lies in, if that can be told without asking
/// the mount, which may wait for its storage: `dir` need not exist there.
pub fn around(dir: &Path) -> io::Result<Option<PathBuf>> {
    Ok(way_into(dir)?.map(|(point, _)| point))
}

/// The same, and the path from there.
pub(crate) fn way_into(dir: &Path) -> io::Result<Option<(PathBuf, PathBuf)>> {
    let mounts = read()?;
    let mut dir = std::path::absolute(dir)?;
    for _ in 0..LINKS_MAX {
        if dir.components().any(|part| part == Component::ParentDir) {
            return Ok(None);
        }
        let (mut point, mut parts) = (PathBuf::new(), dir.components());
        let target = loop {
            let Some(part) = parts.next() else { return Ok(None) };
            point.push(part);
            match mounts.iter().rev().find(|mount| mount.point == point) {
                Some(mount) if mount.is_ours() => {
                    let covers = |mount: &Mount| mount.point.starts_with(&point) && dir.starts_with(&mount.point);
                    let is_covered = mounts.iter().any(|mount| mount.point != point && covers(mount));
                    return Ok((!is_covered).then(|| (point, parts.as_path().to_owned())));
                }
                None if point.is_symlink() => break std::fs::read_link(&point)?,
                Some(_) | None => {}
            }
        };
        dir = point.with_file_name(target).join(parts.as_path());
    }
    Ok(None)
}

/// Symbolic links followed in one path. Lower: fewer paths are told without a question. Higher:
/// a circle of links is noticed later. Source: `MAXSYMLINKS` of Linux.
const LINKS_MAX: usize = 40;

/// `dir`, absolute and without symbolic links. `dir` itself is not touched if it is a mount point.
///
/// A dead mount answers even `lstat` with ENOTCONN, and a hung mount does not answer.
pub fn resolve(dir: &Path) -> io::Result<PathBuf> {
    if let (Some(parent), Some(name)) = (std::path::absolute(dir)?.parent(), dir.file_name()) {
        let point = parent.canonicalize()?.join(name);
        if at(&point)?.is_some() {
            return Ok(point);
        }
    }
    dir.canonicalize()
}

/// Reads the text of a mountinfo file; lines that do not follow the format are skipped.
pub fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(2);
    let mut after = after.split(' ');
    Some(Mount {
        device: before.next()?.to_owned(),
        root: unescape(before.next()?).into(),
        point: unescape(before.next()?).into(),
        kind: after.next()?.to_owned(),
        source: unescape(after.next()?).to_string_lossy().into_owned(),
        super_options: after.next().unwrap_or_default().to_owned(),
    })
}

/// Undoes the kernel's `\ooo` for space, tab, newline and backslash.
fn unescape(field: &str) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = if first == b'\\' { tail.get(..3).and_then(octal) } else { None };
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &tail[3..] } else { tail };
    }
    OsString::from_vec(bytes)
}

fn octal(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0_u8, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(digit - b'0'),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 /box /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory
31 22 0:50 / /mnt/my\\040data ro,nosuid,nodev shared:9 master:2 - fuse.foreread s3://bucket/a\\040b ro,user_id=0
a line of some other kind
";

    #[test]
    fn reads_points_types_and_sources() {
        let mounts = parse(TABLE);
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[1].root, Path::new("/box"));
        assert_eq!(mounts[1].super_options, "rw,memory");
        assert_eq!(mounts[2].device, "0:50");
        assert_eq!(mounts[2].point, Path::new("/mnt/my data"));
        assert_eq!(mounts[2].source, "s3://bucket/a b");
        assert!(mounts[2].is_ours());
        assert!(!mounts[0].is_ours());
    }

    #[test]
    fn an_escape_is_three_octal_digits_within_a_byte() {
        assert_eq!(unescape("a\\040b"), "a b");
        assert_eq!(unescape("a\\134040"), "a\\040");
        assert_eq!(unescape("a\\9b\\"), "a\\9b\\");
        assert_eq!(unescape("\\777"), "\\777");
    }

    #[test]
    fn this_processes_table_has_a_root() {
        assert!(at(Path::new("/")).expect("the table").is_some());
    }

    #[test]
    fn fuzz_mount_table() {
        let words = [" - ", "\\040", "\\777", "\\", " ", "fuse.foreread"];
        foreread_fuzz::fuzz("mount table", &[TABLE.as_bytes()], &words, |text| {
            let text = String::from_utf8_lossy(text);
            assert!(parse(&text).len() <= text.lines().count());
        });
    }
}
