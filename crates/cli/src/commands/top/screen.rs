//! Draws the screen.
//!
//! ```text
//!   mount, time, pause
//!   programs, storage, waits, in vain, memory, link, cache     a line each
//!   streams                                                    as many as there is room for
//!   keys
//! ```

use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use foreread_engine::{CacheStats, Latency, Link, Stats, Stream};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Sparkline, Table};

use crate::commands::top::sample::{History, Rates, Sample};
use crate::commands::top::view::View;
use crate::terminal::name::{end_of, plain};
use crate::terminal::size::Size;

pub(super) fn draw(frame: &mut Frame<'_>, history: &History, view: &mut View) {
    let sample = history.latest();
    let figures = figures(&sample.stats, &sample.watched.link, history.rates());
    let parts =
        [Constraint::Length(1), Constraint::Length(figures.len() as u16), Constraint::Min(1), Constraint::Length(1)];
    let [head, middle, table, foot] = Layout::vertical(parts).areas(frame.area());
    frame.render_widget(title(history.shown_for(), view), head);
    draw_figures(frame, middle, figures, &history.read_rates(), view);
    let shown = draw_streams(frame, table, history, view);
    frame.render_widget(keys(&shown, view), foot);
}

fn title(shown_for: Duration, view: &View) -> Line<'static> {
    let seconds = shown_for.as_secs();
    let time = format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let paused = if view.is_paused() { "  paused" } else { "" };
    let text = format!("foreread top  {}  {time}{paused}", view.title);
    Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
}

