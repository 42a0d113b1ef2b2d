//! What goes over the socket, as bytes.
//!
//! ```text
//!   frame:  length of the rest (4) | kind (1) | number of the operation (4) | fields
//!   number: little-endian, of a fixed width;  text: length (4), UTF-8;  optional: 0, or 1 and it
//! ```
//!
//! Both ends are of one version, which the name of the socket says, so no field is optional for
//! the sake of an older one. Nothing is believed all the same: a length is compared with what
//! there is before anything is made of it.

use std::time::{Duration, UNIX_EPOCH};

use foreread_engine::{Error, ErrorKind, Key, Node, Object, Version};

/// The version of this format. One higher with each change.
pub(crate) const PROTOCOL: u32 = 2;

/// The longest frame, 64 MiB: an order of a million files. Lower refuses such an order; higher
/// lets a client have the server hold more.
pub(crate) const FRAME_BYTES_MAX: usize = 64 << 20;

/// Bytes before the fields.
const HEAD_BYTES: usize = 9;

/// What begins a connection.
const MAGIC: u64 = 0x6672_6272_6f6b_6572;

/// A frame that cannot be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// What a client says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    /// First, with the descriptor of the shared memory.
    Hello {
        version: String,
        identity: String,
        memory_bytes: Option<u64>,
    },
    /// `file` is this object from now on.
    Open {
        file: u32,
        object: Object,
    },
    /// `file` is no object any more.
    Close {
        file: u32,
    },
    /// Fills the shared memory from `at` on.
    Read {
        file: u32,
        at: u32,
        offset: u64,
        len: u32,
    },
    Call(Call),
    Ping,
}

/// What the server says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    /// To a hello.
    Welcome,
    /// To a hello: why not.
    Refused(String),
    /// To a ping.
    Pong,
    /// So many bytes of a read are there.
    Filled(u32),
    Failed(Failure),
    Reply(Reply),
}

/// Operations whose answers are values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    Stat(Key),
    /// With the bytes that are about to be read, if there are any: their start and end.
    LookUp {
        prefix: String,
        name: String,
        read: Option<(u64, u64)>,
    },
    /// Entries of a directory from `place` on. The client numbers its listings; one that begins at
    /// place 0 is new.
    Entries {
        listing: u32,
        prefix: String,
        place: u32,
    },
    /// No more entries of it are wanted.
    EndEntries {
        listing: u32,
    },
    /// Files will be read in this order, at most so many bytes of them ahead.
    Expect {
        keys: Vec<Key>,
        ahead_bytes: Option<u64>,
    },
    ExpectNone,
    Forget,
    Stats,
    /// The budget that this client was given, if it was given one.
    Memory(Option<u64>),
}

/// The answers to calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Object(Object),
    Node(Node),
    /// Some entries, and the place of the next one, if there may be more.
    Entries {
        nodes: Vec<Node>,
        next: Option<u32>,
    },
    /// The listing is not known here: it begins anew.
    Gone,
    Count(u64),
    Nothing,
    /// The counters of the engine, as JSON, and how many clients there are.
    Stats {
        json: String,
        clients: u32,
    },
}

/// An error of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) text: String,
    pub(crate) key: Option<String>,
    pub(crate) retryable: bool,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let key = error.key().map(str::to_owned);
        Self { kind: error.kind(), text: error.to_string(), key, retryable: error.is_retryable() }
    }
}

impl From<Failure> for Error {
    fn from(told: Failure) -> Self {
        Self::told(told.kind, &told.text, told.key.as_deref(), told.retryable)
    }
}

/// Kinds of errors, by their number in a frame.
const KINDS: [ErrorKind; 8] = [
    ErrorKind::NotFound,
    ErrorKind::PermissionDenied,
    ErrorKind::Changed,
    ErrorKind::TimedOut,
    ErrorKind::Throttled,
    ErrorKind::Io,
    ErrorKind::Unsupported,
    ErrorKind::Invalid,
];

impl Asked {
    /// Appends its frame to `out`.
    pub(crate) fn encode(&self, operation: u32, out: &mut Vec<u8>) {
        let kind = match self {
            Self::Hello { .. } => 1,
            Self::Open { .. } => 2,
            Self::Close { .. } => 3,
            Self::Read { .. } => 4,
            Self::Call(_) => 5,
            Self::Ping => 6,
        };
        let start = begin(kind, operation, out);
        let to = &mut To(out);
        match self {
            Self::Hello { version, identity, memory_bytes } => {
                to.u64(MAGIC);
                to.u32(PROTOCOL);
                to.text(version);
                to.text(identity);
                to.optional(memory_bytes.as_ref(), |to, bytes| to.u64(*bytes));
            }
            Self::Open { file, object } => {
                to.u32(*file);
                to.object(object);
            }
            Self::Close { file } => to.u32(*file),
            Self::Read { file, at, offset, len } => {
                to.u32(*file);
                to.u32(*at);
                to.u64(*offset);
                to.u32(*len);
            }
            Self::Call(call) => to.call(call),
            Self::Ping => {}
        }
        end(start, out);
    }

