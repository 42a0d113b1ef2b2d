//! The same objects over plain HTTP: GET and HEAD, ranges, conditions, and a listing of
//! directories as nginx makes it.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderValue, LOCATION};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::conditions::Selection;
use super::listing::{Page, Query};
use super::payload::Payload;
use crate::Effect;
use crate::answer::{self, Answer, Chosen};
use crate::objects::{Object, Objects};

/// Where plain HTTP begins in the URL.
pub(crate) const ROOT: &str = "/http/";

/// Answers a request for `key`: an object, or a directory where it is empty or ends in `/`.
pub(crate) fn answer(objects: &Objects, parts: &Parts, key: &str, effect: Option<Effect>) -> std::io::Result<Answer> {
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        let message = "only GET and HEAD are served here";
        let mut answer = answer::error(false, StatusCode::METHOD_NOT_ALLOWED, "", message, None);
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(answer);
    }
    let mut answer = match objects.get(key) {
        Some(object) => {
            let gzip = effect == Some(Effect::Gzip) && parts.method == Method::GET;
            match answer::select(&parts.headers, &object, effect) {
                Selection::Whole => object_answer(object, None, gzip)?,
                Selection::Part(part) => object_answer(object, Some(part), gzip)?,
                Selection::NotModified => {
                    let mut answer = Response::new(Payload::Bytes(bytes::Bytes::new()));
                    *answer.status_mut() = StatusCode::NOT_MODIFIED;
                    *answer.headers_mut() = answer::version_headers(&object);
                    answer
                }
                Selection::PreconditionFailed => {
                    answer::error(false, StatusCode::PRECONDITION_FAILED, "", "412 Precondition Failed", None)
                }
                Selection::NotSatisfiable => {
                    let status = StatusCode::RANGE_NOT_SATISFIABLE;
                    let mut answer = answer::error(false, status, "", "416 Range Not Satisfiable", None);
                    answer.headers_mut().insert(CONTENT_RANGE, answer::unsatisfied_range(object.size));
                    answer
                }
            }
        }
        None => directory(objects, parts.uri.path(), key),
    };
    if parts.method == Method::HEAD {
        if let Some(bytes) = answer.body().len() {
            answer.headers_mut().insert(CONTENT_LENGTH, bytes.into());
        }
        *answer.body_mut() = Payload::Bytes(bytes::Bytes::new());
    }
    Ok(answer)
}

fn object_answer(object: Arc<Object>, part: Option<Range<u64>>, gzip: bool) -> std::io::Result<Answer> {
    let (status, headers) = answer::object_head(&object, part.as_ref(), gzip);
    let range = part.unwrap_or(0..object.size);
    let mut answer = Response::new(Chosen { status, object, range, gzip }.payload()?);
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    Ok(answer)
}

/// The listing of a directory, a redirection to it, or 404.
fn directory(objects: &Objects, path: &str, key: &str) -> Answer {
    let prefix = if key.is_empty() || key.ends_with('/') { key.to_owned() } else { format!("{key}/") };
    let query = Query { prefix: &prefix, delimiter: "/", entries_max: usize::MAX, ..Query::default() };
    let page = Page::read(objects, &query);
    if page.objects.is_empty() && page.prefixes.is_empty() && !key.is_empty() {
        return answer::error(false, StatusCode::NOT_FOUND, "", "404 Not Found", None);
    }
    if prefix != key {
        let mut answer = answer::error(false, StatusCode::MOVED_PERMANENTLY, "", "301 Moved Permanently", None);
        if let Ok(location) = HeaderValue::from_str(&format!("{path}/")) {
            answer.headers_mut().insert(LOCATION, location);
        }
        return answer;
    }
    let mut answer = Response::new(Payload::Bytes(autoindex(&page, &prefix).into()));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
    answer
}

/// What nginx's `autoindex on` writes: directories first, names padded to 51 columns, dates in
/// GMT, sizes in bytes.
fn autoindex(page: &Page, prefix: &str) -> String {
    let title = escape(&format!("Index of {ROOT}{prefix}"));
    let mut html = format!("<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<h1>{title}</h1><hr><pre>");
    html.push_str("<a href=\"../\">../</a>\r\n");
    let directories = page.prefixes.iter().map(|child| (&child[prefix.len()..], None));
    let files = page.objects.iter().filter(|object| object.key != prefix);
    let files = files.map(|object| (&object.key[prefix.len()..], Some(Arc::clone(object))));
    for (name, object) in directories.chain(files) {
        let (date, size) = match object {
            Some(object) => (object.modified, object.size.to_string()),
            None => (SystemTime::UNIX_EPOCH, "-".to_owned()),
        };
        let shown: String = if name.chars().count() > NAME_COLUMNS {
            name.chars().take(NAME_COLUMNS - 3).chain("..>".chars()).collect()
        } else {
            name.to_owned()
        };
        let padding = NAME_COLUMNS + 1 - shown.chars().count();
        let href = utf8_percent_encode(name, HREF);
        // Writing to a string does not fail.
        let _ = write!(html, "<a href=\"{href}\">{}</a>{:padding$}", escape(&shown), "");
        let _ = write!(html, "{} {size:>19}\r\n", date_of(date));
    }
    html.push_str("</pre><hr></body>\r\n</html>\r\n");
    html
}

/// `27-Jul-2026 09:30`, from the `Mon, 27 Jul 2026 09:30:00 GMT` of HTTP.
fn date_of(time: SystemTime) -> String {
    let http = httpdate::fmt_http_date(time);
    format!("{}-{}-{} {}", &http[5..7], &http[8..11], &http[12..16], &http[17..22])
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Longer names are cut and end in `..>`: `NGX_HTTP_AUTOINDEX_NAME_LEN`.
const NAME_COLUMNS: usize = 50;

/// What nginx escapes in a link.
const HREF: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'%').add(b'\'').add(b'#').add(b'?').add(b'<').add(b'>').add(b':');

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObjectSpec;

    #[test]
    fn a_directory_looks_as_nginx_makes_it() {
        let specs =
            ["d/a b&c", "d/sub/x", "d/", &format!("d/{}", "n".repeat(60))].map(|key| ObjectSpec::new(key, 1234));
        let objects = Objects::new(&specs, None).unwrap();
        let query = Query { prefix: "d/", delimiter: "/", entries_max: 10, ..Query::default() };
        let html = autoindex(&Page::read(&objects, &query), "d/");
        let lines: Vec<&str> = html.split("\r\n").collect();
        assert_eq!(lines[3], "<h1>Index of /http/d/</h1><hr><pre><a href=\"../\">../</a>");
        assert_eq!(lines[4], format!("<a href=\"sub/\">sub/</a>{:47}01-Jan-1970 00:00{:>20}", "", "-"));
        assert_eq!(lines[5], format!("<a href=\"a%20b&c\">a b&amp;c</a>{:46}01-Jan-2024 00:00{:>20}", "", "1234"));
        let long = format!("<a href=\"{}\">{}..&gt;</a> 01-Jan-2024", "n".repeat(60), "n".repeat(47));
        assert!(lines[6].starts_with(&long), "{}", lines[6]);
        assert_eq!(lines[7], "</pre><hr></body>");
    }
}
