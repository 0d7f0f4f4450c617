//! How a record gets into a page.
//!
//! A lane of a CPU is written only by programs that cannot interrupt one another there, with one
//! exception that [`LaneState::busy`] refuses and counts: `sched_waking` of a thread that wakes
//! itself runs with interrupts on (`try_to_wake_up`, kernel/sched/core.c, Linux 6.1), so an
//! interrupt may bring another scheduling event in the middle of it. So plain stores suffice, and
//! the store of `used`, last, publishes (`atomic::publish`). Readers: `crates/format/src/live`. (On
//! PREEMPT_RT, signals are such an exception, too, as the lock under which they are sent sleeps
//! there.)
//!
//! The task lane's tracepoints are preemptible from Linux 7.0 on (kernel commits a46023d5616e,
//! f7d327654b88), so two of its programs may meet on a CPU: there, `busy` is claimed by an atomic.
//! So it is in the kernel lane, where the one that comes second writes to a page aside (`aside.rs`).

use core::sync::atomic::{Ordering, compiler_fence};

use flightrec_format::abi::page::{HEADER_LEN, Lane, Refusal};
use flightrec_format::abi::record::{self, TICK_NS, counter, kind};
use flightrec_format::abi::state::{CpuState, LaneState, busy};

use crate::aside::{NOWHERE, claim_at_once, claim_kernel, is_waiting, settle, written};
use crate::atomic;
use crate::cpu::{now, this_cpu};
use crate::pages::{
    BODY, NAMES, Page, THREAD, TIME, UNIT, USED, bounded, length, make_room, off, page, store,
    thread_header,
};

/// A place for a group of records in the current page of a lane.
pub(crate) struct Writer<'a> {
    pub(crate) lane: &'a mut LaneState,
    page: *mut Page,
    /// Body offset of the next record.
    pub(crate) at: usize,
    /// Time of the event, ns. Read once the lane is held, so that a lane's times never go back.
    pub(crate) now: u64,
    /// 1: the place is the page aside, whose record waits when it is written.
    waits: u32,
}

impl<'a> Writer<'a> {
    /// Finds room for `need` bytes; opens the next page where the current one has too little. Names
    /// the `thread` of the records that follow, where the lane's last record was of another one; of
    /// `None`, none. On `None` nothing is recorded, and it is counted why. The lane is busy until
    /// [`Self::publish`]. `LEAST` is what `need` is at least, [`NAMES`] included, and what the
    /// verifier is told: a bound that varies would not survive Linux 6.1's (see [`bounded`]).
    /// `PREEMPTIBLE`: another program of the lane that may be preempted as well can run in the
    /// middle of this one.
    ///
    /// Where the place is comes from the lane's state after each branch, so that the verifier
    /// follows what is after them once.
    #[inline(always)]
    pub(crate) fn open<const LEAST: usize, const PREEMPTIBLE: bool>(
        lane: &'a mut LaneState,
        no_ring: &mut u64,
        name: Lane,
        need: usize,
        thread: Option<u32>,
    ) -> Option<Self> {
        if !claim::<PREEMPTIBLE>(lane, name) {
            return None;
        }
        let mut now = now();
        if matches!(name, Lane::Syscall) {
            // To the tick of calls' durations: finer times are noise, of which most of a file was.
            now &= !(TICK_NS - 1);
        }
        Self::in_lane::<LEAST>(lane, no_ring, name, need, thread, now, 0)
    }

    /// [`Self::open`] of lane `kernel`, whose programs may come in the middle of one another.
    #[inline(always)]
    pub(crate) fn open_kernel<const NEED: usize>(
        state: &'a mut CpuState,
        thread: u32,
    ) -> Option<Self> {
        let place = claim_kernel(state, NEED as u32);
        if place == NOWHERE {
            return None;
        }
        // Nothing is known to the verifier of which one it is, so it follows what is after once.
        let place = bounded::<0, 1>(place as usize);
        let kernel = &raw mut state.lanes[Lane::Kernel as usize];
        // SAFETY: `aside` stands after the lane (`abi::state`).
        let lane = unsafe { &mut *kernel.byte_add(place * size_of::<LaneState>()) };
        let now = lane.enter_time;
        let no_ring = &mut state.no_ring[Lane::Kernel as usize];
        Self::in_lane::<NEED>(lane, no_ring, Lane::Kernel, NEED, Some(thread), now, place as u32)
    }

