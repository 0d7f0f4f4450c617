//! How a record gets into a page.
//!
//! A lane of a CPU is written only by programs that cannot interrupt one another there, with one
//! exception that [`LaneState::busy`] refuses and counts: `sched_waking` of a thread that wakes
//! itself runs with interrupts on (`try_to_wake_up`, kernel/sched/core.c, Linux 6.1), so an
//! interrupt may bring another scheduling event in the middle of it. So plain stores suffice, and
//! the store of `used`, last, publishes. Readers: `format/src/live`. (On PREEMPT_RT, signals are
//! such an exception, too, as the lock under which they are sent sleeps there.)
//!
//! The task lane's tracepoints are preemptible from Linux 7.0 on (kernel commits a46023d5616e,
//! f7d327654b88), so two of its programs may meet on a CPU: there, `busy` is claimed by an atomic.
//! So it is in the trace lane, whose programs run in threads, with interrupts on, and in
//! interrupts. There, they meet often: a request to a disk is done while another one is issued. So
//! events that come in the middle of another one are not refused, but written to a page aside
//! ([`CpuState::aside`]), and copied into the lane ([`take_aside`]) before an event that is later,
//! or when the other one has been written, whichever comes first.

use core::arch::asm;
use core::sync::atomic::{Ordering, compiler_fence};

use aya_ebpf::helpers::generated::{
    bpf_get_smp_processor_id, bpf_ktime_get_ns, bpf_ktime_get_tai_ns, bpf_probe_read_kernel,
};
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
// A record is aligned to the unit, and nothing in it to more.
use flightrec_format::abi::kinds::LANE_KINDS;
pub(crate) use flightrec_format::abi::page::UNIT;
use flightrec_format::abi::page::{
    DETACHED_SHIFT, HEADER_KINDS, HEADER_LEN, Lane, MAGIC, PAGE_SIZE, RawHeader, Refusal, VERSION,
    header_len,
};
use flightrec_format::abi::probe::{LAST_CPU, STATE};
use flightrec_format::abi::record::{self, TICK_NS, counter, kind};
use flightrec_format::abi::state::{CpuState, LaneState, NO_THREAD, busy};

use crate::atomic;
use crate::global::given;

/// `BPF_F_MMAPABLE`, include/uapi/linux/bpf.h.
const MMAPABLE: u32 = 1 << 10;

/// Bytes behind the part of a page's header that every lane has. Where records are is counted from
/// there, so that it is the same in every lane; in one of more kinds they begin at [`further`].
pub(crate) const BODY: usize = PAGE_SIZE - HEADER_LEN;

/// Bytes of the counters of a lane's kinds that have no room in the first [`HEADER_LEN`] bytes.
#[inline(always)]
const fn further(lane: Lane) -> usize {
    header_len(lane) - HEADER_LEN
}

/// Stores 8 bytes `AT` bytes behind any address, by one store. The BPF machine has no alignment of
/// its own here: the kernel takes such stores to map values where the machine does
/// (`check_ptr_alignment`, kernel/bpf/verifier.c, Linux 6.1).
///
/// # Safety
/// The bytes are inside a page; the verifier checks it.
#[inline(always)]
pub(crate) unsafe fn store<const AT: usize>(p: *mut u8, v: u64) {
    // SAFETY: one store of 8 bytes.
    unsafe {
        asm!("*(u64 *)({p} + {at}) = {v}", p = in(reg) p, v = in(reg) v, at = const AT,
            options(nostack))
    };
}

/// Loads what [`store`] stores.
///
/// # Safety
/// The bytes are inside a page or a map's value; the verifier checks it.
#[inline(always)]
pub(crate) unsafe fn load<const AT: usize>(p: *const u8) -> u64 {
    let v;
    // SAFETY: one load of 8 bytes.
    unsafe {
        asm!("{v} = *(u64 *)({p} + {at})", p = in(reg) p, v = out(reg) v, at = const AT,
            options(nostack, readonly))
    };
    v
}

