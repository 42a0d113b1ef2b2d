//! Lines of /etc/fstab: mounted by root at boot, and by an ordinary user where the line says
//! `user`. Each test has a mount namespace of its own, in which the package's files are in
//! /usr/bin and /usr/sbin.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Output};

use crate::{Root, can_install};

/// An ordinary user.
const USER: u32 = 65534;

/// Runs `script` with what a machine has after the installation of the package. `USER` runs its
/// arguments as an ordinary user.
fn installed(root: &Root, fstab: &str, script: &str) -> Output {
    fs::write(root.path("etc/fstab"), fstab).expect("a file");
    let prepared = format!(
        r#"set -e
        mount --make-rprivate /
        mount -t overlay overlay -o "lowerdir=$ROOT/usr/bin:/usr/bin" /usr/bin
        mount -t overlay overlay -o "lowerdir=$ROOT/usr/sbin:/usr/sbin" /usr/sbin
        mount --bind "$ROOT/etc/fstab" /etc/fstab
        test -e "$ROOT/fuse" || mknod -m 666 "$ROOT/fuse" c 10 229
        mount --bind "$ROOT/fuse" /dev/fuse
        cd "$ROOT/mnt"
        USER="setpriv --reuid {USER} --regid {USER} --clear-groups"
        {script}"#
    );
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "120", "unshare", "--mount", "bash", "-c", &prepared]).env("ROOT", root.0.path());
    command.env("FOREREAD_CONFIG", root.path("etc/foreread.toml")).env("AWS_REGION", "us-east-1");
    command.env("AWS_ACCESS_KEY_ID", "testbed").env("AWS_SECRET_ACCESS_KEY", "testbedsecret");
    command.output().expect("unshare")
}

/// A directory to mount on, with this owner.
fn directory(root: &Root, name: &str, owner: u32) -> String {
    fs::set_permissions(root.0.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    let dir = root.path("mnt").join(name);
    fs::create_dir_all(&dir).expect("a folder");
    chown(&dir, Some(owner), Some(owner)).expect("an owner");
    dir.display().to_string()
}

fn told(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat()
}

#[test]
fn a_line_mounts_it() {
    if !can_install() {
        return;
    }
    let (root, _testbed) = Root::with_store();
    let dir = directory(&root, "data", 0);
    let options = "memory=32M,metadata_ttl=10m,_netdev,nofail,noexec,x-systemd.automount";
    let script = r#"mount -a -T /etc/fstab
        cat data/key
        grep " $ROOT/mnt/" /proc/self/mounts >&2
        umount data
        mount -t foreread -o memory=32M work:/ data
        cat data/key
        umount data"#;
    let read = installed(&root, &format!("work:/ {dir} foreread {options} 0 0\n"), script);
    let table = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success(), "{table}");
    assert_eq!(read.stdout.len(), 10_000, "by the line, and by `mount -t`");
    for flag in ["ro", "nosuid", "nodev", "noexec"] {
        assert!(table.split([' ', ',']).any(|word| word == flag), "{flag}: {table}");
    }
    assert!(fs::read_dir(&dir).expect("a folder").next().is_none(), "the mount is in that namespace alone");
}

#[test]
fn an_ordinary_user_mounts_and_unmounts_a_line_with_user() {
    if !can_install() {
        return;
    }
    let (root, _testbed) = Root::with_store();
    for option in ["user", "users"] {
        let dir = directory(&root, option, USER);
        let script = format!(
            r#"$USER mount {dir}
            $USER cat {option}/key
            grep " $ROOT/mnt/" /proc/self/mounts >&2
            $USER umount {dir}
            ! grep " $ROOT/mnt/" /proc/self/mounts >&2"#
        );
        let line = format!("work:/ {dir} foreread memory=32M,{option},noauto,_netdev,x-systemd.automount 0 0\n");
        let read = installed(&root, &line, &script);
        let table = String::from_utf8_lossy(&read.stderr);
        assert!(read.status.success(), "{option}: {table}");
        assert_eq!(read.stdout.len(), 5_000);
        assert!(table.contains(&format!("user_id={USER}")) && table.contains("noexec"), "{table}");
    }
}

/// fusermount3 mounts on what the user may write to, and on nothing else.
#[test]
fn a_user_is_told_what_a_line_with_user_needs() {
    if !can_install() {
        return;
    }
    let (root, _testbed) = Root::with_store();
    let dir = directory(&root, "data", 0);
    let refused = installed(&root, &format!("work:/ {dir} foreread user,noauto 0 0\n"), "$USER mount data");
    assert!(!refused.status.success());
    let told = told(&refused);
    for words in ["may not write to it", &format!("chown USER '{dir}'"), "allow_other"] {
        assert!(told.contains(words), "{words}: {told}");
    }
}
