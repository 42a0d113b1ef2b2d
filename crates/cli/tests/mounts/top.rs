//! `foreread top`: a screen in a terminal multiplexer that is not of this project.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::Command;

use rustix::fs::OFlags;

use crate::fixture::{Mount, Store, directory, foreread, have, run, until};

/// A server of its own, which ends with it.
struct Tmux {
    socket: String,
}

impl Tmux {
    /// A screen of 80 columns of 24 lines that runs `command`, and stays when that has ended.
    fn start(command: &str) -> Self {
        let tmux = Self { socket: format!("foreread-{}", std::process::id()) };
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

#[test]
fn what_is_no_mount_or_no_terminal_is_refused() {
    let elsewhere = directory();
    run(foreread().arg("top").arg(elsewhere.path())).failed_saying(&["gives no statistics", "/proc/mounts"]);
    let store = Store::with(&[("a", 4096)]);
    let mount = Mount::of(&store);
    run(foreread().arg("top").arg(mount.path())).failed_saying(&["no terminal", "--json"]);
}
