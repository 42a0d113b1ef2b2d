//! What an open through a mount costs at the storage.

use std::time::Duration;

use foreread_backend::{ConnectOptions, connect};
use foreread_engine::{Engine, Options};
use foreread_fuse::{MountOptions, mount};
use foreread_testbed::{Config, Kind, ObjectSpec, Testbed};

/// Each open is a look-up and an open: the storage is asked once for both, also where its answer
/// takes longer than a confirmation holds.
#[test]
fn an_open_asks_a_slow_storage_once() {
    let config = Config {
        objects: vec![ObjectSpec::new("a", 10)],
        first_byte: Duration::from_millis(250),
        jitter: Duration::ZERO,
        anonymous: true,
        ..Config::default()
    };
    let testbed = Testbed::start(config).expect("a testbed on loopback");
    let storage = ConnectOptions::default().with_endpoint(testbed.endpoint()).with_anonymous(true);
    let connected = connect("s3://testbed", &storage).expect("a backend");
    let options = Options::default().with_metadata_ttl(Duration::ZERO);
    let engine = Engine::new(connected.backend, &options).expect("an engine");
    let dir = tempfile::tempdir().expect("a folder");
    let mounted = mount(engine, "", dir.path(), &MountOptions::default()).expect("/dev/fuse");
    for opens in 1..=3 {
        std::fs::File::open(dir.path().join("a")).expect("the object is there");
        let heads = testbed.requests().iter().filter(|request| request.kind == Kind::Head).count();
        assert_eq!(heads, opens, "{:?}", testbed.requests());
    }
    drop(mounted);
}
