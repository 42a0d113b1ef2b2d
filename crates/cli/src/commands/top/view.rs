//! What the user has chosen to see: the order of the streams, a filter, a pause, a place.

use foreread_engine::{Order, Wanted, Watched};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// By what streams are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// The one that was read last comes first.
    Idle,
    Rate,
    Window,
    Late,
    File,
}

impl By {
    const ALL: [Self; 5] = [Self::Idle, Self::Rate, Self::Window, Self::Late, Self::File];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Rate => "rate",
            Self::Window => "window",
            Self::Late => "late",
            Self::File => "file",
        }
    }

    fn order(self) -> Order {
        match self {
            Self::Idle => Order::Idle,
            Self::Rate => Order::Rate,
            Self::Window => Order::Window,
            Self::Late => Order::Late,
            Self::File => Order::File,
        }
    }

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|by| *by == self).unwrap_or_default();
        Self::ALL[(at + 1) % Self::ALL.len()]
    }
}

/// The choices.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own, in any combination")]
pub(super) struct View {
    /// The mount.
    pub(super) title: String,
    /// The terminal may be asked for colours.
    pub(super) has_colour: bool,
    pub(super) by: By,
    is_reversed: bool,
    is_paused: bool,
    /// Streams whose file has it in its name.
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) is_typing: bool,
    /// Streams that are passed over.
    pub(super) first: usize,
    /// The processes are shown, also where that leaves no room for the patterns.
    pub(super) has_processes: bool,
}

impl View {
    pub(super) fn new(title: String, has_colour: bool) -> Self {
        Self {
            title,
            has_colour,
            by: By::Idle,
            is_reversed: false,
            is_paused: false,
            filter: String::new(),
            is_typing: false,
            first: 0,
            has_processes: false,
        }
    }

    /// The streams that the mount is to tell of.
    pub(super) fn wanted(&self) -> Wanted<'_> {
        Wanted::default().with_order(self.by.order(), self.is_reversed).with_part(&self.filter).with_first(self.first)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// The user has pressed a key. Returns whether that ends the screen.
    pub(super) fn key(&mut self, key: KeyEvent) -> bool {
        if key.kind == KeyEventKind::Release {
            return false;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return key.code == KeyCode::Char('c');
        }
        if self.is_typing {
            match key.code {
                KeyCode::Enter => self.is_typing = false,
                KeyCode::Esc => (self.is_typing, self.filter) = (false, String::new()),
                KeyCode::Backspace => _ = self.filter.pop(),
                KeyCode::Char(letter) => self.filter.push(letter),
                _ => {}
            }
            self.first = 0;
            return false;
        }
        match key.code {
            KeyCode::Char('q') => return true,
            // With a filter, it takes that away.
            KeyCode::Esc if self.filter.is_empty() => return true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') => self.by = self.by.next(),
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('o') => self.has_processes = !self.has_processes,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Down => self.first += 1,
            KeyCode::Up => self.first = self.first.saturating_sub(1),
            KeyCode::PageDown => self.first += PAGE,
            KeyCode::PageUp => self.first = self.first.saturating_sub(PAGE),
            KeyCode::Home => self.first = 0,
            _ => {}
        }
        false
    }

    /// What the mount was asked, to compare.
    pub(super) fn question(&self) -> (By, bool, String, usize) {
        (self.by, self.is_reversed, self.filter.clone(), self.first)
    }

    /// The streams to show, by their places in what the mount has told of: of as many as the
    /// filter leaves, those from the place on. The mount has sorted and filtered them; what it was
    /// told before the last key is sorted here.
    pub(super) fn streams(&mut self, watched: &Watched) -> Vec<usize> {
        let wanted = self.filter.to_lowercase();
        let stream = |at: usize| &watched.streams[at];
        let has = |&at: &usize| stream(at).key.to_lowercase().contains(&wanted);
        let mut streams: Vec<usize> = (0..watched.streams.len()).filter(has).collect();
        let compare = |one: &usize, other: &usize| {
            let (one, other) =
                if self.is_reversed { (stream(*other), stream(*one)) } else { (stream(*one), stream(*other)) };
            match self.by {
                By::Idle => one.idle_ms.cmp(&other.idle_ms),
                By::Rate => other.bytes_per_s.cmp(&one.bytes_per_s),
                By::Window => other.window_bytes.cmp(&one.window_bytes),
                By::Late => other.late_reads.cmp(&one.late_reads),
                By::File => one.key.cmp(&other.key),
            }
        };
        streams.sort_by(compare);
        let last = (watched.first + streams.len()).saturating_sub(1);
        self.first = self.first.clamp(watched.first.min(last), last);
        streams.drain(..(self.first - watched.first).min(streams.len()));
        streams
    }
}

