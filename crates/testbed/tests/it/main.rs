//! The testbed over the wire: the protocol, every fault, and real clients.

mod clients;
mod control;
mod faults;
mod plain;
mod protocol;
mod raw_client;
mod tls;
mod upstream;

use foreread_testbed::{Config, ObjectSpec, Testbed};

/// A testbed that anyone may read, with these objects.
fn testbed(objects: &[(&str, u64)], faults: &[&str]) -> Testbed {
    let config = Config {
        objects: objects.iter().map(|(key, size)| ObjectSpec::new(*key, *size)).collect(),
        faults: faults.iter().map(|spec| spec.parse().unwrap_or_else(|error| panic!("{spec}: {error}"))).collect(),
        anonymous: true,
        ..Config::default()
    };
    Testbed::start(config).expect("the testbed starts")
}

/// The first so many bytes of an object's first generation.
fn content(key: &str, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    foreread_testbed::content::fill(key, 1, offset, &mut bytes);
    bytes
}
