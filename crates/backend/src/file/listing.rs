//! Listings of a local directory, page by page. One that does not exist is an error: an empty
//! directory is something else than none.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;

use super::errno::failure;
use super::path::{beneath, is_literal};
use super::version::version;
use crate::error::{Error, ErrorKind, Operation};
use crate::object::{Entry, Key, ListPage, Object};

/// One page of a directory. The continuation is the file system's cookie of the next entry.
pub(super) fn page(root: &OwnedFd, prefix: &str, from: Option<&str>) -> Result<ListPage, Error> {
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
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(fail)?;
        let cookie = entry.next_entry_cookie();
        match entry.file_name().to_str() {
            Ok("." | "..") => continue,
            Ok(name) => page.entries.extend(child(root, &directory, prefix, name)),
            Err(_) => tracing::warn!(prefix, name = ?entry.file_name(), "skipped: the name is not UTF-8"),
        }
        if page.entries.len() == PAGE_ENTRIES {
            page.continuation = Some(cookie.to_string());
            break;
        }
    }
    Ok(page)
}

/// The entry of a name in a directory; `None` where it is neither a file nor a directory below the
/// root, or no longer exists.
fn child(root: &OwnedFd, directory: &OwnedFd, prefix: &str, name: &str) -> Option<Entry> {
    let key = format!("{prefix}{name}");
    let mut stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        stat = rustix::fs::fstat(beneath(root, &key, OFlags::PATH).ok()?).ok()?;
    }
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        return Some(Entry::Prefix(key + "/"));
    }
    Some(Entry::Object(Object { version: version(&stat)?, key: Key::new(key) }))
}

/// Entries on a page of a listing. Lower: more calls a listing. Higher: the first page comes
/// later.
const PAGE_ENTRIES: usize = 1000;
