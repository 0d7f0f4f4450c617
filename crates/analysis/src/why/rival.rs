//! Others that had what a thread wanted, though they did not wake it: at the same disk, on its CPU,
//! and who should take its connections.

use rustc_hash::FxHashMap;

use super::answer::{Culprit, Link, time};
use super::chain::Chain;
use super::names::Names;
use super::pieces::Piece;
use super::track::{CallSpan, Track};
use super::wait::Wait;
use crate::syscalls::CallKind;
use crate::{Interval, State};

/// How long each other thread of no higher priority may run while one waits for their CPU, ns: two
/// ticks at 100 Hz. Where they ran longer, something else keeps it from the CPU.
const TURN_NS: u64 = 20_000_000;

impl<N: Names> Chain<'_, N> {
    /// The thread of another program that waited for the same disk meanwhile, at least half of the
    /// time, with what it did: of several the one that made most of the requests.
    pub(super) fn other_on_disk(
        &self,
        tid: u32,
        device: &str,
        (from, until): (u64, u64),
    ) -> Option<(Link, Culprit)> {
        let story = self.story;
        let is_long = |ns: u64| ns != 0 && ns.saturating_mul(2) >= until.saturating_sub(from);
        let mut rivals: Vec<(usize, u64, u32, Interval)> = Vec::new();
        for (other, track) in &story.tracks.all {
            if *other == tid || !track.is_user || track.io_waits.is_empty() {
                continue;
            }
            let waits = io_waits(track, from, until);
            let ns = waits.iter().map(Interval::ns).sum();
            let Some(longest) = waits.into_iter().max_by_key(Interval::ns) else { continue };
            if is_long(ns) {
                let rows = &story.facts.requests;
                let first = rows.partition_point(|row| row.until <= from);
                let rows = rows.get(first..).unwrap_or_default().iter();
                let own = rows.filter(|row| row.by == Some(*other) && row.from < until).count();
                rivals.push((own, ns, *other, longest));
            }
        }
        rivals.sort_by_key(|(requests, ns, other, _)| std::cmp::Reverse((*requests, *ns, *other)));
        rivals.into_iter().find_map(|(requests, ns, other, longest)| {
            let mut link = self.link(other, longest.from, longest.until);
            let on = self.disk(other, &mut link, (longest.from, longest.until));
            if on.as_deref() != Some(device) {
                return None;
            }
            let wait = story.wait(other, &longest, self.names);
            let call = wait.call.map(|call| call.call).or(longest.call);
            let object = wait.told.and_then(|told| told.object.clone()).map(String::from);
            let place = self.place(&wait, &wait, call, object.as_deref());
            link.did = format!("waited for I/O as well, {}{place}", time(ns));
            link.state = "blocked";
            link.ns = ns;
            link.call = call.map(|call| story.kinds.name(call));
            link.object.clone_from(&object);
            if requests == 0 {
                link.doubt = Some(
                    "how many of the disk's requests were its own is not recorded: they were \
                     handed over by threads of the kernel"
                        .to_owned(),
                );
            }
            let who = Some(link.who.clone());
            let call = link.call.clone();
            Some((link, Culprit { who, mechanism: "I/O", call, object, ns }))
        })
    }

    /// The thread of this machine that takes connections at an address of it, if one is known.
    pub(super) fn listener(&self, tid: u32, peer: &str, wait: &Wait<'_>) -> Option<u32> {
        let story = self.story;
        let (host, port) = peer.rsplit_once(':')?;
        // Of another address it is not known whether it is this machine's.
        if !host.starts_with("127.") && !host.contains("::1") {
            return None;
        }
        let is_at = |object: &str| {
            let place = object.strip_prefix("TCP").and_then(|of| of.strip_suffix(']'));
            place.is_some_and(|of| !of.contains("->") && of.rsplit(':').next() == Some(port))
        };
        let mut best: Option<(u64, u32)> = None;
        for (other, track) in story.tracks.all.iter().filter(|(other, _)| **other != tid) {
            for call in track.calls.iter().chain(&track.open) {
                let object =
                    || story.tracks.told(call.told).and_then(|told| told.object.as_deref());
                if story.kinds.kind(call.call) == CallKind::Accept && object().is_some_and(is_at) {
                    let off = call.until.abs_diff(wait.span.until);
                    if best.is_none_or(|of| (off, *other) < of) {
                        best = Some((off, *other));
                    }
                }
            }
        }
        let began = || story.facts.listeners.get(&port.parse().ok()?).copied();
        best.map(|(_, other)| other).or_else(began).filter(|other| *other != tid)
    }

    /// When a thread took the next connection, or waited for one: until then it did something else.
    pub(super) fn accepts_from(&self, tid: u32, from: u64) -> u64 {
        let story = self.story;
        let Some(track) = story.tracks.get(tid) else { return u64::MAX };
        let mut calls = track.calls.iter().chain(&track.open);
        let is_next =
            |call: &&CallSpan| story.kinds.kind(call.call) == CallKind::Accept && call.until > from;
        calls.find(is_next).map(|call| call.from).filter(|at| *at > from).unwrap_or(u64::MAX)
    }

    /// Whether a thread that could run was kept from it by more than those that ran: ones of no
    /// higher priority had several turns each while it had none.
    pub(super) fn is_held_back(&self, tid: u32, piece: &Piece<'_>) -> bool {
        let story = self.story;
        let prio = |tid: u32| story.tracks.get(tid)?.prio;
        let Some(own) = prio(tid) else { return false };
        let (mut held, mut all) = (0_u64, 0_u64);
        for wait in &piece.waits {
            let mut turns: FxHashMap<u32, u64> = FxHashMap::default();
            for (cpu, from, until) in story.queued_on(wait) {
                let others = story.ran_on(cpu, from, until).into_iter();
                for (other, ns) in others.filter(|(other, _)| prio(*other) >= Some(own)) {
                    *turns.entry(other).or_default() += ns;
                }
            }
            all = all.saturating_add(wait.ns());
            let more = turns.into_values().map(|ns| ns.saturating_sub(TURN_NS));
            if more.sum::<u64>() >= TURN_NS {
                held = held.saturating_add(wait.ns());
            }
        }
        held != 0 && held.saturating_mul(2) >= all
    }
}

/// Waits for I/O of a thread, as far as they are in a stretch of time.
fn io_waits(track: &Track, from: u64, until: u64) -> Vec<Interval> {
    let spans = track.within(from, until).iter();
    let spans = spans
        .filter(|span| matches!(span.state, State::Blocked(_)) && track.waited_for_io(span.from));
    spans
        .map(|span| Interval { from: span.from.max(from), until: span.until.min(until), ..*span })
        .collect()
}
