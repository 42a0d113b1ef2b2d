//! The unit: as systemd reads it, and as a systemd of its own runs it.
//!
//! ```text
//!  unshare: mounts, processes, cgroups, host name
//!    root: an overlay of this machine's, with the package's files; no unit is wanted but one
//!    process 1: systemd ── proof.service: a line of fstab; the unit: start, read, reload, kill,
//!                          stop ── exit, its status
//! ```

use std::fs;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::{COMMAND, Root, can_install};

#[test]
fn it_is_one_that_systemd_takes() {
    if !can_install() {
        return;
    }
    let (dir, root) = (TempDir::new().expect("a directory"), Root::new());
    root.dpkg(&["--install", crate::package()]);
    // systemd looks for the programs of the unit where they will be.
    let text = fs::read_to_string(root.path("lib/systemd/system/foreread@.service")).expect("a unit");
    let text = text.replace("/usr/bin/foreread", COMMAND).replace("Documentation=man:foreread-mount(1)\n", "");
    let unit = dir.path().join("foreread@.service");
    fs::write(&unit, text).expect("a file");
    let Output { status, stderr, .. } =
        Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output().expect("systemd-analyze");
    let told = String::from_utf8_lossy(&stderr);
    assert!(status.success() && !told.contains("foreread@"), "{told}");
}

/// What runs under systemd. Fails with its first command that fails.
const PROOF: &str = r#"
set -euo pipefail
# The line of fstab: mounted when something reads there.
systemctl start mnt-boot.automount
wc -c < /mnt/boot/key
systemctl is-active mnt-boot.mount
systemctl stop mnt-boot.automount mnt-boot.mount
! grep -q " /mnt/boot " /proc/self/mounts
mounted() { grep -q " /mnt/work fuse.foreread " /proc/self/mounts; }
budget() { foreread stats /mnt/work --json | grep -o '"memory_budget_bytes":[0-9]*'; }
systemctl start foreread@work
mounted
wc -c < /mnt/work/key
budget
sed -i '/^\[stores.work\]/a memory = "48MiB"' /etc/foreread.toml
systemctl reload foreread@work
budget
systemctl kill --kill-whom=main --signal=KILL foreread@work
# systemd starts it anew, and it mounts over what was left.
until budget 2> /dev/null; do sleep .1; done
systemctl is-active foreread@work
systemctl stop foreread@work
! mounted
systemctl is-failed foreread@work || true
"#;

/// Starts systemd on a machine of its own: `$ROOT` has the package, `$PROOF` what is to be run.
///
/// Its cgroups are below one that is made here, so that it finds no other. `/proc/sys` is
/// read-only to it: what it would set there is the machine's. What it prints goes through the
/// folder that is `/run/told` to it.
const MACHINE: &str = r#"
set -euo pipefail
mount --make-rprivate /
home=$TOLD/machine; mkdir "$home"; mount -t tmpfs tmpfs "$home"
mkdir "$home"/{upper,work,machine,cgroups,told}
mount --bind "$TOLD" "$home/told"
mount -t cgroup2 cgroup2 "$home/cgroups"
was=$(sed -n 's/^0:://p' /proc/self/cgroup)
own=$home/cgroups$was/foreread-test-$$
mkdir "$own"
echo $$ > "$own/cgroup.procs"
left() {
    echo $$ > "$home/cgroups$was/cgroup.procs"
    find "$own" -depth -type d -exec rmdir {} +
}
trap left EXIT
machine=$home/machine
mount -t overlay overlay -o "lowerdir=/,upperdir=$home/upper,workdir=$home/work" "$machine"
tar -C "$ROOT" -c etc/foreread.toml lib usr | tar -C "$machine" -x --keep-directory-symlink
rm -rf "$machine"/{lib,etc}/systemd/system/*.wants "$machine"/etc/systemd/system/*
echo "$PROOF" > "$machine/proof"
echo "$UNIT" > "$machine/etc/systemd/system/proof.service"
mkdir "$machine/etc/systemd/system/foreread@.service.d"
printf '[Service]\nRestartSec=0\n' > "$machine/etc/systemd/system/foreread@.service.d/soon.conf"
{
    echo AWS_REGION=us-east-1
    echo AWS_ACCESS_KEY_ID=testbed
    echo AWS_SECRET_ACCESS_KEY=testbedsecret
} > "$machine/etc/default/foreread-work"
# Mounted by a line of fstab, it has no environment: not even the place of root's files.
echo "boot:/ /mnt/boot foreread memory=32M,_netdev,nofail,x-systemd.automount 0 0" > "$machine/etc/fstab"
mkdir -p "$machine/root/.aws"
printf '[default]\nregion = us-east-1\nendpoint_url = %s\n' "$ENDPOINT" > "$machine/root/.aws/config"
printf '[default]\naws_access_key_id = testbed\naws_secret_access_key = testbedsecret\n' \
    > "$machine/root/.aws/credentials"
export machine told=$home/told
timeout --kill-after=5 100 unshare --pid --fork --kill-child=KILL --cgroup --ipc --uts --mount bash -euo pipefail -c '
    cd "$machine"
    mount -t proc proc proc
    mount --bind proc/sys proc/sys; mount -o remount,bind,ro proc/sys
    mount --rbind /sys sys; mount -t tmpfs tmpfs sys/fs; mkdir sys/fs/cgroup; mount -t cgroup2 cgroup2 sys/fs/cgroup
    mount -t tmpfs tmpfs run; mount -t tmpfs tmpfs tmp; mount -t tmpfs tmpfs dev
    mkdir dev/shm run/told; mount --bind "$told" run/told
    mknod -m 666 dev/null c 1 3; mknod -m 666 dev/zero c 1 5; mknod -m 666 dev/random c 1 8
    mknod -m 666 dev/urandom c 1 9; mknod -m 666 dev/fuse c 10 229; mknod dev/autofs c 10 235; touch dev/console
    ln -s /proc/self/fd dev/fd
    exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin "$(command -v chroot)" . \
        /lib/systemd/systemd --unit=proof.service --log-target=null
'
"#;

const UNIT: &str = "[Unit]
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
TimeoutStartSec=90s
ExecStart=/bin/bash /proof
StandardOutput=file:/run/told/out
StandardError=file:/run/told/err
";

#[test]
fn systemd_starts_reloads_starts_anew_and_stops_it() {
    if !can_install() {
        return;
    }
    let (root, testbed) = Root::with_store();
    let told = TempDir::new().expect("a directory");
    let mut command = Command::new("unshare");
    command.args(["--mount", "bash", "-c", MACHINE]).env("ROOT", root.0.path()).env("TOLD", told.path());
    command.env("PROOF", PROOF).env("UNIT", UNIT).env("ENDPOINT", testbed.endpoint());
    let Output { status, stderr, .. } = command.output().expect("unshare");
    let text = |name: &str| fs::read_to_string(told.path().join(name)).unwrap_or_default();
    let (out, err) = (text("out"), text("err"));
    assert!(status.success(), "{status}: {}\n{out}\n{err}", String::from_utf8_lossy(&stderr));
    let lines: Vec<&str> = out.lines().collect();
    let budget = |bytes: u64| format!("\"memory_budget_bytes\":{bytes}");
    assert_eq!(&lines[..3], ["5000", "active", "5000"], "by the line of fstab, then by the unit");
    assert_eq!(lines[4], budget(48 << 20), "{out}");
    assert_ne!(lines[3], lines[4], "another budget before");
    assert_eq!(lines[5], lines[4], "after another start as well");
    assert_eq!(&lines[6..], ["active", "inactive"]);
}
