//! What is typed for `flightctl export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::filter::FilterSpec;
use crate::options::format::FdsArg;
use crate::options::past::PastArgs;
use crate::options::redact::RedactArgs;
use crate::options::traces::TraceArgs;
use crate::value::session;

/// Arguments of `export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Read only these files, as with --file.
    #[arg(value_name = "FILE", conflicts_with_all = ["store", "snapshot", "vmcore"])]
    pub files: Vec<PathBuf>,
    /// Which time of which recording.
    #[command(flatten)]
    pub past: PastArgs,
    /// Read a kernel dump, in any of the forms that `flightctl dump` reads.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Kernel dumps",
        conflicts_with_all = ["file", "boot", "bpffs_dir"]
    )]
    pub vmcore: Option<PathBuf>,
    /// Read this recording in the dump, by its id.
    #[arg(
        long,
        value_name = "ID",
        help_heading = "Kernel dumps",
        requires = "vmcore",
        value_parser = session
    )]
    pub session: Option<u64>,
    /// Which events.
    #[command(flatten)]
    pub filter: FilterSpec,
    /// Of which distributed traces; `--format parquet` has columns for them.
    #[command(flatten)]
    pub traces: TraceArgs,
    /// The format.
    #[arg(long, value_name = "FORMAT", value_enum, help_heading = "Output")]
    pub format: ExportFormat,
    /// Write to OUT, or with `-` to standard output. Until it is complete, OUT is named
    /// OUT.part-PID; an error removes it. For a format of several files, OUT is a directory.
    /// Missing parent directories are created.
    #[arg(short, long, value_name = "OUT", help_heading = "Output")]
    pub output: PathBuf,
    /// Replace OUT if it exists.
    #[arg(long, help_heading = "Output")]
    pub force: bool,
    /// Show the file that a descriptor refers to where it is known, as `flightctl dump` does
    /// [default: near; with --path: all].
    #[arg(long, value_name = "WHICH", value_enum, help_heading = "Output")]
    pub fds: Option<FdsArg>,
    /// What is left out.
    #[command(flatten)]
    pub redact: RedactArgs,
    /// Exit with status 3 if anything that the filters ask for is missing in the window.
    #[arg(long, help_heading = "Output")]
    pub strict: bool,
}

/// Formats of other tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Perfetto: <https://ui.perfetto.dev>, `trace_processor`.
    Perfetto,
    /// Trace events as JSON: `chrome://tracing`, and many other viewers.
    Chrome,
    /// Folded stacks for flame graphs: of samples, or, with --event stack, of long waits.
    Folded,
    /// Stacks of samples and of long waits: <https://www.speedscope.app>.
    Speedscope,
    /// `trace-cmd report`, `KernelShark`.
    #[value(name = "trace.dat")]
    TraceDat,
    /// CTF 1.8, with LTTng's names: babeltrace, Trace Compass. OUT is a directory.
    Ctf,
    /// Tables for SQL: DuckDB, ClickHouse, polars, Spark. OUT is a directory.
    Parquet,
}
