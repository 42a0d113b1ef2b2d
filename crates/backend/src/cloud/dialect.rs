//! What differs between the services besides what `opendal` knows.
//!
//! Where nothing is said, a service has HTTP's own validators: `ETag`, `If-Match`, `Last-Modified`.

use http::header::{CONTENT_LENGTH, HeaderMap};
use opendal::options::ReadOptions;
use opendal::raw::Servicer;

use super::page::Page;
use crate::error::Error;
use crate::object::Version;
use crate::response::{TagHeader, last_modified, number};
use crate::wire::Wire;

/// What differs between the services besides what `opendal` knows.
pub(crate) trait Dialect: Send + Sync + 'static {
    /// The header that carries an object's strong validator.
    fn tag_header(&self) -> &TagHeader {
        &TagHeader::ETag
    }

    /// The version told by the response to a stat.
    fn version(&self, headers: &HeaderMap, _body: &[u8]) -> Option<Version> {
        Some(Version {
            size: number(headers, &CONTENT_LENGTH)?,
            tag: TagHeader::ETag.tag(headers).map(Into::into),
            modified: last_modified(headers),
        })
    }

    /// The options that make a read conditional on a tag.
    fn on_condition(&self, tag: &str) -> ReadOptions {
        ReadOptions { if_match: Some(tag.to_owned()), ..ReadOptions::default() }
    }

    /// Adds to the headers of a signed read; only what signatures do not cover.
    fn prepare_read(&self, _headers: &mut HeaderMap) {}

    /// Whether listings are in the order of their keys and can begin after any of them.
    fn lists_after(&self) -> bool;

    /// A page without entries that is followed by the page of `token`.
    fn page_before(&self, token: &str) -> String;

    /// Reads one page of a listing.
    fn page(&self, body: &[u8]) -> Result<Page, String>;

    /// Finds the code and the message in the body of an error.
    fn cause(&self, body: &[u8]) -> (Option<String>, Option<String>);

    /// Where credentials were looked for, and what to do when there are none.
    fn credential_sources(&self) -> String;

    /// Makes the service, for `region` where services have regions. Credentials are looked for at the first request.
    fn service(&self, region: Option<&str>, wire: &Wire) -> Result<Servicer, Error>;
}
