//! The engine over real requests: against a reference, with faults, recorded and replayed.

mod archives;
mod by_name;
mod cache;
mod coalesce;
mod columns;
mod directories;
mod directory_panics;
mod faults;
mod heads;
mod local;
mod looks;
mod model;
mod pages;
mod panics;
mod record;
mod side_by_side;
mod stripes;
mod submission;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use foreread_backend::{ConnectOptions, Key, connect};
use foreread_engine::{Engine, Error, File, Options, Patience};
use foreread_testbed::{Config, ObjectSpec, Testbed, content};

/// A store with these objects, and an engine in front of it.
struct Rig {
    testbed: Testbed,
    engine: Engine,
}

/// Short, so that a permanent fault ends a test soon.
fn patience() -> Patience {
    let (step, total) = (Duration::from_millis(400), Duration::from_secs(3));
    Patience::default().with_first_byte(step).with_idle(step).with_total(total)
}

fn rig(objects: &[(&str, u64)], options: &Options) -> Rig {
    rig_after(Duration::from_millis(1), objects, options)
}

/// The same, with this first-byte latency.
fn rig_after(first_byte: Duration, objects: &[(&str, u64)], options: &Options) -> Rig {
    let config = Config {
        objects: objects.iter().map(|&(key, size)| ObjectSpec::new(key, size)).collect(),
        first_byte,
        jitter: Duration::ZERO,
        connection_rate: None,
        total_rate: None,
        anonymous: true,
        ..Config::default()
    };
    rig_of(config, options)
}

/// A store with the files of a directory, 5 ms away.
fn rig_of_directory(directory: &Path) -> Rig {
    let config = Config {
        dir: Some(directory.to_owned()),
        first_byte: Duration::from_millis(5),
        jitter: Duration::ZERO,
        connection_rate: None,
        total_rate: None,
        anonymous: true,
        ..Config::default()
    };
    rig_of(config, &Options::default())
}

fn rig_of(config: Config, options: &Options) -> Rig {
    let testbed = Testbed::start(config).expect("a testbed on loopback");
    let storage = ConnectOptions::default().with_endpoint(testbed.endpoint()).with_anonymous(true);
    let connected = connect("s3://testbed", &storage).expect("a backend");
    let engine = Engine::new(Arc::clone(&connected.backend), options).expect("an engine");
    Rig { testbed, engine }
}

/// A store with one object, whose connections carry so many bytes a second.
fn slow(connection_rate: u64) -> Rig {
    let config = Config {
        objects: vec![ObjectSpec::new("a", 64 << 20)],
        first_byte: Duration::ZERO,
        jitter: Duration::ZERO,
        connection_rate: Some(connection_rate),
        total_rate: None,
        anonymous: true,
        ..Config::default()
    };
    rig_of(config, &Options::default().with_patience(patience()).with_readahead(false))
}

impl Rig {
    fn open(&self, key: &str) -> File {
        let object = self.engine.runtime().block_on(self.engine.stat(&Key::new(key))).expect("the object is there");
        self.engine.open(&object)
    }

    /// Reads, and compares every byte with the object of this generation.
    fn read(&self, file: &File, offset: u64, len: usize, generation: u64) -> Result<usize, Error> {
        let bytes = self.engine.runtime().block_on(file.read_at(offset, len))?;
        let expected = len.min(file.size().saturating_sub(offset) as usize);
        assert_eq!(bytes.len(), expected, "a short read at {offset}");
        content::verify(file.object().key.as_str(), generation, offset, &bytes).expect("the bytes that are stored");
        Ok(bytes.len())
    }
}
