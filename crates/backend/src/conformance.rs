//! The suite that every backend passes. A backend is done when it does.
//!
//! # A new backend
//!
//! 1. Copy `file.rs`, the smallest complete one: a struct, [`Backend`] for it, and a function that
//!    sorts its errors into [`ErrorKind`]s. Storage that speaks HTTP starts from `web.rs` instead
//!    and uses `wire.rs` and `response.rs`; a service that `opendal` has needs only a `Dialect` in
//!    `cloud/`.
//! 2. State its [`Capabilities`](crate::Capabilities). What storage cannot do is an error, never a
//!    guess.
//! 3. Name its scheme in `connect.rs`, with a message for likely typing errors.
//! 4. Run the suite against a real server or an emulator, from a test in `tests/`:
//!
//! ```no_run
//! # use foreread_backend::{connect, conformance::{self, Seeder}};
//! # use futures::{FutureExt, future::BoxFuture};
//! struct Folder(std::path::PathBuf);
//!
//! impl Seeder for Folder {
//!     fn put<'a>(
//!         &'a self,
//!         key: &'a str,
//!         size: u64,
//!         generation: u64,
//!     ) -> BoxFuture<'a, Result<bool, String>> {
//!         async move {
//!             let path = self.0.join(key);
//!             std::fs::create_dir_all(path.parent().unwrap()).map_err(|e| e.to_string())?;
//!             let content = self.content(key, generation, 0..size);
//!             std::fs::write(path, content).map_err(|e| e.to_string())?;
//!             Ok(true)
//!         }
//!         .boxed()
//!     }
//! }
//!
//! # async fn test() {
//! let backend = connect("/tmp/folder", &Default::default()).unwrap().backend;
//! conformance::check(&*backend, &Folder("/tmp/folder".into())).await;
//! # }
//! ```
//!
//! Each function here is one promise. It panics with the promise's name and the result that breaks
//! it.

use std::collections::BTreeMap;
use std::ops::Range;

use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt, stream};

use crate::{Backend, Current, Entry, Error, ErrorKind, Key, Object};

/// Puts objects into the storage that a backend reads.
pub trait Seeder: Send + Sync {
    /// Makes or replaces an object of `size` bytes. Returns false when the storage cannot hold
    /// this name.
    fn put<'a>(&'a self, key: &'a str, size: u64, generation: u64) -> BoxFuture<'a, Result<bool, String>>;

    /// Whether the storage distinguishes two contents of one size when one replaces the other
    /// within a second. Servers that know files by size and time do not.
    fn tells_contents_apart(&self) -> bool {
        true
    }

    /// The bytes of `range` of an object: a function of the three arguments, so that any read can
    /// be checked.
    fn content(&self, key: &str, generation: u64, range: Range<u64>) -> Vec<u8> {
        pattern(key, generation, range)
    }
}

/// Objects of the long listing: more than a page holds.
const MANY: usize = 1_050;

/// Objects that are put at the same time. Lower: the suite is slower. Higher: small emulators
/// refuse connections.
const PUTS: usize = 16;

/// How often a call is made before a transient failure counts. Lower: the suite fails on a closed
/// connection. Higher: it hides faults.
const ATTEMPTS: usize = 3;

/// Sizes around page boundaries and the ends of objects.
const SIZES: [u64; 6] = [0, 1, 4095, 4096, 4097, (1 << 20) + 3];

/// Names that storage is likely to trim, decode, encode twice, normalise, or confuse with another
/// name of this list.
const NAMES: [&str; 30] = [
    "names/plain",
    "names/with space",
    "names/a b",
    "names/a+b",
    "names/a%20b",
    "names/A",
    "names/%41",
    "names/100%",
    "names/%2F",
    "names/%2e%2e",
    "names/a#b",
    "names/a?b=c",
    "names/a",
    "names/a&b;c=d,e@f$g",
    "names/quote'\"quote",
    "names/(1)[2]{3}*!~^|`",
    "names/back\\slash",
    "names/co:lon",
    "names/<x>&amp;</x>",
    "names/.hidden",
    "names/...",
    "names/ends.",
    "names/ends ",
    "names/ begins",
    "names/ü/日本語/🦀",
    "names/e\u{301}",
    "names/é",
    "names/tab\tnewline\nreturn\r",
    " begins with a space",
    "ends with a space ",
];

