//! Parses index pages of nginx, Apache, lighttpd, Caddy, rclone and Python's `http.server`: HTML
//! with one link an entry.
//!
//! Not an HTML parser: only the `href` of each `a` counts. Sizes, dates and columns differ from
//! server to server; the files themselves are asked instead.

use std::collections::BTreeSet;

use percent_encoding::percent_decode_str;
use reqwest::Url;

/// How the title or heading of an index page begins, in lower case.
const HEADINGS: [&str; 4] = ["index of", "directory listing for", "directory: ", "listing of"];

/// An index page, taken piece by piece as it comes: of what has come, only the names are kept, and
/// a tag that is not whole yet.
pub(super) struct Page {
    base: Url,
    names: BTreeSet<String>,
    names_bytes: usize,
    /// Not looked at yet, or not whole.
    rest: Vec<u8>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It may be an index: looked at when so many bytes of it have come.
    Head(usize),
    /// It is one.
    Index,
    /// It is one, within a tag that is too long.
    LongTag,
}

/// Why a page is read no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    /// It is no index.
    NoIndex,
    /// It has more names than are kept.
    TooMany,
}

impl Page {
    /// A page at `base`, of which nothing has come.
    pub(super) fn new(base: Url) -> Self {
        let state = State::Head(HEAD_BYTES_MIN);
        Self { base, names: BTreeSet::new(), names_bytes: 0, rest: Vec::new(), state }
    }

    /// Takes the next piece. Time grows with the page's length alone, whatever it holds.
    pub(super) fn take(&mut self, piece: &[u8]) -> Result<(), Unread> {
        self.rest.extend_from_slice(piece);
        // What is left of before is at most a tag without an end: it is looked at once.
        let ends_none = !matches!(self.state, State::Head(_)) && !piece.contains(&b'>');
        if ends_none && self.rest.len() <= TAG_BYTES_MAX {
            return Ok(());
        }
        self.look(false)
    }

    /// The names of the direct children of `base` that the page links to, in order and each once,
    /// directories with a `/` at the end.
    pub(super) fn names(mut self) -> Result<Vec<String>, Unread> {
        self.look(true)?;
        Ok(self.names.into_iter().collect())
    }

    fn look(&mut self, is_all: bool) -> Result<(), Unread> {
        if let State::Head(len) = self.state {
            if self.rest.len() < len && !is_all {
                return Ok(());
            }
            if is_index(&self.rest[..self.rest.len().min(HEAD_BYTES_MAX)], self.base.path()) {
                self.state = State::Index;
            } else if is_all || self.rest.len() >= HEAD_BYTES_MAX {
                return Err(Unread::NoIndex);
            } else {
                self.state = State::Head(2 * self.rest.len());
                return Ok(());
            }
        }
        let rest = std::mem::take(&mut self.rest);
        let looked_at = self.links(&rest, is_all)?;
        self.rest = rest;
        self.rest.drain(..looked_at);
        Ok(())
    }

    /// Takes the names that `text` links to. Returns how much of it was looked at: the rest is
    /// looked at with what follows, unless that is all.
    fn links(&mut self, text: &[u8], is_all: bool) -> Result<usize, Unread> {
        let mut at = 0;
        loop {
            if self.state == State::LongTag {
                let Some(end) = text[at..].iter().position(|&byte| byte == b'>') else { return Ok(text.len()) };
                at += end;
                self.state = State::Index;
            }
            let Some(tag) = find_ignoring_case(&text[at..], b"<a") else {
                return Ok(if text.ends_with(b"<") { text.len() - 1 } else { text.len() });
            };
            let begin = at + tag;
            at = begin + 2;
            match text.get(at) {
                Some(byte) if byte.is_ascii_whitespace() => {}
                Some(_) => continue,
                None => return Ok(begin),
            }
            // What looks like a tag inside of a tag is none; one without an end is the last.
            let len = text[at..].iter().position(|&byte| byte == b'>');
            let tag = match len {
                Some(len) => &text[at..at + len],
                None if is_all || text.len() - at > TAG_BYTES_MAX => &text[at..],
                None => return Ok(begin),
            };
            at += tag.len();
            if tag.len() <= TAG_BYTES_MAX {
                self.link(&String::from_utf8_lossy(tag))?;
            } else if len.is_none() {
                self.state = State::LongTag;
            }
        }
    }

