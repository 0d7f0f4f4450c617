//! What a thread did in a stretch of time, added up by what it was.

use rustc_hash::FxHashMap;

use super::facts::{InterruptRow, ThrottleRow, touching};
use super::story::Story;
use super::track::Track;
use crate::{CallId, Interval, State, TaskState};

/// How far the beginning or the end of a wait may be from that of its group's throttling, ns.
const NEAR_NS: u64 = 2_000_000;
/// How long a CPU idles for nothing while a thread is moved to it, ns, at most.
const HELD_NS: u64 = 1_000_000;
/// Waits of one piece that are kept; of more, the longest.
const WAITS_MAX: usize = 1024;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Doing<'s> {
    /// Runs its own code; a thread of the kernel: the kernel's.
    User,
    /// Runs in a call.
    Call(CallId),
    /// An interrupt has its CPU.
    Interrupted,
    /// Others have its CPU.
    Runnable,
    /// Its control group has used up its CPU time.
    Throttled,
    /// Nobody has its CPU, and yet it does not run.
    Held,
    /// Waits in a call, or outside of one, on an object.
    Blocked(Option<CallId>, Option<&'s str>),
    /// Stopped by a signal.
    Stopped,
    /// Stopped by its debugger.
    Traced,
    /// Nobody knows.
    Unknown,
    /// It does not live yet, or no longer.
    Absent,
}

impl Doing<'_> {
    /// As of [`super::Share::state`].
    pub(super) fn state(self) -> &'static str {
        match self {
            Self::User | Self::Call(_) => "running",
            Self::Interrupted => "interrupted",
            Self::Runnable => "runnable",
            Self::Throttled => "throttled",
            Self::Held => "held",
            Self::Blocked(..) => "blocked",
            Self::Stopped => "stopped",
            Self::Traced => "traced",
            Self::Unknown => "unknown",
            Self::Absent => "absent",
        }
    }
}

/// A part of a stretch of time.
#[derive(Debug, Clone)]
pub(super) struct Piece<'s> {
    pub(super) doing: Doing<'s>,
    /// In all, ns.
    pub(super) ns: u64,
    /// Stretches that it is made of.
    pub(super) count: u64,
    /// Of waits, the stretches, as far as they are in the stretch of time; some of many.
    pub(super) waits: Vec<Interval>,
}

/// Sums in the making.
#[derive(Default)]
struct Sums<'s>(FxHashMap<Doing<'s>, Piece<'s>>);

impl<'s> Sums<'s> {
    fn add(&mut self, doing: Doing<'s>, ns: u64, wait: Option<Interval>) {
        if ns == 0 {
            return;
        }
        let piece = self.0.entry(doing).or_insert_with(|| Piece {
            doing,
            ns: 0,
            count: 0,
            waits: Vec::new(),
        });
        piece.ns = piece.ns.saturating_add(ns);
        piece.count += 1;
        if let Some(wait) = wait {
            piece.waits.push(wait);
            if piece.waits.len() >= 2 * WAITS_MAX {
                piece.thin();
            }
        }
    }
}

impl Piece<'_> {
    /// Keeps the longest waits, the longest first.
    fn thin(&mut self) {
        self.waits.sort_by_key(|wait| std::cmp::Reverse(wait.ns()));
        self.waits.truncate(WAITS_MAX);
    }
}

