//! Names of a directory of several pages that are looked up when they are not believed any more:
//! one request for a page renews all names in it, and tells what has changed.

use std::collections::BTreeMap;
use std::time::Duration;

use foreread_engine::{ErrorKind, Named, Node, Options};
use foreread_testbed::{Kind, ObjectSpec};

use super::{Rig, rig_after};

const NAMES: u32 = 12_000;
const PAGES: u64 = 12;

fn name(n: u32) -> String {
    format!("f{n:05}.dat")
}

/// A directory of many pages, all of which was read, in `prefix`.
fn listed() -> Rig {
    let keys: Vec<String> = (0..NAMES).map(|n| format!("d/{}", name(n))).collect();
    let objects: Vec<(&str, u64)> = keys.iter().map(|key| (key.as_str(), 1 << 20)).collect();
    let options = Options::default().with_metadata_ttl(Duration::from_hours(1));
    let rig = rig_after(Duration::from_millis(2), &objects, &options);
    rig.engine.runtime().block_on(super::directories::names(&rig.engine.open_directory("d/")));
    rig
}

fn look_up(rig: &Rig, name: &str) -> Result<Named, foreread_engine::Error> {
    rig.engine.runtime().block_on(rig.engine.look_up("d/", name))
}

/// Requests for names alone, and for pages.
fn asked(rig: &Rig) -> (u64, u64) {
    let mut kinds = BTreeMap::new();
    for request in rig.testbed.requests() {
        *kinds.entry(format!("{:?}", request.kind)).or_insert(0) += 1;
    }
    let of = |kind: Kind| kinds.get(&format!("{kind:?}")).copied().unwrap_or(0);
    (of(Kind::Head), of(Kind::List))
}

#[test]
fn names_that_have_expired_are_renewed_a_page_at_a_time_in_any_order() {
    let in_order = |nth: u32| nth;
    let backward = |nth: u32| NAMES - 1 - nth;
    let scattered = |nth: u32| nth * 7_919 % NAMES;
    for order in [in_order, backward, scattered] {
        let rig = listed();
        for _ in 0..2 {
            let before = asked(&rig);
            rig.engine.forget_names();
            for nth in 0..NAMES {
                let named = look_up(&rig, &name(order(nth))).expect("it is there");
                assert!(matches!(named.node, Node::File(object) if object.version.size == 1 << 20));
            }
            let after = asked(&rig);
            let (alone, lists) = (after.0 - before.0, after.1 - before.1);
            // The first one is, and one of each page that was in flight when they were forgotten.
            assert!(alone <= PAGES, "{alone} names are asked for alone");
            assert!((PAGES..=PAGES + 4).contains(&lists), "{lists} requests for {PAGES} pages");
        }
    }
}

/// Threads side by side, each with every sixteenth name.
#[test]
fn threads_in_one_directory_share_its_pages() {
    let rig = listed();
    rig.engine.forget_names();
    let before = asked(&rig);
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let rig = &rig;
            scope.spawn(move || {
                for n in (thread..NAMES).step_by(16) {
                    look_up(rig, &name(n)).expect("it is there");
                }
            });
        }
    });
    let after = asked(&rig);
    assert!(after.0 - before.0 <= 32, "{} names are asked for alone", after.0 - before.0);
    assert!(after.1 - before.1 <= PAGES + 8, "{} requests for {PAGES} pages", after.1 - before.1);
}

/// What has changed meanwhile is seen: versions, names that are gone, and names that are new, in
/// the middle and behind the last one.
#[test]
fn a_renewed_page_tells_what_has_changed() {
    let rig = listed();
    for n in 0..NAMES {
        assert!(look_up(&rig, &name(n)).is_ok());
    }
    // A version: the names stay.
    rig.testbed.set_object(&ObjectSpec::new(format!("d/{}", name(5_500)), 7));
    rig.engine.forget_names();
    for n in [5_400, 5_401, 5_402, 5_500] {
        let Node::File(object) = look_up(&rig, &name(n)).expect("it is there").node else { panic!("{n} is a file") };
        assert_eq!(object.version.size, if n == 5_500 { 7 } else { 1 << 20 });
    }
    let missing = |name: &str| match look_up(&rig, name) {
        Ok(_) => false,
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    for (gone, new) in [(Some(3_300), None), (None, Some("f03300.new")), (None, Some("g")), (Some(0), Some("f00000.z"))]
    {
        if let Some(gone) = gone {
            assert!(rig.testbed.remove_object(&format!("d/{}", name(gone))));
        }
        if let Some(new) = new {
            assert!(missing(new), "{new} is not there yet");
            rig.testbed.set_object(&ObjectSpec::new(format!("d/{new}"), 1));
        }
        rig.engine.forget_names();
        for n in [NAMES - 2, NAMES - 1, 3_299, 3_301, 1, 2] {
            assert!(look_up(&rig, &name(n)).is_ok(), "{n} is there");
        }
        assert!(gone.is_none_or(|gone| missing(&name(gone))), "{gone:?} is gone");
        assert!(new.is_none_or(|new| look_up(&rig, new).is_ok()), "{new:?} is there");
        // From a listing that is made anew.
        rig.engine.runtime().block_on(super::directories::names(&rig.engine.open_directory("d/")));
    }
}

/// Names that are not there are told by the pages in which they would be.
#[test]
fn names_that_are_not_there_have_no_directory_listed() {
    let rig = listed();
    rig.engine.forget_names();
    let before = asked(&rig);
    for n in 0..NAMES / 8 {
        let error = look_up(&rig, &format!("{}.json", name(n * 8))).expect_err("there is no such name");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
    let after = asked(&rig);
    // The first one is asked for as a file and as a directory.
    assert!(after.0 - before.0 <= 2, "{} names are asked for alone", after.0 - before.0);
    assert!(after.1 - before.1 <= PAGES + 4, "{} requests for {PAGES} pages", after.1 - before.1);
}

/// A name among longer ones that begin with it would be in two pages, as a file and as a
/// directory. It is answered from both, for as long as they are believed.
#[test]
fn a_name_that_is_not_there_is_asked_for_once_while_its_pages_are_believed() {
    let keys: Vec<String> = (0..NAMES).map(|n| format!("d/run-{n:05}")).collect();
    let objects: Vec<(&str, u64)> = keys.iter().map(|key| (key.as_str(), 1 << 20)).collect();
    let options = Options::default().with_metadata_ttl(Duration::from_hours(1));
    let rig = rig_after(Duration::from_millis(2), &objects, &options);
    rig.engine.runtime().block_on(super::directories::names(&rig.engine.open_directory("d/")));
    for name in ["run", "run-05500", "run-0550", "run-11999x", "a", "zzz"] {
        rig.engine.forget_names();
        let before = asked(&rig);
        for _ in 0..40 {
            assert_eq!(look_up(&rig, name).is_ok(), name == "run-05500", "{name}");
        }
        let after = asked(&rig);
        let (alone, lists) = (after.0 - before.0, after.1 - before.1);
        // The first time it is asked for alone: as a file and as a directory.
        assert!(alone <= 2 && lists <= 4, "{alone} names alone and {lists} lists for {name}");
    }
}
