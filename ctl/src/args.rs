//! What was typed. What it means is [`crate::plan`].

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use flightrec_analysis::TaskState;

use crate::around::Around;
use crate::boots::BootArg;
use crate::column::Column;
use crate::fds::Naming;
use crate::filter::{FilterSpec, is_pattern};
use crate::kind::Kind;
use crate::time_arg::TimeArg;

/// Read the flight recorder: what the machine did in the last seconds, hours or before a panic.
#[derive(Debug, Parser)]
#[command(name = "flightctl", version, about, long_about = None, propagate_version = true)]
pub struct Cli {
    /// Directory of the daemon's control socket.
    #[arg(
        long,
        global = true,
        display_order = 900,
        value_name = "DIR",
        env = "FLIGHTREC_RUNTIME_DIR",
        hide_env_values = true,
        default_value = "/run/flightrec"
    )]
    pub runtime_dir: PathBuf,
    /// Read the rings pinned in this bpffs directory instead of asking the daemon (as root).
    ///
    /// By default, RUNTIME_DIR/bpf is read when no daemon answers.
    #[arg(long, global = true, display_order = 901, value_name = "DIR")]
    pub bpffs_dir: Option<PathBuf>,
    /// The daemon's state directory. Its files hold what is older than the rings, and identify the
    /// recording in a kernel dump [default: the daemon's, else /var/lib/flightrec].
    #[arg(long, global = true, display_order = 902, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print recorded events, one per line, in time order across all CPUs.
    Dump(Box<DumpArgs>),
    /// Save a window of the recording to one file that flightctl can read on any machine.
    Save(Box<SaveArgs>),
    /// Extract the recording from a kernel dump into one file: megabytes instead of gigabytes.
    Recover(RecoverArgs),
    /// Print events as they are recorded, until Ctrl-C.
    Follow(Box<FollowArgs>),
    /// Show the busiest threads, live or for a past window: system calls, errors, run time,
    /// run-queue delay, time asleep.
    Top(Box<TopArgs>),
    /// List the threads that are blocked now, longest first: for how long, in which call.
    Ps(PsArgs),
    /// Add a line of text to the recording.
    Mark {
        /// The text, at most 255 bytes.
        text: String,
    },
    /// Save a snapshot of recent history, and print its id.
    Snapshot(SnapshotArgs),
    /// List the snapshots that flightd took when something went wrong, newest first; or show the
    /// summary of one.
    Snapshots(SnapshotsArgs),
    /// Show the state of the recorder: how much it holds, what it costs, what was lost.
    Status {
        /// Print one JSON object; field names and units are stable.
        #[arg(long)]
        json: bool,
    },
    /// Check whether this machine is ready to capture a panic (recording, crash kernel, hook, disk
    /// space), and say what to do. It works without root, and says what it could not check.
    Doctor {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show what recording costs and its limits: by part and CPU; now, in the last minute, and since
    /// flightd started.
    Budget(BudgetArgs),
    /// Print metrics of the recorder as OpenMetrics text, for Prometheus.
    Metrics,
    /// List the recording's files: boot, time range, size, events, state.
    Ls(LsArgs),
    /// Check files completely: report what is damaged, and which events that cost.
    Verify {
        /// Files, or directories with files in or below them [default: the state directory].
        #[arg(value_name = "PATH")]
        paths: Vec<PathBuf>,
    },
}

/// What is done with the budget.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BudgetArgs {
    /// Print one JSON object; field names and units are stable.
    #[arg(long)]
    pub json: bool,
    /// Change it instead of showing it.
    #[command(subcommand)]
    pub command: Option<BudgetCommand>,
}

/// What else is done with the budget.
#[derive(Debug, Subcommand)]
pub enum BudgetCommand {
    /// Change the limits, as root, until flightd next reads its configuration.
    #[command(arg_required_else_help = true)]
    Set {
        /// CPU time of the whole machine, for example `0.5%`; `off` for no limit.
        #[arg(value_name = "TOTAL", value_parser = share)]
        total: Option<u32>,
        /// CPU time that the probes may use of each CPU.
        #[arg(long, value_name = "SHARE", value_parser = share)]
        per_cpu: Option<u32>,
    },
}