/// Name and text of each line; whether it tells of trouble.
type Figure = (&'static str, String, bool);

fn figures(stats: &Stats, link: &Link, rates: Rates) -> Vec<Figure> {
    let mut lines = vec![
        ("programs", programs(stats, rates), stats.read_errors > 0 || stats.plain_after_panics),
        ("storage", storage(stats, rates), stats.demand_failed > 0),
        ("waits", waits(&stats.waited), false),
        ("in vain", in_vain(stats), stats.thrashed_bytes > stats.fetched_bytes / 10),
        ("memory", memory(stats), false),
        ("link", link_text(link), false),
    ];
    if let Some(cache) = &stats.cache {
        lines.push(("cache", cache_text(cache, rates), cache.wrong + cache.silences + cache.write_errors > 0));
    }
    lines
}

fn programs(stats: &Stats, rates: Rates) -> String {
    let hits = rates.hits.map_or_else(|| "-".to_owned(), |hits| percent(hits, 1.0));
    let mut text = format!("{}  {:.0} reads/s, {hits} from memory", speed(rates.read_bytes), rates.reads);
    if stats.read_errors > 0 {
        _ = write!(text, ", {} errors", stats.read_errors);
    }
    text
}

fn storage(stats: &Stats, rates: Rates) -> String {
    let per_gib = ratio(stats.requests as f64 * (1_u64 << 30) as f64, stats.read_bytes as f64);
    let amp = ratio(stats.fetched_bytes as f64, stats.read_bytes as f64);
    let (speed, requests) = (speed(rates.fetched_bytes), rates.requests);
    let per_gib = per_gib.map_or_else(|| "-".to_owned(), |per_gib| format!("{per_gib:.0}"));
    let amp = amp.map_or_else(|| "-".to_owned(), |amp| format!("{amp:.2}"));
    let mut text = format!("{speed}  {requests:.0} requests/s; in all {per_gib} a GiB, amp {amp}");
    if stats.retries > 0 {
        _ = write!(text, ", {} retries", stats.retries);
    }
    text
}

fn waits(waited: &Latency) -> String {
    let Latency { count, p50_us, p99_us, max_us, .. } = *waited;
    format!("{count} reads, half within {}, 99 % within {}, all within {}", time(p50_us), time(p99_us), time(max_us))
}

fn in_vain(stats: &Stats) -> String {
    let of_all = |bytes: u64| percent(bytes as f64, stats.fetched_bytes as f64);
    format!(
        "{} of what came was not read, {} for want of memory",
        of_all(stats.wasted_bytes),
        of_all(stats.thrashed_bytes)
    )
}

fn memory(stats: &Stats) -> String {
    let names = stats.memory_directories_bytes + stats.memory_names_bytes;
    let cache = stats.cache.as_ref().map_or(0, |cache| cache.memory_bytes);
    let parts = [
        ("ahead", stats.memory_ahead_bytes),
        ("read", stats.memory_read_bytes),
        ("requested", stats.memory_pending_bytes),
        ("names", names),
        ("cache", cache),
    ];
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let parts = parts.into_iter().filter(|(_, bytes)| *bytes > 0);
    let parts: Vec<String> = parts.map(|(name, bytes)| format!("{name} {}", mib(bytes))).collect();
    let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    format!("{} of {} MiB{parts}", mib(stats.memory_charged_bytes), mib(stats.memory_budget_bytes))
}

fn link_text(link: &Link) -> String {
    if link.first_byte_us == 0 {
        return "not known yet".to_owned();
    }
    let known = |rate: u64| if rate == 0 { "?".to_owned() } else { speed(rate as f64) };
    let state = match (link.is_growing, link.is_crowded) {
        (_, true) => ", crowded",
        (true, _) => ", may carry more",
        _ => "",
    };
    let (first, connection, all) =
        (time(link.first_byte_us), known(link.connection_bytes_per_s), known(link.bytes_per_s));
    format!("{first}, {connection} a request, {all} in all; {} of {}{state}", link.requests, link.requests_max)
}

fn cache_text(cache: &CacheStats, rates: Rates) -> String {
    let mut text =
        format!("{}  {} kept, {} dropped", speed(rates.cache_bytes), Size(cache.kept_bytes), Size(cache.dropped_bytes));
    for (count, what) in [(cache.wrong, "wrong"), (cache.silences, "silences"), (cache.write_errors, "write errors")] {
        if count > 0 {
            _ = write!(text, ", {count} {what}");
        }
    }
    text
}

fn draw_figures(frame: &mut Frame<'_>, area: Rect, figures: Vec<Figure>, rates: &[u64], view: &View) {
    // On a wide terminal the throughput of the last minutes stands beside the figures.
    let chart = area.width.saturating_sub(FIGURES_WIDTH);
    let [left, right] = Layout::horizontal([Constraint::Min(1), Constraint::Length(chart)]).areas(area);
    let lines = figures.into_iter().map(|(name, text, is_trouble)| {
        let style = match (is_trouble, view.has_colour) {
            (true, true) => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            (true, false) => Style::new().add_modifier(Modifier::BOLD),
            (false, _) => Style::new(),
        };
        Line::from(vec![Span::raw(format!(" {name:9}")), Span::styled(text, style)])
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), left);
    if right.width > 0 {
        let shown = rates.len().saturating_sub(usize::from(right.width));
        frame.render_widget(Sparkline::default().data(&rates[shown..]), right);
    }
}

/// The places of the streams that are shown, and how many there are.
struct Shown {
    places: Range<usize>,
    all: usize,
}

/// Draws the streams.
fn draw_streams(frame: &mut Frame<'_>, area: Rect, history: &History, view: &mut View) -> Shown {
    let Sample { watched, shares, .. } = history.latest();
    let streams = view.streams(watched);
    let room = usize::from(area.height.saturating_sub(1));
    let columns = columns(area.width, view);
    // What the others and a blank before each leave.
    let others: u16 = columns.iter().skip(1).map(|column| column.length() + 1).sum();
    let name = usize::from(area.width.saturating_sub(others).max(NAME_MIN));
    let row = |at: usize| {
        let share = shares.get(at).copied().flatten();
        Row::new(columns.iter().map(|column| column.text(&watched.streams[at], share, name)).collect::<Vec<_>>())
    };
    let rows: Vec<Row<'_>> = streams.iter().take(room).map(|&at| row(at)).collect();
    let places = view.first..view.first + rows.len();
    let all = watched.streams.len() + watched.more_streams;
    let head = Row::new(columns.iter().map(|column| column.head()).collect::<Vec<_>>());
    let head = head.style(Style::new().add_modifier(Modifier::REVERSED));
    let widths = columns.iter().map(|column| column.width());
    frame.render_widget(Table::new(rows, widths).header(head), area);
    Shown { places, all }
}

/// A column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    File,
    Pattern,
    At,
    Window,
    By,
    Rate,
    Share,
    Late,
    Idle,
    Process,
}

