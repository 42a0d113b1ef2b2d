//! An object of a store as memory: every byte is the object's byte.

use std::sync::Arc;
use std::time::Duration;

use foreread_backend::{ConnectOptions, Key, connect};
use foreread_engine::{Engine, File, Options, Patience};
use foreread_memory::{Error, Region, View, ViewBuilder};
use foreread_testbed::{Config, ObjectSpec, Testbed, content};

const PAGE: usize = 4096;
const NAME: &str = "object";

struct Rig {
    testbed: Testbed,
    engine: Engine,
}

fn rig(size: u64) -> Rig {
    let config = Config {
        objects: vec![ObjectSpec::new(NAME, size)],
        first_byte: Duration::from_millis(2),
        jitter: Duration::ZERO,
        connection_rate: None,
        total_rate: None,
        anonymous: true,
        ..Config::default()
    };
    let testbed = Testbed::start(config).expect("a testbed on loopback");
    let storage = ConnectOptions::default().with_endpoint(testbed.endpoint()).with_anonymous(true);
    let connected = connect("s3://testbed", &storage).expect("a backend");
    let (step, total) = (Duration::from_secs(1), Duration::from_secs(4));
    let patience = Patience::default().with_first_byte(step).with_idle(step).with_total(total);
    let options = Options::default().with_memory_bytes(16 << 20).with_patience(patience);
    let engine = Engine::new(Arc::clone(&connected.backend), &options).expect("an engine");
    Rig { testbed, engine }
}

/// An object of the testbed as memory.
fn map(file: File) -> ViewBuilder {
    // SAFETY: the testbed has strong validators.
    unsafe { Region::map(file) }
}

impl Rig {
    fn open(&self) -> File {
        let object = self.engine.runtime().block_on(self.engine.stat(&Key::new(NAME))).expect("the object is there");
        self.engine.open(&object)
    }
}

fn expected(size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    content::Content::new(NAME, 1).fill(0, &mut bytes);
    bytes
}

#[test]
fn every_byte_is_the_objects() {
    // Many times the budget, and the last page is not whole.
    let size = (40 << 20) + 1234;
    let rig = rig(size as u64);
    let view = map(rig.open()).budget(1 << 20).create().expect("a view");
    let bytes = expected(size);
    assert_eq!(view.len(), size);
    assert!(view[..] == bytes[..], "forward");
    let backward = (0..size / PAGE).rev().all(|page| view[page * PAGE..][..PAGE] == bytes[page * PAGE..][..PAGE]);
    assert!(backward, "backward");
    let places = (0..2000).map(|n| n * 7_919 * 1_021 % (size - 100));
    assert!(places.into_iter().all(|at| view[at..at + 100] == bytes[at..at + 100]), "anywhere");
    let stats = view.stats();
    assert!(stats.mapped_pages <= 256 && stats.pages_failed == 0, "{stats:?}");
}

#[test]
fn threads_share_a_view_and_each_block_is_read_once() {
    let size = 8 << 20;
    let rig = rig(size as u64);
    let view = map(rig.open()).budget(16 << 20).create().expect("a view");
    let bytes = expected(size);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (view, bytes): (&View, _) = (&view, &bytes);
            scope.spawn(move || {
                for page in 0..size / PAGE {
                    let at = (page + thread) % (size / PAGE) * PAGE;
                    assert!(view[at..at + PAGE] == bytes[at..at + PAGE], "page {page}");
                }
            });
        }
    });
    // All of it fits: each block of 128 KiB was read once, by the first thread that touched it.
    assert_eq!(view.stats().reads, (size / (128 << 10)) as u64, "{:?}", view.stats());
}

#[test]
fn a_loop_over_more_than_the_budget_reads_little_more_than_the_blocks_that_do_not_fit() {
    // Room for 128 of 192 blocks. Dropping the oldest block would read all of them again in each
    // round.
    let size = 24 << 20;
    let rig = rig(size as u64);
    let view = map(rig.open()).budget(16 << 20).create().expect("a view");
    let bytes = expected(size);
    for round in 0..12 {
        assert!(view[..] == bytes[..], "round {round}");
    }
    let reads = view.stats().reads;
    assert!((192 + 11 * 64..192 + 11 * 110).contains(&reads), "{reads}");
}

#[test]
fn an_empty_object_cannot_be_mapped() {
    let rig = rig(0);
    assert!(matches!(map(rig.open()).create(), Err(Error::Invalid { .. })));
}

#[test]
fn a_page_that_the_storage_does_not_deliver_is_a_signal() {
    use std::os::unix::process::ExitStatusExt;
    const ROLE: &str = "FOREREAD_TEST_ROLE";
    // Many times what the engine could have read ahead.
    const SIZE: usize = 256 << 20;
    if std::env::var_os(ROLE).is_some() {
        let rig = rig(SIZE as u64);
        let view = map(rig.open()).create().expect("a view");
        assert_eq!(view[0], expected(1)[0]);
        println!("reached the change");
        drop(rig.testbed);
        let value = view[SIZE - 1];
        println!("behind it: {value}");
        return;
    }
    let test = "a_page_that_the_storage_does_not_deliver_is_a_signal";
    let mut command = std::process::Command::new(std::env::current_exe().expect("this program"));
    let output = command.args([test, "--exact", "--nocapture"]).env(ROLE, "1").output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("reached the change") && !said.contains("behind it"), "{output:?}");
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
}

#[test]
fn pages_that_the_program_gives_up_by_itself_are_read_again() {
    const ROLE: &str = "FOREREAD_TEST_ROLE";
    let test = "pages_that_the_program_gives_up_by_itself_are_read_again";
    if std::env::var_os(ROLE).is_some() {
        // SAFETY: it changes a timer of this process: a case that hangs ends.
        unsafe { libc::alarm(60) };
        let size = (4 << 20) + 1234;
        let rig = rig(size as u64);
        let view = map(rig.open()).budget(1 << 20).create().expect("a view");
        let bytes = expected(size);
        for round in 0..4 {
            assert!(view[..] == bytes[..], "round {round}");
            let len = (size - 100 * PAGE).next_multiple_of(PAGE);
            // SAFETY: the view reads the contents again.
            let advised = unsafe { libc::madvise(view.as_ptr().add(100 * PAGE) as *mut _, len, libc::MADV_DONTNEED) };
            assert_eq!(advised, 0);
        }
        return;
    }
    let mut command = std::process::Command::new(std::env::current_exe().expect("this program"));
    let output = command.args([test, "--exact", "--nocapture"]).env(ROLE, "1").output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
}
