//! Ordinary programs over a mount: every byte that they read is compared with the store's.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{OFlags, getxattr};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::fixture::{Mount, Store, directory, expected, foreread, have, run, shell};

const MIB: usize = 1 << 20;

/// A directory to fill, then to read through a mount: as it is, or as a bucket.
struct Source {
    dir: TempDir,
}

impl Source {
    fn new() -> Self {
        Self { dir: directory() }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Runs `check` on a mount of the directory itself, and on a mount of a bucket that holds it.
    fn through_mounts(&self, check: impl Fn(&Path)) {
        let local = Mount::background(foreread(), &self.path().to_string_lossy(), &["--memory", "64M"]);
        check(local.path());
        drop(local);
        let store = Store::of_directory(self.path());
        let bucket = Mount::of(&store);
        check(bucket.path());
    }
}

#[test]
fn cmp_and_sha256sum_see_the_same_bytes() {
    if !have("cmp") || !have("sha256sum") {
        return;
    }
    let source = Source::new();
    for (name, size) in [("empty", 0), ("one", 1), ("odd", 3 * MIB + 4097), ("big", 40 * MIB + 1)] {
        fs::write(source.path().join(name), expected(name, 0, size)).expect("a file");
    }
    source.through_mounts(|mounted| {
        let compare = r#"
            cd "$1"; for name in *; do cmp "$name" "$2/$name"; done
            sha256sum * > "$2.sums"; cd "$2"; sha256sum --quiet --check "$2.sums"; rm "$2.sums""#;
        shell(compare, &[source.path(), mounted]).ok();
    });
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !have("fio") {
        return;
    }
    let source = Source::new();
    let file = source.path().join("data");
    let write = "fio --name=write --filename=\"$1\" --rw=write --bs=64k --size=48M --ioengine=psync \
                 --verify=crc32c --do_verify=0 --verify_state_save=0 --output=/dev/null";
    shell(write, &[&file]).ok();
    source.through_mounts(|mounted| {
        let file = mounted.join("data");
        for verify in [
            "--rw=read --bs=64k",
            "--rw=randread --bs=64k",
            "--rw=read --bs=64k --ioengine=mmap",
            "--rw=randread --bs=64k --ioengine=libaio --iodepth=16",
            "--rw=randread --bs=64k --direct=1",
            "--rw=read --bs=64k --numjobs=4",
        ] {
            let script = format!(
                "fio --name=verify --readonly --filename=\"$1\" --size=48M --ioengine=psync {verify} --verify=crc32c \
                 --verify_fatal=1 --output-format=terse --output=/dev/null"
            );
            let finished = shell(&script, &[&file]);
            assert!(finished.status.success(), "{verify}: {}", finished.stderr);
        }
    });
}

#[test]
fn sqlite_queries_a_database_in_the_bucket() {
    if !have("sqlite3") {
        return;
    }
    let source = Source::new();
    let make = r#"sqlite3 "$1/data.db" "
        CREATE TABLE t (id INTEGER PRIMARY KEY, hot INTEGER, text TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
            INSERT INTO t SELECT i, (i * 7919) % 1000, printf('%0200d', i) FROM n;
        CREATE INDEX by_hot ON t (hot);""#;
    shell(make, &[source.path()]).ok();
    let queries = r#"sqlite3 -readonly "$1/data.db" "
        PRAGMA integrity_check;
        SELECT count(*), sum(id), sum(length(text)) FROM t;
        SELECT id FROM t WHERE hot = 500 ORDER BY id LIMIT 20;
        SELECT count(*) FROM t a JOIN t b ON a.id = b.hot WHERE b.id > 59000;
        SELECT text FROM t ORDER BY id DESC LIMIT 3;""#;
    let wanted = shell(queries, &[source.path()]).ok().text();
    assert!(wanted.starts_with("ok\n60000|"), "{wanted}");
    source.through_mounts(|mounted| assert_eq!(shell(queries, &[mounted]).ok().text(), wanted));
}

#[test]
fn tar_packs_a_tree() {
    if !have("tar") || !have("diff") {
        return;
    }
    let source = Source::new();
    for index in 0..200 {
        let dir = source.path().join(format!("dir {}", index % 7)).join(format!("sub{}", index % 3));
        fs::create_dir_all(&dir).expect("a directory");
        fs::write(dir.join(format!("file {index}")), expected("file", 0, index * 997)).expect("a file");
    }
    source.through_mounts(|mounted| {
        let out = directory();
        let copy = r#"tar -C "$1" -cf - . | tar -C "$2" -xf - && diff -r "$3" "$2""#;
        shell(copy, &[mounted, out.path(), source.path()]).ok();
    });
}

#[test]
fn copies_by_cp_dd_and_direct_io() {
    if !have("dd") || !have("cmp") {
        return;
    }
    let store = Store::with(&[("file", 9 * MIB as u64 + 123)]);
    let mounted = Mount::of(&store);
    let out = directory();
    let wanted = out.path().join("wanted");
    fs::write(&wanted, expected("file", 0, 9 * MIB + 123)).expect("a file");
    for (name, copy) in [
        ("cp", r#"cp "$1" "$2/copy""#),
        ("direct", r#"dd if="$1" of="$2/copy" bs=1M iflag=direct status=none"#),
        ("small direct", r#"dd if="$1" of="$2/copy" bs=64k iflag=direct status=none"#),
        ("small", r#"dd if="$1" of="$2/copy" bs=1000 status=none"#),
        ("fadvise", r#"dd if="$1" of="$2/copy" bs=128k iflag=nocache status=none"#),
    ] {
        let finished = shell(&format!("{copy}; cmp \"$2/copy\" \"$3\""), &[&mounted.file("file"), out.path(), &wanted]);
        assert!(finished.status.success(), "{name}: {}", finished.stderr);
    }
}

#[test]
fn python_maps_sends_and_forks() {
    if !have("python3") {
        return;
    }
    let size = 8 * MIB + 5;
    let store = Store::with(&[("file", size as u64)]);
    let mounted = Mount::of(&store);
    let out = directory();
    let wanted = out.path().join("wanted");
    fs::write(&wanted, expected("file", 0, size)).expect("a file");
    let script = out.path().join("script.py");
    fs::write(&script, PYTHON).expect("the script");
    let finished =
        run(Command::new("python3").arg(&script).arg(mounted.file("file")).arg(&wanted).arg(out.path())).ok();
    assert_eq!(finished.text().lines().collect::<Vec<_>>(), ["mmap", "sendfile", "fadvise", "fork", "threads"]);
}

const PYTHON: &str = r#"
import mmap, os, random, sys, threading
path, wanted_path, out = sys.argv[1:]
wanted = open(wanted_path, "rb").read()
random.seed(1)

def check_randomly(read, rounds=60):
    for _ in range(rounds):
        at = random.randrange(len(wanted))
        length = random.choice([1, 100, 4096, 65536, 1 << 20])
        assert read(at, length) == wanted[at:at + length], (at, length)

with open(path, "rb") as file:
    with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        check_randomly(lambda at, length: mapped[at:at + length])
        assert mapped[:] == wanted
        assert mapped[::-4096] == wanted[::-4096]
print("mmap")

with open(path, "rb") as source, open(os.path.join(out, "sent"), "wb") as sink:
    offset = 0
    while sent := os.sendfile(sink.fileno(), source.fileno(), offset, 1 << 20):
        offset += sent
assert open(os.path.join(out, "sent"), "rb").read() == wanted
print("sendfile")

fd = os.open(path, os.O_RDONLY)
for advice in [os.POSIX_FADV_RANDOM, os.POSIX_FADV_SEQUENTIAL, os.POSIX_FADV_WILLNEED, os.POSIX_FADV_DONTNEED,
               os.POSIX_FADV_NORMAL]:
    os.posix_fadvise(fd, 0, 0, advice)
    check_randomly(lambda at, length: os.pread(fd, length, at), 20)
print("fadvise")
sys.stdout.flush()

children = []
for number in range(6):
    child = os.fork()
    if child == 0:
        try:
            random.seed(number)
            check_randomly(lambda at, length: os.pread(fd, length, at))
            os._exit(0)
        finally:
            os._exit(1)
    children.append(child)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
print("fork")

failed = []
def reader():
    try:
        check_randomly(lambda at, length: os.pread(fd, length, at))
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=reader) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not failed, failed
print("threads")
"#;

#[test]
fn many_processes_read_many_files() {
    let names: Vec<String> = (0..8).map(|index| format!("file{index}")).collect();
    let objects: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 3 * MIB as u64)).collect();
    let store = Store::with(&objects);
    let mounted = Mount::of(&store);
    std::thread::scope(|scope| {
        for index in 0..24 {
            let name = &names[index % names.len()];
            let file = mounted.file(name);
            scope.spawn(move || {
                let output = run(Command::new("cat").arg(file)).ok();
                assert!(output.stdout == expected(name, 0, 3 * MIB), "process {index}");
            });
        }
    });
}

#[test]
fn every_write_is_refused_as_read_only() {
    let store = Store::with(&[("dir/file", 10)]);
    let mounted = Mount::of(&store);
    let file = mounted.file("dir/file");
    let read_only = |result: io::Result<()>, what: &str| {
        let errno = result.expect_err(what).raw_os_error();
        assert_eq!(errno, Some(Errno::ROFS.raw_os_error()), "{what}");
    };
    read_only(fs::write(mounted.file("new"), "text"), "create");
    read_only(File::options().write(true).open(&file).map(drop), "open for writing");
    read_only(File::options().append(true).open(&file).map(drop), "open for appending");
    read_only(fs::remove_file(&file), "unlink");
    read_only(fs::create_dir(mounted.file("new")), "mkdir");
    read_only(fs::remove_dir(mounted.file("dir")), "rmdir");
    read_only(fs::rename(&file, mounted.file("moved")), "rename");
    read_only(fs::hard_link(&file, mounted.file("link")), "link");
    read_only(std::os::unix::fs::symlink("file", mounted.file("link")), "symlink");
    read_only(fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)), "chmod");
    assert_eq!(fs::read(&file).expect("the file"), expected("dir/file", 0, 10));
}

#[test]
fn extended_attributes_are_not_supported_and_say_so() {
    let store = Store::with(&[("file", 10)]);
    let mounted = Mount::of(&store);
    // The daemon answers ENOSYS; the kernel remembers that and returns EOPNOTSUPP to programs.
    for _ in 0..2 {
        let mut value = [0_u8; 16];
        let answer = getxattr(mounted.file("file"), "user.any", &mut value[..]);
        assert_eq!(answer.map(|_| ()), Err(Errno::OPNOTSUPP));
    }
}

#[test]
fn direct_reads_past_the_end_are_short() {
    let store = Store::with(&[("file", 5000)]);
    let mounted = Mount::of(&store);
    let direct = OFlags::DIRECT.bits() as i32;
    let file = File::options().read(true).custom_flags(direct).open(mounted.file("file")).expect("the file");
    let read = |offset: u64, len: usize| {
        let mut bytes = vec![0; len];
        let count = std::os::unix::fs::FileExt::read_at(&file, &mut bytes, offset).expect("a read");
        bytes.truncate(count);
        bytes
    };
    assert!(read(0, 8192) == expected("file", 0, 5000));
    assert!(read(4096, 4096) == expected("file", 4096, 904));
    assert!(read(8192, 4096).is_empty());
}