    pub(crate) fn decode(frame: &Frame<'_>) -> Result<Self, Malformed> {
        let mut from = Fields(frame.fields);
        let asked = match frame.kind {
            1 => {
                if (from.u64()?, from.u32()?) != (MAGIC, PROTOCOL) {
                    return Err(Malformed);
                }
                let (version, identity) = (from.text()?, from.text()?);
                Self::Hello { version, identity, memory_bytes: from.optional(Fields::u64)? }
            }
            2 => Self::Open { file: from.u32()?, object: from.object()? },
            3 => Self::Close { file: from.u32()? },
            4 => Self::Read { file: from.u32()?, at: from.u32()?, offset: from.u64()?, len: from.u32()? },
            5 => Self::Call(from.call()?),
            6 => Self::Ping,
            _ => return Err(Malformed),
        };
        from.end()?;
        Ok(asked)
    }
}

impl Told {
    /// Appends its frame to `out`.
    pub(crate) fn encode(&self, operation: u32, out: &mut Vec<u8>) {
        let kind = match self {
            Self::Welcome => 64,
            Self::Refused(_) => 65,
            Self::Pong => 66,
            Self::Filled(_) => 67,
            Self::Failed(_) => 68,
            Self::Reply(_) => 69,
        };
        let start = begin(kind, operation, out);
        let to = &mut To(out);
        match self {
            Self::Welcome | Self::Pong => {}
            Self::Refused(why) => to.text(why),
            Self::Filled(len) => to.u32(*len),
            Self::Failed(Failure { kind, text, key, retryable }) => {
                let number = KINDS.iter().position(|known| known == kind).unwrap_or(IO);
                to.u8(number as u8);
                to.text(text);
                to.optional(key.as_ref(), |to, key| to.text(key));
                to.u8(u8::from(*retryable));
            }
            Self::Reply(reply) => to.reply(reply),
        }
        end(start, out);
    }

    pub(crate) fn decode(frame: &Frame<'_>) -> Result<Self, Malformed> {
        let mut from = Fields(frame.fields);
        let told = match frame.kind {
            64 => Self::Welcome,
            65 => Self::Refused(from.text()?),
            66 => Self::Pong,
            67 => Self::Filled(from.u32()?),
            68 => {
                let kind = *KINDS.get(usize::from(from.u8()?)).ok_or(Malformed)?;
                let (text, key) = (from.text()?, from.optional(Fields::text)?);
                Self::Failed(Failure { kind, text, key, retryable: from.u8()? == 1 })
            }
            69 => Self::Reply(from.reply()?),
            _ => return Err(Malformed),
        };
        from.end()?;
        Ok(told)
    }
}

/// The number of [`ErrorKind::Io`], which stands for kinds that are not known here.
const IO: usize = 5;

fn begin(kind: u8, operation: u32, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.push(kind);
    out.extend_from_slice(&operation.to_le_bytes());
    start
}

fn end(start: usize, out: &mut [u8]) {
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}

/// One frame.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: u8,
    pub(crate) operation: u32,
    fields: &'a [u8],
}

/// The first frame of `bytes` and how long it is, if all of it is there.
///
/// Errors: it is longer than frames are, or too short.
pub(crate) fn first_frame(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, Malformed> {
    let Some(head) = bytes.first_chunk::<4>() else { return Ok(None) };
    let len = u32::from_le_bytes(*head) as usize;
    if !(HEAD_BYTES - 4..=FRAME_BYTES_MAX).contains(&len) {
        return Err(Malformed);
    }
    let Some(rest) = bytes.get(4..4 + len) else { return Ok(None) };
    let operation = u32::from_le_bytes([rest[1], rest[2], rest[3], rest[4]]);
    Ok(Some((Frame { kind: rest[0], operation, fields: &rest[5..] }, 4 + len)))
}

struct To<'a>(&'a mut Vec<u8>);