/// Runs the whole suite. The storage should be empty, or at least below the prefixes used here.
pub async fn check(backend: &dyn Backend, seeder: &dyn Seeder) {
    sizes_are_told(backend, seeder).await;
    ranges_are_exact(backend, seeder).await;
    first_reads_describe(backend, seeder).await;
    versions_are_not_mixed(backend, seeder).await;
    missing_objects_are_not_found(backend, seeder).await;
    names_are_taken_literally(backend, seeder).await;
    other_spellings_are_not_the_object(backend, seeder).await;
    listings_are_direct_children(backend, seeder).await;
    listings_have_pages(backend, seeder).await;
    listings_begin_anywhere(backend, seeder).await;
    abandoned_bodies_do_no_harm(backend, seeder).await;
    reads_run_in_parallel(backend, seeder).await;
}

/// A stat shows the size, also for empty and odd sizes.
pub async fn sizes_are_told(backend: &dyn Backend, seeder: &dyn Seeder) {
    for size in SIZES {
        let key = format!("sizes/{size}");
        put(seeder, &key, size, 1).await;
        let object = stat(backend, &key).await;
        assert_eq!(object.version.size, size, "sizes are told: {key}");
        if size > 0 {
            expect(backend, seeder, &object, 1, 0..size).await;
        }
    }
}

/// A read yields the bytes of its range and no others.
pub async fn ranges_are_exact(backend: &dyn Backend, seeder: &dyn Seeder) {
    let size = 3 * (1 << 20) + 17;
    put(seeder, "ranges/object", size, 1).await;
    let object = stat(backend, "ranges/object").await;
    let ranges = [
        0..1,
        0..4096,
        1..2,
        4095..4097,
        size / 2..size / 2 + 131_072,
        1..size,
        size - 4097..size,
        size - 1..size,
        0..size,
    ];
    for range in ranges {
        expect(backend, seeder, &object, 1, range).await;
    }
}

/// A read of an object of which nothing is known tells what a stat does, and has the bytes that a
/// read of that version has. One that has none of the bytes, or no object, is an error.
pub async fn first_reads_describe(backend: &dyn Backend, seeder: &dyn Seeder) {
    let first = async |key: &str, range: Range<u64>| {
        let key = &Key::new(key);
        persist(|| async {
            let Current { object, range, body } = backend.read_current(key, range.clone()).await?;
            let bytes: Vec<_> = body.try_collect().await?;
            Ok((object, range, bytes.concat()))
        })
        .await
    };
    put(seeder, "first/empty", 0, 1).await;
    if !backend.capabilities().read_current {
        let error = first("first/empty", 0..1).await.expect_err("it is not supported");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        return;
    }
    let size = 10_000;
    put(seeder, "first/object", size, 1).await;
    let object = stat(backend, "first/object").await;
    for range in [0..1, 0..size, 0..size + 1, 0..1 << 40, 4095..4097, size - 1..size + 7] {
        let (found, reached, bytes) =
            first("first/object", range.clone()).await.unwrap_or_else(|e| panic!("bytes {range:?}: {e}"));
        assert_eq!(found, object, "a first read of {range:?} is of the version that a stat tells");
        assert_eq!(reached, range.start..range.end.min(size), "as far as the object reaches");
        assert!(bytes == seeder.content("first/object", 1, reached.clone()), "bytes {reached:?}");
    }
    for (key, range) in [("first/object", size..size + 1), ("first/empty", 0..1)] {
        let error = first(key, range).await.expect_err("no such bytes");
        assert_ne!(error.kind(), ErrorKind::NotFound, "the object is there: {error}");
    }
    for key in ["first/none", "first", "first/", "first/object/"] {
        let error = first(key, 0..10).await.expect_err("no such object");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{key}: {error}");
    }
}

/// Bytes belong to the version that was asked for, or the read fails with [`ErrorKind::Changed`].
pub async fn versions_are_not_mixed(backend: &dyn Backend, seeder: &dyn Seeder) {
    let size = 300_000;
    put(seeder, "versions/object", size, 1).await;
    let old = stat(backend, "versions/object").await;
    assert_eq!(stat(backend, "versions/object").await, old, "an object that is left alone keeps its version");
    let size = if seeder.tells_contents_apart() { size } else { size + 1 };
    put(seeder, "versions/object", size, 2).await;
    let new = stat(backend, "versions/object").await;
    assert_ne!(new.version, old.version, "a replaced object has another version");
    for range in [0..10, 100_000..200_000, 0..300_000] {
        match read(backend, &old, range.clone()).await {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Changed, "a read of an old version: {error}"),
            Ok(_) => panic!("bytes {range:?} of an old version were read after the object was replaced"),
        }
    }
    expect(backend, seeder, &new, 2, 0..size).await;
    let mut future = new.clone();
    future.version.size -= 1;
    future.version.tag = future.version.tag.map(|tag| format!("{}0\"", tag.trim_end_matches('"')).into());
    match read(backend, &future, 0..10).await {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Changed, "a read of a version that never was: {error}"),
        Ok(_) => panic!("a version that never was has been read"),
    }
}