/// A window of time: the same for every command that reads what was recorded.
#[derive(Debug, Args)]
pub struct WindowArgs {
    /// The most recent part, for example `10s`, `1m 30s` or `250ms` [default: 10s].
    ///
    /// It counts back from now for the running boot, else from the last moment in the files, as do
    /// times such as -5s. It never reaches into the previous boot.
    #[arg(long, value_name = "TIME", value_parser = stretch, allow_hyphen_values = true, conflicts_with_all = ["since", "until", "all"])]
    pub last: Option<Duration>,
    /// Start time: RFC 3339, `HH:MM:SS[.frac]` (the latest such time), `-5s` (before now), or seconds
    /// or nanoseconds since 1970.
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub since: Option<TimeArg>,
    /// End time, in the same forms as --since.
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub until: Option<TimeArg>,
    /// The time before and after T, which has the same forms as --since: 5 s each, or another
    /// length, for example `14:03:07:30s`.
    #[arg(long, value_name = "T[:TIME]", allow_hyphen_values = true, conflicts_with_all = ["last", "since", "until", "all"])]
    pub around: Option<Around>,
    /// Everything that the recording still holds.
    #[arg(long, conflicts_with_all = ["since", "until"])]
    pub all: bool,
}

/// Which recording is read: the recorder's own, or files.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Recordings")]
pub struct StoreArgs {
    /// Read only the files in DIR: a state directory, the directory of one boot in it, or a copy of
    /// either, from any machine.
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    pub store: Option<PathBuf>,
    /// Read only these files, in any order, from any machine. A saved file or a snapshot's file
    /// opens on the window that it was saved for, unless you give another.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub file: Vec<PathBuf>,
    /// Read only this snapshot: its id (`flightctl snapshots`) or `latest`. The default is its whole
    /// window.
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

/// What is read of a kernel dump.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Kernel dumps")]
pub struct VmcoreArgs {
    /// Read a kernel dump: an ELF vmcore (as /proc/vmcore), a kdump-compressed file, either of
    /// them flattened, or a raw image of a machine's memory. --last counts back from the last
    /// event before the panic. With --store DIR, what is older than the rings is read from the
    /// files of that boot.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "boot", "list_boots", "bpffs_dir"])]
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

/// Arguments of `dump`.
#[derive(Debug, Args)]
pub struct DumpArgs {
    /// Read only these files, as with --file.
    #[arg(value_name = "FILE", conflicts_with_all = ["store", "snapshot", "vmcore"])]
    pub files: Vec<PathBuf>,

    /// Which time.
    #[command(flatten)]
    pub window: WindowArgs,

    /// Which recording.
    #[command(flatten)]
    pub store: StoreArgs,
    /// List the recorded boots with their time ranges, instead of events.
    #[arg(long, help_heading = "Recordings")]
    pub list_boots: bool,
    /// What is in a kernel dump.
    #[command(flatten)]
    pub vmcore: VmcoreArgs,

    /// Which events.
    #[command(flatten)]
    pub filter: FilterArgs,

    /// How events look.
    #[command(flatten)]
    pub format: FormatArgs,

    /// Write to FILE instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace FILE if it exists.
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Exit with status 3 if anything in the window is missing, on any CPU and lane, whatever the
    /// filters. What the configuration leaves out is reported, but is no failure.
    #[arg(long)]
    pub strict: bool,
    /// When to use colour: on a terminal unless `NO_COLOR` is set, always, or never.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    pub color: ColorArg,
}

/// How events look: the same for every command that shows events.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")] // also of what stands behind it in each command
pub struct FormatArgs {
    /// Text for people, or JSON lines for programs: one object per event, after one with the
    /// coverage.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = FormatArg::Text)]
    pub format: FormatArg,
    /// Print a system call and its result as one line, unless another event of its thread comes
    /// between them.
    #[arg(long)]
    pub merge: bool,
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

/// Which events: the same for every command that shows events.
#[derive(Debug, Clone, Default, Args)]
#[command(
    next_help_heading = "Filters (separate values by commas; an event must match all filters)"
)]
pub struct FilterArgs {
    /// Events of these processes (all of their threads).
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = id)]
    pub pid: Vec<u32>,
    /// Events of these threads. A switch belongs to both threads, a wakeup to waker and wakee.
    #[arg(long, value_name = "TID", value_delimiter = ',', value_parser = id)]
    pub tid: Vec<u32>,
    /// Events of these processes and of all of their descendants.
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = id)]
    pub tree: Vec<u32>,
    /// Events of threads with these names. A pattern such as `kworker/*` must match the whole name.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = comm)]
    pub comm: Vec<String>,
    /// Events of these control groups (v2) and of all groups below them: /system.slice, or an id.
    #[arg(long, value_name = "PATH|ID", value_delimiter = ',')]
    pub cgroup: Vec<String>,
    /// Events of these systemd units: nginx.service, or short nginx.
    #[arg(long, value_name = "UNIT", value_delimiter = ',')]
    pub unit: Vec<String>,
    /// Events on these CPUs.
    #[arg(long, value_name = "CPU", value_delimiter = ',')]
    pub cpu: Vec<u16>,
    /// These system calls, by name, number or class: file, network, process, signal, memory, desc
    /// (as in strace, with or without %). A ! before the first means all calls except these.
    ///
    /// This and the following filters select system calls only, unless --event names other kinds.
    #[arg(long, value_name = "CALL", value_delimiter = ',')]
    pub syscall: Vec<String>,
    /// System calls on matching files: by a path argument, or by a descriptor whose path is known
    /// (see --fds). `*` does not match across directories, `**` does; a pattern without a slash
    /// matches a file name. If a path is too long to be recorded completely, its end decides
    /// whether it may match; the number of such calls is reported.
    #[arg(long, value_name = "GLOB")]
    pub path: Vec<String>,
    /// System calls that failed: only their returns, with the arguments.
    #[arg(long)]
    pub errors: bool,
    /// System calls that failed with these errors: ENOENT, EAGAIN, also ERESTARTSYS.
    #[arg(long, value_name = "ERROR", value_delimiter = ',')]
    pub errno: Vec<String>,
    /// System calls that took at least this long, for example `1ms`: only their returns, with the
    /// arguments.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub slower_than: Option<Duration>,
    /// System calls that took less than this: only their returns. With --slower-than: between the
    /// two.
    #[arg(long, value_name = "TIME", value_parser = stretch)]
    pub faster_than: Option<Duration>,
    /// Events of these kinds.
    #[arg(long, value_name = "KIND", value_delimiter = ',', help = event_help())]
    pub event: Vec<String>,
}

