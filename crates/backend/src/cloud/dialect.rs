//! What differs between the services besides what `opendal` knows.
//!
//! By default a service has HTTP's own validators: `ETag`, `If-Match` and `Last-Modified`.

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

    /// The version in the response to a stat.
    fn version(&self, headers: &HeaderMap, _body: &[u8]) -> Option<Version> {
        Some(Version {
            size: number(headers, &CONTENT_LENGTH)?,
            tag: TagHeader::ETag.tag(headers).map(Into::into),
            modified: last_modified(headers),
        })
    }

    /// The version in the response to a read of an object of `size` bytes: the same as in the
    /// response to a stat. `None` if a read does not tell it.
    fn version_read(&self, headers: &HeaderMap, size: u64) -> Option<Version> {
        let tag = self.tag_header().tag(headers)?;
        Some(Version { size, tag: Some(tag.into()), modified: last_modified(headers) })
    }

    /// Whether reads tell versions.
    fn reads_tell_versions(&self) -> bool {
        true
    }

    /// The options that make a read conditional on a tag.
    fn on_condition(&self, tag: &str) -> ReadOptions {
        ReadOptions { if_match: Some(tag.to_owned()), ..ReadOptions::default() }
    }

    /// Adds headers to a signed read: only headers that the signature does not cover.
    fn prepare_read(&self, _headers: &mut HeaderMap) {}

    /// What tells the service from others of its kind: an endpoint, or an account; empty for the
    /// cloud's own service where names are its users' together.
    fn server(&self) -> String;

    /// Whether listings are in key order and can begin after any key.
    fn lists_after(&self) -> bool;

    /// An empty page, made up, after which the service asks for the page of `token`.
    fn page_before(&self, token: &str) -> String;

    /// Reads one page of a listing.
    fn page(&self, body: &[u8]) -> Result<Page, String>;

    /// Finds the code and the message in the body of an error.
    fn cause(&self, body: &[u8]) -> (Option<String>, Option<String>);

    /// Where credentials were looked for, and advice if there are none.
    fn credential_sources(&self) -> String;

    /// Makes the service, for `region` where services have regions. Credentials are looked for at
    /// the first request.
    fn service(&self, region: Option<&str>, wire: &Wire) -> Result<Servicer, Error>;
}
