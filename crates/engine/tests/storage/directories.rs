//! Directories over real listings: complete, each name once, whatever changes meanwhile; and files
//! fetched before they are opened.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use foreread_backend::{ConnectOptions, connect};
use foreread_engine::{Directory, Engine, ErrorKind, Key, Node, Options};

use super::{rig, rig_after};

/// All names of a directory, and how often each comes.
pub(crate) async fn names(directory: &Directory) -> BTreeMap<String, u32> {
    let mut names = BTreeMap::new();
    let mut next = 0;
    while directory.wait(next).await.expect("a listing") {
        // An entry that is gone meanwhile is waited for again.
        let _ = directory.visit(next, |place, name, _, _| {
            assert_eq!(place, next, "each in its place");
            *names.entry(name.to_owned()).or_insert(0) += 1;
            next += 1;
            true
        });
    }
    names
}

#[test]
fn four_hundred_thousand_names_come_once_each() {
    let keys: Vec<String> =
        (0..400_000u32).map(|n| format!("d/{}{n:06}", if n % 7 == 0 { "x-" } else { "part-" })).collect();
    let objects: Vec<(&str, u64)> = keys.iter().map(|key| (key.as_str(), 1)).collect();
    let rig = rig(&objects, &Options::default());
    let found = rig.engine.runtime().block_on(names(&rig.engine.open_directory("d/")));
    assert_eq!(found.len(), keys.len());
    assert!(found.values().all(|&times| times == 1));
    assert!(keys.iter().all(|key| found.contains_key(&key[2..])));
    // Where pages begin is guessed, and guesses between the two kinds of names are wrong.
    let lists = rig.engine.stats().lists;
    assert!(lists <= 600, "{lists} requests for 400 pages");
}

#[test]
fn names_that_stay_come_once_while_others_are_replaced() {
    let keys: Vec<String> = (0..12_000u32).map(|n| format!("d/f{n:05}")).collect();
    let objects: Vec<(&str, u64)> = keys.iter().map(|key| (key.as_str(), 1)).collect();
    let rig = rig_after(Duration::from_millis(5), &objects, &Options::default());
    let goes = |n: usize| n % 3 == 1;
    let found = std::thread::scope(|scope| {
        let reader = scope.spawn(|| rig.engine.runtime().block_on(names(&rig.engine.open_directory("d/"))));
        for (n, key) in keys.iter().enumerate().filter(|&(n, _)| goes(n)) {
            assert!(rig.testbed.remove_object(key));
            rig.testbed.set_object(&foreread_testbed::ObjectSpec::new(format!("d/f{n:05}-new"), 1));
        }
        reader.join().expect("names")
    });
    assert!(found.values().all(|&times| times == 1), "a name comes twice");
    let stays = keys.iter().enumerate().filter(|&(n, _)| !goes(n)).map(|(_, key)| &key[2..]);
    let missing: Vec<_> = stays.filter(|name| !found.contains_key(*name)).collect();
    assert!(missing.is_empty(), "{} are missing: {:?}", missing.len(), missing.first());
}

#[test]
fn a_listing_answers_for_present_and_for_absent_names() {
    let rig = rig(&[("d/a", 5), ("d/b/c", 1), ("d/e", 0), ("d/e/f", 1), ("d/z", 0)], &Options::default());
    rig.engine.runtime().block_on(async {
        let listed = names(&rig.engine.open_directory("d/")).await;
        assert_eq!(listed.keys().collect::<Vec<_>>(), ["a", "b", "e", "z"]);
        let before = rig.engine.stats();
        let kind = async |name: &str| rig.engine.look_up("d/", name).await.map(|named| named.node);
        assert!(matches!(kind("a").await, Ok(Node::File(object)) if object.version.size == 5));
        assert_eq!(kind("b").await.expect("a directory"), Node::Directory("d/b/".to_owned()));
        assert_eq!(kind("e").await.expect("a directory with its mark"), Node::Directory("d/e/".to_owned()));
        assert!(matches!(kind("z").await, Ok(Node::File(_))));
        assert_eq!(kind("nothing").await.expect_err("no such name").kind(), ErrorKind::NotFound);
        let after = rig.engine.stats();
        assert_eq!((after.stats, after.lists), (before.stats, before.lists), "the listing knows");
    });
}

