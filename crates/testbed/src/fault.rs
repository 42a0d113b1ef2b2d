//! Faults and the requests that they happen to: the specs of `--fault`, of the config, and of the
//! control API.
//!
//! A spec is terms separated by commas. The first is the effect, the others are conditions:
//!
//! | effect | what the client sees |
//! |---|---|
//! | `status=503` | that status instead of the answer; `retry-after=SECONDS` adds the header |
//! | `throttle=100` | 503 above so many requests a second; `retry-after=SECONDS` adds the header |
//! | `crowd=64` | 503 while so many other requests are being answered; `retry-after` as above |
//! | `redirect` | 307 to the same path of a host that does not exist |
//! | `empty` | 200 and no body |
//! | `reset` | the connection is reset before the head of the response |
//! | `reset-body=64KiB` | the connection is reset after so much of the body |
//! | `stall`, `stall=2s` | nothing before the head, for ever or for a time |
//! | `stall-body=64KiB` | nothing after so much of the body, for ever; `for=2s`: for a time |
//! | `truncate=64KiB` | closed after so much of the body; `Content-Length` says more |
//! | `short=100` | a body of so many bytes, less than requested, and a matching `Content-Length` |
//! | `wrong-range` | a `Content-Range` one byte further on |
//! | `wrong-etag` | the `ETag` of another version |
//! | `no-etag` | no `ETag` |
//! | `ignore-range` | the whole object with 200 |
//! | `gzip` | 200, the whole object as `Content-Encoding: gzip`, a weak `ETag`, no length |
//! | `archived` | 403 `InvalidObjectState`, as of an object in an archive |
//! | `forbid-missing` | 403 where it would be 404, as S3 answers clients that may not list |
//! | `slow=20` | a first byte that takes 20 times as long |
//! | `repeat-token` | a page of a listing whose continuation leads to the same page again |
//! | `endless` | an empty page of a listing, and a continuation that has not been there before |
//! | `garbage` | 200, and a text that is no listing |
//! | `replace` | the object is replaced by its next generation just before the request |
//!
//! | condition | which requests |
//! |---|---|
//! | `kind=get` | `get`, `head`, `list`, `put`, `other`, `get+head`, `any`; default `get` |
//! | `key=a/b`, `key=a/*` | of this key, or of keys with this prefix (for a list: its prefix) |
//! | `after=5` | not the first 5 |
//! | `every=10` | of those only each tenth: the 10th, the 20th ... |
//! | `probability=0.1` | of those a random tenth, from `seed=7` |
//! | `count=3` | at most 3 in all |
//!
//! The first fault of the list that applies to a request happens; only `replace` lets others
//! happen too. A limit applies to the requests that exceed it.

pub(crate) mod plan;

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Kind;
use crate::quantity::{self, QuantityError};

