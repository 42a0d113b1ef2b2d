//! S3, against the testbed, which checks signatures, and against moto.

use std::ops::Range;
use std::process::Command;

use foreread_backend::conformance::Seeder;
use foreread_backend::{ConnectOptions, ErrorKind, conformance, connect};
use foreread_testbed::{Config, ObjectSpec, Testbed, content};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::emulator::{Emulator, installed, with_environment};
use crate::seed::{self, Bucket, client};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moto_conforms() {
    let Some(program) = installed("python/bin/moto_server") else { return };
    if !with_environment("s3::moto_conforms", &[("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")]) {
        return;
    }
    let moto = Emulator::start(|port| {
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        command
    });
    let bucket = client().put(format!("{}/bucket", moto.endpoint())).send().await.unwrap();
    assert!(bucket.status().is_success(), "{}", bucket.status());
    let options = ConnectOptions::default().with_endpoint(moto.endpoint());
    let backend = connect("s3://bucket", &options).unwrap().backend;
    let builder = opendal::services::S3::default().bucket("bucket").endpoint(&moto.endpoint()).region("us-east-1");
    let builder = builder.access_key_id("key").secret_access_key("secret").disable_ec2_metadata();
    conformance::check(&*backend, &Bucket::new(builder, |key| key.contains('\n'))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_testbed_conforms() {
    let credentials = [("AWS_ACCESS_KEY_ID", "testbed"), ("AWS_SECRET_ACCESS_KEY", "testbedsecret")];
    if !with_environment("s3::the_testbed_conforms", &credentials) {
        return;
    }
    let testbed = seed::testbed(Config::default());
    let options = ConnectOptions::default().with_endpoint(testbed.endpoint());
    let backend = connect("s3://testbed", &options).unwrap().backend;
    conformance::check(&*backend, &Synthetic(testbed)).await;
}

#[tokio::test]
async fn a_wrong_secret_is_no_authentication() {
    let credentials = [("AWS_ACCESS_KEY_ID", "testbed"), ("AWS_SECRET_ACCESS_KEY", "wrong")];
    if !with_environment("s3::a_wrong_secret_is_no_authentication", &credentials) {
        return;
    }
    let testbed = seed::testbed(Config::default());
    let options = ConnectOptions::default().with_endpoint(testbed.endpoint());
    let error = connect("s3://testbed", &options).unwrap().backend.list("", None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error}");
    assert!(error.to_string().contains("SignatureDoesNotMatch"), "{error}");
    assert!(!error.to_string().contains("wrong"), "{error}");
}

#[tokio::test]
async fn a_missing_bucket_is_not_found() {
    let testbed = seed::testbed(Config { anonymous: true, ..Config::default() });
    let options = ConnectOptions::default().with_endpoint(testbed.endpoint()).with_anonymous(true);
    let error = connect("s3://other", &options).unwrap().backend.list("", None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("NoSuchBucket"), "{error}");
}

/// Objects of the testbed, whose bytes are a function of their names.
struct Synthetic(Testbed);

impl Seeder for Synthetic {
    fn put<'a>(&'a self, key: &'a str, size: u64, generation: u64) -> BoxFuture<'a, Result<bool, String>> {
        self.0.set_object(&ObjectSpec { generation, ..ObjectSpec::new(key, size) });
        std::future::ready(Ok(true)).boxed()
    }

    fn content(&self, key: &str, generation: u64, range: Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        content::fill(key, generation, range.start, &mut bytes);
        bytes
    }
}
