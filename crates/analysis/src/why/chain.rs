//! From a thread to the cause, link by link.

use std::cmp::Reverse;

use flightrec_format::human::counted;
use rustc_hash::FxHashMap;

use super::answer::{Culprit, Link, MECHANISMS, Who, time};
use super::names::Names;
use super::pieces::{Doing, Piece};
use super::story::Story;
use super::wait::{Cause, Wait, is_timer};
use crate::reason::Class;
use crate::syscalls::CallKind;
use crate::{CallId, Interval};

/// Most links.
const LINKS_MAX: usize = 12;
/// Waits of one kind that are looked at, the longest.
const LOOKED_MAX: usize = 64;
/// Of those that are shorter, so many of the last ones.
const LAST_MAX: usize = 8;
/// Most threads that are told which ended some waits.
const OTHERS_MAX: usize = 4;
/// Waits that are over at their own timeout make a lock that is tried again and again.
const TRIES_MIN: usize = 3;

/// A chain in the making.
pub(super) struct Chain<'a, N> {
    pub(super) story: &'a Story,
    pub(super) names: &'a N,
    pub(super) links: Vec<Link>,
    pub(super) culprits: Vec<Culprit>,
    pub(super) doubts: Vec<String>,
    /// Threads that were followed.
    seen: Vec<u32>,
    /// Nothing that the chain goes by is missing.
    pub(super) is_complete: bool,
    /// What a descriptor stands for is not known.
    pub(super) is_unnamed: bool,
}

impl<'a, N: Names> Chain<'a, N> {
    pub(super) fn new(story: &'a Story, names: &'a N) -> Self {
        Self {
            story,
            names,
            links: Vec::new(),
            culprits: Vec::new(),
            doubts: Vec::new(),
            seen: Vec::new(),
            is_complete: true,
            is_unnamed: false,
        }
    }

