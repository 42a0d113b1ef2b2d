//! The disk against what is known of real ones: seeks, rotation, its buffer, and the order of
//! requests.

use super::*;

const MS: u64 = 1_000_000;

fn disk(buffer_tracks: usize) -> Disk {
    Disk::new(Config {
        positioning: Positioning::Mean(7 * MS),
        media_rate: Rate::per_second(62_000_000).unwrap(),
        host_rate: Rate::per_second(300_000_000).unwrap(),
        zones: None,
        track_bytes: 516_667,
        buffer_tracks,
        command_ns: 0,
        reads_on: false,
        reads_on_bytes: None,
        reorders: 0,
        reorders_bytes: 0,
        seed: 1,
    })
}

/// Reads `offsets` one after the other; returns the time of all, in ns.
fn read(disk: &mut Disk, offsets: impl Iterator<Item = u64>, bytes: u64) -> u64 {
    let mut now_ns = 0;
    for (id, offset) in (0..).zip(offsets) {
        disk.handle(now_ns, Event::Read { id, offset, bytes });
        now_ns = disk.next_deadline().unwrap();
        disk.handle(now_ns, Event::Tick);
        assert_eq!(disk.poll_action(), Some(Action::Done { id, at_ns: now_ns }));
    }
    now_ns
}

#[test]
fn a_sequential_reader_gets_the_rate_of_the_media() {
    let took_ns = read(&mut disk(16), (0..62).map(|n| n * 1_000_000), 1_000_000);
    assert_eq!(took_ns, 62 * 16_129_033, "62 MB in a second, each part rounded up");
}

#[test]
fn random_reads_of_128_kib_take_what_was_measured() {
    let far = (1..100u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 37));
    let took_ns = read(&mut disk(16), far, 128 << 10);
    assert!((9 * MS..=95 * MS / 10).contains(&(took_ns / 99)), "{took_ns}");
}

#[test]
fn backward_costs_one_positioning_a_track() {
    let records = |n| (0..n).rev().map(|record| (1 << 30) + record * (64 << 10));
    let with = read(&mut disk(16), records(800), 64 << 10) / 800;
    let without = read(&mut disk(0), records(800), 64 << 10) / 800;
    assert!((11 * MS / 10..=13 * MS / 10).contains(&with), "{with}");
    assert!(without > 8 * MS, "{without}");
}

#[test]
fn a_short_distance_forward_is_passed_over() {
    let took_ns = read(&mut disk(0), (0..10).map(|n| n * (128 << 10)), 64 << 10);
    assert!(took_ns < 10 * 3 * MS, "{took_ns}");
}

#[test]
fn the_end_of_a_disk_is_slower_than_its_start() {
    let zones = Zones {
        count: NonZeroU64::new(16).unwrap(),
        innermost_rate: Rate::per_second(31_000_000).unwrap(),
        capacity_bytes: NonZeroU64::new(160_000_000_000).unwrap(),
    };
    let config = Config { zones: Some(zones), ..disk(0).config };
    let rate = |offset| config.rate_at(offset).bytes_per_second();
    assert_eq!(
        [0, 9_999_999_999, 159_999_999_999, 1 << 50].map(rate),
        [62_000_000, 62_000_000, 31_000_000, 31_000_000]
    );
    assert_eq!(rate(80_000_000_000), 62_000_000 - 31_000_000 * 8 / 15);
    assert_eq!(config.track_bytes_at(Rate::per_second(31_000_000).unwrap()), 258_333);
    let megabytes = |from: u64| (0..31).map(move |n| from + n * 1_000_000);
    let at_start = read(&mut Disk::new(config.clone()), megabytes(0), 1_000_000);
    let at_end = read(&mut Disk::new(config.clone()), megabytes(155_000_000_000), 1_000_000) - 7 * MS;
    assert!(at_end.abs_diff(2 * at_start) < MS, "{at_start} {at_end}");
}

#[test]
fn waiting_requests_are_served_in_the_order_of_position() {
    let mut disk = disk(16);
    for (id, offset) in [(0, 50 << 20), (1, 90 << 20), (2, 10 << 20), (3, 60 << 20)] {
        disk.handle(0, Event::Read { id, offset, bytes: 4096 });
    }
    disk.handle(0, Event::Cancel { id: 1 });
    let mut order = Vec::new();
    while let Some(at_ns) = disk.next_deadline() {
        disk.handle(at_ns, Event::Tick);
        while let Some(Action::Done { id, .. }) = disk.poll_action() {
            order.push(id);
        }
    }
    assert_eq!(order, [0, 3, 2]);
}

