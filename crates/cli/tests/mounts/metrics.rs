//! `--metrics`: what a mount serves, and what becomes of bad input. `monitor/tests` has the rest.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use crate::fixture::{Store, directory, expected, have, run, until};

/// What `address` answers.
fn get(address: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(address).expect("a connection");
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("it is sent");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("an answer");
    text
}

#[test]
fn a_mount_in_the_background_says_where_its_metrics_are_and_serves_them() {
    let (store, dir) = (Store::with(&[("secret/a", 4 << 20)]), directory());
    let said = run(store.foreread().args(["mount", "s3://testbed"]).arg(dir.path()).args(["--metrics", "127.0.0.1:0"]))
        .ok()
        .stderr;
    let address = said.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address").to_owned();
    assert!(fs::read(dir.path().join("secret/a")).expect("a file") == expected("secret/a", 0, 4 << 20));
    let text = get(&address, "/metrics");
    assert!(text.contains("\nforeread_read_bytes_total 4194304\n") && !text.contains("secret"), "{text}");
    assert!(get(&address, "/").contains("s3://testbed") && get(&address, "/healthz").ends_with("ok\n"));

    // The port is taken, and nothing is mounted for that.
    let other = directory();
    let mut second = store.foreread();
    second.args(["mount", "s3://testbed"]).arg(other.path()).args(["--metrics", &address]);
    run(&mut second).failed_saying(&["metrics cannot be served", "in use", "another mount", "port 0"]);
    assert_eq!(fs::read_dir(other.path()).expect("the directory").count(), 0);

    run(store.foreread().arg("umount").arg(dir.path())).ok();
    // Its successor has the port at once.
    run(&mut second).ok();
    run(store.foreread().arg("umount").arg(other.path())).ok();
    until("its port is free", || TcpStream::connect(&address).is_err());
}

/// Each names the cause and what to do, and nothing is mounted.
#[test]
fn an_address_that_cannot_be_is_refused() {
    let (store, dir) = (Store::with(&[("a", 4096)]), directory());
    let mount = |options: &[&str]| {
        let mut command = store.foreread();
        command.args(["mount", "s3://testbed"]).arg(dir.path()).args(options);
        command
    };
    for address in ["localhost:9464", "9464", "127.0.0.1:99999"] {
        let refused = run(&mut mount(&["--metrics", address]));
        assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
        let has = |words: &str| refused.stderr.contains(words);
        assert!(has(address) && has("an IP and a port") && has("127.0.0.1:9464"), "{}", refused.stderr);
    }
    // A network for documents: no machine has an address of it.
    run(&mut mount(&["--metrics", "192.0.2.1:9464"])).failed_saying(&["192.0.2.1:9464", "--metrics-token"]);
    let token = dir.path().with_extension("token");
    fs::write(&token, "0123456789abcdef\n").expect("it is written");
    let elsewhere = ["--metrics", "192.0.2.1:9464", "--metrics-token", token.to_str().expect("UTF-8")];
    run(&mut mount(&elsewhere)).failed_saying(&["metrics cannot be served", "192.0.2.1:9464", "no such address"]);
    fs::remove_file(&token).expect("it is removed");
    assert_eq!(fs::read_dir(dir.path()).expect("the directory").count(), 0);
}

#[test]
fn a_port_that_is_roots_is_refused_to_others() {
    let first_free = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or_default();
    if first_free.trim().parse().is_ok_and(|port: u16| port <= 80) {
        eprintln!("skipped: this system gives port 80 to every user");
        return;
    }
    let is_root = rustix::process::geteuid().is_root();
    if is_root && !have("setpriv") {
        return;
    }
    let (store, dir) = (Store::with(&[("a", 4096)]), directory());
    let mut mount = store.foreread();
    mount.args(["mount", "s3://testbed"]).arg(dir.path()).args(["--metrics", "127.0.0.1:80"]);
    let mut command = if is_root {
        let mut without = Command::new("setpriv");
        without.args(["--bounding-set=-net_bind_service", "--inh-caps=-net_bind_service"]);
        without.arg(mount.get_program()).args(mount.get_args());
        without.envs(mount.get_envs().filter_map(|(name, value)| Some((name, value?))));
        without
    } else {
        mount
    };
    run(&mut command).failed_saying(&["127.0.0.1:80", "Permission denied", "below 1024"]);
    assert_eq!(fs::read_dir(dir.path()).expect("the directory").count(), 0);
}

#[test]
fn another_address_needs_a_token() {
    let (store, dir, folder) = (Store::with(&[("a", 4096)]), directory(), directory());
    let mount = |options: &[&str]| {
        let mut command = store.foreread();
        command.args(["mount", "s3://testbed"]).arg(dir.path()).args(["--metrics", "0.0.0.0:0"]).args(options);
        command
    };
    run(&mut mount(&[])).failed_saying(&["can be reached from other machines", "--metrics-token"]);
    let file = folder.path().join("token");
    let path = file.to_str().expect("UTF-8");
    run(&mut mount(&["--metrics-token", path])).failed_saying(&["token", "No such file"]);
    fs::write(&file, "short\n").expect("it is written");
    run(&mut mount(&["--metrics-token", path])).failed_saying(&["less than 16 letters"]);

    fs::write(&file, "0123456789abcdef\n").expect("it is written");
    let said = run(&mut mount(&["--metrics-token", path])).ok().stderr;
    let port = said.split("0.0.0.0:").nth(1).and_then(|rest| rest.split('/').next()).expect("a port");
    let address = format!("127.0.0.1:{port}");
    assert!(get(&address, "/metrics").starts_with("HTTP/1.1 401"));
    assert!(get(&address, "/metrics?token=0123456789abcdef").contains("foreread_reads_total"));
    run(store.foreread().arg("umount").arg(dir.path())).ok();
}