/// A fault: an effect and its conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// What happens.
    pub effect: Effect,
    /// To requests of which kinds; empty for every kind.
    pub kinds: Vec<Kind>,
    /// To requests of which keys; a final `*` stands for any rest. `None` for every key.
    pub key: Option<String>,
    /// How many matching requests are spared first.
    pub after: u64,
    /// Only every n-th of the matching requests; 1 for each.
    pub every: u64,
    /// How many of a million of those.
    pub per_million: u32,
    /// Where the randomness of `per_million` starts.
    pub seed: u64,
    /// How often at most.
    pub count: Option<u64>,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// The response is an error with this status.
    Status {
        /// The status: 400 to 599.
        status: u16,
        /// Seconds for the header `Retry-After`.
        retry_after: Option<u64>,
    },
    /// 503 for the requests above a rate.
    Throttle {
        /// Requests a second, with a burst of a tenth of a second.
        per_second: NonZeroU32,
        /// Seconds for the header `Retry-After`.
        retry_after: Option<u64>,
    },
    /// 503 while many requests are being answered.
    Crowd {
        /// So many others.
        others: u64,
        /// Seconds for the header `Retry-After`.
        retry_after: Option<u64>,
    },
    /// A redirect to the same path of a host that does not exist.
    Redirect,
    /// A success without a body.
    Empty,
    /// The connection is reset before the head of the response.
    Reset,
    /// The connection is reset in mid-body.
    ResetBody {
        /// After how many bytes of the body.
        after: u64,
    },
    /// Nothing is sent.
    Stall {
        /// For how long; `None` for ever.
        time: Option<Duration>,
    },
    /// The body stops.
    StallBody {
        /// After how many bytes of the body.
        after: u64,
        /// For how long; `None` for ever.
        time: Option<Duration>,
    },
    /// The connection is closed in mid-body.
    Truncate {
        /// After how many bytes of the body.
        after: u64,
    },
    /// The response is shorter than what was asked for, and says so in `Content-Length` only.
    Short {
        /// The most bytes that the body has.
        bytes: u64,
    },
    /// `Content-Range` is one byte further on than what was asked for.
    WrongRange,
    /// The `ETag` is that of another version.
    WrongEtag,
    /// There is no `ETag`.
    NoEtag,
    /// `Range` is ignored: 200 and the whole object.
    IgnoreRange,
    /// The whole object, compressed on the way.
    Gzip,
    /// The object is in an archive and cannot be read.
    Archived,
    /// 403 for a key without an object: what S3 tells a client that may not list.
    ForbidMissing,
    /// The first byte takes longer.
    Slow {
        /// How many times as long.
        factor: u32,
    },
    /// A page of a listing that goes on where it began.
    RepeatToken,
    /// A page of a listing without an entry, and another one after it.
    Endless,
    /// A success whose body is something else than what was asked for.
    Garbage,
    /// The object is replaced by its next generation before the request.
    Replace,
}

/// An error in a spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultError {
    /// The first term is no effect.
    #[error(
        "unknown fault {0:?}: expected one of status, throttle, crowd, redirect, empty, reset, reset-body, stall, stall-body, truncate, short, wrong-range, \
         wrong-etag, no-etag, ignore-range, gzip, archived, forbid-missing, slow, repeat-token, endless, garbage, replace"
    )]
    Effect(String),
    /// A term is no condition, or does not go with the effect.
    #[error("unknown term {0:?}: expected one of kind, key, after, every, probability, seed, count{also}", also = .1)]
    Term(String, &'static str),
    /// A term needs a value, or must not have one.
    #[error("{term:?} needs {needs}")]
    Value {
        /// The term.
        term: String,
        /// What it needs.
        needs: &'static str,
    },
    /// A size or a time is not one.
    #[error("in {term:?}: {source}")]
    Quantity {
        /// The term.
        term: String,
        /// What is wrong with its value.
        source: QuantityError,
    },
}

impl Effect {
    /// Whether it is made of objects that the testbed has itself, and not of any server's answer.
    pub fn is_of_objects(self) -> bool {
        matches!(self, Self::Replace | Self::IgnoreRange | Self::Gzip | Self::RepeatToken | Self::Endless)
    }
}

impl Fault {
    /// A fault of every GET.
    pub fn new(effect: Effect) -> Self {
        Self {
            effect,
            kinds: vec![Kind::Get],
            key: None,
            after: 0,
            every: 1,
            per_million: 1_000_000,
            seed: 0,
            count: None,
        }
    }

