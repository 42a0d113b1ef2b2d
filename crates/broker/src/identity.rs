//! What has to be equal for two processes to share an engine: the storage, and what decides which
//! user the storage takes them for.
//!
//! The name of the socket is a hash of the store, settings and names of credentials (an access
//! key's identifier, a profile). Secrets have no part in it: of these a hash is compared over the
//! socket, so a process with a wrong secret has an engine of its own, which the storage refuses.

use std::fmt::Write as _;

use ring::digest::{Context, SHA256, digest};

/// The storage, and what it is connected with. Two equal ones may share an engine.
///
/// ```
/// use foreread_broker::Identity;
///
/// let identity = Identity::new("s3://bucket").with("region", Some("eu-west-1"));
/// assert_ne!(identity, Identity::new("s3://bucket").with("region", None));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    named: String,
    /// A hash of the secrets so far.
    secrets: [u8; 32],
}

impl Identity {
    /// That of the storage `store`, a URL, and nothing else.
    pub fn new(store: &str) -> Self {
        Self { named: format!("{store:?}"), secrets: [0; 32] }
    }

    /// With a setting that decides which server is asked, or as which user. No secret.
    #[must_use]
    pub fn with(mut self, name: &str, value: Option<&str>) -> Self {
        // Quoted, so that no value can pass for two settings.
        let _ = write!(self.named, " {name}={value:?}");
        self
    }

    /// With a secret that decides access. It is not kept, nor in the name of the socket.
    #[must_use]
    pub fn with_secret(mut self, secret: Option<&str>) -> Self {
        let mut all = Context::new(&SHA256);
        all.update(&self.secrets);
        all.update(format!("{secret:?}").as_bytes());
        self.secrets.copy_from_slice(all.finish().as_ref());
        self
    }

    /// All of it, for a comparison.
    pub(crate) fn text(&self) -> String {
        format!("{} {}", self.named, hexadecimal(&self.secrets))
    }

    /// A name of a file: 128 bits of a hash, in hexadecimal digits.
    pub(crate) fn name(&self) -> String {
        hexadecimal(&digest(&SHA256, self.named.as_bytes()).as_ref()[..16])
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
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

    #[test]
    fn a_secret_is_compared_and_names_nothing() {
        let of = |secret| Identity::new("s3://a").with_secret(Some(secret)).with_secret(None);
        assert_eq!(of("one").name(), of("two").name());
        assert_ne!(of("one").text(), of("two").text());
        assert!(!format!("{:?} {}", of("one"), of("one").text()).contains("one"));
    }
}
