//! What is there to be looked at: it equals what was done.

use foreread_engine::{Order, Wanted};
use foreread_testbed::{Effect, Fault};

use super::*;

const MIB: u64 = 1 << 20;

#[test]
fn files_waste_and_failures_are_told_of_as_they_were() {
    let rig = rig(&[("a", 64 * MIB), ("b", 64 * MIB), ("gone", MIB)], &Options::default().with_patience(patience()));
    let observer = rig.engine.observer();
    let read = |file: &File, len: u64| {
        (0..len).for_each(|nth| assert_eq!(rig.read(file, nth * MIB, MIB as usize, 1).ok(), Some(MIB as usize)));
    };
    let (a, b) = (rig.open("a"), rig.open("b"));
    read(&b, 12);
    read(&a, 4);
    while rig.engine.stats().in_flight > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(observer.detail(0, 9).expect("an engine").wasted.is_empty(), "nothing has been dropped");
    // What is asked for ahead from now on does not come, and goes with the last handle.
    let stalled = Fault { key: Some("a".to_owned()), ..Fault::new(Effect::Stall { time: None }) };
    rig.testbed.set_faults(vec![stalled]);
    let mut read_of_a = 4 * MIB;
    while rig.engine.stats().in_flight == 0 {
        read_of_a += rig.read(&a, read_of_a, 4096, 1).expect("it is resident") as u64;
    }
    drop(a);
    let gone = rig.open("gone");
    rig.testbed.remove_object("gone");
    rig.read(&gone, 0, 4096, 1).expect_err("it is not there any more");

    let look = || (rig.engine.stats(), observer.detail(0, 9).expect("an engine"), rig.engine.stats());
    let at_rest = |(before, detail, stats)| (before == stats).then_some((detail, stats));
    let (detail, stats) = std::iter::repeat_with(look).find_map(at_rest).expect("it comes to rest");
    let files: Vec<_> = detail.files.iter().map(|file| (&*file.key, file.read_bytes)).collect();
    assert!(files.len() == 2 && files.contains(&("a", read_of_a)) && files.contains(&("b", 12 * MIB)), "{files:?}");
    let sum = |of: fn(&foreread_engine::FileUse) -> u64| detail.files.iter().map(of).sum::<u64>();
    assert_eq!((sum(|file| file.read_bytes), sum(|file| file.fetched_bytes)), (stats.read_bytes, stats.fetched_bytes));
    assert_eq!(sum(|file| file.late_reads) + 1, stats.waited.count, "and that of the third file");
    let pieces = |key: &str| {
        let of_key = detail.wasted.iter().filter(|piece| piece.key == key);
        of_key.map(|piece| piece.end_bytes - piece.start_bytes).sum::<u64>()
    };
    // What was asked for ahead of the file that is gone went with the failure.
    assert_eq!(pieces("a") + pieces("gone"), stats.wasted_bytes, "{detail:?}");
    assert!(pieces("a") > 0 && detail.files.iter().all(|file| file.wasted_bytes == pieces(&file.key)), "{detail:?}");
    assert!(detail.wasted.iter().all(|piece| piece.end_bytes <= 64 * MIB), "{detail:?}");
    let errors: Vec<_> =
        detail.errors.iter().map(|failed| (&*failed.what, failed.key.as_deref(), failed.count)).collect();
    assert!(errors.contains(&("read", Some("gone"), 1)), "{errors:?}");
    assert!(errors.iter().all(|&(_, key, _)| key == Some("gone")), "{errors:?}");

    // What was told of once is not told of again, and files are left out with their number.
    let later = observer.detail(detail.now_us, 1).expect("an engine");
    assert!(later.wasted.is_empty() && later.files[0] == detail.files[0], "{later:?}");
    assert_eq!((later.files.len(), later.more_files), (1, 1));
    assert!(detail.service.demand_us > 0 && detail.service.readahead_us > 0, "{detail:?}");
}

