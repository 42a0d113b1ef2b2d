//! Traces of `src/names`: what is added and forgotten, and the names that the kernel is asked for.

use std::collections::BTreeMap;

use foreread_policy::{NameId, Names, Nanos, Next};

use crate::trace::Trace;

#[test]
fn forget() {
    let mut mount = Mount::new();
    mount.add("/", "dir", true);
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        mount.add("dir", name, false);
    }
    mount.tell("opened a", |names, of| names.opened(of["a"], 100));
    mount.tell("looked up b", |names, of| names.looked_up(of["b"]));
    mount.ask();
    mount.remove("c");
    mount.trace.note("the kernel has forgotten c, and keeps the others");
    for ms in [1_000, 2_000, 3_000, 5_000] {
        mount.now = Nanos(ms * 1_000_000);
        mount.ask();
    }
    mount.tell("closed a", |names, of| names.closed(of["a"], 100));
    mount.ask();
    for name in ["a", "b", "d", "e"] {
        mount.remove(name);
    }
    mount.ask();
    mount.trace.check(
        "names_forget",
        "Names of 1,000 bytes, of which 6,144 bytes may be there: files go in the order of their last look-ups.",
    );
}

/// A driver whose kernel forgets what the script says.
struct Mount {
    names: Names<()>,
    own_bytes: u64,
    of: BTreeMap<&'static str, NameId>,
    now: Nanos,
    trace: Trace,
}

impl Mount {
    fn new() -> Self {
        // What is kept of a name beside what the driver says of it.
        let own_bytes = Names::new(0, 0, ()).charged_bytes();
        let names = Names::new(8 * 6_144, NAME_BYTES - own_bytes, ());
        let of = BTreeMap::from([("/", NameId::ROOT)]);
        Self { names, own_bytes, of, now: Nanos(0), trace: Trace::default() }
    }

    fn add(&mut self, parent: &str, name: &'static str, is_directory: bool) {
        let added = self.names.add(Some(self.of[parent]), is_directory, NAME_BYTES - self.own_bytes, ());
        self.of.insert(name, added);
        self.show(&format!("added {name} in {parent}"), &[]);
    }

    fn remove(&mut self, name: &str) {
        let removed = self.of[name];
        self.tell(&format!("removed {name}"), |names, _| _ = names.remove(removed));
    }

    fn tell(&mut self, event: &str, what: impl FnOnce(&mut Names<()>, &BTreeMap<&'static str, NameId>)) {
        what(&mut self.names, &self.of);
        self.show(event, &[]);
    }

    /// Takes what is to be done, as a driver does whenever something has changed.
    fn ask(&mut self) {
        let mut actions = Vec::new();
        loop {
            match self.names.next(self.now) {
                Next::Forget(name) => {
                    let (shown, _) = self.of.iter().find(|(_, of)| **of == name).expect("a name that was added");
                    actions.push(format!("Forget {shown}"));
                }
                Next::At(at) => break actions.push(format!("At {:.1} ms", at.0 as f64 / 1e6)),
                Next::Idle => break actions.push("Idle".to_owned()),
            }
        }
        self.show("next", &actions);
    }

    fn show(&mut self, event: &str, actions: &[String]) {
        let event = format!("{event}, {} bytes", self.names.charged_bytes());
        self.trace.event(self.now, &event, actions);
    }
}

/// What each name takes altogether.
const NAME_BYTES: u64 = 1_000;