/// A missing object is [`ErrorKind::NotFound`], also if there is a prefix of that name.
pub async fn missing_objects_are_not_found(backend: &dyn Backend, seeder: &dyn Seeder) {
    put(seeder, "missing/prefix/object", 10, 1).await;
    let mut object = stat(backend, "missing/prefix/object").await;
    for key in
        ["missing/none", "missing/prefix", "missing/prefix/", "missing/prefix/object/", "missing/prefix/object/x"]
    {
        let key = &Key::new(key);
        match persist(|| backend.stat(key)).await {
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "a stat of {key}: {error}"),
            Ok(object) => panic!("a stat of {key} found {object:?}"),
        }
    }
    object.key = Key::new("missing/none");
    match read(backend, &object, 0..10).await {
        // Storage that checks the condition first reports that it does not hold.
        Err(error) => assert!(
            matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Changed),
            "a read of what is not there: {error}"
        ),
        Ok(_) => panic!("a read of what is not there succeeded"),
    }
}

/// A key is its exact text, and listings show the same text.
pub async fn names_are_taken_literally(backend: &dyn Backend, seeder: &dyn Seeder) {
    let segment = "0123456789".repeat(20);
    let mut long = format!("names/long/{segment}/{segment}/{segment}/{segment}/{segment}");
    long.extend(std::iter::repeat_n('x', 1024 - long.len()));
    assert_eq!(long.len(), 1024, "the longest name");
    let names: Vec<&str> = NAMES.iter().copied().chain([long.as_str()]).collect();
    // Each object has a size of its own, so that none is taken for another.
    let puts = names.iter().enumerate().map(|(i, name)| async move {
        let put = seeder.put(name, 100 + i as u64, 1).await;
        put.unwrap_or_else(|e| panic!("cannot put {name:?}: {e}")).then_some((*name, 100 + i as u64))
    });
    let held: Vec<(&str, u64)> =
        stream::iter(puts).buffer_unordered(PUTS).filter_map(std::future::ready).collect().await;
    assert!(held.len() * 2 > names.len(), "the storage holds at least half of the names, not {}", held.len());
    for &(name, size) in &held {
        let object = stat(backend, name).await;
        assert_eq!(object.key.as_str(), name, "names are taken literally");
        assert_eq!(object.version.size, size, "names are taken literally: {name:?} is another object");
        expect(backend, seeder, &object, 1, 0..size).await;
        if backend.capabilities().list {
            let prefix = name.rfind('/').map_or("", |slash| &name[..=slash]);
            let listed = list(backend, prefix).await;
            let entry = listed.get(name).unwrap_or_else(|| panic!("{name:?} is not listed: {:?}", listed.keys()));
            agrees(entry, &object);
        }
    }
}

/// A spelling that a path or a URL would resolve to an object does not name the object.
pub async fn other_spellings_are_not_the_object(backend: &dyn Backend, seeder: &dyn Seeder) {
    put(seeder, "spellings/object", 10, 1).await;
    let others = [
        "spellings/../spellings/object",
        "spellings/./object",
        "./spellings/object",
        "/spellings/object",
        "spellings//object",
    ];
    for key in others {
        if let Ok(object) = backend.stat(&Key::new(key)).await {
            panic!("a stat of {key:?} found {object:?}");
        }
    }
}

/// A listing holds the objects and prefixes directly below a prefix, as a stat describes them.
pub async fn listings_are_direct_children(backend: &dyn Backend, seeder: &dyn Seeder) {
    if !backend.capabilities().list {
        let error = backend.list("", None).await.expect_err("a listing although there are none");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        return;
    }
    for key in ["tree/a", "tree/b/c", "tree/b/d/e", "tree/b/d/f", "tree/bc", "trees/x"] {
        put(seeder, key, 5, 1).await;
    }
    // A marker of a directory, where the storage can hold one: no child, and in a file system no
    // object.
    let _ = seeder.put("tree/b/", 0, 1).await;
    let names = |listed: BTreeMap<String, Entry>| listed.into_keys().collect::<Vec<_>>();
    assert_eq!(names(list(backend, "tree/").await), ["tree/a", "tree/b/", "tree/bc"], "direct children");
    assert_eq!(names(list(backend, "tree/b/").await), ["tree/b/c", "tree/b/d/"], "direct children");
    assert_eq!(names(list(backend, "tree/b/d/").await), ["tree/b/d/e", "tree/b/d/f"], "direct children");
    let root = names(list(backend, "").await);
    assert!(["tree/", "trees/"].iter().all(|name| root.contains(&(*name).to_owned())), "the root: {root:?}");
    for (name, entry) in list(backend, "tree/b/d/").await {
        agrees(&entry, &stat(backend, &name).await);
    }
    for prefix in ["tree/none/", "none/", "tree/a/"] {
        if backend.capabilities().directories {
            let error = persist(|| backend.list(prefix, None)).await.expect_err("a directory that does not exist");
            assert_eq!(error.kind(), ErrorKind::NotFound, "a listing of {prefix}: {error}");
        } else {
            assert_eq!(names(list(backend, prefix).await), [""; 0], "a prefix without children: {prefix}");
        }
    }
}

