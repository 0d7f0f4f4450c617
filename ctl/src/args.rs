//! What was typed. What it means is [`crate::plan`].

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::around::Around;
use crate::boots::BootArg;
use crate::fds::Naming;
use crate::filter::is_pattern;
use crate::kind::Kind;
use crate::ps::State;
use crate::top::Column;
use crate::window::TimeArg;

/// Reads the flight recorder: what the machine did just now.
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
    /// Read the rings pinned below this bpffs directory, past the daemon (as root).
    ///
    /// Without it, they are read from RUNTIME_DIR/bpf when no daemon answers.
    #[arg(long, global = true, display_order = 901, value_name = "DIR")]
    pub bpffs_dir: Option<PathBuf>,
    /// The daemon's state directory: its files are read where the rings do not reach back, and
    /// vouch for a recording in a kernel dump [default: what the daemon says, else
    /// /var/lib/flightrec].
    #[arg(long, global = true, display_order = 902, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print recorded events, one a line, in the order of time over all CPUs.
    Dump(Box<DumpArgs>),
    /// Write a window of the recording into one file that any flightctl on any machine reads.
    Save(Box<SaveArgs>),
    /// Recover the recording out of a kernel dump: the rings as one file, megabytes instead of
    /// gigabytes.
    Recover(RecoverArgs),
    /// Print events as they are recorded, until Ctrl-C.
    Follow(Box<FollowArgs>),
    /// Show the busiest threads, live or of a time that is over: system calls, errors, run time,
    /// run-queue delay, time asleep.
    Top(Box<TopArgs>),
    /// Show every thread that is blocked now: for how long, in which call; the worst first.
    Ps(PsArgs),
    /// Write a line of text into the recording.
    Mark {
        /// The text, at most 255 bytes.
        text: String,
    },
    /// Keep what was just now: flightd makes a snapshot of it, and says its id.
    Snapshot(SnapshotArgs),
    /// List the snapshots: windows that were kept because something happened, newest first; or show
    /// one's first answer.
    Snapshots(SnapshotsArgs),
    /// Show the state of the recorder: since when, how much, what it costs, what was lost.
    Status {
        /// Print one JSON object, with field names and units that scripts can rely on.
        #[arg(long)]
        json: bool,
    },
    /// Look whether this machine is ready for the day it panics: recording, crash kernel, hook,
    /// space; with what to do. Works without root, and says what it could not see.
    Doctor {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show what recording costs and may cost: by part, by CPU, now, in the last minute, since
    /// flightd began.
    Budget(BudgetArgs),
    /// Print the state of the recorder as OpenMetrics text, for Prometheus and others.
    Metrics,
    /// List the recording's files: boot, from when to when, size, events, state.
    Ls(LsArgs),
    /// Check files whole: say what is damaged, and what that cost.
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
    /// Print one JSON object, with field names and units that scripts can rely on.
    #[arg(long)]
    pub json: bool,
    /// Something else than to show it.
    #[command(subcommand)]
    pub command: Option<BudgetCommand>,
}

/// What else is done with the budget.
#[derive(Debug, Subcommand)]
pub enum BudgetCommand {
    /// Change what recording may cost, as root, until flightd reads its configuration again.
    #[command(arg_required_else_help = true)]
    Set {
        /// CPU time of the whole machine, as in `0.5%`; `off` for no limit.
        #[arg(value_name = "TOTAL", value_parser = share)]
        total: Option<u32>,
        /// CPU time that the probes may take of each CPU.
        #[arg(long, value_name = "SHARE", value_parser = share)]
        per_cpu: Option<u32>,
    },
}