    /// Follows a thread over a stretch of time to the cause of what it did there for longest.
    pub(super) fn follow(&mut self, tid: u32, from: u64, until: u64) {
        let from = from.max(self.story.since);
        if self.links.len() >= LINKS_MAX {
            return self
                .doubt("the chain has more than 12 links: the rest was not followed".to_owned());
        }
        if self.seen.contains(&tid) {
            let who = self.label(tid);
            return self
                .doubt(format!("the chain comes back to {who}: the threads wait for one another"));
        }
        self.seen.push(tid);
        if self.look_for_gaps(tid, from, until) && !self.links.is_empty() {
            return self.push_bare(tid, from, until);
        }
        let pieces = self.story.pieces(tid, from, until);
        let is_known = |piece: &&Piece<'_>| !matches!(piece.doing, Doing::Unknown | Doing::Absent);
        let known: u64 = pieces.iter().filter(is_known).map(|piece| piece.ns).sum();
        let unknown: u64 =
            pieces.iter().filter(|piece| piece.doing == Doing::Unknown).map(|piece| piece.ns).sum();
        if known == 0 || !self.links.is_empty() && unknown > known {
            let (who, span) = (self.label(tid), time(until.saturating_sub(from)));
            self.is_complete = false;
            if !self.links.is_empty() {
                self.push_bare(tid, from, until);
            }
            return self.doubt(format!("what {who} did in these {span} is not recorded"));
        }
        if self.operation(tid, from, until) || self.memory(tid, from, until) {
            return;
        }
        let running: u64 = pieces.iter().filter(|piece| piece.is_running()).map(|of| of.ns).sum();
        let weight = |piece: &Piece<'_>| {
            let ns = if piece.is_running() { running } else { piece.ns };
            let weight = if self.links.is_empty() { self.weight(tid, piece) } else { 100 };
            u128::from(ns) * u128::from(weight)
        };
        let Some(piece) = pieces.iter().filter(is_known).max_by_key(|piece| weight(piece)) else {
            return;
        };
        // Where its CPU idled meanwhile, too, others that ran there are not what it waited for.
        let held = pieces.iter().find(|of| of.doing == Doing::Held);
        let held = held.filter(|of| of.ns.saturating_mul(4) >= piece.ns);
        let piece = match (piece.doing, held) {
            (Doing::Runnable, Some(held)) if self.is_held_back(tid, piece) => held,
            _ => piece,
        };
        match piece.doing {
            Doing::User | Doing::Call(_) => self.ran(tid, (from, until), &pieces),
            Doing::Interrupted => self.interrupted(tid, (from, until), piece),
            Doing::Runnable => self.starved(tid, piece),
            Doing::Throttled => self.throttled(tid, piece, true),
            Doing::Held => self.throttled(tid, piece, false),
            Doing::Stopped => self.stopped(tid, piece),
            Doing::Traced => self.traced(tid, piece),
            Doing::Blocked(call, object) => self.blocked(tid, piece, call, object),
            Doing::Unknown | Doing::Absent => {}
        }
    }

    /// How much of a subject's waits counts, per cent: who waits for work, or for a time, mostly
    /// means to.
    fn weight(&self, tid: u32, piece: &Piece<'_>) -> u32 {
        // What it waits for at the end is mostly the next thing to do.
        let lasts = piece.waits.first().is_some_and(|wait| wait.until >= self.story.end);
        if lasts && matches!(piece.doing, Doing::Blocked(..)) {
            return 30;
        }
        match piece.doing {
            Doing::User | Doing::Call(_) => 80,
            Doing::Runnable => 110,
            Doing::Throttled | Doing::Held | Doing::Stopped | Doing::Traced => 120,
            Doing::Blocked(Some(call), _) => match self.story.kinds.kind(call) {
                CallKind::Sleep => 20,
                CallKind::Accept | CallKind::Signal => 10,
                CallKind::Poll if self.answers_are_due(tid, piece) => 100,
                CallKind::Poll | CallKind::Aio => 25,
                CallKind::Child => 60,
                _ => 100,
            },
            Doing::Blocked(None, _) | Doing::Interrupted => 100,
            Doing::Unknown | Doing::Absent => 0,
        }
    }

    /// A thread waited in a call.
    fn blocked(&mut self, tid: u32, piece: &Piece<'_>, call: Option<CallId>, object: Option<&str>) {
        let story = self.story;
        let waits: Vec<Wait<'_>> = (looked_at(&piece.waits).into_iter())
            .map(|span| story.wait(tid, span, self.names))
            .collect();
        let Some(cause) = main_cause(&waits) else { return };
        let of_cause = |wait: &&Wait<'_>| wait.cause == cause;
        let Some(longest) = waits.iter().filter(of_cause).max_by_key(|wait| wait.span.ns()) else {
            return;
        };
        let with_stack = waits.iter().find(|wait| !wait.functions.is_empty()).unwrap_or(longest);
        let reason = longest.reason.or_else(|| waits.iter().find_map(|wait| wait.reason));
        let mut link = self.link(tid, longest.span.from, longest.span.until);
        (link.state, link.ns, link.count) = ("blocked", piece.ns, piece.count);
        link.call = call.map(|call| story.kinds.name(call));
        link.object = object.map(str::to_owned);
        self.tell_wait(&mut link, longest, with_stack);
        self.is_unnamed |= object.is_none() && longest.kind.takes_descriptor();
        let place = self.place(longest, with_stack, call, object);
        let often = if piece.count > 1 {
            format!(" ({})", counted(piece.count, "wait"))
        } else {
            String::new()
        };
        let did = format!("waited {}{place}{often}", time(piece.ns));
        let sync = match longest.kind {
            CallKind::Write => self.synchronous(tid, longest, with_stack),
            _ => None,
        };
        let sync = sync.map_or(String::new(), |sync| format!(" ({sync})"));
        let tries = waits.iter().filter(|wait| wait.cause == Cause::Timer).count();
        let is_tried =
            longest.kind == CallKind::Futex && cause != Cause::Timer && tries >= TRIES_MIN;
        let tried = if is_tried {
            " for a lock that it retries with a timeout (as an interpreter's lock)"
        } else {
            ""
        };
        let did = did + &sync + tried;
        let is_lock = longest.kind == CallKind::FileLock
            || reason.is_some_and(|reason| reason.class == Class::Lock);
        let why = reason.map_or(String::new(), |reason| format!(" for {}", reason.words));
        link.by = match longest.kind {
            _ if is_lock => ", held by",
            CallKind::Child => " for its child",
            _ if is_tried => ", held by",
            _ => " for",
        };
        match cause {
            Cause::Thread(by) | Cause::Sender { tid: by, .. } => {
                if let Cause::Sender { sure: false, .. } = cause {
                    link.doubt = Some(format!(
                        "{} was in a call on a socket when the packet came, on which one is not \
                         recorded",
                        self.label(by)
                    ));
                }
                let says = is_lock && longest.kind != CallKind::FileLock
                    || reason.is_some_and(|of| matches!(of.class, Class::Disk | Class::Memory));
                if let Some(frozen) = self.frozen(by, longest, piece.ns) {
                    link.did = frozen;
                    link.by = ", thawed by";
                    self.links.push(link);
                    self.push_bare(by, longest.span.until, longest.span.until);
                    return self.blame(Some(by), "frozen", None, None, piece.ns);
                }
                link.did = if says { did + &why } else { did };
                link.by = if says && !is_lock { ", done by" } else { link.by };
                self.tell_others(&mut link, by, &waits);
                self.links.push(link);
                let all = waits.iter().map(|wait| &wait.span);
                let stretch = if is_tried {
                    stretch(piece.waits.iter(), longest)
                } else {
                    stretch(all, longest)
                };
                self.hop(by, stretch);
            }
            Cause::AddressSpace => {
                link.did = format!("{did} for the lock of its address space (mmap_lock)");
                if reason.is_none_or(|of| of.class != Class::AddressSpace) {
                    link.doubt = Some(
                        "no kernel stack of the wait is recorded: the lock is inferred from the \
                         call"
                            .to_owned(),
                    );
                }
                link.by = ", held by";
                self.links.push(link);
                self.address_space(tid, &waits);
            }
            Cause::Signal { tid: by, signal } => {
                let signal = self.names.signal(signal);
                link.did = format!("{did}, until {signal} came");
                link.by = ", sent by";
                self.links.push(link);
                self.blame(Some(by), "signal", None, Some(signal), piece.ns);
                self.hop(by, (longest.span.from, longest.span.until));
            }
            Cause::Timer => self.timed_out(tid, link, (longest, did), &waits),
            Cause::Disk => {
                let io = self.disk(tid, &mut link, (longest.span.from, longest.span.until));
                link.did = match &io {
                    Some(device) => format!("{did} for I/O on {device}"),
                    None if why.is_empty() => format!("{did} for I/O"),
                    None => did + &why,
                };
                let all = stretch(waits.iter().map(|wait| &wait.span), longest);
                let other = io.as_ref().and_then(|io| self.other_on_disk(tid, io, all));
                if other.is_some() {
                    link.by = ", where";
                }
                self.links.push(link);
                self.blame_last(tid, "I/O", io, piece.ns);
                if let Some((link, culprit)) = other {
                    self.links.push(link);
                    self.culprits.push(culprit);
                }
            }
            Cause::Network => {
                let from = object.and_then(|name| Some(name.split_once("->")?.1));
                let from = from.map(|of| of.trim_end_matches(']').to_owned());
                let from = from.or_else(|| self.asked(tid, longest.span.from));
                let from = from.filter(|_| longest.kind != CallKind::Connect);
                link.did = match &from {
                    Some(from) => format!("{did} for a packet from {from}"),
                    None => format!("{did} for a packet from the network"),
                };
                let peer = longest.told.and_then(|told| told.peer.as_deref());
                self.tell_retransmits(&mut link, longest, from.as_deref().or(peer));
                let peer = peer.map(str::to_owned);
                let listener = (peer.as_deref())
                    .filter(|_| longest.kind == CallKind::Connect)
                    .and_then(|peer| self.listener(tid, peer, longest));
                if listener.is_some() {
                    link.by = "; there listens";
                }
                self.links.push(link);
                self.blame(None, "network", None, from.or(peer), piece.ns);
                if let Some(listener) = listener {
                    let until = self.accepts_from(listener, longest.span.from);
                    self.hop(listener, (longest.span.from, until.min(longest.span.until)));
                }
            }
            Cause::Interrupt => {
                link.did = if why.is_empty() {
                    format!("{did}, until an interrupt came")
                } else {
                    did + &why
                };
                self.links.push(link);
                let name = call.map(|call| story.kinds.name(call));
                self.blame(Some(tid), "interrupt", name, object.map(str::to_owned), piece.ns);
            }
            Cause::Unseen => {
                link.did = did + &why;
                link.doubt = Some("what ended the wait is not recorded".to_owned());
                self.links.push(link);
                self.is_complete = false;
            }
            Cause::Lasting => {
                link.did = format!("{did}{why}, and still waits at the end of the window");
                link.doubt = Some("the wait has not ended, so its waker is unknown".to_owned());
                self.links.push(link);
            }
        }
    }

    /// Who else ended waits of the same kind.
    fn tell_others(&self, link: &mut Link, by: u32, waits: &[Wait<'_>]) {
        let mut others: FxHashMap<u32, u64> = FxHashMap::default();
        for wait in waits {
            if let Cause::Thread(other) = wait.cause
                && other != by
            {
                *others.entry(other).or_default() += wait.span.ns();
            }
        }
        let mut others: Vec<(u32, u64)> = others.into_iter().collect();
        others.sort_by_key(|(tid, ns)| (Reverse(*ns), *tid));
        for (other, ns) in others.into_iter().take(OTHERS_MAX) {
            let line = format!("{} of the waits ended by {}", time(ns), self.label(other));
            link.evidence.push(line);
        }
    }

    /// Goes on with the thread that another one waited for.
    fn hop(&mut self, by: u32, (from, until): (u64, u64)) {
        let links = self.links.len();
        self.follow(by, from, until);
        if self.links.len() == links {
            // Nothing is known of it but that it ended the wait.
            self.push_bare(by, from, until);
        }
    }

    /// A wait that ended by the time that the thread had asked for.
    fn timed_out(
        &mut self,
        tid: u32,
        mut link: Link,
        (longest, did): (&Wait<'_>, String),
        waits: &[Wait<'_>],
    ) {
        let name = link.call.clone();
        let ns = link.ns;
        if longest.kind == CallKind::Sleep {
            let often =
                if link.count > 1 { format!(" ({} times)", link.count) } else { String::new() };
            let call = name.clone().unwrap_or_else(|| "a sleep".to_owned());
            link.did = format!("slept {} in {call}{often}, as it had asked for", time(ns));
            if let Some((text, error, calls)) = self.retries(tid, link.count) {
                link.did = format!(
                    "tried {text} again and again: it failed {calls} times with {error}, and the \
                     thread slept {} in between, in {call}",
                    time(ns)
                );
                self.links.push(link);
                return self.blame(Some(tid), "retries", Some(text), Some(error), ns);
            }
            self.links.push(link);
            return self.blame(Some(tid), "sleep", name, None, ns);
        }
        if longest.kind == CallKind::Read && link.object.as_deref().is_some_and(is_timer) {
            link.did = format!("{did} for a timer of its own");
            let object = link.object.clone();
            self.links.push(link);
            return self.blame(Some(tid), "timer", name, object, ns);
        }
        let timeouts = waits.iter().filter(|wait| wait.cause == Cause::Timer).count() as u64;
        let often = if timeouts > 1 { format!(" {timeouts} times") } else { String::new() };
        let peer = self.asked(tid, longest.span.from);
        link.did = match &peer {
            Some(peer) => format!("{did}, which timed out{often}: no answer came from {peer}"),
            None => format!("{did}, which ended by its own timeout{often}"),
        };
        if let Some(peer) = &peer {
            link.evidence.push(format!("before it waited, it had sent data to {peer}"));
        }
        self.links.push(link);
        self.blame(Some(tid), "timeout", name, peer, ns);
    }

    pub(super) fn doubt(&mut self, doubt: String) {
        if !self.doubts.contains(&doubt) {
            self.doubts.push(doubt);
        }
    }

    /// A thread of which no more is known than that it is the one.
    pub(super) fn push_bare(&mut self, tid: u32, from: u64, until: u64) {
        let link = self.link(tid, from, until);
        self.links.push(link);
    }

    /// A link for a thread.
    pub(super) fn link(&self, tid: u32, from: u64, until: u64) -> Link {
        let who = self.who(tid);
        let program = self.story.facts.programs.get(&who.pid).copied();
        let program = self.story.tracks.told(program).map(|told| format!("runs {}", told.text));
        let evidence = program.into_iter().collect();
        Link { who, from, until, by: " for", count: 1, evidence, ..Link::default() }
    }

    pub(super) fn who(&self, tid: u32) -> Who {
        self.story.who(tid, self.names)
    }

    pub(super) fn label(&self, tid: u32) -> String {
        self.who(tid).label()
    }

    pub(super) fn blame(
        &mut self,
        tid: Option<u32>,
        mechanism: &'static str,
        call: Option<String>,
        object: Option<String>,
        ns: u64,
    ) {
        debug_assert!(MECHANISMS.contains(&mechanism), "{mechanism}");
        let who = tid.map(|tid| self.who(tid));
        self.culprits.push(Culprit { who, mechanism, call, object, ns });
    }

    /// Blames the last program's thread of the chain, where the kernel's own threads worked for it.
    fn blame_last(&mut self, tid: u32, mechanism: &'static str, object: Option<String>, ns: u64) {
        let is_user = |tid: u32| self.story.tracks.get(tid).is_some_and(|track| track.is_user);
        let last = self.links.iter().rev().find(|link| is_user(link.who.tid));
        let (by, call, of, ns) = match last {
            Some(link) => (link.who.tid, link.call.clone(), link.object.clone(), link.ns),
            None => (tid, None, None, ns),
        };
        self.blame(Some(by), mechanism, call, of.or_else(|| object.clone()), ns);
        if object.is_some() {
            self.blame(None, "disk", None, object, ns);
        }
    }
}

impl Piece<'_> {
    pub(super) fn is_running(&self) -> bool {
        matches!(self.doing, Doing::User | Doing::Call(_))
    }
}

/// The waits that are looked at: the longest, and the last ones. Only at its end may a lock that was
/// tried again and again show who had it.
fn looked_at(waits: &[Interval]) -> Vec<&Interval> {
    let mut looked: Vec<&Interval> = waits.iter().take(LOOKED_MAX).collect();
    let mut others: Vec<&Interval> = waits.iter().skip(LOOKED_MAX).collect();
    others.sort_by_key(|wait| Reverse(wait.until));
    looked.extend(others.into_iter().take(LAST_MAX));
    looked
}

/// Whether a wait is for a lock of the kernel.
fn is_for_lock(wait: &Wait<'_>) -> bool {
    wait.reason.is_some_and(|reason| reason.class == Class::Lock)
}

/// Whether a wait was one try of many for a lock, over when its time was: of a futex with a
/// timeout, or of a lock that the kernel tries again by a timer of its own (`__break_lease`,
/// fs/locks.c, Linux 6.1).
fn is_try(wait: &Wait<'_>) -> bool {
    match wait.cause {
        Cause::Timer => wait.kind == CallKind::Futex,
        Cause::Interrupt => is_for_lock(wait),
        _ => false,
    }
}

/// What ended most of the time of some waits.
fn main_cause(waits: &[Wait<'_>]) -> Option<Cause> {
    let mut sums: FxHashMap<Cause, (u64, usize)> = FxHashMap::default();
    let add = |sums: &mut FxHashMap<Cause, (u64, usize)>, cause, ns: u64, at| {
        let sum = sums.entry(cause).or_insert((0, at));
        sum.0 = sum.0.saturating_add(ns);
    };
    for (at, wait) in waits.iter().enumerate().filter(|(_, wait)| !is_try(wait)) {
        add(&mut sums, wait.cause, wait.span.ns(), at);
    }
    // Such a lock is had from the thread that gives it in the end.
    let threads = sums.iter().filter(|(cause, _)| matches!(cause, Cause::Thread(_)));
    let giver = threads.max_by_key(|(_, (ns, at))| (*ns, Reverse(*at))).map(|(cause, _)| *cause);
    for (at, wait) in waits.iter().enumerate().filter(|(_, wait)| is_try(wait)) {
        add(&mut sums, giver.unwrap_or(wait.cause), wait.span.ns(), at);
    }
    sums.into_iter().max_by_key(|(_, (ns, at))| (*ns, Reverse(*at))).map(|(cause, _)| cause)
}

/// The stretch in which what ended some waits is looked for: all of them, where they follow one
/// another closely; else the longest.
fn stretch<'a>(
    waits: impl Iterator<Item = &'a Interval> + Clone,
    longest: &Wait<'_>,
) -> (u64, u64) {
    let from = waits.clone().map(|wait| wait.from).min().unwrap_or(longest.span.from);
    let until = waits.clone().map(|wait| wait.until).max().unwrap_or(longest.span.until);
    let sum = waits.fold(0_u64, |sum, wait| sum.saturating_add(wait.ns()));
    let is_close = sum.saturating_mul(2) >= until.saturating_sub(from);
    if is_close { (from, until) } else { (longest.span.from, longest.span.until) }
}

/// ` (3 threads of that name)`
pub(super) fn like(threads: usize) -> String {
    if threads > 1 { format!(" ({threads} threads of that name)") } else { String::new() }
}
