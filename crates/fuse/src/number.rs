//! The numbers of inodes: what the kernel and programs know them by.
//!
//! ```text
//!   bits 52 to 0   1 ┆ 52 bits of a hash of key and version    the same at each mount
//!                  0 ┆ generation, 20 bits ┆ slot + 1, 32 bits  where another has that number
//! ```
//!
//! A number tells its object, whatever the order in which names are met: it is the whole key, and
//! not the number of the directory and a name, so that one name alone decides it. It is the
//! version as well, since the kernel caches by number, and keeps what it has of a version while
//! another one is known.
//!
//! Two known inodes never have one number. Where two hashes are the same, the inode that is met
//! later has a number by its slot, which another mount gives to another one. That takes no search,
//! however many names were made to have one hash.
//!
//! A number by hash has its first bit set. So it is neither 0, which is no inode, nor 1, the root,
//! nor 2^32 - 1, which stands for an unknown one; slots begin at 0 with the root, number 1.
//!
//! The hash is XXH3 of 64 bits, whose results are fixed. A change of it, or of what goes into it,
//! gives all files other numbers: backups read them all again. Source: docs/decisions/0119.

use std::time::{SystemTime, UNIX_EPOCH};

use foreread_policy::NameId;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// How hashes become numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    /// The bits of a hash that are used.
    mask: u64,
}

impl Default for Numbers {
    fn default() -> Self {
        Self::of_bits(HASH_BITS)
    }
}

impl Numbers {
    /// With so many bits of hashes, up to 52.
    pub(crate) fn of_bits(bits: u32) -> Self {
        Self { mask: (1 << bits.min(HASH_BITS)) - 1 }
    }

    /// The number of a directory.
    pub(crate) fn of_directory(self, prefix: &str) -> u64 {
        self.of_hash(xxh3_64(prefix.as_bytes()))
    }

    /// The number of a version of an object. Versions that are not equal have other numbers.
    pub(crate) fn of_file(self, key: &str, tag: Option<&str>, size: u64, modified: Option<SystemTime>) -> u64 {
        let key = xxh3_64(key.as_bytes());
        let tag = tag.map_or(key, |tag| xxh3_64_with_seed(tag.as_bytes(), key));
        let mut rest = [0; 21];
        rest[..8].copy_from_slice(&size.to_le_bytes());
        if let Some(modified) = modified {
            let (is_after, distance) = match modified.duration_since(UNIX_EPOCH) {
                Ok(after) => (1, after),
                Err(before) => (2, before.duration()),
            };
            rest[8..16].copy_from_slice(&distance.as_secs().to_le_bytes());
            rest[16..20].copy_from_slice(&distance.subsec_nanos().to_le_bytes());
            rest[20] = is_after;
        }
        self.of_hash(xxh3_64_with_seed(&rest, tag))
    }

    fn of_hash(self, hash: u64) -> u64 {
        BY_HASH | (hash & self.mask)
    }
}

/// A number for an inode whose own one is another's.
pub(crate) fn by_slot(name: NameId) -> u64 {
    name.0 & (BY_HASH - 1)
}

/// Whether a number comes from a hash.
pub(crate) fn is_by_hash(number: u64) -> bool {
    number & BY_HASH != 0
}

/// The slot of the inode with a number that does not come from a hash.
pub(crate) fn slot(number: u64) -> u32 {
    NameId(number).slot()
}

/// Bits of a hash in a number. Lower: more names have one number, and the later one of two that
/// are known has another at the next mount: of two million, one of 2,000 mounts has such a pair.
/// Higher: numbers that programs do not keep which count in doubles or signed (JavaScript, JSON),
/// and an overlay has no free bits for its own. Source: the bits of a double, without the first.
const HASH_BITS: u32 = 52;

/// The bit that a number by hash has.
const BY_HASH: u64 = 1 << HASH_BITS;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;

    /// What another build or machine must give as well.
    #[test]
    fn numbers_are_pinned() {
        let numbers = Numbers::default();
        let modified = UNIX_EPOCH + Duration::new(1_700_000_000, 5);
        let file = numbers.of_file("dir/file", Some("\"tag\""), 7, Some(modified));
        assert_eq!([numbers.of_directory("dir/"), file], [7_886_528_167_993_107, 6_970_333_902_189_957]);
    }

    #[test]
    fn what_differs_has_another_number_and_none_is_reserved() {
        let numbers = Numbers::default();
        let (second, zero) = (Duration::from_secs(1), Some(UNIX_EPOCH));
        let all = [
            numbers.of_directory(""),
            numbers.of_directory("a/"),
            numbers.of_directory("a/b/"),
            numbers.of_file("a/", None, 0, None),
            numbers.of_file("a", None, 0, None),
            numbers.of_file("a", Some(""), 0, None),
            numbers.of_file("a", None, 1, None),
            numbers.of_file("a", None, 0, zero),
            numbers.of_file("a", None, 0, Some(UNIX_EPOCH + second)),
            numbers.of_file("a", None, 0, Some(UNIX_EPOCH - second)),
            numbers.of_file("a", Some("b"), 0, None),
            numbers.of_file("ab", None, 0, None),
            numbers.of_file("ab", Some(""), 0, None),
            by_slot(NameId::ROOT),
        ];
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        assert!(all[..13].iter().all(|number| is_by_hash(*number) && *number < 1 << 53));
        assert_eq!((all[13], slot(1)), (1, 0));
        assert!(is_by_hash(Numbers::of_bits(0).of_directory("a/")), "however few bits are used");
    }
}