/// The length of a record with a body of so many bytes, a multiple of [`UNIT`].
#[inline(always)]
pub(crate) const fn length(body: usize) -> u8 {
    ((8 + body) / UNIT) as u8
}

/// A page of a ring or table.
#[repr(C, align(8))]
pub(crate) struct Page([u8; PAGE_SIZE]);

impl Page {
    #[inline(always)]
    pub(crate) fn header(page: *mut Self) -> *mut RawHeader {
        page.cast()
    }

    #[inline(always)]
    pub(crate) fn body(page: *mut Self) -> *mut u8 {
        // SAFETY: the header lies inside the page.
        unsafe { page.cast::<u8>().add(HEADER_LEN) }
    }
}

#[map(name = "rings_syscall")]
pub(crate) static RINGS_SYSCALL: Array<Page> = Array::with_max_entries(1, MMAPABLE);
#[map(name = "rings_sched")]
pub(crate) static RINGS_SCHED: Array<Page> = Array::with_max_entries(1, MMAPABLE);
#[map(name = "rings_task")]
pub(crate) static RINGS_TASK: Array<Page> = Array::with_max_entries(1, MMAPABLE);
#[map(name = "rings_trace")]
pub(crate) static RINGS_TRACE: Array<Page> = Array::with_max_entries(1, MMAPABLE);
/// Written by the daemon alone; here so that it is made, pinned and found with the rest.
#[map(name = "meta")]
static META: Array<Page> = Array::with_max_entries(1, MMAPABLE);

/// The recording's secret, which its pages say (`flightrec_format`: `identity`). Filled by the
/// loader.
#[unsafe(no_mangle)]
static SESSION: u64 = 0;

#[inline(always)]
pub(crate) fn now() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_ktime_get_ns() }
}

/// This CPU's number.
#[inline(always)]
pub(crate) fn cpu() -> u32 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_get_smp_processor_id() }
}

/// This CPU's state.
#[inline(always)]
pub(crate) fn this_cpu() -> &'static mut CpuState {
    // SAFETY: only programs on this CPU write this CPU's state, and `busy` keeps a nested one out
    // of what the outer one is using; the daemon writes `enabled` and `own_tgid` alone.
    unsafe { &mut *state_of(cpu()) }
}

/// The state of any CPU; of a number that none has, the first one's.
#[inline(always)]
pub(crate) fn state_of(cpu: u32) -> *mut CpuState {
    let mut at = u64::from(cpu);
    let state;
    // SAFETY: arithmetic on two registers; the loader puts in the address and the last CPU's
    // number.
    unsafe {
        asm!("if {at} <= {last} goto +1", "{at} = 0", "{at} *= {size}", "{state} = {first} ll",
            "{state} += {at}", at = inout(reg) at, state = out(reg) state, last = const LAST_CPU,
            size = const size_of::<CpuState>(), first = const STATE, options(nomem, nostack));
    }
    let _ = at;
    state
}

/// Whether a CPU can have this number.
#[inline(always)]
pub(crate) fn is_cpu(cpu: u32) -> bool {
    let mut at = u64::from(cpu) + 1;
    // SAFETY: a comparison, with what the loader puts in: the last CPU's number.
    unsafe {
        asm!("if {cpu} <= {last} goto +1", "{at} = 0", at = inout(reg) at,
            cpu = in(reg) u64::from(cpu), last = const LAST_CPU, options(nomem, nostack));
    }
    at != 0
}

