//! What every thread was in the middle of when the machine died: those that ran, those that waited
//! for a CPU, and those that were blocked.
//!
//! Blocked threads come from the thread table, as for [`blocked`](blocked()), whose lines these
//! are. What the others were in, and the strings of all calls, come from the rings.

pub mod blocked;
pub(crate) mod document;
mod lines;
pub(crate) mod requests;
pub mod without_place;

use std::collections::{HashMap, HashSet};

use flightrec_analysis::TaskState;
use flightrec_cli::note;
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::switch;
use flightrec_format::abi::slot::TaskSlot;
use flightrec_format::decode::{Body, Call};
use flightrec_format::human::counted;
use flightrec_reader::fds::{Fds, Kept};
use flightrec_reader::source::PageSet;

use self::blocked::{Blocked, Wanted, blocked};
pub(crate) use self::lines::HEAD;

/// What a thread was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// It ran on this CPU.
    Running(u16),
    /// It was ready to run, and waited for a CPU.
    Ready,
    /// It was blocked.
    Blocked,
}

/// A thread at the moment of death.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlight {
    /// What it was doing.
    pub doing: Doing,
    /// Who, in which call, for how long: in its call or, outside of one, since it ran or became
    /// ready. Of a blocked thread, since it blocked.
    pub thread: Blocked,
    /// Whether the beginning of that time is known.
    pub is_timed: bool,
}

/// What the rings know of a thread.
#[derive(Debug, Default, Clone)]
struct KnownThread {
    /// When it entered its last call, and the call; until it returns.
    entered: Option<(u64, Call)>,
    /// When it last got a CPU, or became ready for one.
    since: Option<u64>,
    is_ready: bool,
}

/// The threads at `now`, the moment of death: those that ran first, then those that waited for a
/// CPU, then the blocked ones as [`blocked`](blocked()) sorts and chooses them.
pub fn at_death(recording: &PageSet, wanted: &Wanted, now: u64) -> Vec<InFlight> {
    let running = running(recording);
    let mut known = known(recording);
    let slots: HashMap<u32, &TaskSlot> =
        recording.slots.iter().map(|slot| (slot.tid, slot)).collect();
    let mut threads = Vec::new();
    for (cpu, tid) in &running {
        let slot = slots.get(tid).map_or_else(|| nameless(*tid), |slot| **slot);
        threads.push(awake(Doing::Running(*cpu), slot, known.remove(tid).unwrap_or_default(), now));
    }
    let is_running = |tid| running.iter().any(|(_, runs)| *runs == tid);
    let blocked: Vec<Blocked> = blocked(recording, wanted, now)
        .into_iter()
        .filter(|thread| !is_running(thread.slot.tid))
        .collect();
    let is_blocked = |slot: &TaskSlot| slot.flags & flightrec_format::abi::slot::BLOCKED != 0;
    let mut ready: Vec<InFlight> = slots
        .values()
        .filter(|slot| !is_blocked(slot) && !is_running(slot.tid))
        .filter_map(|slot| {
            let known = known.remove(&slot.tid).filter(|known| known.is_ready)?;
            Some(awake(Doing::Ready, **slot, known, now))
        })
        .collect();
    ready.sort_by_key(|ready| (std::cmp::Reverse(ready.thread.time), ready.thread.slot.tid));
    threads.append(&mut ready);
    threads.extend(blocked.into_iter().map(|mut thread| {
        let entered = known.remove(&thread.slot.tid).and_then(|known| known.entered);
        with_strings(&mut thread, entered);
        let is_timed = !thread.is_since_before();
        InFlight { doing: Doing::Blocked, thread, is_timed }
    }));
    let fds = Fds::at_end(recording);
    for in_flight in &mut threads {
        in_flight.thread.name_descriptors(&fds);
    }
    threads
}

/// Threads that the rings show alive, and that the table has no place for; it must be known that it
/// lacked some.
pub fn without_place(recording: &PageSet) -> Vec<u32> {
    let mut ended = HashSet::new();
    for stream in recording.streams.iter().filter(|stream| stream.lane() == Lane::Task) {
        ended.extend(
            stream.events().filter_map(|event| {
                matches!(event.body, Body::TaskExit { .. }).then_some(event.tid)
            }),
        );
    }
    let table: HashSet<u32> = recording.slots.iter().map(|slot| slot.tid).collect();
    let known = known(recording).into_keys();
    let mut missing: Vec<u32> =
        known.filter(|tid| *tid != 0 && !table.contains(tid) && !ended.contains(tid)).collect();
    missing.sort_unstable();
    missing
}

/// A thread that was not blocked.
fn awake(doing: Doing, slot: TaskSlot, known: KnownThread, now: u64) -> InFlight {
    let since = known.entered.as_ref().map(|(time, _)| *time).or(known.since);
    let call = known.entered.map(|(_, call)| call);
    let time = since.map_or(0, |since| now.saturating_sub(since));
    // What the table has of its state is left over from when it last blocked.
    let slot = TaskSlot { state: 0, ..slot };
    InFlight {
        doing,
        thread: Blocked { slot, time, state: TaskState::Other, call, names: Kept::default() },
        is_timed: since.is_some(),
    }
}

