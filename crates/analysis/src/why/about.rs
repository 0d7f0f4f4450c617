//! What a link is about: the call and its object in words, whom a thread asked, what it tries, what
//! works for it in the kernel.

use std::cmp::Reverse;

use super::answer::time;
use super::chain::Chain;
use super::names::Names;
use super::pieces::Piece;
use super::track::Count;
use super::wait::{EAGAIN, Wait, is_socket};
use crate::reason::{is_fault, is_sync};
use crate::syscalls::CallKind;
use crate::{CallId, State, TaskState};

/// How far back what a thread sent is what it waits to be answered, ns.
const SENT_NS: u64 = 200_000_000;
/// `O_DSYNC`, which `O_SYNC` includes (include/uapi/asm-generic/fcntl.h).
const O_DSYNC: u64 = 0o10_000;
/// `O_SYNC` without it.
const O_SYNC: u64 = 0o4_000_000;
/// From so many failures with a sleep after each on, a call is tried again and again.
const RETRIES_MIN: u64 = 5;
/// Longest text of a call in a sentence.
const CALL_MAX: usize = 160;

impl<N: Names> Chain<'_, N> {
    /// Whether it had sent something before the longest of its waits.
    pub(super) fn answers_are_due(&self, tid: u32, piece: &Piece<'_>) -> bool {
        piece.waits.first().is_some_and(|wait| self.asked(tid, wait.from).is_some())
    }

    /// Whom a thread had sent something before it waited, in words.
    pub(super) fn asked(&self, tid: u32, at: u64) -> Option<String> {
        let track = self.story.tracks.get(tid)?;
        let kind = |call: CallId| self.story.kinds.kind(call);
        let since = at.saturating_sub(SENT_NS);
        let sends = |call: CallId| matches!(kind(call), CallKind::Send | CallKind::Write);
        let sent = track.last_call(at, since, |call| {
            let told = self.story.tracks.told(call.told);
            sends(call.call)
                && (kind(call.call) == CallKind::Send
                    || told.and_then(|told| told.object.as_deref()).is_some_and(is_socket))
        })?;
        let connected = || {
            let call = track.last_call(sent.until, 0, |call| kind(call.call) == CallKind::Connect);
            self.story.tracks.told(call?.told)?.peer.clone()
        };
        let told = self.story.tracks.told(sent.told);
        let peer = told.and_then(|told| told.peer.clone()).or_else(connected);
        Some(match peer {
            Some(peer) => peer.into(),
            None => told?.object.as_deref()?.to_owned(),
        })
    }

    /// The call that a thread tries again and again without success, the error, and how often it
    /// failed with a sleep after it.
    pub(super) fn retries(&self, tid: u32, sleeps: u64) -> Option<(String, String, u64)> {
        let ((call, error), count) = self.retried(tid, sleeps)?;
        let told = self.story.tracks.told(count.told);
        let text = told.map_or_else(|| self.story.kinds.name(call), |told| short(&told.text));
        Some((text, self.names.error(error), count.rounds))
    }

    /// Whether a call that should succeed is tried again and again. Who looks by `EAGAIN` whether
    /// there is something to read has no trouble: that is the answer it wants most of the time.
    pub(super) fn fails_to(&self, tid: u32, sleeps: u64) -> bool {
        self.retried(tid, sleeps).is_some_and(|((call, error), _)| {
            let kind = self.story.kinds.kind(call);
            let looks = matches!(kind, CallKind::Read | CallKind::Receive | CallKind::Accept);
            !(looks && error.abs() == EAGAIN.abs())
        })
    }

    /// What fails in most of the rounds between a thread's sleeps. A program's start fails more
    /// often, where it looks for its libraries, but in one round.
    fn retried(&self, tid: u32, sleeps: u64) -> Option<((CallId, i32), &Count)> {
        let track = self.story.tracks.get(tid)?;
        if sleeps < RETRIES_MIN {
            return None;
        }
        let failing = track.counts.iter().filter(|((_, error), _)| *error != 0);
        let (key, count) = failing
            .filter(|(_, count)| count.rounds >= sleeps.div_ceil(2))
            .max_by_key(|(key, count)| (count.rounds, Reverse(**key)))?;
        Some((*key, count))
    }

    /// Where a thread waited: ` in fsync(/srv/a)`, ` in a page fault`.
    pub(super) fn place(
        &self,
        wait: &Wait<'_>,
        with_stack: &Wait<'_>,
        call: Option<CallId>,
        object: Option<&str>,
    ) -> String {
        match call {
            Some(call) => format!(" in {}", self.call(call, wait, object)),
            None if is_fault(&with_stack.functions) => {
                let of_file = ["filemap_fault", "filemap_map_pages"];
                let is_of = |name: &String| of_file.contains(&name.as_str());
                if with_stack.functions.iter().any(is_of) {
                    " in page faults of a mapped file".to_owned()
                } else {
                    " in page faults".to_owned()
                }
            }
            None => {
                let State::Blocked(state) = wait.span.state else { return String::new() };
                match TaskState::of(state.into()) {
                    TaskState::Idle => " for work".to_owned(),
                    _ => " in the kernel".to_owned(),
                }
            }
        }
    }

    /// A call in a sentence: with what it is about.
    pub(super) fn call(&self, call: CallId, wait: &Wait<'_>, object: Option<&str>) -> String {
        let name = self.story.kinds.name(call);
        let peer = wait.told.and_then(|told| told.peer.as_deref());
        match (wait.kind, object, peer) {
            (CallKind::Connect | CallKind::Send, _, Some(peer)) => format!("{name}({peer})"),
            (CallKind::Futex | CallKind::Poll | CallKind::Memory | CallKind::Ring, ..) => name,
            (_, Some(object), _) => format!("{name}({})", short(object)),
            _ => name,
        }
    }

    /// Whether a write waits for the disk, and how that is known.
    pub(super) fn synchronous(
        &self,
        tid: u32,
        wait: &Wait<'_>,
        with_stack: &Wait<'_>,
    ) -> Option<&'static str> {
        let track = self.story.tracks.get(tid)?;
        let fd = wait.told.and_then(|told| descriptor(&told.text));
        let flags = fd.and_then(|fd| self.story.facts.open_flags.get(&(track.pid, fd))).copied();
        match flags {
            Some(flags) if flags & O_SYNC != 0 => {
                Some("a synchronous write, as the file was opened with O_SYNC")
            }
            Some(flags) if flags & O_DSYNC != 0 => {
                Some("a synchronous write, as the file was opened with O_DSYNC")
            }
            _ => is_sync(&with_stack.functions)
                .then_some("a synchronous write (O_SYNC or O_DSYNC, or the mount option sync)"),
        }
    }

    /// What the thread of the kernel did that works for a ring of io_uring.
    pub(super) fn operation(&mut self, tid: u32, from: u64, until: u64) -> bool {
        let story = self.story;
        let Some(track) = story.tracks.get(tid).filter(|track| !track.is_user) else {
            return false;
        };
        let is_of = |submitted_by: u32| {
            story.tracks.get(submitted_by).is_some_and(|of| of.pid == track.pid && track.pid != 0)
        };
        let rows = story.facts.operations.iter().filter(|row| {
            (row.done_by == tid || is_of(row.submitted_by)) && row.until > from && row.from < until
        });
        let length = |a: u64, b: u64| b.min(until).saturating_sub(a.max(from));
        let Some(row) = rows.max_by_key(|row| length(row.from, row.until)) else { return false };
        let mut link = self.link(tid, row.from, row.until);
        let op = self.names.operation(row.op);
        let told = story.tracks.told(row.told);
        let object = told.and_then(|told| told.object.as_deref().map(str::to_owned));
        self.is_unnamed |= object.is_none();
        let ns = row.until.saturating_sub(row.from);
        let of = object.as_deref().map_or(String::new(), |object| format!(" of {object}"));
        let device = self.disk(tid, &mut link, (from, until));
        let on = device.as_deref().map_or(String::new(), |device| format!(" on {device}"));
        link.did = format!("did {op}{of} (io_uring){on} for {}", time(ns));
        (link.state, link.ns, link.count) = ("blocked", ns, 1);
        (link.call, link.object) = (Some(op.clone()), object.clone());
        self.links.push(link);
        self.blame(Some(tid), "I/O", Some(op), object.or(device), ns);
        true
    }
}

/// A text that is not too long for a sentence.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(CALL_MAX) {
        Some((at, _)) => format!("{}...", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The descriptor that a call in words begins with: `write(3</a>, ...)`.
fn descriptor(text: &str) -> Option<i32> {
    let (_, arguments) = text.split_once('(')?;
    let end = arguments.find(|c: char| !c.is_ascii_digit())?;
    arguments.get(..end)?.parse().ok()
}
