//! The suite against a local directory, and what only a directory can do: symlinks, special files, other encodings.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use foreread_backend::conformance;
use foreread_backend::{ConnectOptions, Entry, ErrorKind, Key, connect};

use crate::seed::Folder;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let backend = connect(folder.path().to_str().unwrap(), &ConnectOptions::default()).unwrap().backend;
    conformance::check(&*backend, &Folder::new(folder.path())).await;
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
    symlink("../../a/b", root.join("a/b/loop")).unwrap();
    symlink("../../..", root.join("a/b/up")).unwrap();
    symlink(outside.path().join("secret"), root.join("a/absolute")).unwrap();
    symlink("nowhere", root.join("a/broken")).unwrap();
    symlink("self", root.join("a/self")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("a/pipe"), rustix::fs::Mode::RUSR).unwrap();
    fs::write(root.join("a").join(OsStr::from_bytes(b"latin-\xe9")), "x").unwrap();
    let backend = connect(root.to_str().unwrap(), &ConnectOptions::default()).unwrap().backend;

    let inside = backend.stat(&Key::new("a/b/inside")).await.unwrap();
    assert_eq!(inside.version, backend.stat(&Key::new("a/file")).await.unwrap().version);
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
    assert_eq!(names, ["a/b/inside", "a/b/loop/"]);
    assert_eq!(backend.list("a/b/up/", None).await.unwrap_err().kind(), ErrorKind::NotFound);
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
