//! The subject of a request: its kind, its key and its protocol.

use http::Method;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use crate::answer::plain;
use crate::counters::Kind;

/// The subject of a request.
pub(super) struct Topic {
    pub(super) kind: Kind,
    pub(super) key: String,
    /// S3, or else plain HTTP.
    pub(super) s3: bool,
}

impl Topic {
    /// `bucket` is the only one; `None` where another server has any, and no plain HTTP.
    pub(super) fn of(parts: &Parts, bucket: Option<&str>) -> Self {
        let path = percent_decode_str(parts.uri.path()).decode_utf8_lossy();
        let query = parts.uri.query().unwrap_or_default();
        if let Some(key) = path.strip_prefix(plain::ROOT).filter(|_| bucket.is_some()) {
            let directory = key.is_empty() || key.ends_with('/');
            let kind = match parts.method {
                Method::GET if directory => Kind::List,
                Method::GET => Kind::Get,
                Method::HEAD => Kind::Head,
                _ => Kind::Other,
            };
            return Self { kind, key: key.to_owned(), s3: false };
        }
        let below = path.strip_prefix('/');
        let inside = below.and_then(|path| match bucket {
            Some(bucket) => path.strip_prefix(bucket),
            None => path.find('/').map(|at| &path[at..]).or_else(|| (!path.is_empty()).then_some("")),
        });
        let key = inside.map(|inside| inside.strip_prefix('/').unwrap_or(inside)).unwrap_or_default();
        let kind = match parts.method {
            _ if inside.is_none() => Kind::Other,
            Method::GET if key.is_empty() && !is_about_bucket(query) => {
                let prefix = query.split('&').find_map(|pair| pair.strip_prefix("prefix=")).unwrap_or_default();
                let prefix = percent_decode_str(prefix).decode_utf8_lossy().into_owned();
                return Self { kind: Kind::List, key: prefix, s3: true };
            }
            _ if key.is_empty() => Kind::Other,
            Method::GET => Kind::Get,
            Method::HEAD => Kind::Head,
            Method::PUT | Method::DELETE => Kind::Put,
            _ => Kind::Other,
        };
        Self { kind, key: key.to_owned(), s3: true }
    }
}

/// Whether a query is about the bucket, not about keys.
fn is_about_bucket(query: &str) -> bool {
    query.split('&').any(|pair| matches!(pair.split('=').next(), Some("location" | "versioning" | "acl" | "uploads")))
}
