//! Names that are told by the read of their files: one request for each, and exact bytes, whatever
//! goes wrong.

use std::ops::Range;
use std::time::Duration;

use foreread_engine::{ErrorKind, Key, Node, Options};
use foreread_testbed::{ObjectSpec, content};

use super::{Rig, patience, rig, rig_after};

/// What a reader finds of a name, and its bytes if that is a file.
async fn read_by_name(rig: &Rig, key: &str, range: Range<u64>) -> Result<Vec<u8>, ErrorKind> {
    let (prefix, name) = key.split_at(key.rfind('/').expect("a directory") + 1);
    match rig.engine.look_up_to_read(prefix, name, range.clone()).await.map(|named| named.node) {
        Ok(Node::File(object)) => {
            let len = range.end.min(object.version.size).saturating_sub(range.start);
            let read = rig.engine.open(&object).read_at(range.start, len as usize).await;
            Ok(read.expect("its bytes").to_vec())
        }
        Ok(Node::Directory(prefix)) => panic!("{prefix} is a directory"),
        Err(error) => Err(error.kind()),
    }
}

/// Reads objects whole, in their order.
async fn read_all_by_name(rig: &Rig, objects: &[(&str, u64)]) {
    for &(key, size) in objects {
        let bytes = read_by_name(rig, key, 0..u64::MAX).await.expect("it is there");
        assert_eq!(bytes.len() as u64, size);
        content::verify(key, 1, 0, &bytes).expect("the object's bytes");
    }
}

/// Files of one directory, and names that are not there: a request each.
#[test]
fn a_name_that_is_read_at_once_costs_one_request() {
    let keys: Vec<_> = (0..4).map(|n| format!("a/b/{n}")).collect();
    let objects: Vec<_> =
        keys.iter().zip([1, 4096, 262_144, 600_000]).map(|(key, size)| (key.as_str(), size)).collect();
    let rig = rig(&objects, &Options::default());
    rig.engine.runtime().block_on(async {
        read_all_by_name(&rig, &objects).await;
        let stats = rig.engine.stats();
        assert_eq!((stats.stats, stats.lists), (0, 0), "each read has told what its name is");
        assert_eq!(stats.requests, 4, "a request each");
        for name in ["a/b/none", "a/b/8"] {
            assert_eq!(read_by_name(&rig, name, 0..u64::MAX).await, Err(ErrorKind::NotFound), "{name}");
        }
        let after = rig.engine.stats();
        let asked = (after.requests - stats.requests, after.stats, after.lists);
        assert_eq!(asked, (2, 0, 0), "a name that is not there is no more than a request");
        // Pages that are resident are not fetched once more.
        assert_eq!(read_by_name(&rig, "a/b/2", 0..u64::MAX).await.map(|bytes| bytes.len()), Ok(262_144));
        assert_eq!(rig.engine.stats().requests, after.requests, "it is resident");
    });
}

/// Chunks of an array on two levels, four in a directory, which nothing has listed: a request
/// each, but for a few listings, and most of them before they are read.
#[test]
fn chunks_in_directories_that_nothing_has_listed_are_there() {
    let keys: Vec<_> = (0..640).map(|n| format!("a/{:02}/{}/{}", n / 16, n / 4 % 4, n % 4)).collect();
    let objects: Vec<_> = keys.iter().map(|key| (key.as_str(), 20_000)).collect();
    let options = Options::default().with_metadata_ttl(Duration::from_mins(1));
    let rig = rig_after(Duration::from_millis(5), &objects, &options);
    rig.engine.runtime().block_on(async {
        read_all_by_name(&rig, &objects).await;
    });
    let stats = rig.engine.stats();
    // On a busy machine some answers are late, and their requests are hedged.
    assert_eq!(stats.requests - stats.requests_hedged, 640, "no file is asked for twice");
    assert!(stats.files_ahead_used >= 320, "{} files were there", stats.files_ahead_used);
    assert!(stats.stats + stats.lists <= 64, "{} descriptions, {} listings", stats.stats, stats.lists);
}

