//! What a new recording's maps hold before anything is recorded, and what its events cost.

use std::mem::offset_of;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::kinds::LANE_KINDS;
use flightrec_format::abi::page::{
    COPY_MAGIC, HEADER_LEN, Lane, PAGE_SIZE, PageHeader, REFUSALS, RING_LANES, Refusal, UNIT,
    VERSION,
};
use flightrec_format::abi::state::{
    BUCKETS, CLOSED, CpuState, Drawer, ENABLE_SCHED, ENABLE_SYSCALL, GIVEN_ARGUMENTS,
    GIVEN_EXIT_TIMES, LOCK_WAITS, LaneState, LockWait, NO_STACKS, NO_THREAD, REFUSE_SYSCALL,
    RESERVED, Running, SHARES, Share, TIMED_BUCKETS, entered,
};
use flightrec_format::encode::write_header;
use flightrec_format::live::map::ArrayMap;
use flightrec_format::live::write_head;

use super::plan::Plan;
use crate::buckets;
use crate::{calibrate, clock};

/// What a stack is assumed to cost until some were taken, ns.
const STACK_COST: u64 = 2000;

/// What a sample's frames are assumed to cost until some were taken, ns.
const SAMPLE_COST: u64 = 15_000;

/// What the program on a configured tracepoint is assumed to take until some events were measured,
/// ns.
const TRACEPOINT_COST: u64 = 300;

/// Gives each CPU its state: its rings, none of which has a page yet, and what is recorded.
pub(super) fn prepare_state(state: &ArrayMap, plan: &Plan) {
    let enabled = plan.enabled;
    for cpu in 0..state.entries() {
        let position = plan.online.iter().position(|online| usize::from(*online) == cpu);
        // Of lane `kernel` the last page is where events wait that come in the middle of another.
        let kernel = Lane::Kernel as usize;
        let pages = |i: usize| match plan.sizing.ring_pages[i] {
            pages @ 2.. if i == kernel => pages - 1,
            pages => pages,
        };
        let lane = |i: usize| LaneState {
            off: CLOSED,
            page: 0,
            ring_base: position.map_or(0, |p| p as u32 * plan.sizing.ring_pages[i]),
            ring_pages: if position.is_some() { pages(i) } else { 0 },
            seq: 0,
            base: 0,
            busy: 0,
            tid: NO_THREAD,
            entered: 0,
            enter_off: 0,
            enter_time: 0,
            events: [0; LANE_KINDS],
            refused: [0; REFUSALS],
        };
        let first = lane(kernel);
        let spare = position.map_or(0, |_| plan.sizing.ring_pages[kernel] - first.ring_pages);
        let aside =
            LaneState { ring_base: first.ring_base + first.ring_pages, ring_pages: spare, ..first };
        let cpu_state = CpuState {
            enabled,
            own_tgid: 0, // set once the programs can say what it is
            running: Running::default(),
            preempt_count: 0,
            // None while what other events cost is measured.
            long_wait: NO_STACKS,
            frames: 0,
            stack_cost: STACK_COST,
            stack_time: 0,
            looked: 0,
            sample_frames: [0; 2],
            sample_cost: SAMPLE_COST,
            tracepoint_cost: TRACEPOINT_COST,
            long_interrupt: u64::MAX,
            long_lock: u64::MAX,
            hardirq_since: 0,
            softirq_since: 0,
            throttled_since: 0,
            spins: [LockWait::default(); LOCK_WAITS],
            no_ring: [0; RING_LANES],
            strings: 0,
            lanes: std::array::from_fn(lane),
            aside,
            copied: [0; LANE_KINDS],
            buckets: Default::default(),
            drawer: Drawer::default(),
            throttled: Default::default(),
            slot_collisions: 0,
            limits: [0; TIMED_BUCKETS],
            measured: 0,
            detached: 0,
            full: [0; TIMED_BUCKETS],
            floor: [0; TIMED_BUCKETS],
            disk: [0; 2],
            savings: [0; 2],
            total: 0,
            clock: 0,
            detached_time: 0,
            reserved: [0; RESERVED],
            shares: [[Share::default(); SHARES]; BUCKETS],
        };
        // SAFETY: plain integers without padding (their sizes are pinned in format::abi::state).
        let bytes = unsafe {
            std::slice::from_raw_parts((&raw const cpu_state).cast::<u8>(), size_of::<CpuState>())
        };
        state.write(cpu, 0, bytes);
    }
    buckets::set_task_life(state);
}