    fn link(&mut self, tag: &str) -> Result<(), Unread> {
        if let Some(name) = href(tag).and_then(|href| child(&unescape(href), &self.base)) {
            let bytes = name.len() + NAME_BYTES;
            if self.names.insert(name) {
                self.names_bytes += bytes;
            }
        }
        if self.names_bytes > NAMES_BYTES_MAX { Err(Unread::TooMany) } else { Ok(()) }
    }
}

/// Whether a page that begins so is an index: its title says that, or is the `path` of the page
/// itself, as rclone's.
fn is_index(head: &[u8], path: &str) -> bool {
    let text = String::from_utf8_lossy(head);
    let path = percent_decode_str(path).decode_utf8_lossy();
    let is_path = |heading: &str| {
        let title = unescape(heading.split('<').next().unwrap_or_default().trim());
        title.starts_with('/') && title.trim_end_matches('/') == path.trim_end_matches('/')
    };
    ["<title", "<h1", "<h2"].iter().any(|tag| {
        let at = find_ignoring_case(text.as_bytes(), tag.as_bytes());
        let heading = at.and_then(|at| text[at..].split_once('>')).map(|(_, rest)| rest.trim_start());
        heading.is_some_and(|heading| {
            is_path(heading)
                || HEADINGS.iter().any(|h| heading.get(..h.len()).is_some_and(|start| start.eq_ignore_ascii_case(h)))
        })
    })
}

/// The `href` of a tag's attributes.
fn href(attributes: &str) -> Option<&str> {
    let mut rest = attributes;
    loop {
        let at = find_ignoring_case(rest.as_bytes(), b"href")?;
        let (before, after) = (&rest[..at], &rest[at + 4..]);
        rest = after;
        // Not the end of another attribute, such as `data-href`.
        let begins =
            before.is_empty() || before.ends_with(|c: char| c.is_ascii_whitespace() || matches!(c, '"' | '\''));
        if let Some(value) = after.trim_start().strip_prefix('=').filter(|_| begins) {
            let value = value.trim_start();
            return match value.chars().next()? {
                quote @ ('"' | '\'') => value[1..].split(quote).next(),
                _ => value.split_ascii_whitespace().next(),
            };
        }
    }
}

/// The name that a link has as a direct child of `base`.
fn child(link: &str, base: &Url) -> Option<String> {
    let target = base.join(link).ok()?;
    let (ours, theirs) = (base.origin(), target.origin());
    // A query sorts the page; a fragment is a place on it.
    if ours != theirs || target.query().is_some() || target.fragment().is_some() {
        return None;
    }
    let name = target.path().strip_prefix(base.path())?;
    let (name, slash) = match name.strip_suffix('/') {
        Some(name) => (name, "/"),
        None => (name, ""),
    };
    if name.is_empty() || name.contains('/') {
        return None;
    }
    let name = percent_decode_str(name).decode_utf8().ok()?;
    if name.contains(['/', '\0']) || matches!(&*name, "." | "..") {
        return None;
    }
    Some(format!("{name}{slash}"))
}

/// Resolves the character references of an attribute.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.bytes().take(REFERENCE_BYTES_MAX + 2).position(|byte| byte == b';');
        let reference = end.map(|end| &rest[1..end]);
        let character = reference.and_then(|name| match name {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            _ => {
                let digits = name.strip_prefix('#')?;
                let code = match digits.strip_prefix(['x', 'X']) {
                    Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                    None => digits.parse().ok()?,
                };
                char::from_u32(code)
            }
        });
        if let (Some(character), Some(name)) = (character, reference) {
            plain.push(character);
            rest = &rest[name.len() + 2..];
        } else {
            plain.push('&');
            rest = &rest[1..];
        }
    }
    plain.push_str(rest);
    plain
}

/// The longest name of a character reference, in bytes. Lower: the reference to a character of a
/// high plane stays as it is. Higher: more to look at behind each `&`.
const REFERENCE_BYTES_MAX: usize = 8;

/// Where `needle`, in lower case, occurs first.
fn find_ignoring_case(text: &[u8], needle: &[u8]) -> Option<usize> {
    text.windows(needle.len()).position(|window| window.eq_ignore_ascii_case(needle))
}