/// A window of time: the same for every command that reads what was recorded.
#[derive(Debug, Args)]
pub struct WindowArgs {
    /// The last stretch of time, as in `10s`, `1m 30s`, `250ms` [default: 10s].
    ///
    /// It counts back from now for the boot that is running, else from the last moment that the
    /// files have; so do times such as -5s. It never reaches into the boot before.
    #[arg(long, value_name = "TIME", value_parser = stretch, allow_hyphen_values = true, conflicts_with_all = ["since", "until", "all"])]
    pub last: Option<Duration>,
    /// From this time on: RFC 3339, `HH:MM:SS[.frac]` (the latest such time), `-5s` before now, or
    /// seconds or nanoseconds since 1970.
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub since: Option<TimeArg>,
    /// Up to this time; forms as for --since.
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub until: Option<TimeArg>,
    /// Some seconds before and behind this time, forms as for --since: 5 s, or as in
    /// `14:03:07:30s`.
    #[arg(long, value_name = "T[:TIME]", allow_hyphen_values = true, conflicts_with_all = ["last", "since", "until", "all"])]
    pub around: Option<Around>,
    /// Everything that is still there.
    #[arg(long, conflicts_with_all = ["since", "until"])]
    pub all: bool,
}

/// Which recording is read: the recorder's own, or files.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Recordings")]
pub struct StoreArgs {
    /// Read the files of DIR alone: a state directory, one boot's of it, or a copy of either, from
    /// any machine.
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    pub store: Option<PathBuf>,
    /// Read these files alone, any number in any order, from any machine. What was saved, and a
    /// snapshot's file, opens on the window that it was saved of, unless another is given.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub file: Vec<PathBuf>,
    /// Read this snapshot alone, by its id (`flightctl snapshots`), or `latest`; all of its
    /// window, unless another is given.
    #[arg(long, value_name = "ID", conflicts_with_all = ["store", "file"])]
    pub snapshot: Option<String>,
    /// One boot alone: its id, or 0 for the last, -1 for the one before, 1 for the first that is
    /// there; ID-1 is the one before ID. Without a value: the boot that is running.
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
    /// them flattened, or a plain image of a machine's memory. --last counts back from the
    /// last event before death. With --store DIR the files of that boot are read where the
    /// rings do not reach back.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "boot", "list_boots", "bpffs_dir"])]
    pub vmcore: Option<PathBuf>,
    /// Show what every thread was in the middle of at death, instead of events: which call, with
    /// which arguments, for how long. With --format jsonl one JSON object, as ps --json has
    /// it.
    #[arg(long, requires = "vmcore", conflicts_with = "store")]
    pub in_flight: bool,
    /// List the recordings in the dump, the newest first, instead of events. With --format jsonl
    /// one JSON object.
    #[arg(long, requires = "vmcore", conflicts_with_all = ["in_flight", "store"])]
    pub list_sessions: bool,
    /// This recording in the dump, by its id [default: the one that the files in the state
    /// directory vouch for, else the newest].
    #[arg(long, value_name = "ID", requires = "vmcore", value_parser = session)]
    pub session: Option<u64>,
}

/// Arguments of `dump`.
#[derive(Debug, Args)]
pub struct DumpArgs {
    /// Read these files alone, as --file does.
    #[arg(value_name = "FILE", conflicts_with_all = ["store", "snapshot", "vmcore"])]
    pub files: Vec<PathBuf>,

    /// Which time.
    #[command(flatten)]
    pub window: WindowArgs,

    /// Which recording.
    #[command(flatten)]
    pub store: StoreArgs,
    /// List the boots that there are recordings of, from when to when, instead of events.
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
    /// Replace FILE if it is there.
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Fail with exit status 3 when anything of the window is missing, on any CPU and lane,
    /// whatever the filters; what the configuration leaves out is named, and is no failure.
    #[arg(long)]
    pub strict: bool,
    /// Colour: on a terminal unless `NO_COLOR` is set, always, or never.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    pub color: ColorArg,
}

/// How events look: the same for every command that shows events.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")] // also of what stands behind it in each command
pub struct FormatArgs {
    /// Lines for people, or JSON lines for programs: an object an event, the first says what is
    /// covered.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = FormatArg::Text)]
    pub format: FormatArg,
    /// Show a system call as one line with its result, unless another event of its thread comes
    /// between.
    #[arg(long)]
    pub merge: bool,
    /// Show what file descriptors stand for, `3</etc/hosts>`, as far as it is known: from their
    /// opening in the recording, or from the daemon's look at what is open
    /// [default: near; with --path: all].
    #[arg(long, value_name = "WHICH", value_enum)]
    pub fds: Option<Naming>,
}

/// Formats of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// Lines for people.
    Text,
    /// JSON lines, for programs.
    Jsonl,
}

