//! What recording may cost: each CPU's token buckets ([`Bucket`]).
//!
//! What runs where a bucket holds little is a global function each: the verifier goes through it once
//! ([`crate::global`]).
//!
//! A CPU's bucket is drawn from by its own programs. Where one interrupts another (see `lane`), a
//! drawing may be lost, which the next make up for; the counters may not, and are atomic.

use aya_ebpf::helpers::generated::bpf_jiffies64;
use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::abi::record::{counter, kind};
use flightrec_format::abi::state::{Bucket, CpuState, GIVEN_STACKS, REFUSE_SYSCALL, SHARES, Share};

use crate::atomic;
use crate::cpu::now;
use crate::global::given;
use crate::kernel::Task;
use crate::share::{self, Process};

/// What events of task life that one process can make without end draw from their bucket, bytes of
/// the ring: the birth and the end of a thread that is not its process's first; and a rename, which
/// costs whoever makes it next to nothing, eight times what it takes.
pub(crate) const BIRTH: u32 = 64;
pub(crate) const END: u32 = 56;
pub(crate) const RENAME: u32 = 8 * 56;

/// `jiffies_64`: a clock that costs a load.
#[inline(always)]
pub(crate) fn jiffies() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_jiffies64() }
}

/// Takes the cost of an event out of the bucket, where it holds plenty.
#[inline(always)]
fn draw(bucket: &mut Bucket, cost: u32) -> bool {
    let tokens = bucket.tokens - i64::from(cost);
    if tokens < bucket.fair as i64 {
        return false;
    }
    bucket.tokens = tokens;
    true
}

/// Fills the bucket by the kernel's tick. Returns the jiffy.
#[inline(always)]
fn refill(bucket: &mut Bucket) -> u64 {
    let jiffy = jiffies();
    bucket.fill(jiffy, now);
    jiffy
}

/// Takes the cost of a system call of the running thread, which is noted.
#[inline(always)]
pub(crate) fn draw_call(state: &mut CpuState, cost: u32) -> bool {
    draw(&mut state.buckets[Lane::Syscall as usize], cost)
        || state.drawer.draw(&mut state.buckets[Lane::Syscall as usize], state.running.tgid, cost)
        || draw_call_fairly(state, cost) != 0
}

/// Looks at who draws.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn draw_call_fairly(state: *mut CpuState, cost: u32) -> u32 {
    let Some(state) = given(state) else { return 0 };
    if state.enabled & REFUSE_SYSCALL != 0 {
        return 0;
    }
    // What was refused stays so until the bucket may hold more.
    if state.drawer.tgid == state.running.tgid && state.drawer.refused == jiffies() {
        return 0;
    }
    let now = know_drawer(state);
    let i = Lane::Syscall as usize;
    let share = share::of(&mut state.shares[i], state.drawer.at);
    if share::draw(share, &mut state.buckets[i], cost) {
        let bucket = &mut state.buckets[i];
        state.drawer.quiet = u64::from(share::is_quiet(share, bucket));
        state.drawer.allow(share, bucket, cost);
        return 1;
    }
    state.drawer.refused = now;
    0
}

/// Fills the bucket of system calls, and finds the share of the process that runs. Returns the
/// jiffy.
#[inline(always)]
fn know_drawer(state: &mut CpuState) -> u64 {
    let i = Lane::Syscall as usize;
    let now = refill(&mut state.buckets[i]);
    let tgid = state.running.tgid;
    let share = share::of(&mut state.shares[i], state.drawer.at);
    if !state.drawer.look(share, &mut state.buckets[i]) || state.drawer.tgid != tgid {
        let process = Process { tgid, began: Task::cast(state.running.task).start_time() };
        state.drawer.at = share::find(&mut state.shares[i], &state.buckets[i], process);
        state.drawer.tgid = tgid;
        state.drawer.refused = 0;
    }
    now
}

/// Sees whether the process that runs makes so few calls that nothing of them is left out.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn see_drawer(state: *mut CpuState) -> u32 {
    let Some(state) = given(state) else { return 0 };
    let i = Lane::Syscall as usize;
    know_drawer(state);
    let share = share::of(&mut state.shares[i], state.drawer.at);
    let quiet = share::is_quiet(share, &state.buckets[i]);
    state.drawer.quiet = u64::from(quiet);
    u32::from(quiet)
}

/// Takes the cost of a call that is recorded in any case, at the expense of those that follow.
#[inline(always)]
pub(crate) fn owe_call(state: &mut CpuState) {
    owe(state, state.buckets[Lane::Syscall as usize].cost);
}

