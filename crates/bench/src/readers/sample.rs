//! Which bytes of a read are compared with the content that the testbed must have sent: all of a
//! small read, a few of a larger one, so that the comparison is not what is measured.

use std::ops::Range;

use foreread_testbed::content::Content;

use crate::error::Error;
use crate::subject::server::GENERATION;

/// Reads up to this size are compared whole.
const WHOLE_MAX_BYTES: usize = 4 << 10;

/// Bytes of a larger read that are compared. With more, generating the expected bytes would show
/// in the figures.
const SAMPLE_BYTES: usize = 64;

/// Compares a sample of `read`, which lies at `offset` of the object `key`. `place` chooses the
/// bytes: another place for another number, the same in every run.
pub(crate) fn verify(key: &str, offset: u64, read: &[u8], place: u64) -> Result<(), Error> {
    let sample = range(read.len(), place);
    let offset = offset + sample.start as u64;
    let wrong = |_| Error::WrongBytes { path: key.to_owned(), offset };
    Content::new(key, GENERATION).verify(offset, &read[sample]).map_err(wrong)
}

/// Compares the first bytes of `read`, which lies at `offset` of `content`. `path` names it in the
/// error.
pub(crate) fn verify_start(content: Content, path: &str, offset: u64, read: &[u8]) -> Result<(), Error> {
    let sample = &read[..read.len().min(SAMPLE_BYTES)];
    content.verify(offset, sample).map_err(|_| Error::WrongBytes { path: path.to_owned(), offset })
}

fn range(len: usize, place: u64) -> Range<usize> {
    if len <= WHOLE_MAX_BYTES {
        return 0..len;
    }
    let start = place.wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize % (len - SAMPLE_BYTES);
    start..start + SAMPLE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_read_is_compared_whole_and_a_large_one_at_a_place_of_its_own() {
        assert_eq!(range(WHOLE_MAX_BYTES, 7), 0..WHOLE_MAX_BYTES);
        let large = |place| range(1 << 20, place);
        assert!(large(1) != large(2) && large(1) == large(1));
        assert!((0..1000).all(|place| large(place).len() == SAMPLE_BYTES && large(place).end <= 1 << 20));
    }
}
