//! The encrypted spill: AES-256 in XTS, the mode made for disks, with the page's number as the
//! tweak.
//!
//! Why XTS: a page is written many times, often to the same place. A stream cipher keyed by
//! position would reveal the difference of two versions, and one with a nonce for each write would
//! need room for the nonce; XTS output has the size of the page. XTS does not detect that a page
//! was changed from outside: a program that can write to this file can write to this process.
//!
//! The key is made here, stays in this process's memory, and ends with it.

use std::io;

use aes::Aes256;
use aes::cipher::KeyInit;
use xts_mode::{Xts128, get_tweak_default};

use crate::kernel::frames::FRAME_BYTES;

/// Each region has a key of its own.
pub(crate) struct Cipher {
    xts: Xts128<Aes256>,
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cipher")
    }
}

impl Cipher {
    /// With a random key from the system.
    pub(crate) fn new() -> io::Result<Self> {
        let mut key = [0; 64];
        let mut filled = 0;
        while filled < key.len() {
            filled += rustix::rand::getrandom(&mut key[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        let (data, tweak) = key.split_at(32);
        let xts = Xts128::new(Aes256::new(data.into()), Aes256::new(tweak.into()));
        key.fill(0);
        std::hint::black_box(&mut key);
        Ok(Self { xts })
    }

    /// Encrypts `pages` of the region, whose first has the number `page`.
    pub(crate) fn encrypt(&self, pages: &mut [u8], page: u64) {
        self.xts.encrypt_area(pages, FRAME_BYTES as usize, u128::from(page), get_tweak_default);
    }

    /// Decrypts what [`Cipher::encrypt`] made.
    pub(crate) fn decrypt(&self, pages: &mut [u8], page: u64) {
        self.xts.decrypt_area(pages, FRAME_BYTES as usize, u128::from(page), get_tweak_default);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_decrypt_and_equal_pages_differ_in_the_file() {
        let cipher = Cipher::new().expect("a key");
        let mut pages = vec![7; 2 * FRAME_BYTES as usize];
        cipher.encrypt(&mut pages, 5);
        let (first, second) = pages.split_at(FRAME_BYTES as usize);
        assert_ne!(first, second);
        assert!(!first.windows(16).any(|window| window == [7; 16]));
        cipher.decrypt(&mut pages[FRAME_BYTES as usize..], 6);
        cipher.decrypt(&mut pages[..FRAME_BYTES as usize], 5);
        assert!(pages.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn another_region_has_another_key() {
        let (one, other) = (Cipher::new().expect("a key"), Cipher::new().expect("a key"));
        let (mut a, mut b) = (vec![0; FRAME_BYTES as usize], vec![0; FRAME_BYTES as usize]);
        one.encrypt(&mut a, 0);
        other.encrypt(&mut b, 0);
        assert_ne!(a, b);
    }
}
