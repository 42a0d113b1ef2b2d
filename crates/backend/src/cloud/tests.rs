//! What the fuzz targets of the services share.

use super::page::Page;

/// What the engine takes for granted of a page.
pub(super) fn check(page: Page) {
    let page = page.into_list_page("p/");
    assert!(page.entries.is_sorted_by(|a, b| a.key() <= b.key()), "in order");
    for entry in page.entries {
        assert!(entry.key().len() > 2 && entry.key().starts_with("p/"), "{:?} is below the prefix", entry.key());
    }
}

/// Words of the listings of S3 and Azure.
pub(super) const WORDS: [&str; 36] = [
    "<Contents>",
    "</Contents>",
    "<Key>",
    "</Key>",
    "<Size>",
    "</Size>",
    "<ETag>",
    "<LastModified>",
    "<CommonPrefixes>",
    "</CommonPrefixes>",
    "<Prefix>",
    "</Prefix>",
    "<IsTruncated>true</IsTruncated>",
    "<NextContinuationToken>",
    "</NextContinuationToken>",
    "<Blob>",
    "</Blob>",
    "<BlobPrefix>",
    "<Name>",
    "<Name Encoded=\"true\">",
    "</Name>",
    "<Properties>",
    "<Content-Length>",
    "<Etag>",
    "<NextMarker>",
    "&amp;",
    "&#x0;",
    "&#1114112;",
    "&lt",
    "<![CDATA[",
    "]]>",
    "<!--",
    "<!DOCTYPE x [<!ENTITY a \"b\">]>",
    "&a;",
    "<?xml",
    "p/",
];