/// Bytes of a page that are looked at first for its heading, and those that it must be in. Lower:
/// a page with much before its heading is no index. Higher: more is held of a page that is none.
const HEAD_BYTES_MIN: usize = 1 << 10;
const HEAD_BYTES_MAX: usize = 64 << 10;

/// The longest tag that is read, in bytes: a name of 255 bytes, all of them encoded, and a path of
/// 4,096 before it. Lower: entries of long paths are missed. Higher: more is held of a page of
/// tags without ends.
const TAG_BYTES_MAX: usize = 16 << 10;

/// Memory that all names of a page may take, 32 MiB, and that one takes beside its text. Lower:
/// large directories cannot be listed. Higher: a page takes more memory beside the budget.
const NAMES_BYTES_MAX: usize = 32 << 20;
const NAME_BYTES: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    /// The names on a page, taken as a whole.
    fn children(page: &[u8], base: &Url) -> Result<Vec<String>, Unread> {
        in_pieces(page, base, usize::MAX)
    }

    fn in_pieces(page: &[u8], base: &Url, len: usize) -> Result<Vec<String>, Unread> {
        let mut taken = Page::new(base.clone());
        page.chunks(len.min(page.len().max(1))).try_for_each(|piece| taken.take(piece))?;
        taken.names()
    }

    fn listed(links: &[&str]) -> Vec<String> {
        let links: Vec<_> = links.iter().map(|link| format!("<a href=\"{link}\">x</a>")).collect();
        let links = links.concat();
        let page = format!("<html><head><title>Index of /pub/</title></head><body>{links}</body></html>");
        children(page.as_bytes(), &Url::parse("http://host:8080/pub/").unwrap()).unwrap()
    }

    #[test]
    fn a_page_whose_title_is_its_own_path_is_an_index() {
        let page = |title: &str| format!("<title>{title}</title><a href=\"..\">up</a><a href=\"b%20c\">b c</a>");
        for (url, title) in [("http://host/", "/"), ("http://host/a%20&amp/", "/a &amp;amp/"), ("http://host/a/", "/a")]
        {
            let base = Url::parse(url).unwrap();
            assert_eq!(children(page(title).as_bytes(), &base), Ok(vec![String::from("b c")]), "{title}");
            assert_eq!(children(page("Welcome").as_bytes(), &base), Err(Unread::NoIndex));
            assert_eq!(children(page("/elsewhere/").as_bytes(), &base), Err(Unread::NoIndex));
        }
    }

    #[test]
    fn children_are_the_links_directly_below() {
        let links = ["a", "b/", "./c", "/pub/d", "http://host:8080/pub/e", "a%20b", "x&amp;y", "%D0%96", "a"];
        assert_eq!(listed(&links), ["a", "a b", "b/", "c", "d", "e", "x&y", "Ж"]);
    }

    #[test]
    fn no_link_escapes() {
        let links = [
            "../",
            "/",
            "/etc/passwd",
            "..",
            ".",
            "",
            "?C=N;O=D",
            "#top",
            "b/c",
            "../../pub/b/c",
            "http://other/pub/a",
            "https://host:8080/pub/a",
            "//other/pub/a",
            "javascript:alert(1)",
            "mailto:a@b",
            "%2e%2e/",
            "%2E%2E%2Fa",
            "a%2Fb",
            "a%00b",
            "a%FF",
            "..%5c..",
            "/pub/../etc",
        ];
        assert_eq!(listed(&links), ["..\\.."]);
    }

    #[test]
    fn only_an_index_is_read_as_one() {
        let base = Url::parse("http://host/").unwrap();
        assert_eq!(children(b"<title>My page</title><a href=\"a\">", &base), Err(Unread::NoIndex));
        assert_eq!(children(b"", &base), Err(Unread::NoIndex));
        let python = "<TITLE>Directory listing for /</TITLE>\n<UL>\n<LI><A HREF='a%23b'>a#b</A>\n<li><a class=x href=c>\
                      <a data-href=no href=d><a id=\"x\"href=e>";
        assert_eq!(children(python.as_bytes(), &base).unwrap(), ["a#b", "c", "d", "e"]);
    }

    /// Of a quadratic parser each of these pages would take hours.
    #[test]
    fn a_page_of_tags_without_ends_is_read_in_one_pass() {
        let base = Url::parse("http://host/").unwrap();
        let long = 16 << 20;
        for part in ["<a ", "<a href", "<a href='&", "<a\n\n\n", "<a href= ", "<a href='x", "&;&", "<a data-href="] {
            let page = format!("<h1>Index of /</h1>{}", part.repeat(long / part.len()));
            for (page, len) in [(page.clone(), 100), (page + ">", 16 << 10)] {
                assert!(in_pieces(page.as_bytes(), &base, len).is_ok_and(|names| names.len() <= 1), "{part}");
            }
        }
    }

    #[test]
    fn of_a_page_only_its_names_are_kept() {
        let base = Url::parse("http://host/").unwrap();
        let mut page = Page::new(base.clone());
        page.take(b"<h1>Index of /</h1>").unwrap();
        let entry =
            |nth: u64| format!("<tr><td>{}</td><td><a href=\"name{nth:06}\">x</a></td></tr>\n", " ".repeat(400));
        for nth in 0..20_000 {
            page.take(entry(nth).as_bytes()).unwrap();
            assert!(page.rest.len() < 1024 && page.rest.capacity() < 64 << 10, "{}", page.rest.capacity());
        }
        assert_eq!(page.names().unwrap().len(), 20_000);

        let mut page = Page::new(base);
        page.take(b"<h1>Index of /</h1>").unwrap();
        let taken = (0..1_000_000).try_for_each(|nth| page.take(entry(nth).trim_start().as_bytes()));
        assert_eq!(taken, Err(Unread::TooMany));
    }

    #[test]
    fn a_tag_that_is_too_long_is_no_link_and_hides_none_behind_it() {
        let base = Url::parse("http://host/").unwrap();
        let long = "x".repeat(2 * TAG_BYTES_MAX);
        let page = format!("<h1>Index of /</h1><a {long} href=a><a href=b><a {long}<a href=c><a href=d>");
        for len in [1 << 10, 16 << 10, usize::MAX] {
            assert_eq!(in_pieces(page.as_bytes(), &base, len).unwrap(), ["b", "d"], "{len}");
        }
    }

    #[test]
    fn character_references_are_resolved() {
        assert_eq!(
            unescape("a&amp;amp;b&#x41;&#66;&nbsp;&;&lt;&unknownreference;&"),
            "a&amp;bAB&nbsp;&;<&unknownreference;&"
        );
    }

    #[test]
    fn fuzz_index_of_a_web_server() {
        let seeds: [&[u8]; 4] = [
            b"<html><head><title>Index of /pub/</title></head><body><a href=\"../\">../</a><a href=\"a%20b&amp;c\">x</a>",
            b"<H1>Directory listing for /pub/</H1><LI><A HREF='a%23b'>a#b</A><a class=x href=c><a data-href=no href=d>",
            b"<h2>Listing of</h2><a href=/pub/d/><a href=http://host:8080/pub/e><a href=\"//other/pub/a\">",
            b"<title>index of</title><a href=\"%2e%2e/\"><a href=\"a%00b\"><a href=\"&#x2e;&#46;/\">",
        ];
        let words = [
            "<a ", "href", "=", "\"", "'", ">", "&#x2f;", "&#0;", "&", ";", "%2e", "/pub/", "//", "http://", "?", "#",
            "\\", "@",
        ];
        let base = Url::parse("http://host:8080/pub/").unwrap();
        foreread_fuzz::fuzz("index of a web server", &seeds, &words, |page| {
            let whole = children(page, &base);
            for len in [1, 7, 1000] {
                assert_eq!(in_pieces(page, &base, len), whole, "in pieces of {len}");
            }
            let names = whole.unwrap_or_default();
            assert!(names.is_sorted_by(|a, b| a < b), "in order, each once");
            for name in names {
                let plain = name.strip_suffix('/').unwrap_or(&name);
                let possible = !plain.is_empty() && !plain.contains(['/', '\0']) && plain != "." && plain != "..";
                assert!(possible, "{name:?} is a name");
            }
        });
    }
}