/// `value`, which is at most `OF` less `ROOM`, so that the verifier knows it wherever the compiler
/// keeps it. Up to Linux 6.8 a number that was put on the stack before it was compared is another
/// one to the verifier than the one compared (seen on 6.1: `check_stack_write_fixed_off`,
/// kernel/bpf/verifier.c), so comparison and result must be one piece. And what is added to a
/// pointer before it is compared is not bounded by the comparison (seen on 6.1, where the compiler
/// had put it so): here it can't be.
#[inline(always)]
pub(crate) fn bounded<const ROOM: usize, const OF: usize>(value: usize) -> usize {
    let mut r = value;
    // SAFETY: arithmetic on one register.
    unsafe {
        asm!("if {r} <= {max} goto +1", "{r} = 0", r = inout(reg) r, max = const OF - ROOM,
            options(nomem, nostack));
    }
    r
}

/// A place for a group of records in the current page of a lane.
pub(crate) struct Writer<'a> {
    pub(crate) lane: &'a mut LaneState,
    page: *mut Page,
    /// Body offset of the next record.
    pub(crate) at: usize,
    /// Time of the event, ns. Read once the lane is held, so that a lane's times never go back.
    pub(crate) now: u64,
    /// What [`LaneState::busy`] is when the records are written.
    done: u32,
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
    /// follows what is behind them once.
    #[inline(always)]
    pub(crate) fn open<const LEAST: usize, const PREEMPTIBLE: bool>(
        lane: &'a mut LaneState,
        no_ring: &mut u64,
        rings: &'static Array<Page>,
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
        Self::in_lane::<LEAST>(lane, no_ring, rings, name, need, thread, now, busy::IDLE)
    }

    /// [`Self::open`] of lane `trace`, whose programs may come in the middle of one another.
    #[inline(always)]
    pub(crate) fn open_trace<const NEED: usize>(
        state: &'a mut CpuState,
        thread: u32,
    ) -> Option<Self> {
        let place = claim_trace(state, NEED as u32);
        if place == NOWHERE {
            return None;
        }
        // Nothing is known to the verifier of which one it is, so it follows what is behind once.
        let place = bounded::<0, 1>(place as usize);
        let trace = &raw mut state.lanes[Lane::Trace as usize];
        // SAFETY: `aside` stands behind the lane (`abi::state`).
        let lane = unsafe { &mut *trace.byte_add(place * size_of::<LaneState>()) };
        let now = lane.enter_time;
        let done = place as u32 * busy::WAITING;
        let no_ring = &mut state.no_ring[Lane::Trace as usize];
        let (rings, name) = (&RINGS_TRACE, Lane::Trace);
        Self::in_lane::<NEED>(lane, no_ring, rings, name, NEED, Some(thread), now, done)
    }

    /// The rest of [`Self::open`], once the lane is claimed.
    #[inline(always)]
    #[expect(clippy::too_many_arguments)]
    fn in_lane<const LEAST: usize>(
        lane: &'a mut LaneState,
        no_ring: &mut u64,
        rings: &'static Array<Page>,
        name: Lane,
        need: usize,
        thread: Option<u32>,
        now: u64,
        done: u32,
    ) -> Option<Self> {
        if (off(lane) > BODY - need || now.wrapping_sub(lane.base) >> 32 != 0)
            && make_room(lane, name as u32, need as u32, now) == 0
        {
            *no_ring += 1;
            lane.busy = busy::IDLE;
            return None;
        }
        let Some(page) = rings.get_ptr_mut(lane.ring_base + lane.page) else {
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
        Some(Self { lane, page, at, now, done })
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
        // SAFETY: the bodies have no padding between or behind (`abi::kinds`), and `body` is
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
        let header = Page::header(self.page);
        // SAFETY: a field of the page. Volatile and last: the publishing store. Stores are not
        // reordered on x86_64, the one machine supported.
        unsafe { (&raw mut (*header).used).write_volatile(((HEADER_LEN + self.at) / UNIT) as u32) };
        self.lane.off = self.at as u32;
        self.lane.events[counter(kind)] += 1;
        compiler_fence(Ordering::Release);
        if kind >> 4 != kind::ENTER >> 4 {
            // SAFETY: a field of our own; volatile so that it stays last.
            unsafe { (&raw mut self.lane.busy).write_volatile(self.done) };
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

/// Has a program write the lane, if it is as `from` says ([`busy`]), by an atomic: another program
/// may come at any instruction.
#[inline(always)]
fn claim_at_once(lane: &mut LaneState, from: u32) -> bool {
    let word = (&raw mut lane.busy).cast::<u64>();
    // SAFETY: `busy` and the field behind it are an aligned word of this CPU's state.
    unsafe {
        let other = word.read_volatile() & !0xffff_ffff;
        atomic::swap(word, other | u64::from(from), other | u64::from(busy::WRITING))
    }
}

const _: () = assert!(core::mem::offset_of!(LaneState, busy) % 8 == 0);

/// [`claim_trace`]: the lane.
const LANE: u32 = 0;
/// The page aside.
const ASIDE: u32 = 1;
/// Neither: it is counted.
const NOWHERE: u32 = 2;

/// [`LaneState::base`] of the page aside, so far from any time that each record there has its own.
const NO_BASE: u64 = 1 << 63;

/// Claims lane `trace`, or where it is busy the page aside, for a record of `need` bytes; reads the
/// time of the event, which is [`LaneState::enter_time`] then.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn claim_trace(state: *mut CpuState, need: u32) -> u32 {
    let Some(state) = given(state) else { return NOWHERE };
    if claim_at_once(&mut state.lanes[Lane::Trace as usize], busy::IDLE) {
        let mut time = now();
        // What came between the claim and the time is earlier than this event, and goes first. Once
        // that is copied, more may have come.
        for _ in 0..3 {
            if !is_waiting(state) || state.aside.base > time {
                break;
            }
            take_aside(state);
            time = now();
        }
        state.lanes[Lane::Trace as usize].enter_time = time;
        return LANE;
    }
    let aside = &mut state.aside;
    if aside.ring_pages != 0 && claim_at_once(aside, busy::IDLE) {
        aside.off = 0;
        aside.base = NO_BASE;
        aside.tid = NO_THREAD;
        aside.enter_time = now();
        return ASIDE;
    }
    // An interrupt may tell of many requests that are done.
    if aside.off + need <= LARGE as u32 && claim_at_once(aside, busy::WAITING) {
        aside.enter_time = now();
        return ASIDE;
    }
    // SAFETY: an aligned word of this CPU's state.
    unsafe { atomic::increment(&raw mut state.lanes[Lane::Trace as usize].refused[BUSY]) };
    NOWHERE
}

const BUSY: usize = Refusal::Busy as usize;

/// Whether an event of lane `trace` can be written now.
#[inline(always)]
pub(crate) fn trace_has_place(state: &CpuState) -> bool {
    let busy = |lane: &LaneState| {
        // SAFETY: a field of this CPU's state; volatile since programs come in between.
        unsafe { (&raw const lane.busy).read_volatile() }
    };
    busy(&state.lanes[Lane::Trace as usize]) == busy::IDLE
        || state.aside.ring_pages != 0 && busy(&state.aside) != busy::WRITING
}

/// Whether an event waits aside.
#[inline(always)]
fn is_waiting(state: &CpuState) -> bool {
    // SAFETY: as above.
    unsafe { (&raw const state.aside.busy).read_volatile() == busy::WAITING }
}

/// Copies what waits aside into the lane, unless the lane is busy: then whoever writes there does
/// so. Twice, as another may come in between.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn settle(state: *mut CpuState) -> u32 {
    let Some(state) = given(state) else { return 0 };
    for _ in 0..2 {
        if !is_waiting(state) || !claim_at_once(&mut state.lanes[Lane::Trace as usize], busy::IDLE)
        {
            return 0;
        }
        if is_waiting(state) {
            take_aside(state);
        }
        // SAFETY: a field of our own; volatile so that it stays last.
        unsafe {
            (&raw mut state.lanes[Lane::Trace as usize].busy).write_volatile(busy::IDLE);
        }
    }
    0
}

/// Most bytes that wait aside: room for the longest record (its length is a number of units that
/// fits into a byte) with its THREAD and TIME. And steps on the way there, so that few copies need a
/// new page.
const LARGE: usize = NAMES + UNIT * u8::MAX as usize;
const MIDDLE: usize = LARGE / 4;
const SMALL: usize = 128;

/// Copies what waits aside into the lane, which the caller has claimed.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_aside(state: *mut CpuState) -> u32 {
    let Some(state) = given(state) else { return 0 };
    match off(&state.aside) {
        ..=SMALL => copy::<SMALL>(state),
        ..=MIDDLE => copy::<MIDDLE>(state),
        _ => copy::<LARGE>(state),
    }
}

