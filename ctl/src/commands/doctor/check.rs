//! One thing that was looked at.

use serde::Serialize;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is as it should be.
    Ok,
    /// It works, and could be better.
    Advice,
    /// It could not be looked at.
    Unknown,
    /// It is missing: the recording, or the dump that it is found in, would not be there.
    Missing,
}

impl Verdict {
    /// As it stands before a line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Advice => "advice",
            Self::Unknown => "?",
            Self::Missing => "MISSING",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What.
    pub check: &'static str,
    /// How it came out.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do; none where nothing is to be done.
    pub fix: Option<String>,
}

impl Check {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Ok, found: found.into(), fix: None }
    }

    pub(super) fn new(
        check: &'static str,
        verdict: Verdict,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { check, verdict, found: found.into(), fix: Some(fix.into()) }
    }

    pub(super) fn missing(
        check: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(check, Verdict::Missing, found, fix)
    }

    pub(super) fn advice(
        check: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(check, Verdict::Advice, found, fix)
    }

    pub(super) fn unknown(
        check: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(check, Verdict::Unknown, found, fix)
    }
}