/// A thread that the table has no room for.
fn nameless(tid: u32) -> TaskSlot {
    TaskSlot {
        seq: 0,
        tid,
        tgid: 0,
        flags: 0,
        start_time: 0,
        cgroup: 0,
        comm: *b"?\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        since: 0,
        state: 0,
        nr: 0,
        args: [0; 6],
        ppid: 0,
        prio: 0,
        abi: 0,
        known: 0,
    }
}

/// The table has a call's registers; where the rings still have its entry, they have its strings
/// too.
fn with_strings(thread: &mut Blocked, entered: Option<(u64, Call)>) {
    let (Some(call), Some((_, entry))) = (&mut thread.call, entered) else { return };
    let args =
        |call: &Call| call.args.iter().take(usize::from(call.nargs)).copied().collect::<Vec<_>>();
    if (call.nr, call.abi) == (entry.nr, entry.abi) && args(call) == args(&entry) {
        call.strings = entry.strings;
    }
}

/// The thread that ran on each CPU, by CPU; idle ones have none.
fn running(recording: &PageSet) -> Vec<(u16, u32)> {
    let sched = recording.streams.iter().filter(|stream| stream.lane() == Lane::Sched);
    let of_cpu = |stream: &flightrec_format::ring::LaneStream| {
        let newest = stream.pages().iter().rev().find_map(|page| page.events().last())?;
        let tid = if let Body::Switch { next, .. } = newest.body { next } else { newest.tid };
        Some((stream.cpu(), tid))
    };
    let mut running: Vec<(u16, u32)> =
        sched.filter_map(of_cpu).filter(|(_, tid)| *tid != 0).collect();
    running.sort_unstable();
    running
}

/// What the rings know of each thread, as of their end.
fn known(recording: &PageSet) -> HashMap<u32, KnownThread> {
    let mut known: HashMap<u32, KnownThread> = HashMap::new();
    // A thread moves from CPU to CPU: all rings by time.
    let mut events: Vec<_> = Vec::new();
    for stream in &recording.streams {
        let wanted = |event: &flightrec_format::decode::Event| {
            matches!(
                event.body,
                Body::Enter(_) | Body::Exit { .. } | Body::Switch { .. } | Body::Waking { .. }
            )
        };
        let mut last: HashMap<(u32, u8), (u64, Change)> = HashMap::new();
        for event in stream.events().filter(wanted) {
            for (tid, kind, change) in changes(event.tid, event.body) {
                last.insert((tid, kind), (event.time, change));
            }
        }
        events.extend(last.into_iter().map(|((tid, _), (time, change))| (time, tid, change)));
    }
    events.sort_by_key(|(time, tid, _)| (*time, *tid));
    for (time, tid, change) in events {
        let thread = known.entry(tid).or_default();
        match change {
            Change::Entered(call) => thread.entered = Some((time, *call)),
            Change::Returned => thread.entered = None,
            Change::Ready => (thread.since, thread.is_ready) = (Some(time), true),
            Change::Runs => (thread.since, thread.is_ready) = (Some(time), false),
            Change::Stops => thread.is_ready = false,
        }
    }
    known
}

/// What an event changes for a thread.
enum Change {
    Entered(Box<Call>),
    Returned,
    Ready,
    Runs,
    Stops,
}

/// The threads that an event changes; of each ring the last change of either kind, its call or its
/// place, counts.
fn changes(tid: u32, body: Body) -> Vec<(u32, u8, Change)> {
    const CALL: u8 = 0;
    const PLACE: u8 = 1;
    match body {
        Body::Enter(call) => vec![(tid, CALL, Change::Entered(Box::new(call)))],
        Body::Exit { .. } => vec![(tid, CALL, Change::Returned)],
        Body::Switch { prev_state, preempted, next, .. } => {
            let left =
                if switch::sleeps(prev_state, preempted) { Change::Stops } else { Change::Ready };
            vec![(tid, PLACE, left), (next, PLACE, Change::Runs)]
        }
        Body::Waking { wakee, .. } => vec![(wakee, PLACE, Change::Ready)],
        _ => Vec::new(),
    }
}

/// What it means that the dump lacks the table of threads.
pub(crate) const WITHOUT_TABLE: &str =
    "the recording's thread table is not in the dump: blocked threads are unknown";

/// Says which threads are not in the table, as far as that is known.
pub(crate) fn tell_missing(recording: &PageSet, missing: Option<&[u32]>) {
    if let Some(of) = recording.meta.unseen_threads() {
        note(&format!("threads of other PID namespaces may be missing: {}", of.why));
    }
    let lost = recording.misplaced();
    if let Some(said) = without_place::said(missing.unwrap_or_default()) {
        note(&said);
    } else if lost != 0 && missing.is_none() {
        let times = counted(lost, "time");
        note(&format!(
            "the thread table had no room {times}: threads may be missing; raise threads.slots in \
             flightd.toml"
        ));
    }
}
