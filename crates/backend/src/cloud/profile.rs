//! The settings of an AWS profile that are not credentials: region and endpoint, from `~/.aws/config`.

use std::path::PathBuf;

/// Looks `name` up in the section of a profile: `profile`, else `AWS_PROFILE`, else `default`.
pub(super) fn setting(profile: Option<&str>, name: &str) -> Option<String> {
    let path = std::env::var_os("AWS_CONFIG_FILE").map(PathBuf::from);
    let path = path.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".aws/config")))?;
    let profile = match profile {
        Some(profile) => profile.to_owned(),
        None => std::env::var("AWS_PROFILE").ok().filter(|p| !p.is_empty()).unwrap_or_else(|| "default".into()),
    };
    find(&std::fs::read_to_string(path).ok()?, &profile, name)
}

/// The value of `name` in the section `[profile P]`, or `[default]`.
fn find(config: &str, profile: &str, name: &str) -> Option<String> {
    let mut here = false;
    for line in config.lines() {
        // An indented line belongs to the setting above it.
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        if let Some(section) = line.strip_prefix('[').and_then(|l| l.split_once(']')).map(|(s, _)| s.trim()) {
            here = section.strip_prefix("profile").is_some_and(|p| p.starts_with([' ', '\t']) && p.trim() == profile)
                || (profile == "default" && section == "default");
        } else if let Some((key, value)) = line.split_once('=')
            && here
            && key.trim() == name
        {
            return Some(value.trim().to_owned()).filter(|v| !v.is_empty());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn a_setting_is_found_in_its_profile_only() {
        let config = "[default]\nregion = eu-west-1\n[profile lab]\ns3 =\n  region = no\nregion=us-west-2 \n[other]\n";
        assert_eq!(find(config, "default", "region").as_deref(), Some("eu-west-1"));
        assert_eq!(find(config, "lab", "region").as_deref(), Some("us-west-2"));
        assert_eq!(find(config, "other", "region"), None);
        assert_eq!(find(config, "lab", "endpoint_url"), None);
    }
}
