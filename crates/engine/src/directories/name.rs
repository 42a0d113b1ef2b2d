//! Which keys can be names in a directory.
//!
//! ```text
//!   prefix photos/   key photos/a b.jpg   -> "a b.jpg"
//!                    key photos//x        -> none: an empty name
//!                    key photos/../x      -> none: it would lead out of the mount
//! ```

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

/// Whether an entry of a directory can have this name.
pub(crate) fn is_possible(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']) && name.len() <= NAME_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_keys_without_their_prefix() {
        assert_eq!(of_key("", "a b"), Some("a b"));
        assert_eq!(of_key("x/", "x/ü/"), Some("ü"));
        assert_eq!((split("x/y/ü"), split("ü")), (("x/y/", "ü"), ("", "ü")));
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
