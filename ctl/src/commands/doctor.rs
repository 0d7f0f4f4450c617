//! `flightctl doctor`

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Result;
use serde::Serialize;

use crate::control::ControlError;
use crate::doctor::{Check, Machine, Silence, Verdict, examine};
use crate::exit::Exit;
use crate::human::counted;
use crate::output::{Output, told};
use crate::schema::Versioned;
use crate::source::Origin;
use crate::state::State;
use crate::text::escape;

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    /// Whether nothing is missing, as far as could be seen.
    ready: bool,
    checks: &'a [Check],
}

/// Looks at this machine.
pub fn run(origin: &Origin, json: bool) -> Result<Exit> {
    let state = State::read(origin);
    let checks = examine(&Machine::default(), &state.as_ref().map_err(silence));
    let ready = checks.iter().all(|check| check.verdict != Verdict::Missing);
    let text = if json {
        let mut text =
            serde_json::to_string_pretty(&Versioned::new(Document { ready, checks: &checks }))?;
        text.push('\n');
        text
    } else {
        text(&checks)
    };
    let mut output = Output::standard();
    output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
        .map_err(|e| output.explain(e))?;
    Ok(if ready { Exit::Fine } else { Exit::NotReady })
}

/// Why the recorder says nothing of itself.
fn silence(error: &anyhow::Error) -> Silence {
    match error.downcast_ref() {
        Some(ControlError::NotRunning(_)) => Silence::Absent(
            "flightd is not running, and has left no recording in the kernel".to_owned(),
        ),
        // What to do about it is said below.
        Some(ControlError::Permission(socket)) => {
            Silence::Denied(format!("no access to {}", socket.display()))
        }
        _ => Silence::Absent(told(error)),
    }
}

/// A line for each check, what to do below it, and how it comes out in all.
fn text(checks: &[Check]) -> String {
    let mut text = String::new();
    for Check { check, verdict, found, fix } in checks {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{:<8} {check:<13} {}", verdict.name(), printable(found));
        if let Some(fix) = fix {
            let _ = writeln!(text, "{:<22} -> {}", "", printable(fix));
        }
    }
    let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count() as u64;
    let (missing, unknown, all) =
        (count(Verdict::Missing), count(Verdict::Unknown), checks.len() as u64);
    let unseen = if unknown == 0 {
        String::new()
    } else {
        format!("; {} could not be checked", counted(unknown, "thing"))
    };
    let _ = if missing == 0 {
        writeln!(text, "ready for a panic, by {}{unseen}", counted(all, "check"))
    } else {
        writeln!(
            text,
            "NOT READY for a panic: {missing} of {} failed{unseen}",
            counted(all, "check")
        )
    };
    text
}

/// Paths and settings are as hostile as any text.
fn printable(text: &str) -> String {
    let mut out = Vec::new();
    escape(text.as_bytes(), &mut out);
    String::from_utf8(out).unwrap_or_default()
}
