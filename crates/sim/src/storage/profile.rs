//! The built-in device profiles, by name. Each file cites the sources of its constants.

use foreread_device::Profile;

/// Name and text of each profile.
pub const TEXTS: &[(&str, &str)] = &[
    ("hdd-w1", include_str!("../../../../devices/hdd-w1.toml")),
    ("hdd-w2", include_str!("../../../../devices/hdd-w2.toml")),
    ("hdd-2009", include_str!("../../../../devices/hdd-2009.toml")),
    ("hdd-2tb", include_str!("../../../../devices/hdd-2tb.toml")),
    ("hdd-2012", include_str!("../../../../devices/hdd-2012.toml")),
    ("fc-array-10", include_str!("../../../../devices/fc-array-10.toml")),
    ("sata-ssd-2011", include_str!("../../../../devices/sata-ssd-2011.toml")),
    ("nvme", include_str!("../../../../devices/nvme.toml")),
    ("network-directory", include_str!("../../../../devices/network-directory.toml")),
    ("file-server", include_str!("../../../../devices/file-server.toml")),
    ("object-store", include_str!("../../../../devices/object-store.toml")),
];

/// Reads a profile.
pub fn parse(text: &str) -> Result<Profile, toml::de::Error> {
    toml::from_str(text)
}

/// The profile of that name.
///
/// # Panics
/// Never in a build that passed its tests: they parse every text.
pub fn find(name: &str) -> Option<Profile> {
    let (_, text) = TEXTS.iter().find(|(known, _)| *known == name)?;
    Some(parse(text).unwrap_or_else(|error| panic!("devices/{name}.toml: {error}")))
}
