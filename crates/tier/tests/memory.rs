//! The memory of the index, measured by an allocator that counts.

use std::alloc::System;

use cap::Cap;
use foreread_tier::{Answer, ObjectId, Options, Tier};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

#[test]
fn an_entry_takes_at_most_128_bytes_and_48_if_its_object_has_many() {
    // So many records has each object; those of one are written in order, or in another.
    for (name, step, records, most) in [
        ("one object", 1_u64, u64::MAX, 48),
        ("one object in another order", 7_919, u64::MAX, 48),
        ("small files", 7_919, 1, 128),
        ("files of two records", 1, 2, 128),
        ("files of sixty records in another order", 7_919, 60, 64),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let tier = Tier::open(folder.path(), Options::default().with_bytes(4 << 30)).expect("it opens");
        let offer = |at: u64| {
            let object = ObjectId::of("store", &(at / records).to_string(), "version");
            while tier.offer(object, at % records * 32, Box::new([1_u8; 64]), Box::new(|_| {})) != Answer::Taken {
                tier.flush();
            }
        };
        let entries = 30_000;
        offer(entries);
        tier.flush();
        let before = ALLOCATOR.allocated();
        for at in 0..entries {
            offer(at * step % entries);
            // So that the queue stays short.
            if at % 10 == 0 {
                tier.flush();
            }
        }
        tier.flush();
        let (bytes, stats) = (ALLOCATOR.allocated() - before, tier.stats());
        assert_eq!(stats.entries, entries + 1);
        // The writer keeps the records of its active segment too, and policy knows the segment.
        let own = bytes as u64 - (entries.next_power_of_two() * 40).min(bytes as u64);
        println!("{name}: {} bytes an entry in all, {} for the index", bytes as u64 / entries, own / entries);
        assert!(own / entries <= most);
        assert!(stats.memory_bytes >= own * 9 / 10, "{} told, {own} measured", stats.memory_bytes);
    }
}