/// The same of at most `MOST` bytes.
#[inline(always)]
fn copy<const MOST: usize>(state: &mut CpuState) -> u32 {
    let CpuState { lanes, aside, no_ring, .. } = state;
    let lane = &mut lanes[Lane::Trace as usize];
    // A program that writes aside and was preempted there may come back after a later event: a
    // lane's times never go back.
    if aside.base < lane.enter_time {
        // SAFETY: an aligned word of this CPU's state.
        unsafe { atomic::add(&raw mut lane.refused[BUSY], aside.events.iter().sum()) };
    } else if off(lane) > BODY - MOST && next_page(lane, Lane::Trace as u32, aside.base) == 0 {
        no_ring[Lane::Trace as usize] += 1;
    } else if let Some(from) = RINGS_TRACE.get_ptr(aside.ring_base)
        && let Some(to) = RINGS_TRACE.get_ptr_mut(lane.ring_base + lane.page)
    {
        let size = bounded::<0, MOST>(off(aside));
        let at = bounded::<MOST, BODY>(off(lane));
        // SAFETY: inside the pages by the bounds. The stores to the page in the order that readers
        // rely on, as in `publish`.
        unsafe {
            let (from, to) = (from.cast::<u8>().add(HEADER_LEN), Page::body(to).add(at));
            bpf_probe_read_kernel(to.cast(), size as u32, from.cast());
        }
        compiler_fence(Ordering::Release);
        let used = ((HEADER_LEN + at + size) / UNIT) as u32;
        // SAFETY: a field of the page.
        unsafe { (&raw mut (*Page::header(to)).used).write_volatile(used) };
        lane.off = (at + size) as u32;
        lane.base = aside.base;
        lane.tid = aside.tid;
        lane.enter_time = aside.enter_time;
        for (total, n) in lane.events.iter_mut().zip(&aside.events) {
            *total += n;
        }
    }
    aside.events = [0; LANE_KINDS];
    compiler_fence(Ordering::Release);
    // SAFETY: a field of our own; volatile so that it stays last.
    unsafe { (&raw mut aside.busy).write_volatile(busy::IDLE) };
    0
}

