//! One object shown as a directory with one file, for a URL that names an object.

use std::ops::Range;
use std::sync::Arc;

use foreread_backend::{
    Backend, Body, Capabilities, Entry, Error, ErrorKind, Key, ListPage, Object, Operation, Version,
};
use futures::future::BoxFuture;

/// Storage with a single object under the last part of its key.
pub(crate) struct SingleObject {
    inner: Arc<dyn Backend>,
    key: Key,
    name: Key,
}

impl SingleObject {
    /// Shows the object `key` of `inner` alone.
    pub(crate) fn new(inner: Arc<dyn Backend>, key: Key) -> Self {
        let name = Key::new(key.as_str().rsplit('/').next().unwrap_or_default());
        Self { inner, key, name }
    }

    fn absent(&self, operation: Operation, key: &Key) -> Error {
        let message = format!("the mount shows the single object {}", self.name);
        Error::new(ErrorKind::NotFound, operation, key.as_str(), message)
    }

    async fn described(&self) -> Result<Object, Error> {
        let object = self.inner.stat(&self.key).await?;
        Ok(Object { key: self.name.clone(), version: object.version })
    }
}

impl Backend for SingleObject {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.inner.capabilities();
        (capabilities.list, capabilities.list_after) = (true, false);
        capabilities
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>> {
        Box::pin(async move {
            if *key == self.name { self.described().await } else { Err(self.absent(Operation::Stat, key)) }
        })
    }

    fn read<'a>(&'a self, key: &'a Key, version: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, Error>> {
        Box::pin(async move {
            let known = *key == self.name;
            if known {
                self.inner.read(&self.key, version, range).await
            } else {
                Err(self.absent(Operation::Read, key).with_extent(range))
            }
        })
    }

    fn kept_bytes(&self) -> u64 {
        self.inner.kept_bytes()
    }

    fn keep_at_most(&self, bytes: u64) {
        self.inner.keep_at_most(bytes);
    }

    fn list<'a>(&'a self, prefix: &'a str, _continuation: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>> {
        Box::pin(async move {
            let entries = if prefix.is_empty() { vec![Entry::Object(self.described().await?)] } else { Vec::new() };
            Ok(ListPage { entries, continuation: None })
        })
    }
}
