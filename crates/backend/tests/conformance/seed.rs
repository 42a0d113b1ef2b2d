//! Puts the suite's objects into a directory, or into a bucket through `opendal`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use foreread_backend::conformance::Seeder;
use futures::FutureExt;
use futures::future::BoxFuture;
use opendal::raw::{OpWrite, Servicer};
use opendal::{Buffer, Builder, HttpBody, HttpTransport, HttpTransporter, OperationContext};

/// A plain HTTP client for requests of the tests themselves.
pub(crate) fn client() -> reqwest::Client {
    // The first caller installs it; later calls find it installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

/// A directory, read as such or through a server.
pub(crate) struct Folder {
    path: PathBuf,
    served: bool,
    hides: fn(&str) -> bool,
}

impl Folder {
    /// A directory that is read as such.
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), served: false, hides: |_| false }
    }

    /// A directory behind a web server, which knows files by size and time and hides some names.
    pub(crate) fn served(path: &Path, hides: fn(&str) -> bool) -> Self {
        Self { path: path.to_owned(), served: true, hides }
    }
}

impl Seeder for Folder {
    fn tells_contents_apart(&self) -> bool {
        !self.served
    }

    fn put<'a>(&'a self, key: &'a str, size: u64, generation: u64) -> BoxFuture<'a, Result<bool, String>> {
        async move {
            if key.ends_with('/') || (self.hides)(key) {
                return Ok(false);
            }
            let path = self.path.join(key);
            std::fs::create_dir_all(path.parent().unwrap()).map_err(|e| e.to_string())?;
            // A new inode, as careful writers make one: an open file keeps its content.
            let new = tempfile::NamedTempFile::new_in(&self.path).map_err(|e| e.to_string())?;
            std::fs::write(new.path(), self.content(key, generation, 0..size)).map_err(|e| e.to_string())?;
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
            std::fs::set_permissions(new.path(), mode).map_err(|e| e.to_string())?;
            new.persist(path).map_err(|e| e.to_string())?;
            Ok(true)
        }
        .boxed()
    }
}

/// A bucket. Writes go to opendal's service, which takes keys as they are.
pub(crate) struct Bucket {
    service: Servicer,
    context: OperationContext,
    /// Names that this storage, or its emulator, cannot hold.
    refused: fn(&str) -> bool,
}

impl Bucket {
    pub(crate) fn new(builder: impl Builder, refused: fn(&str) -> bool) -> Self {
        let transport = HttpTransporter::new(Client(client()));
        let context = OperationContext::default().with_http_transport(transport);
        Self { service: Arc::new(builder.build().unwrap()), context, refused }
    }
}

struct Client(reqwest::Client);

impl HttpTransport for Client {
    async fn fetch(&self, request: http::Request<Buffer>) -> opendal::Result<http::Response<HttpBody>> {
        let fail = |e: reqwest::Error| opendal::Error::new(opendal::ErrorKind::Unexpected, e.to_string());
        let request = request.map(|body| body.to_bytes());
        let response = self.0.execute(request.try_into().map_err(fail)?).await.map_err(fail)?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = Buffer::from(response.bytes().await.map_err(fail)?);
        let mut response = http::Response::new(HttpBody::new(futures::stream::iter([Ok(body)]), None));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

impl Seeder for Bucket {
    fn put<'a>(&'a self, key: &'a str, size: u64, generation: u64) -> BoxFuture<'a, Result<bool, String>> {
        async move {
            if (self.refused)(key) {
                return Ok(false);
            }
            let options = opendal::options::WriteOptions::default();
            let (options, _) =
                OpWrite::from_options(&self.service.capability_dyn(), options).map_err(|e| e.to_string())?;
            let mut writer = self.service.write_dyn(&self.context, key, options).map_err(|e| e.to_string())?;
            let content = self.content(key, generation, 0..size);
            if !content.is_empty() {
                writer.write_dyn(Buffer::from(content)).await.map_err(|e| e.to_string())?;
            }
            writer.close_dyn().await.map_err(|e| e.to_string())?;
            Ok(true)
        }
        .boxed()
    }
}

/// Starts a testbed on another thread: it blocks on a runtime of its own, which is forbidden on a
/// thread of a runtime.
pub(crate) fn testbed(config: foreread_testbed::Config) -> foreread_testbed::Testbed {
    std::thread::spawn(|| foreread_testbed::Testbed::start(config)).join().unwrap().unwrap()
}
