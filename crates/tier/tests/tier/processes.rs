//! Several processes, and processes that are killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use foreread_tier::Tier;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::content::{is_kept, object, offer, open, small, total, until};

/// This test program again, as the process that `child` is.
fn child(folder: &Path, role: &str) -> Child {
    Command::new(std::env::current_exe().expect("this is a program"))
        .args(["--exact", "processes::child_process", "--nocapture", "--test-threads=1"])
        .env("FOREREAD_TIER_CHILD", role)
        .env("FOREREAD_TIER_FOLDER", folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts")
}

/// Not a test where no test has started it.
#[test]
fn child_process() {
    let Ok(role) = std::env::var("FOREREAD_TIER_CHILD") else { return };
    let folder = std::env::var_os("FOREREAD_TIER_FOLDER").expect("it is set");
    let tier = Tier::open(Path::new(&folder), small()).expect("it opens");
    if role == "endless" {
        // Writes until it is killed.
        for at in 0.. {
            offer(&tier, object(at / 500), at % 500 * 32, 131_072 - (at as usize % 3) * 1000);
            if at % 20 == 19 {
                tier.flush();
                println!("\nwritten {at}");
            }
        }
    }
    if role == "without descriptors" {
        return lack_descriptors(&tier);
    }
    // Writes ten segments, and ends in order.
    for at in 0..80 {
        offer(&tier, object(7), at * 32, 131_072);
        tier.flush();
    }
}

/// No file can be opened for a while: reads find nothing, and everything once they can.
fn lack_descriptors(tier: &Arc<Tier>) {
    let all = || (0..30).filter(|&at| is_kept(tier, object(1), at * 32, 131_072)).count();
    (0..30).for_each(|at| assert!(offer(tier, object(1), at * 32, 131_072)));
    tier.flush();
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..before }).expect("lower is allowed");
    assert_eq!(all(), 0);
    // The next segments cannot be made.
    (30..60).for_each(|at| _ = offer(tier, object(1), at * 32, 131_072));
    tier.flush();
    setrlimit(Resource::Nofile, before).expect("it was so before");
    assert_eq!((all(), tier.stats().wrong), (30, 0), "{:?}", tier.stats());
    assert!(tier.stats().read_errors >= 30 && tier.stats().write_errors == 1, "{:?}", tier.stats());
}

#[test]
fn a_process_without_descriptors_reads_on_when_it_has_some() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(child(folder.path(), "without descriptors").wait().expect("it ran").success());
}

#[test]
fn a_process_that_is_killed_leaves_only_right_pages() {
    let kills: u64 = std::env::var("FOREREAD_KILLS").map_or(10, |kills| kills.parse().expect("a number"));
    let (folder, mut pages) = (tempfile::tempdir().expect("a folder"), 0);
    for kill in 0..kills {
        let mut writes = child(folder.path(), "endless");
        let mut lines = BufReader::new(writes.stdout.take().expect("it is piped")).lines();
        let heard = lines.by_ref().map_while(Result::ok).filter(|line| line.starts_with("written")).nth(kill as usize);
        assert!(heard.is_some());
        writes.kill().expect("it runs");
        writes.wait().expect("it ended");

        let tier = open(folder.path(), small());
        for number in 0..20 {
            for range in tier.kept(object(number)) {
                for page in range {
                    pages += u64::from(is_kept(&tier, object(number), page, 300));
                }
            }
        }
        assert_eq!(tier.stats().wrong, 0, "a kill loses nothing that the kernel has");
        drop(tier);
        let verified = foreread_tier::verify(folder.path(), None, |_| {}).expect("it is a cache");
        assert!(verified.wrong == 0 && verified.good > 0, "{verified:?}");
        assert!(total(folder.path()) <= 32 << 20);
    }
    println!("{kills} kills: {pages} pages were read and right");
    assert!(pages > 0);
}

#[test]
fn two_processes_read_what_each_other_sealed() {
    let folder = tempfile::tempdir().expect("a folder");
    let tier = open(folder.path(), small());
    let mut writes = child(folder.path(), "some");
    let mut most = 0;
    for at in 0..80 {
        offer(&tier, object(8), at * 32, 131_072);
        tier.flush();
        most = most.max(total(folder.path()));
    }
    assert!(writes.wait().expect("it ran").success());
    until(|| tier.kept(object(7)).first() == Some(&(0..80 * 32)));
    assert!((0..80).all(|at| is_kept(&tier, object(7), at * 32, 131_072)));
    assert!((0..80).all(|at| is_kept(&tier, object(8), at * 32, 131_072)));
    assert!(most <= 32 << 20 && tier.stats().wrong == 0);

    // Another process reads what this one sealed, while this one goes on.
    let mut endless = child(folder.path(), "endless");
    let mut lines = BufReader::new(endless.stdout.take().expect("it is piped")).lines();
    assert!(lines.by_ref().map_while(Result::ok).filter(|line| line.starts_with("written")).nth(30).is_some());
    for at in 0..200 {
        offer(&tier, object(9), at * 32, 131_072);
        tier.flush();
        let bytes = total(folder.path());
        assert!(bytes <= 32 << 20, "{bytes}");
        _ = is_kept(&tier, object(7), at % 80 * 32, 131_072);
        _ = is_kept(&tier, object(0), at * 32, 131_072);
    }
    endless.kill().expect("it runs");
    endless.wait().expect("it ended");
    assert_eq!(tier.stats().wrong, 0);
}