impl From<FilterArgs> for FilterSpec {
    fn from(args: FilterArgs) -> Self {
        let FilterArgs { pid, tid, tree, comm, cgroup, unit, cpu, syscall, path, .. } = args;
        let FilterArgs { errors, errno, slower_than, faster_than, event, .. } = args;
        Self {
            pid,
            tid,
            tree,
            comm,
            cgroup,
            unit,
            cpu,
            syscall,
            path,
            errors,
            errno,
            slower_than,
            faster_than,
            event,
        }
    }
}

/// Which descriptors are shown by what they stand for, and what is read for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FdsArg {
    /// Numbers only.
    Off,
    /// Those that were opened in the window, or in the 2 s before it, and what the snapshots of
    /// that time tell.
    Near,
    /// Those that were opened anywhere in the recording: all of it is read.
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

/// Arguments of `save`.
#[derive(Debug, Args)]
pub struct SaveArgs {
    /// Which time.
    #[command(flatten)]
    pub window: WindowArgs,

    /// Which recording.
    #[command(flatten)]
    pub store: StoreArgs,

    /// The file to write.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace FILE if it exists.
    #[arg(long)]
    pub force: bool,
    /// Exit with status 3 if anything in the window is missing; the rest is saved nevertheless.
    #[arg(long)]
    pub strict: bool,
}

/// Arguments of `recover`.
#[derive(Debug, Args)]
pub struct RecoverArgs {
    /// The dump, in any form that `dump --vmcore` reads; /proc/vmcore in the crash kernel.
    #[arg(value_name = "VMCORE")]
    pub vmcore: PathBuf,
    /// Read this recording in the dump, by its id [default: the one that the files in the state
    /// directory identify, else the newest].
    #[arg(long, value_name = "ID", value_parser = session)]
    pub session: Option<u64>,
    /// The file to write.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace FILE if it exists.
    #[arg(long)]
    pub force: bool,
    /// Exit with status 3 if anything that the rings held is missing in the dump; the rest is
    /// recovered nevertheless.
    #[arg(long)]
    pub strict: bool,
}

/// Arguments of `ls`.
#[derive(Debug, Args)]
pub struct LsArgs {
    /// Files, or directories with files in or below them [default: the state directory].
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `snapshot`.
#[derive(Debug, Args)]
pub struct SnapshotArgs {
    /// How much time before now to save, for example `30s` [default: `before` of `[snapshots]` in
    /// flightd's configuration].
    #[arg(long, value_name = "TIME", value_parser = stretch)]
    pub last: Option<Duration>,
    /// Why you take it, for later readers: one line of at most 255 bytes.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
}

/// Arguments of `snapshots`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SnapshotsArgs {
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// What to do with one of them.
    #[command(subcommand)]
    pub command: Option<SnapshotsCommand>,
}

