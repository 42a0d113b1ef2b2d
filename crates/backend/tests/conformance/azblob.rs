//! Azure Blob Storage, against Azurite, which checks signatures.

use std::process::Command;

use base64::prelude::{BASE64_STANDARD, Engine};
use foreread_backend::{ConnectOptions, conformance, connect};
use ring::hmac;

use crate::emulator::{Emulator, installed, with_environment};
use crate::seed::{Bucket, client};

/// The account that every Azurite has.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn azurite_conforms() {
    let Some(program) = installed("node/node_modules/.bin/azurite-blob") else { return };
    if !with_environment("azblob::azurite_conforms", &[("AZURE_STORAGE_ACCOUNT", ACCOUNT), ("AZURE_STORAGE_KEY", KEY)])
    {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Emulator::start(|port| {
        let mut command = Command::new(program);
        command.args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string(), "--silent", "--skipApiVersionCheck"]);
        command.args(["--inMemoryPersistence", "--disableTelemetry"]).current_dir(folder.path());
        command
    });
    let endpoint = format!("{}/{ACCOUNT}", server.endpoint());
    let builder = opendal::services::Azblob::default().container("container").endpoint(&endpoint);
    let builder = builder.account_name(ACCOUNT).account_key(KEY);
    create_container(&endpoint).await;
    let options = ConnectOptions::default().with_endpoint(endpoint);
    let backend = connect("az://container", &options).unwrap().backend;
    // Azure turns a backslash into a slash.
    conformance::check(&*backend, &Bucket::new(builder, |key| key.contains('\\'))).await;
}

/// Makes the container; `opendal` has no call for it, so the request is signed here.
async fn create_container(endpoint: &str) {
    let date = httpdate::fmt_http_date(std::time::SystemTime::now());
    let headers = format!("x-ms-date:{date}\nx-ms-version:2022-11-02");
    // The eleven standard headers, all empty, and the account twice: once as such, once as part of
    // Azurite's paths.
    let text = format!("PUT\n\n\n\n\n\n\n\n\n\n\n\n{headers}\n/{ACCOUNT}/{ACCOUNT}/container\nrestype:container");
    let key = hmac::Key::new(hmac::HMAC_SHA256, &BASE64_STANDARD.decode(KEY).unwrap());
    let signature = BASE64_STANDARD.encode(hmac::sign(&key, text.as_bytes()));
    let request = client().put(format!("{endpoint}/container?restype=container"));
    let request = request.header("x-ms-date", date).header("x-ms-version", "2022-11-02").header("content-length", "0");
    let request = request.header("authorization", format!("SharedKey {ACCOUNT}:{signature}"));
    let response = request.send().await.unwrap();
    assert!(response.status().is_success(), "{}: {}", response.status(), response.text().await.unwrap());
}
