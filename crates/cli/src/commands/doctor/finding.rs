//! One thing that was looked at, and the next step.

use serde::Serialize;

/// How a finding bears on reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// As it should be.
    Good,
    /// It works, and could be quicker or do more.
    Advice,
    /// Something does not work.
    Wrong,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) what: &'static str,
    pub(super) verdict: Verdict,
    /// What was found.
    pub(super) found: String,
    /// The next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

impl Finding {
    pub(super) fn good(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, verdict: Verdict::Good, found: found.into(), next: None }
    }

    pub(super) fn advice(what: &'static str, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what, verdict: Verdict::Advice, found: found.into(), next: Some(next.into()) }
    }

    pub(super) fn wrong(what: &'static str, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what, verdict: Verdict::Wrong, found: found.into(), next: Some(next.into()) }
    }

    /// What an error says, its causes and its help.
    pub(super) fn of_error(what: &'static str, error: &(dyn miette::Diagnostic + 'static)) -> Self {
        let mut found = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(inner) = cause {
            found = format!("{found}: {inner}");
            cause = inner.source();
        }
        let next = error.help().map(|help| help.to_string());
        Self { what, verdict: Verdict::Wrong, found, next }
    }
}