/// Bytes of a THREAD and of a TIME record, which may stand before an event's own.
const THREAD: usize = 8;
const TIME: usize = 16;
/// Bytes of both.
pub(crate) const NAMES: usize = THREAD + TIME;

#[inline(always)]
fn thread_header(tid: u32) -> u64 {
    record::header(kind::THREAD, length(0), 0, tid)
}

/// [`LaneState::off`], of which the verifier then knows nothing.
#[inline(always)]
fn off(lane: &LaneState) -> usize {
    // SAFETY: a field of our own; volatile so that it is loaded here.
    unsafe { (&raw const lane.off).read_volatile() as usize }
}

/// Makes room for `need` bytes in the current page, where that has less, or a new time base, where
/// the last one is more than 2^32 ns (4.3 s) ago; 0: this CPU has no ring. Rare.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn make_room(lane: *mut LaneState, name: u32, need: u32, now: u64) -> u32 {
    let Some(lane) = given(lane) else { return 0 };
    let at = off(lane);
    if at as u64 + u64::from(need) > BODY as u64 {
        return next_page(lane, name, now);
    }
    let Some(page) = page(name, lane.ring_base + lane.page) else { return 0 };
    let at = bounded::<TIME, BODY>(at);
    // SAFETY: inside the page by the bound.
    unsafe {
        let place = page.cast::<u8>().add(at);
        store::<HEADER_LEN>(place, record::header(kind::TIME, length(8), 0, 0));
        store::<{ HEADER_LEN + 8 }>(place, now);
    }
    lane.base = now;
    lane.off = (at + TIME) as u32;
    1
}

