//! Inputs that break parsers: examples of a format, edited by chance, on a stable toolchain.
//!
//! ```text
//!   seeds ─┐
//!          ├─ one of them, a few edits ──> bytes ──> check ── panics ──> fewer edits, reported
//!   words ─┘
//!   cargo test                           the same 2,000 inputs each time, milliseconds
//!   FOREREAD_FUZZ_SECONDS=600            other inputs each time, for ten minutes a target
//! ```
//!
//! A target is a test of the crate that has the parser; its name begins with `fuzz_`. An input
//! that breaks it is added to its seeds, so that it is tried as it is, and first, from then on.
//!
//! *Invariant:* no coverage is measured: what an input reaches depends on seeds and words alone.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Calls `check` with each of `seeds` and with edited ones; `words` are what edits insert besides
/// bytes and numbers. `check` panics on what must not happen.
pub fn fuzz(target: &str, seeds: &[&[u8]], words: &[&str], check: impl Fn(&[u8])) {
    for seed in seeds {
        check(seed);
    }
    let time = std::env::var("FOREREAD_FUZZ_SECONDS").ok();
    let time = time.map(|seconds| seconds.parse().expect("FOREREAD_FUZZ_SECONDS is a number of seconds"));
    let (began, slowest) = (Instant::now(), RefCell::new((Duration::ZERO, Vec::new())));
    let mut inputs = 0u64;
    loop {
        let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
        let mut runner = match time {
            Some(_) => TestRunner::new(config),
            None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
        };
        let result = runner.run(&input(seeds.len()), |input| {
            let bytes = input.bytes(seeds, words);
            let started = Instant::now();
            check(&bytes);
            let took = started.elapsed();
            if took > slowest.borrow().0 {
                slowest.replace((took, bytes));
            }
            Ok(())
        });
        if let Err(proptest::test_runner::TestError::Fail(reason, input)) = &result {
            let bytes = input.bytes(seeds, words);
            let shown = bytes.escape_ascii().to_string();
            panic!("{target}: {reason}\n{} bytes, to be added to the seeds: b\"{shown}\"", bytes.len());
        }
        result.expect("inputs can be made");
        inputs += u64::from(CASES);
        if time.is_none_or(|seconds| began.elapsed() >= Duration::from_secs(seconds)) {
            break;
        }
    }
    let (longest, bytes) = slowest.into_inner();
    let (time, len) = (began.elapsed(), bytes.len());
    println!("{target}: {inputs} inputs in {time:.0?}; the slowest took {longest:.1?}, {len} bytes");
    if longest > SLOW {
        println!("{target}: it took {longest:.1?}: b\"{}\"", bytes.escape_ascii());
    }
}

/// A seed and what is done to it.
#[derive(Debug, Clone)]
struct Input {
    seed: usize,
    edits: Vec<Edit>,
}

/// One edit. A position is a share of what there is, so that it fits any length.
#[derive(Debug, Clone)]
enum Edit {
    Word(u16, u16),
    Bytes(u16, Vec<u8>),
    /// In place of the number that is next.
    Number(u16, u8),
    Remove(u16, u16),
    /// What is there comes again, so often.
    Repeat(u16, u8, u16),
    /// A part of some seed.
    Splice(u16, u8, u16, u16),
    Flip(u16, u8),
    Cut(u16),
}

fn input(seeds: usize) -> impl Strategy<Value = Input> {
    let at = any::<u16>;
    let edit = prop_oneof![
        6 => (at(), at()).prop_map(|(place, word)| Edit::Word(place, word)),
        2 => (at(), prop::collection::vec(any::<u8>(), 1..9)).prop_map(|(place, bytes)| Edit::Bytes(place, bytes)),
        4 => (at(), any::<u8>()).prop_map(|(place, number)| Edit::Number(place, number)),
        3 => (at(), at()).prop_map(|(place, end)| Edit::Remove(place, end)),
        2 => (at(), 1u8..40, prop_oneof![9 => 1u16..8, 1 => 100u16..2000]).prop_map(|(place, len, times)| Edit::Repeat(place, len, times)),
        3 => (at(), any::<u8>(), at(), at()).prop_map(|(place, seed, from, to)| Edit::Splice(place, seed, from, to)),
        3 => (at(), any::<u8>()).prop_map(|(place, byte)| Edit::Flip(place, byte)),
        1 => at().prop_map(Edit::Cut),
    ];
    (0..seeds.max(1), prop::collection::vec(edit, 0..12)).prop_map(|(seed, edits)| Input { seed, edits })
}