/// Those that a screen of `width` columns has room for.
fn columns(width: u16, view: &View) -> Vec<Column> {
    use Column::{At, By, File, Idle, Late, Pattern, Process, Rate, Share, Window};
    if width >= PROCESS_WIDTH {
        vec![File, Pattern, At, Window, By, Rate, Share, Late, Idle, Process]
    } else if view.has_processes {
        vec![File, At, Window, Rate, Share, Late, Idle, Process]
    } else {
        vec![File, Pattern, At, Window, By, Rate, Share, Late, Idle]
    }
}

impl Column {
    fn head(self) -> &'static str {
        match self {
            Self::File => "FILE",
            Self::Pattern => "PATTERN",
            Self::At => "AT",
            Self::Window => "WINDOW",
            Self::By => "BY",
            Self::Rate => "RATE",
            Self::Share => "SHARE",
            Self::Late => "LATE",
            Self::Idle => "IDLE",
            Self::Process => "PROCESS",
        }
    }

    fn width(self) -> Constraint {
        if self == Self::File { Constraint::Min(NAME_MIN) } else { Constraint::Length(self.length()) }
    }

    /// Letters that it takes; the name takes what is left.
    fn length(self) -> u16 {
        match self {
            Self::File => 0,
            Self::At | Self::Share | Self::Late => 5,
            Self::By | Self::Idle => 7,
            Self::Pattern | Self::Window => 8,
            Self::Rate => 9,
            Self::Process => 16,
        }
    }

    fn text(self, stream: &Stream, share: Option<f64>, name: usize) -> String {
        match self {
            Self::File => end_of(&stream.key, name),
            Self::Pattern => pattern(stream).to_owned(),
            Self::At => percent(stream.position_bytes as f64, stream.size_bytes as f64),
            Self::Window => Size(stream.window_bytes).to_string(),
            Self::By => stream.bound.to_string(),
            Self::Rate => stream.bytes_per_s.map_or_else(|| "-".to_owned(), |rate| speed(rate as f64)),
            Self::Share => share.map_or_else(|| "-".to_owned(), |share| percent(share, 1.0)),
            Self::Late => stream.late_reads.to_string(),
            Self::Idle => time(stream.idle_ms * 1000),
            Self::Process => match (&stream.process, stream.pid) {
                (Some(process), Some(pid)) => format!("{pid} {}", plain(process)),
                _ => "-".to_owned(),
            },
        }
    }
}

fn pattern(stream: &Stream) -> &'static str {
    match stream.delta_bytes {
        None if stream.shape == "sparse" => "sparse",
        None => "forward",
        // Records that touch.
        Some(delta) if delta < 0 && stream.record_bytes == Some(delta.unsigned_abs()) => "backward",
        Some(_) => "strided",
    }
}

fn keys(shown: &Shown, view: &View) -> Line<'static> {
    if view.is_typing {
        return Line::from(format!(" filter: {}_   Enter keeps it, Esc takes it away", view.filter));
    }
    let filter = if view.filter.is_empty() { String::new() } else { format!(" [{}]", view.filter) };
    let Shown { places, all } = shown;
    let place =
        if places.len() == *all { String::new() } else { format!("  {}-{} of {all}", places.start + 1, places.end) };
    Line::from(format!(" q quit  p pause  s sort: {}  r reverse  / filter{filter}{place}  o process", view.by.name()))
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then_some(part / whole)
}

