//! From when on what the snapshots say is known: a list of names, each with the moment at which it
//! begins to hold.
//!
//! A name is never a guess. A snapshot's descriptor is named from its last recorded change on, and
//! only as far back as no event is missing; from there on it is followed like any other. What
//! changed while the snapshot was taken, or in a process that may change descriptors without a call
//! (io_uring), is left out.

use std::sync::Arc;

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::Lane;
use flightrec_format::descriptors::{Object, Snapshot, Table};
use flightrec_format::part;
use flightrec_format::ring::{LaneStream, Reason, Scope};
use rustc_hash::{FxHashMap, FxHashSet};

use super::object::{Shown, shown};
use super::role::Roles;
use super::watch::{Changes, UNSURE};
use crate::counters;
use crate::source::PageSet;
use crate::source::detached;
use crate::window::Window;

/// Most that is told of all snapshots together.
const NEWS_MAX: usize = 1 << 20;
/// The kernel's name for what is an io_uring.
const RING: &[u8] = b"anon_inode:[io_uring]";

/// Something that begins to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum News {
    /// Events are missing: nothing is known any more.
    Forget,
    /// All that was open is known again, as it was when the snapshot's taking began or after that.
    Known { begin: u64 },
    /// A process's descriptor stands for this.
    Name { process: u32, fd: i32, name: Arc<[u8]>, cloexec: bool },
    /// These share their descriptors.
    Share { first: u32, other: u32 },
    /// All threads of a process have the same descriptors.
    United { process: u32 },
    /// They have not.
    Divided { process: u32 },
}

/// What begins to hold, by the moment at which it does.
#[derive(Debug, Clone, Default)]
pub(super) struct Settled(Vec<(u64, News)>);

/// What a snapshot knew of a descriptor for sure.
type Sure<'a> = FxHashMap<(u32, u32), &'a Object>;

/// What the snapshot before the present one has.
struct Before<'a> {
    end: u64,
    sure: Sure<'a>,
    /// The processes in its tables, and those that are divided.
    united: FxHashSet<u32>,
    divided: FxHashSet<u32>,
}

/// What each ring had recorded where a stretch of a window ends, by lane and CPU.
#[derive(Debug, Clone, Default)]
pub(super) struct Ends(FxHashMap<(Lane, u16), Counts>);

impl Ends {
    /// Of a recording, which may be a stretch.
    pub(super) fn of(recording: &PageSet) -> Self {
        let until = recording.stretch_until.unwrap_or(u64::MAX);
        let end = |stream: &LaneStream| {
            // Pages after the stretch may have been read, and others before them left out.
            let inside = stream.pages().partition_point(|page| part::begins(page) < until);
            let last = inside.checked_sub(1).and_then(|at| stream.pages().get(at))?;
            let held = last.header().events.plus(&last.summary().counts);
            Some(((stream.lane(), stream.cpu()), held))
        };
        Self(recording.streams.iter().filter_map(end).collect())
    }

    /// Whether the next stretch's pages of a ring go on there, without anything between.
    fn join(&self, stream: &LaneStream) -> bool {
        let before = self.0.get(&(stream.lane(), stream.cpu()));
        before.zip(stream.pages().first()).is_some_and(|(before, first)| {
            let first = &first.header().events;
            first.less(before).is_zero()
        })
    }
}

impl Settled {
    /// What a recording's snapshots tell. `before`: what the rings had recorded where the stretch
    /// before it ends, and when that is.
    pub(super) fn new(recording: &PageSet, before: Option<(&Ends, u64)>) -> Self {
        let snapshots = recording.descriptors.as_slice();
        let mut settled = Self::default();
        let lost = losses(recording, before);
        settled.0.extend(
            lost.iter().flat_map(|(from, until)| [*from, *until]).map(|at| (at, News::Forget)),
        );
        // Without the calls and births nothing tells how long a name holds.
        let [calls, _, tasks, _] = recording.meta.lanes.off();
        let unrecorded =
            recording.totals.cpus.iter().any(|cpu| cpu.no_ring[0] != 0 || cpu.no_ring[2] != 0);
        if !snapshots.is_empty() && !calls && !tasks && !unrecorded {
            let changes = Changes::new(recording, snapshots);
            let mut before = None;
            for (number, snapshot) in snapshots.iter().enumerate() {
                if settled.0.len() >= NEWS_MAX {
                    break;
                }
                let sure = settled.snapshot(number, snapshot, &changes, &lost, before.as_ref());
                let processes = snapshot.tables.iter().flat_map(|table| &table.processes);
                before = Some(Before {
                    end: snapshot.end,
                    sure,
                    united: processes.copied().collect(),
                    divided: snapshot.divided.iter().copied().collect(),
                });
            }
        }
        // What is forgotten comes before what is learnt at the same moment.
        settled.0.sort_by_key(|(at, news)| (*at, !matches!(news, News::Forget)));
        settled.0.reverse();
        settled
    }