/// A long listing comes in pages, complete and without repetition, and a page can be asked for
/// again.
pub async fn listings_have_pages(backend: &dyn Backend, seeder: &dyn Seeder) {
    if !backend.capabilities().list {
        return;
    }
    let key = |i| if i % 10 == 0 { format!("many/{i:05}/x") } else { format!("many/{i:05}") };
    stream::iter(0..MANY).map(|i| async move { put(seeder, &key(i), 1, 1).await }).buffer_unordered(PUTS).count().await;
    let listed = list(backend, "many/").await;
    assert_eq!(listed.len(), MANY, "a listing of pages is complete");
    let prefixes = listed.values().filter(|entry| matches!(entry, Entry::Prefix(_))).count();
    assert_eq!(prefixes, MANY.div_ceil(10), "a listing of pages has its prefixes");
    let page = |continuation| persist(move || backend.list("many/", continuation));
    let first = page(None).await.expect("the first page");
    if let Some(token) = &first.continuation {
        let second = page(Some(token)).await.expect("the second page");
        let again = page(Some(token)).await.expect("the second page again");
        // Where each file is described by a request of its own, a page ends where patience does.
        let both = second.entries.len().min(again.entries.len());
        assert!(both > 0, "a page that is not the last one has entries");
        assert_eq!(second.entries[..both], again.entries[..both], "a page can be asked for again");
        let same_end = second.entries.len() == again.entries.len();
        assert!(!same_end || second.continuation == again.continuation, "and leads to the same next one");
    }
}

/// A listing of children, or of all objects below, begins after any given key and is in key order.
pub async fn listings_begin_anywhere(backend: &dyn Backend, seeder: &dyn Seeder) {
    if !backend.capabilities().list_after {
        return;
    }
    let mut keys = Vec::new();
    for key in ["deep/a", "deep/a.z", "deep/a/b/x", "deep/a/y", "deep/c/", "deep/c/d", "deep/é/f"] {
        // Emulators on a file system cannot hold all of them.
        if seeder.put(key, 1, 1).await.unwrap_or_else(|e| panic!("cannot put {key:?}: {e}")) {
            keys.push(key);
        }
    }
    let name = |entry: Entry| entry.key().to_owned();
    for after in keys.iter().copied().chain(["deep/", "deep/b", "deep/a/b/", "deep/zz"]) {
        let page = persist(move || backend.list_below("deep/", after)).await.expect("a page of all that lies below");
        let found: Vec<_> = page.entries.into_iter().map(name).filter(|name| name != after).collect();
        let wanted: Vec<_> = keys.iter().copied().filter(|&key| key > after).collect();
        assert_eq!(found, wanted, "all that lies below, after {after}");
        let page = persist(move || backend.list_after("deep/", after)).await.expect("a page of what comes after");
        let found: Vec<_> = page.entries.into_iter().map(name).filter(|name| name.as_str() > after).collect();
        let end = |key: &str| key["deep/".len()..].find('/').map(|slash| "deep/".len() + slash + 1);
        let child = |key: &&str| end(key).map_or(*key, |end| &key[..end]).to_owned();
        let mut wanted: Vec<_> = keys.iter().map(child).filter(|child| child.as_str() > after).collect();
        wanted.dedup();
        assert_eq!(found, wanted, "children that come after {after}");
    }
}

/// A body that is dropped half-way leaves the backend usable.
pub async fn abandoned_bodies_do_no_harm(backend: &dyn Backend, seeder: &dyn Seeder) {
    let size = 8 << 20;
    put(seeder, "abandoned/object", size, 1).await;
    let object = stat(backend, "abandoned/object").await;
    for i in 0..8 {
        let body = backend.read(&object.key, &object.version, i..size).await;
        let mut body = body.unwrap_or_else(|e| panic!("a read after an abandoned one: {e}"));
        body.next().await.expect("some bytes").unwrap_or_else(|e| panic!("a body after an abandoned one: {e}"));
        drop(body);
        expect(backend, seeder, &object, 1, i * 1000..i * 1000 + 5000).await;
    }
}

