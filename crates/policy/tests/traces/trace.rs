//! A trace: one line an event, with the actions that it caused.

use foreread_policy::{Class, Extent, Nanos};

/// The lines so far.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    lines: Vec<String>,
    /// While it is more than 0, events are not shown.
    silent: u32,
    /// When the last line was, and of which kind, if it is an end that caused nothing.
    ended: Option<(Nanos, String)>,
}

impl Trace {
    /// An event at `now`, and the actions that followed. Several ends at one time that cause
    /// nothing are one line.
    pub(crate) fn event(&mut self, now: Nanos, event: &str, actions: &[String]) {
        if self.silent > 0 {
            return;
        }
        let (kind, what) = event.split_once(' ').unwrap_or((event, ""));
        let ends = matches!(kind, "Completed" | "Fetched") && actions.is_empty();
        let end = ends.then(|| (now, kind.to_owned()));
        let ms = now.0 as f64 / 1e6;
        let actions = if actions.is_empty() { "-".to_owned() } else { actions.join("; ") };
        if ends && self.ended == end {
            let last = self.lines.pop().unwrap_or_default();
            let before = last.rsplit_once(" -> ").map_or("", |(before, _)| before).trim_end();
            self.lines.push(format!("{:<47} -> {actions}", format!("{before} {what}")));
        } else {
            self.lines.push(format!("{ms:>8.1} ms  {event:<34} -> {actions}"));
        }
        self.ended = end;
    }

    /// A line that says what the events after it are, or what is left out.
    pub(crate) fn note(&mut self, text: &str) {
        self.ended = None;
        if self.silent == 0 {
            self.lines.push(format!("{:11}  ({text})", ""));
        }
    }

    /// Until [`Trace::show`], events are not shown.
    pub(crate) fn hide(&mut self, text: &str) {
        self.note(text);
        self.silent += 1;
    }

    pub(crate) fn show(&mut self) {
        self.silent -= 1;
    }

    /// Compares the trace with the snapshot `name`, which begins with what it `shows`.
    pub(crate) fn check(&self, name: &str, shows: &str) {
        let update = "Update: INSTA_UPDATE=always cargo test -p foreread-policy --test traces";
        let text = format!("{shows}\n{update}\n\n{}\n", self.lines.join("\n"));
        let mut settings = insta::Settings::new();
        settings.set_snapshot_path("../snapshots");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(name, text));
    }
}

/// An extent as it is shown: `[start,end)`.
pub(crate) fn pages(extent: Extent) -> String {
    format!("[{},{})", extent.start, extent.end)
}

/// A class as it is shown.
pub(crate) fn class(class: Class) -> &'static str {
    match class {
        Class::Demand => "demand",
        Class::Speculative => "ahead",
    }
}
