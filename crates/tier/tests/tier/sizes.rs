//! What is bounded: bytes on the disk, bytes written, room for others.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use foreread_tier::{Answer, ObjectId, Watch};

use crate::content::{bytes, is_kept, object, offer, open, segments, small, total, until};

#[test]
fn the_files_stay_within_their_bytes_and_little_is_written_twice() {
    for (piece, rounds) in [(131_072, 3), (4096, 1), (1 << 20, 2)] {
        let folder = tempfile::tempdir().expect("a folder");
        let tier = open(folder.path(), small());
        let (limit, mut most) = (32 << 20, 0);
        for round in 0..rounds {
            // Hot ones between, in an order that mixes them with what leaves.
            for at in 0..10 * limit / piece as u64 / rounds {
                let (object, hot) = (object(round * 2), object(1));
                let place = (at * 97) % 200 * piece as u64 / 4096;
                if !is_kept(&tier, hot, place, piece) {
                    offer(&tier, hot, place, piece);
                }
                offer(&tier, object, at * piece as u64 / 4096, piece);
                if at % 50 == 0 {
                    tier.flush();
                    most = most.max(total(folder.path()));
                }
            }
        }
        tier.flush();
        let stats = tier.stats();
        most = most.max(total(folder.path()));
        let amplification = stats.written_bytes as f64 / stats.admitted_bytes as f64;
        println!("pieces of {piece}: at most {most} bytes, written {amplification:.4} of admitted; {stats:?}");
        assert!(most <= limit && stats.write_errors == 0 && stats.wrong == 0);
        assert!(amplification <= 1.1);
        drop(tier);
        assert!(total(folder.path()) <= limit);
    }
}

#[test]
fn a_working_set_that_shifts_makes_segments_leave() {
    let folder = tempfile::tempdir().expect("a folder");
    let tier = open(folder.path(), small());
    let round = |object| {
        let mut hits = 0;
        for at in 0..200 {
            let is_hit = is_kept(&tier, object, at * 32, 131_072);
            hits += u64::from(is_hit);
            if !is_hit {
                offer(&tier, object, at * 32, 131_072);
            }
            tier.flush();
        }
        hits
    };
    (0..6).for_each(|_| _ = round(object(1)));
    let hits: Vec<u64> = (0..6).map(|_| round(object(2))).collect();
    println!("hits of 200 after the shift: {hits:?}; {:?}", tier.stats());
    assert!(hits[5] > 180 && tier.stats().evicted_bytes > 10 << 20);
    assert!(total(folder.path()) <= 32 << 20);
    let stats = tier.stats();
    assert!(stats.written_bytes as f64 <= stats.admitted_bytes as f64 * 1.1);
}

/// What is kept here, as it is told.
#[derive(Default)]
struct Told(Mutex<HashSet<(ObjectId, u64)>>);

impl Watch for Told {
    fn changed(&self, pieces: &[(ObjectId, Range<u64>)], are_kept: bool) {
        let mut told = self.0.lock().expect("no panic");
        for (object, page) in pieces.iter().flat_map(|(object, pages)| pages.clone().map(move |page| (*object, page))) {
            if are_kept {
                told.insert((object, page))
            } else {
                told.remove(&(object, page))
            };
        }
    }

    fn is_over(&self) -> bool {
        false
    }
}

/// The set that is read shifts, but for one block in eight: segments leave, and these are carried
/// over. All of it is told.
#[test]
fn what_leaves_and_what_is_carried_over_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tier, told) = (open(folder.path(), small()), Arc::new(Told::default()));
    tier.watch(Arc::clone(&told) as Arc<dyn Watch>);
    for round in 0..12 {
        for at in 0..200 {
            let object = object(if at % 8 == 0 { 0 } else { 1 + round / 6 });
            if !is_kept(&tier, object, at * 32, 131_072) {
                let told = Arc::clone(&told);
                let written = move |pages: Range<u64>| told.changed(&[(object, pages)], true);
                let content = Box::new(bytes(object, at * 131_072, 131_072));
                tier.offer(object, at * 32, content, Box::new(written));
            }
            tier.flush();
        }
    }
    let stats = tier.stats();
    assert!(stats.carried_bytes > 0 && stats.evicted_bytes > 0, "{stats:?}");
    let kept: HashSet<_> =
        (0..3).flat_map(|n| tier.kept(object(n)).into_iter().flatten().map(move |page| (object(n), page))).collect();
    assert!(*told.0.lock().expect("no panic") == kept);
    foreread_tier::clear(folder.path()).expect("it is a cache");
    until(|| told.0.lock().expect("no panic").is_empty());
}