/// A cold open waits for two answers: what the directory is and holds, and the bytes.
#[test]
fn a_small_directory_is_known_by_the_answer_to_its_name() {
    let rig = rig(&[("d/a", 5), ("d/b/c", 1), ("e", 1)], &Options::default());
    rig.engine.runtime().block_on(async {
        let asked = || (rig.engine.stats().stats, rig.engine.stats().lists);
        let node = async |prefix: &str, name: &str| rig.engine.look_up(prefix, name).await.map(|named| named.node);
        assert_eq!(node("", "d").await.expect("a directory"), Node::Directory("d/".to_owned()));
        assert_eq!(asked(), (1, 1));
        assert!(matches!(node("d/", "a").await, Ok(Node::File(object)) if object.version.size == 5));
        assert_eq!(node("d/", "b").await.expect("a directory"), Node::Directory("d/b/".to_owned()));
        assert_eq!(node("d/", "nothing").await.expect_err("no such name").kind(), ErrorKind::NotFound);
        assert_eq!(asked(), (1, 1), "its listing knows");
    });
}

/// Small directories that came by one request are in use for longer than a listing is believed.
/// They are renewed by one request as well, and so is the one that they are in.
#[test]
fn small_directories_in_use_are_renewed_together() {
    let keys: Vec<_> = (0..400).map(|file| format!("d/p{:02}/m{file:03}", file % 40)).collect();
    let objects: Vec<_> = keys.iter().map(|key| (key.as_str(), 1)).collect();
    let ttl = Duration::from_secs(1);
    let rig = rig(&objects, &Options::default().with_metadata_ttl(ttl));
    rig.engine.runtime().block_on(async {
        names(&rig.engine.open_directory("d/")).await;
        let (began, mut rounds) = (Instant::now(), 0);
        while began.elapsed() < 4 * ttl {
            for key in &keys[..40] {
                let (prefix, name) = key.split_at(6);
                let named = rig.engine.look_up(prefix, name).await;
                assert!(matches!(named.map(|named| named.node), Ok(Node::File(_))));
            }
            rounds += 1;
            tokio::time::sleep(ttl / 40).await;
        }
        // On a machine that stands still meanwhile, listings expire, and rounds are few.
        let halves = began.elapsed().as_millis() / (ttl / 2).as_millis();
        let lists = rig.engine.stats().lists;
        assert!(u128::from(lists) <= 4 * halves + 8, "{lists} requests in {halves} halves, {rounds} rounds");
    });
}

/// Names in directories that a listing has shown: one request for each page of their subtree, none
/// for a name. A directory that does not fit in a page is listed by itself.
#[test]
fn names_below_a_listed_directory_have_its_neighbours_listed() {
    let key =
        |dir: u32, file: u32| format!("d/p{dir:02}/{}m{file:02}", if file.is_multiple_of(2) { "cache/" } else { "" });
    let mut objects: Vec<_> = (0..40).flat_map(|dir| (0..10).map(move |file| (key(dir, file), 1))).collect();
    objects.extend((0..1500).map(|file| (format!("d/z/m{file:04}"), 1)));
    let objects: Vec<_> = objects.iter().map(|(key, size)| (key.as_str(), *size)).collect();
    let rig = rig(&objects, &Options::default().with_metadata_ttl(Duration::from_mins(1)));
    rig.engine.runtime().block_on(async {
        names(&rig.engine.open_directory("d/")).await;
        // The reader may have the names before policy is told of them. What is charged says so.
        while rig.engine.stats().memory_directories_bytes < 41 * 64 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let asked = || (rig.engine.stats().stats, rig.engine.stats().lists);
        let is_file = async |prefix: String, name: String| {
            let named = rig.engine.look_up(&prefix, &name).await;
            matches!(named.map(|named| named.node), Ok(Node::File(_)))
        };
        let (stats, lists) = asked();
        // From the first one on, but in no order.
        for dir in (0..40).map(|nth| nth * 7 % 40) {
            assert!(!is_file(format!("d/p{dir:02}/"), "nothing".into()).await);
            assert!(is_file(format!("d/p{dir:02}/"), "m01".into()).await);
            assert!(is_file(format!("d/p{dir:02}/cache/"), "m02".into()).await);
        }
        assert_eq!(asked(), (stats, lists + 1), "one request for all");
        assert!(is_file("d/z/".into(), "m0007".into()).await);
        let (stats_z, lists_z) = asked();
        assert!(stats_z == stats && lists_z <= lists + 4, "{stats_z} and {lists_z} requests");
    });
}

