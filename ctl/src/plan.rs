//! What the arguments mean: everything decided, nothing done yet.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Zoned;
use thiserror::Error;

use crate::args::{Cli, ColorArg, Command, DumpArgs, FilterArgs, FollowArgs, FormatArg, FormatArgs, PsArgs, TopArgs};
use crate::fds::Naming;
use crate::filter::{FilterError, FilterPlan};
use crate::ps::State;
use crate::top::Column;
use crate::window::{Edge, TimeArg};

use flightrec_format::control::MARK_MAX;

/// Length of the window when none is given.
const DEFAULT_LAST_NS: u64 = 10_000_000_000;

/// What to do.
#[derive(Debug, PartialEq)]
pub enum Plan {
    /// Print events.
    Dump(Box<DumpPlan>),
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
    /// Show the state.
    Status {
        /// Where from.
        origin: Origin,
        /// As JSON.
        json: bool,
    },
    /// Print metrics.
    Metrics(Origin),
}

/// Where the recording is read from.
#[derive(Debug, Clone, PartialEq)]
pub enum Origin {
    /// The daemon; where it does not run and the command can do without, the pinned rings.
    Daemon {
        /// Directory of the control socket.
        runtime_dir: PathBuf,
        /// Directory of the pinned rings.
        bpffs_dir: PathBuf,
    },
    /// The pinned rings, as asked for.
    Pinned {
        /// Their directory.
        bpffs_dir: PathBuf,
    },
}

/// A dump.
#[derive(Debug, PartialEq)]
pub struct DumpPlan {
    /// Where from.
    pub origin: Origin,
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
    /// Whether a loss is a failure.
    pub strict: bool,
    /// Colour.
    pub color: ColorArg,
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
    /// One table as text, with at most so many threads; `None`: the screen.
    pub once: Option<usize>,
}

/// The blocked threads.
#[derive(Debug, PartialEq)]
pub struct PsPlan {
    /// Where from.
    pub origin: Origin,
    /// Also those that wait for work.
    pub all: bool,
    /// In these states; none: in any.
    pub states: Vec<State>,
    /// Of these processes; none: of any.
    pub pids: Vec<u32>,
    /// These; none: any.
    pub tids: Vec<u32>,
    /// With these names; none: with any.
    pub comms: Vec<String>,
    /// As JSON.
    pub json: bool,
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
    /// A mark that the daemon would refuse.
    #[error("the mark has {0} bytes; at most {MARK_MAX} fit")]
    MarkLength(usize),
    /// A mark with nothing in it.
    #[error("the mark is empty")]
    MarkEmpty,
    /// A name in a filter.
    #[error(transparent)]
    Filter(#[from] FilterError),
}

impl Plan {
    /// Makes sense of the arguments, `now` being the present time in the user's time zone.
    pub fn new(cli: Cli, now: &Zoned) -> Result<Self, PlanError> {
        let origin = match cli.bpffs_dir {
            Some(bpffs_dir) => Origin::Pinned { bpffs_dir },
            None => Origin::Daemon { bpffs_dir: cli.runtime_dir.join("bpf"), runtime_dir: cli.runtime_dir.clone() },
        };
        match cli.command {
            Command::Dump(args) => DumpPlan::new(*args, origin, now).map(|plan| Self::Dump(Box::new(plan))),
            Command::Follow(args) => Ok(Self::Follow(Box::new(FollowPlan::new(*args, origin)?))),
            Command::Top(args) => Ok(Self::Top(TopPlan::new(args, origin))),
            Command::Ps(args) => Ok(Self::Ps(PsPlan::new(args, origin))),
            Command::Mark { text } if text.is_empty() => Err(PlanError::MarkEmpty),
            Command::Mark { text } if text.len() > MARK_MAX => Err(PlanError::MarkLength(text.len())),
            Command::Mark { text } => Ok(Self::Mark { runtime_dir: cli.runtime_dir, text }),
            Command::Status { json } => Ok(Self::Status { origin, json }),
            Command::Metrics => Ok(Self::Metrics(origin)),
        }
    }
}

impl FollowPlan {
    fn new(args: FollowArgs, origin: Origin) -> Result<Self, PlanError> {
        let FollowArgs { time, interval, filter, format, output, strict, color } = args;
        let fds = naming(&format, &filter);
        let FormatArgs { format, merge, .. } = format;
        Ok(Self { origin, time, interval, filter: FilterPlan::new(filter)?, format, merge, fds, output, strict, color })
    }
}

/// Who asks for paths asks for those of descriptors too, wherever they were opened.
fn naming(format: &FormatArgs, filter: &FilterArgs) -> Naming {
    format.fds.unwrap_or(if filter.path.is_empty() { Naming::Near } else { Naming::All })
}

impl TopPlan {
    fn new(args: TopArgs, origin: Origin) -> Self {
        let TopArgs { interval, sort, filter, once, lines } = args;
        Self { origin, interval, sort, filter, once: once.then_some(lines) }
    }
}

impl PsPlan {
    fn new(args: PsArgs, origin: Origin) -> Self {
        let PsArgs { all, state, pid, tid, comm, json } = args;
        Self { origin, all, states: state, pids: pid, tids: tid, comms: comm, json }
    }
}

impl DumpPlan {
    fn new(args: DumpArgs, origin: Origin, now: &Zoned) -> Result<Self, PlanError> {
        let edge = |time: &Option<TimeArg>, option| match time {
            None => Ok(Edge::Open),
            Some(time) => time.edge(now).map_err(|reason| PlanError::Time { option, reason }),
        };
        let (since, until) = match (&args.since, &args.until, args.all) {
            (None, None, false) => (Edge::Ago(args.last.map_or(DEFAULT_LAST_NS, crate::window::nanos)), Edge::Open),
            _ => (edge(&args.since, "since")?, edge(&args.until, "until")?),
        };
        let empty = match (since, until) {
            (Edge::Ago(since), Edge::Ago(until)) => since <= until,
            (Edge::Wall(since), Edge::Wall(until)) => since >= until,
            _ => false,
        };
        if empty {
            return Err(PlanError::Empty);
        }
        Ok(Self {
            origin,
            since,
            until,
            fds: naming(&args.format, &args.filter),
            filter: FilterPlan::new(args.filter)?,
            format: args.format.format,
            merge: args.format.merge,
            output: args.output,
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
    fn an_empty_window_is_refused() {
        for args in [["--since=-5s", "--until=-6s"], ["--since=10:00:00", "--until=09:00:00"]] {
            assert!(matches!(plan(&[&["dump"], &args[..]].concat()), Err(PlanError::Empty)), "{args:?}");
        }
    }

    #[test]
    fn bpffs_dir_forces_the_pinned_rings() {
        assert_eq!(dump(&["--bpffs-dir", "/b"]).origin, Origin::Pinned { bpffs_dir: "/b".into() });
        let from = dump(&["--runtime-dir", "/r"]).origin;
        assert_eq!(from, Origin::Daemon { runtime_dir: "/r".into(), bpffs_dir: "/r/bpf".into() });
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
