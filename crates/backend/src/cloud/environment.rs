//! Settings from environment variables, under the names that other programs use.

/// The first of these variables that is set and not empty.
pub(super) fn variable(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}
