//! When system calls may be missing, as far as pages and counters tell.

use flightrec_format::abi::page::Lane;
use flightrec_format::ring::{Gap, LaneStream, Reason};
use flightrec_format::totals::lane_of;

use super::{coverages, detached};
use crate::holes::Holes;
use crate::source::PageSet;
use crate::window::Window;

/// Those of a recording of which the events of `read` are read.
pub fn holes(recording: &PageSet, read: Window) -> Holes {
    let syscalls = |stream: &LaneStream| stream.lane() == Lane::Syscall;
    let all = coverages(recording, Window::ALL, u64::MAX, syscalls);
    let pages = all.iter().filter_map(|of_cpu| Some(of_cpu.complete?.0));
    // Pages that end before the events that are read are not.
    let calls = recording.streams.iter().filter(|stream| syscalls(stream));
    let read_from =
        calls.filter_map(|stream| Some(stream.last_before(read.from)?.saturating_add(1)));
    let whole = pages.chain(read_from).max().unwrap_or(0);
    let mut holes = Holes::new(read.from.max(recording.meta.started)).with_whole(whole);
    let within = |(from, until): (u64, u64)| (from.max(read.from), until.min(read.until));
    if let Some(sure) = &recording.sure {
        holes.extend(sure.holes().map(within));
        return untold(holes, recording, read);
    }
    for of_cpu in all {
        let (from, until) = of_cpu.complete.unwrap_or((u64::MAX, u64::MAX));
        let missing = of_cpu.gaps.iter().filter(|gap| gap.reason != Reason::LeftOut);
        let gaps = missing.map(|gap| (gap.from, gap.until));
        holes.extend(gaps.chain([(0, from), (until, u64::MAX)]).map(within));
        // Events before a ring's first page are no loss: `whole` is the moment of that page.
        let is_within = |gap: &&Gap| of_cpu.complete.is_none_or(|(begins, _)| gap.until > begins);
        let losses = of_cpu.gaps.iter().filter(|gap| gap.splits_pairs()).filter(is_within);
        holes.lose(of_cpu.cpu, losses.map(|gap| (gap.from, gap.until)).map(within));
    }
    if recording.meta.lanes.is_off(Lane::Sched) {
        holes = holes.without_switches();
    } else if holes.has_losses() {
        let switches = |stream: &LaneStream| stream.lane() == Lane::Sched;
        for of_cpu in coverages(recording, Window::ALL, u64::MAX, switches) {
            let begins = of_cpu.complete.map_or(u64::MAX, |(from, _)| from);
            let gaps = of_cpu.gaps.iter().map(|gap| (gap.from, gap.until));
            holes.unschedule(gaps.chain([(0, begins)]));
        }
    }
    untold(holes, recording, read)
}

/// Whether the switches and wakeups of all CPUs are there from a moment on, but for gaps after it.
pub fn has_switches_from(recording: &PageSet, from: u64) -> bool {
    let switches = |stream: &LaneStream| stream.lane() == Lane::Sched;
    let all = coverages(recording, Window::ALL, u64::MAX, switches);
    all.iter().all(|of_cpu| of_cpu.complete.is_some_and(|(begins, _)| begins <= from))
}

/// With those of which no page tells.
fn untold(mut holes: Holes, recording: &PageSet, read: Window) -> Holes {
    if is_uncounted(recording) || detached::has_untold(recording, read) {
        holes.extend([(read.from, read.until)]);
    }
    holes
}

/// Whether calls may be missing of which no page tells: on a CPU without a ring, or where the
/// kernel skipped the programs.
fn is_uncounted(recording: &PageSet) -> bool {
    let totals = &recording.totals;
    let has_no_ring =
        |no_ring: &[u64]| no_ring.get(Lane::Syscall as usize).is_some_and(|n| *n != 0);
    let skipped = |(name, n): &(String, u64)| {
        let before = recording.before.iter().flat_map(|before| &before.misses);
        let n_before = before.filter(|(other, _)| other == name).map(|(_, n)| *n).max();
        lane_of(name) == Some(Lane::Syscall) && n_before.unwrap_or(0) != *n
    };
    totals.cpus.iter().any(|cpu| has_no_ring(&cpu.no_ring)) || totals.misses.iter().any(skipped)
}