#[test]
fn seeks_grow_with_distance() {
    let seek = Positioning::Seek { nearest_ns: MS, farthest_ns: 15 * MS, turn_ns: 1, capacity_bytes: 1 << 37 };
    let mut disk = Disk::new(Config { positioning: seek, ..disk(0).config });
    let near = disk.jump_ns(1 << 20);
    let far = disk.jump_ns(1 << 36);
    let farthest = disk.jump_ns(1 << 37);
    assert!(MS <= near && near < far && far < farthest && farthest <= 15 * MS, "{near} {far} {farthest}");
}

fn turning() -> Config {
    let positioning =
        Positioning::Turning { nearest_ns: MS, farthest_ns: 14 * MS, turn_ns: 8 * MS, capacity_bytes: 1 << 37 };
    let media_rate = Rate::per_second(62_500_000).unwrap();
    let config = disk(16).config;
    Config {
        positioning,
        media_rate,
        track_bytes: 500_000,
        reads_on: true,
        reads_on_bytes: None,
        reorders: 4,
        reorders_bytes: 1 << 20,
        ..config
    }
}

#[test]
fn a_sector_behind_the_head_costs_a_turn() {
    // A little more than a track on each time: not enough for the seek, so it comes round once
    // more.
    let took_ns = read(&mut Disk::new(turning()), (1..=100).map(|n| n * 540_000), 4096) / 100;
    assert!((8 * MS..9 * MS).contains(&took_ns), "{took_ns}");
    // Enough for it.
    let took_ns = read(&mut Disk::new(turning()), (1..=100).map(|n| n * 600_000), 4096) / 100;
    assert!((MS..2 * MS).contains(&took_ns), "{took_ns}");
}

#[test]
fn a_disk_that_reads_on_buffers_the_following_bytes() {
    let went_on = |reads_on: bool| {
        let mut disk = Disk::new(Config { reads_on, ..turning() });
        let mut now_ns = 0;
        for id in 0..100 {
            disk.handle(now_ns, Event::Read { id, offset: id * 8192, bytes: 8192 });
            now_ns = disk.next_deadline().unwrap();
            disk.handle(now_ns, Event::Tick);
            // The reader thinks for longer than a file takes to pass.
            now_ns += MS / 2;
        }
        now_ns / 100
    };
    assert!(went_on(true) < 6 * MS / 10, "{}", went_on(true));
    assert!(went_on(false) > 8 * MS, "{}", went_on(false));
}

#[test]
fn it_reads_on_no_further_than_it_may_and_not_after_a_write() {
    // Two pages, then the arm goes elsewhere and back: how long the next bytes take.
    let back = |reads_on_bytes: u64, bytes: u64, writes: bool| {
        let config = disk(4).config;
        let mut disk = Disk::new(Config { reads_on: true, reads_on_bytes: Some(reads_on_bytes), ..config });
        let mut now_ns = 0;
        let mut end = |disk: &mut Disk, event: Event| {
            let begun_ns = now_ns;
            disk.handle(now_ns, event);
            now_ns = disk.next_deadline().unwrap();
            disk.handle(now_ns, Event::Tick);
            let took_ns = now_ns - begun_ns;
            now_ns += 10 * MS;
            took_ns
        };
        let first = Event::Read { id: 0, offset: 0, bytes: 8192 };
        end(&mut disk, if writes { Event::Write { id: 0, offset: 0, bytes: 8192 } } else { first });
        end(&mut disk, Event::Read { id: 1, offset: 1 << 30, bytes: 8192 });
        end(&mut disk, Event::Read { id: 2, offset: 8192, bytes })
    };
    assert!(back(131_072, 131_072, false) < MS, "all of it was read on");
    assert!(back(65_536, 131_072, false) > 7 * MS, "half of it was");
    assert!(back(131_072, 131_072, true) > 7 * MS, "nothing was");
}

#[test]
fn the_nearest_queued_request_is_next_until_an_older_one_has_aged() {
    let mut disk = Disk::new(turning());
    disk.handle(0, Event::Read { id: 0, offset: 0, bytes: 1 << 19 });
    disk.handle(0, Event::Read { id: 1, offset: 60 << 30, bytes: 4096 });
    let mut order = Vec::new();
    for id in 2..8 {
        disk.handle(disk.now_ns, Event::Read { id, offset: (id - 1) << 19, bytes: 1 << 19 });
        let at_ns = disk.next_deadline().unwrap();
        disk.handle(at_ns, Event::Tick);
        while let Some(Action::Done { id, .. }) = disk.poll_action() {
            order.push(id);
        }
    }
    assert_eq!(order[..4], [0, 2, 3, 1], "two of half a MiB went before");
}