impl Story {
    /// What a thread did from `from` to `until`, the longest first. They add up to all of it.
    pub(super) fn pieces(&self, tid: u32, from: u64, until: u64) -> Vec<Piece<'_>> {
        let mut sums = Sums::default();
        let missing = if self.tracks.is_cut { Doing::Unknown } else { Doing::Absent };
        let Some(track) = self.tracks.get(tid) else {
            sums.add(Doing::Unknown, until.saturating_sub(from), None);
            return sums.0.into_values().collect();
        };
        let mut at = from;
        for span in track.within(from, until) {
            let (a, b) = (span.from.max(at), span.until.min(until));
            if a >= b {
                continue;
            }
            sums.add(missing, a - at, None);
            at = b;
            let clipped = Interval { from: a, until: b, ..*span };
            match span.state {
                State::Running => running(track, &clipped, &mut sums),
                State::Runnable | State::Held => self.waiting(track, span, &clipped, &mut sums),
                State::Blocked(_) => {
                    let call = track.call_at(span.from);
                    let told = call.and_then(|call| self.tracks.told(call.told));
                    let object = told.and_then(|told| told.object.as_deref());
                    let id = call.map(|call| call.call).or(span.call);
                    sums.add(Doing::Blocked(id, object), b - a, Some(clipped));
                }
                State::Stopped(state) => {
                    let is_traced = TaskState::of(state.into()) == TaskState::Traced;
                    let doing = if is_traced { Doing::Traced } else { Doing::Stopped };
                    sums.add(doing, b - a, Some(clipped));
                }
                State::Unknown => sums.add(Doing::Unknown, b - a, None),
                State::Dead => sums.add(Doing::Absent, b - a, None),
            }
        }
        sums.add(missing, until.saturating_sub(at), None);
        self.interrupted(tid, track, (from, until), &mut sums);
        let mut pieces: Vec<Piece<'_>> = sums.0.into_values().filter(|of| of.ns != 0).collect();
        pieces.iter_mut().for_each(Piece::thin);
        pieces.sort_by_key(|piece| (std::cmp::Reverse(piece.ns), piece.doing.state()));
        pieces
    }

    /// A stretch in which it waited for a CPU.
    fn waiting<'s>(
        &'s self,
        track: &Track,
        whole: &Interval,
        span: &Interval,
        sums: &mut Sums<'s>,
    ) {
        let ns = span.ns();
        let queues = self.queued_on(span);
        let throttled = self.throttled_ns(track, whole, &queues).min(ns);
        sums.add(Doing::Throttled, throttled, Some(*span));
        // Who could run and does not, while its CPU has nothing else to do, is kept from it, also
        // while others run there; for a moment it is just on its way to another CPU.
        let rest = ns - throttled;
        let ran = queues.iter().map(|(cpu, from, until)| self.ran_on(*cpu, *from, *until));
        let ran = ran.flatten().fold(0_u64, |sum, (_, ns)| sum.saturating_add(ns));
        let idle = rest.saturating_sub(ran);
        let held = if idle >= HELD_NS && !self.misses(span.from, span.until) { rest } else { 0 };
        sums.add(Doing::Held, held, Some(*span));
        sums.add(Doing::Runnable, rest - held, Some(*span));
    }

    /// The CPUs in whose run queues a thread waited, one after the other: CPU, from, until.
    pub(super) fn queued_on(&self, span: &Interval) -> Vec<(u16, u64, u64)> {
        let moves = self.facts.moves.get(&span.tid).map_or(&[][..], Vec::as_slice);
        let first = moves.partition_point(|row| row.time <= span.from);
        let moves = moves.get(first..).unwrap_or_default().iter();
        let (mut queues, mut at, mut cpu) = (Vec::new(), span.from, span.cpu);
        for row in moves.take_while(|row| row.time < span.until) {
            queues.push((row.from, at, row.time));
            (at, cpu) = (row.time, row.to);
        }
        queues.push((cpu, at, span.until));
        queues
    }

    /// For how long a thread was throttled in the run queues in which it waited, ns.
    fn throttled_ns(&self, track: &Track, wait: &Interval, queues: &[(u16, u64, u64)]) -> u64 {
        let mut spans = Vec::new();
        for (cpu, from, until) in queues {
            let rows = self.facts.throttles.get(cpu).map_or(&[][..], Vec::as_slice);
            let rows = touching(rows, (*from, *until), |row| (row.from, row.until));
            let rows = rows.filter(|row| self.is_throttling(row, track, wait));
            spans.extend(rows.map(|row| (row.from.max(*from), row.until.min(*until))));
        }
        // Limits of several groups may hold at the same time.
        spans.sort_unstable();
        let (mut ns, mut at) = (0_u64, 0);
        for (from, until) in spans {
            ns = ns.saturating_add(until.saturating_sub(from.max(at)));
            at = at.max(until);
        }
        ns
    }

    /// Whether a group's limit kept a thread from running in a wait for a CPU: it is its own group
    /// or one above it. Of cgroup v1 the group is not known: the throttling has to begin or end
    /// with the wait.
    fn is_throttling(&self, row: &ThrottleRow, track: &Track, wait: &Interval) -> bool {
        if row.cgroup != 0 && row.cgroup == track.cgroup {
            return true;
        }
        if row.cgroup == 0 {
            return row.from.abs_diff(wait.from) <= NEAR_NS
                || row.until.abs_diff(wait.until) <= NEAR_NS;
        }
        let path = |group: u64| self.facts.groups.get(&group);
        let (Some(limited), Some(own)) = (path(row.cgroup), path(track.cgroup)) else {
            return false;
        };
        let below = own.strip_prefix(limited.trim_end_matches('/'));
        below.is_some_and(|rest| rest.starts_with('/'))
    }

    /// Whether scheduling events are missing in a stretch of time.
    pub(super) fn misses(&self, from: u64, until: u64) -> bool {
        let touches =
            |row: &super::facts::GapRow| row.is_sched && row.from < until && row.until > from;
        self.tracks.is_cut || self.facts.gaps.iter().any(touches)
    }

    /// Takes what interrupts took out of what it ran.
    fn interrupted<'s>(
        &'s self,
        tid: u32,
        track: &Track,
        (from, until): (u64, u64),
        sums: &mut Sums<'s>,
    ) {
        let mut rows: Vec<(u64, u64)> = (self.interrupts(tid, from, until))
            .map(|row| (row.from.max(from), row.until.min(until)))
            .collect();
        rows.sort_unstable();
        let mut at = from;
        for (a, b) in rows {
            let (a, ns) = (a.max(at), b.saturating_sub(a.max(at)));
            at = at.max(b);
            let of = track.call_at(a).map_or(Doing::User, |call| Doing::Call(call.call));
            if let Some(piece) = sums.0.get_mut(&of) {
                let taken = ns.min(piece.ns);
                piece.ns -= taken;
                sums.add(Doing::Interrupted, taken, None);
            }
        }
    }

    /// The long interrupts that hit a thread.
    pub(super) fn interrupts(
        &self,
        tid: u32,
        from: u64,
        until: u64,
    ) -> impl Iterator<Item = &InterruptRow> {
        let rows = self.facts.interrupts.get(&tid).map_or(&[][..], Vec::as_slice);
        touching(rows, (from, until), |row| (row.from, row.until))
    }

    /// Who ran on a CPU meanwhile, and for how long; who ran longest first.
    pub(super) fn ran_on(&self, cpu: u16, from: u64, until: u64) -> Vec<(u32, u64)> {
        let Some(runs) = self.cpus.get(&cpu) else { return Vec::new() };
        let first = runs.partition_point(|(_, end, _)| *end <= from);
        let mut sums: FxHashMap<u32, u64> = FxHashMap::default();
        for (a, b, tid) in runs.get(first..).unwrap_or_default() {
            if *a >= until {
                break;
            }
            let ns = (*b).min(until).saturating_sub((*a).max(from));
            let sum = sums.entry(*tid).or_default();
            *sum = sum.saturating_add(ns);
        }
        let mut sums: Vec<(u32, u64)> = sums.into_iter().collect();
        sums.sort_by_key(|(tid, ns)| (std::cmp::Reverse(*ns), *tid));
        sums
    }
}

/// A stretch in which it ran: in which calls, and outside of any.
fn running(track: &Track, span: &Interval, sums: &mut Sums<'_>) {
    let first = track.calls.partition_point(|call| call.until <= span.from);
    let calls = track.calls.get(first..).unwrap_or_default().iter();
    let calls = calls.take_while(|call| call.from < span.until).chain(&track.open);
    let mut at = span.from;
    for call in calls {
        let (a, b) = (call.from.max(at), call.until.min(span.until));
        if a < b {
            sums.add(Doing::User, a - at, None);
            sums.add(Doing::Call(call.call), b - a, None);
            at = b;
        }
    }
    sums.add(Doing::User, span.until - at, None);
}
