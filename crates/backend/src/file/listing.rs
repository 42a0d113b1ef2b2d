//! Listings of a local directory, page by page. One that does not exist is an error: an empty
//! directory is something else than none.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;

use super::errno::failure;
use super::left_out::{LeftOut, Why};
use super::path::{beneath, is_literal};
use super::version::version;
use crate::error::{Error, ErrorKind, Operation};
use crate::object::{Entry, Key, ListPage, Object};

/// One page of a directory. The continuation is the file system's cookie of the next entry.
pub(super) fn page(root: &OwnedFd, left_out: &LeftOut, prefix: &str, from: Option<&str>) -> Result<ListPage, Error> {
    let fail = |e| failure(e, Operation::List, prefix);
    let path = match prefix.strip_suffix('/') {
        None if prefix.is_empty() => ".",
        Some(path) if is_literal(path) => path,
        _ => return Err(fail(Errno::NOENT)),
    };
    let directory = beneath(root, path, OFlags::RDONLY | OFlags::DIRECTORY).map_err(fail)?;
    if let Some(cookie) = from {
        let cookie = cookie.parse().map_err(|_| {
            Error::new(ErrorKind::Invalid, Operation::List, prefix, "this continuation is not from a listing")
        })?;
        rustix::fs::seek(&directory, SeekFrom::Start(cookie)).map_err(fail)?;
    }
    let mut buffer = [MaybeUninit::<u8>::uninit(); 16 << 10];
    let (mut page, mut entries) = (ListPage::default(), RawDir::new(&directory, &mut buffer));
    let mut not_shown = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(fail)?;
        let cookie = entry.next_entry_cookie();
        match entry.file_name().to_str() {
            Ok("." | "..") => continue,
            Ok(name) => match child(root, &directory, prefix, name) {
                Ok(entry) => page.entries.extend(entry),
                Err(why) => not_shown.push((format!("{prefix}{name}"), why)),
            },
            Err(_) => tracing::warn!(prefix, name = ?entry.file_name(), "skipped: the name is not UTF-8"),
        }
        if page.entries.len() == PAGE_ENTRIES {
            page.continuation = Some(cookie.to_string());
            break;
        }
    }
    left_out.note(&not_shown);
    Ok(page)
}

/// The entry of a name in a directory; none where it no longer exists.
fn child(root: &OwnedFd, directory: &OwnedFd, prefix: &str, name: &str) -> Result<Option<Entry>, Why> {
    let key = format!("{prefix}{name}");
    let Ok(mut stat) = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(None) };
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        let there = beneath(root, &key, OFlags::PATH).and_then(rustix::fs::fstat);
        stat = there.map_err(Why::of_link)?;
    }
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind == FileType::Directory {
        return Ok(Some(Entry::Prefix(key + "/")));
    }
    match Why::of(kind) {
        Some(why) => Err(why),
        None => Ok(version(&stat).map(|version| Entry::Object(Object { version, key: Key::new(key) }))),
    }
}

/// Entries on a page of a listing. Lower: more calls a listing. Higher: the first page comes
/// later.
const PAGE_ENTRIES: usize = 1000;
