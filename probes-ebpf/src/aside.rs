//! Lane `trace`'s place aside: events that come in the middle of another one.
//!
//! Its programs run in threads, with interrupts on, and in interrupts, so they meet often: a
//! request to a disk is done while another one is issued. An event that finds the lane busy is not
//! refused, but written to a page aside ([`CpuState::aside`]), and copied into the lane
//! ([`take_aside`]) before an event that is later, or when the other one has been written,
//! whichever comes first.

use core::sync::atomic::{Ordering, compiler_fence};

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use flightrec_format::abi::kinds::LANE_KINDS;
use flightrec_format::abi::page::{HEADER_LEN, Lane, Refusal};
use flightrec_format::abi::state::{CpuState, LaneState, NO_THREAD, busy};

use crate::atomic;
use crate::cpu::now;
use crate::global::given;
use crate::pages::{BODY, NAMES, Page, UNIT, USED, bounded, next_page, off, page};

const TRACE: u32 = Lane::Trace as u32;

/// Has a program write the lane, if it is as `from` says ([`busy`]), by an atomic: another program
/// may come at any instruction.
#[inline(always)]
pub(crate) fn claim_at_once(lane: &mut LaneState, from: u32) -> bool {
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
pub(crate) const NOWHERE: u32 = 2;

/// [`LaneState::base`] of the page aside, so far from any time that each record there has its own.
const NO_BASE: u64 = 1 << 63;

/// Claims lane `trace`, or where it is busy the page aside, for a record of `need` bytes; reads the
/// time of the event, which is [`LaneState::enter_time`] then.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn claim_trace(state: *mut CpuState, need: u32) -> u32 {
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
pub(crate) fn is_waiting(state: &CpuState) -> bool {
    // SAFETY: as above.
    unsafe { (&raw const state.aside.busy).read_volatile() == busy::WAITING }
}

/// Copies what waits aside into the lane, unless the lane is busy: then whoever writes there does
/// so. Twice, as another may come in between.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn settle(state: *mut CpuState) -> u32 {
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
/// fits into a byte) with its THREAD and TIME. And steps on the way there, so that few copies need
/// a new page.
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
    } else if off(lane) > BODY - MOST && next_page(lane, TRACE, aside.base) == 0 {
        no_ring[Lane::Trace as usize] += 1;
    } else if let Some(from) = page(TRACE, aside.ring_base)
        && let Some(to) = page(TRACE, lane.ring_base + lane.page)
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
        unsafe { atomic::publish::<USED>(to.cast(), used) };
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
