//! Which keys can be names in a directory, their order, and what the number of one takes.
//!
//! ```text
//!   prefix photos/   key photos/a b.jpg   -> "a b.jpg"
//!                    key photos//x        -> none: an empty name
//!                    key photos/../x      -> none: it would lead out of the mount
//! ```

use std::cmp::Ordering;

use foreread_policy::LEVELS_ABOVE;

/// The longest name that the kernel takes from a FUSE file system, in bytes.
pub const NAME_BYTES_MAX: usize = 1024;

/// The name under which `key`, a child of `prefix`, appears; `None` if POSIX cannot express it.
pub(crate) fn of_key<'a>(prefix: &str, key: &'a str) -> Option<&'a str> {
    let rest = key.strip_prefix(prefix)?;
    let name = rest.strip_suffix('/').unwrap_or(rest);
    is_possible(name).then_some(name)
}

/// The prefix and the name that make up `key`.
pub(crate) fn split(key: &str) -> (&str, &str) {
    key.split_at(key.rfind('/').map_or(0, |slash| slash + 1))
}

/// The prefixes of the directories that the one of `prefix` is in, the nearest first, as far as
/// policy looks.
pub(crate) fn above(prefix: &str) -> impl Iterator<Item = &str> {
    fn parent<'a>(prefix: &&'a str) -> Option<&'a str> {
        prefix.strip_suffix('/').map(|directory| split(directory).0)
    }
    std::iter::successors(parent(&prefix), parent).take(LEVELS_ABOVE)
}

/// Whether an entry of a directory can have this name.
pub(crate) fn is_possible(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']) && name.len() <= NAME_BYTES_MAX
}

/// The order of keys, byte by byte: `a-b` comes before `a/`, and after `a`.
pub(crate) fn order((a, a_slash): (&str, bool), (b, b_slash): (&str, bool)) -> Ordering {
    let with =
        |name: &str, slash: bool| name.bytes().chain(slash.then_some(b'/')).collect::<smallvec::SmallVec<[u8; 64]>>();
    match a.as_bytes().iter().zip(b.as_bytes()).find(|(a, b)| a != b) {
        Some((a, b)) => a.cmp(b),
        None => with(a, a_slash).cmp(&with(b, b_slash)),
    }
}

/// A number that names have in common whose text after the last dot is the same, or differs in
/// numbers only, as in `part.0001` and `part.0002`: these count parts, and tell no kind.
pub(crate) fn kind_of(name: &str) -> u8 {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending).as_bytes();
    let digit = |at: usize| ending[at].is_ascii_digit();
    let told = (0..ending.len()).filter(|&at| at == 0 || !digit(at) || !digit(at - 1));
    let hash = told.fold(HASH_FIRST, |hash, at| mix(hash, if digit(at) { b'0' } else { ending[at] }));
    (hash >> 24) as u8
}

/// A number that names have in common which are the same up to the first dot, as `a.cpython.pyc`
/// and `a.py`; 0 where nothing is before it.
pub(crate) fn stem_of(name: &str) -> u32 {
    let stem = name.split('.').next().unwrap_or_default();
    if stem.is_empty() { 0 } else { stem.bytes().fold(HASH_FIRST, mix).max(1) }
}

/// One step of a hash (FNV-1a), and what it begins with.
fn mix(hash: u32, byte: u8) -> u32 {
    (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
}

const HASH_FIRST: u32 = 0x811c_9dc5;

/// Memory that the number of a directory takes whose prefix has this length, in bytes: an
/// estimate.
pub(crate) fn identity_bytes(prefix_len: usize) -> u64 {
    IDENTITY_BYTES + prefix_len as u64
}

/// Memory that the number of a directory takes beside its prefix, in bytes: entries of two tables,
/// and an allocation. Lower, and more is kept than is charged; higher, and fewer listings fit.
const IDENTITY_BYTES: u64 = 160;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_keys_without_their_prefix() {
        assert_eq!(of_key("", "a b"), Some("a b"));
        assert_eq!(of_key("x/", "x/ü/"), Some("ü"));
        assert_eq!((split("x/y/ü"), split("ü")), (("x/y/", "ü"), ("", "ü")));
        assert_eq!(above("x/y/ü/").collect::<Vec<_>>(), ["x/y/", "x/", ""]);
        assert_eq!((above("").count(), above("1/2/3/4/5/").last()), (0, Some("1/")));
    }

    #[test]
    fn names_that_end_alike_are_of_a_kind() {
        assert_eq!(kind_of("a.cpython-311.pyc"), kind_of("b.pyc"));
        assert_eq!(kind_of("part.9"), kind_of("part.0010"));
        assert_eq!(kind_of("1.2.840.17"), kind_of("1.2.840.4"));
        assert_ne!(kind_of("part.x9"), kind_of("part.9"));
        let ends = ["a.py", "a.pyc", "a.pyi", "a.so", "a.pxd", "a", "a.js", "a.json", "a.map", "a.ts"];
        let kinds: std::collections::BTreeSet<u8> = ends.iter().map(|name| kind_of(name) % 64).collect();
        assert_eq!(kinds.len(), ends.len());
    }

    #[test]
    fn names_that_begin_alike_have_a_stem_in_common() {
        assert_eq!(stem_of("a.cpython-311.pyc"), stem_of("a.py"));
        assert_eq!(stem_of("0001"), stem_of("0001.tar.gz"));
        assert_ne!(stem_of("0001.jpg"), stem_of("0002.jpg"));
        assert_ne!(stem_of("ab.c"), stem_of("ba.c"));
        assert_eq!((stem_of(".profile"), stem_of("")), (0, 0));
    }

    #[test]
    fn keys_that_posix_cannot_express_have_no_name() {
        for key in ["x//", "x/", "x/./", "x/..", "x/../", "y/a"] {
            assert_eq!(of_key("x/", key), None, "{key}");
        }
        assert_eq!(of_key("", &"n".repeat(1025)), None);
        assert_eq!(of_key("", &"n".repeat(1024)).map(str::len), Some(1024));
    }
}
