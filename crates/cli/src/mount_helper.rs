//! `mount.foreread`: what mount(8) runs for `mount -t foreread` and for lines of /etc/fstab.
//!
//! ```text
//!   work:/2026  /mnt/data  foreread  memory=2GiB,allow_other,_netdev,nofail  0 0
//!      │
//!      v  mount(8)
//!   mount.foreread work:/2026 /mnt/data -o rw,memory=2GiB,allow_other,_netdev
//!      │
//!      v  this file
//!   foreread mount work:/2026 /mnt/data --memory=2GiB --allow-other
//! ```
//!
//! The command takes this part when it is called by that name. What mount(8) and systemd mean for
//! themselves is left out; each other option is one of `foreread mount`, written with `-` or `_`.
//! For a line with `user`, mount(8) starts this as the user that called it, and foreread mounts
//! through fusermount3. Source: mount(8), "External helpers".

use std::ffi::{OsStr, OsString};
use std::path::Path;

use miette::Diagnostic;
use thiserror::Error as ThisError;

/// The name of the helper, which mount(8) looks for in /sbin.
const NAME: &str = "mount.foreread";

/// Why `mount.foreread` fails.
#[derive(Debug, ThisError, Diagnostic)]
pub(crate) enum Error {
    #[error("usage: {NAME} SOURCE DIR [-fnsv] [-o OPTIONS]")]
    #[diagnostic(
        code(foreread::helper::usage),
        help("mount(8) calls it: mount -t foreread s3://bucket /mnt -o memory=1GiB")
    )]
    Usage,

    #[error("a mount of foreread cannot be mounted again with other options")]
    #[diagnostic(
        code(foreread::helper::remount),
        help("`foreread set DIR memory=SIZE` changes its budget; else unmount it first")
    )]
    Remount,
}

/// What the helper is to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// This command line.
    Run(Vec<OsString>),
    /// Nothing: mount(8) was called with `--fake`.
    Nothing,
}

/// The command line that `given` means.
///
/// # Errors
///
/// If mount(8) would not call the helper like that, and for a remount.
pub(crate) fn asked(given: Vec<OsString>) -> Result<Asked, Error> {
    let name = given.first().and_then(|name| Path::new(name).file_name());
    if name != Some(OsStr::new(NAME)) {
        return Ok(Asked::Run(given));
    }
    let (mut places, mut options, mut verbose, mut is_fake) = (Vec::new(), Vec::new(), false, false);
    let mut rest = given.into_iter().skip(1);
    while let Some(argument) = rest.next() {
        match argument.to_str() {
            Some("-o") => options.push(rest.next().ok_or(Error::Usage)?),
            // A namespace that mount(8) is in already, and the type.
            Some("-N" | "-t") => _ = rest.next(),
            Some(flags) if flags.starts_with('-') => {
                verbose |= flags.contains('v');
                is_fake |= flags.contains('f');
            }
            _ => places.push(argument),
        }
    }
    let Ok([source, dir]) = <[OsString; 2]>::try_from(places) else { return Err(Error::Usage) };
    if is_fake {
        return Ok(Asked::Nothing);
    }
    let mut line = ["foreread", "mount"].map(OsString::from).to_vec();
    line.extend([source, dir]);
    line.extend(verbose.then(|| "-v".into()));
    let mut no_exec = false;
    for option in options.iter().flat_map(|list| list.to_str().unwrap_or_default().split(',')) {
        let (key, value) = option.split_once('=').map_or((option, None), |(key, value)| (key, Some(value)));
        if key == "remount" {
            return Err(Error::Remount);
        }
        match key {
            // The last one of the two holds. Of `user`, mount(8) makes `noexec` itself.
            "exec" | "noexec" => no_exec = key == "noexec",
            _ if key.is_empty()
                || OTHERS.contains(&key)
                || key.starts_with(['x', 'X']) && key[1..].starts_with('-') => {}
            _ => {
                let key = key.replace('_', "-");
                line.push(value.map_or_else(|| format!("--{key}"), |value| format!("--{key}={value}")).into());
            }
        }
    }
    line.extend(no_exec.then(|| "--noexec".into()));
    Ok(Asked::Run(line))
}

/// What mount(8), systemd and the kernel mean for themselves. Each mount is read-only, so `rw`,
/// which mount(8) adds, changes nothing.
const OTHERS: [&str; 36] = [
    "defaults",
    "ro",
    "rw",
    "auto",
    "noauto",
    "user",
    "users",
    "nouser",
    "nousers",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "comment",
    "suid",
    "nosuid",
    "dev",
    "nodev",
    "sync",
    "async",
    "dirsync",
    "atime",
    "noatime",
    "diratime",
    "nodiratime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "lazytime",
    "nolazytime",
    "mand",
    "nomand",
    "silent",
    "loud",
    "nosymfollow",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &str) -> Result<String, Error> {
        let asked = asked(words.split(' ').map(OsString::from).collect())?;
        let Asked::Run(line) = asked else { return Ok("nothing".to_owned()) };
        Ok(line.iter().map(|word| word.to_str().unwrap_or_default()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_line_of_fstab_is_a_command_line() {
        for (given, wanted) in [
            ("foreread mount a b", "foreread mount a b"),
            ("/sbin/mount.foreread s3://b /mnt -o rw", "foreread mount s3://b /mnt"),
            (
                "mount.foreread work:/p /mnt -v -o rw,noauto,memory=1GiB,allow_other,_netdev,x-systemd.automount,uid=7",
                "foreread mount work:/p /mnt -v --memory=1GiB --allow-other --uid=7",
            ),
            (
                "mount.foreread s3://b /mnt -o rw,noexec,nosuid,nodev,memory=1G,user=alice,X-mount.mkdir",
                "foreread mount s3://b /mnt --memory=1G --noexec",
            ),
            ("mount.foreread s3://b /mnt -o noexec,nosuid,nodev,exec", "foreread mount s3://b /mnt"),
            (
                "mount.foreread -n s3://b /mnt -t foreread -o ro,metadata-ttl=10m",
                "foreread mount s3://b /mnt --metadata-ttl=10m",
            ),
            ("mount.foreread -f s3://b /mnt", "nothing"),
        ] {
            assert_eq!(line(given).expect("a line"), wanted);
        }
        assert!(matches!(line("mount.foreread s3://b"), Err(Error::Usage)));
        assert!(matches!(line("mount.foreread s3://b /mnt -o"), Err(Error::Usage)));
        assert!(matches!(line("mount.foreread s3://b /mnt -o remount,memory=1G"), Err(Error::Remount)));
    }
}
