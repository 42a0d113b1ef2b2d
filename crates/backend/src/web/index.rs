//! Parses index pages of nginx, Apache, lighttpd, Caddy and Python's `http.server`: HTML with one
//! link an entry.
//!
//! Not an HTML parser: only the `href` of each `a` counts. Sizes, dates and columns differ from
//! server to server; the files themselves are asked instead.

use percent_encoding::percent_decode_str;
use reqwest::Url;

/// How the title or heading of an index page begins, in lower case.
const HEADINGS: [&str; 4] = ["index of", "directory listing for", "directory: ", "listing of"];

/// The names of the direct children of `base` that a page links to, in order and each once,
/// directories with a `/` at the end; `None` if the page is no index. Time grows with the page's
/// length alone, whatever it holds.
pub(super) fn children(page: &str, base: &Url) -> Option<Vec<String>> {
    let is_index = ["<title", "<h1", "<h2"].iter().any(|tag| {
        let heading = find_ignoring_case(page, tag).and_then(|at| page[at..].split_once('>')).map(|(_, rest)| rest);
        heading.is_some_and(|heading| {
            let heading = heading.trim_start();
            HEADINGS.iter().any(|h| heading.get(..h.len()).is_some_and(|start| start.eq_ignore_ascii_case(h)))
        })
    });
    if !is_index {
        return None;
    }
    let mut names = std::collections::BTreeSet::new();
    let mut rest = page;
    while let Some(at) = find_ignoring_case(rest, "<a") {
        rest = &rest[at + 2..];
        if !rest.starts_with(|c: char| c.is_ascii_whitespace()) {
            continue;
        }
        // What looks like a tag inside of a tag is none; one without an end is the last.
        let tag = &rest[..rest.find('>').unwrap_or(rest.len())];
        rest = &rest[tag.len()..];
        names.extend(href(tag).and_then(|href| child(&unescape(href), base)));
    }
    Some(names.into_iter().collect())
}

/// The `href` of a tag's attributes.
fn href(attributes: &str) -> Option<&str> {
    let mut rest = attributes;
    loop {
        let at = find_ignoring_case(rest, "href")?;
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
fn find_ignoring_case(text: &str, needle: &str) -> Option<usize> {
    text.as_bytes().windows(needle.len()).position(|window| window.eq_ignore_ascii_case(needle.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(links: &[&str]) -> Vec<String> {
        let links: Vec<_> = links.iter().map(|link| format!("<a href=\"{link}\">x</a>")).collect();
        let links = links.concat();
        let page = format!("<html><head><title>Index of /pub/</title></head><body>{links}</body></html>");
        children(&page, &Url::parse("http://host:8080/pub/").unwrap()).unwrap()
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
        assert_eq!(children("<title>My page</title><a href=\"a\">", &base), None);
        assert_eq!(children("", &base), None);
        let python = "<TITLE>Directory listing for /</TITLE>\n<UL>\n<LI><A HREF='a%23b'>a#b</A>\n<li><a class=x href=c>\
                      <a data-href=no href=d><a id=\"x\"href=e>";
        assert_eq!(children(python, &base).unwrap(), ["a#b", "c", "d", "e"]);
    }

    /// Of a quadratic parser each of these pages would take hours.
    #[test]
    fn a_page_of_tags_without_ends_is_read_in_one_pass() {
        let base = Url::parse("http://host/").unwrap();
        let long = 16 << 20;
        for part in ["<a ", "<a href", "<a href='&", "<a\n\n\n", "<a href= ", "<a href='x", "&;&", "<a data-href="] {
            let page = format!("<h1>Index of /</h1>{}", part.repeat(long / part.len()));
            assert!(children(&page, &base).is_some_and(|names| names.len() <= 1), "{part}");
            assert!(children(&(page + ">"), &base).is_some_and(|names| names.len() <= 1), "{part}>");
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
            let names = children(&String::from_utf8_lossy(page), &base).unwrap_or_default();
            assert!(names.is_sorted_by(|a, b| a < b), "in order, each once");
            for name in names {
                let plain = name.strip_suffix('/').unwrap_or(&name);
                let possible = !plain.is_empty() && !plain.contains(['/', '\0']) && plain != "." && plain != "..";
                assert!(possible, "{name:?} is a name");
            }
        });
    }
}
