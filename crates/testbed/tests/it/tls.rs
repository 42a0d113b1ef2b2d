//! The testbed behind TLS, with an authority of its own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use foreread_testbed::{Config, Error, ObjectSpec, OwnAuthority, Testbed, TlsFiles};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::content;

fn secure(dir: &std::path::Path) -> (Testbed, OwnAuthority) {
    let authority = OwnAuthority::issue().unwrap();
    let config = Config {
        objects: vec![ObjectSpec::new("k", 100_000)],
        tls: Some(authority.write(dir).unwrap()),
        anonymous: true,
        ..Config::default()
    };
    (Testbed::start(config).unwrap(), authority)
}

fn get(testbed: &Testbed, trusted_pem: &str, path: &str) -> std::io::Result<Vec<u8>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted_pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    let client = ClientConnection::new(Arc::new(config), "127.0.0.1".try_into().unwrap()).unwrap();
    let mut stream = StreamOwned::new(client, TcpStream::connect(testbed.address())?);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut received = Vec::new();
    stream.read_to_end(&mut received)?;
    let head = received.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    Ok(received.split_off(head + 4))
}

#[test]
fn a_client_that_trusts_the_authority_reads() {
    let dir = tempfile::tempdir().unwrap();
    let (testbed, authority) = secure(dir.path());
    assert!(testbed.endpoint().starts_with("https://127.0.0.1:"));
    assert_eq!(get(&testbed, &authority.authority_pem, "/testbed/k").unwrap(), content("k", 0, 100_000));
}

#[test]
fn a_client_that_does_not_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (testbed, _) = secure(dir.path());
    let stranger = OwnAuthority::issue().unwrap();
    let error = get(&testbed, &stranger.authority_pem, "/testbed/k").unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[test]
fn wrong_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let files = TlsFiles { cert: dir.path().join("absent.pem"), key: dir.path().join("absent.key") };
    let error = Testbed::start(Config { tls: Some(files), ..Config::default() }).unwrap_err();
    assert!(matches!(&error, Error::TlsFile { path, .. } if path.ends_with("absent.pem")), "{error}");
}
