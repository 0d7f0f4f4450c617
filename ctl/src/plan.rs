//! What the arguments mean: everything decided, nothing done yet.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Zoned;
use thiserror::Error;

use crate::args::{
    BudgetArgs, BudgetCommand, Cli, ColorArg, Command, DumpArgs, FilterArgs, FollowArgs, FormatArg,
    FormatArgs, LsArgs, PsArgs, RecoverArgs, SaveArgs, SnapshotsArgs, SnapshotsCommand, StoreArgs,
    TopArgs, VmcoreArgs, WindowArgs,
};
use crate::column::Column;
use crate::fds::Naming;
use crate::filter::{FilterError, FilterPlan, Names};
use crate::source::{FilesPlan, HistoryPlan, Origin, Place, STATE_DIR};
use crate::time_arg::TimeArg;
use crate::window::Edge;

use flightrec_analysis::TaskState;
use flightrec_format::control::MARK_MAX;

/// Length from which on the daemon refuses a text.
const MARK_TOO_LONG: usize = MARK_MAX + 1;
/// Length of the window when none is given.
const DEFAULT_LAST_NS: u64 = 10_000_000_000;

/// What to do.
#[derive(Debug, PartialEq)]
pub enum Plan {
    /// Print events.
    Dump(Box<DumpPlan>),
    /// Show what is in a kernel dump.
    Vmcore(Box<VmcorePlan>),
    /// List the boots that there are recordings of.
    ListBoots(HistoryPlan),
    /// Write a window into a file.
    Save(Box<SavePlan>),
    /// Write what a kernel dump holds into a file.
    Recover(RecoverPlan),
    /// Print events as they come.
    Follow(Box<FollowPlan>),
    /// Show the busiest threads.
    Top(TopPlan),
    /// Show blocked threads.
    Ps(PsPlan),
    /// Write a line into the recording.
    Mark {
        /// Directory of the control socket.
        runtime_dir: PathBuf,
        /// The line.
        text: String,
    },
    /// Take a snapshot.
    Snapshot {
        /// Directory of the control socket.
        runtime_dir: PathBuf,
        /// How far back, ns; 0: as the daemon's configuration says.
        last: u64,
        /// Why.
        reason: String,
    },
    /// List the snapshots, or show one.
    Snapshots(SnapshotsPlan),
    /// Show the state.
    Status {
        /// Where from.
        origin: Origin,
        /// As JSON.
        json: bool,
    },
    /// Look whether the machine is ready for a panic.
    Doctor {
        /// Where the recorder is asked.
        origin: Origin,
        /// As JSON.
        json: bool,
    },
    /// Show what recording costs.
    Budget {
        /// Directory of the control socket.
        runtime_dir: PathBuf,
        /// As JSON.
        json: bool,
    },
    /// Change what it may cost.
    SetBudget {
        /// Directory of the control socket.
        runtime_dir: PathBuf,
        /// Millionths of the machine's CPU time; 0: no limit; `None`: as before.
        total: Option<u32>,
        /// Millionths of each CPU's.
        per_cpu: Option<u32>,
    },
    /// Print metrics.
    Metrics(Origin),
    /// List files.
    Ls {
        /// Which.
        files: FilesPlan,
        /// As JSON.
        json: bool,
    },
    /// Check files.
    Verify(FilesPlan),
}

/// A kernel dump, read.
#[derive(Debug, PartialEq)]
pub struct VmcorePlan {
    /// The file.
    pub file: PathBuf,
    /// Which recording; `None`: the newest.
    pub session: Option<u64>,
    /// Directory with the files of its boot, which reach further back than the rings.
    pub store: Option<PathBuf>,
    /// Where files may be that vouch for a recording in it.
    pub state_dir: PathBuf,
    /// What is shown of it.
    pub show: VmcoreShow,
    /// Which events, and how they look; where they are is `file`.
    pub dump: DumpPlan,
}

