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
use foreread_testbed::{Config, Effect, Fault, ObjectSpec, Testbed};

pub(crate) struct Rig {
    testbed: Testbed,
    pub(crate) engine: Engine,
    pub(crate) address: SocketAddr,
    /// While it is open, its stream is there.
    pub(crate) file: File,
}

/// An object of which most is read ahead and dropped.
pub(crate) const IN_VAIN: &str = "secret/in vain";

/// An object that goes, and whose name is meant to break what shows it.
pub(crate) const HOSTILE: &str = "secret/<img src=x onerror=alert(1)>\u{202e}\"'&amp;]]>";

/// Objects with long names.
const MANY: usize = 200;

fn many(nth: usize) -> String {
    format!("{}/{nth}", "x".repeat(900))
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
        let names = ["secret/name", IN_VAIN, HOSTILE];
        let few = names.iter().map(|name| ObjectSpec::new(*name, 64 << 20));
        let objects = few.chain((0..MANY).map(|nth| ObjectSpec::new(many(nth), 64 << 20))).collect();
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
        let rig = Self { testbed, engine, address, file };
        (0..8).for_each(|nth| rig.read(nth << 20, 1 << 20));
        rig
    }

    pub(crate) fn read(&self, offset: u64, len: usize) {
        self.engine.runtime().block_on(self.file.read_at(offset, len)).expect("bytes");
    }

    /// Reads a file ahead in vain, and one that is gone: there are waste and an error.
    pub(crate) fn get_into_trouble(&self) {
        let open = |name| {
            let object = self.engine.runtime().block_on(self.engine.stat(&Key::new(name))).expect("it is there");
            self.engine.open(&object)
        };
        let read = |file: &File, nth: u64| self.engine.runtime().block_on(file.read_at(nth << 20, 1 << 20));
        let in_vain = open(IN_VAIN);
        (0..4).for_each(|nth| assert!(read(&in_vain, nth).is_ok()));
        while self.engine.stats().in_flight > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        // What is asked for ahead from now on does not come, and goes with the last handle.
        self.testbed.set_faults(vec![Fault::new(Effect::Stall { time: None })]);
        let mut at = 4 << 20;
        while self.engine.stats().in_flight == 0 {
            self.engine.runtime().block_on(in_vain.read_at(at, 4096)).expect("it is resident");
            at += 4096;
        }
        drop(in_vain);
        self.testbed.set_faults(Vec::new());
        let gone = open(HOSTILE);
        assert!(self.testbed.remove_object(HOSTILE));
        read(&gone, 0).expect_err("it is gone");
    }

    /// Reads many files ahead.
    pub(crate) fn read_many(&self) -> Vec<File> {
        let open = |nth| {
            let object = self.engine.runtime().block_on(self.engine.stat(&Key::new(many(nth)))).expect("it is there");
            let file = self.engine.open(&object);
            (0..4_u64).for_each(|nth| {
                self.engine.runtime().block_on(file.read_at(nth << 16, 1 << 16)).expect("bytes");
            });
            file
        };
        (0..MANY).map(open).collect()
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
