//! Configuration files and `mount.foreread`: named stores, what wins, and what is wrong.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::fixture::{Store, directory, expected, foreread, is_mounted, run};

/// A command with this configuration file.
fn configured(mut command: Command, dir: &std::path::Path, text: &str) -> Command {
    let path = dir.join("config.toml");
    fs::write(&path, text).expect("a file");
    command.env("FOREREAD_CONFIG", path);
    command
}

#[test]
fn a_store_has_a_name_and_the_command_line_wins() {
    let store = Store::with(&[("data/2026/key", 5_000)]);
    let dir = directory();
    let endpoint = store.testbed.endpoint();
    // Neither the profile nor the endpoint of the defaults exists.
    let text = format!(
        "[defaults]\nendpoint = \"http://127.0.0.1:1\"\nprofile = \"none\"\n\
         [stores.work]\nurl = \"s3://testbed/data\"\nendpoint = \"{endpoint}\"\nmemory = \"32M\"\nanonymous = true\n"
    );
    let command = || configured(store.foreread(), dir.path(), &text);
    // One that conflicts with an option of the store is left out.
    let told = run(command().args(["config", "check"])).ok().text();
    assert!(told.contains("work:/ is s3://testbed/data --anonymous"), "{told}");
    assert!(told.ends_with("--memory=32M\n"), "the profile of the defaults conflicts: {told}");
    run(command().args(["cat", "work:/2026/key"])).failed_saying(&["s3://testbed/data/2026/key"]);

    let text = text.replace("anonymous = true\n", "").replace("profile = \"none\"\n", "");
    let command = || configured(store.foreread(), dir.path(), &text);
    assert!(run(command().args(["cat", "work:/2026/key"])).ok().stdout == expected("data/2026/key", 0, 5_000));
    run(command().args(["cat", "work:/2026/key", "--endpoint", "http://127.0.0.1:2"]))
        .failed_saying(&["cannot be reached"]);
    run(command().args(["cat", "s3://testbed/data/2026/key"])).failed_saying(&["cannot be reached"]);
    run(command().args(["cat", "wrok:/2026/key"])).failed_saying(&["no store is called `wrok`", "`work`"]);
}

#[test]
fn the_users_file_wins_over_that_of_the_environment_only_where_none_is_named() {
    let store = Store::with(&[("key", 5_000)]);
    let home = directory();
    let folder = home.path().join(".config/foreread");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("config.toml"), "[stores.mine]\nurl = \"s3://testbed\"\n").expect("a file");
    let command = || {
        let mut command = store.foreread();
        command.env("HOME", home.path()).env_remove("FOREREAD_CONFIG");
        command
    };
    assert!(run(command().args(["cat", "mine:/key"])).ok().stdout == expected("key", 0, 5_000));
    run(command().env("FOREREAD_CONFIG", "").args(["cat", "mine:/key"])).failed_saying(&["no store is called `mine`"]);
    run(command().env("FOREREAD_CONFIG", "/nonexistent/c.toml").args(["cat", "mine:/key"]))
        .failed_saying(&["/nonexistent/c.toml: cannot be read"]);
}

#[test]
fn a_wrong_entry_is_named() {
    let dir = directory();
    for (text, words) in [
        ("[defaults]\nmemroy = \"1G\"\n", ["`memroy` is not known", "`memory` is"]),
        ("[defaults]\nmemory = \"much\"\n", ["`memory` cannot be \"much\"", "invalid value"]),
        ("[stores.work]\nprofile = \"w\"\n", ["[stores.work] has no `url`", "where the store is"]),
    ] {
        run(configured(foreread(), dir.path(), text).args(["config", "check"])).failed_saying(&words);
        run(configured(foreread(), dir.path(), text).args(["cat", "work:/key"])).failed_saying(&words);
    }
}

#[test]
fn mount_8_mounts_by_the_helper() {
    let store = Store::with(&[("data/key", 5_000)]);
    let (dir, mounted) = (directory(), directory());
    let helper = dir.path().join("mount.foreread");
    symlink(env!("CARGO_BIN_EXE_foreread"), &helper).expect("a link");
    let text = "[stores.work]\nurl = \"s3://testbed/data\"\n";
    let command = || {
        let known = configured(store.foreread(), dir.path(), text);
        let mut command = Command::new(&helper);
        for (name, value) in known.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    };
    let wrong = run(command().arg("work:/").arg(mounted.path()).args(["-o", "rw,memroy=32M"]));
    assert!(wrong.status.code() == Some(2) && wrong.stderr.contains("--memroy"), "{}", wrong.stderr);
    run(command().arg("work:/").arg(mounted.path()).args(["-o", "remount"])).failed_saying(&["foreread set"]);
    assert!(!is_mounted(mounted.path()));
    let options = "rw,nofail,_netdev,x-systemd.automount,memory=32M,metadata_ttl=10m,file_mode=440";
    run(command().arg("work:/").arg(mounted.path()).args(["-o", options])).ok();
    assert!(is_mounted(mounted.path()));
    assert!(fs::read(mounted.path().join("key")).expect("a file") == expected("data/key", 0, 5_000));
    run(foreread().arg("umount").arg(mounted.path())).ok();
}
