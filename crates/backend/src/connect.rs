//! Turns a URL or a path, as a user types it, into a backend.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foreread_local::Mechanism;

use crate::Backend;
#[cfg(feature = "cloud")]
use crate::cloud;
use crate::error::{Error, ErrorKind, Operation};
use crate::file::Directory;
#[cfg(feature = "http")]
use crate::web::Web;

/// Settings that are not part of a URL. All others come from the environment, under the names that
/// other programs use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// Where the service is, if its vendor does not run it.
    pub endpoint: Option<String>,
    /// The region of the bucket, where services have regions.
    pub region: Option<String>,
    /// The AWS profile whose settings and credentials to use.
    pub profile: Option<String>,
    /// The AWS keys to sign with, instead of those that the environment has.
    pub keys: Option<Keys>,
    /// Requests are not signed: public buckets.
    pub anonymous: bool,
    /// How local files are read, where the system allows it.
    pub local: Mechanism,
}

impl ConnectOptions {
    /// With a server instead of the one that the vendor runs.
    #[must_use]
    pub fn with_endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoint = Some(endpoint.into());
        self
    }

    /// With the region of the bucket.
    #[must_use]
    pub fn with_region(mut self, region: impl Into<String>) -> Self {
        self.region = Some(region.into());
        self
    }

    /// With the AWS profile to use.
    #[must_use]
    pub fn with_profile(mut self, profile: impl Into<String>) -> Self {
        self.profile = Some(profile.into());
        self
    }

    /// With the AWS keys to sign with. `s3://` only.
    #[must_use]
    pub fn with_keys(mut self, keys: Keys) -> Self {
        self.keys = Some(keys);
        self
    }

    /// With or without signatures.
    #[must_use]
    pub fn with_anonymous(mut self, anonymous: bool) -> Self {
        self.anonymous = anonymous;
        self
    }

    /// With the mechanism that reads local files.
    #[must_use]
    pub fn with_local(mut self, local: Mechanism) -> Self {
        self.local = local;
        self
    }
}

/// AWS keys that a program passes by itself.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Keys {
    /// The access key.
    pub access_key: String,
    /// The secret access key.
    pub secret_key: String,
    /// The session token, of temporary keys.
    pub token: Option<String>,
}

impl fmt::Debug for Keys {
    /// Shows the access key alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

/// The two parts of a URL. See [`place`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// A URL that [`connect`] takes: of a bucket, a container, a web server, or the root of a file
    /// system (the mount point above a local path).
    pub store: String,
    /// The path below it: empty, or a key without a slash at its end.
    pub path: String,
}

/// Splits a URL or a path into its store and the path in it. URLs whose stores are equal can be
/// read through one backend. Sends nothing; looks a local path up.
///
/// Errors: [`ErrorKind::NotFound`] for a local path that does not exist; [`ErrorKind::Invalid`]
/// for a URL that [`connect`] refuses as well.
pub fn place(url: &str) -> Result<Place, Error> {
    let invalid = |message: String| Error::new(ErrorKind::Invalid, Operation::Configure, shown(url), message);
    if url.starts_with("http://") || url.starts_with("https://") {
        #[cfg(feature = "http")]
        return match Web::place(url) {
            Ok((root, path)) => Ok(Place { store: root.to_string(), path }),
            Err(cause) => Err(invalid(cause)),
        };
        #[cfg(not(feature = "http"))]
        return Err(left_out(url, "http"));
    }
    if let Some((scheme, rest)) = url.split_once("://") {
        let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
        return match scheme {
            "s3" | "gs" | "az" if !bucket.is_empty() => {
                Ok(Place { store: format!("{scheme}://{bucket}"), path: path.trim_end_matches('/').to_owned() })
            }
            "s3" | "gs" | "az" => {
                Err(invalid(format!("the URL names no bucket; it should look like {scheme}://BUCKET/PREFIX")))
            }
            "file" => local_place(Path::new(rest.strip_prefix("localhost").unwrap_or(rest))),
            _ => Err(invalid(format!("unknown scheme {scheme}://; known are {FORMS}"))),
        };
    }
    if url.is_empty() {
        return Err(invalid(format!("nothing is named; known are {FORMS}")));
    }
    local_place(Path::new(url))
}