    /// Whether descriptors are unknown because of what is missing, at any time of a window.
    pub(super) fn is_lost_in(&self, window: Window) -> bool {
        let mut lost_since = Some(0);
        for (at, news) in self.0.iter().rev().take_while(|(at, _)| *at < window.until) {
            match news {
                News::Forget => lost_since = lost_since.or(Some(*at)),
                News::Known { .. } if lost_since.is_some() && *at > window.from => return true,
                News::Known { .. } => lost_since = None,
                _ => {}
            }
        }
        lost_since.is_some()
    }

    /// Whether something holds at `time` already.
    #[inline]
    pub(super) fn is_due(&self, time: u64) -> bool {
        self.0.last().is_some_and(|(at, _)| *at <= time)
    }

    /// The next thing that holds at `time` already.
    pub(super) fn next(&mut self, time: u64) -> Option<News> {
        self.0.pop_if(|(at, _)| *at <= time).map(|(_, news)| news)
    }

    fn snapshot<'a>(
        &mut self,
        number: usize,
        snapshot: &'a Snapshot,
        changes: &Changes,
        lost: &[(u64, u64)],
        before: Option<&Before<'a>>,
    ) -> Sure<'a> {
        let names: Vec<Option<Shown>> = snapshot.objects.iter().map(shown).collect();
        let mut sure = Sure::default();
        // From when on nothing is missing; a loss that reaches past the snapshot's beginning
        // leaves nothing sure.
        let since = lost
            .iter()
            .filter(|(from, _)| *from < snapshot.end)
            .map(|(_, until)| *until)
            .max()
            .unwrap_or(0);
        if since > snapshot.begin {
            return sure;
        }
        if snapshot.left_out == 0 {
            self.0.push((snapshot.end, News::Known { begin: snapshot.begin }));
        }
        let previous = before.map_or(0, |before| before.end);
        // Where its threads had one table before, or its birth is recorded, the events have told
        // which thread has which.
        let is_followed = |process: &u32| {
            before.is_some_and(|before| before.united.contains(process))
                || changes.is_born(*process)
        };
        let divided: FxHashSet<u32> = snapshot.divided.iter().copied().collect();
        let at = since.max(previous);
        let news = divided.into_iter().filter(|process| !is_followed(process));
        self.0.extend(news.map(|process| (at, News::Divided { process })));
        let mut seen = FxHashSet::default();
        for table in &snapshot.tables {
            if has_ring(table, snapshot) {
                continue;
            }
            for process in table.processes.iter().filter(|process| seen.insert(**process)) {
                // One whose threads have tables of their own is in none; a thread whose own table is
                // empty is not seen.
                if changes.all(number, *process) != UNSURE {
                    self.0.push((snapshot.end, News::United { process: *process }));
                }
                let was_divided = before.is_some_and(|before| before.divided.contains(process));
                for file in &table.files {
                    let (Some(object), Some(Some(shown))) = (
                        snapshot.objects.get(file.object as usize),
                        names.get(file.object as usize),
                    ) else {
                        continue;
                    };
                    let fd = file.fd as i32;
                    let changed = changes.last(number, *process, fd);
                    if changed == UNSURE {
                        continue;
                    }
                    sure.insert((*process, file.fd), object);
                    let known = before.and_then(|of| of.sure.get(&(*process, file.fd)));
                    if changed == 0 && since <= previous && known == Some(&object) {
                        continue;
                    }
                    // While its threads differed, which of them had it is not known.
                    let at =
                        if was_divided { snapshot.end } else { changed.max(previous).max(since) };
                    let name = |at, name: &Arc<[u8]>| {
                        (
                            at,
                            News::Name {
                                process: *process,
                                fd,
                                name: name.clone(),
                                cloexec: file.cloexec,
                            },
                        )
                    };
                    let addressed = match changes.last_address(number, *process, fd) {
                        UNSURE => snapshot.end,
                        time => time,
                    };
                    if let Some(bare) = shown.bare.as_ref().filter(|_| addressed > at) {
                        self.0.push(name(at, bare));
                    }
                    self.0.push(name(at.max(addressed), &shown.name));
                }
            }
            if let Some((first, others)) = table.processes.split_first() {
                let share =
                    |other: &u32| (snapshot.end, News::Share { first: *first, other: *other });
                self.0.extend(others.iter().map(share));
            }
        }
        sure
    }
}

