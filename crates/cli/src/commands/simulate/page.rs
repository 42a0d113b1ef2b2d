//! `foreread simulate --report FILE`: one page of HTML that needs no other file, with pictures of
//! what each policy does.
//!
//! ```text
//!   figures, a column a policy
//!   throughput, read time, hit rate of a tier over time;
//!   sizes of requests                                              all policies in one picture
//!   service: bytes that each of several readers received           a picture a policy
//!   where reads and requests are, and how far ahead                a picture a policy
//! ```
//!
//! The pictures are SVG: nothing is loaded, no script runs.

use std::fmt::Write as _;

use foreread_sim::picture::{Dot, Kind, Picture};
use foreread_sim::{Curve, Tally};

use crate::commands::simulate::report;
use crate::commands::simulate::row::Row;
use crate::terminal::size::Size;

/// The page for all of `rows`.
pub(super) fn page(rows: &[Row]) -> String {
    let mut body = String::new();
    for row in rows {
        let _ = write!(body, "<h2>{}</h2>\n<pre>{}</pre>\n", escaped(&report::name(row)), escaped(&report::table(row)));
        let columns: Vec<(&str, &Tally)> =
            row.columns.iter().filter_map(|column| Some((column.name.as_str(), column.runs.first()?))).collect();
        body.push_str("<div>");
        body.push_str(&over_time("throughput, MB/s", &columns, |second| second.read_bytes as f64 / 1e6));
        body.push_str(&over_time("read time, mean of a second, ms", &columns, |second| {
            second.took_ns as f64 / second.reads.max(1) as f64 / 1e6
        }));
        if row.workload.tier.is_some() {
            body.push_str(&over_time("hit rate of the tier, %", &columns, |second| {
                let fetched = second.tier_pages + second.requested_pages;
                second.tier_pages as f64 / fetched.max(1) as f64 * 100.0
            }));
        }
        body.push_str(&sizes(&columns));
        body.push_str("</div>\n<div>");
        for beside in [false, true] {
            for (at, (policy, tally)) in columns.iter().enumerate() {
                let curves = tally.service(beside);
                // A single reader shares with none.
                if !curves.is_empty() && (curves.len() > 1 || row.workload.beside.is_some()) {
                    let of = if beside { "those beside" } else { "readers" };
                    let title = format!("{policy}: service of {of} ({}), bytes", curves.len());
                    body.push_str(&service(&title, curves, COLOURS[at % COLOURS.len()]));
                }
            }
        }
        body.push_str("</div>\n<div>");
        for (at, (policy, tally)) in columns.iter().enumerate() {
            if let Some(picture) = tally.picture() {
                body.push_str(&places(policy, picture));
                body.push_str(&distances(policy, picture, COLOURS[at % COLOURS.len()]));
            }
        }
        body.push_str("</div>\n");
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>foreread: simulated</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>Policies, simulated</h1>\n{LEGEND}\n{body}</body>\n</html>\n"
    )
}

const STYLE: &str = "body{font:15px/1.4 sans-serif;margin:2em auto;max-width:1240px;color:#222}\
pre{font:12px/1.35 monospace;overflow-x:auto}\
svg{margin:4px;background:#fafafa}svg text{font:11px sans-serif;fill:#444}\
.axis{stroke:#999;stroke-width:1;fill:none}.grid{stroke:#e4e4e4;stroke-width:1}";

const LEGEND: &str = "<p>Reads of programs are grey, demand requests red, requests ahead of their reader blue. Requests \
whose bytes were mostly never read are orange. Where there are too many dots, some are left out. In pictures of service, each \
reader has a line: where lines part, one receives more than another.</p>";

/// A colour for each policy.
const COLOURS: [&str; 7] = ["#0b66c3", "#c33b0b", "#2e8b57", "#8b5a2b", "#7b3fa0", "#666666", "#b8860b"];

const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 26.0;

/// A picture with axes. Points are in the axes' units.
struct Plot {
    svg: String,
    x_max: f64,
    y_max: f64,
}

impl Plot {
    fn new(
        title: &str,
        x_max: f64,
        y_max: f64,
        x_text: impl Fn(f64) -> String,
        y_text: impl Fn(f64) -> String,
    ) -> Self {
        let (x_max, y_max) = (x_max.max(1e-9), y_max.max(1e-9));
        let mut plot = Self { svg: String::new(), x_max, y_max };
        let _ = write!(
            plot.svg,
            "<svg width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\"><title>{0}</title><text x=\"{LEFT}\" y=\"15\">{0}</text>",
            escaped(title)
        );
        for part in 0..=TICKS {
            let share = f64::from(part) / f64::from(TICKS);
            let (x, y) = (plot.x(share * x_max), plot.y(share * y_max));
            let (left, right, base) = (LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM);
            let _ = write!(
                plot.svg,
                "<path class=\"grid\" d=\"M{left} {y:.1}H{right}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                left - 5.0,
                y + 4.0,
                escaped(&y_text(share * y_max)),
                base + 16.0,
                escaped(&x_text(share * x_max))
            );
        }
        let _ = write!(plot.svg, "<path class=\"axis\" d=\"M{LEFT} {TOP}V{0}H{1}\"/>", HEIGHT - BOTTOM, WIDTH - RIGHT);
        plot
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + value / self.x_max * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - value / self.y_max * (HEIGHT - TOP - BOTTOM)
    }

