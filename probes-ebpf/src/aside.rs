//! Lane `kernel`'s place aside: events that come in the middle of another one.
//!
//! Its programs run in threads, with interrupts on, and in interrupts, so they meet often: a
//! request to a disk is done while another one is issued. An event that finds the lane busy is not
//! refused, but written to a page aside ([`CpuState::aside`]), and copied into the lane
//! ([`take_aside`]) before an event that is later, or when the other one has been written,
//! whichever comes first.
//!
//! While they are copied, more events may come and be appended, by an interrupt. The number that
//! [`LaneState::busy`] is while records wait tells: it is another one with each. What was copied is
//! published only if the page aside could be emptied at once, by an atomic that wants the number
//! from before the copy; else it is copied again.

use core::sync::atomic::{Ordering, compiler_fence};

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use flightrec_format::abi::kinds::LANE_KINDS;
use flightrec_format::abi::page::{HEADER_LEN, Lane, Refusal};
use flightrec_format::abi::state::{CpuState, LaneState, NO_THREAD, busy};

use crate::atomic;
use crate::cpu::now;
use crate::global::given;
use crate::pages::{BODY, NAMES, Page, UNIT, USED, bounded, next_page, off, page};

const KERNEL: u32 = Lane::Kernel as u32;

/// Has a program write the lane, if it is as `from` says ([`busy`]), by an atomic: another program
/// may come at any instruction.
#[inline(always)]
pub(crate) fn claim_at_once(lane: &mut LaneState, from: u32) -> bool {
    swap_busy(lane, from, busy::WRITING)
}

/// Changes [`LaneState::busy`], if it is as `from` says, by an atomic.
#[inline(always)]
fn swap_busy(lane: &mut LaneState, from: u32, to: u32) -> bool {
    let word = (&raw mut lane.busy).cast::<u64>();
    // SAFETY: `busy` and the field after it are an aligned word of this CPU's state.
    unsafe {
        let other = word.read_volatile() & !0xffff_ffff;
        atomic::swap(word, other | u64::from(from), other | u64::from(to))
    }
}

const _: () = assert!(core::mem::offset_of!(LaneState, busy) % 8 == 0);

/// [`claim_kernel`]: the lane.
const LANE: u32 = 0;
/// The page aside.
const ASIDE: u32 = 1;
/// Neither: it is counted.
pub(crate) const NOWHERE: u32 = 2;

/// [`LaneState::base`] of the page aside, so far from any time that each record there has its own.
const NO_BASE: u64 = 1 << 63;

/// Claims lane `kernel`, or where it is busy the page aside, for a record of `need` bytes; reads
/// the time of the event, which is [`LaneState::enter_time`] then.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn claim_kernel(state: *mut CpuState, need: u32) -> u32 {
    let Some(state) = given(state) else { return NOWHERE };
    if claim_at_once(&mut state.lanes[Lane::Kernel as usize], busy::IDLE) {
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
        state.lanes[Lane::Kernel as usize].enter_time = time;
        return LANE;
    }
    let aside = &mut state.aside;
    if aside.ring_pages != 0 && claim_at_once(aside, busy::IDLE) {
        aside.off = 0;
        aside.base = NO_BASE;
        aside.tid = NO_THREAD;
        aside.events = [0; LANE_KINDS];
        aside.enter_time = now();
        return ASIDE;
    }
    // An interrupt may tell of many requests that are done. It may have come just now, too.
    for _ in 0..2 {
        let number = number(aside);
        if number < busy::WAITING || aside.off + need > LARGE as u32 {
            break;
        }
        if claim_at_once(aside, number) {
            aside.enter_time = now();
            return ASIDE;
        }
    }
    // SAFETY: an aligned word of this CPU's state.
    unsafe { atomic::increment(&raw mut state.lanes[Lane::Kernel as usize].refused[BUSY]) };
    NOWHERE
}

const BUSY: usize = Refusal::Busy as usize;

/// [`LaneState::busy`], as it is now.
#[inline(always)]
fn number(lane: &LaneState) -> u32 {
    // SAFETY: a field of this CPU's state; volatile since programs come in between.
    unsafe { (&raw const lane.busy).read_volatile() }
}

/// What it becomes when a record ends at `at` of its page. `waits`: whether it is the page aside.
#[inline(always)]
pub(crate) fn written(waits: u32, at: usize) -> u32 {
    waits * (busy::WAITING + at as u32)
}

