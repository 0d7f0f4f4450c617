//! `flightctl ps`: the threads that are blocked.

use std::path::PathBuf;

use flightrec_reader::fds::Fds;
use flightrec_reader::source::{self, Origin, PageSet, Source, Stacks};
use flightrec_reader::window::{Window, with_leads};

use super::prelude::*;
use crate::announce::announce;
use crate::filter::{Names, comm};
use crate::in_flight::blocked::{Wanted, blocked};
use crate::in_flight::document::{Document, HEAD};
use crate::in_flight::{WITHOUT_TABLE, tell_missing, without_place};
use crate::options::color::{ColorArg, ColorArgs};
use crate::options::kernel_dump::KernelDump;
use crate::output::Output;
use crate::schema::document;
use crate::text::{Options, Renderer};
use crate::value::{id, session};
use flightrec_analysis::TaskState;
use flightrec_cli::note;

/// Arguments of `ps`.
#[derive(Debug, clap::Args)]
pub struct PsArgs {
    /// Include kernel threads that wait for work.
    #[arg(short, long)]
    all: bool,
    /// Show only threads in these states, by the letters of ps(1): D uninterruptible, S sleeping, T
    /// stopped, t traced, I idle, P parked, X dead, ? other.
    #[arg(short, long, value_name = "STATE", value_delimiter = ',')]
    state: Vec<TaskState>,
    /// Show only threads of these processes.
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = id)]
    pid: Vec<u32>,
    /// Show only these threads.
    #[arg(long, value_name = "TID", value_delimiter = ',', value_parser = id)]
    tid: Vec<u32>,
    /// Show only threads with these names. A pattern such as `kworker/*` must match the whole name.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = comm)]
    comm: Vec<String>,
    /// Show the kernel functions in which each thread waits, from the innermost one out.
    #[arg(long, conflicts_with = "vmcore")]
    stack: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// List the threads that were blocked at a panic, from its kernel dump.
    #[arg(long, value_name = "FILE", conflicts_with = "bpffs_dir")]
    vmcore: Option<PathBuf>,
    /// Read this recording in the dump, by its id [default: the one that the files in the state
    /// directory identify, else the newest].
    #[arg(long, value_name = "ID", requires = "vmcore", value_parser = session)]
    session: Option<u64>,
    /// Colour.
    #[command(flatten)]
    color: ColorArgs,
}

/// Blocked threads, to list.
#[derive(Debug, PartialEq)]
pub struct PsPlan {
    /// Where from.
    origin: Origin,
    /// Out of this kernel dump, instead of `origin`.
    dump: Option<KernelDump>,
    wanted: Wanted,
    stack: bool,
    json: bool,
    color: ColorArg,
}

impl Arguments for PsArgs {
    const HELP: Help = Help {
        about: "List the threads that are blocked now, longest first: for how long, in which call",
        examples: &[
            ("flightctl ps", "blocked threads, longest first, with their calls"),
            ("flightctl ps --state D", "uninterruptible threads; exit status 1 if there are none"),
            ("flightctl ps --stack --comm mysqld", "where in the kernel these threads wait"),
            (
                "flightctl ps --json | jq -r '.threads[0].call.text'",
                "the call that is blocked the longest",
            ),
            ("flightctl ps --vmcore vmcore --state D", "uninterruptible threads at a panic"),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error],
    };
    type Plan = PsPlan;

    fn plan(self, recorder: RecorderArgs, _: &Zoned) -> Result<PsPlan> {
        let Self { all, state, pid, tid, comm, stack, json, vmcore, session, color } = self;
        Names::new(&comm)?;
        Ok(PsPlan {
            origin: recorder.origin(),
            dump: vmcore.map(|file| recorder.kernel_dump(file, session, None)),
            wanted: Wanted { all, states: state, pids: pid, tids: tid, comms: comm },
            stack,
            json,
            color: color.color,
        })
    }
}

impl Plan for PsPlan {
    fn run(&self) -> Result<Exit> {
        let Some(dump) = &self.dump else {
            let mut source = source::open_live(&self.origin)?;
            let now = source.clock().now;
            // The table of threads comes with any window.
            let mut recording = source.read(Window { from: now, until: now })?;
            let mut missing = None;
            if recording.misplaced() != 0
                && let Some(before) = without_place::alive()
            {
                recording = source.read(Window { from: now, until: now })?;
                missing = without_place::alive()
                    .map(|after| without_place::missing(&before, &recording.slots, &after));
            }
            let stacks = self.stack.then(|| source.stacks()).transpose()?;
            return show(self, &recording, now, stacks.as_ref(), missing.as_deref());
        };
        let mut source = dump.open()?;
        announce(&source, &crate::zone::system());
        let now = source.clock().now;
        // What descriptors stand for is known from the events before.
        let recording =
            source.read(with_leads(Window { from: now.saturating_sub(NAMING_NS), until: now }))?;
        if recording.slots.is_empty() {
            note(WITHOUT_TABLE);
        }
        let missing = (recording.misplaced() != 0).then(|| without_place(&recording));
        show(self, &recording, now, None, missing.as_deref())
    }
}

/// How far back opened descriptors are looked for in a dump, ns.
const NAMING_NS: u64 = 10_000_000_000;

/// The threads that are blocked at `now`, with their stacks if these are wanted; `missing`: those
/// that are not in the table, where that is known.
fn show(
    plan: &PsPlan,
    recording: &PageSet,
    now: u64,
    stacks: Option<&Stacks>,
    missing: Option<&[u32]>,
) -> Result<Exit> {
    // The counters were read last; a thread may have blocked since `now`.
    let now = now.max(recording.totals.now);
    let mut threads = blocked(recording, &plan.wanted, now);
    let fds = Fds::at_end(recording);
    for thread in &mut threads {
        thread.name_descriptors(&fds);
    }
    let mut output = Output::standard();
    let colour = output.colours(plan.color, std::env::var_os("NO_COLOR").as_deref());
    let renderer = Renderer::new(&recording.meta, Options { colour, ..Options::default() });
    let mut text = Vec::new();
    if plan.json {
        let threads = threads.iter().map(|thread| thread.json(&renderer, stacks)).collect();
        let without_place = missing.unwrap_or_default();
        text.extend(document(Document::new(now, threads, recording, without_place))?.bytes());
    } else if !threads.is_empty() {
        text.extend_from_slice(HEAD.as_bytes());
        for thread in &threads {
            thread.line(&renderer, &mut text);
            if let Some(stacks) = stacks {
                thread.stack_line(stacks, &mut text);
            }
        }
    }
    output.print(&text)?;
    tell_missing(recording, missing);
    Ok(if threads.is_empty() { Exit::Nothing } else { Exit::Fine })
}
