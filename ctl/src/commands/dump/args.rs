//! What is typed for `flightctl dump`.

use std::path::PathBuf;

use clap::Args;

use crate::options::color::ColorArgs;
use crate::options::past::PastArgs;
use crate::options::shown::ShownArgs;
use crate::value::session;

/// Arguments of `dump`.
#[derive(Debug, Args)]
pub struct DumpArgs {
    /// Read only these files, as with --file.
    #[arg(value_name = "FILE", conflicts_with_all = ["store", "snapshot", "vmcore"])]
    pub files: Vec<PathBuf>,
    /// Which time of which recording.
    #[command(flatten)]
    pub past: PastArgs,
    /// List the recorded boots with their time ranges, instead of events. With --format jsonl,
    /// print one JSON object.
    #[arg(
        long,
        help_heading = "Recordings",
        // Windows and filters, each by the name of its group.
        conflicts_with_all = [
            "WindowArgs", "FilterSpec", "TraceArgs", "boot", "merge", "fds", "strict"
        ]
    )]
    pub list_boots: bool,
    /// What is in a kernel dump.
    #[command(flatten)]
    pub vmcore: VmcoreArgs,

    /// What is shown.
    #[command(flatten)]
    pub shown: ShownArgs,
    /// Exit with status 3 if anything in the window is missing, on any CPU, or a detail that the
    /// filters need. Not counted as missing: events of a lane from which the filters select no
    /// kind, and events that the quiet ring left out, if they are of processes that the filters do
    /// not select. What the configuration leaves out is reported, but is not a failure.
    #[arg(long)]
    pub strict: bool,
    /// Colour.
    #[command(flatten)]
    pub color: ColorArgs,
}

/// What is read of a kernel dump.
#[derive(Debug, Args)]
#[command(next_help_heading = "Kernel dumps")]
pub struct VmcoreArgs {
    /// Read a kernel dump: an ELF vmcore (as /proc/vmcore), a kdump-compressed file, either of
    /// them flattened, or a raw image of a machine's memory. --last counts back from the last
    /// event before the panic. With --store DIR, what is older than the rings is read from the
    /// files of that boot.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["file", "boot", "list_boots", "bpffs_dir"]
    )]
    pub vmcore: Option<PathBuf>,
    /// Show what every thread was doing at the panic, instead of events: the call, its arguments,
    /// for how long. With --format jsonl, print one JSON object with the fields of ps --json.
    #[arg(long, requires = "vmcore", conflicts_with = "store")]
    pub in_flight: bool,
    /// List the recordings in the dump, newest first, instead of events. With --format jsonl, print
    /// one JSON object.
    #[arg(long, requires = "vmcore", conflicts_with_all = ["in_flight", "store"])]
    pub list_sessions: bool,
    /// Read this recording in the dump, by its id [default: the one that the files in the state
    /// directory identify, else the newest].
    #[arg(long, value_name = "ID", requires = "vmcore", value_parser = session)]
    pub session: Option<u64>,
}