/// Which events: the same for every command that shows events.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filters (lists by commas; different filters must all agree)")]
pub struct FilterArgs {
    /// Events of these processes (all their threads).
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = id)]
    pub pid: Vec<u32>,
    /// Events of these threads; a switch belongs to both its threads, a wakeup to waker and wakee.
    #[arg(long, value_name = "TID", value_delimiter = ',', value_parser = id)]
    pub tid: Vec<u32>,
    /// Events of these processes and of all that descend from them.
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = id)]
    pub tree: Vec<u32>,
    /// Events of threads with these names; patterns such as `kworker/*` match all of a name.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = comm)]
    pub comm: Vec<String>,
    /// Events of these control groups (v2) and of all below them: /system.slice, or a group's id.
    #[arg(long, value_name = "PATH|ID", value_delimiter = ',')]
    pub cgroup: Vec<String>,
    /// Events of these systemd units: nginx.service, or nginx for short.
    #[arg(long, value_name = "UNIT", value_delimiter = ',')]
    pub unit: Vec<String>,
    /// Events on these CPUs.
    #[arg(long, value_name = "CPU", value_delimiter = ',')]
    pub cpu: Vec<u16>,
    /// These system calls, by name, number or class: file, network, process, signal, memory, desc
    /// (as strace has them, with or without %). A ! before the first means all but these.
    ///
    /// This and the following filters leave nothing but system calls, unless --event names other
    /// kinds too.
    #[arg(long, value_name = "CALL", value_delimiter = ',')]
    pub syscall: Vec<String>,
    /// System calls on files that match: by a path they take, or by a descriptor whose path is
    /// known (see --fds). `*` stays within a directory, `**` does not; without a slash, a file
    /// name. Of a path too long to be recorded whole, the end decides whether it may match;
    /// how many of these are shown is said.
    #[arg(long, value_name = "GLOB")]
    pub path: Vec<String>,
    /// System calls that failed: the ends alone, with their arguments.
    #[arg(long)]
    pub errors: bool,
    /// System calls that failed so: ENOENT, EAGAIN, also ERESTARTSYS.
    #[arg(long, value_name = "ERROR", value_delimiter = ',')]
    pub errno: Vec<String>,
    /// System calls that took at least so long, as in `1ms`: the ends alone, with their arguments.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub slower_than: Option<Duration>,
    /// System calls that took less than so long: the ends alone. With --slower-than: between the
    /// two.
    #[arg(long, value_name = "TIME", value_parser = stretch)]
    pub faster_than: Option<Duration>,
    /// These kinds of event.
    #[arg(long, value_name = "KIND", value_delimiter = ',', help = event_help())]
    pub event: Vec<String>,
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

    /// File to write.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace FILE if it is there.
    #[arg(long)]
    pub force: bool,
    /// Fail with exit status 3 when anything of the window is missing; what is there is saved all
    /// the same.
    #[arg(long)]
    pub strict: bool,
}

