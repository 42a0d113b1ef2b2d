//! What has to be equal for two processes to share an engine: the storage, and what decides which
//! user the storage takes them for.
//!
//! It has the names of credentials (an access key's identifier, a profile), never a secret: the
//! text is compared over the socket, and its hash is the name of the socket.

use std::fmt::Write as _;

use ring::digest::{SHA256, digest};

/// The storage, and what it is connected with. Two equal ones may share an engine.
///
/// ```
/// use foreread_broker::Identity;
///
/// let identity = Identity::new("s3://bucket").with("region", Some("eu-west-1"));
/// assert_ne!(identity, Identity::new("s3://bucket").with("region", None));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity(String);

impl Identity {
    /// That of the storage `store`, a URL, and nothing else.
    pub fn new(store: &str) -> Self {
        Self(format!("{store:?}"))
    }

    /// With a setting that decides which server is asked, or as which user. No secret.
    #[must_use]
    pub fn with(mut self, name: &str, value: Option<&str>) -> Self {
        // Quoted, so that no value can pass for two settings.
        let _ = write!(self.0, " {name}={value:?}");
        self
    }

    /// All of it, for a comparison.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// A name of a file: 128 bits of a hash, in hexadecimal digits.
    pub(crate) fn name(&self) -> String {
        let hash = digest(&SHA256, self.0.as_bytes());
        hash.as_ref().iter().take(16).fold(String::new(), |mut name, byte| {
            let _ = write!(name, "{byte:02x}");
            name
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_pass_for_another_setting() {
        let one = Identity::new("s3://a").with("region", Some("x\" y=\"z")).with("y", None);
        let two = Identity::new("s3://a").with("region", Some("x")).with("y", Some("z"));
        assert_ne!(one.name(), two.name());
        assert_eq!(one.name().len(), 32);
        assert_eq!(one.name(), one.clone().name());
    }
}
