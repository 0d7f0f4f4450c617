//! Which thread was delayed most in a window, where none is named.

use std::cmp::Reverse;

use flightrec_format::units;
use rustc_hash::FxHashMap;

use super::answer::{Answer, time};
use super::chain::Chain;
use super::names::Names;
use super::story::Story;
use super::track::Track;
use crate::reason::is_fault;
use crate::syscalls::CallKind;
use crate::{CallId, Interval, State};

/// A wait as short as that is nobody's trouble, ns; one of fewer states is not looked at by call.
const SHORT_NS: u64 = 300_000;
/// What troubles a thread for less, ns, does not stand out.
const NOTHING_NS: u64 = 3_000_000;
/// A thread that ran for so many per cent of the window spins, or computes.
const HOG: u64 = 80;
/// The priority of nice 0, as events have it.
const USUAL_PRIO: u8 = 120;
/// So many waits alike are a habit.
const HABIT: usize = 3;

/// Whom a question is about: all that is given must be true of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// Threads; none: any.
    pub tids: Vec<u32>,
    /// Processes; none: any.
    pub pids: Vec<u32>,
    /// Names of threads; none: any.
    pub comms: Vec<String>,
    /// Names of systemd units, as in `nginx.service`; none: any.
    pub units: Vec<String>,
    /// Containers, by name or id; none: any.
    pub containers: Vec<String>,
    /// Pods, by name or uid; none: any.
    pub pods: Vec<String>,
}

/// A call that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowCall {
    /// The thread.
    pub tid: u32,
    /// When it began, ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// When it ended, or the window did.
    pub until: u64,
    /// How much of a trouble it is: its length, ns, or less of a call that waits for work.
    pub trouble: u64,
}

impl Subject {
    /// Whether it says nothing.
    pub fn is_any(&self) -> bool {
        *self == Self::default()
    }

    fn has(&self, tid: u32, track: &Track, names: &impl Names) -> bool {
        let is_in = |list: &[u32], id: u32| list.is_empty() || list.contains(&id);
        let comm = || names.text(super::story::trimmed(&track.comm));
        let unit = |group: Option<String>| {
            group.is_some_and(|group| self.units.iter().any(|unit| units::is_in(&group, unit)))
        };
        is_in(&self.tids, tid)
            && is_in(&self.pids, track.pid)
            && (self.comms.is_empty() || self.comms.contains(&comm()))
            && (self.units.is_empty() || unit(names.group(track.cgroup)))
            && (self.containers.is_empty()
                || self.containers.iter().any(|of| names.is_in_container(track.cgroup, of)))
            && (self.pods.is_empty()
                || self.pods.iter().any(|of| names.is_in_pod(track.cgroup, of)))
    }
}

impl Story {
    /// The thread that was delayed most of those that are asked about. `None`: none of them was seen,
    /// or, where all are meant, none stands out.
    pub fn worst(&self, subject: &Subject, names: &impl Names) -> Option<u32> {
        Some(self.worst_of(subject, names)?.0)
    }

    /// The same, and how much trouble it had, ns.
    pub fn worst_of(&self, subject: &Subject, names: &impl Names) -> Option<(u32, u64)> {
        let all = self.tracks.all.iter().filter(|(tid, track)| {
            **tid != 0
                && subject.has(**tid, track, names)
                && !track.within(self.from, self.until).is_empty()
        });
        let (score, worst) = all
            .map(|(tid, track)| (self.score(*tid, track, subject.is_any(), names), *tid))
            .max_by_key(|(score, tid)| (*score, Reverse(*tid)))?;
        (!subject.is_any() || score >= NOTHING_NS).then_some((worst, score))
    }

    /// Whether a thread that is asked for by its id was not seen in the window; where none is named
    /// by id, whether no thread was seen that is asked about.
    pub fn lacks_any(&self, subject: &Subject, names: &impl Names) -> bool {
        let is_seen = |track: &Track| !track.within(self.from, self.until).is_empty();
        if subject.tids.is_empty() {
            let is_of = |(tid, track): (&u32, &Track)| {
                *tid != 0 && is_seen(track) && subject.has(*tid, track, names)
            };
            return !self.tracks.all.iter().any(is_of);
        }
        !subject.tids.iter().all(|tid| self.tracks.get(*tid).is_some_and(is_seen))
    }

