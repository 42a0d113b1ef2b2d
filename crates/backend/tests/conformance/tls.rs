//! TLS with a private certificate authority, and proxies: both are configured by the environment.

use foreread_backend::{ConnectOptions, ErrorKind, Key, connect};
use foreread_testbed::{Config, ObjectSpec, OwnAuthority};

use crate::emulator::with_environment;
use crate::scripted::{Scripted, answer};
use crate::seed;

const ENDPOINT: &str = "FOREREAD_TEST_ENDPOINT";
const TRUSTED: &str = "FOREREAD_TEST_TRUSTED";

#[tokio::test]
async fn a_private_authority_is_trusted_when_it_is_named() {
    const NAME: &str = "tls::a_private_authority_is_trusted_when_it_is_named";
    let Ok(endpoint) = std::env::var(ENDPOINT) else {
        let folder = tempfile::tempdir().unwrap();
        let tls = OwnAuthority::issue().unwrap().write(folder.path()).unwrap();
        let objects = vec![ObjectSpec::new("object", 100)];
        let testbed = seed::testbed(Config { objects, anonymous: true, tls: Some(tls), ..Config::default() });
        let endpoint = testbed.endpoint();
        assert!(endpoint.starts_with("https://"), "{endpoint}");
        let authority = folder.path().join("authority.pem");
        let authority = authority.to_str().unwrap();
        assert!(!with_environment(NAME, &[(ENDPOINT, &endpoint)]));
        let folder = folder.path().to_str().unwrap();
        for (variable, path) in [
            ("SSL_CERT_FILE", authority),
            ("AWS_CA_BUNDLE", authority),
            ("REQUESTS_CA_BUNDLE", authority),
            ("CURL_CA_BUNDLE", folder),
        ] {
            assert!(!with_environment(NAME, &[(ENDPOINT, &endpoint), (variable, path), (TRUSTED, "1")]));
        }
        return;
    };
    let options = ConnectOptions::default().with_endpoint(endpoint).with_anonymous(true);
    let stat = connect("s3://testbed", &options).unwrap().backend.stat(&Key::new("object")).await;
    if std::env::var_os(TRUSTED).is_some() {
        assert_eq!(stat.unwrap().version.size, 100);
    } else {
        let error = stat.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("SSL_CERT_FILE"), "{error}");
    }
}

#[tokio::test]
async fn a_bundle_that_cannot_be_read_is_named() {
    if !with_environment("tls::a_bundle_that_cannot_be_read_is_named", &[("AWS_CA_BUNDLE", "/nonexistent/ca.pem")]) {
        return;
    }
    let options = ConnectOptions::default().with_anonymous(true);
    let error = connect("s3://bucket", &options).err().unwrap();
    assert!(error.to_string().contains("AWS_CA_BUNDLE: /nonexistent/ca.pem"), "{error}");
}

#[tokio::test]
async fn a_proxy_is_used_when_it_is_named() {
    const NAME: &str = "tls::a_proxy_is_used_when_it_is_named";
    if std::env::var_os("http_proxy").is_none() || std::env::var_os("FOREREAD_TEST_INSIDE").is_none() {
        let proxy = Scripted::start(|_, _| answer("200 OK", "0123456789")).await;
        let endpoint = proxy.endpoint.clone();
        let inside = move || with_environment(NAME, &[("http_proxy", &endpoint), ("no_proxy", ""), ("NO_PROXY", "")]);
        assert!(!tokio::task::spawn_blocking(inside).await.unwrap());
        let heads = proxy.heads();
        assert!(heads[0].starts_with("HEAD http://store.invalid/file "), "{heads:?}");
        return;
    }
    let backend = connect("http://store.invalid", &ConnectOptions::default()).unwrap().backend;
    let _ = backend.stat(&Key::new("file")).await;
}
