//! What `foreread --version` tells: the commit, the features, the C library and the target.
//!
//! ```text
//! foreread 0.1.0
//! commit:   291c2b5a1f0e
//! features: azblob gcs http memory mount s3 share
//! libc:     glibc 2.36, linked statically
//! target:   x86_64-unknown-linux-gnu
//! ```
//!
//! The first line is all that `-V` prints; scripts take the version from there.

use std::sync::LazyLock;

/// The text after the command's name.
pub(crate) fn long() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        format!(
            "{}\ncommit:   {}\nfeatures: {}\nlibc:     {}, linked {}\ntarget:   {}",
            env!("CARGO_PKG_VERSION"),
            env!("FOREREAD_BUILD_COMMIT"),
            foreread::FEATURES.join(" "),
            c_library(),
            if cfg!(target_feature = "crt-static") { "statically" } else { "dynamically" },
            env!("FOREREAD_BUILD_TARGET"),
        )
    });
    &TEXT
}

/// The C library in this process, with its version: if it is linked dynamically, this machine's.
#[cfg(target_env = "gnu")]
fn c_library() -> String {
    // SAFETY: takes nothing, and returns a string of the C library that never changes. rustix has
    // no such call.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("glibc {}", version.to_string_lossy())
}

#[cfg(not(target_env = "gnu"))]
fn c_library() -> String {
    if cfg!(target_env = "musl") { "musl" } else { "the system's" }.to_owned()
}