/// Nothing is known by a page of many, or where nothing is believed: each name is asked for.
#[test]
fn a_directory_of_many_pages_is_not_known_by_the_answer_to_its_name() {
    let objects: Vec<_> = (0..1500).map(|n| (format!("d/{n:04}"), 1)).collect();
    let objects: Vec<_> = objects.iter().map(|(key, size)| (key.as_str(), *size)).collect();
    for (ttl, believed) in [(Duration::from_mins(1), true), (Duration::ZERO, false)] {
        let rig = rig(&objects, &Options::default().with_metadata_ttl(ttl));
        rig.engine.runtime().block_on(async {
            let stats = || rig.engine.stats().stats;
            rig.engine.look_up("", "d").await.expect("a directory");
            rig.engine.look_up("d/", "0007").await.expect("a file");
            assert_eq!(stats(), 2, "believed: {believed}");
            // The second name has it listed.
            rig.engine.look_up("d/", "0008").await.expect("a file");
            assert_eq!(stats(), if believed { 2 } else { 3 });
        });
    }
}

#[test]
fn a_listing_that_is_too_old_is_requested_again() {
    let options = Options::default().with_metadata_ttl(Duration::ZERO);
    let rig = rig(&[("d/a", 5)], &options);
    rig.engine.runtime().block_on(async {
        names(&rig.engine.open_directory("d/")).await;
        let before = rig.engine.stats().stats;
        rig.engine.look_up("d/", "a").await.expect("it is there");
        assert_eq!(rig.engine.stats().stats, before + 1);
        rig.testbed.set_object(&foreread_testbed::ObjectSpec::new("d/b", 1));
        rig.engine.look_up("d/", "b").await.expect("it is there now");
        assert_eq!(names(&rig.engine.open_directory("d/")).await.len(), 2);
    });
}

#[test]
fn names_that_are_forgotten_are_asked_for_again() {
    let options = Options::default().with_metadata_ttl(Duration::from_mins(10));
    let rig = rig(&[("d/a", 5)], &options);
    rig.engine.runtime().block_on(async {
        names(&rig.engine.open_directory("d/")).await;
        let node = async |name: &str| rig.engine.look_up("d/", name).await.map(|named| named.node);
        node("b").await.expect_err("it is not there");
        rig.testbed.set_object(&foreread_testbed::ObjectSpec::new("d/b", 1));
        rig.testbed.set_object(&foreread_testbed::ObjectSpec::new("d/a", 7));
        node("b").await.expect_err("so the listing says");
        rig.engine.forget_names();
        node("b").await.expect("it is there now");
        assert!(matches!(node("a").await, Ok(Node::File(object)) if object.version.size == 7));
        rig.engine.forget_names();
        assert_eq!(names(&rig.engine.open_directory("d/")).await.len(), 2);
    });
}

#[test]
fn opening_a_directory_does_not_join_a_listing_that_began_too_long_ago() {
    let options = Options::default().with_metadata_ttl(Duration::from_millis(50));
    let rig = rig_after(Duration::from_millis(200), &[("d/a", 5)], &options);
    rig.engine.runtime().block_on(async {
        let earlier = rig.engine.open_directory("d/");
        tokio::time::sleep(Duration::from_millis(100)).await;
        rig.testbed.set_object(&foreread_testbed::ObjectSpec::new("d/b", 1));
        let later = rig.engine.open_directory("d/");
        assert_eq!(names(&later).await.len(), 2, "all that was stored when it was opened");
        assert!(names(&earlier).await.contains_key("a"), "the reader of the earlier one gets its entries as well");
    });
}

