//! Azure Blob Storage.

use std::sync::Arc;

use opendal::Builder;
use opendal::raw::Servicer;

use super::dialect::Dialect;
use super::page::{ENCODED, Listed, Page, escape_xml, walk_xml, xml_cause};
use super::{Cloud, check_endpoint, environment};
use crate::connect::ConnectOptions;
use crate::error::{Error, ErrorKind, Operation};
use crate::wire::Wire;

struct Azblob {
    container: String,
    endpoint: Option<String>,
    anonymous: bool,
}

/// The container of an `az://` URL.
pub(crate) fn connect(container: &str, options: &ConnectOptions) -> Result<Cloud, Error> {
    check_endpoint(&format!("az://{container}"), options.endpoint.as_deref())?;
    let dialect =
        Azblob { container: container.to_owned(), endpoint: options.endpoint.clone(), anonymous: options.anonymous };
    Cloud::new(format!("az://{container}"), Box::new(dialect), None)
}

impl Dialect for Azblob {
    fn lists_after(&self) -> bool {
        false
    }

    fn page_before(&self, token: &str) -> String {
        format!("<EnumerationResults><Blobs/><NextMarker>{}</NextMarker></EnumerationResults>", escape_xml(token))
    }

    fn page(&self, body: &[u8]) -> Result<Page, String> {
        let (mut page, mut listed) = (Page::default(), Listed::default());
        // A name with characters that XML cannot hold is percent-encoded, and marked as such.
        let encoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
        walk_xml(body, "EnumerationResults", |path, text| match path {
            [_, blob, name] if blob == "Blob" && name == "Name" => text.clone_into(&mut listed.key),
            [_, blob, name] if blob == "Blob" && name.strip_suffix(ENCODED) == Some("Name") => {
                listed.key = encoded(text);
            }
            [_, blob, properties, property] if blob == "Blob" && properties == "Properties" => {
                match property.as_str() {
                    "Content-Length" => listed.size = text.trim().parse().ok(),
                    // Listings omit the quotes that the header has.
                    "Etag" => listed.tag = Some(format!("\"{}\"", text.trim().trim_matches('"'))),
                    "Last-Modified" => listed.modified = httpdate::parse_http_date(text.trim()).ok(),
                    _ => {}
                }
            }
            [_, blob] if blob == "Blob" => page.objects.push(std::mem::take(&mut listed)),
            [_, prefix, name] if prefix == "BlobPrefix" && name == "Name" => page.prefixes.push(text.to_owned()),
            [_, prefix, name] if prefix == "BlobPrefix" && name.strip_suffix(ENCODED) == Some("Name") => {
                page.prefixes.push(encoded(text));
            }
            [marker] if marker == "NextMarker" => page.token = Some(text.to_owned()).filter(|t| !t.is_empty()),
            _ => {}
        })?;
        Ok(page)
    }

    fn cause(&self, body: &[u8]) -> (Option<String>, Option<String>) {
        xml_cause(body)
    }

    fn credential_sources(&self) -> String {
        String::from(
            "tried AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, az login, service \
             principal and workload identity variables and instance metadata; a public container needs --anonymous",
        )
    }

    fn server(&self) -> String {
        let connection = environment::variable(&["AZURE_STORAGE_CONNECTION_STRING"]).unwrap_or_default();
        let named = connection.split(';').find_map(|field| field.strip_prefix("AccountName=")).map(str::to_owned);
        let account = || environment::variable(&["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"]);
        format!("{:?} {:?}", self.endpoint, named.or_else(account))
    }

    fn service(&self, _: Option<&str>, _: &Wire) -> Result<Servicer, Error> {
        let fail = |message: &str| {
            Error::new(ErrorKind::Invalid, Operation::Configure, format!("az://{}", self.container), message)
        };
        let account = environment::variable(&["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"]);
        let mut builder = opendal::services::Azblob::default();
        if let Some(connection) = environment::variable(&["AZURE_STORAGE_CONNECTION_STRING"]) {
            builder = opendal::services::Azblob::from_connection_string(&connection)
                .map_err(|_| fail("AZURE_STORAGE_CONNECTION_STRING cannot be understood"))?;
        } else {
            if let Some(account) = &account {
                builder = builder.account_name(account);
                builder = builder.endpoint(&format!("https://{account}.blob.core.windows.net"));
            } else if self.endpoint.is_none() {
                return Err(fail("no account is named; set AZURE_STORAGE_ACCOUNT or --endpoint"));
            }
            if let Some(key) = environment::variable(&["AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"]) {
                builder = builder.account_key(&key);
            }
            if let Some(token) = environment::variable(&["AZURE_STORAGE_SAS_TOKEN"]) {
                builder = builder.sas_token(token.trim_start_matches('?'));
            }
        }
        if let Some(endpoint) = &self.endpoint {
            builder = builder.endpoint(endpoint.trim_end_matches('/'));
        }
        if self.anonymous {
            builder = builder.skip_signature();
        }
        let service = builder.container(&self.container).build().map_err(|e| fail(e.message()))?;
        Ok(Arc::new(service))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::tests::{WORDS, check};

    #[test]
    fn fuzz_listing_of_azure() {
        let azure = Azblob { container: String::from("c"), endpoint: None, anonymous: true };
        let seeds: [&[u8]; 1] =
            [b"\xef\xbb\xbf<?xml version=\"1.0\"?><EnumerationResults><Blobs><Blob><Name>p/a</Name><Properties>\
              <Content-Length>5</Content-Length><Etag>0x8D</Etag>\
              <Last-Modified>Thu, 01 Jan 1970 00:00:00 GMT</Last-Modified></Properties></Blob>\
              <Blob><Name Encoded=\"true\">p%2F%01</Name><Properties><Content-Length>1</Content-Length></Properties>\
              </Blob><BlobPrefix><Name>p/d/</Name></BlobPrefix></Blobs><NextMarker>m</NextMarker>\
              </EnumerationResults>"];
        foreread_fuzz::fuzz("listing of Azure", &seeds, &WORDS, |body| {
            if let Ok(page) = azure.page(body) {
                check(page);
            }
        });
    }
}
