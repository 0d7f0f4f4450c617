//! `flightctl snapshots`: what was kept, and why.

mod shown;
mod text;

use std::path::PathBuf;

use clap::Subcommand;

use flightrec_reader::source::snapshots::{SnapshotError, directory, find_any};
use flightrec_store::snapshots;

use self::shown::{Document, Shown, all};
use self::text::{answer, list};
use super::prelude::*;
use crate::guard;
use crate::output::Output;
use crate::schema::document;
use flightrec_cli::note;

/// Arguments of `snapshots`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SnapshotsArgs {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// What to do with one of them.
    #[command(subcommand)]
    command: Option<SnapshotsCommand>,
}

/// What to do with a snapshot.
#[derive(Debug, Subcommand)]
pub enum SnapshotsCommand {
    /// Show the cause of a snapshot, and what stands out in it.
    Show {
        /// Its id, `latest`, or its file, from any machine.
        #[arg(value_name = "ID|FILE")]
        id: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// Snapshots, to show.
#[derive(Debug, PartialEq)]
pub struct SnapshotsPlan {
    /// Directory of the control socket: the daemon knows the state directory.
    runtime_dir: PathBuf,
    /// The state directory, as typed.
    state_dir: Option<PathBuf>,
    /// Which one; `None`: the list.
    id: Option<String>,
    json: bool,
}

impl Arguments for SnapshotsArgs {
    const HELP: Help = Help {
        about: "List the snapshots that flightd took when something went wrong, newest first; or \
                show the summary of one",
        examples: &[
            ("flightctl snapshots", "list the snapshots and their causes"),
            ("flightctl snapshots show latest", "the summary of the newest one"),
            (
                "flightctl snapshots show 20260304T120000Z-oom.flight",
                "the summary of a snapshot file",
            ),
            ("flightctl dump --snapshot latest --errors", "its failed calls"),
            (
                "flightctl snapshots --json | jq -r '.snapshots[0].path'",
                "the file of the newest one",
            ),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error],
    };
    type Plan = SnapshotsPlan;

    fn plan(self, recorder: RecorderArgs, _: &Zoned) -> Result<SnapshotsPlan> {
        let RecorderArgs { runtime_dir, state_dir, .. } = recorder;
        let (id, json) = match self.command {
            Some(SnapshotsCommand::Show { id, json }) => (Some(id), json),
            None => (None, self.json),
        };
        Ok(SnapshotsPlan { runtime_dir, state_dir, id, json })
    }
}

impl Plan for SnapshotsPlan {
    fn run(&self) -> Result<Exit> {
        let directory = || directory(&self.runtime_dir, self.state_dir.as_deref());
        guard::watch();
        let zone = crate::zone::system();
        let (text, exit) = if let Some(id) = &self.id {
            // A file's place does not matter.
            let (entry, by_file) = find_any(directory, id)?;
            let about = snapshots::about(&entry.path).map_err(SnapshotError::from)?;
            let mut shown =
                Shown::new(&entry, about.ok_or_else(|| SnapshotError::Silent(entry.path.clone()))?);
            shown.by_file = by_file;
            shown.name_threads();
            (if self.json { document(&shown)? } else { answer(&shown, &zone) }, Exit::Fine)
        } else {
            let dir = directory()?;
            let shown = all(&dir)?;
            if shown.is_empty() && !self.json {
                note(&format!("there are no snapshots in {}", dir.display()));
            }
            let exit = if shown.is_empty() { Exit::Nothing } else { Exit::Fine };
            (
                if self.json {
                    document(&Document { snapshots: &shown })?
                } else {
                    list(&shown, &zone)
                },
                exit,
            )
        };
        Output::standard().print(text.as_bytes())?;
        Ok(exit)
    }
}
