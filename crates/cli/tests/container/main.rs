//! The image of contrib/container, made without Docker, and the command in it, which has the C
//! library in it: it mounts, reads and tells its counters in a root where nothing else is.
//!
//! ```text
//!  Dockerfile ──> script ──> contrib/static/build in an overlay of this machine's root
//!                                  │ the command, the certificates
//!                                  v
//!                            an empty folder ──> chroot, namespaces: what Docker would run
//! ```
//!
//! Needs root, and is skipped without.

mod dockerfile;
mod name_server;
mod pod;

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use dockerfile::Recipe;
use foreread_testbed::{Config, ObjectSpec, OwnAuthority, Testbed, content};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// What the build is told that it is of.
const COMMIT: &str = "0123456789ab";

/// Known to no name server but that of the test.
const STORE: &str = "store.foreread.test";

/// Where that one answers.
const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 77);

/// The time limit: longer than any step takes on a loaded machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// An image: its root, and what it runs.
struct Image {
    root: PathBuf,
    recipe: Recipe,
}

/// The image, made once; `None` where it cannot be.
fn image() -> Option<&'static Image> {
    static MADE: LazyLock<Option<Image>> = LazyLock::new(|| can_make().then(Image::make));
    MADE.as_ref()
}

fn can_make() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |program: &str| std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    let missing = ["unshare", "nsenter", "chroot", "cargo", "cc"].into_iter().find(|program| !has(program));
    let missing = missing.or_else(|| (!rustix::process::geteuid().is_root()).then_some("root"));
    if let Some(missing) = missing {
        let required = std::env::var("FOREREAD_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
        assert!(!required, "{missing} is missing, and FOREREAD_REQUIRE_CLIENTS=1");
        eprintln!("skipped: {missing} is missing");
    }
    missing.is_none()
}

impl Image {
    fn make() -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace");
        let folder = source.join("contrib/container");
        let text = |name: &str| fs::read_to_string(folder.join(name)).expect("a file");
        // What users build takes five times as long to compile.
        let arguments = [("COMMIT", COMMIT), ("PROFILE", "dev")];
        let recipe = dockerfile::recipe(&text("Dockerfile"), &text("Dockerfile.dockerignore"), &arguments);
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
        // It is large, and stays when the tests have ended: one at a time.
        let root = scratch.join("image");
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).expect("a folder");
        // Not the folder of other builds: cargo has one name for what is compiled of a crate,
        // wherever its source is, so each of the two would compile what the other one had.
        let cache = scratch.join("container");
        fs::create_dir_all(&cache).expect("a folder");
        let script = format!(
            r#"set -euo pipefail
            mount --make-rprivate /
            layers=$LAYERS; mount -t tmpfs tmpfs "$layers"
            mkdir "$layers/upper" "$layers/work" "$layers/base"
            BASE=$layers/base
            mount -t overlay overlay -o "lowerdir=/,upperdir=$layers/upper,workdir=$layers/work" "$BASE"
            mount --bind /dev "$BASE/dev"; mount -t proc proc "$BASE/proc"
            {}"#,
            recipe.script
        );
        let mut build = Command::new("unshare");
        build.args(["--mount", "--pid", "--fork", "--kill-child", "bash", "-c", &script]);
        // A container has none of what cargo tells this test.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_") && text != "CARGO_HOME" || text.starts_with("FOREREAD_") {
                build.env_remove(&name);
            }
        }
        let layers = TempDir::new().expect("a directory");
        build.env("LAYERS", layers.path());
        build.env("CONTEXT", source).env("CACHE", &cache).env("IMAGE", &root).env("CARGO_INCREMENTAL", "0");
        let Output { status, stdout, stderr } = build.output().expect("unshare");
        let told = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(status.success(), "{status}: {told}");
        Self { root, recipe }
    }
}

/// A container: a copy of the image's root, with what Docker adds to it.
struct Container {
    root: TempDir,
    recipe: &'static Recipe,
}

