//! What is kept of each thread.

use rustc_hash::FxHashMap;

use flightrec_format::abi::record::Comm;
use flightrec_format::decode;

use super::Told;
use crate::{CallId, Interval, Observer, State};

/// Most threads.
const TRACKS_MAX: usize = 65_536;

/// Most calls of a thread that are looked at for what it did before.
const BACK_MAX: usize = 4096;

/// A call that has ended, or has not: then `until` is the end of what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallSpan {
    pub(super) from: u64,
    pub(super) until: u64,
    /// What it returned, as far as 32 bits have room; `None`: it has not ended.
    pub(super) ret: Option<i32>,
    pub(super) call: CallId,
    /// Its words, as of [`Tracks::told`].
    pub(super) told: Option<u32>,
}

/// Calls of one thread that are alike.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count {
    /// In the window.
    pub(super) calls: u64,
    /// And before it.
    pub(super) all: u64,
    /// Of those in the window: how many rounds of them there are, each after a sleep of the
    /// thread but for the first.
    pub(super) rounds: u64,
    /// How often the thread had slept at the last one ([`Track::sleeps`]); `None`: there is none.
    pub(super) slept: Option<u64>,
    pub(super) told: Option<u32>,
}

impl Count {
    /// Counts one more. `sleeps`: how often its thread has slept so far.
    pub(super) fn add(&mut self, in_window: bool, sleeps: u64) {
        self.rounds += u64::from(in_window && self.is_next_round(sleeps));
        self.calls += u64::from(in_window);
        self.all += 1;
        self.slept = Some(sleeps);
    }

    /// Whether one more would begin a round.
    pub(super) fn is_next_round(&self, sleeps: u64) -> bool {
        self.slept != Some(sleeps)
    }
}

/// What a thread did in the kernel beside its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// It freed memory; for its control group's limit, or the machine's.
    Reclaim { is_group: bool },
    /// It moved pages together.
    Compaction,
    /// It waited for a lock of the kernel.
    Contention,
}

/// A deed and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DeedSpan {
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) deed: Deed,
}

/// Where a thread waited: when it ran again, and its kernel stack.
#[derive(Debug, Clone)]
pub(super) struct StackRow {
    pub(super) time: u64,
    pub(super) frames: Box<[u32]>,
}

/// A sample of a thread.
#[derive(Debug, Clone)]
pub(super) struct SampleRow {
    pub(super) time: u64,
    pub(super) of: decode::Sample,
}

/// A thread.
#[derive(Debug, Clone, Default)]
pub(super) struct Track {
    /// Its process; 0: not known.
    pub(super) pid: u32,
    pub(super) comm: Comm,
    pub(super) cgroup: u64,
    /// The highest priority that it ran with in the window, as of a switch.
    pub(super) prio: Option<u8>,
    /// In the order of time, one after the other.
    pub(super) spans: Vec<Interval>,
    pub(super) calls: Vec<CallSpan>,
    pub(super) open: Option<CallSpan>,
    pub(super) counts: FxHashMap<(CallId, i32), Count>,
    /// Calls of it that sleep and have ended.
    pub(super) sleeps: u64,
    pub(super) samples: Vec<SampleRow>,
    pub(super) stacks: Vec<StackRow>,
    pub(super) deeds: Vec<DeedSpan>,
    /// When it was switched out to wait for I/O.
    pub(super) io_waits: Vec<u64>,
    /// It made a call, or ran code of a program.
    pub(super) is_user: bool,
}

impl Track {
    /// What it was in at a moment: the call, if it was in one that is known.
    pub(super) fn call_at(&self, time: u64) -> Option<&CallSpan> {
        let after = self.calls.partition_point(|call| call.from <= time);
        let before = after.checked_sub(1).and_then(|at| self.calls.get(at));
        before
            .filter(|call| time < call.until)
            .or_else(|| self.open.as_ref().filter(|call| call.from <= time))
    }

    /// The last call before a moment for which `is` says so, no further back than `since`, nor than
    /// [`BACK_MAX`] calls.
    pub(super) fn last_call(
        &self,
        time: u64,
        since: u64,
        is: impl Fn(&CallSpan) -> bool,
    ) -> Option<&CallSpan> {
        let after = self.calls.partition_point(|call| call.from < time);
        let before = self.calls.get(..after).unwrap_or_default().iter().rev();
        before.take(BACK_MAX).take_while(|call| call.until >= since).find(|call| is(call))
    }

    /// Its states that touch a stretch of time.
    pub(super) fn within(&self, from: u64, until: u64) -> &[Interval] {
        let first = self.spans.partition_point(|span| span.until <= from);
        let last = self.spans.partition_point(|span| span.from < until);
        self.spans.get(first..last.max(first)).unwrap_or_default()
    }

    /// Its stack in a wait that ended at `woken`: it was taken when it ran again.
    pub(super) fn stack(&self, woken: u64) -> Option<&StackRow> {
        let next = self.stacks.partition_point(|row| row.time < woken);
        let row = self.stacks.get(next)?;
        // No other wait in between.
        let next_wait = self.spans.partition_point(|span| span.from < woken);
        let waits = |span: &&Interval| matches!(span.state, State::Blocked(_));
        let other = self.spans.get(next_wait..)?.iter().find(waits);
        other.is_none_or(|span| row.time <= span.from).then_some(row)
    }