/// Reads of one object at the same time do not disturb each other.
pub async fn reads_run_in_parallel(backend: &dyn Backend, seeder: &dyn Seeder) {
    let (size, part) = (4_u64 << 20, 131_072);
    put(seeder, "parallel/object", size, 1).await;
    let object = &stat(backend, "parallel/object").await;
    let parts = (0..size).step_by(part as usize).map(|start| expect(backend, seeder, object, 1, start..start + part));
    stream::iter(parts).buffer_unordered(32).count().await;
}

async fn put(seeder: &dyn Seeder, key: &str, size: u64, generation: u64) {
    match seeder.put(key, size, generation).await {
        Ok(true) => {}
        Ok(false) => panic!("the storage refuses the plain name {key:?}"),
        Err(error) => panic!("cannot put {key:?}: {error}"),
    }
}

async fn stat(backend: &dyn Backend, key: &str) -> Object {
    let key = &Key::new(key);
    persist(|| backend.stat(key)).await.unwrap_or_else(|e| panic!("a stat of an object that is there: {e}"))
}

async fn read(backend: &dyn Backend, object: &Object, range: Range<u64>) -> Result<Vec<u8>, Error> {
    persist(|| async {
        let body = backend.read(&object.key, &object.version, range.clone()).await?;
        body.try_fold(Vec::new(), |mut bytes, piece| async move {
            bytes.extend_from_slice(&piece);
            Ok(bytes)
        })
        .await
    })
    .await
}

/// Repeats a call after a transient failure, as callers do: a server may close an idle connection
/// at any moment, even as it is used again.
async fn persist<T, F: Future<Output = Result<T, Error>>>(call: impl Fn() -> F) -> Result<T, Error> {
    for _ in 1..ATTEMPTS {
        match call().await {
            Err(error) if error.kind().is_retryable() => {}
            settled => return settled,
        }
    }
    call().await
}

/// Reads a range and compares every byte.
async fn expect(backend: &dyn Backend, seeder: &dyn Seeder, object: &Object, generation: u64, range: Range<u64>) {
    let found = read(backend, object, range.clone()).await.unwrap_or_else(|e| panic!("a read: {e}"));
    let wanted = seeder.content(object.key.as_str(), generation, range.clone());
    assert_eq!(found.len(), wanted.len(), "the length of bytes {range:?} of {:?}", object.key);
    if let Some(at) = found.iter().zip(&wanted).position(|(a, b)| a != b) {
        panic!("bytes {range:?} of {:?} differ from offset {} on", object.key, range.start + at as u64);
    }
}

/// All pages of a listing by name.
async fn list(backend: &dyn Backend, prefix: &str) -> BTreeMap<String, Entry> {
    let (mut entries, mut continuation) = (BTreeMap::new(), None);
    loop {
        let page = persist(|| backend.list(prefix, continuation.as_deref())).await;
        let page = page.unwrap_or_else(|e| panic!("a listing of {prefix:?}: {e}"));
        for entry in page.entries {
            let name = match &entry {
                Entry::Object(object) => object.key.as_str().to_owned(),
                Entry::Prefix(prefix) => prefix.clone(),
            };
            assert!(entries.insert(name.clone(), entry).is_none(), "{name:?} is listed twice below {prefix:?}");
        }
        continuation = page.continuation;
        if continuation.is_none() {
            return entries;
        }
    }
}

/// A listing agrees with a stat, as far as it tells.
fn agrees(entry: &Entry, object: &Object) {
    match entry {
        Entry::Object(listed) => assert_eq!(listed, object, "a listing and a stat agree"),
        Entry::Prefix(prefix) => panic!("{:?} is listed as the prefix {prefix:?}", object.key),
    }
}

/// Bytes without a period, so that a shifted or exchanged range shows.
fn pattern(key: &str, generation: u64, range: Range<u64>) -> Vec<u8> {
    // FNV-1a of the name, then splitmix64 of each word's index.
    let seed = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64 ^ generation, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let word = |index: u64| {
        let mut z = seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).to_le_bytes()
    };
    let words = (range.start / 8..range.end.div_ceil(8)).flat_map(word);
    words.skip((range.start % 8) as usize).take((range.end - range.start) as usize).collect()
}
