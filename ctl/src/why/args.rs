//! What is typed for `flightctl why`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use super::hidden::HiddenArgs;
use crate::options::past::PastArgs;
use crate::options::time::TimeArg;
use crate::value::{id, session, stretch};

/// Whom and what a question is about, and in which recording: for `why`, and for `page`.
#[derive(Debug, clap::Args)]
pub struct AskArgs {
    /// Read only these files, as with --file.
    #[arg(value_name = "FILE", conflicts_with_all = ["store", "snapshot", "vmcore"])]
    pub(crate) files: Vec<PathBuf>,
    /// Ask about these threads.
    #[arg(long, value_name = "TID", value_delimiter = ',', value_parser = id,
          help_heading = "Subject (of several threads, the one that was delayed most)")]
    pub(crate) tid: Vec<u32>,
    /// Ask about the threads of these processes.
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = id,
          help_heading = "Subject (of several threads, the one that was delayed most)")]
    pub(crate) pid: Vec<u32>,
    /// Ask about threads with these names.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        help_heading = "Subject (of several threads, the one that was delayed most)"
    )]
    pub(crate) comm: Vec<String>,
    /// Ask about the threads of these systemd units: nginx.service, or nginx for short.
    #[arg(
        long,
        value_name = "UNIT",
        value_delimiter = ',',
        help_heading = "Subject (of several threads, the one that was delayed most)"
    )]
    pub(crate) unit: Vec<String>,
    /// Ask about the threads of these containers: by id (4 or more digits) or by name.
    #[arg(
        long,
        value_name = "ID|NAME",
        value_delimiter = ',',
        help_heading = "Subject (of several threads, the one that was delayed most)"
    )]
    pub(crate) container: Vec<String>,
    /// Ask about the threads of these pods of Kubernetes: by name, NAMESPACE/NAME, or uid.
    #[arg(
        long,
        value_name = "NAME|UID",
        value_delimiter = ',',
        help_heading = "Subject (of several threads, the one that was delayed most)"
    )]
    pub(crate) pod: Vec<String>,
    /// Ask about the longest call of this name, for the time that it took.
    #[arg(
        long,
        value_name = "CALL",
        help_heading = "Subject (of several threads, the one that was delayed most)"
    )]
    pub(crate) call: Option<String>,
    /// Ask about the longest call that took at least this long, for example `100ms`.
    #[arg(long, value_name = "TIME", value_parser = stretch,
          help_heading = "Subject (of several threads, the one that was delayed most)")]
    pub(crate) slower_than: Option<Duration>,
    /// Ask about this moment: the call or the wait that the thread was in then. T has the same
    /// forms as --since; 5 s before and after it are read.
    #[arg(
        long,
        value_name = "T",
        allow_hyphen_values = true,
        conflicts_with_all = [
            "last", "since", "until", "around", "all", "call", "slower_than"
        ]
    )]
    pub(crate) at: Option<TimeArg>,
    /// Which time of which recording.
    #[command(flatten)]
    pub(crate) past: PastArgs,
    /// Read a kernel dump, as with dump --vmcore. With --store DIR, what is older than the rings is
    /// read from the files of that boot.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Recordings",
        conflicts_with_all = ["file", "boot", "bpffs_dir"]
    )]
    pub(crate) vmcore: Option<PathBuf>,
    /// Read this recording in the dump, by its id [default: the one that the files in the state
    /// directory identify, else the newest].
    #[arg(
        long,
        value_name = "ID",
        help_heading = "Recordings",
        requires = "vmcore",
        value_parser = session
    )]
    pub(crate) session: Option<u64>,
}

/// Arguments of `why`.
#[derive(Debug, clap::Args)]
pub struct WhyArgs {
    /// The question.
    #[command(flatten)]
    pub(crate) ask: AskArgs,
    /// Text for people, or one JSON object for programs (docs/flightctl-why.schema.json).
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value_t = WhyFormat::Text,
        help_heading = "Output"
    )]
    pub(crate) format: WhyFormat,
    /// With JSON, add the N longest waits of calls that threads made in spans of distributed
    /// traces, according to the W3C trace contexts (traceparent) that they wrote as marks, or to
    /// their thread contexts.
    #[arg(
        long,
        value_name = "N",
        help_heading = "Output",
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    pub(crate) spans: Option<u32>,
    /// What is left out.
    #[command(flatten)]
    pub(crate) hidden: HiddenArgs,
}

/// How an answer looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WhyFormat {
    /// Text for people.
    Text,
    /// One JSON object; field names and units are stable.
    Json,
}