/// Takes what was spent on a call already; no debt is longer than what the bucket holds.
#[inline(always)]
pub(crate) fn owe(state: &mut CpuState, cost: u32) {
    if !draw(&mut state.buckets[Lane::Syscall as usize], cost) {
        owe_call_fairly(state, cost);
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn owe_call_fairly(state: *mut CpuState, cost: u32) -> u32 {
    let Some(state) = given(state) else { return 0 };
    let i = Lane::Syscall as usize;
    know_drawer(state);
    let (share, bucket) = (share::of(&mut state.shares[i], state.drawer.at), &mut state.buckets[i]);
    share::charge(share, bucket, cost);
    state.drawer.quiet = u64::from(share::is_quiet(share, bucket));
    if bucket.tokens > -(bucket.depth as i64) {
        bucket.tokens -= i64::from(cost);
    }
    0
}

/// Takes the cost of a scheduling event of these two threads, of whom one may be the CPU's idle
/// one.
#[inline(always)]
pub(crate) fn draw_sched(state: &mut CpuState, one: Task, other: Task) -> bool {
    let bucket = &mut state.buckets[Lane::Sched as usize];
    let cost = bucket.cost;
    draw(bucket, cost) || draw_sched_of(state, one, other)
}

/// Takes the cost of an event in which the running thread does something to `task`.
#[inline(always)]
pub(crate) fn draw_wakeup(state: &mut CpuState, task: Task) -> bool {
    let bucket = &mut state.buckets[Lane::Sched as usize];
    let cost = bucket.cost;
    draw(bucket, cost) || draw_sched_of(state, Task::current(), task)
}

/// The same where there is not plenty.
#[inline(always)]
fn draw_sched_of(state: &mut CpuState, one: Task, other: Task) -> bool {
    let (a, b) = (one.tgid(), other.tgid());
    draw_sched_fairly(state, a, one.start_time(), b, other.start_time()) != 0
}

/// The event is recorded if either of the two is quiet enough, and the louder one pays.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn draw_sched_fairly(
    state: *mut CpuState,
    a: u32,
    a_began: u64,
    b: u32,
    b_began: u64,
) -> u32 {
    let Some(state) = given(state) else { return 0 };
    let i = Lane::Sched as usize;
    refill(&mut state.buckets[i]);
    let bucket = &mut state.buckets[i];
    let shares = &mut state.shares[i];
    let cost = bucket.cost;
    // The idle thread is nobody.
    let first =
        Process { tgid: if a == 0 { b } else { a }, began: if a == 0 { b_began } else { a_began } };
    let at = share::find(shares, bucket, first);
    if a == 0 || b == 0 || a == b {
        return u32::from(share::draw(share::of(shares, at), bucket, cost));
    }
    let second = share::find(shares, bucket, Process { tgid: b, began: b_began });
    let (spent, also) = (
        share::weight(share::of(shares, at), bucket),
        share::weight(share::of(shares, second), bucket),
    );
    let (quiet, loud) = if spent <= also { (at, second) } else { (second, at) };
    if !share::gives(share::of(shares, quiet), bucket, cost) {
        return 0;
    }
    share::charge(share::of(shares, loud), bucket, cost);
    bucket.tokens -= i64::from(cost);
    1
}

/// Takes the cost of an event of lane `kernel`, out of what scheduling has: of one that the running
/// thread makes, if it is quiet enough.
#[inline(always)]
pub(crate) fn draw_kernel(state: &mut CpuState, cost: u32) -> bool {
    draw(&mut state.buckets[Lane::Sched as usize], cost) || draw_of(state, Task::current(), cost)
}

/// Takes a cost out of what scheduling has, at the expense of a thread's process.
#[inline(always)]
fn draw_of(state: &mut CpuState, task: Task, cost: u32) -> bool {
    let i = Lane::Sched as usize;
    let (bucket, shares) = (&raw mut state.buckets[i], &raw mut state.shares[i]);
    draw_fairly(bucket, shares, task.tgid(), task.start_time(), cost) != 0
}

/// Takes a cost out of a bucket, at the expense of a process.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn draw_fairly(
    bucket: *mut Bucket,
    shares: *mut [Share; SHARES],
    tgid: u32,
    began: u64,
    cost: u32,
) -> u32 {
    let (Some(bucket), Some(shares)) = (given(bucket), given(shares)) else { return 0 };
    refill(bucket);
    let at = share::find(shares, bucket, Process { tgid, began });
    u32::from(share::draw(share::of(shares, at), bucket, cost))
}