impl Container {
    fn of(image: &'static Image) -> Self {
        let root = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let mut copy = Command::new("cp");
        // The command is large, and is not changed.
        ok(copy.args(["-a", "--link"]).arg(image.root.join(".")).arg(root.path()));
        for folder in ["proc", "dev", "mnt/data"] {
            fs::create_dir_all(root.path().join(folder)).expect("a folder");
        }
        fs::write(root.path().join("etc/hosts"), "127.0.0.1 localhost\n").expect("a file");
        fs::write(root.path().join("etc/resolv.conf"), format!("nameserver {NAME_SERVER}\n")).expect("a file");
        Self { root, recipe: &image.recipe }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// `docker run --device DEVICE --cap-add SYS_ADMIN --env ENV IMAGE ARGUMENTS`. The script
    /// `before` runs outside of it, with its root in `$ROOT`; `user` are words for chroot.
    fn run(&self, before: &str, user: &str, env: &[(&str, &str)], arguments: &[&str]) -> Command {
        let script = format!(
            r#"set -euo pipefail
            mount --make-rprivate /
            mount --bind "$ROOT" "$ROOT"
            mount -t proc proc "$ROOT/proc"; mount -t tmpfs tmpfs "$ROOT/dev"
            mknod -m 666 "$ROOT/dev/null" c 1 3
            {before}
            exec env -i "${{@:2:$1}}" "$(command -v chroot)" {user} "$ROOT" "${{@:$1+2}}""#
        );
        let env =
            self.recipe.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain(env.iter().copied());
        let env: Vec<String> = env.map(|(name, value)| format!("{name}={value}")).collect();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "bash", "-c", &script, "container"]);
        command.arg(env.len().to_string()).args(env).args(&self.recipe.entrypoint);
        command.env("ROOT", self.root.path());
        if arguments.is_empty() {
            command.args(&self.recipe.cmd)
        } else {
            command.args(arguments)
        };
        command
    }
}

/// A container that mounts, until it is dropped.
struct Running(Child);

impl Running {
    /// Starts it, and returns when something is mounted at `dir` in it.
    fn start(mut command: Command, dir: &str) -> Self {
        let mut running = Self(command.stdin(Stdio::null()).spawn().expect("unshare"));
        until("it is mounted", || {
            let ended = running.0.try_wait().expect("the process");
            assert!(ended.is_none(), "ended instead of mounting: {ended:?}");
            running.first().is_some_and(|pid| {
                let table = fs::read_to_string(format!("/proc/{pid}/mounts")).unwrap_or_default();
                table.lines().any(|line| line.contains(&format!(" {dir} fuse.foreread ")))
            })
        });
        running
    }

    /// The first process of the container, as its id is out here.
    fn first(&self) -> Option<u32> {
        let id = self.0.id();
        fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?.trim().parse().ok()
    }