#[test]
fn files_are_fetched_in_the_order_that_was_told() {
    let keys: Vec<String> = (0..40).map(|n| format!("d{}/f{n:02}", n % 4)).collect();
    let objects: Vec<(&str, u64)> = keys.iter().map(|key| (key.as_str(), 10_000)).collect();
    let rig = rig(&objects, &Options::default());
    let order: Vec<&String> = keys.iter().rev().collect();
    rig.engine.runtime().block_on(async {
        let told = order.iter().map(|key| Key::new(key.as_str())).chain([Key::new("d0/none")]).collect();
        assert_eq!(rig.engine.expect(told).await.expect("listings"), 40);
    });
    let mut seen = BTreeSet::new();
    for key in order {
        let (prefix, name) = key.split_once('/').expect("a directory");
        let named = rig.engine.runtime().block_on(rig.engine.look_up(&format!("{prefix}/"), name));
        let Node::File(object) = named.expect("it is there").node else { panic!("{key} is a file") };
        rig.read(&rig.engine.open(&object), 0, 10_000, 1).expect("its bytes");
        seen.insert(key);
    }
    let stats = rig.engine.stats();
    assert_eq!(seen.len(), 40);
    assert_eq!(stats.requests, 40, "each file is asked for once");
    assert!(stats.files_ahead_used >= 36, "{} of 40 were fetched before they were opened", stats.files_ahead_used);
}

/// The directory of an order is listed again, twice: the first of these listings fails.
#[test]
fn an_order_goes_on_after_a_listing_that_failed() {
    let keys: Vec<String> = (0..40).map(|n| format!("d/f{n:02}")).collect();
    let objects: Vec<(&str, u64)> = keys.iter().map(|key| (key.as_str(), 10_000)).collect();
    let rig = rig(&objects, &Options::default().with_metadata_ttl(Duration::from_mins(10)));
    // In no order of names, so that nothing else has them fetched.
    let order: Vec<&String> = (0..40).map(|nth| &keys[nth * 17 % 40]).collect();
    rig.engine.runtime().block_on(async {
        let told = order.iter().map(|key| Key::new(key.as_str())).collect();
        assert_eq!(rig.engine.expect_ahead(told, Some(5 * 12_288)).await.expect("a listing"), 40);
        rig.testbed.set_faults(vec!["status=403,kind=list,count=1".parse().expect("a fault")]);
        rig.engine.forget_names();
        rig.engine.open_directory("d/").wait(0).await.expect_err("it is refused");
        assert_eq!(names(&rig.engine.open_directory("d/")).await.len(), 40);
    });
    for key in order {
        let named = rig.engine.runtime().block_on(rig.engine.look_up("d/", &key[2..]));
        let Node::File(object) = named.expect("it is there").node else { panic!("{key} is a file") };
        rig.read(&rig.engine.open(&object), 0, 10_000, 1).expect("its bytes");
    }
    let stats = rig.engine.stats();
    assert_eq!(stats.requests, 40, "each file is asked for once");
    assert!(stats.files_ahead_used >= 36, "{} of 40 were fetched before they were opened", stats.files_ahead_used);
}

/// All files below `prefix`, and how often each comes, for a reader that enters directories in
/// order.
fn walk(rig: &super::Rig, prefix: &str, found: &mut BTreeMap<String, u32>) {
    let directory = rig.engine.open_directory(prefix);
    rig.engine.runtime().block_on(directory.wait(u32::MAX)).expect("a listing");
    let mut below = Vec::new();
    let visited = directory.visit(0, |_, name, node, _| {
        match node {
            Node::Directory(prefix) => below.push(prefix),
            Node::File(object) => {
                assert_eq!(object.key.as_str(), format!("{prefix}{name}"));
                *found.entry(object.key.as_str().to_owned()).or_insert(0) += 1;
            }
        }
        true
    });
    assert!(visited);
    for prefix in below {
        walk(rig, &prefix, found);
    }
}

