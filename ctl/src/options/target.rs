//! A file to write.

use std::path::PathBuf;

use clap::Args;

/// Where a recording is saved.
#[derive(Debug, PartialEq, Args)]
pub struct TargetArgs {
    /// The file to write.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace FILE if it exists.
    #[arg(long)]
    pub force: bool,
}