/// Arguments of `recover`.
#[derive(Debug, Args)]
pub struct RecoverArgs {
    /// The dump, in any form that `dump --vmcore` reads; in the crash kernel /proc/vmcore.
    #[arg(value_name = "VMCORE")]
    pub vmcore: PathBuf,
    /// This recording in the dump, by its id [default: the one that the files in the state
    /// directory vouch for, else the newest].
    #[arg(long, value_name = "ID", value_parser = session)]
    pub session: Option<u64>,
    /// File to write.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace FILE if it is there.
    #[arg(long)]
    pub force: bool,
    /// Fail with exit status 3 when anything that the rings held is missing in the dump; what is
    /// there is recovered all the same.
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
    /// How far it reaches back, as in `30s` [default: `before` of [snapshots] in flightd's
    /// configuration].
    #[arg(long, value_name = "TIME", value_parser = stretch)]
    pub last: Option<Duration>,
    /// Why: a line for whoever looks at it later, at most 255 bytes.
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
    /// Show why it was taken, and what stands out in it.
    Show {
        /// Its id, or `latest`; or its file, from any machine.
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
    /// End after this time, as in `60s` [default: at Ctrl-C].
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub time: Option<Duration>,
    /// How often to ask for what is new, 10ms to 30s.
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
    /// Replace FILE if it is there.
    #[arg(long, requires = "output")]
    pub force: bool,
    /// End with exit status 3 when anything was skipped or refused.
    #[arg(long)]
    pub strict: bool,
    /// Colour: on a terminal unless `NO_COLOR` is set, always, or never.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    pub color: ColorArg,
}

/// Arguments of `top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// How often the table is made anew, 10ms to 30s.
    #[arg(
        short,
        long,
        value_name = "TIME",
        value_parser = interval,
        default_value = "1s",
        conflicts_with_all = ["last", "since", "until", "around", "all", "store", "file", "snapshot", "boot", "vmcore", "files"]
    )]
    pub interval: Duration,
    /// What the table is sorted by.
    #[arg(short, long, value_name = "COLUMN", value_enum, default_value_t = Column::Syscalls)]
    pub sort: Column,
    /// Threads whose name, thread id or process id contains TEXT.
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    pub filter: String,
    /// Print one table, over one interval, as plain text.
    #[arg(long)]
    pub once: bool,
    /// Most threads in a table of text.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub lines: usize,

    /// Print the table of these files, as --file does.
    #[arg(value_name = "FILE", conflicts_with_all = ["store", "snapshot", "vmcore"])]
    pub files: Vec<PathBuf>,
    /// Which time that is over: its table is printed as plain text.
    #[command(flatten)]
    pub window: WindowArgs,
    /// Which recording.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Read a kernel dump, as dump --vmcore does. With --store DIR the files of that boot are read
    /// where the rings do not reach back.
    #[arg(long, value_name = "FILE", help_heading = "Recordings", conflicts_with_all = ["file", "boot", "bpffs_dir"])]
    pub vmcore: Option<PathBuf>,
    /// This recording in the dump, by its id [default: the newest].
    #[arg(long, value_name = "ID", help_heading = "Recordings", requires = "vmcore", value_parser = session)]
    pub session: Option<u64>,
    /// Colour: on a terminal unless `NO_COLOR` is set, always, or never.
    #[arg(long, value_name = "WHEN", value_enum, help_heading = "Output", default_value_t = ColorArg::Auto)]
    pub color: ColorArg,
}

/// Arguments of `ps`.
#[derive(Debug, Args)]
pub struct PsArgs {
    /// Kernel threads that wait for work, too.
    #[arg(short, long)]
    pub all: bool,
    /// Threads in these states, by the letters of ps(1): D uninterruptible, S sleeping, T stopped,
    /// t traced, I idle, P parked.
    #[arg(short, long, value_name = "STATE", value_delimiter = ',')]
    pub state: Vec<State>,
    /// Threads of these processes.
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = id)]
    pub pid: Vec<u32>,
    /// These threads.
    #[arg(long, value_name = "TID", value_delimiter = ',', value_parser = id)]
    pub tid: Vec<u32>,
    /// Threads with these names; patterns such as `kworker/*` match all of a name.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = comm)]
    pub comm: Vec<String>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// The threads that were blocked when a machine died, out of its kernel dump.
    #[arg(long, value_name = "FILE", conflicts_with = "bpffs_dir")]
    pub vmcore: Option<PathBuf>,
    /// This recording in the dump, by its id [default: the one that the files in the state
    /// directory vouch for, else the newest].
    #[arg(long, value_name = "ID", requires = "vmcore", value_parser = session)]
    pub session: Option<u64>,
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

/// How often something live is looked at. The daemon closes a connection that is silent for a
/// minute.
/// What `--event` takes.
fn event_help() -> String {
    format!("These kinds of event: {}", Kind::ALL.map(Kind::name).join(", "))
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
            Err("not a share of CPU time; use percent, as in 0.5%, or `off` for no limit"
                .to_owned())
        }
    }
}

/// A length of time, of which there is some.
fn stretch(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|_| {
        "not a length of time; use a number and its unit, as in 10s, 250ms or \"1m 30s\"".to_owned()
    })?;
    if time.is_zero() { Err("no time at all: nothing can be in it".to_owned()) } else { Ok(time) }
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
            Err(format!("the kernel cuts names of threads to {COMM_MAX} bytes: ask for '{whole}'"))
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