fn has_ring(table: &Table, snapshot: &Snapshot) -> bool {
    let object = |number: u32| snapshot.objects.get(number as usize);
    table
        .files
        .iter()
        .any(|file| matches!(object(file.object), Some(Object::Named(name)) if **name == *RING))
}

/// When events of calls or tasks are missing: from and until. Of a stretch, without what only the
/// next one tells, and, where it goes on after another, without what that one had.
fn losses(recording: &PageSet, before: Option<(&Ends, u64)>) -> Vec<(u64, u64)> {
    let start = before.map_or(0, |(_, from)| from);
    let until = recording.stretch_until.unwrap_or(u64::MAX);
    let scope = Scope {
        from: 0,
        until: u64::MAX,
        started: recording.meta.started,
        copied: 0,
        totals: Some(&recording.totals),
        ring_bytes: recording.meta.lanes.ring_bytes(),
    };
    let mut lost = detached(recording);
    if let Some(sure) = &recording.sure {
        // What was before the stretch is known from those before it.
        lost.push((0, sure.read_from.saturating_sub(1)));
        return lost;
    }
    let mut of_rings = Vec::new();
    for stream in recording.streams.iter().filter(|stream| stream.lane() != Lane::Sched) {
        // The kernel lane tells of descriptors only what operations of io_uring do to them.
        let lost = if stream.lane() == Lane::Kernel { &mut of_rings } else { &mut lost };
        let coverage = counters::coverage(recording, stream, &scope);
        // The pages are copied after the snapshots, so that what is newer than the copy is newer
        // than they.
        let gaps = coverage.gaps.iter().filter(|gap| gap.reason != Reason::Newer);
        let mut missing: Vec<(u64, u64)> = gaps.map(|gap| (gap.from, gap.until)).collect();
        missing.extend(coverage.complete.map(|(from, _)| (0, from)));
        missing.retain(|(_, end)| *end <= until);
        if let Some(first) = stream.pages().first()
            && before.is_some_and(|(before, _)| before.join(stream))
        {
            let begins = part::begins(first);
            missing.retain(|(_, end)| *end > begins);
        }
        // What began in the stretch before was not told by that one.
        let begin =
            |(from, end): (u64, u64)| (if end > start { from.max(start) } else { from }, end);
        lost.extend(missing.into_iter().map(begin));
    }
    if of_rings.iter().any(|(_, until)| *until > recording.meta.started) && may_use_rings(recording)
    {
        lost.extend(of_rings);
    }
    lost
}

/// Whether a process may have changed its descriptors by operations of io_uring: what uses it has
/// a descriptor of its own for it, which is in a snapshot or was made by a recorded call.
fn may_use_rings(recording: &PageSet) -> bool {
    let is_ring = |object: &Object| matches!(object, Object::Named(name) if **name == *RING);
    let snapshots = &recording.descriptors;
    let are_told = !snapshots.is_empty() && snapshots.iter().all(|snapshot| snapshot.left_out == 0);
    if !are_told || snapshots.iter().flat_map(|snapshot| &snapshot.objects).any(is_ring) {
        return true;
    }
    let makes = Roles::by_name(&recording.meta, |name| (name == "io_uring_setup").then_some(()));
    let calls = recording.streams.iter().filter(|stream| stream.lane() == Lane::Syscall);
    calls.flat_map(LaneStream::pages).any(|page| {
        let mut made = page.calls(|abi, nr, _| makes.has(abi, nr));
        made.next().is_some()
    })
}

#[cfg(test)]
mod tests;