/// Times events with the probes attached: in full, and with things left out. What that had them
/// count as refused is taken back, since nobody else's event was.
pub(super) fn time_attached(
    state: &ArrayMap,
    enabled: u32,
    without: Option<&calibrate::Times>,
) -> calibrate::With {
    let switch = |enabled: u32| {
        for cpu in 0..state.entries() {
            state.write(cpu, 0, &u64::from(enabled).to_le_bytes());
        }
    };
    let call = |given: u32| {
        switch(enabled | given);
        calibrate::Pinned::here().map_or(f64::NAN, |_pinned| calibrate::time_call())
    };
    let full = calibrate::time(without);
    let (untimed, first_argument) = (call(GIVEN_EXIT_TIMES), call(GIVEN_ARGUMENTS));
    switch(enabled & !ENABLE_SCHED | REFUSE_SYSCALL);
    let floor = calibrate::time(without);
    // No page may open while the totals in its header are to be taken back.
    switch(enabled & !ENABLE_SYSCALL);
    take_back(state);
    switch(enabled);
    calibrate::With { full, floor, untimed, first_argument }
}

/// Takes back what was refused while nothing was to be recorded, which counted for nobody; now
/// system calls are off. Calls that were entered before end now, and must not be counted any more:
/// they are as calls whose entry was not seen. A program that runs at this moment on another CPU
/// may still count, so this is done until nothing has come for a while.
fn take_back(state: &ArrayMap) {
    /// Longer than a program takes, also where the machine's own CPUs are shared.
    const WHILE: Duration = Duration::from_millis(2);
    const MOST: usize = 20;
    let lane = offset_of!(CpuState, lanes) + Lane::Syscall as usize * size_of::<LaneState>();
    let refused =
        lane + offset_of!(LaneState, refused) + Refusal::Throttled as usize * size_of::<u64>();
    let throttled = offset_of!(CpuState, throttled);
    for _ in 0..MOST {
        std::thread::sleep(WHILE);
        let mut came = false;
        for cpu in 0..state.entries() {
            if let Some(entered) = state.u32(cpu, lane + offset_of!(LaneState, entered)) {
                let was = entered.compare_exchange(
                    entered::REFUSED,
                    entered::UNKNOWN,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                );
                came |= was.is_ok();
            }
            came |= state.load(cpu, refused) != 0 || state.load(cpu, throttled) != 0;
            state.write(cpu, refused, &[0; 8]);
            state.write(cpu, throttled, &[0; size_of::<u64>() * LANE_KINDS]);
        }
        if !came {
            break;
        }
    }
}

/// Gives each page of the thread table its header.
pub(super) fn prepare_slots(slots: &ArrayMap, secret: u64) {
    let now = clock::mono();
    for index in 0..slots.entries() {
        let header = PageHeader {
            magic: COPY_MAGIC,
            session: secret,
            version: VERSION,
            lane: Lane::Slots as u8,
            flags: 0,
            cpu: 0,
            header_len: HEADER_LEN as u16,
            seq: index as u64 + 1,
            base_mono: now,
            base_tai: (now as i64 + clock::wall_offset() + clock::tai_offset() * 1_000_000_000)
                as u64,
            used: (PAGE_SIZE / UNIT) as u32,
            detached: 0,
            events: Counts::ZERO,
            refused: [0; REFUSALS],
        };
        write_head(slots, index, &write_header(&header), secret);
    }
}
