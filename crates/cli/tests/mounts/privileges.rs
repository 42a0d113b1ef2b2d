//! /dev/fuse absent or forbidden, users without privileges, `--allow-other`.
//!
//! Each script runs in a mount namespace and with a /dev of its own, so the machine's is
//! unchanged.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use crate::columns;
use crate::fixture::{Finished, SECRET, Store, directory, have, shell};

/// The binary where every user can run it, a directory to mount, and one to mount on.
struct Stage {
    dir: TempDir,
}

impl Stage {
    fn new() -> Option<Self> {
        if !have("unshare") || !have("setpriv") || !have("mknod") {
            return None;
        }
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can make a /dev of its own");
            return None;
        }
        let dir = directory();
        fs::copy(env!("CARGO_BIN_EXE_foreread"), dir.path().join("foreread")).expect("the binary");
        for name in ["source", "mnt"] {
            fs::create_dir(dir.path().join(name)).expect("a directory");
        }
        fs::write(dir.path().join("source/file"), "text").expect("a file");
        fs::set_permissions(dir.path().join("mnt"), fs::Permissions::from_mode(0o777)).expect("a mode");
        std::os::unix::fs::chown(dir.path().join("mnt"), Some(NOBODY), Some(NOBODY)).expect("an owner");
        Some(Self { dir })
    }

    /// Runs `script` in a namespace whose /dev holds null and the node that `device` makes.
    fn run(&self, device: &str, script: &str) -> Finished {
        let prepared = format!(
            r#"unshare --mount --propagation private bash -euo pipefail -c '
                mount -t tmpfs tmpfs /dev; mknod -m 666 /dev/null c 1 3; {device}
                cd "$1"; {script}' test "$1""#
        );
        shell(&prepared, &[self.path()])
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Mounts `store` as a user without privileges.
fn mount(store: &Store) -> String {
    let keys = format!("AWS_ACCESS_KEY_ID=testbed AWS_SECRET_ACCESS_KEY={SECRET} AWS_REGION=us-east-1");
    format!("{keys} {AS_NOBODY} ./foreread mount s3://testbed mnt --endpoint {}", store.testbed.endpoint())
}

const NOBODY: u32 = 65534;
const AS_NOBODY: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups";

#[test]
fn an_absent_device_is_named() {
    let Some(stage) = Stage::new() else { return };
    stage.run("", "./foreread mount source mnt").failed_saying(&["/dev/fuse does not exist", "modprobe fuse"]);
}

#[test]
fn a_device_without_its_module_is_absent_too() {
    let Some(stage) = Stage::new() else { return };
    // No driver has this minor number.
    stage
        .run("mknod -m 666 /dev/fuse c 10 253", "./foreread mount source mnt")
        .failed_saying(&["/dev/fuse does not exist"]);
}

#[test]
fn a_forbidden_device_is_named() {
    let Some(stage) = Stage::new() else { return };
    stage
        .run("mknod -m 600 /dev/fuse c 10 229", &format!("{AS_NOBODY} ./foreread mount source mnt"))
        .failed_saying(&["/dev/fuse cannot be opened", "chmod 666 /dev/fuse"]);
}

#[test]
fn users_need_fusermount3() {
    let Some(stage) = Stage::new() else { return };
    let hidden = r"for at in /bin /usr/bin /sbin /usr/sbin; do
        if test -e $at/fusermount3; then mount --bind /dev/null $at/fusermount3; fi; done";
    let script = format!("{hidden}; {AS_NOBODY} ./foreread mount source mnt");
    stage.run("mknod -m 666 /dev/fuse c 10 229", &script).failed_saying(&["fusermount3 is not installed", "fuse3"]);
}

#[test]
fn allow_other_needs_a_line_in_fuse_conf() {
    let Some(stage) = Stage::new() else { return };
    if !have("fusermount3") {
        return;
    }
    let script =
        format!("mount --bind /dev/null /etc/fuse.conf; {AS_NOBODY} ./foreread mount --allow-other source mnt");
    stage.run("mknod -m 666 /dev/fuse c 10 229", &script).failed_saying(&["--allow-other", "user_allow_other"]);
}

#[test]
fn a_user_mounts_reads_and_unmounts() {
    let Some(stage) = Stage::new() else { return };
    if !have("fusermount3") {
        return;
    }
    let script = format!(
        "{AS_NOBODY} ./foreread mount source mnt
         {AS_NOBODY} cat mnt/file
         {AS_NOBODY} ./foreread stats mnt >/dev/null
         ! cat mnt/file 2>/dev/null
         {AS_NOBODY} ./foreread umount mnt
         test -z \"$(ls mnt)\""
    );
    let finished = stage.run("mknod -m 666 /dev/fuse c 10 229", &script).ok();
    assert_eq!(finished.text(), "text");
}

/// No window can be set here, and a chunk comes by one request all the same.
#[test]
fn a_user_reads_a_column_chunk_and_nothing_behind_it() {
    let Some(stage) = Stage::new() else { return };
    if !have("fusermount3") {
        return;
    }
    let chunks = columns::write(&stage.path().join("source/a.parquet"));
    let store = Store::of_directory(&stage.path().join("source"));
    let read = |chunk: &Range<u64>| {
        let (start, len) = (chunk.start, chunk.end - chunk.start);
        format!(
            "{AS_NOBODY} dd if=mnt/a.parquet bs={len} skip={start} count=1 iflag=skip_bytes,fullblock status=none |
             cmp - <(tail -c +{} source/a.parquet | head -c {len})",
            start + 1
        )
    };
    let script = format!(
        "{}
         {AS_NOBODY} tail -c 65536 mnt/a.parquet >footer
         {}
         {AS_NOBODY} ./foreread umount mnt",
        mount(&store),
        chunks.iter().map(read).collect::<Vec<_>>().join("\n")
    );
    stage.run("mknod -m 666 /dev/fuse c 10 229; ln -s /proc/self/fd /dev/fd", &script).ok();
    let fetched = store.testbed.counters().object_bytes_sent;
    let wanted = (128 << 10) + chunks.iter().map(|chunk| chunk.end - chunk.start).sum::<u64>();
    assert!(fetched <= wanted * 102 / 100, "{fetched} bytes for {wanted}");
}

/// Threads that read the same chunks at once, from their start and from elsewhere, while the
/// kernel forgets what it has: all bytes are right, and no read waits for ever.
#[test]
fn a_user_reads_column_chunks_by_many_threads() {
    let Some(stage) = Stage::new() else { return };
    if !have("fusermount3") || !have("python3") {
        return;
    }
    let chunks = columns::write(&stage.path().join("source/a.parquet"));
    let starts: Vec<String> = chunks.iter().map(|chunk| chunk.start.to_string()).collect();
    let program = format!(
        "import os, threading
chunks = [{}]
original = open('source/a.parquet', 'rb').read()
file = os.open('mnt/a.parquet', os.O_RDONLY)
os.pread(file, 65536, len(original) - 65536)
right = []
def run(thread):
    for turn in range(16):
        start = chunks[(thread + turn) % len(chunks)]
        offset = [start, start - 4096 * thread, start + 130_000 * thread][thread % 3]
        size = 100_000 << turn % 5
        assert os.pread(file, size, offset) == original[offset:offset + size], (offset, size)
        if turn % 5 == 4:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    right.append(thread)
threads = [threading.Thread(target=run, args=[thread]) for thread in range(12)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(right))
",
        starts.join(", ")
    );
    fs::write(stage.path().join("read.py"), program).expect("a file");
    let store = Store::of_directory(&stage.path().join("source"));
    store.testbed.set_faults(vec!["slow=20,every=3".parse().expect("a fault")]);
    let script = format!(
        "{}
         {AS_NOBODY} timeout 300 python3 read.py
         {AS_NOBODY} ./foreread umount mnt",
        mount(&store)
    );
    assert_eq!(stage.run("mknod -m 666 /dev/fuse c 10 229", &script).ok().text(), "12\n");
}

#[test]
fn a_user_recovers_the_mount_of_a_killed_process() {
    let Some(stage) = Stage::new() else { return };
    if !have("fusermount3") {
        return;
    }
    let script = format!(
        "{AS_NOBODY} ./foreread mount --foreground source mnt & pid=$!
         until {AS_NOBODY} test -e mnt/file; do kill -0 $pid; sleep 0.05; done
         kill -KILL $pid; wait $pid || true
         {AS_NOBODY} ./foreread mount source mnt
         {AS_NOBODY} cat mnt/file
         {AS_NOBODY} ./foreread umount mnt"
    );
    let finished = stage.run("mknod -m 666 /dev/fuse c 10 229", &script).ok();
    assert_eq!(finished.text(), "text");
    assert!(finished.stderr.contains("killed foreread left behind"), "{}", finished.stderr);
}

/// The way of a driver of a cluster's storage: it mounts, and passes the descriptor to a process
/// that has no privilege, and no /dev/fuse.
#[test]
fn a_descriptor_that_was_passed_is_served_without_any_privilege() {
    let Some(stage) = Stage::new() else { return };
    let finished = stage.run(
        "mknod -m 600 /dev/fuse c 10 229; exec 5<>/dev/fuse",
        &format!(
            "mount -i -t fuse.foreread -o ro,fd=5,rootmode=40000,user_id=65534,group_id=65534,allow_other source mnt
             rm /dev/fuse
             {AS_NOBODY} --no-new-privs ./foreread mount source --fuse-fd 5 & served=$!
             trap \"kill -KILL $served 2>/dev/null || true\" EXIT
             exec 5>&-
             cat mnt/file; echo; ./foreread stats mnt --json | grep -o ^..reads.:1
             kill -TERM $served; wait $served; echo ended $?
             umount mnt"
        ),
    );
    assert_eq!(finished.ok().text(), "text\n{\"reads\":1\nended 0\n");
}

#[test]
fn a_descriptor_that_cannot_be_served_is_named() {
    let Some(stage) = Stage::new() else { return };
    let device = "mknod -m 600 /dev/fuse c 10 229";
    let refused = |script: &str, words: &[&str]| stage.run(device, script).failed_saying(words);
    refused("./foreread mount source --fuse-fd 5", &["descriptor 5 cannot be used", "without close-on-exec"]);
    refused("exec 5</dev/null; ./foreread mount source --fuse-fd 5", &["descriptor 5 is none of /dev/fuse"]);
    let words = &["descriptor 5 cannot be served", "mount(2)"];
    refused("exec 5<>/dev/fuse; timeout -s KILL 60 ./foreread mount source --fuse-fd 5", words);
}
