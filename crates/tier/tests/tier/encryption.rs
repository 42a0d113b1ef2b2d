//! Folders that are encrypted.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use foreread_tier::{Error, Options, Secret, Tier};

use crate::content::{bytes, is_kept, object, offer, open, segments, small};

fn secret(folder: &Path, byte: u8) -> Secret {
    let path = folder.join(format!("key-{byte}"));
    fs::write(&path, [byte; 32]).expect("room");
    Secret::from_file(&path).expect("it is long enough")
}

fn with(secret: &Secret) -> Options {
    small().with_secret(Some(secret.clone()))
}

/// Whether any 32 bytes in a row of some content lie in a file of the folder.
fn is_visible(folder: &Path, content: &[u8]) -> bool {
    let files: Vec<_> = segments(folder).iter().map(|path| fs::read(path).expect("it is there")).collect();
    let seen = |piece: &[u8]| files.iter().any(|file| file.windows(piece.len()).any(|window| window == piece));
    content.chunks(4096).any(|page| seen(&page[..page.len().min(32)]))
}

#[test]
fn content_comes_back_with_the_key_and_is_not_seen_without() {
    let (folder, keys) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let key = secret(keys.path(), 1);
    for round in 0..3 {
        let tier = open(folder.path(), with(&key));
        for number in 0..5 {
            assert_eq!(is_kept(&tier, object(number), 0, 100_000), round > 0);
            assert!(offer(&tier, object(number), 0, 100_000));
        }
        tier.flush();
        assert!((0..5).all(|number| is_kept(&tier, object(number), 3, 8192)));
        assert_eq!(tier.stats().wrong, 0);
    }
    assert!(!is_visible(folder.path(), &bytes(object(1), 0, 100_000)));
    let verified = foreread_tier::verify(folder.path(), Some(&key), |_| {}).expect("it is the key");
    assert_eq!((verified.good, verified.wrong), (125, 0));

    // The same without a key: the test would see it.
    let plain = tempfile::tempdir().expect("a folder");
    offer(&open(plain.path(), small()), object(1), 0, 100_000);
    assert!(is_visible(plain.path(), &bytes(object(1), 0, 100_000)));
}

#[test]
fn a_folder_is_refused_without_its_key() {
    let (folder, keys) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (key, other) = (secret(keys.path(), 1), secret(keys.path(), 2));
    offer(&open(folder.path(), with(&key)), object(1), 0, 5000);
    let refused = |options| Tier::open(folder.path(), options).expect_err("it is refused");
    assert!(matches!(refused(small()), Error::Encrypted { .. }));
    assert!(matches!(refused(with(&other)), Error::OtherKey { .. }));
    assert!(matches!(foreread_tier::verify(folder.path(), None, |_| {}), Err(Error::Encrypted { .. })));
    assert!(is_kept(&open(folder.path(), with(&key)), object(1), 0, 5000), "nothing was changed");
    // How much there is can be seen, and it can be removed.
    assert_eq!(foreread_tier::summary(folder.path()).expect("it is a cache").entries, 1);
    assert!(foreread_tier::clear(folder.path()).expect("it is a cache") > 5000);

    let plain = tempfile::tempdir().expect("a folder");
    drop(open(plain.path(), small()));
    assert!(matches!(Tier::open(plain.path(), with(&key)), Err(Error::NotEncrypted { .. })));
}

#[test]
fn a_key_file_is_long_enough_and_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = |bytes: usize| {
        let path = folder.path().join("key");
        fs::write(&path, vec![7; bytes]).expect("room");
        Secret::from_file(&path)
    };
    assert!(of(32).is_ok() && of(4096).is_ok());
    for bytes in [0, 31, 4097, 1 << 20] {
        assert!(matches!(of(bytes), Err(Error::KeyLength { .. })), "{bytes}");
    }
    assert!(matches!(Secret::from_file(&folder.path().join("none")), Err(Error::KeyFile { .. })));
    assert!(!format!("{:?}", of(32)).contains('7'));
}

#[test]
fn names_of_objects_depend_on_the_key() {
    let (keys, folders) = (tempfile::tempdir().expect("a folder"), [(); 3].map(|()| tempfile::tempdir()));
    let [one, two, plain] = folders.map(|folder| folder.expect("a folder"));
    let key = secret(keys.path(), 1);
    let name = |tier: &Tier| tier.object("store", "key", "version");
    let (one, two, plain) = (open(one.path(), with(&key)), open(two.path(), with(&key)), open(plain.path(), small()));
    assert_eq!(name(&one), name(&one));
    assert!(name(&one) != name(&two) && name(&one) != name(&plain), "each folder has its salt");
    assert_eq!(name(&plain), foreread_tier::ObjectId::of("store", "key", "version"));
}

#[test]
fn what_was_changed_or_moved_is_a_miss() {
    let (folder, keys) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let key = secret(keys.path(), 1);
    let tier = open(folder.path(), with(&key));
    for number in 0..100 {
        assert!(offer(&tier, object(number), 0, 40_960));
        tier.flush();
    }
    drop(tier);
    let files = segments(folder.path());
    assert!(files.len() >= 4);
    // One bit of a page, one of a tag, and the pages of a segment in the place of another's.
    let flip = |file: &Path, at: u64| {
        let (file, mut byte) = (OpenOptions::new().read(true).write(true).open(file).expect("it is there"), [0]);
        file.read_exact_at(&mut byte, at).expect("it is there");
        file.write_all_at(&[byte[0] ^ 1], at).expect("room");
    };
    flip(&files[0], 4096 + 64 + 16 + 5);
    flip(&files[1], 4096 + 64 + 5);
    let (from, to) = (fs::read(&files[2]).expect("it is there"), OpenOptions::new().write(true).open(&files[3]));
    to.expect("it is there").write_all_at(&from[4096 + 64..4096 + 64 + 4112], 4096 + 64).expect("room");
    let tier = open(folder.path(), with(&key));
    let whole = (0..100).filter(|&number| is_kept(&tier, object(number), 0, 40_960)).count();
    assert_eq!((whole, tier.stats().wrong), (97, 3));
    assert!(is_kept(&tier, object(0), 1, 36_864) || tier.kept(object(0)).is_empty());
}

/// The set that is read shifts, but for one block in eight: segments leave, and these are carried
/// over, encrypted anew.
#[test]
fn what_is_carried_over_comes_back() {
    let (folder, keys) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let key = secret(keys.path(), 1);
    let tier = open(folder.path(), with(&key));
    for round in 0..12 {
        for at in 0..200 {
            let object = object(if at % 8 == 0 { 0 } else { 1 + round / 6 });
            if !is_kept(&tier, object, at * 32, 131_072) {
                offer(&tier, object, at * 32, 131_072);
            }
            tier.flush();
        }
    }
    let stats = tier.stats();
    assert!(stats.carried_bytes > 0 && stats.evicted_bytes > 0 && stats.wrong == 0, "{stats:?}");
    let carried = (0..200).step_by(8).filter(|&at| is_kept(&tier, object(0), at * 32, 131_072)).count();
    assert!(carried > 20, "{carried}");
}
