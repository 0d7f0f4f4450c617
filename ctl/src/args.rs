//! What was typed. What it means is [`crate::plan`].

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::window::TimeArg;

/// Reads the flight recorder: what the machine did just now.
#[derive(Debug, Parser)]
#[command(name = "flightctl", version, about, long_about = None, propagate_version = true)]
#[command(after_help = "Exit status: 0 fine, 1 nothing in the window, 2 error, 3 incomplete under --strict.")]
pub struct Cli {
    /// Directory of the daemon's control socket.
    #[arg(long, global = true, value_name = "DIR", default_value = "/run/flightrec")]
    pub runtime_dir: PathBuf,
    /// Read the rings pinned below this bpffs directory, past the daemon (as root).
    ///
    /// Without it, they are read from RUNTIME_DIR/bpf when no daemon answers.
    #[arg(long, global = true, value_name = "DIR")]
    pub bpffs_dir: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print recorded events, one a line, in the order of time over all CPUs.
    Dump(Box<DumpArgs>),
    /// Write a line of text into the recording.
    Mark {
        /// The text, at most 255 bytes.
        text: String,
    },
    /// Show the state of the recording.
    Status,
}

/// Arguments of `dump`.
#[derive(Debug, Args)]
pub struct DumpArgs {
    /// The last stretch of time, as in `10s`, `1m 30s`, `250ms` [default: 10s].
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, conflicts_with_all = ["since", "until", "all"])]
    pub last: Option<Duration>,
    /// From this time on: RFC 3339, `HH:MM:SS[.frac]` (the latest such time), or `-5s` before now.
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub since: Option<TimeArg>,
    /// Up to this time; forms as for --since.
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub until: Option<TimeArg>,
    /// Everything that is still there.
    #[arg(long, conflicts_with_all = ["since", "until"])]
    pub all: bool,

    /// Events of these processes (all their threads). Lists by commas; kinds of filter combine with AND.
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = id)]
    pub pid: Vec<u32>,
    /// Events of these threads; a switch belongs to both its threads, a wakeup to waker and wakee.
    #[arg(long, value_name = "TID", value_delimiter = ',', value_parser = id)]
    pub tid: Vec<u32>,
    /// Events of threads with these names.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub comm: Vec<String>,
    /// Events on these CPUs.
    #[arg(long, value_name = "CPU", value_delimiter = ',')]
    pub cpu: Vec<u16>,
    /// These system calls, by name or number; nothing but system calls unless --event is given too.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub syscall: Vec<String>,
    /// These kinds of event: sys_enter, sys_exit, switch, waking, wakeup_new, migrate, fork, exec, rename,
    /// exit, mark, act.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub event: Vec<String>,

    /// Write to FILE instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Fail with exit status 3 when anything of the window is missing.
    #[arg(long)]
    pub strict: bool,
    /// Colour: on a terminal unless `NO_COLOR` is set, always, or never.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    pub color: ColorArg,
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorArg {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// A process or thread id.
fn id(text: &str) -> Result<u32, String> {
    let n: u32 = text.parse().map_err(|_| "not a process or thread id".to_owned())?;
    if u64::from(n) > flightrec_format::abi::record::TID_MASK {
        return Err("greater than any process or thread id (at most 4194303)".to_owned());
    }
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn lists_and_repetition_add_up() {
        let cli = Cli::try_parse_from(["flightctl", "dump", "--pid", "1,2", "--pid", "3", "--since", "-5s"]).unwrap();
        let Command::Dump(dump) = cli.command else { panic!("not dump") };
        assert_eq!(dump.pid, [1, 2, 3]);
        assert!(dump.since.is_some());
    }

    #[test]
    fn windows_exclude_one_another() {
        for args in [["--last=1s", "--all"], ["--last=1s", "--since=-5s"], ["--all", "--until=-5s"]] {
            assert!(Cli::try_parse_from(["flightctl", "dump"].iter().copied().chain(args)).is_err(), "{args:?}");
        }
    }

    #[test]
    fn ids_are_bounded() {
        assert!(id("4194303").is_ok());
        assert!(id("4194304").is_err());
        assert!(id("-1").is_err());
    }
}
