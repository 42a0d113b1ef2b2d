//! What decides whether processes can share an engine: the storage, and the user that the storage
//! takes a process for.

use foreread_backend::{ConnectOptions, place};
use foreread_broker::{Identity, ShareOptions, Shared};
use foreread_engine::Error;

use crate::storage::StorageBuilder;

impl StorageBuilder {
    /// Connects to the store of the URL through the engine that processes of this user share, as
    /// `options` say. Keys are full ones: the URL's path has no part in it. The budget is that
    /// of `options`; the other options of the engine are those of the process that serves.
    ///
    /// Local files are not shared: their processes share the kernel's memory already, and may see
    /// different files of one name. Neither are web servers whose URL has a password.
    ///
    /// Sends nothing.
    ///
    /// ```
    /// # use foreread_testbed::{Config, ObjectSpec, Testbed};
    /// # let objects = vec![ObjectSpec::new("data/part-0", 3 << 20)];
    /// # let testbed = Testbed::start(Config { objects, anonymous: true, ..Config::default() })?;
    /// # let endpoint = testbed.endpoint();
    /// # let folder = tempfile::tempdir()?;
    /// use foreread::shared::{Role, ShareOptions};
    ///
    /// let options = ShareOptions::default();
    /// # let options = options.with_folder(folder.path().join("foreread"));
    /// let builder = foreread::Storage::builder("s3://testbed");
    /// let builder = builder.endpoint(endpoint).anonymous(true);
    /// let first = builder.clone().share(options.clone())?;
    /// let second = builder.share(options)?;
    /// assert_eq!((first.role(), second.role()), (Role::Serves, Role::Joins));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Errors: as [`StorageBuilder::connect`].
    pub fn share(self, options: ShareOptions) -> Result<Shared, Error> {
        let (url, storage) = self.parts();
        let store = place(url)?.store;
        let identity = identity(&store, storage);
        let share = options.share && is_shareable(&store);
        let make = move |memory_bytes| {
            let connected = self.clone().memory_bytes(memory_bytes).connect()?;
            Ok(connected.engine().clone())
        };
        Shared::connect(identity, options.with_share(share), make)
    }
}

fn is_shareable(store: &str) -> bool {
    store.split_once("://").is_some_and(|(_, rest)| !rest.split('/').next().unwrap_or_default().contains('@'))
}

/// The store, and what it is connected with.
fn identity(store: &str, options: &ConnectOptions) -> Identity {
    let identity = Identity::new(store)
        .with("endpoint", options.endpoint.as_deref())
        .with("region", options.region.as_deref())
        .with("profile", options.profile.as_deref())
        .with("anonymous", options.anonymous.then_some("yes"))
        .with("key", options.keys.as_ref().map(|keys| keys.access_key.as_str()));
    let keys = options.keys.as_ref();
    let identity = identity
        .with_secret(keys.map(|keys| keys.secret_key.as_str()))
        .with_secret(keys.and_then(|keys| keys.token.as_deref()));
    let identity =
        SECRETS.iter().fold(identity, |identity, name| identity.with_secret(std::env::var(name).ok().as_deref()));
    // An address of this machine is another one's in another container.
    let network = std::fs::read_link("/proc/self/ns/net").ok();
    let identity = identity.with("network", network.as_ref().and_then(|path| path.to_str()));
    VARIABLES.iter().fold(identity, |identity, name| identity.with(name, std::env::var(name).ok().as_deref()))
}

/// Variables that decide which server is asked, and as which user. None holds a secret.
const VARIABLES: [&str; 16] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_CONFIG_FILE",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_ROLE_ARN",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AZURE_CLIENT_ID",
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_ENDPOINT",
    "AZURE_TENANT_ID",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "HOME",
];

/// Variables with secrets.
const SECRETS: [&str; 4] =
    ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"];

#[cfg(test)]
mod tests {
    use foreread_backend::Keys;

    use super::*;

    #[test]
    fn other_credentials_are_another_identity_and_secrets_are_none() {
        let keys = |access: &str, secret: &str| Keys {
            access_key: access.to_owned(),
            secret_key: secret.to_owned(),
            token: Some(secret.to_owned()),
        };
        let of = |options: &ConnectOptions| identity("s3://a", options);
        let plain = ConnectOptions::default();
        let one = of(&plain.clone().with_keys(keys("one", "hidden")));
        assert_ne!(one, of(&plain.clone().with_keys(keys("one", "other"))));
        assert_eq!(one, of(&plain.clone().with_keys(keys("one", "hidden"))));
        assert_ne!(one, of(&plain.clone().with_keys(keys("two", "hidden"))));
        assert_ne!(of(&plain), of(&plain.clone().with_anonymous(true)));
        assert_ne!(of(&plain), of(&plain.clone().with_endpoint("http://127.0.0.1:1")));
        assert_ne!(of(&plain), identity("s3://b", &plain));
        assert!(!format!("{one:?}").contains("hidden"));
    }

    #[test]
    fn local_files_and_passwords_are_not_shared() {
        assert!(is_shareable("s3://bucket") && is_shareable("http://127.0.0.1:80/"));
        assert!(!is_shareable("/home") && !is_shareable("http://user:password@host/"));
    }
}
