//! `foreread explain`: what a mount makes of the reads of a file.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use rustix::fs::OFlags;
use serde_json::Value;

use crate::fixture::{Mount, Store, directory, foreread, run, until};

#[test]
fn a_stream_is_explained_and_random_reads_form_none() {
    let store = Store::with(&[("dir/read", 256 << 20), ("other", 256 << 20)]);
    let mount = Mount::of(&store);
    // Past the kernel's page cache, whose readahead asks for its pieces in any order.
    let direct = OFlags::DIRECT.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(direct).open(mount.file("dir/read")).expect("a file");
    let mut piece = vec![0; 1 << 20];
    for nth in 0..8 {
        file.read_exact_at(&mut piece, nth << 20).expect("a read");
    }
    let other = File::open(mount.file("other")).expect("a file");
    other.read_exact_at(&mut piece[..4096], 100 << 20).expect("a read");

    let told = run(foreread().arg("explain").arg(mount.file("dir/read"))).ok().text();
    for words in ["dir/read, forward", "of 256 MiB", "ahead: ", "its reader", "The way to the storage"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let told = run(foreread().arg("explain").arg(mount.file("other"))).ok().text();
    assert!(told.contains("No reads form a stream"), "{told}");

    let json = |path| serde_json::from_str::<Value>(&run(foreread().args(["explain", "--json"]).arg(path)).ok().text());
    let all = json(mount.path().to_owned()).expect("JSON");
    let [stream] = &all["streams"].as_array().expect("streams")[..] else { panic!("one stream: {all}") };
    assert_eq!((&stream["key"], &stream["shape"]), (&Value::from("dir/read"), &Value::from("forward")));
    // Of reads of what is resident, policy is told now and then only.
    assert!(stream["position_bytes"].as_u64().expect("a number") >= 6 << 20, "{stream}");
    assert_eq!(json(mount.file("dir")).expect("JSON")["streams"][0]["key"], "dir/read", "by any directory");

    let elsewhere = directory();
    run(foreread().arg("explain").arg(elsewhere.path())).failed_saying(&["nothing can be said", "/proc/mounts"]);
}

/// A storage that is silent would hold it up. With this `--metadata-ttl` each look-up of a name is
/// a request for it.
#[test]
fn a_file_is_explained_without_a_question_to_the_storage() {
    let store = Store::with(&[("dir/file", 1 << 20)]);
    let mount = Mount::background(store.foreread(), "s3://testbed", &["--memory", "64M", "--metadata-ttl", "0s"]);
    let file = File::open(mount.file("dir/file")).expect("a file");
    file.read_exact_at(&mut [0; 4096], 0).expect("a read");
    until("nothing is read ahead any more", || mount.stats()["in_flight"] == 0);
    store.testbed.reset_counters();
    for path in [mount.file("dir/file"), mount.file("dir"), mount.path().join("./dir//file")] {
        let told = run(foreread().arg("explain").arg(path)).ok().text();
        assert!(told.contains("The way to the storage"), "{told}");
    }
    let told = run(foreread().arg("explain").arg(mount.file("dir/file"))).ok().text();
    assert!(told.contains("In all"), "{told}");
    run(foreread().arg("explain").arg(mount.file("dir/other"))).failed_saying(&["no program has asked"]);
    let requests = store.testbed.requests();
    assert!(requests.iter().all(|request| request.key.is_empty()), "{requests:?}");
}
