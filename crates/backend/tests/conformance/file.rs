//! The suite on a local directory, and cases that only a directory has: symlinks, special files,
//! other encodings.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use foreread_backend::conformance;
use foreread_backend::{
    Backend, Buffers, ConnectOptions, Entry, Error, ErrorKind, Frames, Key, Mechanism, Object, Told, connect,
};

use crate::seed::Folder;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let backend = connect(folder.path().to_str().unwrap(), &ConnectOptions::default()).unwrap().backend;
    conformance::check(&*backend, &Folder::new(folder.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_read_by_threads_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let options = ConnectOptions::default().with_local(Mechanism::Threads);
    let backend = connect(folder.path().to_str().unwrap(), &options).unwrap().backend;
    assert_eq!(backend.submission().unwrap().mechanism(), Mechanism::Threads);
    conformance::check(&*backend, &Folder::new(folder.path())).await;
}

/// Reads a page in place, of the version in `object`.
fn read_in_place(backend: &dyn Backend, object: &Object, offset: u64) -> Result<Vec<u8>, Error> {
    let (send, receive) = std::sync::mpsc::channel();
    let done = Box::new(move |told: Told| {
        let _ = send.send(told.read.map(|buffers: Buffers| buffers.iter().flat_map(|b| b.to_vec()).collect()));
    });
    backend.positioned(object).unwrap().read(offset, [Frames::new(4096)].into(), done);
    receive.recv().unwrap()
}

#[tokio::test]
async fn a_file_that_changed_is_not_read_in_place() {
    for local in [Mechanism::IoUring, Mechanism::Threads] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, vec![1; 16384]).unwrap();
        let options = ConnectOptions::default().with_local(local);
        let backend = connect(folder.path().to_str().unwrap(), &options).unwrap().backend;
        let object = backend.stat(&Key::new("file")).await.unwrap();
        let open = backend.positioned(&object).unwrap();
        assert_eq!(read_in_place(&*backend, &object, 4096).unwrap(), vec![1; 4096]);
        let (send, receive) = std::sync::mpsc::channel();
        let read = |offset| {
            let send = send.clone();
            let done = Box::new(move |told: Told| {
                let _ = send.send(told.read);
            });
            open.read(offset, [Frames::new(4096)].into(), done);
            receive.recv().unwrap()
        };
        assert!(read(0).is_ok());
        // Through the open descriptor, and through a new one.
        fs::write(&path, vec![2; 16385]).unwrap();
        assert_eq!(read(8192).unwrap_err().kind(), ErrorKind::Changed, "{local}");
        assert_eq!(read_in_place(&*backend, &object, 8192).unwrap_err().kind(), ErrorKind::Changed, "{local}");
        let object = backend.stat(&Key::new("file")).await.unwrap();
        assert_eq!(read_in_place(&*backend, &object, 0).unwrap(), vec![2; 4096]);
        let open = backend.positioned(&object).unwrap();
        fs::rename(folder.path().join("file"), folder.path().join("old")).unwrap();
        fs::write(&path, vec![3; 16385]).unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        let done = Box::new(move |told: Told| send.send(told.read.map(|_| ())).unwrap());
        open.read(0, [Frames::new(4096)].into(), done);
        assert_eq!(receive.recv().unwrap().unwrap_err().kind(), ErrorKind::Changed, "{local}");
    }
}

#[tokio::test]
async fn descriptors_stay_open_and_have_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let backend = connect(folder.path().to_str().unwrap(), &ConnectOptions::default()).unwrap().backend;
    let mut objects = Vec::new();
    for index in 0..700_u32 {
        fs::write(folder.path().join(format!("{index}")), index.to_le_bytes().repeat(1024)).unwrap();
        let object = backend.stat(&Key::new(format!("{index}"))).await.unwrap();
        objects.push((backend.positioned(&object).unwrap(), index));
    }
    let here = folder.path().canonicalize().unwrap();
    let open = || {
        let all = fs::read_dir("/proc/self/fd").unwrap().flatten();
        all.filter(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.starts_with(&here))).count()
    };
    for _ in 0..2 {
        for (positioned, index) in &objects {
            let (send, receive) = std::sync::mpsc::channel();
            let done = Box::new(move |told: Told| send.send(told.read).unwrap());
            positioned.read(0, [Frames::new(4096)].into(), done);
            assert_eq!(*receive.recv().unwrap().unwrap()[0], index.to_le_bytes().repeat(1024));
        }
        assert!((200..=257).contains(&open()), "{} are open", open());
    }
    drop(objects);
    assert!(open() <= 1, "{} are still open", open());
}

#[tokio::test]
async fn a_path_in_the_kernels_memory_is_described_without_a_wait() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "content").unwrap();
    let backend = connect(folder.path().to_str().unwrap(), &ConnectOptions::default()).unwrap().backend;
    let key = Key::new("file");
    let mut stat = backend.stat(&key);
    let polled = stat.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(matches!(polled, std::task::Poll::Ready(Ok(object)) if object.version.size == 7));
}

