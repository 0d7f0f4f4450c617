//! `flightctl snapshot`

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use flightrec_format::control::MARK_MAX;
use flightrec_reader::control::Client;
use flightrec_reader::window::nanos;

use super::prelude::*;
use crate::output::Output;
use crate::value::stretch;

/// Arguments of `snapshot`.
#[derive(Debug, clap::Args)]
pub struct SnapshotArgs {
    /// How much time before now to save, for example `30s` [default: `before` of `[snapshots]` in
    /// flightd's configuration].
    #[arg(long, value_name = "TIME", value_parser = stretch)]
    last: Option<Duration>,
    /// Reason for the snapshot, for later readers: one line of at most 255 bytes.
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// A snapshot to take.
#[derive(Debug, PartialEq)]
pub struct SnapshotPlan {
    /// Directory of the control socket.
    runtime_dir: PathBuf,
    /// How far back, ns; 0: as the daemon's configuration says.
    last: u64,
    reason: String,
}

/// A reason that the daemon would refuse.
#[derive(Debug, Error, PartialEq)]
pub enum ReasonError {
    /// Too much.
    #[error("the reason has {0} bytes; at most {MARK_MAX} fit")]
    Length(usize),
    /// Nothing.
    #[error("the reason is empty: say why, for later readers of the snapshot")]
    Empty,
}

impl Arguments for SnapshotArgs {
    const HELP: Help = Help {
        about: "Save a snapshot of recent history, and print its id",
        examples: &[
            ("flightctl snapshot --reason 'the shop hangs'", "save a snapshot of recent history"),
            ("flightctl snapshot --last 2m --reason 'deploy failed'", "save the last two minutes"),
        ],
        exits: &[Exit::Fine, Exit::Error],
    };
    type Plan = SnapshotPlan;

    fn plan(self, recorder: RecorderArgs, _: &Zoned) -> Result<SnapshotPlan> {
        let Self { last, reason } = self;
        match reason.len() {
            0 => Err(ReasonError::Empty.into()),
            1..=MARK_MAX => Ok(SnapshotPlan {
                runtime_dir: recorder.runtime_dir,
                last: last.map_or(0, nanos),
                reason,
            }),
            length => Err(ReasonError::Length(length).into()),
        }
    }
}

impl Plan for SnapshotPlan {
    /// Has it taken, and prints its id.
    fn run(&self) -> Result<Exit> {
        let id = Client::connect(&self.runtime_dir)?.snapshot(self.last, self.reason.clone())?;
        Output::standard().print(format!("{id}\n").as_bytes())?;
        Ok(Exit::Fine)
    }
}
