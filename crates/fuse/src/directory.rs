//! An open directory: its children, a listing page at a time.
//!
//! ```text
//!   offset  0   1    2 ...             n              (what the kernel sends back to go on)
//!           .   ..   first page ──────>│ second page ──────>│
//!                    dropped once the reader is past it; an offset before it starts the listing again
//! ```

use foreread_engine::{Engine, Entry, Error, Object};

use crate::name;

/// One child as it is told to the kernel.
#[derive(Debug, Clone)]
pub(crate) enum Child {
    /// A directory, by its prefix.
    Directory(String),
    /// An object.
    File(Object),
}

/// The state of one open directory.
#[derive(Debug)]
pub(crate) struct Listing {
    prefix: String,
    /// Offset of the first child of `page`.
    first: u64,
    page: Vec<(String, Child)>,
    continuation: Option<String>,
    started: bool,
    /// Objects whose names the names to come may extend: a prefix of the same name would come after them.
    shadows: Vec<String>,
    skipped: u64,
}

impl Listing {
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            first: FIRST_CHILD,
            page: Vec::new(),
            continuation: None,
            started: false,
            shadows: Vec::new(),
            skipped: 0,
        }
    }

    /// The child at `offset` (at least [`FIRST_CHILD`]), fetching pages as needed. `None` at the end.
    pub(crate) async fn child(&mut self, engine: &Engine, offset: u64) -> Result<Option<&(String, Child)>, Error> {
        if offset < self.first {
            *self = Self::new(&self.prefix);
        }
        while offset >= self.first + self.page.len() as u64 {
            if self.started && self.continuation.is_none() {
                if self.skipped > 0 {
                    let (skipped, prefix) = (self.skipped, &self.prefix);
                    tracing::warn!(skipped, prefix, "objects whose names POSIX cannot express are not shown");
                    self.skipped = 0;
                }
                return Ok(None);
            }
            let page = engine.list(&self.prefix, self.continuation.as_deref()).await?;
            self.first += self.page.len() as u64;
            self.started = true;
            self.continuation = page.continuation;
            let entries = page.entries;
            self.page = entries.into_iter().filter_map(|entry| self.take(entry)).collect();
        }
        Ok(self.page.get((offset - self.first) as usize))
    }

    /// An entry as a child, unless it cannot have a name or has been told already.
    fn take(&mut self, entry: Entry) -> Option<(String, Child)> {
        let key = match &entry {
            Entry::Object(object) => object.key.as_str(),
            Entry::Prefix(prefix) => prefix,
        };
        let Some(name) = name::of_key(&self.prefix, key).map(str::to_owned) else {
            self.skipped += 1;
            return None;
        };
        self.shadows.retain(|shadow| name.starts_with(shadow.as_str()));
        if self.shadows.contains(&name) {
            return None;
        }
        match entry {
            Entry::Object(object) => {
                self.shadows.push(name.clone());
                Some((name, Child::File(object)))
            }
            Entry::Prefix(prefix) => Some((name, Child::Directory(prefix))),
        }
    }
}

/// The first offset that is neither `.` nor `..`.
pub(crate) const FIRST_CHILD: u64 = 2;