/// What is shown of a kernel dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VmcoreShow {
    /// Events.
    Events,
    /// Threads in the middle of something.
    InFlight,
    /// The recordings in it.
    Sessions,
}

/// The rings out of a kernel dump, as a file.
#[derive(Debug, PartialEq)]
pub struct RecoverPlan {
    /// The dump.
    pub file: PathBuf,
    /// Which recording; `None`: the newest.
    pub session: Option<u64>,
    /// Where files may be that vouch for a recording in it.
    pub state_dir: PathBuf,
    /// File to write.
    pub output: PathBuf,
    /// Whether one that is there is replaced.
    pub force: bool,
    /// Whether an incomplete recording is a failure.
    pub strict: bool,
}

/// A window, saved.
#[derive(Debug, PartialEq)]
pub struct SavePlan {
    /// Where from.
    pub history: HistoryPlan,
    /// Start of the window.
    pub since: Edge,
    /// End of the window.
    pub until: Edge,
    /// File to write.
    pub output: PathBuf,
    /// Whether one that is there is replaced.
    pub force: bool,
    /// Whether an incomplete window is a failure.
    pub strict: bool,
}

/// A dump.
#[derive(Debug, PartialEq)]
pub struct DumpPlan {
    /// Where from.
    pub history: HistoryPlan,
    /// Start of the window.
    pub since: Edge,
    /// End of the window.
    pub until: Edge,
    /// Which events.
    pub filter: FilterPlan,
    /// How they look.
    pub format: FormatArg,
    /// Whether calls are shown as one.
    pub merge: bool,
    /// Which descriptors are shown by what they stand for.
    pub fds: Naming,
    /// File to write; `None`: standard output.
    pub output: Option<PathBuf>,
    /// Whether one that is there is replaced.
    pub force: bool,
    /// Whether an incomplete window is a failure.
    pub strict: bool,
    /// Colour.
    pub color: ColorArg,
}

/// Following.
#[derive(Debug, PartialEq)]
pub struct FollowPlan {
    /// Where from.
    pub origin: Origin,
    /// For how long; `None`: until a signal comes.
    pub time: Option<Duration>,
    /// How often to ask for what is new.
    pub interval: Duration,
    /// Which events.
    pub filter: FilterPlan,
    /// How they look.
    pub format: FormatArg,
    /// Whether a call is one line, where it can be.
    pub merge: bool,
    /// Which descriptors are shown with what they stand for.
    pub fds: Naming,
    /// File to write; `None`: standard output.
    pub output: Option<PathBuf>,
    /// Whether one that is there is replaced.
    pub force: bool,
    /// Whether a loss is a failure.
    pub strict: bool,
    /// Colour.
    pub color: ColorArg,
}

/// Snapshots, shown.
#[derive(Debug, PartialEq)]
pub struct SnapshotsPlan {
    /// Directory of the control socket: the daemon knows the state directory.
    pub runtime_dir: PathBuf,
    /// The state directory, as typed.
    pub state_dir: Option<PathBuf>,
    /// Which one; `None`: the list.
    pub id: Option<String>,
    /// As JSON.
    pub json: bool,
}

/// The table of threads.
#[derive(Debug, PartialEq)]
pub struct TopPlan {
    /// Where from.
    pub origin: Origin,
    /// What a table covers.
    pub interval: Duration,
    /// Order at the start.
    pub sort: Column,
    /// Which threads at the start.
    pub filter: String,
    /// One table as text; else the screen.
    pub once: bool,
    /// Most threads in a table of text.
    pub lines: usize,
    /// Colour.
    pub color: ColorArg,
    /// A time that is over, instead of what comes.
    pub past: Option<Box<PastPlan>>,
}