    /// Whether the fault is about such requests at all.
    pub fn matches(&self, kind: Kind, key: &str) -> bool {
        let key_matches = |pattern: &str| match pattern.strip_suffix('*') {
            Some(prefix) => key.starts_with(prefix),
            None => key == pattern,
        };
        (self.kinds.is_empty() || self.kinds.contains(&kind)) && self.key.as_deref().is_none_or(key_matches)
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(spec: &str) -> Result<Self, FaultError> {
        let mut terms = spec.split(',').map(str::trim);
        let first = terms.next().unwrap_or_default();
        let mut fault = Self::new(parse_effect(first)?);
        for text in terms {
            let term = Term::new(text);
            match (term.name, &mut fault.effect) {
                (
                    "retry-after",
                    Effect::Status { retry_after, .. }
                    | Effect::Throttle { retry_after, .. }
                    | Effect::Crowd { retry_after, .. },
                ) => {
                    *retry_after = Some(term.number("a number of seconds")?);
                }
                ("for", Effect::StallBody { time, .. }) => *time = Some(term.duration()?),
                ("kind", _) => fault.kinds = parse_kinds(&term)?,
                ("key", _) => fault.key = Some(term.value("a key, or a prefix and *")?.to_owned()),
                ("after", _) => fault.after = term.number("a number of requests")?,
                ("every", _) => fault.every = term.number("a number of requests from 1 on")?.max(1),
                ("seed", _) => fault.seed = term.number("a number")?,
                ("count", _) => fault.count = Some(term.number("a number of requests")?),
                ("probability", _) => fault.per_million = parse_probability(&term)?,
                (_, effect) => {
                    let also = match effect {
                        Effect::Status { .. } | Effect::Throttle { .. } | Effect::Crowd { .. } => ", retry-after",
                        Effect::StallBody { .. } => ", for",
                        _ => "",
                    };
                    return Err(FaultError::Term(term.text.to_owned(), also));
                }
            }
        }
        Ok(fault)
    }
}

fn parse_effect(text: &str) -> Result<Effect, FaultError> {
    let term = Term::new(text);
    let effect = match term.name {
        "status" => {
            let needs = "a status from 400 to 599";
            let status = term.number(needs)?;
            if !(400..600).contains(&status) {
                return Err(term.wrong(needs));
            }
            return Ok(Effect::Status { status: status as u16, retry_after: None });
        }
        "throttle" => {
            let needs = "a number of requests from 1 on";
            let per_second = u32::try_from(term.number(needs)?).ok().and_then(NonZeroU32::new);
            let per_second = per_second.ok_or_else(|| term.wrong(needs))?;
            return Ok(Effect::Throttle { per_second, retry_after: None });
        }
        "crowd" => return Ok(Effect::Crowd { others: term.number("a number of requests")?, retry_after: None }),
        "reset-body" => return Ok(Effect::ResetBody { after: term.size()? }),
        "stall-body" => return Ok(Effect::StallBody { after: term.size()?, time: None }),
        "truncate" => return Ok(Effect::Truncate { after: term.size()? }),
        "short" => return Ok(Effect::Short { bytes: term.size()? }),
        "slow" => {
            let needs = "a factor from 1 on";
            let factor = u32::try_from(term.number(needs)?).ok().filter(|&factor| factor > 0);
            return Ok(Effect::Slow { factor: factor.ok_or_else(|| term.wrong(needs))? });
        }
        "stall" => {
            let time = term.value.map(|_| term.duration()).transpose()?;
            return Ok(Effect::Stall { time });
        }
        "redirect" => Effect::Redirect,
        "empty" => Effect::Empty,
        "reset" => Effect::Reset,
        "wrong-range" => Effect::WrongRange,
        "wrong-etag" => Effect::WrongEtag,
        "no-etag" => Effect::NoEtag,
        "ignore-range" => Effect::IgnoreRange,
        "gzip" => Effect::Gzip,
        "archived" => Effect::Archived,
        "forbid-missing" => Effect::ForbidMissing,
        "repeat-token" => Effect::RepeatToken,
        "endless" => Effect::Endless,
        "garbage" => Effect::Garbage,
        "replace" => Effect::Replace,
        _ => return Err(FaultError::Effect(text.to_owned())),
    };
    if term.value.is_some() { Err(term.wrong("no value")) } else { Ok(effect) }
}

fn parse_kinds(term: &Term<'_>) -> Result<Vec<Kind>, FaultError> {
    let needs = "get, head, list, put, other, several joined by +, or any";
    let value = term.value(needs)?;
    if value == "any" {
        return Ok(Vec::new());
    }
    let kinds = value.split('+').map(Kind::named).collect::<Option<Vec<_>>>();
    kinds.ok_or_else(|| term.wrong(needs))
}

fn parse_probability(term: &Term<'_>) -> Result<u32, FaultError> {
    let needs = "a probability such as 0.01 or 1%";
    let value = term.value(needs)?;
    let (number, scale) = match value.strip_suffix('%') {
        Some(percent) => (percent, 10_000.0),
        None => (value, 1_000_000.0),
    };
    let per_million = number.parse::<f64>().ok().map(|number| (number * scale).round());
    match per_million {
        Some(per_million) if (0.0..=1_000_000.0).contains(&per_million) => Ok(per_million as u32),
        _ => Err(term.wrong(needs)),
    }
}

/// `name` or `name=value`.
struct Term<'a> {
    text: &'a str,
    name: &'a str,
    value: Option<&'a str>,
}

