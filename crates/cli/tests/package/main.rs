//! The Debian package: made from the built command, installed in a folder, mounted by a line of
//! fstab in a mount namespace of its own, started by a systemd of its own, upgraded and purged.
//! Needs root and Debian's programs, and is skipped without.

mod fstab;
mod unit;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use foreread_testbed::{Config, ObjectSpec, Testbed};
use tempfile::TempDir;

/// What the tests run, of Debian's packages dpkg, util-linux, systemd, fuse3 and python3.
const PROGRAMS: [&str; 6] = ["dpkg-deb", "unshare", "setpriv", "systemd-analyze", "fusermount3", "python3"];

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
    let missing = PROGRAMS.into_iter().find(|program| !has(program));
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

    /// With the package, whose configuration has the store `work`: an object of 5,000 bytes.
    /// `boot` is the same store, and where it is, stands in the profile.
    fn with_store() -> (Self, Testbed) {
        let root = Self::new();
        root.dpkg(&["--install", package()]);
        let objects = vec![ObjectSpec::new("data/key", 5_000)];
        let testbed = Testbed::start(Config { objects, ..Config::default() }).expect("a testbed");
        let url = format!("url = \"s3://testbed/data\"\nendpoint = \"{}\"\n", testbed.endpoint());
        fs::write(
            root.path("etc/foreread.toml"),
            format!("[stores.boot]\nurl = \"s3://testbed/data\"\n[stores.work]\n{url}"),
        )
        .expect("a file");
        (root, testbed)
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
        "usr/share/doc/foreread/sbom.cdx.json",
        "usr/share/doc/foreread/THIRD-PARTY.txt.gz",
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
