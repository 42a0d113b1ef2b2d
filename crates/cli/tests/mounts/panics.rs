//! Panics of foreread's own code: the mount lives, and the next read is right.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use foreread_testbed::content;
use rustix::io::Errno;
use serde_json::Value;

use crate::fixture::{Mount, Store, directory, foreread, run};

/// What `read_through` reads at a time, 64 KiB.
const PIECE: u64 = 64 << 10;

/// The longest read of the kernel of a file that is read forward, 128 KiB.
const KERNEL_READ: u64 = 128 << 10;

/// Reads a file in pieces, and checks each. Returns how many reads failed, with `EIO`.
fn read_through(mounted: &Mount, name: &str) -> u64 {
    let file = File::open(mounted.file(name)).expect("it opens");
    let mut bytes = vec![0; PIECE as usize];
    let mut failed = 0;
    for nth in 0..256 {
        match file.read_exact_at(&mut bytes, nth * PIECE) {
            Ok(()) => content::verify(name, 1, nth * PIECE, &bytes).expect("the bytes that are stored"),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()), "{error}");
                failed += 1;
            }
        }
    }
    failed
}

#[test]
fn a_mount_survives_panics_of_policy_of_a_task_and_of_a_call() {
    let store = Store::with(&[("a", 16 << 20), ("b", 16 << 20)]);
    let folder = directory();
    let mut command = store.foreread();
    command.env("TMPDIR", folder.path());
    let places = ["policy:40", "task:20", "read:30", "action:200", "directory:3"];
    let plant = places.map(|place| ["--plant-panic", place]);
    let options = [&["--memory", "16M"][..], plant.as_flattened()].concat();
    let mounted = Mount::foreground(command, "s3://testbed", &options);
    let failed = read_through(&mounted, "a");
    // The kernel reads ahead on its own: all that it has asked of a request fails with its task.
    let lengths = store.testbed.requests().into_iter().filter_map(|request| request.range);
    let longest = lengths.map(|(start, end)| end - start).max().expect("requests");
    assert!(failed * PIECE <= longest + KERNEL_READ, "{failed} reads failed, of a task and of a call");
    assert_eq!((read_through(&mounted, "b"), read_through(&mounted, "a")), (0, 0), "later reads are right");

    let text = run(foreread().args(["stats", "--json"]).arg(mounted.path())).ok().text();
    let stats: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(stats["panics"], 5, "{stats:#}");
    assert_eq!(stats["plain_after_panics"], false, "{stats:#}");
    let shown = run(foreread().arg("stats").arg(mounted.path())).ok().text();
    let says = |name: &str, value: &str| {
        shown.lines().any(|line| line.trim().strip_prefix(name).is_some_and(|rest| rest.trim() == value))
    };
    assert!(says("panics", "5") && says("plain after panics", "false"), "{shown}");
    let events: Vec<_> = fs::read_dir(folder.path()).expect("the folder").collect();
    let path = events.first().expect("the last events").as_ref().expect("an entry").path();
    run(foreread().arg("replay").arg(&path)).ok();
}
