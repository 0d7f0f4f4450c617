//! What is typed for `flightctl report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::filter::FilterSpec;
use crate::options::format::FdsArg;
use crate::options::past::PastArgs;
use crate::value::session;

/// How a report looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Text for people.
    Text,
    /// One JSON object; field names and units are stable.
    Json,
    /// Comma-separated values, with a header line.
    Csv,
    /// For reports with stacks: one line per stack, for flame graphs, in microseconds or samples.
    Folded,
}

/// Arguments of all reports over a window.
#[derive(Debug, Args)]
pub struct SumArgs {
    /// Read only these files, as with --file.
    #[arg(value_name = "FILE", conflicts_with_all = ["store", "snapshot", "vmcore"])]
    pub files: Vec<PathBuf>,
    /// Group by these keys, at most four, separated by commas: comm, pid, tid, unit, container,
    /// container_name, pod, namespace, image, syscall, file, device, cpu, errno, or a key of the
    /// report's own. For an unknown key, the error lists those that the report has.
    #[arg(long, value_name = "KEY", value_delimiter = ',', help_heading = "Output")]
    pub by: Vec<String>,
    /// Print a histogram below each row, with a line for each power of two. For text and JSON.
    #[arg(long, help_heading = "Output")]
    pub hist: bool,
    /// Maximum number of rows to print; one more row has the sum of the rest [default: 40; folded:
    /// all].
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub top: Option<usize>,
    /// How the report looks.
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value_t = ReportFormat::Text,
        help_heading = "Output"
    )]
    pub format: ReportFormat,
    /// Which descriptors are identified by the file that they refer to, as with dump --fds
    /// [default: near; with --path: all].
    #[arg(long, value_name = "WHICH", value_enum, help_heading = "Output")]
    pub fds: Option<FdsArg>,
    /// Which time of which recording.
    #[command(flatten)]
    pub past: PastArgs,
    /// Read a kernel dump, as with dump --vmcore. With --store DIR, what is older than the rings is
    /// read from the files of that boot.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Recordings",
        conflicts_with_all = ["file", "boot", "bpffs_dir"]
    )]
    pub vmcore: Option<PathBuf>,
    /// Read this recording in the dump, by its id [default: the one that the files in the state
    /// directory identify, else the newest].
    #[arg(
        long,
        value_name = "ID",
        help_heading = "Recordings",
        requires = "vmcore",
        value_parser = session
    )]
    pub session: Option<u64>,
    /// Which events, or threads.
    #[command(flatten)]
    pub filter: FilterSpec,
}

/// Arguments of reports with stacks.
#[derive(Debug, Args)]
pub struct StackSumArgs {
    /// The same as for `--format folded`.
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub folded: bool,
    /// What all reports have.
    #[command(flatten)]
    pub sum: SumArgs,
}

/// Arguments of `report functions`.
#[derive(Debug, Args)]
pub struct FunctionsArgs {
    /// Print exact call counts of probed functions, from flightd, instead of samples.
    #[arg(
        long,
        // Windows and filters, each by the name of its group.
        conflicts_with_all = [
            "WindowArgs", "FilterSpec", "StoreArgs", "files", "by", "vmcore", "session", "hist",
            "top", "folded", "fds"
        ]
    )]
    pub probed: bool,
    /// The same as for `--format folded`.
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub folded: bool,
    /// What all reports have.
    #[command(flatten)]
    pub sum: SumArgs,
}