/// An array of which few chunks were written: listings know more of its names than reads tell.
#[test]
fn names_that_are_not_there_have_directories_listed() {
    let rig = rig(&[("a/0/0", 1)], &Options::default());
    rig.engine.runtime().block_on(async {
        for n in 0..2_000 {
            let found = read_by_name(&rig, &format!("a/{}/{}", n / 100, n % 100), 0..u64::MAX).await;
            assert_eq!(found.is_ok(), n == 0, "{n}");
        }
        let stats = rig.engine.stats();
        let asked = stats.requests + stats.stats + stats.lists;
        assert!(asked < 200, "{asked} requests for 2,000 names in 20 directories");
    });
}

/// Whatever is read, of whatever length, in whichever order, and at most one version of it.
#[test]
fn first_reads_are_exact() {
    for size in [0, 1, 4095, 4096, 4097, 70_000, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, 9_000_000] {
        let short = [0..1, 0..u64::MAX, 5..u64::MAX, 4096..8192, 69_999..70_000, 70_000..80_000, 3..3];
        let (long, behind) = (4_194_000..4_195_000, 8_999_000..u64::MAX);
        for range in short.into_iter().chain([long, behind]) {
            let rig = rig(&[("d/file", size)], &Options::default());
            rig.engine.runtime().block_on(async {
                let bytes = read_by_name(&rig, "d/file", range.clone()).await.expect("it is there");
                let wanted = range.end.min(size).saturating_sub(range.start);
                assert_eq!(bytes.len() as u64, wanted, "bytes {range:?} of {size}");
                content::verify("d/file", 1, range.start, &bytes).expect("the object's bytes");
            });
        }
    }
}

/// A body whose object is replaced before the read wants it is not taken for the new version.
#[test]
fn a_first_read_is_of_the_version_that_it_tells() {
    let rig = rig(&[("d/file", 100_000)], &Options::default());
    rig.engine.runtime().block_on(async {
        let object = async |range| match rig.engine.look_up_to_read("d/", "file", range).await.map(|named| named.node) {
            Ok(Node::File(object)) => object,
            other => panic!("{other:?}"),
        };
        let old = object(0..u64::MAX).await;
        let spec = ObjectSpec { generation: 2, ..ObjectSpec::new("d/file", 90_000) };
        rig.testbed.set_object(&spec);
        // What nothing reads is forgotten, and its version with it.
        let new = rig.engine.stat(&Key::new("d/file")).await.expect("the new version");
        assert_ne!(old.version, new.version);
        let bytes = rig.engine.open(&new).read_at(0, 90_000).await.expect("the new bytes");
        content::verify("d/file", 2, 0, &bytes).expect("the new version's bytes");
        // The old one is still in its connection.
        let bytes = rig.engine.open(&old).read_at(0, 100_000).await.expect("the old bytes");
        content::verify("d/file", 1, 0, &bytes).expect("the old version's bytes");
    });
}

/// A directory of many files is listed once some were read, and its other files come ahead.
#[test]
fn a_large_directory_is_listed_for_files_that_are_read_by_name() {
    let keys: Vec<_> = (0..200).map(|n| format!("d/{n:03}")).collect();
    let objects: Vec<_> = keys.iter().map(|key| (key.as_str(), 10_000)).collect();
    let rig = rig(&objects, &Options::default());
    rig.engine.runtime().block_on(async {
        for (nth, key) in (1..).zip(&keys) {
            assert_eq!(read_by_name(&rig, key, 0..u64::MAX).await.map(|bytes| bytes.len()), Ok(10_000));
            assert!(nth >= 8 || rig.engine.stats().lists == 0, "a listing at the read {nth}");
        }
        let stats = rig.engine.stats();
        assert!((1..=8).contains(&stats.lists), "{} listings", stats.lists);
        assert!(stats.requests <= 220 && stats.stats == 0, "{} and {} requests", stats.requests, stats.stats);
    });
}

/// What is asked for with the name is all that is asked for, and comes once.
#[test]
fn a_first_read_brings_no_byte_twice() {
    for size in [1, 4097, 300_000, 3 << 20, 4 << 20] {
        let rig = rig(&[("d/file", size)], &Options::default());
        let bytes = rig.engine.runtime().block_on(read_by_name(&rig, "d/file", 0..u64::MAX));
        assert_eq!(bytes.map(|bytes| bytes.len() as u64), Ok(size));
        let counters = rig.testbed.counters();
        assert_eq!((counters.get, counters.object_bytes_sent), (1, size));
    }
}