    /// Whether it waited for I/O from `since` on.
    pub(super) fn waited_for_io(&self, since: u64) -> bool {
        self.io_waits.binary_search(&since).is_ok()
    }
}

/// How much is kept of all threads together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Most states and calls.
    rows: usize,
    /// Most other facts.
    facts: usize,
    /// Most calls that are kept in words.
    told: usize,
    /// Most bytes of words, and of frames of stacks and samples.
    bytes: usize,
    /// Most kinds of calls.
    counts: usize,
}

impl Room {
    /// What so many bytes of memory have room for, about: three fifths are for states and calls.
    pub(super) fn of(bytes: usize) -> Self {
        Self {
            rows: bytes / 96,
            facts: bytes / 512,
            told: bytes / 1024,
            bytes: bytes / 6,
            counts: bytes / 768,
        }
    }
}

/// All threads.
#[derive(Debug)]
pub(super) struct Tracks {
    pub(super) all: FxHashMap<u32, Track>,
    room: Room,
    told: Vec<Told>,
    rows: usize,
    facts: usize,
    counts: usize,
    bytes: usize,
    /// What is noted of a thread for which there is no room.
    spare: Track,
    /// Words, stacks or samples found no room: what threads did is known all the same.
    pub(super) is_short: bool,
    /// Something else found no room.
    pub(super) is_cut: bool,
}

impl Tracks {
    /// None yet.
    pub(super) fn new(room: Room) -> Self {
        Self {
            all: FxHashMap::default(),
            room,
            told: Vec::new(),
            rows: 0,
            facts: 0,
            counts: 0,
            bytes: 0,
            spare: Track::default(),
            is_short: false,
            is_cut: false,
        }
    }

    pub(super) fn room(&self) -> Room {
        self.room
    }

    /// Whether there is no room for one more state or call; or, once half of that is used up, for
    /// something else. (What else there is may be used up by few events: then the rest is left
    /// out.)
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        let most = self.room.rows;
        // The end of a part ends what each thread does; an event may end some, too.
        let ends = (self.all.len() + 8).min(most / 2);
        self.rows + ends >= most || self.rows >= most / 2 && self.lacks_room()
    }

    fn lacks_room(&self) -> bool {
        self.is_short
            || self.facts >= self.room.facts
            || self.told.len() >= self.room.told
            || self.all.len() >= TRACKS_MAX
    }

    pub(super) fn get(&self, tid: u32) -> Option<&Track> {
        self.all.get(&tid)
    }

    /// Whether a thread is new, and may be there beside those that there are events of.
    pub(super) fn has_place(&self, tid: u32) -> bool {
        self.all.len() < TRACKS_MAX / 2 && !self.all.contains_key(&tid)
    }

    #[inline]
    pub(super) fn track(&mut self, tid: u32) -> &mut Track {
        if self.all.len() >= TRACKS_MAX && !self.all.contains_key(&tid) {
            self.is_cut = true;
            self.spare = Track::default();
            return &mut self.spare;
        }
        self.all.entry(tid).or_default()
    }

    pub(super) fn told(&self, at: Option<u32>) -> Option<&Told> {
        self.told.get(at? as usize)
    }

    /// Keeps the words of a call. It reserves a quarter of the room for long calls: questions are
    /// about these, and there may be any number of short ones.
    pub(super) fn keep(&mut self, told: Told, is_long: bool) -> Option<u32> {
        let texts = [Some(&told.text), told.object.as_ref(), told.peer.as_ref()];
        let bytes: usize = texts.into_iter().flatten().map(|text| text.len()).sum();
        let most = |room: usize| if is_long { room } else { room - room / 4 };
        let is_there = self.told.len() < most(self.room.told)
            && self.bytes.saturating_add(bytes) <= most(self.room.bytes);
        if !is_there || !self.has_bytes(bytes) {
            self.is_short = true;
            return None;
        }
        self.told.push(told);
        Some(self.told.len() as u32 - 1)
    }

    /// Whether there is room for one more state or call.
    #[inline]
    pub(super) fn has_row(&mut self) -> bool {
        self.rows += 1;
        self.is_cut |= self.rows > self.room.rows;
        self.rows <= self.room.rows
    }

    /// Whether there is room for one more kind of call of a thread.
    pub(super) fn has_count(&mut self) -> bool {
        self.counts += 1;
        self.is_short |= self.counts > self.room.counts;
        self.counts <= self.room.counts
    }

    /// Whether there is room for so many bytes more.
    pub(super) fn has_bytes(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        self.is_short |= self.bytes > self.room.bytes;
        self.bytes <= self.room.bytes
    }

    /// Whether there is room for one more of anything else.
    pub(super) fn has_fact(&mut self) -> bool {
        self.facts += 1;
        self.is_cut |= self.facts > self.room.facts;
        self.facts <= self.room.facts
    }
}

impl Observer for Tracks {
    type Account = ();

    #[inline]
    fn ended(&mut self, (): &mut (), interval: &Interval) {
        if interval.from < interval.until && self.has_row() {
            let track = self.track(interval.tid);
            match track.spans.last_mut() {
                // Who goes on running in another stretch has not stopped.
                Some(last)
                    if (last.state, last.cpu, last.until)
                        == (interval.state, interval.cpu, interval.from)
                        && interval.state == State::Running =>
                {
                    last.until = interval.until;
                    self.rows -= 1;
                }
                _ => track.spans.push(*interval),
            }
        }
    }
}