/// Directories of a few files, some with subdirectories, some with names that sort before the
/// slash.
fn small_directories(count: u32) -> Vec<String> {
    let files = |n: u32| match n % 5 {
        0 => vec![format!("d/n{n:04}/a"), format!("d/n{n:04}/b/c"), format!("d/n{n:04}/b/d/e")],
        1 => vec![format!("d/n{n:04}/x"), format!("d/n{n:04}-/x"), format!("d/n{n:04}.txt")],
        2 => vec![format!("d/n{n:04}/"), format!("d/n{n:04}/y")],
        _ => (0..4).map(|file| format!("d/n{n:04}/{file}")).collect(),
    };
    (0..count).flat_map(files).collect()
}

#[test]
fn small_directories_are_listed_by_few_requests() {
    let keys = small_directories(1_000);
    let objects: Vec<(&str, u64)> = keys.iter().map(|key| (key.as_str(), 1)).collect();
    let options = Options::default().with_metadata_ttl(Duration::from_mins(10));
    let rig = rig(&objects, &options);
    let mut found = BTreeMap::new();
    walk(&rig, "d/", &mut found);
    assert!(found.values().all(|&times| times == 1));
    let files: BTreeSet<_> = keys.iter().filter(|key| !key.ends_with('/')).cloned().collect();
    assert_eq!(found.into_keys().collect::<BTreeSet<_>>(), files);
    let lists = rig.engine.stats().lists;
    assert!(lists <= 200, "{lists} requests for 1,600 directories");
}

#[test]
fn files_that_stay_come_once_while_small_directories_change() {
    let keys = small_directories(1_000);
    let objects: Vec<(&str, u64)> = keys.iter().map(|key| (key.as_str(), 1)).collect();
    let rig = rig_after(Duration::from_millis(5), &objects, &Options::default());
    let goes = |key: &str| key.bytes().map(u32::from).sum::<u32>() % 3 == 1;
    let found = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut found = BTreeMap::new();
            walk(&rig, "d/", &mut found);
            found
        });
        for key in keys.iter().filter(|key| goes(key)) {
            assert!(rig.testbed.remove_object(key));
            rig.testbed.set_object(&foreread_testbed::ObjectSpec::new(format!("{key}-new"), 1));
        }
        reader.join().expect("a walk")
    });
    assert!(found.values().all(|&times| times == 1), "a name comes twice");
    let stays = keys.iter().filter(|key| !goes(key) && !key.ends_with('/'));
    let missing: Vec<_> = stays.filter(|key| !found.contains_key(*key)).collect();
    assert!(missing.is_empty(), "{} are missing: {:?}", missing.len(), missing.first());
}

#[test]
fn a_loader_causes_one_request_a_file() {
    let keys: Vec<String> = (0..200).map(|n| format!("d{}/f{n:03}", n % 20)).collect();
    let objects: Vec<(&str, u64)> = keys.iter().map(|key| (key.as_str(), 10_000)).collect();
    let options = Options::default().with_metadata_ttl(Duration::from_millis(20));
    let rig = rig(&objects, &options);
    for dir in 0..20 {
        rig.engine.runtime().block_on(names(&rig.engine.open_directory(&format!("d{dir}/"))));
    }
    std::thread::sleep(Duration::from_millis(30));
    let (before, lists) = (rig.testbed.counters(), rig.engine.stats().lists);
    // In an order that is not that of any directory.
    for nth in 0..200 {
        let key = &keys[nth * 77 % 200];
        let (prefix, name) = key.split_once('/').expect("a directory");
        let named = rig.engine.runtime().block_on(rig.engine.look_up(&format!("{prefix}/"), name));
        let Node::File(object) = named.expect("it is there").node else { panic!("{key} is a file") };
        rig.read(&rig.engine.open(&object), 0, 10_000, 1).expect("its bytes");
    }
    let after = rig.testbed.counters();
    assert!(after.get - before.get <= 210, "{} requests for 200 files", after.get - before.get);
    assert!(after.head - before.head <= 20, "{} questions for names", after.head - before.head);
    assert!(rig.engine.stats().lists - lists <= 20, "{} listings", rig.engine.stats().lists - lists);
}

