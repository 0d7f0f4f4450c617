//! A file to write.

use std::path::{Path, PathBuf};

use clap::Args;

/// Where a recording is saved.
#[derive(Debug, PartialEq, Args)]
pub struct TargetArgs {
    /// The file to write; `-`: standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace FILE if it exists.
    #[arg(long)]
    pub force: bool,
}

impl TargetArgs {
    /// Whether it is standard output.
    pub fn is_standard(&self) -> bool {
        self.output == Path::new("-")
    }

    /// The file, unless it is that.
    pub fn file(&self) -> Option<&Path> {
        (!self.is_standard()).then_some(&*self.output)
    }
}