/// Takes the cost of the stack of `task`, which runs again; counts one that is refused. Not in the
/// lane's sum: no event is missing, as the stack's own record says that it was refused.
#[inline(always)]
pub(crate) fn draw_stack(state: &mut CpuState, task: Task) -> bool {
    let i = Lane::Sched as usize;
    let cost = state.stack_cost as u32;
    let gives = state.enabled & GIVEN_STACKS == 0
        && (draw(&mut state.buckets[i], cost) || draw_of(state, task, cost));
    if !gives {
        state.throttled[i][counter(kind::STACK)] += 1;
    }
    gives
}

/// Takes the cost of the running thread's own stack, at an event of lane `kernel`, whose record
/// says whether it was refused.
#[inline(always)]
pub(crate) fn draw_own_stack(state: &mut CpuState) -> bool {
    let cost = state.stack_cost as u32;
    draw(&mut state.buckets[Lane::Sched as usize], cost) || draw_of(state, Task::current(), cost)
}

/// Takes the cost of a sample's frames, at the expense of `task`, which runs; counts one that is
/// refused, as [`draw_stack`] does.
#[inline(always)]
pub(crate) fn draw_sample(state: &mut CpuState, task: Task) -> bool {
    let cost = state.sample_cost as u32;
    let gives = state.enabled & GIVEN_STACKS == 0
        && (draw(&mut state.buckets[Lane::Sched as usize], cost) || draw_of(state, task, cost));
    if !gives {
        count_refused_sample(state);
    }
    gives
}

/// Counts a sample without frames, or one that is left out.
#[inline(always)]
pub(crate) fn count_refused_sample(state: &mut CpuState) {
    state.throttled[Lane::Kernel as usize][counter(kind::SAMPLE)] += 1;
}

/// Takes the cost of one that is nobody's who runs here, as long as anything is left: a request
/// that is done (there are no more of these than were made), an interrupt.
#[inline(always)]
pub(crate) fn draw_unowned(state: &mut CpuState, cost: u32) -> bool {
    draw(&mut state.buckets[Lane::Sched as usize], cost) || draw_what_is_left(state, cost) != 0
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn draw_what_is_left(state: *mut CpuState, cost: u32) -> u32 {
    let Some(state) = given(state) else { return 0 };
    let bucket = &mut state.buckets[Lane::Sched as usize];
    refill(bucket);
    let tokens = bucket.tokens - i64::from(cost);
    if tokens < 0 {
        return 0;
    }
    bucket.tokens = tokens;
    1
}

/// A mean in which each new value counts an eighth. One beyond 100 us counts as that: something
/// else had the CPU.
#[inline(always)]
pub(crate) fn mean(mean: u64, value: u64) -> u64 {
    const MOST: u64 = 100_000;
    let value = if value < MOST { value } else { MOST };
    mean - mean / 8 + value / 8
}

/// Takes so many bytes out of what the ring of task life has for what `task`'s process makes
/// without end; counts an event of `kind` that is refused.
#[inline(always)]
pub(crate) fn draw_task(state: &mut CpuState, task: Task, kind: u8, cost: u32) -> bool {
    let i = Lane::Task as usize;
    let (bucket, shares) = (&mut state.buckets[i], &raw mut state.shares[i]);
    let gives = draw(bucket, cost)
        || draw_fairly(bucket, shares, task.tgid(), task.start_time(), cost) != 0;
    if !gives {
        refuse::<{ Lane::Task as usize }>(state, kind);
    }
    gives
}

/// The process has ended: its places are free.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn forget_drawer(state: *mut CpuState, tgid: u32) -> u32 {
    let Some(state) = given(state) else { return 0 };
    for shares in &mut state.shares {
        share::leave(shares, tgid);
    }
    0
}

/// Counts a system call's event that was refused. No other program of the lane can come between.
#[inline(always)]
pub(crate) fn refuse_call(state: &mut CpuState, kind: u8) {
    let i = Lane::Syscall as usize;
    state.lanes[i].refused[Refusal::Throttled as usize] += 1;
    state.throttled[i][counter(kind)] += 1;
}

/// Counts a scheduling event that was refused.
#[inline(always)]
pub(crate) fn refuse_sched(state: &mut CpuState, kind: u8) {
    refuse::<{ Lane::Sched as usize }>(state, kind);
}

/// Counts an event of lane `kernel` that was refused.
#[inline(always)]
pub(crate) fn refuse_kernel(state: &mut CpuState, kind: u8) {
    refuse::<{ Lane::Kernel as usize }>(state, kind);
}

/// Counts an event that was refused, of a lane whose programs may interrupt one another.
#[inline(always)]
fn refuse<const LANE: usize>(state: &mut CpuState, kind: u8) {
    // SAFETY: aligned words of this CPU's state.
    unsafe {
        atomic::increment(&raw mut state.lanes[LANE].refused[Refusal::Throttled as usize]);
        atomic::increment(&raw mut state.throttled[LANE][counter(kind)]);
    }
}