impl<'a> Term<'a> {
    fn new(text: &'a str) -> Self {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (text, None),
        };
        Self { text, name, value }
    }

    fn wrong(&self, needs: &'static str) -> FaultError {
        FaultError::Value { term: self.text.to_owned(), needs }
    }

    fn value(&self, needs: &'static str) -> Result<&'a str, FaultError> {
        self.value.filter(|value| !value.is_empty()).ok_or_else(|| self.wrong(needs))
    }

    fn number(&self, needs: &'static str) -> Result<u64, FaultError> {
        self.value(needs)?.parse().map_err(|_| self.wrong(needs))
    }

    fn size(&self) -> Result<u64, FaultError> {
        let value = self.value("a size such as 64KiB")?;
        quantity::size(value).map_err(|source| FaultError::Quantity { term: self.text.to_owned(), source })
    }

    fn duration(&self) -> Result<Duration, FaultError> {
        let value = self.value("a time such as 2s")?;
        quantity::duration(value).map_err(|source| FaultError::Quantity { term: self.text.to_owned(), source })
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status { status, retry_after: None } => write!(f, "status={status}"),
            Self::Status { status, retry_after: Some(seconds) } => write!(f, "status={status},retry-after={seconds}"),
            Self::Throttle { per_second, retry_after: None } => write!(f, "throttle={per_second}"),
            Self::Throttle { per_second, retry_after: Some(seconds) } => {
                write!(f, "throttle={per_second},retry-after={seconds}")
            }
            Self::Crowd { others, retry_after: None } => write!(f, "crowd={others}"),
            Self::Crowd { others, retry_after: Some(seconds) } => write!(f, "crowd={others},retry-after={seconds}"),
            Self::Redirect => f.write_str("redirect"),
            Self::Empty => f.write_str("empty"),
            Self::Reset => f.write_str("reset"),
            Self::ResetBody { after } => write!(f, "reset-body={after}"),
            Self::Stall { time: None } => f.write_str("stall"),
            Self::Stall { time: Some(time) } => write!(f, "stall={}", quantity::write_duration(*time)),
            Self::StallBody { after, time: None } => write!(f, "stall-body={after}"),
            Self::StallBody { after, time: Some(time) } => {
                write!(f, "stall-body={after},for={}", quantity::write_duration(*time))
            }
            Self::Truncate { after } => write!(f, "truncate={after}"),
            Self::Short { bytes } => write!(f, "short={bytes}"),
            Self::WrongRange => f.write_str("wrong-range"),
            Self::WrongEtag => f.write_str("wrong-etag"),
            Self::NoEtag => f.write_str("no-etag"),
            Self::IgnoreRange => f.write_str("ignore-range"),
            Self::Gzip => f.write_str("gzip"),
            Self::Archived => f.write_str("archived"),
            Self::ForbidMissing => f.write_str("forbid-missing"),
            Self::Slow { factor } => write!(f, "slow={factor}"),
            Self::RepeatToken => f.write_str("repeat-token"),
            Self::Endless => f.write_str("endless"),
            Self::Garbage => f.write_str("garbage"),
            Self::Replace => f.write_str("replace"),
        }
    }
}