/// What to do with a snapshot.
#[derive(Debug, Subcommand)]
pub enum SnapshotsCommand {
    /// Show its cause, and what stands out in it.
    Show {
        /// Its id, `latest`, or its file, from any machine.
        #[arg(value_name = "ID|FILE")]
        id: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// Arguments of `follow`.
#[derive(Debug, Args)]
pub struct FollowArgs {
    /// Stop after this time, for example `60s` [default: at Ctrl-C].
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub time: Option<Duration>,
    /// How often to fetch new events, 10ms to 30s.
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "200ms")]
    pub interval: Duration,

    /// Which events.
    #[command(flatten)]
    pub filter: FilterArgs,

    /// How events look.
    #[command(flatten)]
    pub format: FormatArgs,

    /// Write to FILE instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace FILE if it exists.
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Exit with status 3 if any event was skipped or refused.
    #[arg(long)]
    pub strict: bool,
    /// When to use colour: on a terminal unless `NO_COLOR` is set, always, or never.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    pub color: ColorArg,
}

/// Arguments of `top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// How often to refresh the table, 10ms to 30s.
    #[arg(
        short,
        long,
        value_name = "TIME",
        value_parser = interval,
        default_value = "1s",
        conflicts_with_all = ["last", "since", "until", "around", "all", "store", "file", "snapshot", "boot", "vmcore", "files"]
    )]
    pub interval: Duration,
    /// Sort the table by this column.
    #[arg(short, long, value_name = "COLUMN", value_enum, default_value_t = Column::Syscalls)]
    pub sort: Column,
    /// Show only threads whose name, thread id or process id contains TEXT.
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    pub filter: String,
    /// Print one table, for one interval, as plain text.
    #[arg(long)]
    pub once: bool,
    /// Maximum number of threads in a text table.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub lines: usize,

    /// Print the table for these files, as with --file.
    #[arg(value_name = "FILE", conflicts_with_all = ["store", "snapshot", "vmcore"])]
    pub files: Vec<PathBuf>,
    /// Which time that is over: its table is printed as plain text.
    #[command(flatten)]
    pub window: WindowArgs,
    /// Which recording.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Read a kernel dump, as with dump --vmcore. With --store DIR, what is older than the rings is
    /// read from the files of that boot.
    #[arg(long, value_name = "FILE", help_heading = "Recordings", conflicts_with_all = ["file", "boot", "bpffs_dir"])]
    pub vmcore: Option<PathBuf>,
    /// Read this recording in the dump, by its id [default: the newest].
    #[arg(long, value_name = "ID", help_heading = "Recordings", requires = "vmcore", value_parser = session)]
    pub session: Option<u64>,
    /// When to use colour: on a terminal unless `NO_COLOR` is set, always, or never.
    #[arg(long, value_name = "WHEN", value_enum, help_heading = "Output", default_value_t = ColorArg::Auto)]
    pub color: ColorArg,
}

/// Arguments of `ps`.
#[derive(Debug, Args)]
pub struct PsArgs {
    /// Include kernel threads that wait for work.
    #[arg(short, long)]
    pub all: bool,
    /// Only threads in these states, by the letters of ps(1): D uninterruptible, S sleeping, T
    /// stopped, t traced, I idle, P parked.
    #[arg(short, long, value_name = "STATE", value_delimiter = ',')]
    pub state: Vec<TaskState>,
    /// Only threads of these processes.
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = id)]
    pub pid: Vec<u32>,
    /// Only these threads.
    #[arg(long, value_name = "TID", value_delimiter = ',', value_parser = id)]
    pub tid: Vec<u32>,
    /// Only threads with these names. A pattern such as `kworker/*` must match the whole name.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = comm)]
    pub comm: Vec<String>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// List the threads that were blocked at a panic, from its kernel dump.
    #[arg(long, value_name = "FILE", conflicts_with = "bpffs_dir")]
    pub vmcore: Option<PathBuf>,
    /// Read this recording in the dump, by its id [default: the one that the files in the state
    /// directory identify, else the newest].
    #[arg(long, value_name = "ID", requires = "vmcore", value_parser = session)]
    pub session: Option<u64>,
    /// When to use colour: on a terminal unless `NO_COLOR` is set, always, or never.
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

/// How often something live is looked at. The daemon closes a connection that is silent for a
/// minute.
/// What `--event` takes.
fn event_help() -> String {
    format!("Events of these kinds: {}", Kind::ALL.map(Kind::name).join(", "))
}

fn interval(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|e| e.to_string())?;
    if !(Duration::from_millis(10)..=Duration::from_secs(30)).contains(&time) {
        return Err("not within 10ms to 30s".to_owned());
    }
    Ok(time)
}

