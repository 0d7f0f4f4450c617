//! `flightctl doctor`: is this machine ready for the day it panics? What recording, the kernel's
//! crash dump and the hook between them need, each looked at, with what to do where something is
//! missing.
//!
//! It only looks. What it is not allowed to see it says so, and that is no failure.

mod check;
mod dump;
mod machine;
mod recorder;
mod space;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use flightrec_reader::control::ControlError;
use flightrec_reader::source::Origin;
use serde::Serialize;

pub use self::check::{Check, Verdict};
pub use self::machine::Machine;
use super::prelude::*;
use crate::output::Output;
use crate::schema::document;
use crate::state::State;
use crate::text::printable;
use flightrec_cli::told;
use flightrec_format::human::counted;

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The machine, to look at.
#[derive(Debug, PartialEq)]
pub struct DoctorPlan {
    /// Where the recorder is asked.
    origin: Origin,
    json: bool,
}

impl Arguments for DoctorArgs {
    const HELP: Help = Help {
        about: "Check whether this machine is ready to capture a panic (recording, crash kernel, \
                hook, disk space), and say what to do. It works without root, and says what it \
                could not check",
        examples: &[
            ("flightctl doctor", "check this machine; as root it can check more"),
            ("flightctl doctor --json | jq '.checks[] | select(.fix)'", "what to fix, as JSON"),
        ],
        exits: &[Exit::Fine, Exit::NotReady, Exit::Error],
    };
    type Plan = DoctorPlan;

    fn plan(self, recorder: RecorderArgs, _: &Zoned) -> Result<DoctorPlan> {
        Ok(DoctorPlan { origin: recorder.origin(), json: self.json })
    }
}

impl Plan for DoctorPlan {
    fn run(&self) -> Result<Exit> {
        let state = State::read(&self.origin);
        let checks = examine(&Machine::default(), &state.as_ref().map_err(silence));
        let ready = checks.iter().all(|check| check.verdict != Verdict::Missing);
        let text =
            if self.json { document(Document { ready, checks: &checks })? } else { text(&checks) };
        Output::standard().print(text.as_bytes())?;
        Ok(if ready { Exit::Fine } else { Exit::NotReady })
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    /// Whether nothing is missing, as far as could be seen.
    ready: bool,
    checks: &'a [Check],
}

/// Why the recorder says nothing of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Silence {
    /// There is none, or it does not answer.
    Absent(String),
    /// It may not be asked.
    Denied(String),
}

/// Looks at everything. `state`: what the recorder says of itself, or why it says nothing.
pub fn examine(machine: &Machine, state: &Result<&State, Silence>) -> Vec<Check> {
    let known = state.as_ref().ok().copied();
    let mut checks = vec![recorder::recording(state), recorder::service(machine)];
    checks.extend(recorder::lockdown(machine));
    checks.extend([
        recorder::types(machine),
        recorder::tracepoints(machine),
        recorder::memory(machine, state),
        dump::kernel(machine),
        dump::oops(machine),
        dump::hook(machine),
        dump::level(machine),
        space::dump(machine, known),
        space::rings(machine, known),
    ]);
    checks
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