/// Eight times as many objects as the index has room for: all of them are found, after a restart
/// as well, and the memory is bounded.
#[test]
fn what_the_index_has_no_room_for_is_found_on_the_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = small().with_index_bytes_max(120_000);
    let tier = open(folder.path(), options.clone());
    let all = 2000;
    for at in 0..all {
        offer(&tier, object(at), 0, 4096);
        offer(&tier, object(at), 40, 100);
        tier.flush();
        assert!(tier.stats().memory_bytes <= 120_000, "{:?}", tier.stats());
    }
    let stats = tier.stats();
    assert!(stats.entries < 1000 && stats.evicted_bytes == 0 && stats.kept_bytes == all * 4196, "{stats:?}");
    drop(tier);
    let tier = open(folder.path(), options);
    assert_eq!(tier.stats().kept_bytes, all * 4196);
    for at in (0..all).step_by(37).chain([all - 1, 0, 1, all / 2]) {
        until(|| tier.kept(object(at)) == [0..1, 40..41]);
        assert!(is_kept(&tier, object(at), 0, 4096) && is_kept(&tier, object(at), 40, 100));
        assert!(tier.stats().memory_bytes <= 120_000, "{:?}", tier.stats());
    }
    assert!(tier.kept(object(all)).is_empty());
    assert_eq!((tier.stats().evicted_bytes, tier.stats().wrong), (0, 0));
}

#[test]
fn the_oldest_leave_where_the_index_is_full() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = small().with_index_bytes_max(40_000);
    let tier = open(folder.path(), options.clone());
    for at in 0..2000 {
        offer(&tier, object(at), 0, 4096);
        tier.flush();
    }
    let stats = tier.stats();
    assert!(stats.memory_bytes <= 40_000 && stats.entries > 100 && stats.evicted_bytes > 0, "{stats:?}");
    assert!(is_kept(&tier, object(1999), 0, 4096));
}

/// One file that is read in pieces, over and over, and there are more of them than there is memory
/// for. What is known of it answers; nothing of it is written twice.
#[test]
fn a_file_of_more_pieces_than_there_is_memory_for_is_not_written_again() {
    let folder = tempfile::tempdir().expect("a folder");
    // For 1,250 of the pieces.
    let (tier, pieces) = (open(folder.path(), small().with_index_bytes_max(80_000)), 2_500);
    let round = |pages: &[u64]| {
        let (hits, misses): (Vec<u64>, _) = pages.iter().partition(|&&page| is_kept(&tier, object(1), page, 4096));
        for chunk in misses.chunks(50) {
            for &page in chunk {
                offer(&tier, object(1), page, 4096);
            }
            tier.flush();
        }
        (hits, misses)
    };
    let all: Vec<u64> = (0..pieces).map(|at| at * 997 % pieces * 2).collect();
    round(&all);
    let written = total(folder.path());
    for _ in 0..6 {
        let (hits, _) = round(&all);
        assert!(hits.len() > 900, "{} hits", hits.len());
    }
    assert_eq!((total(folder.path()), tier.stats().memory_bytes <= 80_000), (written, true));

    // What is read more often than what is known takes its place.
    let (_, unknown) = round(&all);
    let now: Vec<u64> = unknown[..300].to_vec();
    let hits: Vec<usize> = (0..30).map(|_| round(&now).0.len()).collect();
    assert!(hits.last() > Some(&250), "{hits:?}");
    assert!(total(folder.path()) < written + 4 * now.len() as u64 * 4096);
}

#[test]
fn a_full_disk_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let tier = open(folder.path(), small().with_min_free_bytes(u64::MAX));
    offer(&tier, object(1), 0, 4096);
    tier.flush();
    let stats = tier.stats();
    assert!(!is_kept(&tier, object(1), 0, 4096) && segments(folder.path()).is_empty());
    assert_eq!((stats.write_errors, stats.admitted_bytes), (1, 0));
    assert!(!offer(&tier, object(1), 0, 4096), "writing pauses");
}

#[test]
fn a_cache_without_room_for_one_segment_keeps_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let tier = open(folder.path(), small().with_bytes(1000));
    offer(&tier, object(1), 0, 4096);
    tier.flush();
    assert!(!is_kept(&tier, object(1), 0, 4096) && segments(folder.path()).is_empty());
}

#[test]
fn a_full_queue_refuses() {
    let folder = tempfile::tempdir().expect("a folder");
    let tier = open(folder.path(), small());
    let (free, freed) = std::sync::mpsc::channel::<()>();
    let hold = Box::new(move |_| freed.recv().expect("it is let go"));
    assert_eq!(tier.offer(object(1), 0, Box::new(bytes(object(1), 0, 4096)), hold), Answer::Taken);
    let queued = (0..20).filter(|&at| offer(&tier, object(2), at * 256, 1 << 20)).count();
    assert!((14..=16).contains(&queued), "{queued}");
    let one = Box::new(bytes(object(2), 0, 1 << 20));
    assert_eq!(tier.offer(object(3), 0, one, Box::new(|_| {})), Answer::Full);
    free.send(()).expect("it waits");
    tier.flush();
    assert!(is_kept(&tier, object(2), 0, 10 << 20));
}
