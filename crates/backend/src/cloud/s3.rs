//! Amazon S3, and storage that speaks its protocol.
//!
//! An endpoint gets path-style addresses, because emulators and appliances rarely have a host name
//! for each bucket. AWS gets virtual hosts, as it asks for, unless the bucket's name has a dot,
//! which would not match AWS's certificate.

use std::sync::Arc;

use opendal::Builder;
use opendal::raw::Servicer;

use super::credentials::{Courier, Notes};
use super::dialect::Dialect;
use super::page::{Listed, Page, escape_xml, walk_xml, whole_seconds, xml_cause};
use super::{Cloud, aws, check_endpoint, environment, profile};
use crate::connect::{ConnectOptions, Keys};
use crate::error::{Error, ErrorKind, Operation};
use crate::wire::Wire;

/// The region where no setting names one. A bucket elsewhere answers with its own region.
const REGION_DEFAULT: &str = "us-east-1";

struct S3 {
    bucket: String,
    endpoint: Option<String>,
    profile: Option<String>,
    keys: Option<Keys>,
    anonymous: bool,
    notes: Notes,
}

/// The bucket of an `s3://` URL.
pub(crate) fn connect(bucket: &str, options: &ConnectOptions) -> Result<Cloud, Error> {
    let profile = options.profile.as_deref();
    if let Some(name) = profile.filter(|name| !options.anonymous && !profile::exists(name)) {
        let message = format!("there is no profile {name} in ~/.aws/config or ~/.aws/credentials");
        return Err(Error::new(ErrorKind::Invalid, Operation::Configure, format!("s3://{bucket}"), message));
    }
    let endpoint = options.endpoint.clone();
    // The first two are AWS's own. Other programs read the others, and opendal would.
    let variables = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_S3_ENDPOINT"];
    let endpoint = endpoint.or_else(|| environment::variable(&variables));
    let endpoint = endpoint.or_else(|| profile::setting(profile, "endpoint_url"));
    check_endpoint(&format!("s3://{bucket}"), endpoint.as_deref())?;
    let region = options.region.clone();
    let region = region.or_else(|| environment::variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]));
    let region = region.or_else(|| profile::setting(profile, "region"));
    let dialect = S3 {
        bucket: bucket.to_owned(),
        endpoint,
        profile: options.profile.clone(),
        keys: options.keys.clone(),
        anonymous: options.anonymous,
        notes: Notes::default(),
    };
    let region = region.unwrap_or_else(|| String::from(REGION_DEFAULT));
    Cloud::new(format!("s3://{bucket}"), Box::new(dialect), Some(region))
}

impl Dialect for S3 {
    fn lists_after(&self) -> bool {
        // Directory buckets list without order, and from the start only.
        !self.bucket.ends_with("--x-s3")
    }

    fn page_before(&self, token: &str) -> String {
        format!(
            "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>{}</NextContinuationToken>\
             </ListBucketResult>",
            escape_xml(token)
        )
    }

    fn page(&self, body: &[u8]) -> Result<Page, String> {
        let (mut page, mut listed, mut truncated) = (Page::default(), Listed::default(), None);
        walk_xml(body, "ListBucketResult", |path, text| match path {
            [a, b] if a == "Contents" => match b.as_str() {
                "Key" => text.clone_into(&mut listed.key),
                "Size" => listed.size = text.trim().parse().ok(),
                "ETag" => listed.tag = Some(text.trim().to_owned()).filter(|tag| !tag.is_empty()),
                "LastModified" => listed.modified = whole_seconds(text.trim()),
                _ => {}
            },
            [a] if a == "Contents" => page.objects.push(std::mem::take(&mut listed)),
            [a, b] if a == "CommonPrefixes" && b == "Prefix" => page.prefixes.push(text.to_owned()),
            [a] if a == "IsTruncated" => truncated = Some(text.trim() == "true"),
            [a] if a == "NextContinuationToken" => page.token = Some(text.to_owned()),
            _ => {}
        })?;
        if truncated == Some(true) && page.token.is_none() {
            return Err(String::from("there is more, but no token for it"));
        }
        page.token = page.token.filter(|_| truncated != Some(false));
        Ok(page)
    }

    fn cause(&self, body: &[u8]) -> (Option<String>, Option<String>) {
        xml_cause(body)
    }

    fn credential_sources(&self) -> String {
        let notes = self.notes.take();
        format!(
            "tried AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the profile {} in ~/.aws (role, keys, SSO, \
             credential_process), web identity, container and instance metadata{}{notes}; a public bucket needs \
             --anonymous",
            profile::name(self.profile.as_deref()),
            if notes.is_empty() { "" } else { "; " },
        )
    }

    fn server(&self) -> String {
        self.endpoint.clone().unwrap_or_default()
    }

    fn service(&self, region: Option<&str>, wire: &Wire) -> Result<Servicer, Error> {
        let region = region.unwrap_or(REGION_DEFAULT);
        let credentials = match &self.keys {
            Some(keys) => aws::keys(keys),
            None => aws::chain(self.profile.as_deref(), region, &Courier(wire.clone()), &self.notes),
        };
        let mut builder = opendal::services::S3::default().bucket(&self.bucket).region(region);
        builder = builder.credential_provider_chain(credentials);
        match &self.endpoint {
            Some(endpoint) => builder = builder.endpoint(endpoint),
            None if !self.bucket.contains('.') => builder = builder.enable_virtual_host_style(),
            None => {}
        }
        if self.anonymous {
            builder = builder.skip_signature();
        }
        let service = builder.build().map_err(|e| {
            Error::new(ErrorKind::Invalid, Operation::Configure, format!("s3://{}", self.bucket), e.message())
        })?;
        Ok(Arc::new(service))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::tests::{WORDS, check};

    #[test]
    fn fuzz_listing_of_s3() {
        let s3 = S3 {
            bucket: String::from("b"),
            endpoint: None,
            profile: None,
            keys: None,
            anonymous: true,
            notes: Notes::default(),
        };
        let seeds: [&[u8]; 2] = [
            b"<?xml version=\"1.0\"?><ListBucketResult><Prefix>p/</Prefix><IsTruncated>true</IsTruncated>\
              <NextContinuationToken>t=</NextContinuationToken><Contents><Key>p/a</Key><Size>5</Size>\
              <ETag>&quot;e&quot;</ETag><LastModified>2026-07-27T09:30:00.000Z</LastModified></Contents>\
              <Contents><Key>p/b &amp; c</Key><Size>18446744073709551615</Size></Contents>\
              <CommonPrefixes><Prefix>p/d/</Prefix></CommonPrefixes></ListBucketResult>",
            b"<ListBucketResult/>",
        ];
        foreread_fuzz::fuzz("listing of S3", &seeds, &WORDS, |body| {
            if let Ok(page) = s3.page(body) {
                check(page);
            }
        });
        // What it makes up to have a later page asked for is a page itself.
        foreread_fuzz::fuzz("token of S3", &[b"1/a b="], &WORDS, |token| {
            let token = String::from_utf8_lossy(token);
            if let Ok(page) = s3.page(s3.page_before(&token).as_bytes()) {
                assert!(page.objects.is_empty() && page.prefixes.is_empty(), "no entry");
            }
        });
    }
}