fn percent(part: f64, whole: f64) -> String {
    ratio(part, whole).map_or_else(
        || "-".to_owned(),
        |ratio| match ratio * 100.0 {
            percent if percent > 0.0 && percent < 10.0 => format!("{percent:.1} %"),
            percent => format!("{percent:.0} %"),
        },
    )
}

/// Bytes a second, in three digits or a few more.
fn speed(bytes_per_s: f64) -> String {
    let (rate, unit) = match bytes_per_s {
        rate if rate >= 1e9 => (rate / 1e9, "GB/s"),
        rate if rate >= 1e6 => (rate / 1e6, "MB/s"),
        rate => (rate / 1e3, "kB/s"),
    };
    if rate < 10.0 { format!("{rate:.1} {unit}") } else { format!("{rate:.0} {unit}") }
}

fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} us"),
        1_000..10_000_000 => format!("{} ms", us / 1_000),
        _ => format!("{} s", us / 1_000_000),
    }
}

/// Columns that the figures need.
const FIGURES_WIDTH: u16 = 80;

/// Letters of a name that are shown, at least.
const NAME_MIN: u16 = 12;

/// Columns from which on there is room for the processes beside the rest.
const PROCESS_WIDTH: u16 = 97;

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn history() -> History {
        let at = Instant::now();
        let stats = |k: u64| {
            format!(
                r#"{{"reads":{},"hits":{},"read_bytes":{},"fetched_bytes":{},"requests":{},"wasted_bytes":{},
                "memory_budget_bytes":268435456,"memory_charged_bytes":201326592,"memory_ahead_bytes":100663296,
                "memory_read_bytes":83886080,"memory_pending_bytes":16777216,"memory_names_bytes":524288,
                "waited":{{"count":{k},"p50_us":32768,"p99_us":65536,"max_us":131072}},
                "cache":{{"read_bytes":{},"kept_bytes":12884901888,"dropped_bytes":0,"wrong":2,"memory_bytes":4194304}}}}"#,
                8_000 * k,
                7_900 * k,
                900_000_000 * k,
                910_000_000 * k,
                120 * k,
                9_000_000 * k,
                50_000_000 * k,
            )
        };
        let watched = r#"{"streams":[
            {"key":"train/part-00001-of-01024.parquet","size_bytes":1000,"shape":"forward","position_bytes":430,
             "window_bytes":67108864,"bound":"memory","bytes_per_s":450000000,"late_reads":3,"idle_ms":4},
            {"key":"b.npy","size_bytes":1000,"shape":"strided","delta_bytes":-65536,"record_bytes":65536,
             "position_bytes":1000,"window_bytes":4194304,"bound":"quiet","late_reads":0,"idle_ms":12000}
            ],"more_streams":7,"link":{"first_byte_us":30120,"connection_bytes_per_s":80000000,
            "bytes_per_s":870000000,"is_growing":false,"is_crowded":true,"requests_max":64,"requests":14}}"#;
        let look = |k: u64| Sample::new(at + Duration::from_secs(k), &stats(k), watched);
        let mut history = History::new(look(1));
        (2..8).for_each(|k| history.add(look(k)));
        history
    }

    fn drawn(width: u16, height: u16, view: &mut View) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, &history(), view)).expect("it is drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn all_of_it_is_on_80_columns() {
        insta::assert_snapshot!(drawn(80, 24, &mut View::new("/mnt/data".into(), true)));
    }

    #[test]
    fn a_wide_terminal_shows_the_last_minutes() {
        let mut view = View::new("/mnt/data".into(), false);
        view.filter = "npy".into();
        insta::assert_snapshot!(drawn(110, 14, &mut view));
    }

    #[test]
    fn a_terminal_of_any_size_can_be_drawn_on() {
        for (width, height) in [(1, 1), (10, 3), (40, 9), (300, 100)] {
            drawn(width, height, &mut View::new("/mnt/data".into(), true));
        }
    }
}