    /// The longest call of those that are asked about, which took `at_least` or more, ns; `name`:
    /// of any name.
    pub fn slowest_call(
        &self,
        subject: &Subject,
        name: Option<&str>,
        at_least: u64,
        names: &impl Names,
    ) -> Option<SlowCall> {
        let mut best: Option<SlowCall> = None;
        for (tid, track) in &self.tracks.all {
            if !subject.has(*tid, track, names) {
                continue;
            }
            // Who ends in a call is in none any more.
            let end = track.spans.last().map_or(self.until, |span| span.until.min(self.until));
            for call in track.calls.iter().chain(&track.open) {
                let until = call.until.min(end);
                let ns = until.saturating_sub(call.from);
                let is_of = call.until >= self.from
                    && ns >= at_least.max(1)
                    && name.is_none_or(|name| self.kinds.is(call.call, name));
                // Who waits for work does that for long, and means to.
                let kind = self.kinds.kind(call.call);
                let trouble = if name.is_none() && kind.is_idle() { ns / 20 } else { ns };
                if is_of && best.is_none_or(|best| trouble > best.trouble) {
                    let from = call.from.max(self.since);
                    best = Some(SlowCall { tid: *tid, from, until, trouble });
                }
            }
        }
        best
    }

    /// Asks about a part of the window from now on.
    pub fn narrow(&mut self, from: u64, until: u64) {
        self.from = self.from.max(from).min(self.until);
        self.until = self.until.min(until).max(self.from);
        self.whole = (self.whole.0.max(from).min(until), self.whole.1.min(until));
    }

    /// What a thread was in the middle of at a moment: from when to when the call took, or what it
    /// did outside of any.
    pub fn episode(&self, tid: u32, at: u64) -> (u64, u64) {
        let episode = self.call_at(tid, at).or_else(|| self.state_at(tid, at));
        let (from, until) = episode.unwrap_or((self.from, self.until));
        (from.max(self.since), until.min(self.end))
    }

    /// From when to when the call took that a thread was in at a moment. `None`: it was in none.
    pub fn call_at(&self, tid: u32, at: u64) -> Option<(u64, u64)> {
        let call = self.tracks.get(tid)?.call_at(at)?;
        let (from, until) = (call.from.max(self.since), call.until.min(self.end));
        (from < until).then_some((from, until))
    }

    /// From when to when a thread did not run at a moment, for one reason. `None`: it ran, or what
    /// it did is not known.
    pub fn state_at(&self, tid: u32, at: u64) -> Option<(u64, u64)> {
        let track = self.tracks.get(tid)?;
        let after = track.spans.partition_point(|span| span.from <= at);
        let span = track.spans.get(after.checked_sub(1)?)?;
        let waits = !matches!(span.state, State::Running | State::Unknown | State::Dead);
        let (from, until) = (span.from.max(self.since), span.until.min(self.end));
        (waits && at < span.until && from < until).then_some((from, until))
    }

    /// An answer where no thread stands out.
    pub fn nothing(&self) -> Answer {
        let (from, until) = self.whole;
        Answer {
            sentence: format!(
                "no thread stands out in these {}: none was blocked for long except to wait for \
                 work, and none waited long for a CPU",
                time(until.saturating_sub(from))
            ),
            from,
            until,
            complete: !self.tracks.is_cut && self.facts.gaps.is_empty(),
            ..Answer::default()
        }
    }

    /// An answer where nothing is as it was asked for.
    pub fn none(&self, sentence: &str) -> Answer {
        Answer { sentence: sentence.to_owned(), ..self.nothing() }
    }

