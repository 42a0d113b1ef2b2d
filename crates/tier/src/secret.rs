//! The key of an encrypted folder, and the keys that follow from it.
//!
//! ```text
//!   key file ── HKDF-SHA256, salt of the folder ──> a check: is it the folder's key?
//!                                              ├──> names of objects (HMAC-SHA256)
//!                                              └── salt of a segment ──> the key of its pages
//! ```
//!
//! *Invariant:* a key of pages is used in one segment, which is written once. Even if a segment's
//! number came again after a crash, its salt would not.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use ring::aead::AES_256_GCM;
use ring::hkdf::{self, HKDF_SHA256, KeyType, Okm, Prk};
use ring::hmac::{self, HMAC_SHA256};
use ring::rand::{SecureRandom, SystemRandom};

use crate::error::Error;
use crate::guard::{Guard, Salt};
use crate::object::{ObjectId, put_fields};

/// What encrypts a folder: the content of a key file.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// The content of a file: 32 to 4,096 bytes that cannot be guessed. All of them count, a line
    /// break at the end as well.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(SECRET_BYTES_MAX as u64 + 1).read_to_end(&mut bytes))
            .map_err(|source| Error::KeyFile { path: path.to_owned(), source })?;
        if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&bytes.len()) {
            return Err(Error::KeyLength { path: path.to_owned() });
        }
        Ok(Self(bytes))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// A salt.
pub(crate) fn random() -> io::Result<Salt> {
    let mut random = Salt::default();
    SystemRandom::new().fill(&mut random).map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(random)
}

/// The keys of a folder.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    folder: Prk,
    names: hmac::Key,
}

impl Keys {
    pub(crate) fn new(secret: &Secret, salt: &Salt) -> Self {
        let folder = hkdf::Salt::new(HKDF_SHA256, salt).extract(&secret.0);
        let names = hmac::Key::from(expand(&folder, &[b"foreread names"], HMAC_SHA256));
        Self { folder, names }
    }

    /// What tells this key from others.
    pub(crate) fn check(&self) -> Salt {
        let mut check = Salt::default();
        let filled = expand(&self.folder, &[b"foreread folder"], Check).fill(&mut check);
        debug_assert!(filled.is_ok(), "the length is that of `Check`");
        check
    }

    /// What guards the pages of the segment with this salt.
    pub(crate) fn guard(&self, salt: &Salt) -> Guard {
        Guard::encrypted(expand(&self.folder, &[b"foreread segment", salt], &AES_256_GCM))
    }

    /// As [`ObjectId::of`], but without the key it cannot be told which objects a folder holds.
    pub(crate) fn object(&self, store: &str, key: &str, version: &str) -> ObjectId {
        let mut context = hmac::Context::with_key(&self.names);
        put_fields([store, key, version], |bytes| context.update(bytes));
        ObjectId::from_hash(context.sign().as_ref())
    }
}

fn expand<'p, L: KeyType>(from: &'p Prk, info: &'p [&'p [u8]], length: L) -> Okm<'p, L> {
    from.expand(info, length).unwrap_or_else(|_| unreachable!("no key has 255 blocks"))
}

/// The length of a check.
#[derive(Debug)]
struct Check;

impl KeyType for Check {
    fn len(&self) -> usize {
        size_of::<Salt>()
    }
}

/// Bytes of a key file, at least. Lower: a key that can be guessed. Higher: keys that are as safe
/// are refused. Source: the 256 bits of the cipher's key.
const SECRET_BYTES_MIN: usize = 32;

/// Bytes of a key file, at most. Lower: long keys are refused. Higher: a wrong path is read into
/// memory. Source: a guess.
const SECRET_BYTES_MAX: usize = 4096;
