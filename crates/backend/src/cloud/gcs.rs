//! Google Cloud Storage, by its JSON API.
//!
//! The strong validator is the generation: it changes with the content and with nothing else. The
//! modification time is the time at which the generation was created, so that an edit of metadata
//! makes no new version.
//!
//! The service decompresses objects that are stored with `Content-Encoding: gzip`, unless the
//! reader accepts gzip; then it ignores ranges, and sizes are wrong. So every read accepts gzip,
//! and gets the stored bytes.

use std::sync::Arc;
use std::sync::LazyLock;

use http::header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue};
use opendal::Builder;
use opendal::options::ReadOptions;
use opendal::raw::Servicer;
use serde::Deserialize;

use super::dialect::Dialect;
use super::page::{Listed, Page, time};
use super::{Cloud, check_endpoint, environment};
use crate::connect::ConnectOptions;
use crate::error::{Error, ErrorKind, Operation};
use crate::object::Version;
use crate::response::TagHeader;
use crate::wire::Wire;

static GENERATION: LazyLock<TagHeader> =
    LazyLock::new(|| TagHeader::Named(HeaderName::from_static("x-goog-generation")));

struct Gcs {
    bucket: String,
    endpoint: Option<String>,
    anonymous: bool,
}

/// The bucket of a `gs://` URL.
pub(crate) fn connect(bucket: &str, options: &ConnectOptions) -> Result<Cloud, Error> {
    check_endpoint(&format!("gs://{bucket}"), options.endpoint.as_deref())?;
    let emulator = environment::variable(&["STORAGE_EMULATOR_HOST"]);
    let emulator = emulator.map(|host| if host.contains("://") { host } else { format!("http://{host}") });
    let dialect = Gcs {
        bucket: bucket.to_owned(),
        // Google's own clients send unsigned requests to an emulator named by this variable, too.
        anonymous: options.anonymous || (emulator.is_some() && options.endpoint.is_none()),
        endpoint: options.endpoint.clone().or(emulator),
    };
    Cloud::new(format!("gs://{bucket}"), Box::new(dialect), None)
}

/// The parts of an object's description that are used here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    #[serde(default)]
    name: String,
    size: Option<String>,
    generation: Option<String>,
    time_created: Option<String>,
}

impl Resource {
    fn size(&self) -> Option<u64> {
        self.size.as_deref()?.parse().ok()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listing {
    #[serde(default)]
    items: Vec<Resource>,
    #[serde(default)]
    prefixes: Vec<String>,
    next_page_token: Option<String>,
}

impl Dialect for Gcs {
    fn tag_header(&self) -> &TagHeader {
        &GENERATION
    }

    fn version(&self, _: &HeaderMap, body: &[u8]) -> Option<Version> {
        let resource: Resource = serde_json::from_slice(body).ok()?;
        Some(Version {
            size: resource.size()?,
            tag: resource.generation.map(Into::into),
            modified: resource.time_created.as_deref().and_then(time),
        })
    }

    // A read tells the time of the change in whole seconds, a stat in smaller parts.
    fn reads_tell_versions(&self) -> bool {
        false
    }

    fn on_condition(&self, tag: &str) -> ReadOptions {
        ReadOptions { if_version_match: Some(tag.to_owned()), ..ReadOptions::default() }
    }

    fn prepare_read(&self, headers: &mut HeaderMap) {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    }

    fn lists_after(&self) -> bool {
        true
    }

    fn page_before(&self, token: &str) -> String {
        serde_json::json!({ "nextPageToken": token }).to_string()
    }

    fn page(&self, body: &[u8]) -> Result<Page, String> {
        let listing: Listing = serde_json::from_slice(body).map_err(|e| e.to_string())?;
        let listed = |resource: Resource| Listed {
            size: resource.size(),
            modified: resource.time_created.as_deref().and_then(time),
            tag: resource.generation,
            key: resource.name,
        };
        Ok(Page {
            objects: listing.items.into_iter().map(listed).collect(),
            prefixes: listing.prefixes,
            token: listing.next_page_token.filter(|token| !token.is_empty()),
        })
    }

    fn cause(&self, body: &[u8]) -> (Option<String>, Option<String>) {
        let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |pointer| body.pointer(pointer).and_then(serde_json::Value::as_str).map(str::to_owned);
        (text("/error/errors/0/reason"), text("/error/message").and_then(|m| m.lines().next().map(str::to_owned)))
    }

    fn credential_sources(&self) -> String {
        String::from(
            "tried GOOGLE_APPLICATION_CREDENTIALS, ~/.config/gcloud/application_default_credentials.json (made by \
             gcloud auth application-default login) and instance metadata; a public bucket needs --anonymous",
        )
    }

    fn server(&self) -> String {
        self.endpoint.clone().unwrap_or_default()
    }

    fn service(&self, _: Option<&str>, _: &Wire) -> Result<Servicer, Error> {
        let mut builder = opendal::services::Gcs::default().bucket(&self.bucket);
        if let Some(endpoint) = &self.endpoint {
            builder = builder.endpoint(endpoint.trim_end_matches('/'));
        }
        if self.anonymous {
            builder = builder.skip_signature();
        }
        let service = builder.build().map_err(|e| {
            Error::new(ErrorKind::Invalid, Operation::Configure, format!("gs://{}", self.bucket), e.message())
        })?;
        Ok(Arc::new(service))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::tests::check;

    #[test]
    fn fuzz_listing_and_description_of_gcs() {
        let gcs = Gcs { bucket: String::from("b"), endpoint: None, anonymous: true };
        let seeds: [&[u8]; 3] = [
            br#"{"items":[{"name":"p/a","size":"5","generation":"17","timeCreated":"2026-07-27T09:30:00.123Z"},
                {"name":"p/b","size":"18446744073709551615"}],"prefixes":["p/d/"],"nextPageToken":"t="}"#,
            br#"{"name":"p/a","size":"5","generation":"17","timeCreated":"+262142-12-31T23:59:59Z"}"#,
            br#"{"error":{"message":"Rate limit\n","errors":[{"reason":"rateLimitExceeded"}]}}"#,
        ];
        let words = [
            "\"name\":",
            "\"size\":",
            "\"items\":[",
            "\"timeCreated\":\"",
            "null",
            "{",
            "[",
            "]}",
            "\\u0000",
            "\\ud800",
        ];
        foreread_fuzz::fuzz("listing of GCS", &seeds, &words, |body| {
            let _ = (gcs.version(&HeaderMap::new(), body), gcs.cause(body));
            if let Ok(page) = gcs.page(body) {
                check(page);
            }
        });
    }
}
