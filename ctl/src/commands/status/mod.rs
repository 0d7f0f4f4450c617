//! `flightctl status`

#[cfg(test)]
mod tests;
mod text;

use flightrec_reader::source::Origin;

use self::text::text;
use super::prelude::*;
use crate::output::Output;
use crate::schema::document;
use crate::state::State;

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// Print one JSON object; field names and units are stable.
    #[arg(long)]
    json: bool,
}

/// The state of the recorder, to show.
#[derive(Debug, PartialEq)]
pub struct StatusPlan {
    /// Where from.
    origin: Origin,
    json: bool,
}

impl Arguments for StatusArgs {
    const HELP: Help = Help {
        about: "Show the state of the recorder: how much it holds, what it costs, what was lost",
        examples: &[
            ("flightctl status", "print the status as text"),
            (
                "flightctl status --json | jq .lanes.syscall.held_seconds",
                "how far back system calls go",
            ),
            (
                "flightctl status --json | jq '[.lanes[].lost | add] | add'",
                "events lost since the start",
            ),
        ],
        exits: &[Exit::Fine, Exit::Error],
    };
    type Plan = StatusPlan;

    fn plan(self, recorder: RecorderArgs, _: &Zoned) -> Result<StatusPlan> {
        Ok(StatusPlan { origin: recorder.origin(), json: self.json })
    }
}

impl Plan for StatusPlan {
    fn run(&self) -> Result<Exit> {
        let state = State::read(&self.origin)?;
        let text = if self.json { document(&state)? } else { text(&state, &crate::zone::system()) };
        Output::standard().print(text.as_bytes())?;
        Ok(Exit::Fine)
    }
}
