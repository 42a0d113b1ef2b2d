//! What guards the pages of a segment: a checksum of each, or encryption with a tag of each.
//!
//! ```text
//!   page ── Checked ────> 16 bytes of XXH3-128, seeded by object and page │ the page
//!     └──── Encrypted ──> 16 bytes of tag (AES-256-GCM)                   │ the page, encrypted
//!                         key: of this segment alone; nonce: where the page lies in it
//! ```
//!
//! *Invariant:* a page is right only at its place: in its segment, of its object, as its page.

use ring::aead::{Aad, Algorithm, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey};
use ring::hkdf::Okm;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::record::{CHECK, Record};

/// Numbers that no other segment or folder has.
pub(crate) type Salt = [u8; 16];

/// The guard of one segment.
pub(crate) enum Guard {
    /// Damage is found.
    Checked,
    /// Damage and forgery are found, and only the key can read it.
    Encrypted(Box<LessSafeKey>),
}

impl Guard {
    /// The guard of a segment whose key this is.
    pub(crate) fn encrypted(key: Okm<'_, &'static Algorithm>) -> Self {
        Self::Encrypted(Box::new(LessSafeKey::new(UnboundKey::from(key))))
    }

    /// Writes the page at place `at` of a record, and its check before it.
    pub(crate) fn put(&self, record: &Record, at: u64, content: &[u8], place: &mut [u8]) {
        let (check, page) = place.split_at_mut(CHECK);
        page.copy_from_slice(content);
        match self {
            Self::Checked => check.copy_from_slice(&checksum(record, at, content)),
            Self::Encrypted(key) => {
                // It fails for more bytes than a page has: the page is then found wrong.
                let tag = key.seal_in_place_separate_tag(nonce(record, at), Aad::from(name(record, at)), page);
                check.copy_from_slice(tag.as_ref().map_or(&[0; CHECK], |tag| tag.as_ref()));
            }
        }
    }

    /// Whether `page`, as it lies at place `at` of a record, is right. If so, it is the content
    /// afterwards.
    pub(crate) fn open(&self, record: &Record, at: u64, check: [u8; CHECK], page: &mut [u8]) -> bool {
        match self {
            Self::Checked => check == checksum(record, at, page),
            Self::Encrypted(key) => {
                let (nonce, name, tag) = (nonce(record, at), Aad::from(name(record, at)), Tag::from(check));
                key.open_in_place_separate_tag(nonce, name, tag, page, 0..).is_ok()
            }
        }
    }
}

fn checksum(record: &Record, at: u64, content: &[u8]) -> [u8; CHECK] {
    let ([low, high], page) = (record.object.halves(), record.first_page + at);
    let seed = low ^ high.rotate_left(32) ^ page.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    xxh3_128_with_seed(content, seed).to_le_bytes()
}

/// Object and page, which the tag covers.
fn name(record: &Record, at: u64) -> [u8; 24] {
    let mut name = [0; 24];
    name[..16].copy_from_slice(&record.object.0);
    name[16..].copy_from_slice(&(record.first_page + at).to_le_bytes());
    name
}

/// Where the page lies in its segment: no two pages of a segment lie at the same place.
fn nonce(record: &Record, at: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[..8].copy_from_slice(&record.page_offset(at).to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}
