//! What is typed for `flightctl page`.

use std::path::PathBuf;

use crate::options::redact::RedactArgs;
use crate::why::args::AskArgs;

/// Arguments of `page`.
#[derive(Debug, clap::Args)]
pub struct PageArgs {
    /// The question that the page answers, and the recording.
    #[command(flatten)]
    pub ask: AskArgs,
    /// Write to OUT, or with `-` to standard output. Until it is complete, the file is named
    /// OUT.part-PID; an error removes it.
    #[arg(short, long, value_name = "OUT", help_heading = "Output")]
    pub output: PathBuf,
    /// Replace OUT if it exists.
    #[arg(long, help_heading = "Output")]
    pub force: bool,
    /// What is left out.
    #[command(flatten)]
    pub redact: RedactArgs,
    /// Exit with status 3 if anything in the window is missing.
    #[arg(long, help_heading = "Output")]
    pub strict: bool,
}