    fn line(&mut self, points: impl Iterator<Item = (f64, f64)>, colour: &str) {
        self.stroke(points, colour, 1.3);
    }

    fn stroke(&mut self, points: impl Iterator<Item = (f64, f64)>, colour: &str, width: f64) {
        let mut path = String::new();
        for (x, y) in points {
            let _ = write!(path, "{}{:.1} {:.1}", if path.is_empty() { 'M' } else { 'L' }, self.x(x), self.y(y));
        }
        let _ = write!(self.svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>");
    }

    /// Vertical lines from one value to another; too short ones are dots.
    fn dots(&mut self, points: impl Iterator<Item = (f64, f64, f64)>, colour: &str) {
        let mut path = String::new();
        for (x, from, to) in points {
            let (x, from, to) = (self.x(x), self.y(from), self.y(to));
            let height = (from - to).max(1.2);
            let _ = write!(path, "M{x:.1} {from:.1}v-{height:.1}");
        }
        if !path.is_empty() {
            let _ = write!(self.svg, "<path d=\"{path}\" stroke=\"{colour}\" stroke-width=\"1.2\"/>");
        }
    }

    fn bar(&mut self, from: f64, to: f64, height: f64, colour: &str) {
        let (x, y) = (self.x(from), self.y(height));
        let (width, height) = (self.x(to) - x, HEIGHT - BOTTOM - y);
        let _ = write!(
            self.svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        );
    }

    /// A remark at the top left, where rising curves leave room.
    fn note(&mut self, text: &str) {
        let (x, y) = (LEFT + 6.0, TOP + 12.0);
        let _ = write!(self.svg, "<text x=\"{x}\" y=\"{y}\">{}</text>", escaped(text));
    }

    fn key(&mut self, names: impl Iterator<Item = String>) {
        for (at, name) in names.enumerate() {
            let (x, y) = (WIDTH - RIGHT - 4.0, TOP + 12.0 + 13.0 * at as f64);
            let colour = COLOURS[at % COLOURS.len()];
            let _ = write!(
                self.svg,
                "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\" style=\"fill:{colour}\">{}</text>",
                escaped(&name)
            );
        }
    }

    fn end(self) -> String {
        self.svg + "</svg>\n"
    }
}

/// The most lines of readers. Higher, and the lines merge into an area.
const LINES_MAX: usize = 32;

/// Parts into which an axis is divided.
const TICKS: u32 = 4;

fn over_time(title: &str, columns: &[(&str, &Tally)], value: impl Fn(&foreread_sim::Second) -> f64) -> String {
    let seconds = columns.iter().map(|(_, tally)| tally.seconds().len()).max().unwrap_or(0);
    let values = columns.iter().flat_map(|(_, tally)| tally.seconds()).map(&value);
    let most = values.fold(0.0, f64::max);
    let mut plot = Plot::new(title, seconds.saturating_sub(1).max(1) as f64, most, in_seconds, plain);
    for (at, (_, tally)) in columns.iter().enumerate() {
        let points = tally.seconds().iter().enumerate().map(|(second, of)| (second as f64, value(of)));
        plot.line(points, COLOURS[at % COLOURS.len()]);
    }
    plot.key(columns.iter().map(|(policy, _)| (*policy).to_owned()));
    plot.end()
}

/// The share of requests of each size, a bar for each policy.
fn sizes(columns: &[(&str, &Tally)]) -> String {
    let classes = columns.iter().map(|(_, tally)| tally.sizes().len()).max().unwrap_or(1);
    let share = |tally: &Tally, class: usize| tally.sizes()[class] as f64 / tally.requests().max(1) as f64 * 100.0;
    let every = |tally: &Tally| (0..classes).map(|class| share(tally, class)).fold(0.0, f64::max);
    let most = columns.iter().map(|(_, tally)| every(tally)).fold(0.0, f64::max);
    let size = |class: f64| Size(4096_u64 << (class as u32).min(20)).to_string();
    let mut plot = Plot::new("size of requests, % of all", classes as f64, most, size, plain);
    let width = 0.9 / columns.len().max(1) as f64;
    for (at, (_, tally)) in columns.iter().enumerate() {
        for class in 0..classes {
            let from = class as f64 + at as f64 * width;
            plot.bar(from, from + width, share(tally, class), COLOURS[at % COLOURS.len()]);
        }
    }
    plot.key(columns.iter().map(|(policy, _)| (*policy).to_owned()));
    plot.end()
}

/// The bytes that each reader received, over time. Of more than [`LINES_MAX`] readers, some are
/// drawn: evenly chosen by their total, the least and the most among them.
fn service(title: &str, mut curves: Vec<Curve>, colour: &str) -> String {
    let given = |curve: &Curve| curve.last().map_or(0, |&(_, bytes)| bytes);
    let until_ns = curves.iter().filter_map(|curve| curve.last()).map(|&(at_ns, _)| at_ns).max().unwrap_or(0);
    let most = curves.iter().map(given).max().unwrap_or(0);
    let all: u64 = curves.iter().map(given).sum();
    let readers = curves.len();
    if readers > LINES_MAX {
        curves.sort_by_key(given);
        curves = (0..LINES_MAX).map(|line| curves[line * (readers - 1) / (LINES_MAX - 1)].clone()).collect();
    }
    let mut plot = Plot::new(title, until_ns as f64 / 1e9, most as f64, in_seconds, in_bytes);
    for curve in &curves {
        plot.stroke(curve.iter().map(|&(at_ns, bytes)| (at_ns as f64 / 1e9, bytes as f64)), colour, 0.8);
    }
    if readers > LINES_MAX {
        let rest = Size(all - curves.iter().map(given).sum::<u64>());
        plot.note(&format!("{} more: {rest}", readers - LINES_MAX));
    }
    plot.end()
}

/// Where reads and requests are, over time.
fn places(policy: &str, picture: &Picture) -> String {
    let (reads, requests) = (picture.reads(), picture.requests());
    let all = || reads.iter().chain(requests);
    let until_ns = all().map(|dot| dot.at_ns).max().unwrap_or(0);
    let end = all().map(|dot| dot.offset + dot.bytes).max().unwrap_or(0);
    let title = format!("{policy}: offset in the file, over time");
    let mut plot = Plot::new(&title, until_ns as f64 / 1e9, end as f64, in_seconds, in_bytes);
    let mut draw = |of: &[Dot], colour: &str, wanted: &dyn Fn(&Dot) -> bool| {
        let points = of.iter().filter(|dot| wanted(dot));
        plot.dots(
            points.map(|dot| (dot.at_ns as f64 / 1e9, dot.offset as f64, (dot.offset + dot.bytes) as f64)),
            colour,
        );
    };
    let wasted = |dot: &Dot| dot.wasted_bytes * 2 > dot.bytes;
    draw(requests, "#7fb2e5", &|dot| dot.kind == Kind::Ahead && !wasted(dot));
    draw(reads, "#888", &|_| true);
    draw(requests, "#d33", &|dot| dot.kind == Kind::Demand);
    draw(requests, "#f08c00", &wasted);
    plot.end()
}

/// How far ahead of the reader each request ends.
fn distances(policy: &str, picture: &Picture, colour: &str) -> String {
    let ahead = || picture.requests().iter().filter(|dot| dot.kind == Kind::Ahead);
    let until_ns = picture.requests().iter().map(|dot| dot.at_ns).max().unwrap_or(0);
    let most = ahead().map(|dot| dot.ahead_bytes).max().unwrap_or(0);
    let title = format!("{policy}: window, bytes ahead of the reader");
    let mut plot = Plot::new(&title, until_ns as f64 / 1e9, most as f64, in_seconds, in_bytes);
    let points = ahead().map(|dot| (dot.at_ns as f64 / 1e9, dot.ahead_bytes as f64, dot.ahead_bytes as f64));
    plot.dots(points, colour);
    plot.end()
}

fn in_seconds(value: f64) -> String {
    if value >= 10.0 || value == 0.0 { format!("{value:.0} s") } else { format!("{value:.2} s") }
}

fn in_bytes(value: f64) -> String {
    Size(value as u64).to_string()
}

fn plain(value: f64) -> String {
    if value >= 100.0 || value == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_readers_the_most_and_the_least_are_drawn_and_the_rest_is_summed() {
        let curves: Vec<Curve> = (1..=100).rev().map(|kib| vec![(0, 0), (1_000_000_000, kib << 10)]).collect();
        let svg = service("x", curves.clone(), "#000");
        assert_eq!(svg.matches("stroke=\"#000\"").count(), LINES_MAX);
        for (kib, y) in [(100.0, "L392.0 24.0\""), (1.0, "L392.0 192.3\"")] {
            assert!(svg.contains(y), "{kib} KiB are not drawn: {svg}");
        }
        let drawn: u64 = (0..LINES_MAX as u64).map(|line| 1 + line * 99 / 31).sum();
        let rest = Size((5_050 - drawn) << 10);
        assert!(svg.contains(&format!(">68 more: {rest}<")), "{svg}");
        let few = service("x", curves[..LINES_MAX].to_vec(), "#000");
        assert!(!few.contains(" more: ") && few.matches("stroke=\"#000\"").count() == LINES_MAX);
    }
}
