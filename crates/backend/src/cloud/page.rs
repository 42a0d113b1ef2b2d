//! One page of a listing as the storage sends it: XML for S3 and Azure, JSON for GCS.
//!
//! The XML is read event by event and not trimmed: a key may begin or end with a space.

use std::time::{Duration, SystemTime};

use quick_xml::events::Event;

use crate::object::{Entry, Key, ListPage, Object, Version};

/// A page as it arrived: some of its names may not be children.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) objects: Vec<Listed>,
    pub(crate) prefixes: Vec<String>,
    /// Asks for the next page; `None` on the last.
    pub(crate) token: Option<String>,
}

/// An object of a page.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) key: String,
    pub(crate) size: Option<u64>,
    pub(crate) tag: Option<String>,
    pub(crate) modified: Option<SystemTime>,
}

impl Page {
    /// The direct children of `prefix`, in the order of their names, each once. An object with the
    /// prefix's own name is a marker of a directory, not a child.
    pub(crate) fn into_list_page(self, prefix: &str) -> ListPage {
        let child = |name: &str| name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty());
        let objects = self.objects.into_iter().filter_map(|listed| {
            let size = listed.size.filter(|_| child(&listed.key))?;
            let version = Version { size, tag: listed.tag.map(Into::into), modified: listed.modified };
            Some(Entry::Object(Object { key: Key::new(listed.key), version }))
        });
        let mut entries: Vec<_> = objects.collect();
        entries.extend(self.prefixes.into_iter().filter(|name| child(name)).map(Entry::Prefix));
        entries.sort_by(|a, b| a.key().cmp(b.key()));
        entries.dedup_by(|a, b| a.key() == b.key());
        ListPage { entries, continuation: self.token }
    }
}

/// Appended by [`walk_xml`] to the name of an element with the attribute `Encoded="true"`.
pub(super) const ENCODED: &str = " encoded";

/// Calls `leaf` for each element that holds text, with its path (as `["Contents", "Key"]`, without
/// the root) and its text; and at the end of each element that holds others, with an empty text. A
/// root other than `root` is an error: storage may send one with a status of success.
pub(super) fn walk_xml(body: &[u8], root: &str, mut leaf: impl FnMut(&[String], &str)) -> Result<(), String> {
    let mut reader = quick_xml::Reader::from_str(std::str::from_utf8(body).map_err(|e| e.to_string())?);
    let (mut path, mut text, mut seen) = (Vec::<String>::new(), String::new(), false);
    loop {
        match reader.read_event().map_err(|e| e.to_string())? {
            Event::Start(start) => {
                let mut name = start.local_name().as_ref().to_owned();
                if start.try_get_attribute("Encoded").ok().flatten().is_some_and(|encoded| *encoded.value == *"true") {
                    name.push_str(ENCODED);
                }
                if path.is_empty() && name != root {
                    return Err(format!("the document is a {name}, not a {root}"));
                }
                path.push(name);
                seen = true;
                text.clear();
            }
            Event::End(_) => {
                leaf(path.get(1..).unwrap_or_default(), &text);
                text.clear();
                path.pop();
            }
            Event::Text(part) => text.push_str(&part),
            Event::CData(part) => text.push_str(&part),
            Event::GeneralRef(name) => match name.resolve_char_ref().map_err(|e| e.to_string())? {
                Some(character) => text.push(character),
                None => match &*name {
                    "amp" => text.push('&'),
                    "lt" => text.push('<'),
                    "gt" => text.push('>'),
                    "quot" => text.push('"'),
                    "apos" => text.push('\''),
                    other => return Err(format!("unknown entity {other}")),
                },
            },
            Event::Eof if path.is_empty() && seen => return Ok(()),
            Event::Eof => return Err(String::from("the document is cut off")),
            _ => {}
        }
    }
}

/// The `Code` and `Message` of an XML error, at most a line long.
pub(super) fn xml_cause(body: &[u8]) -> (Option<String>, Option<String>) {
    let (mut code, mut message) = (None, None);
    // A body that cannot be parsed tells no cause; the status still does.
    let _ = walk_xml(body, "Error", |path, text| match path {
        [name] if name == "Code" => code = Some(text.to_owned()),
        [name] if name == "Message" => message = text.lines().next().map(str::to_owned),
        _ => {}
    });
    (code, message)
}

/// Escapes text for an XML element.
pub(super) fn escape_xml(text: &str) -> String {
    quick_xml::escape::escape(text).into_owned()
}

/// Parses a time of a listing.
pub(super) fn time(text: &str) -> Option<SystemTime> {
    Some(text.parse::<opendal::raw::Timestamp>().ok()?.into())
}

/// The same, cut to whole seconds as in `Last-Modified`, so that a listing and a stat agree.
pub(super) fn whole_seconds(text: &str) -> Option<SystemTime> {
    let since = time(text)?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::tests::WORDS;

    fn leaves(xml: &str) -> Result<Vec<(String, String)>, String> {
        let mut leaves = Vec::new();
        walk_xml(xml.as_bytes(), "r", |path, text| leaves.push((path.join("/"), text.to_owned())))?;
        Ok(leaves)
    }

    #[test]
    fn text_is_taken_as_it_is() {
        let xml = "<?xml version=\"1.0\"?><r>\n <a> x &amp;&#x20;&lt;\n </a><b><![CDATA[<&>]]></b><Name Encoded=\"true\">%01</Name></r>";
        let leaves = leaves(xml).unwrap();
        assert_eq!(leaves[0], ("a".into(), " x & <\n ".into()));
        assert_eq!(leaves[1], ("b".into(), "<&>".into()));
        assert_eq!(leaves[2], ("Name encoded".into(), "%01".into()));
    }

    #[test]
    fn a_cut_or_another_document_is_an_error() {
        for xml in ["<r><a>x</a>", "<r><a>x", "", "<r>&nbsp;</r>", "<s></s>"] {
            assert!(leaves(xml).is_err(), "{xml}");
        }
    }

    #[test]
    fn children_are_sorted_and_named_once_and_markers_left_out() {
        let object = |key: &str| Listed { key: key.into(), size: Some(1), ..Listed::default() };
        let page = Page {
            objects: vec![
                object("p/b"),
                object("p/"),
                object("p/b"),
                object("q"),
                Listed { size: None, ..object("p/broken") },
            ],
            prefixes: vec!["p/a/".into(), "p/".into(), "p/a/".into(), "q/".into()],
            token: Some("t".into()),
        };
        let page = page.into_list_page("p/");
        assert_eq!(page.entries.iter().map(Entry::key).collect::<Vec<_>>(), ["p/a/", "p/b"]);
        assert_eq!(page.continuation.as_deref(), Some("t"));
    }

    #[test]
    fn causes_are_one_line() {
        let body = b"<Error><Code>NoSuchKey</Code><Message>line 1\nline 2</Message></Error>";
        assert_eq!(xml_cause(body), (Some("NoSuchKey".into()), Some("line 1".into())));
        assert_eq!(xml_cause(b"<html>"), (None, None));
    }

    #[test]
    fn fuzz_cause_of_an_error() {
        let seeds: [&[u8]; 2] = [
            b"<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>Reduce &amp; wait\n</Message></Error>",
            b"\xef\xbb\xbf<Error><Code>ServerBusy</Code><Message/></Error>",
        ];
        foreread_fuzz::fuzz("cause of an error", &seeds, &WORDS, |body| {
            let (_, message) = xml_cause(body);
            assert!(!message.is_some_and(|message| message.contains('\n')), "one line");
        });
    }
}