/// Whether an event of lane `kernel` can be written now.
#[inline(always)]
pub(crate) fn kernel_has_place(state: &CpuState) -> bool {
    number(&state.lanes[Lane::Kernel as usize]) == busy::IDLE
        || state.aside.ring_pages != 0 && number(&state.aside) != busy::WRITING
}

/// Whether an event waits aside.
#[inline(always)]
pub(crate) fn is_waiting(state: &CpuState) -> bool {
    number(&state.aside) >= busy::WAITING
}

/// Copies what waits aside into the lane, unless the lane is busy: then whoever writes there does
/// so. Twice, as another may come in between.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn settle(state: *mut CpuState) -> u32 {
    let Some(state) = given(state) else { return 0 };
    for _ in 0..2 {
        if !is_waiting(state) || !claim_at_once(&mut state.lanes[Lane::Kernel as usize], busy::IDLE)
        {
            return 0;
        }
        if is_waiting(state) {
            take_aside(state);
        }
        // SAFETY: a field of our own; volatile so that it stays last.
        unsafe {
            (&raw mut state.lanes[Lane::Kernel as usize].busy).write_volatile(busy::IDLE);
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

/// Copies what waits aside into the lane, which the caller has claimed. Where something came
/// meanwhile each time, it goes on waiting.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_aside(state: *mut CpuState) -> u32 {
    let Some(state) = given(state) else { return 0 };
    for _ in 0..2 {
        let number = number(&state.aside);
        if number < busy::WAITING {
            break;
        }
        let is_done = match off(&state.aside) {
            ..=SMALL => copy::<SMALL>(state, number),
            ..=MIDDLE => copy::<MIDDLE>(state, number),
            _ => copy::<LARGE>(state, number),
        };
        if is_done {
            break;
        }
    }
    0
}

/// The same of at most `MOST` bytes; whether it is done. `number`: what [`LaneState::busy`] of the
/// page aside was before anything of it was read.
#[inline(always)]
fn copy<const MOST: usize>(state: &mut CpuState, number: u32) -> bool {
    let CpuState { lanes, aside, copied, no_ring, .. } = state;
    let lane = &mut lanes[Lane::Kernel as usize];
    let (base, tid, time) = (aside.base, aside.tid, aside.enter_time);
    // A copy, as an event that comes after the emptying begins to count anew.
    for (n, of) in copied.iter_mut().zip(&aside.events) {
        // SAFETY: a field of our own; volatile as it has to be before the emptying.
        unsafe { (&raw mut *n).write_volatile(*of) };
    }
    // A program that writes aside and was preempted there may come back after a later event: a
    // lane's times never go back.
    let is_late = base < lane.enter_time;
    let page_there = is_late || off(lane) <= BODY - MOST || next_page(lane, KERNEL, base) != 0;
    let mut place = None;
    if !is_late
        && page_there
        && let Some(from) = page(KERNEL, aside.ring_base)
        && let Some(to) = page(KERNEL, lane.ring_base + lane.page)
    {
        let size = bounded::<0, MOST>(off(aside));
        let at = bounded::<MOST, BODY>(off(lane));
        // SAFETY: inside the pages by the bounds.
        unsafe {
            let (from, body) = (from.cast::<u8>().add(HEADER_LEN), Page::body(to).add(at));
            bpf_probe_read_kernel(body.cast(), size as u32, from.cast());
        }
        place = Some((to, at + size));
    }
    compiler_fence(Ordering::Release);
    if !swap_busy(aside, number, busy::IDLE) {
        return false;
    }
    if let Some((to, end)) = place {
        // SAFETY: a field of the page: the store that readers rely on, as in `publish`.
        unsafe { atomic::publish::<USED>(to.cast(), ((HEADER_LEN + end) / UNIT) as u32) };
        lane.off = end as u32;
        lane.base = base;
        lane.tid = tid;
        lane.enter_time = time;
        for (total, n) in lane.events.iter_mut().zip(copied.iter()) {
            *total += n;
        }
    } else if is_late {
        // SAFETY: an aligned word of this CPU's state.
        unsafe { atomic::add(&raw mut lane.refused[BUSY], copied.iter().sum()) };
    } else {
        no_ring[Lane::Kernel as usize] += copied.iter().sum::<u64>();
    }
    true
}
