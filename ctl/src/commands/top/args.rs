//! What is typed for `flightctl top`.

use std::path::PathBuf;
use std::time::Duration;

use super::column::Column;
use crate::options::color::ColorArgs;
use crate::options::past::PastArgs;
use crate::value::{interval, session};

/// Arguments of `top`.
#[derive(Debug, clap::Args)]
pub struct TopArgs {
    /// How often to refresh the table, 10ms to 30s.
    #[arg(
        short,
        long,
        value_name = "TIME",
        value_parser = interval,
        default_value = "1s",
        conflicts_with_all = [
            "last", "since", "until", "around", "all", "store", "file", "snapshot", "boot",
            "vmcore", "files"
        ]
    )]
    pub(super) interval: Duration,
    /// Sort the table by this column.
    #[arg(short, long, value_name = "COLUMN", value_enum, default_value_t = Column::Syscalls)]
    pub(super) sort: Column,
    /// Show only threads whose name, thread id or process id contains TEXT.
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    pub(super) filter: String,
    /// Print one table, for one interval, as plain text.
    #[arg(long)]
    pub(super) once: bool,
    /// Maximum number of threads in a text table.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub(super) lines: usize,

    /// Print the table for these files, as with --file.
    #[arg(value_name = "FILE", conflicts_with_all = ["store", "snapshot", "vmcore"])]
    pub(super) files: Vec<PathBuf>,
    /// Which time of which recording; its table is printed as plain text.
    #[command(flatten)]
    pub(super) past: PastArgs,
    /// Read a kernel dump, as with dump --vmcore. With --store DIR, what is older than the rings is
    /// read from the files of that boot.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Recordings",
        conflicts_with_all = ["file", "boot", "bpffs_dir"]
    )]
    pub(super) vmcore: Option<PathBuf>,
    /// Read this recording in the dump, by its id [default: the one that the files in the state
    /// directory identify, else the newest].
    #[arg(
        long,
        value_name = "ID",
        help_heading = "Recordings",
        requires = "vmcore",
        value_parser = session
    )]
    pub(super) session: Option<u64>,
    /// Colour.
    #[command(flatten, next_help_heading = "Output")]
    pub(super) color: ColorArgs,
}
