//! The settings of an AWS profile that are not credentials, from `~/.aws/config`: region,
//! endpoint, role.

use std::path::PathBuf;

/// The profile that applies: the given one, else `AWS_PROFILE`, else `default`.
pub(super) fn name(profile: Option<&str>) -> String {
    let chosen = profile.map(str::to_owned).or_else(|| std::env::var("AWS_PROFILE").ok());
    chosen.filter(|name| !name.is_empty()).unwrap_or_else(|| String::from("default"))
}

/// The value of `key` in the section of the profile that applies.
pub(super) fn setting(profile: Option<&str>, key: &str) -> Option<String> {
    let name = name(profile);
    find(&read("AWS_CONFIG_FILE", "config")?, |section| is_profile(section, &name), key)
}

/// The value of `key` in a section of single sign-on, which several profiles may share.
pub(super) fn session_setting(session: &str, key: &str) -> Option<String> {
    find(&read("AWS_CONFIG_FILE", "config")?, |section| named(section, "sso-session") == Some(session), key)
}

/// Whether one of the two files has the profile.
pub(super) fn exists(profile: &str) -> bool {
    let config = read("AWS_CONFIG_FILE", "config").unwrap_or_default();
    let credentials = read("AWS_SHARED_CREDENTIALS_FILE", "credentials").unwrap_or_default();
    config.lines().any(|line| section(line).is_some_and(|section| is_profile(section, profile)))
        || credentials.lines().any(|line| section(line) == Some(profile))
}

/// Reads one of the files: from the path in the variable, or from `~/.aws`.
fn read(variable: &str, file: &str) -> Option<String> {
    let path = std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    // At boot there is no `HOME`: then the password database tells.
    let path = path.or_else(|| Some(std::env::home_dir()?.join(".aws").join(file)))?;
    std::fs::read_to_string(path).ok()
}

/// The name in `[name]`.
fn section(line: &str) -> Option<&str> {
    line.strip_prefix('[')?.split_once(']').map(|(section, _)| section.trim())
}

/// Whether a section of the configuration, `[default]` or `[profile P]`, is that of `profile`.
fn is_profile(section: &str, profile: &str) -> bool {
    named(section, "profile") == Some(profile) || (profile == "default" && section == "default")
}

/// The name in `[kind name]`.
fn named<'a>(section: &'a str, kind: &str) -> Option<&'a str> {
    section.strip_prefix(kind).filter(|name| name.starts_with([' ', '\t'])).map(str::trim)
}

/// The value of `key` in the section for which `wanted` holds.
fn find(config: &str, wanted: impl Fn(&str) -> bool, key: &str) -> Option<String> {
    let mut here = false;
    for line in config.lines() {
        // An indented line belongs to the setting above it.
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        if let Some(section) = section(line) {
            here = wanted(section);
        } else if let Some((name, value)) = line.split_once('=')
            && here
            && name.trim() == key
        {
            return Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_profile(config: &str, profile: &str, key: &str) -> Option<String> {
        find(config, |section| is_profile(section, profile), key)
    }

    #[test]
    fn a_setting_is_found_in_its_profile_only() {
        let config = "[default]\nregion = eu-west-1\n[profile lab]\ns3 =\n  region = no\nregion=us-west-2 \n[other]\n";
        assert_eq!(of_profile(config, "default", "region").as_deref(), Some("eu-west-1"));
        assert_eq!(of_profile(config, "lab", "region").as_deref(), Some("us-west-2"));
        assert_eq!(of_profile(config, "other", "region"), None);
        assert_eq!(of_profile(config, "lab", "endpoint_url"), None);
    }

    #[test]
    fn fuzz_profiles() {
        let seeds: [&[u8]; 1] =
            [b"[default]\nregion = eu-west-1\n[profile lab]\ns3 =\n  region = no\nregion=us \n# x\n[sso-session s]\n"];
        foreread_fuzz::fuzz("profiles", &seeds, &["[", "]", "=", "[profile ", "region", "default"], |config| {
            let config = String::from_utf8_lossy(config);
            for profile in ["default", "lab"] {
                let found = of_profile(&config, profile, "region");
                assert!(found.is_none_or(|found| !found.is_empty() && !found.contains('\n')), "one value");
            }
        });
    }
}