/// A share of CPU time in millionths; 0 for `off`.
fn share(text: &str) -> Result<u32, String> {
    if text == "off" {
        return Ok(0);
    }
    let number = text.strip_suffix('%').map(str::trim_end);
    let number = number.filter(|number| number.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
    let percent: Option<f64> = number.and_then(|number| number.parse().ok());
    match percent {
        Some(percent) if (0.01..=100.0).contains(&percent) => {
            Ok((percent * 10_000.0).round() as u32)
        }
        Some(_) => Err("not within 0.01% to 100%; `off` is no limit".to_owned()),
        None => {
            Err("not a share of CPU time; use percent, for example 0.5%, or `off` for no limit"
                .to_owned())
        }
    }
}

/// A length of time, of which there is some.
fn stretch(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|_| {
        "not a duration; use a number and its unit, for example 10s, 250ms or \"1m 30s\"".to_owned()
    })?;
    if time.is_zero() {
        Err("an empty window; use a duration above zero".to_owned())
    } else {
        Ok(time)
    }
}

/// Longest name of a thread (`TASK_COMM_LEN` less the NUL), bytes.
const COMM_MAX: usize = 15;

/// A thread's name, or a pattern. A longer name would never match anything.
fn comm(text: &str) -> Result<String, String> {
    if is_pattern(text) {
        return Ok(text.to_owned());
    }
    match text.get(..COMM_MAX) {
        Some(whole) if whole.len() < text.len() => {
            Err(format!("the kernel cuts thread names to {COMM_MAX} bytes: use '{whole}'"))
        }
        _ => Ok(text.to_owned()),
    }
}

/// A session's id.
fn session(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).map_err(|_| {
        "not the id of a recording, 16 hexadecimal digits; --list-sessions shows them".to_owned()
    })
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
        let cli = Cli::try_parse_from([
            "flightctl",
            "dump",
            "--pid",
            "1,2",
            "--pid",
            "3",
            "--since",
            "-5s",
        ])
        .unwrap();
        let Command::Dump(dump) = cli.command else { panic!("not dump") };
        assert_eq!(dump.filter.pid, [1, 2, 3]);
        assert!(dump.window.since.is_some());
    }

    #[test]
    fn windows_exclude_one_another() {
        for args in [["--last=1s", "--all"], ["--last=1s", "--since=-5s"], ["--all", "--until=-5s"]]
        {
            assert!(
                Cli::try_parse_from(["flightctl", "dump"].iter().copied().chain(args)).is_err(),
                "{args:?}"
            );
        }
    }

    #[test]
    fn a_boot_takes_a_number_but_no_option() {
        let boot = |args: &[&str]| {
            let cli = Cli::try_parse_from(["flightctl", "dump"].iter().chain(args)).unwrap();
            let Command::Dump(dump) = cli.command else { panic!("not dump") };
            dump.store.boot
        };
        assert_eq!(boot(&["--boot", "-1"]), "-1".parse().ok());
        assert_eq!(boot(&["-b", "--all"]), "".parse().ok());
        assert_eq!(boot(&["--boot=-0"]), "-0".parse().ok());
        assert_eq!(boot(&["--all"]), None);
    }

    #[test]
    fn any_number_of_files() {
        let cli = Cli::try_parse_from([
            "flightctl",
            "dump",
            "--file",
            "a",
            "b",
            "--last",
            "1s",
            "--file=c",
        ])
        .unwrap();
        let Command::Dump(dump) = cli.command else { panic!("not dump") };
        assert_eq!(dump.store.file, ["a", "b", "c"].map(PathBuf::from));
        assert!(Cli::try_parse_from(["flightctl", "dump", "--file", "a", "--store", "b"]).is_err());
    }

    #[test]
    fn names_too_long_to_be_are_told_their_short_form() {
        assert_eq!(comm("0123456789abcde").as_deref(), Ok("0123456789abcde"));
        assert!(comm("0123456789abcdef*").is_ok());
        assert!(comm("0123456789abcdef").is_err_and(|e| e.ends_with("'0123456789abcde'")));
    }

    #[test]
    fn shares_are_percent() {
        assert_eq!(
            ["1%", "0.5 %", "off", "100%"].map(|text| share(text).ok()),
            [10_000, 5000, 0, 1_000_000].map(Some)
        );
        for wrong in ["1", "0%", "101%", "inf%", "-1%", "%", "1e1%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
        assert!(Cli::try_parse_from(["flightctl", "budget", "--json", "set", "1%"]).is_err());
    }

    #[test]
    fn ids_are_bounded() {
        assert!(id("4194303").is_ok());
        assert!(id("4194304").is_err());
        assert!(id("-1").is_err());
    }
}