/// Refused reads, as of objects that are in an archive, tell nothing: names are looked up, and
/// soon no read is tried before.
#[test]
fn names_whose_first_reads_are_refused_are_looked_up() {
    let keys: Vec<_> = (0..20).map(|n| format!("{n}/file")).collect();
    let objects: Vec<_> = keys.iter().map(|key| (key.as_str(), 10)).collect();
    let rig = rig(&objects, &Options::default());
    rig.testbed.set_faults(vec!["archived".parse().expect("a fault")]);
    rig.engine.runtime().block_on(async {
        for n in 0..20 {
            let found = rig.engine.look_up_to_read(&format!("{n}/"), "file", 0..u64::MAX).await;
            let node = found.expect("a description").node;
            assert!(matches!(&node, Node::File(object) if object.version.size == 10), "{node:?}");
        }
    });
    let gets = rig.testbed.counters().get;
    assert!((1..=4).contains(&gets), "{gets} reads that are refused");
}

/// A body that breaks off is gone on with at the version that its head told.
#[test]
fn first_reads_that_break_are_exact() {
    let size = 1_000_003;
    for fault in [
        "status=503,count=1",
        "reset,count=1",
        "stall,count=1",
        "wrong-range,count=1",
        "no-etag,count=1",
        "ignore-range,count=1",
        "gzip,count=1",
        "short=100,count=1",
        "truncate=5KiB,count=1",
        "reset-body=70KiB,count=1",
        "stall-body=64KiB,count=1",
    ] {
        let rig = rig(&[("d/file", size)], &Options::default().with_patience(patience()));
        rig.testbed.set_faults(vec![fault.parse().expect("a fault")]);
        for range in [0..u64::MAX, 5000..6000] {
            let read = rig.engine.runtime().block_on(read_by_name(&rig, "d/file", range.clone()));
            let bytes = read.unwrap_or_else(|kind| panic!("{fault}: {kind:?}"));
            assert_eq!(bytes.len() as u64, range.end.min(size) - range.start, "{fault}");
            content::verify("d/file", 1, range.start, &bytes).unwrap_or_else(|wrong| panic!("{fault}: {wrong:?}"));
        }
    }
}

/// Two readers of a name at once: one asks, the other looks the name up, and both have its bytes.
#[test]
fn readers_of_one_name_have_its_bytes() {
    let rig = rig(&[("d/file", 300_000)], &Options::default());
    rig.engine.runtime().block_on(async {
        let read = || read_by_name(&rig, "d/file", 0..u64::MAX);
        for bytes in futures::future::join_all((0..8).map(|_| read())).await {
            let bytes = bytes.expect("it is there");
            assert_eq!(bytes.len(), 300_000);
            content::verify("d/file", 1, 0, &bytes).expect("the object's bytes");
        }
    });
}

/// A program that does not read what it named keeps no connection: the name is asked for anew.
#[test]
fn a_body_that_is_not_read_is_given_up() {
    let rig = rig(&[("d/file", 300_000)], &Options::default().with_metadata_ttl(Duration::ZERO));
    rig.engine.runtime().block_on(async {
        // Bounded, so that a body that is kept for ever fails the test instead of hanging it.
        for _ in 0..3_000 {
            rig.engine.look_up_to_read("d/", "file", 0..u64::MAX).await.expect("it is there");
            if rig.testbed.counters().get == 2 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the body is kept");
    });
}

/// What a name is does not depend on how old its listing is: a directory stays one.
#[test]
fn a_directory_is_one_whether_its_listing_has_expired_or_not() {
    let options = Options::default().with_metadata_ttl(Duration::from_millis(300));
    let rig = rig(&[("a/b/c", 10), ("a/d", 10)], &options);
    rig.engine.runtime().block_on(async {
        let listed = rig.engine.open_directory("a/");
        listed.wait(0).await.expect("a listing");
        for pause in [0, 400] {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let found = rig.engine.look_up_to_read("a/", "b", 0..u64::MAX).await.map(|named| named.node);
            assert!(matches!(&found, Ok(Node::Directory(_))), "{found:?} after {pause} ms");
        }
    });
}