/// The mount point above a local path, and the path below it.
fn local_place(path: &Path) -> Result<Place, Error> {
    let object = path.display().to_string();
    let full = path.canonicalize().map_err(|e| configure(&object, e))?;
    let device = |path: &Path| path.metadata().map(|metadata| metadata.dev()).ok();
    let own = device(&full);
    let root = full.ancestors().skip(usize::from(!full.is_dir())).take_while(|dir| device(dir) == own).last();
    let root = root.unwrap_or(Path::new("/"));
    let text = |path: &Path| match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => {
            Err(Error::new(ErrorKind::Invalid, Operation::Configure, object.as_str(), "the path is not valid UTF-8"))
        }
    };
    Ok(Place { store: text(root)?, path: text(full.strip_prefix(root).unwrap_or(&full))? })
}

/// A backend, and the place below its root that the URL names.
#[non_exhaustive]
pub struct Connected {
    /// The storage.
    pub backend: Arc<dyn Backend>,
    /// The path below the root: empty, or a key without a slash at its end. It may name an object
    /// or a prefix.
    pub path: String,
}

/// The forms that a URL may have, for messages.
const FORMS: &str = "s3://BUCKET[/PREFIX], gs://BUCKET[/PREFIX], az://CONTAINER[/PREFIX], http://HOST/PATH, \
                     https://HOST/PATH, file:///PATH, or the path of a directory";

/// Makes the backend for a URL or a path. Sends nothing: a wrong bucket or wrong credentials show
/// at the first request.
///
/// The part of an `s3`, `gs` or `az` URL after the bucket is the key as it is, not
/// percent-decoded.
///
/// Errors: [`ErrorKind::NotFound`] for a local path that does not exist;
/// [`ErrorKind::Unsupported`], naming the feature, for a scheme whose feature was left out;
/// [`ErrorKind::Invalid`] for everything else.
pub fn connect(url: &str, options: &ConnectOptions) -> Result<Connected, Error> {
    let invalid = |message: String| Error::new(ErrorKind::Invalid, Operation::Configure, shown(url), message);
    if url.starts_with("http://") || url.starts_with("https://") {
        #[cfg(feature = "http")]
        {
            let (web, path) = Web::new(url).map_err(invalid)?;
            return Ok(Connected { backend: Arc::new(web), path });
        }
        #[cfg(not(feature = "http"))]
        return Err(left_out(url, "http"));
    }
    if let Some((scheme, rest)) = url.split_once("://") {
        let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = path.trim_end_matches('/').to_owned();
        if matches!(scheme, "s3" | "gs" | "az") && bucket.is_empty() {
            return Err(invalid(format!("the URL names no bucket; it should look like {scheme}://BUCKET/PREFIX")));
        }
        let backend: Arc<dyn Backend> = match scheme {
            #[cfg(feature = "s3")]
            "s3" => Arc::new(cloud::connect_s3(bucket, options)?),
            #[cfg(not(feature = "s3"))]
            "s3" => return Err(left_out(url, "s3")),
            #[cfg(feature = "gcs")]
            "gs" => Arc::new(cloud::connect_gcs(bucket, options)?),
            #[cfg(not(feature = "gcs"))]
            "gs" => return Err(left_out(url, "gcs")),
            #[cfg(feature = "azblob")]
            "az" => Arc::new(cloud::connect_azblob(bucket, options)?),
            #[cfg(not(feature = "azblob"))]
            "az" => return Err(left_out(url, "azblob")),
            "file" => return local(Path::new(rest.strip_prefix("localhost").unwrap_or(rest)), options.local),
            _ => return Err(invalid(format!("unknown scheme {scheme}://; known are {FORMS}"))),
        };
        return Ok(Connected { backend, path });
    }
    if let Some((scheme @ ("s3" | "gs" | "az" | "http" | "https" | "file"), rest)) = url.split_once(':')
        && !Path::new(url).exists()
    {
        let meant = shown(&format!("{scheme}://{}", rest.trim_start_matches('/')));
        return Err(invalid(format!("a URL has two slashes after its scheme: {meant}")));
    }
    if url.is_empty() {
        return Err(invalid(format!("nothing is named; known are {FORMS}")));
    }
    local(Path::new(url), options.local)
}

/// The scheme is known, and this build cannot read it.
#[cfg(not(all(feature = "s3", feature = "gcs", feature = "azblob", feature = "http")))]
fn left_out(url: &str, feature: &str) -> Error {
    let scheme = url.split_once("://").map_or(url, |(scheme, _)| scheme);
    let message = format!("this build has no {scheme}://: the crate's feature `{feature}` was left out");
    Error::new(ErrorKind::Unsupported, Operation::Configure, shown(url), message)
}

