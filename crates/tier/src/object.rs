//! The identity of content: one version of one object of one store.

use std::fmt;

use ring::digest::{Context, SHA256};

/// One version of one object: the first 16 bytes of a SHA-256. Two that differ in store, key or
/// version differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub [u8; 16]);

impl ObjectId {
    /// The identity of a version of an object. Each field is hashed with its length before it, so
    /// no two triples are hashed as the same bytes.
    pub fn of(store: &str, key: &str, version: &str) -> Self {
        let mut context = Context::new(&SHA256);
        put_fields([store, key, version], |bytes| context.update(bytes));
        Self::from_hash(context.finish().as_ref())
    }

    /// The first 16 bytes of a hash.
    pub(crate) fn from_hash(hash: &[u8]) -> Self {
        let mut id = [0; 16];
        id.copy_from_slice(&hash[..16]);
        Self(id)
    }

    /// Numbers to seed checksums and hashes with.
    pub(crate) fn halves(self) -> [u64; 2] {
        let number = u128::from_le_bytes(self.0);
        [number as u64, (number >> 64) as u64]
    }
}

/// Gives `to` fields to hash, each with its length before it.
pub(crate) fn put_fields(fields: [&str; 3], mut to: impl FnMut(&[u8])) {
    for field in fields {
        to(&(field.len() as u64).to_le_bytes());
        to(field.as_bytes());
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({:032x})", u128::from_be_bytes(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_run_together() {
        let ids = [("ab", "c", "d"), ("a", "bc", "d"), ("a", "b", "cd"), ("abc", "", "d"), ("ab", "c", "e")];
        let ids: std::collections::BTreeSet<_> = ids.into_iter().map(|(s, k, v)| ObjectId::of(s, k, v)).collect();
        assert_eq!(ids.len(), 5);
        assert_eq!(ObjectId::of("s", "k", "v"), ObjectId::of("s", "k", "v"));
    }
}