/// A time that is over.
#[derive(Debug, PartialEq)]
pub struct PastPlan {
    /// Where from.
    pub history: HistoryPlan,
    /// Start of the window.
    pub since: Edge,
    /// End of the window.
    pub until: Edge,
    /// Out of this kernel dump, instead of `history`.
    pub vmcore: Option<PathBuf>,
    /// Which recording in it; `None`: the newest.
    pub session: Option<u64>,
    /// Directory with the files of its boot.
    pub store: Option<PathBuf>,
    /// Where files may be that vouch for a recording in it.
    pub state_dir: PathBuf,
}

/// The blocked threads.
#[derive(Debug, PartialEq)]
pub struct PsPlan {
    /// Where from.
    pub origin: Origin,
    /// Also those that wait for work.
    pub all: bool,
    /// In these states; none: in any.
    pub states: Vec<TaskState>,
    /// Of these processes; none: of any.
    pub pids: Vec<u32>,
    /// These; none: any.
    pub tids: Vec<u32>,
    /// With these names, or names like these patterns; none: with any.
    pub comms: Vec<String>,
    /// Out of this kernel dump, instead of `origin`.
    pub vmcore: Option<PathBuf>,
    /// Which recording in it; `None`: the newest.
    pub session: Option<u64>,
    /// Where files may be that vouch for a recording in it.
    pub state_dir: PathBuf,
    /// As JSON.
    pub json: bool,
    /// Colour.
    pub color: ColorArg,
}