    /// A path in it.
    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root/{name}", self.first().expect("a process")))
    }

    /// `docker exec CONTAINER ARGUMENTS`.
    fn exec(&self, arguments: &[&str]) -> String {
        let first = self.first().expect("a process").to_string();
        ok(Command::new("nsenter").args(["--target", &first, "--mount", "--pid", "--root"]).args(arguments))
    }

    /// `docker stop`: its status.
    fn stopped(&mut self) -> ExitStatus {
        let first = self.first().and_then(|id| Pid::from_raw(id.cast_signed())).expect("a process");
        kill_process(first, Signal::TERM).expect("the signal");
        let mut status = None;
        until("it ends", || {
            status = self.0.try_wait().expect("the process");
            status.is_some()
        });
        status.expect("it has ended")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // With it goes its child, and with that the namespaces and what is mounted there.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The output of `command`, which must succeed.
fn ok(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().expect("the program");
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{out}\n{err}");
    out.into_owned()
}

/// Waits for a condition that other processes make true.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < give_up, "never: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// An emulated store with TLS and a name, of which `container` trusts the authority.
fn store(container: &Container) -> (Testbed, String) {
    let dir = TempDir::new().expect("a directory");
    let authority = OwnAuthority::issue_for(&[STORE]).expect("a certificate");
    let tls = Some(authority.write(dir.path()).expect("files"));
    let objects = vec![ObjectSpec::new("data/key", 300_000)];
    let testbed = Testbed::start(Config { objects, tls, ..Config::default() }).expect("a testbed");
    let bundle = container.path("etc/ssl/certs/ca-certificates.crt");
    let trusted = fs::read_to_string(&bundle).expect("the certificates of the image");
    assert!(trusted.contains("BEGIN CERTIFICATE"), "the image has the authorities of this machine");
    // A file of its own: the image's is shared by containers.
    fs::remove_file(&bundle).expect("the link");
    fs::write(&bundle, trusted + &authority.authority_pem).expect("a file");
    let port = testbed.endpoint().rsplit(':').next().expect("a port").to_owned();
    (testbed, format!("https://{STORE}:{port}"))
}

const CREDENTIALS: [(&str, &str); 3] =
    [("AWS_ACCESS_KEY_ID", "testbed"), ("AWS_SECRET_ACCESS_KEY", "testbedsecret"), ("AWS_REGION", "us-east-1")];

fn expected() -> Vec<u8> {
    let mut bytes = vec![0; 300_000];
    content::fill("data/key", 1, 0, &mut bytes);
    bytes
}

fn name_server() {
    static STARTED: LazyLock<()> = LazyLock::new(|| name_server::start(NAME_SERVER, STORE));
    *STARTED;
}

#[test]
fn the_command_has_its_library_in_it_and_says_so() {
    let Some(image) = image() else { return };
    let files: Vec<_> =
        ["usr/bin/foreread", "etc/ssl/certs/ca-certificates.crt"].map(|name| image.root.join(name)).into();
    assert!(files.iter().all(|file| file.is_file()), "{files:?}");
    let container = Container::of(image);
    let version = ok(&mut container.run("", "", &[], &["--version"]));
    let lines: Vec<&str> = version.lines().collect();
    assert_eq!(lines[0], concat!("foreread ", env!("CARGO_PKG_VERSION")));
    assert_eq!(lines[1], format!("commit:   {COMMIT}"));
    assert_eq!(lines[2], "features: azblob gcs http memory mount s3 share");
    assert!(lines[3].starts_with("libc:     glibc 2.") && lines[3].ends_with(", linked statically"), "{version}");
    assert!(ok(&mut container.run("", "", &[], &[])).contains("Usage: foreread"), "what it does without arguments");
}

/// By a name that only a name server knows, over TLS.
#[test]
fn it_mounts_reads_and_tells_its_counters_with_nothing_beside_it() {
    let Some(image) = image() else { return };
    name_server();
    let container = Container::of(image);
    let (_testbed, endpoint) = store(&container);
    let words = ["mount", "--foreground", "--memory=32M", "s3://testbed/data", "/mnt/data", "--endpoint", &endpoint];
    let device = r#"mknod -m 600 "$ROOT/dev/fuse" c 10 229"#;
    let mut running = Running::start(container.run(device, "", &CREDENTIALS, &words), "/mnt/data");
    assert!(fs::read(running.path("mnt/data/key")).expect("an object") == expected(), "its bytes");
    let counters: serde_json::Value =
        serde_json::from_str(&running.exec(&["/usr/bin/foreread", "stats", "/mnt/data", "--json"])).expect("counters");
    assert!(counters["reads"].as_u64().is_some_and(|reads| reads > 0), "{counters}");
    assert!(running.stopped().success());

    let words = ["cat", "s3://testbed/data/key", "--range", "0-99", "--endpoint", &endpoint];
    let read = container.run("", "", &CREDENTIALS, &words).output().expect("unshare");
    assert!(read.stdout == expected()[..100], "{}", String::from_utf8_lossy(&read.stderr));
}

/// The way of a driver of a cluster's storage: the container has neither /dev/fuse nor a
/// privilege.
#[test]
fn it_serves_a_descriptor_that_was_passed_to_it() {
    let Some(image) = image() else { return };
    name_server();
    let container = Container::of(image);
    let (_testbed, endpoint) = store(&container);
    let before = r#"mount --bind "$ROOT/mnt" "$ROOT/mnt"
        exec 5<>/dev/fuse
        options=ro,fd=5,rootmode=40000,user_id=1000,group_id=1000,allow_other
        mount -i -t fuse.foreread -o "$options" foreread "$ROOT/mnt/data""#;
    let words = ["mount", "--memory=32M", "s3://testbed/data", "--fuse-fd=5", "--endpoint", &endpoint];
    let user = "--userspec=1000:1000 --groups=1000";
    let running = Running::start(container.run(before, user, &CREDENTIALS, &words), "/mnt/data");
    assert!(fs::read(running.path("mnt/data/key")).expect("an object") == expected(), "its bytes");
    let status =
        fs::read_to_string(format!("/proc/{}/status", running.first().expect("a process"))).expect("its status");
    assert!(
        status.contains("\nUid:\t1000\t1000\t1000\t1000\n") && status.contains("\nCapEff:\t0000000000000000\n"),
        "{status}"
    );
    assert!(!running.path("dev/fuse").exists());
}
