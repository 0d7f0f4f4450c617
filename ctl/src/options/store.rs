//! Which recording: the recorder's own, or files.

use std::path::PathBuf;

use clap::Args;

use flightrec_reader::boots::BootArg;

/// Which recording is read: the recorder's own, or files.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Recordings")]
pub struct StoreArgs {
    /// Read only the files in DIR: a state directory, the directory of one boot in it, or a copy of
    /// either, from any machine.
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    pub store: Option<PathBuf>,
    /// Read only these files, in any order, from any machine. A saved file or a snapshot's file is
    /// read for the window that it was saved for, unless you give another.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub file: Vec<PathBuf>,
    /// Read only this snapshot: its id (`flightctl snapshots`) or `latest`. By default, its whole
    /// window is read.
    #[arg(long, value_name = "ID", conflicts_with_all = ["store", "file"])]
    pub snapshot: Option<String>,
    /// Read only this boot: its id, or 0 for the last, -1 for the one before it, 1 for the oldest;
    /// ID-1 is the one before ID. Without a value: the running boot.
    #[arg(
        short,
        long,
        value_name = "BOOT",
        num_args = 0..=1,
        default_missing_value = "",
        allow_negative_numbers = true
    )]
    pub boot: Option<BootArg>,
}

impl StoreArgs {
    /// Whether anything but the recorder's own recording is asked for.
    pub fn is_given(&self) -> bool {
        self.store.is_some()
            || !self.file.is_empty()
            || self.snapshot.is_some()
            || self.boot.is_some()
    }
}