/// Streams that a page moves by.
const PAGE: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn watched() -> Watched {
        serde_json::from_str(
            r#"{"streams":[
                {"key":"b.bin","idle_ms":5,"bytes_per_s":10,"window_bytes":3,"late_reads":1},
                {"key":"A.parquet","idle_ms":1,"bytes_per_s":30,"window_bytes":1,"late_reads":9},
                {"key":"c.parquet","idle_ms":9,"window_bytes":2,"late_reads":5}
            ],"more_streams":0,"link":{}}"#,
        )
        .expect("what a mount says")
    }

    fn press(view: &mut View, keys: &str) -> bool {
        let key = |letter| match letter {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '\x08' => KeyCode::Backspace,
            letter => KeyCode::Char(letter),
        };
        keys.chars().map(|letter| view.key(KeyEvent::from(key(letter)))).fold(false, |ends, end| ends | end)
    }

    fn names(view: &mut View) -> Vec<String> {
        let watched = watched();
        view.streams(&watched).into_iter().map(|at| watched.streams[at].key.clone()).collect()
    }

    #[test]
    fn streams_are_sorted_by_what_the_user_chooses() {
        let mut view = View::new("m".into(), false);
        for order in ["A.parquet b.bin c.parquet", "A.parquet b.bin c.parquet", "b.bin c.parquet A.parquet"] {
            assert_eq!(names(&mut view).join(" "), order, "{:?}", view.by);
            press(&mut view, "s");
        }
        assert_eq!(names(&mut view).join(" "), "A.parquet c.parquet b.bin", "{:?}", view.by);
        press(&mut view, "r");
        assert_eq!(names(&mut view).join(" "), "b.bin c.parquet A.parquet");
    }

    #[test]
    fn a_filter_takes_letters_that_are_commands_elsewhere() {
        let mut view = View::new("m".into(), false);
        assert!(!press(&mut view, "/pq\x08ar"));
        assert_eq!((names(&mut view).len(), view.filter.as_str()), (2, "par"));
        assert!(!press(&mut view, "\n\x1b"), "it takes the filter away first");
        assert_eq!(names(&mut view).len(), 3);
        assert!(press(&mut view, "\x1b") && press(&mut view, "q"));
    }

    #[test]
    fn the_mount_is_asked_for_what_is_chosen_and_may_tell_of_a_part() {
        let mut view = View::new("m".into(), false);
        press(&mut view, "/par\nssro");
        (0..7).for_each(|_| _ = view.key(KeyEvent::from(KeyCode::PageDown)));
        let wanted = view.wanted();
        assert_eq!((wanted.order, wanted.is_reversed, wanted.part, wanted.first), (Order::Window, true, "par", 70));
        assert!(view.has_processes);
        let mut part = watched();
        (part.first, part.more_streams) = (60, 100);
        // It has told of 60 to 61, of which none is the 70th.
        assert_eq!((view.streams(&part).len(), view.first), (1, 61));
        part.first = 61;
        assert_eq!((view.streams(&part).len(), view.first), (2, 61));
    }

    #[test]
    fn the_place_stays_within_the_streams() {
        let mut view = View::new("m".into(), false);
        (0..9).for_each(|_| _ = view.key(KeyEvent::from(KeyCode::Down)));
        assert_eq!((names(&mut view), view.first), (vec!["c.parquet".to_owned()], 2));
        press(&mut view, "p");
        assert!(view.is_paused());
        assert!(view.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }
}
