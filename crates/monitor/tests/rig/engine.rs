//! A store with one object, an engine in front of it that has read the first 8 MiB, and a monitor.

// Each test program uses a part of it.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use foreread_backend::{ConnectOptions, Key, connect};
use foreread_engine::{Cache, Engine, File, Options as EngineOptions};
use foreread_monitor::{Monitor, Options};
use foreread_testbed::{Config, ObjectSpec, Testbed};

pub(crate) struct Rig {
    _testbed: Testbed,
    pub(crate) engine: Engine,
    pub(crate) address: SocketAddr,
    /// While it is open, its stream is there.
    pub(crate) file: File,
}

pub(crate) const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

impl Rig {
    pub(crate) fn start(change: impl FnOnce(&mut Options)) -> Self {
        Self::of(&EngineOptions::default(), change)
    }

    /// With a cache in a folder, which is removed when the engine has it open.
    pub(crate) fn with_cache() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self::of(&EngineOptions::default().with_cache(Some(Cache::new(folder.path()))), |_| {})
    }

    fn of(engine_options: &EngineOptions, change: impl FnOnce(&mut Options)) -> Self {
        let objects = vec![ObjectSpec::new("secret/name", 64 << 20)];
        let testbed = Testbed::start(Config { objects, anonymous: true, ..Config::default() }).expect("a testbed");
        let storage = ConnectOptions::default().with_endpoint(testbed.endpoint()).with_anonymous(true);
        let connected = connect("s3://testbed", &storage).expect("a backend");
        let engine = Engine::new(Arc::clone(&connected.backend), engine_options).expect("an engine");
        let mut options = Options::new(LOOPBACK);
        options.title = "s3://<testbed>".into();
        change(&mut options);
        let monitor = Monitor::bind(options).expect("a free port");
        let address = monitor.address();
        monitor.serve(&engine).expect("it is served");
        let object = engine.runtime().block_on(engine.stat(&Key::new("secret/name"))).expect("it is there");
        let file = engine.open(&object);
        let rig = Self { _testbed: testbed, engine, address, file };
        (0..8).for_each(|nth| rig.read(nth << 20, 1 << 20));
        rig
    }

    pub(crate) fn read(&self, offset: u64, len: usize) {
        self.engine.runtime().block_on(self.file.read_at(offset, len)).expect("bytes");
    }

    pub(crate) fn get(&self, path: &str) -> String {
        ask(self.address, &format!("GET {path} HTTP/1.1\r\nHost: {}", self.address))
    }

    /// What is behind the head.
    pub(crate) fn body(&self, path: &str) -> String {
        self.get(path).split_once("\r\n\r\n").expect("a body").1.to_owned()
    }
}

/// Sends a request; what comes until the connection ends.
pub(crate) fn ask(address: SocketAddr, head: &str) -> String {
    let mut socket = TcpStream::connect(address).expect("a connection");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    socket.write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes()).expect("it is sent");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("an answer in UTF-8");
    text
}