/// The local path `object` cannot be used.
fn configure(object: &str, error: std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => ErrorKind::NotFound,
        std::io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        _ => ErrorKind::Invalid,
    };
    Error::new(kind, Operation::Configure, object, error.to_string()).with_source(error)
}

/// A directory, or one file in its directory.
fn local(path: &Path, wanted: Mechanism) -> Result<Connected, Error> {
    let object = path.display().to_string();
    let full: PathBuf = path.canonicalize().map_err(|e| configure(&object, e))?;
    if full.is_dir() {
        return Ok(Connected { backend: Arc::new(Directory::open(&full, wanted)?), path: String::new() });
    }
    match (full.parent(), full.file_name().and_then(|name| name.to_str())) {
        (Some(parent), Some(name)) if full.is_file() => {
            Ok(Connected { backend: Arc::new(Directory::open(parent, wanted)?), path: name.to_owned() })
        }
        _ => Err(Error::new(ErrorKind::Invalid, Operation::Configure, object, "neither a directory nor a file")),
    }
}

/// `url` without parts that may be secret: user and password, and, but in URLs whose path may hold
/// them, the query and fragment (signed links). Any text that a client reads as a URL is one:
/// clients pass over blanks before it, line breaks inside it and missing slashes.
pub fn shown(url: &str) -> String {
    let plain = url.trim_start_matches(|c: char| c <= ' ').replace(['\t', '\n', '\r'], "");
    let Some((scheme, rest)) = plain.split_once(':') else { return url.to_owned() };
    let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let rest = match rest.strip_prefix("//") {
        _ if is_http => rest.trim_start_matches(['/', '\\']),
        Some(rest) => rest,
        None => return url.to_owned(),
    };
    let is_key = matches!(scheme, "s3" | "gs" | "az" | "file");
    let rest = if is_key { rest } else { rest.split(['?', '#']).next().unwrap_or_default() };
    let authority_end = rest.find(['/', '\\']).filter(|_| !is_key).or(rest.find('/')).unwrap_or(rest.len());
    let host_at = rest[..authority_end].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[host_at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_url_holds_no_secret() {
        assert_eq!(shown("s3://bucket/a?b#c"), "s3://bucket/a?b#c");
        assert_eq!(shown("s3://key:secret@bucket/a@b"), "s3://bucket/a@b");
        assert_eq!(shown("https://user:pw@host:1/a?X-Amz-Signature=s#f"), "https://host:1/a");
        assert_eq!(shown("https://host?token=s"), "https://host");
        assert_eq!(shown("HTTP://u@host/p?q"), "HTTP://host/p");
        assert_eq!(shown("/a/local@dir"), "/a/local@dir");
        assert_eq!(shown("\n ht\ttps:/u@host/p?sig"), "https://host/p");
        assert_eq!(shown("ftp://u@host/p?sig"), "ftp://host/p");
        assert_eq!(shown("c:\n"), "c:\n");
    }

    #[cfg(not(all(feature = "s3", feature = "gcs", feature = "azblob", feature = "http")))]
    #[test]
    fn a_scheme_that_was_left_out_names_its_feature() {
        let schemes = [
            ("s3", "s3", cfg!(feature = "s3")),
            ("gs", "gcs", cfg!(feature = "gcs")),
            ("az", "azblob", cfg!(feature = "azblob")),
            ("https", "http", cfg!(feature = "http")),
        ];
        for (scheme, feature, _) in schemes.into_iter().filter(|(.., built)| !built) {
            let error =
                connect(&format!("{scheme}://name/a"), &ConnectOptions::default()).err().expect("no such build");
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(&format!("feature `{feature}`")), "{error}");
        }
    }

    #[cfg(all(feature = "s3", feature = "gcs", feature = "azblob", feature = "http"))]
    fn refused(url: &str) -> String {
        let options = ConnectOptions { anonymous: true, ..ConnectOptions::default() };
        let error = connect(url, &options).err().unwrap_or_else(|| panic!("{url} is taken"));
        error.to_string()
    }

    #[cfg(all(feature = "s3", feature = "gcs", feature = "azblob", feature = "http"))]
    #[test]
    fn mistakes_are_answered_with_the_right_form() {
        assert!(refused("ftp://host/path").contains("known are s3://BUCKET"));
        assert!(refused("s3:bucket/prefix").contains("s3://bucket/prefix"));
        assert!(refused("s3:/bucket").contains("s3://bucket"));
        assert!(refused("s3://").contains("names no bucket"));
        assert!(refused("gs:///prefix").contains("names no bucket"));
        assert!(refused("http://").contains("host"));
        assert!(refused("http://host/a%2Fb").contains("%2F"));
        assert!(refused("").contains("nothing is named"));
        assert!(refused("/nonexistent/dir").contains("No such file"));
        assert!(!refused("http://user:hunter2@:x/?hunter2").contains("hunter2"));
    }

    #[cfg(all(feature = "s3", feature = "gcs", feature = "azblob", feature = "http"))]
    #[test]
    fn the_text_after_the_bucket_is_the_path_unchanged() {
        let options = ConnectOptions { anonymous: true, ..ConnectOptions::default() };
        let path = |url: &str| connect(url, &options).unwrap().path;
        assert_eq!(path("s3://bucket"), "");
        assert_eq!(path("s3://bucket/"), "");
        assert_eq!(path("s3://bucket/a/b/"), "a/b");
        assert_eq!(path("s3://bucket/a%20b ?#"), "a%20b ?#");
        assert_eq!(path("gs://bucket/a//b"), "a//b");
        assert_eq!(path("https://host:8080/a%20b/c?x#y"), "a b/c");
        assert_eq!(connect("s3://bucket/x", &options).unwrap().backend.describe(), "s3://bucket");
    }

    #[cfg(feature = "http")]
    #[test]
    fn urls_of_one_store_have_one_place() {
        let of = |url: &str| place(url).map(|place| (place.store, place.path)).map_err(|e| e.to_string());
        let is = |store: &str, path: &str| Ok((store.to_owned(), path.to_owned()));
        assert_eq!(of("s3://bucket"), is("s3://bucket", ""));
        assert_eq!(of("s3://bucket/a b/c?x#y/"), is("s3://bucket", "a b/c?x#y"));
        assert_eq!(of("gs://bucket//a"), is("gs://bucket", "/a"));
        assert_eq!(of("https://host:8080/a%20b/c?x#y"), is("https://host:8080/?x", "a b/c"));
        assert!(of("s3://").unwrap_err().contains("names no bucket"));
        assert!(of("ftp://host/a").unwrap_err().contains("known are s3://BUCKET"));
        assert_eq!(place("/nonexistent/file").unwrap_err().kind(), ErrorKind::NotFound);

        let dir = tempfile::tempdir().expect("a directory");
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::create_dir(&a).expect("a directory");
        std::fs::write(a.join("file"), "x").expect("a file");
        std::fs::write(&b, "y").expect("a file");
        let [a, b] = [a.join("file"), b].map(|path| place(path.to_str().expect("UTF-8")).expect("a place"));
        assert_eq!(a.store, b.store);
        assert!(a.path.ends_with("a/file") && b.path.ends_with('b'), "{a:?} {b:?}");
        assert!(Path::new(&a.store).join(&a.path).is_file());
    }

    #[test]
    fn keys_do_not_show_their_secret() {
        let keys = Keys { access_key: "AK".into(), secret_key: "hunter2".into(), token: Some("hunter3".into()) };
        assert_eq!(format!("{keys:?}"), r#"Keys { access_key: "AK", .. }"#);
    }

    #[test]
    fn fuzz_shown_url() {
        let seeds: [&[u8]; 5] = [
            b"https://u:secret@host:1/a?secret#secret",
            b"s3://secret:secret@bucket/a@b",
            b"HTTP://secret@host/p?secret",
            b" http://secret@host/p?secret",
            b"htt\np:/secret@host",
        ];
        let words = ["://", "@", "/", "?", "#", "secret@", "http", "[::1]"];
        foreread_fuzz::fuzz("shown URL", &seeds, &words, |url| {
            let url = String::from_utf8_lossy(url);
            let shown = shown(&url);
            // The path and the host are shown; `..` hides a part of the path from the parser.
            if let Ok(parsed) = reqwest::Url::parse(&url)
                && matches!(parsed.scheme(), "http" | "https")
                && !parsed.path().contains("secret")
                && !parsed.host_str().is_some_and(|host| host.contains("secret"))
                && !url.contains("..")
                && !url.to_ascii_lowercase().contains("%2e")
            {
                assert!(!shown.contains("secret"), "{shown}");
            }
            #[cfg(feature = "http")]
            if let Ok((root, key)) = Web::place(&url) {
                assert_eq!((root.path(), key.starts_with('/'), key.ends_with('/')), ("/", false, false), "{url}");
            }
        });
    }
}
