//! `[snapshots]`: windows that are kept because something happened.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Size, Span};

/// Longest window before and after a moment: it has to be in the files, or the rings.
const WINDOW_MOST: Duration = Duration::from_mins(10);
/// A snapshot of less has no room for what explains it.
const SIZE_LEAST: Size = Size::mib(1);
/// How long a hook may run.
const HOOK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_mins(10));

/// Windows kept as files of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Snapshots {
    /// Whether any are taken.
    pub enabled: bool,
    /// How much of what was before its cause a snapshot holds.
    pub before: Span,
    /// How much of what comes after it.
    pub after: Span,
    /// Most snapshots that are kept.
    pub max_count: u32,
    /// Most bytes that all of them take.
    pub max_total: Size,
    /// Most bytes of one.
    pub max_size: Size,
    /// Older ones are deleted; 0: none is for its age.
    pub max_age: Span,
    /// The same cause for the same subject within this time is counted, not taken again.
    pub dedup_window: Span,
    /// Most that triggers take in an hour; as many again may be asked for.
    pub per_hour: u32,
    /// Whether `flightctl why` is asked for the cause.
    pub why: bool,
    /// Whether a page is made of each.
    pub page: bool,
    /// Program, and its arguments, that is run when one was taken; none: nothing is.
    pub hook: Vec<String>,
    /// How long that may run.
    pub hook_timeout: Span,
}

impl Default for Snapshots {
    fn default() -> Self {
        Self {
            enabled: true,
            before: Span::seconds(30),
            after: Span::seconds(5),
            max_count: 100,
            max_total: Size::mib(512),
            max_size: Size::mib(64),
            max_age: Span::seconds(2_630_016),
            dedup_window: Span::seconds(600),
            per_hour: 20,
            why: true,
            page: false,
            hook: Vec::new(),
            hook_timeout: Span::seconds(30),
        }
    }
}

impl Snapshots {
    /// Refuses what can't work; names the key.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        for (key, span) in [("snapshots.before", self.before), ("snapshots.after", self.after)] {
            if span.duration() > WINDOW_MOST {
                let most = humantime::format_duration(WINDOW_MOST);
                return Err((key, format!("{span} is too long: give at most {most}")));
            }
        }
        if self.before.duration().is_zero() {
            return Err((
                "snapshots.before",
                "a snapshot needs some time before its cause: give at least 1s".into(),
            ));
        }
        if self.max_size < SIZE_LEAST {
            return Err((
                "snapshots.max_size",
                format!("{} is too small: give at least {SIZE_LEAST}", self.max_size),
            ));
        }
        // What is asked for may take half of it, so that it pushes out nothing that a trigger took.
        if self.max_total.bytes() / 2 < self.max_size.bytes() {
            let message =
                format!("{} is less than two snapshots of {}", self.max_total, self.max_size);
            return Err(("snapshots.max_total", message));
        }
        if !(2..=10_000).contains(&self.max_count) {
            return Err((
                "snapshots.max_count",
                format!("{} is not within 2 to 10000", self.max_count),
            ));
        }
        if !(1..=3600).contains(&self.per_hour) {
            return Err((
                "snapshots.per_hour",
                format!("{} is not within 1 to 3600", self.per_hour),
            ));
        }
        if self.hook.first().is_some_and(|program| !PathBuf::from(program).is_absolute()) {
            return Err((
                "snapshots.hook",
                "the program is not an absolute path: begin it with /".into(),
            ));
        }
        if self.hook.iter().any(|word| word.contains('\0')) {
            return Err(("snapshots.hook", "an argument contains a NUL".into()));
        }
        let (least, most) = HOOK;
        if !(least..=most).contains(&self.hook_timeout.duration()) {
            let (least, most) =
                (humantime::format_duration(least), humantime::format_duration(most));
            return Err((
                "snapshots.hook_timeout",
                format!("{} is not within {least} to {most}", self.hook_timeout),
            ));
        }
        Ok(())
    }
}
