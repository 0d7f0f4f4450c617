//! How events look.

use clap::{Args, ValueEnum};

use flightrec_reader::fds::Naming;

/// How events look: the same for every command that shows events.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")] // also of what stands after it in each command
pub struct FormatArgs {
    /// Text for people, or JSON lines for programs: one object per event, after a first one with
    /// the version of the lines and what they cover.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = FormatArg::Text)]
    pub format: FormatArg,
    /// Print a system call and its result as one line, unless another event of its thread comes
    /// between them.
    #[arg(long)]
    pub merge: bool,
    /// Show stacks: below each switch to a thread that waited for long, the kernel functions in
    /// which it waited, from the innermost one out (flightd.toml, section stacks); and the samples
    /// of what runs, with the functions of kernel and program (section sampling). JSON lines always
    /// have both.
    #[arg(long)]
    pub stacks: bool,
    /// Indent calls and returns of probed functions (`flightctl probe`), and system calls, by how
    /// deep their thread is in such functions. The system call uretprobe, which probes cause at
    /// returns, is left out. For text.
    #[arg(long)]
    pub graph: bool,
    /// Show the file that a descriptor refers to, `3</etc/hosts>`, where it is known: from the call
    /// that opened it, or from the daemon's snapshots of open descriptors
    /// [default: near; with --path: all].
    #[arg(long, value_name = "WHICH", value_enum)]
    pub fds: Option<FdsArg>,
}

/// Formats of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// Text for people.
    Text,
    /// JSON lines, for programs.
    Jsonl,
}

/// Which descriptors are shown by what they stand for, and what is read for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FdsArg {
    /// Numbers only.
    Off,
    /// Those that were opened in the window, or in the 2 s before it, and those in the snapshots of
    /// that time.
    Near,
    /// Those that were opened anywhere in the recording; all of it is read.
    All,
}

impl From<FdsArg> for Naming {
    fn from(fds: FdsArg) -> Self {
        match fds {
            FdsArg::Off => Self::Off,
            FdsArg::Near => Self::Near,
            FdsArg::All => Self::All,
        }
    }
}
