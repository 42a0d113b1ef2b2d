//! S3, against moto.

use std::process::Command;

use foreread_backend::{ConnectOptions, conformance, connect};

use crate::emulator::{Emulator, installed, with_environment};
use crate::seed::{Bucket, client};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moto_conforms() {
    let Some(installed) = installed() else { return };
    if !with_environment("s3::moto_conforms", &[("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")]) {
        return;
    }
    let moto = Emulator::start(|port| {
        let mut command = Command::new(installed.join("python/bin/moto_server"));
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        command
    });
    let bucket = client().put(format!("{}/bucket", moto.endpoint())).send().await.unwrap();
    assert!(bucket.status().is_success(), "{}", bucket.status());
    let options = ConnectOptions { endpoint: Some(moto.endpoint()), ..ConnectOptions::default() };
    let backend = connect("s3://bucket", &options).unwrap().backend;
    let builder = opendal::services::S3::default().bucket("bucket").endpoint(&moto.endpoint()).region("us-east-1");
    let builder = builder.access_key_id("key").secret_access_key("secret").disable_ec2_metadata();
    conformance::check(&*backend, &Bucket::new(builder, |key| key.contains('\n'))).await;
}