#[tokio::test]
async fn symlinks_are_followed_below_the_root_only() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/file"), "content").unwrap();
    symlink("../file", root.join("a/b/inside")).unwrap();
    symlink("../../c", root.join("a/b/there")).unwrap();
    fs::create_dir(root.join("c")).unwrap();
    fs::write(root.join("c/far"), "content").unwrap();
    symlink("../../..", root.join("a/b/up")).unwrap();
    symlink(outside.path().join("secret"), root.join("a/absolute")).unwrap();
    symlink("nowhere", root.join("a/broken")).unwrap();
    symlink("self", root.join("a/self")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("a/pipe"), rustix::fs::Mode::RUSR).unwrap();
    fs::write(root.join("a").join(OsStr::from_bytes(b"latin-\xe9")), "x").unwrap();
    let backend = connect(root.to_str().unwrap(), &ConnectOptions::default()).unwrap().backend;

    let inside = backend.stat(&Key::new("a/b/inside")).await.unwrap();
    assert_eq!(inside.version, backend.stat(&Key::new("a/file")).await.unwrap().version);
    let far = backend.stat(&Key::new("a/b/there/far")).await.unwrap();
    assert_eq!(far.version, backend.stat(&Key::new("c/far")).await.unwrap().version);
    let outside_name = outside.path().file_name().unwrap().to_str().unwrap();
    for key in ["a/absolute", "a/broken", "a/self", "a/pipe", "a/b", &format!("a/b/up/{outside_name}/secret")] {
        assert_eq!(backend.stat(&Key::new(key)).await.unwrap_err().kind(), ErrorKind::NotFound, "{key}");
    }
    let name = |entry: &Entry| match entry {
        Entry::Object(object) => object.key.as_str().to_owned(),
        Entry::Prefix(prefix) => prefix.clone(),
    };
    let mut names: Vec<_> = backend.list("a/", None).await.unwrap().entries.iter().map(name).collect();
    names.sort();
    assert_eq!(names, ["a/b/", "a/file"]);
    let mut names: Vec<_> = backend.list("a/b/", None).await.unwrap().entries.iter().map(name).collect();
    names.sort();
    assert_eq!(names, ["a/b/inside", "a/b/there/"]);
    assert_eq!(backend.list("a/b/up/", None).await.unwrap_err().kind(), ErrorKind::NotFound);
}

/// Everything that a walk finds, at most a thousand names.
async fn walk(backend: &dyn Backend) -> Vec<String> {
    let (mut found, mut next) = (Vec::new(), vec![String::new()]);
    while let Some(prefix) = next.pop() {
        for entry in backend.list(&prefix, None).await.unwrap().entries {
            match entry {
                Entry::Object(object) => found.push(object.key.as_str().to_owned()),
                Entry::Prefix(prefix) => next.push(prefix),
            }
        }
        assert!(found.len() + next.len() < 1000, "a walk does not end: {found:?}");
    }
    found.sort();
    found
}

#[tokio::test]
async fn links_between_directories_do_not_lead_in_a_circle() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for name in ["a", "b", "c/deep"] {
        fs::create_dir_all(root.join(name)).unwrap();
        fs::write(root.join(name).join("file"), "content").unwrap();
    }
    // To one above it, by two names; to itself; and two that lead to each other.
    for (to, link) in [("..", "a/up"), ("..", "a/up2"), (".", "a/same"), ("../a", "b/a"), ("../b", "a/b")] {
        symlink(to, root.join(link)).unwrap();
    }
    symlink("../../c", root.join("c/deep/c")).unwrap();
    let backend = connect(root.to_str().unwrap(), &ConnectOptions::default()).unwrap().backend;
    assert_eq!(walk(&*backend).await, ["a/b/file", "a/file", "b/a/file", "b/file", "c/deep/file"]);
    // By name as in a listing.
    for key in ["a/up/a/file", "a/same/file", "a/b/a/file", "c/deep/c/deep/file"] {
        assert_eq!(backend.stat(&Key::new(key)).await.unwrap_err().kind(), ErrorKind::NotFound, "{key}");
    }
    for prefix in ["a/up/", "a/b/a/", "c/deep/c/"] {
        assert_eq!(backend.list(prefix, None).await.unwrap_err().kind(), ErrorKind::NotFound, "{prefix}");
    }
}

#[tokio::test]
async fn a_path_names_a_directory_or_one_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "content").unwrap();
    let path = folder.path().to_str().unwrap();
    let options = ConnectOptions::default();
    assert_eq!(connect(path, &options).unwrap().path, "");
    assert_eq!(connect(&format!("file://{path}/"), &options).unwrap().path, "");
    let file = connect(&format!("{path}/file"), &options).unwrap();
    assert_eq!(file.path, "file");
    assert_eq!(file.backend.stat(&Key::new("file")).await.unwrap().version.size, 7);
    let error = connect(&format!("{path}/none"), &options).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("/none"), "{error}");
    assert_eq!(connect("/dev/null", &options).err().unwrap().kind(), ErrorKind::Invalid);
}
