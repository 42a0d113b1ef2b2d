//! Real clients agree with the testbed: boto3 and rclone, signed, byte for byte.
//!
//! Where a client cannot be had the test says so and passes, unless `FOREREAD_REQUIRE_CLIENTS` is
//! set.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use foreread_testbed::{Config, ObjectSpec, OwnAuthority, Testbed, content};

const OBJECTS: [(&str, u64); 6] = [
    ("empty", 0),
    ("one", 1),
    ("dir/a b+c&d=é", 70_000),
    ("dir/deep/er/file", 4096),
    ("big", 20_000_001),
    ("dir/%41 is not A", 10),
];

/// The objects above, and 2,100 more to page through; signatures required.
fn config() -> Config {
    let mut objects: Vec<ObjectSpec> = OBJECTS.map(|(key, size)| ObjectSpec::new(key, size)).into();
    objects.extend((0..2100).map(|n| ObjectSpec::new(format!("many/{n:05}"), n)));
    Config { objects, ..Config::default() }
}

/// Runs a command; `None` if it cannot be had, with the reason printed.
fn available(client: &str, command: &mut Command) -> Option<()> {
    let reason = match command.output() {
        Ok(output) if output.status.success() => return Some(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    assert!(std::env::var_os("FOREREAD_REQUIRE_CLIENTS").is_none(), "{client} is required: {reason}");
    println!("skipped: {client} cannot be had: {reason}");
    None
}

/// A Python with boto3, in an environment of its own below the build directory.
fn python_with_boto3() -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("boto3");
    let python = dir.join("bin/python");
    let ready = dir.join("ready");
    let _alone = PREPARING.lock().unwrap();
    if !ready.exists() {
        available("python3 with venv", Command::new("python3").args(["-m", "venv", "--clear"]).arg(&dir))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "boto3>=1.40,<2"];
        available("boto3", Command::new(&python).args(pip))?;
        std::fs::write(ready, b"").unwrap();
    }
    Some(python)
}

/// Two tests prepare the same environment.
static PREPARING: Mutex<()> = Mutex::new(());

/// Takes away what the machine's user has configured: variables for proxies, authorities,
/// credentials.
fn unconfigured(command: &mut Command) -> &mut Command {
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default())
}

/// Runs the boto3 script and gives what it printed.
fn boto3(python: &Path, endpoint: &str, secret: &str, out: &Path, trusted: Option<&Path>) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/boto3_client.py");
    let mut command = Command::new(python);
    command.arg(script).arg(endpoint).arg(secret).arg(out).args(trusted);
    // Whatever the machine's user has configured must not matter.
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("AWS_EC2_METADATA_DISABLED", "true");
    let output = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    stdout.into_owned()
}

fn assert_file(path: &Path, key: &str, offset: u64, len: u64) {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(bytes.len() as u64, len, "{key}");
    assert_eq!(content::verify(key, 1, offset, &bytes), Ok(()), "{key}");
}

#[test]
fn boto3_lists_and_reads_everything() {
    let Some(python) = python_with_boto3() else { return };
    let testbed = Testbed::start(config()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let printed = boto3(&python, &testbed.endpoint(), "testbedsecret", dir.path(), None);
    let seen: serde_json::Value = serde_json::from_str(&printed).unwrap();

    let mut listed: Vec<(String, u64)> = config().objects.into_iter().map(|spec| (spec.key, spec.size)).collect();
    listed.sort();
    assert_eq!(seen["listed"], serde_json::json!(listed));
    assert_eq!(seen["listed_v1"], seen["listed"]);
    assert_eq!(seen["rolled_up"], serde_json::json!(["big", "empty", "one", "dir/", "many/"]));
    assert_eq!(seen["buckets"], serde_json::json!(["testbed"]));
    for (index, (key, size)) in OBJECTS.iter().enumerate() {
        assert_file(&dir.path().join(format!("whole-{index}")), key, 0, *size);
    }
    assert_file(&dir.path().join("range"), "big", 65_000, 2_000_000);
    assert_file(&dir.path().join("presigned"), "big", 100, 100);
    assert_eq!(
        seen["errors"],
        serde_json::json!({
            "absent": "NoSuchKey", "beyond": "InvalidRange", "changed": "PreconditionFailed",
            "no_bucket": "NoSuchBucket", "wrong_secret": "SignatureDoesNotMatch", "wrong_key": "InvalidAccessKeyId",
            "unsigned": "AccessDenied",
        })
    );
    assert_eq!(seen["put"], serde_json::json!(["what was put", true, "gone"]));
    assert_eq!(testbed.counters().in_flight, 0);
}

#[test]
fn boto3_reads_over_tls() {
    let Some(python) = python_with_boto3() else { return };
    let dir = tempfile::tempdir().unwrap();
    let tls = Some(OwnAuthority::issue().unwrap().write(dir.path()).unwrap());
    let testbed = Testbed::start(Config { tls, ..config() }).unwrap();
    boto3(&python, &testbed.endpoint(), "testbedsecret", dir.path(), Some(&dir.path().join("authority.pem")));
    assert_file(&dir.path().join("whole-4"), "big", 0, 20_000_001);
}

fn rclone(testbed: &Testbed, arguments: &[&str]) -> String {
    let options = format!(
        ":s3,provider=Other,access_key_id=testbed,secret_access_key=testbedsecret,region=us-east-1,endpoint='{}':testbed",
        testbed.endpoint()
    );
    let arguments = arguments.iter().map(|argument| argument.replace("REMOTE", &options));
    let mut command = Command::new("rclone");
    let output = unconfigured(&mut command).args(["--config", "/dev/null"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn rclone_lists_and_copies_everything() {
    let Some(()) = available("rclone", Command::new("rclone").arg("version")) else { return };
    let testbed = Testbed::start(config()).unwrap();
    let listed: Vec<serde_json::Value> =
        serde_json::from_str(&rclone(&testbed, &["lsjson", "-R", "--files-only", "REMOTE"])).unwrap();
    let mut listed: Vec<(String, u64)> = listed
        .iter()
        .map(|entry| (entry["Path"].as_str().unwrap().to_owned(), entry["Size"].as_u64().unwrap()))
        .collect();
    listed.sort();
    let mut expected: Vec<(String, u64)> = config().objects.into_iter().map(|spec| (spec.key, spec.size)).collect();
    expected.sort();
    assert_eq!(listed, expected);

    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().to_str().unwrap();
    // In parts, each from a range.
    rclone(&testbed, &["copy", "--multi-thread-cutoff", "1M", "--multi-thread-streams", "4", "REMOTE", target]);
    for (key, size) in expected {
        assert_file(&dir.path().join(&key), &key, 0, size);
    }
    let parts = testbed.requests().iter().filter(|request| request.key == "big" && request.range.is_some()).count();
    assert!(parts >= 2, "the big object came in {parts} parts");
}
