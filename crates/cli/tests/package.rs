//! The Debian package: made from the built command, installed in a folder, mounted by a line of
//! fstab in a mount namespace of its own, upgraded and purged. Needs root and Debian's programs,
//! and is skipped without.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use foreread_testbed::{Config, ObjectSpec, Testbed};
use tempfile::TempDir;

const COMMAND: &str = env!("CARGO_BIN_EXE_foreread");

fn contrib() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib")
}

/// The output of `command`, which must succeed.
fn ok(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the program");
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{out}\n{err}");
    out.into_owned()
}

/// Whether what the tests need is here: root, and Debian's programs.
fn can_install() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |program: &str| std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    let missing = ["dpkg-deb", "unshare", "systemd-analyze"].into_iter().find(|program| !has(program));
    let missing = missing.or_else(|| (!rustix::process::geteuid().is_root()).then_some("root"));
    if let Some(missing) = missing {
        let required = std::env::var("FOREREAD_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
        assert!(!required, "{missing} is missing, and FOREREAD_REQUIRE_CLIENTS=1");
        eprintln!("skipped: {missing} is missing");
    }
    missing.is_none()
}

/// The package, which is made once.
fn package() -> &'static str {
    static MADE: LazyLock<(TempDir, String)> = LazyLock::new(|| {
        let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let mut build = Command::new(contrib().join("debian/build"));
        // The command under test may have debug information, which takes long to compress well.
        build.env("DPKG_DEB_COMPRESSOR_TYPE", "gzip").env("DPKG_DEB_COMPRESSOR_LEVEL", "1");
        let path = ok(build.arg(COMMAND).arg(dir.path())).trim().to_owned();
        (dir, path)
    });
    &MADE.1
}

/// A folder with a database of packages, in which nothing is installed.
struct Root(TempDir);

impl Root {
    fn new() -> Self {
        let root = TempDir::new().expect("a directory");
        for folder in ["updates", "info"] {
            fs::create_dir_all(root.path().join("var/lib/dpkg").join(folder)).expect("a folder");
        }
        fs::write(root.path().join("var/lib/dpkg/status"), "").expect("a file");
        Self(root)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs dpkg on it. What the package depends on is not there.
    fn dpkg(&self, arguments: &[&str]) -> String {
        let root = format!("--root={}", self.0.path().display());
        ok(Command::new("dpkg").args([&root, "--force-depends", "--force-confold", "--log=/dev/null"]).args(arguments))
    }
}

#[test]
fn it_is_installed_upgraded_and_purged() {
    if !can_install() {
        return;
    }
    let root = Root::new();
    root.dpkg(&["--install", package()]);
    for file in [
        "usr/bin/foreread",
        "usr/sbin/mount.foreread",
        "usr/share/man/man1/foreread-mount.1.gz",
        "usr/share/bash-completion/completions/foreread",
        "lib/systemd/system/foreread@.service",
        "usr/share/doc/foreread/copyright",
    ] {
        assert!(root.path(file).exists(), "{file}");
    }
    let example = root.path("etc/foreread.toml");
    let told = ok(Command::new(COMMAND).args(["config", "check"]).arg(&example));
    assert!(told.contains("0 stores"), "{told}");

    // What the administrator wrote stays, until the package is purged.
    fs::write(&example, "[stores.own]\nurl = \"s3://own\"\n").expect("a file");
    root.dpkg(&["--install", package()]);
    root.dpkg(&["--remove", "foreread"]);
    assert!(!root.path("usr/bin/foreread").exists());
    assert!(fs::read_to_string(&example).expect("a file").contains("stores.own"));
    root.dpkg(&["--purge", "foreread"]);
    assert!(!example.exists());
}

/// In a mount namespace of its own, /usr/bin and /usr/sbin have the package's files as well.
#[test]
fn a_line_of_fstab_mounts_it() {
    if !can_install() {
        return;
    }
    let root = Root::new();
    root.dpkg(&["--install", package()]);
    let objects = vec![ObjectSpec::new("data/key", 5_000)];
    let testbed = Testbed::start(Config { objects, ..Config::default() }).expect("a testbed");
    let configuration = format!("[stores.work]\nurl = \"s3://testbed/data\"\nendpoint = \"{}\"\n", testbed.endpoint());
    fs::write(root.path("etc/foreread.toml"), configuration).expect("a file");
    let mounted = root.path("mnt");
    fs::create_dir(&mounted).expect("a folder");
    let fstab = root.path("etc/fstab");
    let options = "memory=32M,metadata_ttl=10m,_netdev,nofail,x-systemd.automount";
    fs::write(&fstab, format!("work:/ {} foreread {options} 0 0\n", mounted.display())).expect("a file");
    let script = r#"
        set -e
        mount --make-rprivate /
        mount -t overlay overlay -o "lowerdir=$ROOT/usr/bin:/usr/bin" /usr/bin
        mount -t overlay overlay -o "lowerdir=$ROOT/usr/sbin:/usr/sbin" /usr/sbin
        mount -a -T "$ROOT/etc/fstab"
        cat "$ROOT/mnt/key"
        umount "$ROOT/mnt"
    "#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).env("ROOT", root.0.path());
    command.env("FOREREAD_CONFIG", root.path("etc/foreread.toml")).env("AWS_REGION", "us-east-1");
    command.env("AWS_ACCESS_KEY_ID", "testbed").env("AWS_SECRET_ACCESS_KEY", "testbedsecret");
    let read = command.output().expect("unshare");
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    assert_eq!(read.stdout.len(), 5_000);
    assert!(fs::read_dir(&mounted).expect("a folder").next().is_none(), "the mount is in that namespace alone");
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    if !can_install() {
        return;
    }
    let (dir, root) = (TempDir::new().expect("a directory"), Root::new());
    root.dpkg(&["--install", package()]);
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