impl Input {
    fn bytes(&self, seeds: &[&[u8]], words: &[&str]) -> Vec<u8> {
        let mut bytes = seeds.get(self.seed).map_or_else(Vec::new, |seed| seed.to_vec());
        for edit in &self.edits {
            edit.apply(&mut bytes, seeds, words);
            bytes.truncate(BYTES_MAX);
        }
        bytes
    }
}

impl Edit {
    fn apply(&self, bytes: &mut Vec<u8>, seeds: &[&[u8]], words: &[&str]) {
        let place = |share: u16, of: usize| usize::from(share) * (of + 1) / (usize::from(u16::MAX) + 1);
        let span = |from: u16, to: u16, of: usize| {
            let (from, to) = (place(from, of), place(to, of));
            from.min(to)..from.max(to)
        };
        match self {
            Self::Word(at, word) => {
                let at = place(*at, bytes.len());
                let word = usize::from(*word) % (words.len() + WORDS.len());
                let word = words.get(word).map_or_else(|| WORDS[word - words.len()], |word| word.as_bytes());
                bytes.splice(at..at, word.iter().copied());
            }
            Self::Bytes(at, new) => {
                let at = place(*at, bytes.len());
                bytes.splice(at..at, new.iter().copied());
            }
            Self::Number(at, number) => {
                let at = place(*at, bytes.len());
                let digit = u8::is_ascii_digit;
                let Some(start) = bytes[at..].iter().position(digit).map(|start| at + start) else { return };
                let end = bytes[start..].iter().position(|byte| !digit(byte)).map_or(bytes.len(), |len| start + len);
                bytes.splice(start..end, NUMBERS[usize::from(*number) % NUMBERS.len()].bytes());
            }
            Self::Remove(from, to) => {
                bytes.drain(span(*from, *to, bytes.len()));
            }
            Self::Repeat(at, len, times) => {
                let at = place(*at, bytes.len());
                let end = (at + usize::from(*len)).min(bytes.len());
                let times = usize::from(*times).min(BYTES_MAX / usize::from(*len));
                let again = bytes[at..end].repeat(times);
                bytes.splice(end..end, again);
            }
            Self::Splice(at, seed, from, to) => {
                let at = place(*at, bytes.len());
                let Some(seed) = seeds.get(usize::from(*seed) % seeds.len().max(1)) else { return };
                bytes.splice(at..at, seed[span(*from, *to, seed.len())].iter().copied());
            }
            Self::Flip(at, byte) => {
                let at = place(*at, bytes.len());
                if let Some(there) = bytes.get_mut(at) {
                    *there ^= byte;
                }
            }
            Self::Cut(at) => bytes.truncate(place(*at, bytes.len())),
        }
    }
}

/// The slowest input of a target is printed if it took longer. Lower: more is printed. Higher: an
/// input that takes far longer than its length explains is not seen.
const SLOW: Duration = Duration::from_secs(1);

/// Inputs of a target in an ordinary run of the tests. Lower finds less there; higher takes
/// longer.
const CASES: u32 = 2000;

/// The longest input, in bytes. Lower hides what grows with length; higher takes longer.
const BYTES_MAX: usize = 256 << 10;

/// Words of many formats.
const WORDS: [&[u8]; 16] = [
    b"\0",
    b"\n",
    b"\r\n",
    b"\t",
    b" ",
    b"\"",
    b"'",
    b"\\",
    b"\xff",
    b"\xc3\xa9",
    b"\xef\xbb\xbf",
    b"%00",
    b"%2F",
    b"..",
    b"/",
    b"-",
];

/// Numbers at the edges of what integers and floats hold.
const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "-1",
    "127",
    "256",
    "4095",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "1e400",
    "0.5",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_breaks_a_check_is_reported_with_the_bytes() {
        let found = std::panic::catch_unwind(|| {
            fuzz("a target", &[b"size=5"], &["x"], |bytes| assert!(!bytes.contains(&b'x'), "an x"));
        });
        let text = *found.expect_err("there is an x among the words").downcast::<String>().expect("a message");
        assert!(
            text.contains("a target")
                && text.contains("an x")
                && text.contains("to be added to the seeds: b\"")
                && text.contains('x'),
            "{text}"
        );
    }

    #[test]
    fn each_edit_fits_any_length() {
        for seed in [&b""[..], b"a", b"a1b22c333"] {
            fuzz("any", &[seed], &[], |bytes| assert!(bytes.len() <= BYTES_MAX));
        }
    }
}