#[test]
fn a_replaced_file_is_the_new_one_when_its_name_is_looked_up() {
    let options = Options::default().with_metadata_ttl(Duration::from_millis(20));
    let keys: Vec<String> = (0..40).map(|n| format!("d/f{n:02}")).collect();
    let objects: Vec<(&str, u64)> = keys.iter().map(|key| (key.as_str(), 10_000)).collect();
    let rig = rig(&objects, &options);
    rig.engine.runtime().block_on(names(&rig.engine.open_directory("d/")));
    for nth in 0..40 {
        std::thread::sleep(Duration::from_millis(25));
        let key = &keys[nth * 7 % 40];
        if nth >= 20 {
            rig.testbed.set_object(&foreread_testbed::ObjectSpec::new(key, 12_000));
        }
        let named = rig.engine.runtime().block_on(rig.engine.look_up("d/", &key[2..]));
        let Node::File(object) = named.expect("it is there").node else { panic!("{key} is a file") };
        assert_eq!(object.version.size, if nth >= 20 { 12_000 } else { 10_000 }, "{key}");
        rig.read(&rig.engine.open(&object), 0, object.version.size as usize, 1).expect("its bytes");
    }
}

#[test]
fn a_directory_that_was_seen_to_hold_an_entry_exists() {
    let options = Options::default().with_metadata_ttl(Duration::from_millis(500));
    let rig = rig(&[("d/a/1", 5), ("d/b/2", 5)], &options);
    rig.engine.runtime().block_on(async {
        names(&rig.engine.open_directory("d/")).await;
        tokio::time::sleep(Duration::from_millis(600)).await;
        names(&rig.engine.open_directory("d/b/")).await;
        let before = rig.engine.stats();
        let named = rig.engine.look_up("d/", "b").await.expect("it is there");
        assert_eq!(named.node, Node::Directory("d/b/".to_owned()));
        let after = rig.engine.stats();
        assert_eq!((after.stats, after.lists), (before.stats, before.lists), "its own listing knows");
        rig.testbed.remove_object("d/b/2");
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert!(rig.engine.look_up("d/", "b").await.is_err(), "not for longer than the listing is believed");
    });
}

/// A web server describes one file a request. However slow each answer is, a directory is listed,
/// each file is asked for once, and nothing waits longer than its patience.
#[test]
fn a_directory_of_a_slow_web_server_is_listed_with_one_request_a_file() {
    let keys: Vec<String> = (0..1000u32).map(|n| format!("d/f{n:04}")).collect();
    let objects: Vec<(&str, u64)> = keys.iter().map(|key| (key.as_str(), 1)).collect();
    let rig = rig_after(Duration::from_millis(200), &objects, &Options::default());
    let connected = connect(&rig.testbed.endpoint(), &ConnectOptions::default()).expect("a backend");
    let engine = Engine::new(connected.backend, &Options::default()).expect("an engine");
    let found = engine.runtime().block_on(names(&engine.open_directory("http/d/")));
    assert!(found.keys().map(String::as_str).eq(keys.iter().map(|key| &key[2..])));
    assert_eq!((rig.testbed.counters().head, engine.stats().retries), (1000, 0));
}

/// One file cannot be described for a while: the others are not asked for again each time.
#[test]
fn one_file_that_fails_is_asked_for_again_by_itself() {
    let keys: Vec<String> = (0..1000u32).map(|n| format!("d/f{n:04}")).collect();
    let objects: Vec<(&str, u64)> = keys.iter().map(|key| (key.as_str(), 1)).collect();
    let rig = rig(&objects, &Options::default());
    rig.testbed.set_faults(vec!["status=500,kind=head,key=d/f0500,count=3".parse().expect("a fault")]);
    let connected = connect(&rig.testbed.endpoint(), &ConnectOptions::default()).expect("a backend");
    let engine = Engine::new(connected.backend, &Options::default()).expect("an engine");
    let found = engine.runtime().block_on(names(&engine.open_directory("http/d/")));
    assert_eq!(found.len(), 1000);
    let heads = rig.testbed.counters().head;
    assert!(heads <= 1000 + 4 * 64, "{heads} requests for 1,000 files and three failures");
}
