//! Where AWS credentials come from, seen in the signatures that a server receives.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use foreread_backend::{Backend, ConnectOptions, ErrorKind, Key, connect};

use crate::emulator::with_environment;
use crate::scripted::{Scripted, answer};

pub(crate) const OBJECT: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag: \"t\"\r\n\r\n";

fn options(server: &Scripted) -> ConnectOptions {
    ConnectOptions::default().with_endpoint(server.endpoint.clone())
}

async fn stat(backend: &dyn Backend) {
    assert_eq!(backend.stat(&Key::new("a")).await.unwrap().version.size, 3);
}

/// `KEY/date/region` of the signature.
pub(crate) fn signed_by(head: &str) -> (&str, &str) {
    let head = head.split_once("Credential=").unwrap_or_else(|| panic!("not signed: {head}")).1;
    let mut parts = head.split('/');
    (parts.next().unwrap(), parts.nth(1).unwrap())
}

#[tokio::test]
async fn missing_credentials_name_the_sources_that_were_tried() {
    // A metadata service that does not exist.
    let variables = [
        ("AWS_EC2_METADATA_DISABLED", "false"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1"),
        ("AWS_PROFILE", "lab"),
    ];
    if !with_environment("credentials::missing_credentials_name_the_sources_that_were_tried", &variables) {
        return;
    }
    let server = Scripted::start(|_, _| OBJECT.into()).await;
    let backend = connect("s3://bucket", &options(&server)).unwrap().backend;
    let error = backend.stat(&Key::new("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error}");
    for part in ["AWS_ACCESS_KEY_ID", "profile lab", "SSO", "instance metadata", "--anonymous"] {
        assert!(error.to_string().contains(part), "{part} is not in: {error}");
    }
    assert_eq!(server.heads().len(), 0, "nothing is sent unsigned");
}

#[tokio::test]
async fn other_clouds_name_the_sources_as_well() {
    let variables = [("GCE_METADATA_HOST", "127.0.0.1:1"), ("AZURE_STORAGE_ACCOUNT", "account"), ("PATH", "")];
    if !with_environment("credentials::other_clouds_name_the_sources_as_well", &variables) {
        return;
    }
    let server = Scripted::start(|_, _| OBJECT.into()).await;
    for (url, part) in [("gs://bucket", "GOOGLE_APPLICATION_CREDENTIALS"), ("az://container", "AZURE_STORAGE_KEY")] {
        let error = connect(url, &options(&server)).unwrap().backend.stat(&Key::new("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(server.heads().len(), 0, "nothing is sent unsigned");
}

#[tokio::test]
async fn an_explicit_profile_comes_before_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let (config, credentials) = (folder.path().join("config"), folder.path().join("credentials"));
    std::fs::write(&config, "[profile lab]\nregion = eu-west-3\n").unwrap();
    std::fs::write(&credentials, "[lab]\naws_access_key_id = LAB\naws_secret_access_key = s\n").unwrap();
    let variables = [
        ("AWS_CONFIG_FILE", config.to_str().unwrap()),
        ("AWS_SHARED_CREDENTIALS_FILE", credentials.to_str().unwrap()),
        ("AWS_ACCESS_KEY_ID", "ENV"),
        ("AWS_SECRET_ACCESS_KEY", "s"),
    ];
    if !with_environment("credentials::an_explicit_profile_comes_before_the_environment", &variables) {
        return;
    }
    let server = Scripted::start(|_, _| OBJECT.into()).await;
    stat(&*connect("s3://bucket", &options(&server)).unwrap().backend).await;
    let profile = |name: &str| options(&server).with_profile(name);
    stat(&*connect("s3://bucket", &profile("lab")).unwrap().backend).await;
    let heads = server.heads();
    assert_eq!(signed_by(&heads[0]), ("ENV", "us-east-1"));
    assert_eq!(signed_by(&heads[1]), ("LAB", "eu-west-3"));
    let error = connect("s3://bucket", &profile("typo")).err().unwrap();
    assert!(error.to_string().contains("no profile typo"), "{error}");
}

#[tokio::test]
async fn credentials_are_renewed_when_they_expire() {
    const NAME: &str = "credentials::credentials_are_renewed_when_they_expire";
    const URI: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    if std::env::var_os(URI).is_none() {
        // The first two sets expire within two minutes, so they are renewed before use; the
        // storage refuses the third.
        let issued = AtomicUsize::new(0);
        let metadata = Scripted::start(move |_, _| {
            let number = issued.fetch_add(1, Ordering::Relaxed) + 1;
            let life = if number < 3 { 60 } else { 3600 };
            let expires = rfc3339(SystemTime::now() + Duration::from_secs(life));
            let body = format!(
                r#"{{"AccessKeyId":"KEY{number}","SecretAccessKey":"s","Token":"t","Expiration":"{expires}"}}"#
            );
            answer("200 OK\nContent-Type: application/json", &body)
        })
        .await;
        let uri = format!("{}/credentials", metadata.endpoint);
        assert!(!tokio::task::spawn_blocking(move || with_environment(NAME, &[(URI, &uri)])).await.unwrap());
        return;
    }
    let server = Scripted::start(|head, _| {
        if head.contains("Credential=KEY3/") && head.starts_with("GET") {
            return answer("400 Bad Request", "<Error><Code>ExpiredToken</Code><Message>old</Message></Error>");
        }
        if head.starts_with("GET") {
            return answer("200 OK", "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>");
        }
        OBJECT.into()
    })
    .await;
    let backend = connect("s3://bucket", &options(&server)).unwrap().backend;
    for _ in 0..4 {
        stat(&*backend).await;
    }
    backend.list("", None).await.unwrap();
    stat(&*backend).await;
    let heads = server.heads();
    let keys: Vec<_> = heads.iter().map(|head| signed_by(head).0).collect();
    assert_eq!(keys, ["KEY1", "KEY2", "KEY3", "KEY3", "KEY3", "KEY4", "KEY4"]);
}

/// A process that was stopped between signing and sending, or a clock that was set.
#[tokio::test]
async fn a_request_that_was_signed_too_long_ago_is_signed_once_more() {
    const NAME: &str = "credentials::a_request_that_was_signed_too_long_ago_is_signed_once_more";
    if !with_environment(NAME, &[("AWS_ACCESS_KEY_ID", "KEY"), ("AWS_SECRET_ACCESS_KEY", "s")]) {
        return;
    }
    for (refusals, sent) in [(1, 2), (9, 2)] {
        let server = Scripted::start(move |_, number| {
            if number <= refusals {
                return answer("403 Forbidden", "<Error><Code>RequestTimeTooSkewed</Code></Error>");
            }
            answer("200 OK", "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
        })
        .await;
        let backend = connect("s3://bucket", &options(&server)).unwrap().backend;
        let listed = backend.list("", None).await.map_err(|error| error.kind());
        // A clock that stays wrong is an error of its own.
        assert_eq!(listed.err(), (refusals > 1).then_some(ErrorKind::Unauthenticated));
        assert_eq!(server.heads().len(), sent);
    }
}

/// A time in AWS's format.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    opendal::raw::Timestamp::try_from(time).unwrap().to_string()
}