#[test]
fn streams_are_told_of_in_the_order_and_from_the_place_that_is_wanted() {
    let names = ["c/x", "a/y", "b/X"];
    let rig = rig(&names.map(|name| (name, 64 * MIB)), &Options::default());
    let files: Vec<_> = names.iter().map(|name| rig.open(name)).collect();
    for file in &files {
        (0..4).for_each(|nth| assert!(rig.read(file, nth * MIB, MIB as usize, 1).is_ok()));
    }
    let told = |wanted: &Wanted<'_>| {
        let watched = rig.engine.watch(wanted);
        let keys: Vec<_> = watched.streams.iter().map(|stream| stream.key.clone()).collect();
        (keys.join(" "), watched.more_streams, watched.first)
    };
    let of = |keys: &str, more, first| (keys.to_owned(), more, first);
    assert_eq!(told(&Wanted::new(9)), of("b/X a/y c/x", 0, 0), "the one that was read last comes first");
    let by_name = Wanted::new(9).with_order(Order::File, false);
    assert_eq!(told(&by_name), of("a/y b/X c/x", 0, 0));
    assert_eq!(told(&by_name.with_most(1)), of("a/y", 2, 0));
    assert_eq!(told(&by_name.with_most(1).with_first(1)), of("b/X", 2, 1));
    assert_eq!(told(&by_name.with_first(7)), of("", 3, 3));
    assert_eq!(told(&by_name.with_part("x")), of("b/X c/x", 0, 0));
    assert_eq!(told(&Wanted::new(9).with_order(Order::File, true).with_part("X").with_most(1)), of("c/x", 1, 0));
    assert_eq!(told(&Wanted::new(0)), of("", 3, 0));

    let watched = rig.engine.watch(&Wanted::new(9).with_key("a/y"));
    let file = watched.file.clone().expect("it is known");
    assert_eq!((file.key.as_str(), file.read_bytes, watched.streams.len()), ("a/y", 4 * MIB, 1));
    let [stream] = &watched.streams[..] else { panic!("{watched:?}") };
    assert!(stream.served_us > 0 && stream.served_us <= watched.served_us, "{watched:?}");
    assert_eq!((stream.pid, &stream.process), (None, &None), "no mount reads");
    assert_eq!(rig.engine.observer().streams(), Some(3));
}

#[test]
fn the_process_that_read_last_is_named() {
    let rig = rig(&[("a", 64 * MIB)], &Options::default());
    let file = rig.open("a");
    // A thread with a name of its own.
    let thread = std::fs::read_link("/proc/thread-self").expect("a link");
    let thread: u64 = thread.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number");
    for nth in 0..4 {
        let (send, receive) = std::sync::mpsc::channel();
        file.read_by(thread, nth * MIB, MIB as usize, move |read| _ = send.send(read.is_ok()));
        assert_eq!(receive.recv(), Ok(true));
    }
    let watched = rig.engine.watch(&Wanted::new(9));
    let own = std::fs::read_to_string("/proc/self/comm").expect("a name");
    let [stream] = &watched.streams[..] else { panic!("{watched:?}") };
    assert_eq!((stream.pid, stream.process.as_deref()), (Some(std::process::id()), Some(own.trim_end())));
}

#[test]
fn what_an_engine_holds_is_given_back_and_read_again() {
    let rig = rig(&[("a", 8 * MIB)], &Options::default());
    let file = rig.open("a");
    let read = || {
        (0..8).for_each(|nth| assert_eq!(rig.read(&file, nth * MIB, MIB as usize, 1).ok(), Some(MIB as usize)));
    };
    let before = rig.engine.work();
    read();
    let (held, read_once, budget) = (rig.engine.needed_bytes(), rig.engine.work(), rig.engine.memory_bytes());
    assert!(held >= 8 * MIB && read_once > before, "{held} bytes, {read_once} and {before} before");
    rig.engine.give_memory_back();
    assert_eq!((rig.engine.memory_bytes(), rig.engine.stats().memory_charged_bytes), (budget, 0));
    assert!(rig.engine.needed_bytes() < MIB, "what stays is small");
    let fetched = rig.engine.stats().fetched_bytes;
    read();
    assert_eq!(rig.engine.stats().fetched_bytes - fetched, 8 * MIB);
    assert_eq!(rig.engine.memory_bytes(), budget);
}
