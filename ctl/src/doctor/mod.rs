//! Is this machine ready for the day it panics? What recording, the kernel's crash dump and the
//! hook between them need, each looked at, with what to do where something is missing.
//!
//! It only looks. What it is not allowed to see it says so, and that is no failure.

mod dump;
mod machine;
mod recorder;
mod space;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use machine::Machine;

use crate::state::State;

/// Why the recorder says nothing of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Silence {
    /// There is none, or it does not answer.
    Absent(String),
    /// It may not be asked.
    Denied(String),
}

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
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Ok, found: found.into(), fix: None }
    }

    fn new(
        check: &'static str,
        verdict: Verdict,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { check, verdict, found: found.into(), fix: Some(fix.into()) }
    }

    fn missing(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(check, Verdict::Missing, found, fix)
    }

    fn advice(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(check, Verdict::Advice, found, fix)
    }

    fn unknown(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(check, Verdict::Unknown, found, fix)
    }
}

/// Looks at everything. `state`: what the recorder says of itself, or why it says nothing.
pub fn examine(machine: &Machine, state: &Result<&State, Silence>) -> Vec<Check> {
    let known = state.as_ref().ok().copied();
    vec![
        recorder::recording(state),
        recorder::service(machine),
        recorder::types(machine),
        recorder::tracepoints(machine),
        recorder::memory(machine, state),
        dump::kernel(machine),
        dump::oops(machine),
        dump::hook(machine),
        dump::level(machine),
        space::dump(machine, known),
        space::rings(machine, known),
    ]
}