    /// What troubled a thread, ns of trouble. `is_any`: all threads are meant.
    fn score(&self, tid: u32, track: &Track, is_any: bool, names: &impl Names) -> u64 {
        let (from, until) = (self.from, self.until);
        let (mut percent, mut running) = (0_u128, 0_u64);
        // Idle waits by the call, in search of habits: over all that was read.
        let mut habits: FxHashMap<Option<CallId>, Vec<u64>> = FxHashMap::default();
        for span in &track.spans {
            if matches!(span.state, State::Blocked(_)) && span.ns() >= SHORT_NS {
                let lengths = habits.entry(span.call).or_default();
                if lengths.len() < 64 {
                    lengths.push(span.ns());
                }
            }
        }
        let mut sleeps = (0, 0);
        for span in track.within(from, until) {
            let ns = span.until.min(until).saturating_sub(span.from.max(from));
            let weight = match span.state {
                State::Running => {
                    running += ns;
                    continue;
                }
                // Who asked for less CPU time than others means to wait for it.
                State::Runnable if track.prio.is_some_and(|prio| prio > USUAL_PRIO) => 30,
                State::Runnable => 120,
                State::Held | State::Stopped(_) => 150,
                State::Blocked(_) if ns >= SHORT_NS => {
                    let kind = span.call.map(|call| self.kinds.kind(call));
                    let weight = self.weight_of_wait(tid, track, span, names);
                    // Who has waited since long before mostly waits for work, and is not what made
                    // this time another one.
                    let is_old = is_any && span.from < self.since;
                    let weight = match kind {
                        _ if !is_old || span.state.is_uninterruptible() => weight,
                        Some(kind) if is_held_up(kind) => weight / 4,
                        _ => 0,
                    };
                    if kind == Some(CallKind::Sleep) {
                        sleeps = (sleeps.0 + 1, sleeps.1 + ns);
                    }
                    let is_alike = |of: &&u64| **of / 2 <= span.ns() && span.ns() / 2 <= **of;
                    let lengths = habits.get(&span.call);
                    let alike = lengths.map_or(0, |all| all.iter().filter(is_alike).count());
                    let is_habit = alike > HABIT && weight < 90;
                    if is_habit { weight / 6 } else { weight }
                }
                _ => 0,
            };
            percent += u128::from(ns) * u128::from(weight);
        }
        let running = u128::from(running);
        let is_hog = running * 100 >= u128::from(until.saturating_sub(from)) * u128::from(HOG);
        percent += running * if is_hog { 60 } else { 20 };
        let mut score = u64::try_from(percent / 100).unwrap_or(u64::MAX);
        if sleeps.0 >= 5 && Chain::new(self, &Nameless).fails_to(tid, sleeps.0) {
            score = score.saturating_add(sleeps.1 / 2);
        }
        // Threads of the kernel work for others.
        if track.is_user { score } else { score / 10 }
    }

    /// How much a wait troubles, per cent of its length.
    fn weight_of_wait(&self, tid: u32, track: &Track, span: &Interval, names: &impl Names) -> u64 {
        let call = track.call_at(span.from);
        let id = call.map(|call| call.call).or(span.call);
        let kind = id.map(|id| self.kinds.kind(id));
        let is_stuck = span.state.is_uninterruptible();
        let weight = match kind {
            Some(CallKind::Sleep | CallKind::Accept | CallKind::Signal) => 2,
            Some(CallKind::Poll | CallKind::Aio) => {
                let timed_out = call.is_some_and(|call| call.ret == Some(0));
                let asked = || Chain::new(self, &Nameless).asked(tid, span.from).is_some();
                if timed_out && asked() { 80 } else { 10 }
            }
            Some(CallKind::Child) => 20,
            Some(CallKind::Read | CallKind::Receive) if !is_stuck => 70,
            Some(CallKind::Futex) => 85,
            Some(_) => 100,
            None if is_stuck || is_in_fault(track, span, names) => 100,
            None => 5,
        };
        let (from, until) = self.whole;
        let is_whole = span.from >= from && span.until < until;
        match kind {
            _ if is_whole || is_stuck => weight,
            Some(kind) if is_held_up(kind) => weight,
            _ if span.until < until => weight / 3,
            _ => weight / 10,
        }
    }
}

/// Whether nobody means to wait for long in such a call.
fn is_held_up(kind: CallKind) -> bool {
    matches!(kind, CallKind::FileLock | CallKind::Memory | CallKind::Sync)
}

/// Whether a thread waited in a page fault, by its kernel stack.
fn is_in_fault(track: &Track, span: &Interval, names: &impl Names) -> bool {
    let functions = |row: &super::track::StackRow| -> Vec<String> {
        row.frames.iter().map(|frame| names.kernel(*frame)).collect()
    };
    track.stack(span.until).is_some_and(|row| is_fault(&functions(row)))
}

/// Where names do not matter.
struct Nameless;

impl Names for Nameless {
    fn text(&self, _: &[u8]) -> String {
        String::new()
    }
    fn error(&self, number: i32) -> String {
        number.to_string()
    }
    fn kernel(&self, _: u32) -> String {
        String::new()
    }
    fn user(&self, _: flightrec_format::abi::record::sample::UserFrame, _: bool) -> String {
        String::new()
    }
    fn device(&self, device: u32) -> String {
        device.to_string()
    }
    fn signal(&self, number: u32) -> String {
        number.to_string()
    }
    fn group(&self, _: u64) -> Option<String> {
        None
    }
    fn operation(&self, op: u32) -> String {
        op.to_string()
    }
}
