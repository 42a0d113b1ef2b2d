//! Google Cloud Storage, against fake-gcs-server.

use std::process::Command;

use foreread_backend::{ConnectOptions, conformance, connect};

use crate::emulator::{Emulator, installed};
use crate::seed::{Bucket, client};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fake_gcs_server_conforms() {
    let Some(program) = installed("bin/fake-gcs-server") else { return };
    let server = Emulator::start(|port| {
        let mut command = Command::new(program);
        command.args(["-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", &port.to_string()]);
        command
    });
    let create = client().post(format!("{}/storage/v1/b", server.endpoint()));
    let created = create.body(r#"{"name": "bucket"}"#).send().await.unwrap();
    assert!(created.status().is_success(), "{}", created.status());
    let options = ConnectOptions::default().with_endpoint(server.endpoint()).with_anonymous(true);
    let backend = connect("gs://bucket", &options).unwrap().backend;
    let builder = opendal::services::Gcs::default().bucket("bucket").endpoint(&server.endpoint()).skip_signature();
    conformance::check(&*backend, &Bucket::new(builder, |_| false)).await;
}