/// Arguments that make no sense.
#[derive(Debug, Error)]
pub enum PlanError {
    /// A time that can't be.
    #[error("--{option}: {reason}")]
    Time {
        /// Which option.
        option: &'static str,
        /// Why.
        reason: String,
    },
    /// `--since` is not before `--until`.
    #[error("the window is empty: --since is not before --until")]
    Empty,
    /// The rings were asked for, and files.
    #[error("--bpffs-dir reads the rings, --store and --file read files: name one of them")]
    TwoPlaces,
    /// A mark that the daemon would refuse.
    #[error("the mark has {0} bytes; at most {MARK_MAX} fit")]
    MarkLength(usize),
    /// A mark with nothing in it.
    #[error("the mark is empty")]
    MarkEmpty,
    /// A reason with nothing in it.
    #[error("the reason is empty: say why, for later readers of the snapshot")]
    ReasonEmpty,
    /// A reason that the daemon would refuse.
    #[error("the reason has {0} bytes; at most {MARK_MAX} fit")]
    ReasonLength(usize),
    /// A name in a filter.
    #[error(transparent)]
    Filter(#[from] FilterError),
}

impl Plan {
    /// Makes sense of the arguments, `now` being the present time in the user's time zone.
    pub fn new(cli: Cli, now: &Zoned) -> Result<Self, PlanError> {
        let origin = match cli.bpffs_dir {
            Some(ref bpffs_dir) => Origin::Pinned { bpffs_dir: bpffs_dir.clone() },
            None => Origin::Daemon {
                bpffs_dir: cli.runtime_dir.join("bpf"),
                runtime_dir: cli.runtime_dir.clone(),
            },
        };
        match cli.command {
            Command::Dump(mut args) => {
                args.store.file.append(&mut args.files);
                let state_dir = args.store.store.clone().or_else(|| cli.state_dir.clone());
                let history = HistoryPlan::new(&args.store, &args.window, origin, cli.state_dir)?;
                if args.list_boots {
                    return Ok(Self::ListBoots(history));
                }
                if args.vmcore.vmcore.is_some() {
                    return VmcorePlan::new(*args, history, state_dir, now)
                        .map(|plan| Self::Vmcore(Box::new(plan)));
                }
                DumpPlan::new(*args, history, now).map(|plan| Self::Dump(Box::new(plan)))
            }
            Command::Save(args) => {
                let history = HistoryPlan::new(&args.store, &args.window, origin, cli.state_dir)?;
                SavePlan::new(*args, history, now).map(|plan| Self::Save(Box::new(plan)))
            }
            Command::Recover(args) => {
                let RecoverArgs { vmcore, session, output, force, strict } = args;
                let state_dir = cli.state_dir.unwrap_or_else(|| STATE_DIR.into());
                Ok(Self::Recover(RecoverPlan {
                    file: vmcore,
                    session,
                    state_dir,
                    output,
                    force,
                    strict,
                }))
            }
            Command::Follow(args) => Ok(Self::Follow(Box::new(FollowPlan::new(*args, origin)?))),
            Command::Top(args) => Ok(Self::Top(TopPlan::new(*args, origin, cli.state_dir, now)?)),
            Command::Ps(args) => Ok(Self::Ps(PsPlan::new(args, origin, cli.state_dir)?)),
            Command::Mark { text } if text.is_empty() => Err(PlanError::MarkEmpty),
            Command::Mark { text } if text.len() > MARK_MAX => {
                Err(PlanError::MarkLength(text.len()))
            }
            Command::Mark { text } => Ok(Self::Mark { runtime_dir: cli.runtime_dir, text }),
            Command::Snapshot(args) => match args.reason.len() {
                0 => Err(PlanError::ReasonEmpty),
                length @ MARK_TOO_LONG.. => Err(PlanError::ReasonLength(length)),
                _ => {
                    let last = args.last.map_or(0, crate::window::nanos);
                    Ok(Self::Snapshot { runtime_dir: cli.runtime_dir, last, reason: args.reason })
                }
            },
            Command::Snapshots(args) => {
                Ok(Self::Snapshots(SnapshotsPlan::new(args, cli.runtime_dir, cli.state_dir)))
            }
            Command::Status { json } => Ok(Self::Status { origin, json }),
            Command::Doctor { json } => Ok(Self::Doctor { origin, json }),
            Command::Budget(BudgetArgs { json, command: None }) => {
                Ok(Self::Budget { runtime_dir: cli.runtime_dir, json })
            }
            Command::Budget(BudgetArgs {
                command: Some(BudgetCommand::Set { total, per_cpu }),
                ..
            }) => Ok(Self::SetBudget { runtime_dir: cli.runtime_dir, total, per_cpu }),
            Command::Metrics => Ok(Self::Metrics(origin)),
            Command::Ls(LsArgs { paths, json }) => {
                let files =
                    FilesPlan { paths, runtime_dir: cli.runtime_dir, state_dir: cli.state_dir };
                Ok(Self::Ls { files, json })
            }
            Command::Verify { paths } => Ok(Self::Verify(FilesPlan {
                paths,
                runtime_dir: cli.runtime_dir,
                state_dir: cli.state_dir,
            })),
        }
    }
}

impl SnapshotsPlan {
    fn new(args: SnapshotsArgs, runtime_dir: PathBuf, state_dir: Option<PathBuf>) -> Self {
        let (id, json) = match args.command {
            Some(SnapshotsCommand::Show { id, json }) => (Some(id), json),
            None => (None, args.json),
        };
        Self { runtime_dir, state_dir, id, json }
    }
}

impl HistoryPlan {
    fn new(
        args: &StoreArgs,
        window: &WindowArgs,
        origin: Origin,
        state_dir: Option<PathBuf>,
    ) -> Result<Self, PlanError> {
        let own_window = !window.is_given();
        let place = match (&args.store, &args.file[..], &origin) {
            (None, [], _) if args.snapshot.is_some() => {
                let runtime_dir = match &origin {
                    Origin::Daemon { runtime_dir, .. } => runtime_dir.clone(),
                    Origin::Pinned { .. } => return Err(PlanError::TwoPlaces),
                };
                Place::Snapshot {
                    runtime_dir,
                    state_dir,
                    id: args.snapshot.clone().unwrap_or_default(),
                    own_window,
                }
            }
            (None, [], _) => Place::Recorder { origin, state_dir },
            (.., Origin::Pinned { .. }) => return Err(PlanError::TwoPlaces),
            (Some(dir), ..) => Place::Store(dir.clone()),
            (None, files, _) if own_window => Place::OwnWindows(files.to_vec()),
            (None, files, _) => Place::Files(files.to_vec()),
        };
        Ok(Self { place, boot: args.boot.clone() })
    }
}

impl StoreArgs {
    /// Whether anything but the recorder's own recording is asked for.
    fn is_given(&self) -> bool {
        self.store.is_some()
            || !self.file.is_empty()
            || self.snapshot.is_some()
            || self.boot.is_some()
    }
}

impl WindowArgs {
    /// Whether a window is asked for; else files that were saved of one open on theirs.
    fn is_given(&self) -> bool {
        self.last.is_some()
            || self.since.is_some()
            || self.until.is_some()
            || self.around.is_some()
            || self.all
    }
}

/// Whether the end of a window is a time of day that comes later today, the window having begun
/// today: not yesterday's.
pub(crate) fn is_ahead(until: &TimeArg, since: Option<&TimeArg>, now: &Zoned) -> bool {
    let (TimeArg::TimeOfDay(until), Some(since)) = (until, since) else { return false };
    let midnight = now.start_of_day().map_or(i128::MAX, |day| day.timestamp().as_nanosecond());
    let begins = match since.edge(now) {
        Ok(Edge::Ago(ago)) => now.timestamp().as_nanosecond() - i128::from(ago),
        Ok(Edge::Wall(wall)) => i128::from(wall),
        _ => return false,
    };
    begins >= midnight && *until > now.time()
}

/// A window's edges.
fn edges(args: &WindowArgs, now: &Zoned) -> Result<(Edge, Edge), PlanError> {
    let edge = |time: &Option<TimeArg>, option| match time {
        None => Ok(Edge::Open),
        Some(time) => time.edge(now).map_err(|reason| PlanError::Time { option, reason }),
    };
    if let Some(around) = &args.around {
        return around.edges(now).map_err(|reason| PlanError::Time { option: "around", reason });
    }
    let (since, mut until) = match (&args.since, &args.until, args.all) {
        (None, None, false) => {
            (Edge::Ago(args.last.map_or(DEFAULT_LAST_NS, crate::window::nanos)), Edge::Open)
        }
        _ => (edge(&args.since, "since")?, edge(&args.until, "until")?),
    };
    if args.until.as_ref().is_some_and(|until| is_ahead(until, args.since.as_ref(), now)) {
        until = Edge::Open;
    }
    let empty = match (since, until) {
        (Edge::Ago(since), Edge::Ago(until)) => since <= until,
        (Edge::Wall(since), Edge::Wall(until)) => since >= until,
        _ => false,
    };
    if empty { Err(PlanError::Empty) } else { Ok((since, until)) }
}

impl VmcorePlan {
    fn new(
        mut args: DumpArgs,
        history: HistoryPlan,
        state_dir: Option<PathBuf>,
        now: &Zoned,
    ) -> Result<Self, PlanError> {
        let VmcoreArgs { vmcore, in_flight, list_sessions, session } =
            std::mem::take(&mut args.vmcore);
        let show = match (in_flight, list_sessions) {
            (true, _) => VmcoreShow::InFlight,
            (_, true) => VmcoreShow::Sessions,
            _ => VmcoreShow::Events,
        };
        let store = args.store.store.clone();
        let dump = DumpPlan::new(args, history, now)?;
        let state_dir = state_dir.unwrap_or_else(|| STATE_DIR.into());
        Ok(Self { file: vmcore.unwrap_or_default(), session, store, state_dir, show, dump })
    }
}

impl SavePlan {
    fn new(args: SaveArgs, history: HistoryPlan, now: &Zoned) -> Result<Self, PlanError> {
        let (since, until) = edges(&args.window, now)?;
        Ok(Self {
            history,
            since,
            until,
            output: args.output,
            force: args.force,
            strict: args.strict,
        })
    }
}

impl FollowPlan {
    fn new(args: FollowArgs, origin: Origin) -> Result<Self, PlanError> {
        let FollowArgs { time, interval, filter, format, output, force, strict, color } = args;
        let fds = naming(&format, &filter);
        let FormatArgs { format, merge, .. } = format;
        Ok(Self {
            origin,
            time,
            interval,
            filter: FilterPlan::new(filter.into())?,
            format,
            merge,
            fds,
            output,
            force,
            strict,
            color,
        })
    }
}

/// Who asks for paths asks for those of descriptors too, wherever they were opened.
fn naming(format: &FormatArgs, filter: &FilterArgs) -> Naming {
    let usual = if filter.path.is_empty() { Naming::Near } else { Naming::All };
    format.fds.map_or(usual, Naming::from)
}

impl TopPlan {
    fn new(
        args: TopArgs,
        origin: Origin,
        state_dir: Option<PathBuf>,
        now: &Zoned,
    ) -> Result<Self, PlanError> {
        let TopArgs {
            interval,
            sort,
            filter,
            once,
            lines,
            files,
            window,
            mut store,
            vmcore,
            session,
            color,
        } = args;
        store.file.extend(files);
        let is_past = window.is_given() || store.is_given() || vmcore.is_some();
        let past = if is_past {
            let vouching = store
                .store
                .clone()
                .or_else(|| state_dir.clone())
                .unwrap_or_else(|| STATE_DIR.into());
            let history = HistoryPlan::new(&store, &window, origin.clone(), state_dir)?;
            let (since, until) = edges(&window, now)?;
            let store = store.store;
            Some(Box::new(PastPlan {
                history,
                since,
                until,
                vmcore,
                session,
                store,
                state_dir: vouching,
            }))
        } else {
            None
        };
        Ok(Self { origin, interval, sort, filter, once, lines, color, past })
    }
}

impl PsPlan {
    fn new(args: PsArgs, origin: Origin, state_dir: Option<PathBuf>) -> Result<Self, PlanError> {
        let PsArgs { all, state, pid, tid, comm, json, vmcore, session, color } = args;
        Names::new(&comm)?;
        let state_dir = state_dir.unwrap_or_else(|| STATE_DIR.into());
        Ok(Self {
            origin,
            all,
            states: state,
            pids: pid,
            tids: tid,
            comms: comm,
            vmcore,
            session,
            state_dir,
            json,
            color,
        })
    }
}

impl DumpPlan {
    fn new(args: DumpArgs, history: HistoryPlan, now: &Zoned) -> Result<Self, PlanError> {
        let (since, until) = edges(&args.window, now)?;
        Ok(Self {
            history,
            since,
            until,
            fds: naming(&args.format, &args.filter),
            filter: FilterPlan::new(args.filter.into())?,
            format: args.format.format,
            merge: args.format.merge,
            output: args.output,
            force: args.force,
            strict: args.strict,
            color: args.color,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn plan(args: &[&str]) -> Result<Plan, PlanError> {
        let cli = Cli::try_parse_from(["flightctl"].iter().chain(args)).unwrap();
        Plan::new(cli, &"2026-03-04T12:00:00Z[UTC]".parse().unwrap())
    }

    fn dump(args: &[&str]) -> DumpPlan {
        match plan(&[&["dump"], args].concat()) {
            Ok(Plan::Dump(plan)) => *plan,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ten_seconds_unless_told() {
        assert_eq!((dump(&[]).since, dump(&[]).until), (Edge::Ago(10_000_000_000), Edge::Open));
        assert_eq!(dump(&["--last", "250ms"]).since, Edge::Ago(250_000_000));
        assert_eq!((dump(&["--all"]).since, dump(&["--all"]).until), (Edge::Open, Edge::Open));
        let until = dump(&["--until", "-2s"]);
        assert_eq!((until.since, until.until), (Edge::Open, Edge::Ago(2_000_000_000)));
    }

    #[test]
    fn an_end_later_today_lies_ahead() {
        let window = dump(&["--since", "11:00", "--until", "13:00"]);
        assert!(matches!(window.since, Edge::Wall(_)) && window.until == Edge::Open, "{window:?}");
        assert_eq!(dump(&["--since=-5s", "--until=13:00"]).until, Edge::Open);
        assert!(matches!(dump(&["--since=-20h", "--until=23:00"]).until, Edge::Wall(_)));
        let yesterday = dump(&["--since", "22:00", "--until", "23:00"]);
        let hours = |edge| {
            if let Edge::Wall(wall) = edge { wall / 3_600_000_000_000 } else { panic!("{edge:?}") }
        };
        assert_eq!(hours(yesterday.until) - hours(yesterday.since), 1);
    }

    #[test]
    fn an_empty_window_is_refused() {
        for args in [["--since=-5s", "--until=-6s"], ["--since=10:00:00", "--until=09:00:00"]] {
            assert!(
                matches!(plan(&[&["dump"], &args[..]].concat()), Err(PlanError::Empty)),
                "{args:?}"
            );
        }
    }

    #[test]
    fn bpffs_dir_forces_the_pinned_rings() {
        let place = |origin, state_dir: Option<&str>| Place::Recorder {
            origin,
            state_dir: state_dir.map(Into::into),
        };
        let pinned = dump(&["--bpffs-dir", "/b"]).history.place;
        assert_eq!(pinned, place(Origin::Pinned { bpffs_dir: "/b".into() }, None));
        let daemon = dump(&["--runtime-dir", "/r", "--state-dir", "/s"]).history.place;
        let origin = Origin::Daemon { runtime_dir: "/r".into(), bpffs_dir: "/r/bpf".into() };
        assert_eq!(daemon, place(origin, Some("/s")));
    }

    #[test]
    fn files_are_read_where_they_are_named() {
        assert_eq!(dump(&["--store", "/d"]).history.place, Place::Store("/d".into()));
        let files = || vec!["/f".into(), "/g".into()];
        assert_eq!(dump(&["--file", "/f", "/g"]).history.place, Place::OwnWindows(files()));
        for window in ["--all", "--last=1s", "--since=-1s"] {
            assert_eq!(
                dump(&["/g", "--file=/f", window]).history.place,
                Place::Files(files()),
                "{window}"
            );
        }
        let both = plan(&["--bpffs-dir", "/b", "dump", "--store", "/d"]);
        assert!(matches!(both, Err(PlanError::TwoPlaces)));
        assert!(matches!(plan(&["dump", "--list-boots"]), Ok(Plan::ListBoots(_))));
    }

    #[test]
    fn lists_and_checks_are_of_the_state_directory_unless_told() {
        let files = |paths: &[&str], state_dir: Option<&str>| FilesPlan {
            paths: paths.iter().map(PathBuf::from).collect(),
            runtime_dir: "/run/flightrec".into(),
            state_dir: state_dir.map(Into::into),
        };
        let ls = |args: &[&str]| plan(&[args, &["ls"]].concat()).unwrap();
        assert_eq!(ls(&[]), Plan::Ls { files: files(&[], None), json: false });
        assert_eq!(
            ls(&["--state-dir", "/s"]),
            Plan::Ls { files: files(&[], Some("/s")), json: false }
        );
        assert_eq!(plan(&["verify", "/f"]).unwrap(), Plan::Verify(files(&["/f"], None)));
    }

    #[test]
    fn marks_are_bounded() {
        assert!(matches!(plan(&["mark", &"x".repeat(256)]), Err(PlanError::MarkLength(256))));
        assert!(matches!(plan(&["mark", ""]), Err(PlanError::MarkEmpty)));
        assert!(matches!(plan(&["mark", "lunch"]), Ok(Plan::Mark { .. })));
    }

    #[test]
    fn wrong_event_names_are_told_with_the_right_ones() {
        let e = plan(&["dump", "--event", "swich"]).unwrap_err().to_string();
        assert!(e.contains("swich") && e.contains("switch"), "{e}");
    }
}