impl To<'_> {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.u32(text.len() as u32);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn optional<T>(&mut self, value: Option<&T>, write: impl FnOnce(&mut Self, &T)) {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn object(&mut self, object: &Object) {
        self.text(object.key.as_str());
        let Version { size, tag, modified } = &object.version;
        self.u64(*size);
        self.optional(tag.as_ref(), |to, tag| to.text(tag));
        self.optional(modified.as_ref(), |to, modified| {
            let since = modified.duration_since(UNIX_EPOCH);
            to.u8(u8::from(since.is_err()));
            let time = since.unwrap_or_else(|before| before.duration());
            to.u64(time.as_secs());
            to.u32(time.subsec_nanos());
        });
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Directory(prefix) => {
                self.u8(0);
                self.text(prefix);
            }
            Node::File(object) => {
                self.u8(1);
                self.object(object);
            }
        }
    }

    fn call(&mut self, call: &Call) {
        match call {
            Call::Stat(key) => {
                self.u8(0);
                self.text(key.as_str());
            }
            Call::LookUp { prefix, name, read } => {
                self.u8(1);
                self.text(prefix);
                self.text(name);
                self.optional(read.as_ref(), |to, (start, end)| {
                    to.u64(*start);
                    to.u64(*end);
                });
            }
            Call::Entries { listing, prefix, place } => {
                self.u8(2);
                self.u32(*listing);
                self.text(prefix);
                self.u32(*place);
            }
            Call::EndEntries { listing } => {
                self.u8(3);
                self.u32(*listing);
            }
            Call::Expect { keys, ahead_bytes } => {
                self.u8(4);
                self.optional(ahead_bytes.as_ref(), |to, bytes| to.u64(*bytes));
                self.u32(keys.len() as u32);
                for key in keys {
                    self.text(key.as_str());
                }
            }
            Call::ExpectNone => self.u8(5),
            Call::Forget => self.u8(6),
            Call::Stats => self.u8(7),
            Call::Memory(bytes) => {
                self.u8(8);
                self.optional(bytes.as_ref(), |to, bytes| to.u64(*bytes));
            }
        }
    }

    fn reply(&mut self, reply: &Reply) {
        match reply {
            Reply::Object(object) => {
                self.u8(0);
                self.object(object);
            }
            Reply::Node(node) => {
                self.u8(1);
                self.node(node);
            }
            Reply::Entries { nodes, next } => {
                self.u8(2);
                self.optional(next.as_ref(), |to, next| to.u32(*next));
                self.u32(nodes.len() as u32);
                for node in nodes {
                    self.node(node);
                }
            }
            Reply::Gone => self.u8(3),
            Reply::Count(count) => {
                self.u8(4);
                self.u64(*count);
            }
            Reply::Nothing => self.u8(5),
            Reply::Stats { json, clients } => {
                self.u8(6);
                self.text(json);
                self.u32(*clients);
            }
        }
    }
}

/// What is left of the fields of a frame.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*head)
    }

    fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn str(&mut self) -> Result<&'a str, Malformed> {
        let len = self.u32()? as usize;
        std::str::from_utf8(self.take(len)?).map_err(|_| Malformed)
    }

    fn text(&mut self) -> Result<String, Malformed> {
        self.str().map(str::to_owned)
    }

    fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Malformed>) -> Result<Option<T>, Malformed> {
        match self.u8()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(Malformed),
        }
    }

    /// As many as are said to follow. Room is made as they come: a count alone takes no memory.
    fn all<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
        let count = self.u32()?;
        (0..count).map(|_| read(self)).collect()
    }

    fn key(&mut self) -> Result<Key, Malformed> {
        Ok(Key::new(self.str()?))
    }

    fn object(&mut self) -> Result<Object, Malformed> {
        let (key, size) = (self.key()?, self.u64()?);
        let tag = self.optional(|from| from.str().map(Into::into))?;
        let modified = self.optional(|from| {
            let (before, seconds, nanos) = (from.u8()?, from.u64()?, from.u32()?);
            if nanos >= 1_000_000_000 {
                return Err(Malformed);
            }
            let time = Duration::new(seconds, nanos);
            let at = if before == 0 { UNIX_EPOCH.checked_add(time) } else { UNIX_EPOCH.checked_sub(time) };
            at.ok_or(Malformed)
        })?;
        Ok(Object { key, version: Version { size, tag, modified } })
    }

    fn node(&mut self) -> Result<Node, Malformed> {
        match self.u8()? {
            0 => self.text().map(Node::Directory),
            1 => self.object().map(Node::File),
            _ => Err(Malformed),
        }
    }

    fn call(&mut self) -> Result<Call, Malformed> {
        Ok(match self.u8()? {
            0 => Call::Stat(self.key()?),
            1 => {
                let (prefix, name) = (self.text()?, self.text()?);
                let read = self.optional(|from| Ok((from.u64()?, from.u64()?)))?;
                Call::LookUp { prefix, name, read }
            }
            2 => Call::Entries { listing: self.u32()?, prefix: self.text()?, place: self.u32()? },
            3 => Call::EndEntries { listing: self.u32()? },
            4 => {
                let ahead_bytes = self.optional(Self::u64)?;
                Call::Expect { keys: self.all(Self::key)?, ahead_bytes }
            }
            5 => Call::ExpectNone,
            6 => Call::Forget,
            7 => Call::Stats,
            8 => Call::Memory(self.optional(Self::u64)?),
            _ => return Err(Malformed),
        })
    }

    fn reply(&mut self) -> Result<Reply, Malformed> {
        Ok(match self.u8()? {
            0 => Reply::Object(self.object()?),
            1 => Reply::Node(self.node()?),
            2 => {
                let next = self.optional(Self::u32)?;
                Reply::Entries { nodes: self.all(Self::node)?, next }
            }
            3 => Reply::Gone,
            4 => Reply::Count(self.u64()?),
            5 => Reply::Nothing,
            6 => Reply::Stats { json: self.text()?, clients: self.u32()? },
            _ => return Err(Malformed),
        })
    }
}

#[cfg(test)]
mod tests;