    /// The rest of [`Self::open`], once the lane is claimed.
    #[inline(always)]
    fn in_lane<const LEAST: usize>(
        lane: &'a mut LaneState,
        no_ring: &mut u64,
        name: Lane,
        need: usize,
        thread: Option<u32>,
        now: u64,
        waits: u32,
    ) -> Option<Self> {
        if (off(lane) > BODY - need || now.wrapping_sub(lane.base) >> 32 != 0)
            && make_room(lane, name as u32, need as u32, now) == 0
        {
            *no_ring += 1;
            lane.busy = busy::IDLE;
            return None;
        }
        let Some(page) = page(name as u32, lane.ring_base + lane.page) else {
            lane.busy = busy::IDLE;
            return None;
        };
        if let Some(tid) = thread
            && lane.tid != tid
        {
            let at = bounded::<LEAST, { BODY + TIME }>(off(lane));
            // SAFETY: inside the page by the bound.
            unsafe {
                store::<HEADER_LEN>(page.cast::<u8>().add(at), thread_header(tid));
                (&raw mut lane.off).write_volatile((at + THREAD) as u32);
            }
            lane.tid = tid;
        }
        let at = bounded::<LEAST, { BODY + NAMES }>(off(lane));
        Some(Self { lane, page, at, now, waits })
    }

    #[inline(always)]
    pub(crate) fn body(&self) -> *mut u8 {
        Page::body(self.page)
    }

    /// The page that it writes to.
    #[inline(always)]
    pub(crate) fn page(&self) -> *mut Page {
        self.page
    }

    /// Stores a word at the next place.
    #[inline(always)]
    pub(crate) fn word(&mut self, v: u64) {
        // SAFETY: `open` made room; the verifier checks it again.
        unsafe { store::<HEADER_LEN>(self.place(), v) };
        self.at += 8;
    }

    /// Stores two words at the next place.
    #[inline(always)]
    pub(crate) fn words(&mut self, first: u64, second: u64) {
        let place = self.place();
        // SAFETY: as above.
        unsafe {
            store::<HEADER_LEN>(place, first);
            store::<{ HEADER_LEN + 8 }>(place, second);
        }
        self.at += 16;
    }

    /// The next place, less the header's length, which then is the store's own offset.
    #[inline(always)]
    fn place(&self) -> *mut u8 {
        // SAFETY: inside the page by `open`.
        unsafe { self.page.cast::<u8>().add(self.at) }
    }

    /// Names the thread of the records that follow.
    #[inline(always)]
    pub(crate) fn thread(&mut self, tid: u32) {
        self.word(thread_header(tid));
    }

    /// The upper half of a record's header: its time.
    #[inline(always)]
    pub(crate) fn time(&self) -> u32 {
        self.now.wrapping_sub(self.lane.base) as u32
    }

    /// Writes a record of a header and a body of fixed fields.
    #[inline(always)]
    pub(crate) fn record<T: Copy>(&mut self, kind: u8, body: T) {
        let since = self.time();
        self.word(record::header(kind, length(size_of::<T>()), 0, since));
        // By words, since a record need not be aligned to more than a unit.
        let body = Words(body);
        // SAFETY: the bodies have no padding between or after (`abi::kinds`), and `body` is
        // aligned to a word.
        let words = unsafe {
            core::slice::from_raw_parts((&raw const body).cast::<u64>(), size_of::<T>() / 8)
        };
        for word in words {
            self.word(*word);
        }
    }

    /// Makes what was written visible, counts an event of `kind`, and frees the lane.
    #[inline(always)]
    pub(crate) fn publish(self, kind: u8) -> &'a mut LaneState {
        compiler_fence(Ordering::Release);
        let used = ((HEADER_LEN + self.at) / UNIT) as u32;
        // SAFETY: a field of the page. The publishing store.
        unsafe { atomic::publish::<USED>(self.page.cast(), used) };
        self.lane.off = self.at as u32;
        self.lane.events[counter(kind)] += 1;
        compiler_fence(Ordering::Release);
        if kind >> 4 != kind::ENTER >> 4 {
            let done = written(self.waits, self.at);
            // SAFETY: a field of our own; volatile so that it stays last.
            unsafe { (&raw mut self.lane.busy).write_volatile(done) };
        }
        if kind >> 4 == kind::SAMPLE >> 4 {
            let state = this_cpu();
            if is_waiting(state) {
                settle(state);
            }
        }
        self.lane
    }
}

/// A body that can be read by words.
#[repr(C, align(8))]
struct Words<T>(T);

/// Makes the lane busy; where it is already, counts a refusal.
#[inline(always)]
fn claim<const PREEMPTIBLE: bool>(lane: &mut LaneState, name: Lane) -> bool {
    let refused = &raw mut lane.refused[Refusal::Busy as usize];
    if PREEMPTIBLE {
        if claim_at_once(lane, busy::IDLE) {
            return true;
        }
        // SAFETY: an aligned word of this CPU's state.
        unsafe { atomic::increment(refused) };
        return false;
    }
    if name as u8 == Lane::Syscall as u8 {
        // Its two tracepoints never meet on a CPU: preemption is off in either, and no interrupt
        // makes system calls.
        return true;
    }
    // SAFETY: fields of our own; volatile so that it is set before anything that follows.
    unsafe {
        if lane.busy != busy::IDLE {
            *refused += 1;
            return false;
        }
        (&raw mut lane.busy).write_volatile(busy::WRITING);
    }
    true
}
