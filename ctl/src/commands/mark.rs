//! `flightctl mark`

use std::path::PathBuf;

use thiserror::Error;

use flightrec_format::control::MARK_MAX;
use flightrec_reader::control::Client;

use super::prelude::*;

/// Arguments of `mark`.
#[derive(Debug, clap::Args)]
pub struct MarkArgs {
    /// The text, at most 255 bytes.
    text: String,
}

/// A line for the recording.
#[derive(Debug, PartialEq)]
pub struct MarkPlan {
    /// Directory of the control socket.
    runtime_dir: PathBuf,
    text: String,
}

/// A mark that the daemon would refuse.
#[derive(Debug, Error, PartialEq)]
pub enum MarkError {
    /// Too much.
    #[error("the mark has {0} bytes; at most {MARK_MAX} fit")]
    Length(usize),
    /// Nothing.
    #[error("the mark is empty")]
    Empty,
}

impl Arguments for MarkArgs {
    const HELP: Help = Help {
        about: "Add a line of text to the recording",
        examples: &[
            (
                "flightctl mark 'deploy of 1.2 begins'",
                "note what you do, for readers of the recording",
            ),
            ("flightctl dump --all --event mark", "list all marks"),
        ],
        exits: &[Exit::Fine, Exit::Error],
    };
    type Plan = MarkPlan;

    fn plan(self, recorder: RecorderArgs, _: &Zoned) -> Result<MarkPlan> {
        match self.text.len() {
            0 => Err(MarkError::Empty.into()),
            1..=MARK_MAX => Ok(MarkPlan { runtime_dir: recorder.runtime_dir, text: self.text }),
            length => Err(MarkError::Length(length).into()),
        }
    }
}

impl Plan for MarkPlan {
    fn run(&self) -> Result<Exit> {
        Client::connect(&self.runtime_dir)?.mark(self.text.clone())?;
        Ok(Exit::Fine)
    }
}
