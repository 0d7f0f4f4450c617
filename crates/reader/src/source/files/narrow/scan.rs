//! What the events of some threads are, in short.

use flightrec_format::abi::record::{Abi, NR_INVALID, StringStatus};
use flightrec_format::decode::{Body, Call, Event, Half, Page};
use flightrec_format::meta::{Meta, is_descriptor, is_directory};
use rustc_hash::{FxHashMap, FxHashSet};

use super::map::{Last, Moment};
use crate::names::Calls;

/// An event of a thread, in short.
#[derive(Debug, Clone, Copy)]
pub(super) struct Brief {
    pub(super) tid: u32,
    pub(super) time: u64,
    pub(super) what: What,
}

/// What happened.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    /// A call begins. `descriptors`: it is given some; `partial`: its end may tell more of it.
    Enter { abi: Abi, nr: u16, descriptors: bool, partial: bool },
    /// A call ends.
    Exit { abi: Abi, nr: u16, ret: i64, entered: Option<u64>, descriptors: bool },
    /// The thread stops running, and another one starts.
    Switch { next: u32, io_wait: bool },
}

/// Which arguments of calls are descriptors.
pub(super) struct Arguments {
    native: Vec<u8>,
    compat: Vec<u8>,
}

impl Arguments {
    pub(super) fn new(meta: &Meta) -> Self {
        let calls = Calls::new(meta);
        let table = |abi| {
            let bits = |call: &Option<crate::names::Call<'_>>| {
                let Some(call) = call else { return u8::MAX };
                let Some(arguments) = call.arguments else { return u8::MAX };
                let is = |argument| {
                    is_descriptor(call.name, argument) || is_directory(call.name, &argument.name)
                };
                let all = arguments.iter().take(6).enumerate();
                all.fold(0, |bits, (i, argument)| bits | u8::from(is(argument)) << i)
            };
            calls.table(abi).iter().map(bits).collect()
        };
        Self { native: table(Abi::Native), compat: table(Abi::Compat) }
    }

    /// Whether a call is given a descriptor.
    fn has_descriptors(&self, call: &Call) -> bool {
        self.descriptors(call) != 0
    }

    /// How many descriptors a call is given. (`AT_FDCWD` and its kin are none.)
    pub(super) fn descriptors(&self, call: &Call) -> usize {
        let table = if call.abi == Abi::Compat { &self.compat } else { &self.native };
        let bits = table.get(usize::from(call.nr)).copied().unwrap_or(u8::MAX);
        let given = call.args.iter().take(usize::from(call.nargs)).enumerate();
        given.filter(|(i, value)| bits >> i & 1 != 0 && !(**value as i32).is_negative()).count()
    }
}

/// The calls of some threads in these pages, by thread and time.
pub(super) fn calls(
    pages: &[&Page],
    arguments: &Arguments,
    threads: &FxHashSet<u32>,
) -> Vec<Brief> {
    let mut found = Vec::new();
    let mut own: Vec<u32> = threads.iter().copied().collect();
    own.sort_unstable();
    each_of(pages, Some(&own), |event| {
        let what = match &event.body {
            Body::Enter(call) => What::Enter {
                abi: call.abi,
                nr: call.nr,
                descriptors: arguments.has_descriptors(call),
                partial: call.strings.iter().any(|text| {
                    matches!(text.status, StringStatus::Unreadable | StringStatus::Cut)
                }),
            },
            Body::Exit { call, ret, entered } => What::Exit {
                abi: call.abi,
                nr: call.nr,
                ret: *ret,
                entered: *entered,
                descriptors: arguments.has_descriptors(call),
            },
            _ => return,
        };
        found.push(Brief { tid: event.tid, time: event.time, what });
    });
    // Of one moment in the order in which they are recorded.
    found.sort_by_key(|brief| (brief.tid, brief.time));
    found
}

/// The switches of some threads in these pages, by thread and time.
pub(super) fn switches(pages: &[&Page], threads: &FxHashSet<u32>) -> Vec<Brief> {
    let mut found = Vec::new();
    each(pages, |event| {
        if let Body::Switch { next, io_wait, .. } = event.body
            && threads.contains(&event.tid)
        {
            let what = What::Switch { next, io_wait };
            found.push(Brief { tid: event.tid, time: event.time, what });
        }
    });
    found.sort_by_key(|brief| (brief.tid, brief.time));
    found
}

/// The threads of these moments.
pub(super) fn threads(moments: &[Moment]) -> FxHashSet<u32> {
    moments.iter().map(|(tid, _)| *tid).collect()
}

/// Of what these threads did, by thread and time: the last before each of these moments.
pub(super) fn last(briefs: &[Brief], moments: &[Moment]) -> Vec<Option<Last<Brief>>> {
    let last = |(tid, time): &Moment| {
        let before = briefs.partition_point(|brief| (brief.tid, brief.time) < (*tid, *time));
        let brief = before.checked_sub(1).and_then(|at| briefs.get(at))?;
        (brief.tid == *tid).then_some((brief.time, *brief))
    };
    moments.iter().map(last).collect()
}

/// The last that a thread did of system calls in these pages before each of these moments, and
/// whether a call began then. Of one moment, the last that was recorded counts.
pub(super) fn begins(pages: &[&Page], moments: &[Moment]) -> Vec<Option<Last<bool>>> {
    let mut of_threads: FxHashMap<u32, Vec<Last<bool>>> =
        moments.iter().map(|(tid, _)| (*tid, Vec::new())).collect();
    for brief in pages.iter().flat_map(|page| page.brief_calls()) {
        let Some(of_thread) = of_threads.get_mut(&brief.tid) else { continue };
        match brief.half {
            Half::Enter => of_thread.push((brief.time, true)),
            Half::Exit { .. } => of_thread.push((brief.time, false)),
            Half::Whole { exited, .. } => of_thread.extend([(brief.time, true), (exited, false)]),
        }
    }
    // Of one CPU they are in order.
    for of_thread in of_threads.values_mut() {
        of_thread.sort_by_key(|(time, _)| *time);
    }
    let last = |(tid, time): &Moment| {
        let of_thread = of_threads.get(tid)?;
        let before = of_thread.partition_point(|(at, _)| at < time);
        of_thread.get(before.checked_sub(1)?).copied()
    };
    moments.iter().map(last).collect()
}

/// Goes through the events of pages.
pub(super) fn each(pages: &[&Page], take: impl FnMut(&Event)) {
    each_of(pages, None, take);
}

/// The same without system calls of other threads than these, which are in order.
fn each_of(pages: &[&Page], threads: Option<&[u32]>, mut take: impl FnMut(&Event)) {
    let mut event = Event::default();
    for page in pages {
        let mut events = page.events().only(threads);
        while events.read(&mut event) {
            take(&event);
        }
    }
}

/// Whether a call's end may stand under another number than its beginning.
pub(super) fn is_renumbered(nr: u16) -> bool {
    nr == NR_INVALID
}