/// The spec that gives this fault.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.effect)?;
        match self.kinds.as_slice() {
            [] => f.write_str(",kind=any")?,
            [Kind::Get] => {}
            kinds => {
                let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
                write!(f, ",kind={}", names.join("+"))?;
            }
        }
        if let Some(key) = &self.key {
            write!(f, ",key={key}")?;
        }
        if self.after > 0 {
            write!(f, ",after={}", self.after)?;
        }
        if self.every > 1 {
            write!(f, ",every={}", self.every)?;
        }
        if self.per_million < 1_000_000 {
            write!(f, ",probability={}", f64::from(self.per_million) / 1_000_000.0)?;
        }
        if self.seed > 0 {
            write!(f, ",seed={}", self.seed)?;
        }
        if let Some(count) = self.count {
            write!(f, ",count={count}")?;
        }
        Ok(())
    }
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fault {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_survive_being_written() {
        for spec in [
            "status=503,retry-after=1,every=10",
            "status=500,kind=any,probability=0.25,seed=9",
            "throttle=100",
            "throttle=100,retry-after=2,kind=any",
            "crowd=64",
            "crowd=64,retry-after=1,kind=get+list",
            "redirect,every=3",
            "empty",
            "reset,kind=get+head,key=a/*",
            "reset-body=65536,after=5,count=1",
            "stall",
            "stall=2s",
            "stall-body=10,for=250ms",
            "truncate=0",
            "short=100",
            "wrong-range",
            "wrong-etag,kind=head",
            "no-etag",
            "ignore-range",
            "gzip",
            "archived",
            "forbid-missing,kind=get+head",
            "slow=20",
            "repeat-token,kind=list,key=a/*",
            "endless,kind=list",
            "garbage,kind=list",
            "replace,key=a",
        ] {
            assert_eq!(spec.parse::<Fault>().unwrap_or_else(|error| panic!("{spec}: {error}")).to_string(), spec);
        }
    }

    #[test]
    fn errors_say_what_was_expected() {
        let error = |spec: &str| spec.parse::<Fault>().unwrap_err().to_string();
        assert!(error("").starts_with("unknown fault \"\": expected one of status, throttle"));
        assert!(error("explode").starts_with("unknown fault \"explode\""));
        assert_eq!(error("status"), "\"status\" needs a status from 400 to 599");
        assert_eq!(error("status=200"), "\"status=200\" needs a status from 400 to 599");
        assert_eq!(error("throttle=0"), "\"throttle=0\" needs a number of requests from 1 on");
        assert_eq!(error("reset=1"), "\"reset=1\" needs no value");
        assert!(error("reset,retry-after=1").starts_with("unknown term \"retry-after=1\": expected one of kind"));
        assert!(error("status=500,colour=red").ends_with("count, retry-after"));
        assert!(error("truncate=much").starts_with("in \"truncate=much\": \"much\" is not a size"));
        assert!(error("reset,kind=read").contains("needs get, head, list, put, other"));
        assert!(error("reset,probability=2").contains("a probability such as 0.01 or 1%"));
    }

    #[test]
    fn kinds_and_keys_select() {
        let fault: Fault = "reset,kind=get+list,key=a/*".parse().unwrap();
        assert!(fault.matches(Kind::Get, "a/b") && fault.matches(Kind::List, "a/"));
        assert!(!fault.matches(Kind::Head, "a/b") && !fault.matches(Kind::Get, "b"));
        let exact: Fault = "reset,kind=any,key=a".parse().unwrap();
        assert!(exact.matches(Kind::Other, "a") && !exact.matches(Kind::Get, "ab"));
    }

    #[test]
    fn a_percentage_is_a_probability() {
        assert_eq!("reset,probability=2.5%".parse::<Fault>().unwrap().per_million, 25_000);
    }

    #[test]
    fn fuzz_faults() {
        let seeds: [&[u8]; 5] = [
            b"status=503,retry-after=1,every=10",
            b"reset-body=64KiB,key=a,count=3",
            b"stall,p=0.5,kind=head,after=2",
            b"late=300ms,every=18446744073709551615",
            b"truncate=0B",
        ];
        let words =
            ["status=", "=", ",", "every=", "count=", "p=", "kind=get", "KiB", "EiB", "ms", "retry-after=", "key="];
        foreread_fuzz::fuzz("faults", &seeds, &words, |spec| {
            let Ok(spec) = std::str::from_utf8(spec) else { return };
            let Ok(fault) = spec.parse::<Fault>() else { return };
            let again = fault.to_string();
            assert_eq!(again.parse::<Fault>().as_ref(), Ok(&fault), "{again}");
        });
    }
}