const SYSCALL: u32 = Lane::Syscall as u32;
const SCHED: u32 = Lane::Sched as u32;
const TASK: u32 = Lane::Task as u32;

/// A page of a lane's rings.
#[inline(always)]
fn page(name: u32, index: u32) -> Option<*mut Page> {
    match name {
        SYSCALL => RINGS_SYSCALL.get_ptr_mut(index),
        SCHED => RINGS_SCHED.get_ptr_mut(index),
        TASK => RINGS_TASK.get_ptr_mut(index),
        _ => RINGS_TRACE.get_ptr_mut(index),
    }
}

/// Opens the ring's next page, in the order that readers rely on: used = 0, seq, the rest.
#[inline(always)]
fn next_page(lane: &mut LaneState, name: u32, time: u64) -> u32 {
    // Here and not before: what has no ring has never had a page open.
    if lane.ring_pages == 0 {
        return 0;
    }
    let next = if lane.seq == 0 || lane.page + 1 >= lane.ring_pages { 0 } else { lane.page + 1 };
    let Some(page) = page(name, lane.ring_base + next) else { return 0 };
    let further = match name {
        SYSCALL => further(Lane::Syscall),
        SCHED => further(Lane::Sched),
        TASK => further(Lane::Task),
        _ => further(Lane::Trace),
    };
    let header = Page::header(page);
    let seq = lane.seq + 1;
    // SAFETY: `page` is a whole page, and this lane's programs are its only writers. Volatile
    // keeps the order.
    unsafe {
        (&raw mut (*header).used).write_volatile(0);
        (&raw mut (*header).seq).write_volatile(seq);
        (&raw mut (*header).magic).write_volatile(MAGIC);
        (&raw mut (*header).session).write_volatile((&raw const SESSION).read_volatile());
        (&raw mut (*header).version).write_volatile(VERSION);
        (&raw mut (*header).lane).write_volatile(name as u8);
        (&raw mut (*header).flags).write_volatile(0);
        (&raw mut (*header).cpu).write_volatile(cpu() as u16);
        (&raw mut (*header).header_len).write_volatile((HEADER_LEN + further) as u16);
        (&raw mut (*header).base_mono).write_volatile(time);
        // The two clocks are read side by side, and the one is carried back to the page's base.
        let tai = bpf_ktime_get_tai_ns();
        let since = now().wrapping_sub(time);
        (&raw mut (*header).base_tai).write_volatile(tai.wrapping_sub(since));
        let detached = (&raw const (*state_of(cpu())).detached_time).read_volatile();
        (&raw mut (*header).detached).write_volatile((detached >> DETACHED_SHIFT) as u32);
        let events = (&raw mut (*header).events).cast::<u64>();
        for (i, n) in lane.events.iter().enumerate().take(HEADER_KINDS) {
            events.add(i).write_volatile(*n);
        }
        let others = header.add(1).cast::<u64>();
        for (i, n) in lane.events.iter().skip(HEADER_KINDS).enumerate() {
            if 8 * i < further {
                others.add(i).write_volatile(*n);
            }
        }
        let refused = (&raw mut (*header).refused).cast::<u64>();
        for (i, n) in lane.refused.iter().enumerate() {
            refused.add(i).write_volatile(*n);
        }
    }
    lane.page = next;
    lane.seq = seq;
    lane.base = time;
    lane.off = further as u32;
    // The page names none yet.
    lane.tid = NO_THREAD;
    1
}
