//! `foreread top`: a screen in a terminal multiplexer that is not of this project.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::Command;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::OFlags;

use crate::fixture::{Mount, Store, directory, foreread, have, run, until};

/// A server of its own, which ends with it.
struct Tmux {
    socket: String,
}

impl Tmux {
    /// A screen of 80 columns of 24 lines that runs `command`, and stays when that has ended.
    fn start(command: &str) -> Self {
        static SERVERS: AtomicU32 = AtomicU32::new(0);
        let nth = SERVERS.fetch_add(1, Relaxed);
        let tmux = Self { socket: format!("foreread-{}-{nth}", std::process::id()) };
        run(tmux
            .command()
            .args(["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24"])
            .arg(format!("{command}; echo \"exit $?\"; sleep 600")))
        .ok();
        tmux
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket]).env("TERM", "xterm").env_remove("TMUX");
        command
    }

    fn keys(&self, keys: &[&str]) {
        run(self.command().arg("send-keys").args(keys)).ok();
    }

    fn screen(&self) -> String {
        run(self.command().args(["capture-pane", "-p"])).ok().text()
    }

    fn until_it_says(&self, words: &[&str]) -> String {
        let mut screen = String::new();
        until(&format!("the screen says {words:?}"), || {
            screen = self.screen();
            words.iter().all(|word| screen.contains(word))
        });
        screen
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        _ = self.command().arg("kill-server").output();
    }
}

#[test]
fn the_screen_shows_the_mount_obeys_keys_and_ends_with_it() {
    if !have("tmux") {
        return;
    }
    let store = Store::with(&[("dir/read", 256 << 20), ("other", 256 << 20)]);
    let mount = Mount::of(&store);
    let read = |name: &str| {
        let direct = OFlags::DIRECT.bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(direct).open(mount.file(name)).expect("a file");
        let mut piece = vec![0; 1 << 20];
        (0..8).for_each(|nth| file.read_exact_at(&mut piece, nth << 20).expect("a read"));
        file
    };
    let open = [read("dir/read"), read("other")];

    let program = env!("CARGO_BIN_EXE_foreread");
    let tmux = Tmux::start(&format!("{program} top {}", mount.path().display()));
    let screen = tmux.until_it_says(&["programs", "memory", "dir/read", "other", "forward", "q quit"]);
    assert!(screen.lines().count() <= 24 && screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    // The figures are the mount's.
    let stats = mount.stats();
    assert!(screen.contains(&format!("of {} MiB", stats["memory_budget_bytes"].as_u64().expect("a number") >> 20)));

    tmux.keys(&["/", "oth", "Enter"]);
    let screen = tmux.until_it_says(&["[oth]", "other"]);
    assert!(!screen.contains("dir/read"), "{screen}");
    tmux.keys(&["Escape"]);
    tmux.until_it_says(&["dir/read", "other"]);
    tmux.keys(&["s", "p"]);
    tmux.until_it_says(&["sort: rate", "paused"]);
    run(tmux.command().args(["resize-window", "-x", "120", "-y", "40"])).ok();
    tmux.until_it_says(&["sort: rate", "dir/read"]);

    drop(open);
    drop(mount);
    tmux.until_it_says(&["the mount has ended", "exit 0"]);
}

/// More streams than an answer of the mount has room for: the mount sorts and filters them, and
/// the screen moves through all. Names and processes are letters.
#[test]
fn the_screen_moves_through_more_streams_than_fit_into_an_answer() {
    if !have("tmux") {
        return;
    }
    let hostile = "new\nline\x1b[2J";
    let names: Vec<_> = (0..99).map(|nth| format!("f{nth:02}")).chain([hostile.to_owned()]).collect();
    // Longer than what comes whole with a first read: such a file may have no stream.
    let objects: Vec<_> = names.iter().map(|name| (name.as_str(), 8 << 20)).collect();
    let store = Store::with(&objects);
    let mount = Mount::of(&store);
    let direct = OFlags::DIRECT.bits() as i32;
    let read = |name: &String| {
        let file = OpenOptions::new().read(true).custom_flags(direct).open(mount.file(name)).expect("a file");
        let mut piece = vec![0; 128 << 10];
        (0..4).for_each(|nth| file.read_exact_at(&mut piece, nth << 17).expect("a read"));
        file
    };
    let open: Vec<_> = names.iter().map(read).collect();

    let program = env!("CARGO_BIN_EXE_foreread");
    let tmux = Tmux::start(&format!("{program} top {}", mount.path().display()));
    tmux.until_it_says(&["of 100", "1-", "new\\nline\\u{1b}[2J"]);
    // By name, from the end on.
    tmux.keys(&["s", "s", "s", "s", "r"]);
    let screen = tmux.until_it_says(&["sort: file", "new\\nline", "f98", "1-"]);
    let own = std::fs::read_to_string("/proc/self/comm").expect("a name");
    tmux.keys(&["o"]);
    tmux.until_it_says(&["PROCESS", own.trim_end().get(..6).unwrap_or("")]);
    tmux.keys(&["NPage"; 9]);
    let later = tmux.until_it_says(&["91-100 of 100", "f00"]);
    assert!(!later.contains("f98") && screen.contains("f98"), "{later}");
    tmux.keys(&["/", "f", "7", "Enter"]);
    let filtered = tmux.until_it_says(&["[f7]", "f70", "f79"]);
    assert!(!filtered.contains("f69"), "{filtered}");
    drop(open);
}

#[test]
fn what_is_no_mount_or_no_terminal_is_refused() {
    let elsewhere = directory();
    run(foreread().arg("top").arg(elsewhere.path())).failed_saying(&["gives no statistics", "/proc/mounts"]);
    let store = Store::with(&[("a", 4096)]);
    let mount = Mount::of(&store);
    run(foreread().arg("top").arg(mount.path())).failed_saying(&["no terminal", "--json"]);
}
