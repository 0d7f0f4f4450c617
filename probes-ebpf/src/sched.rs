//! Scheduling: switches, wakeups, migrations. Interrupts are off in all of them but a self-wakeup
//! (see `lane`).

use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{self, kind, migrate, switch, wake};
use flightrec_format::abi::state::{CpuState, ENABLE_SCHED, ENABLE_TASK, LIMIT_SCHED, entered};

use crate::budget;
use crate::kernel::Task;
use crate::lane::{RINGS_SCHED, Writer, length, now, this_cpu};
use crate::slots;

/// THREAD, TIME, and a record of two words.
const ROOM: usize = 8 + 16 + 16;
/// `TASK_DEAD`, include/linux/sched.h, Linux 6.1.
const TASK_DEAD: u32 = 0x80;

/// Opens the lane for an event of thread `current`, if the budget allows it, and names the thread where the lane's last
/// switch did not: in a fresh page, and where a switch was refused, or the kernel ran no program for it.
#[inline(always)]
fn open(state: &mut CpuState, kind: u8, current: u32) -> Option<Writer<'_>> {
    let i = Lane::Sched as usize;
    if state.enabled & LIMIT_SCHED != 0 {
        let bucket = &mut state.buckets[i];
        if !budget::draw(bucket, bucket.cost) {
            budget::refuse_sched(state, kind);
            return None;
        }
    }
    let mut w = Writer::open::<ROOM>(&mut state.lanes[i], &mut state.no_ring[i], &RINGS_SCHED, Lane::Sched, ROOM)?;
    if w.fresh || w.lane.tid != current {
        w.thread(current);
        w.lane.tid = current;
    }
    Some(w)
}

/// Writes a record with a body of one word.
#[inline(always)]
fn put(mut w: Writer<'_>, kind: u8, aux: u16, word: u64) {
    let since = w.time();
    w.word(record::header(kind, length(8), aux, since));
    w.word(word);
    w.publish(kind);
}

#[btf_tracepoint(function = "sched_switch")]
fn sched_switch(ctx: BtfTracePointContext) -> Option<()> {
    let state = this_cpu()?;
    let preempted = ctx.arg::<u64>(0) & 0xff != 0;
    let (prev, next) = (Task::from_arg(ctx.arg(1)), Task::from_arg(ctx.arg(2)));
    let prev_state: u32 = ctx.arg(3);
    let (prev_tid, next_tid) = (prev.tid(), next.tid());
    let enabled = state.enabled;
    // Another thread's calls follow on this CPU: what was entered here is not what exits next.
    state.lanes[Lane::Syscall as usize].entered = entered::UNKNOWN;
    if enabled & (ENABLE_SCHED | ENABLE_TASK) == 0 {
        return None;
    }
    let mut time = 0;
    if enabled & ENABLE_SCHED != 0 {
        if let Some(w) = open(state, kind::SWITCH, prev_tid) {
            time = w.now;
            w.lane.tid = next_tid;
            let aux = prev.prio() as u16 | (next.prio() as u16) << 8;
            put(w, kind::SWITCH, aux, switch::pack(prev_tid, next_tid, prev_state, preempted));
        } else if enabled & LIMIT_SCHED != 0 {
            time = state.buckets[Lane::Sched as usize].time;
        }
    }
    if prev_tid != 0 && prev_state != 0 && !preempted {
        if prev_state & TASK_DEAD != 0 {
            slots::free(prev_tid, prev.start_time());
        } else {
            slots::block(prev, prev_state, if time == 0 { now() } else { time });
        }
    }
    if next_tid != 0 {
        slots::run(next_tid);
    }
    Some(())
}

#[btf_tracepoint(function = "sched_waking")]
fn sched_waking(ctx: BtfTracePointContext) -> Option<()> {
    let state = this_cpu()?;
    if state.enabled & ENABLE_SCHED == 0 {
        return None;
    }
    let task = Task::from_arg(ctx.arg(0));
    let w = open(state, kind::WAKING, Task::current().tid())?;
    put(w, kind::WAKING, task.prio() as u16, wake::pack(task.tid(), task.state(), task.cpu()));
    Some(())
}

#[btf_tracepoint(function = "sched_wakeup_new")]
fn sched_wakeup_new(ctx: BtfTracePointContext) -> Option<()> {
    let state = this_cpu()?;
    if state.enabled & ENABLE_SCHED == 0 {
        return None;
    }
    let task = Task::from_arg(ctx.arg(0));
    let w = open(state, kind::WAKEUP_NEW, Task::current().tid())?;
    put(w, kind::WAKEUP_NEW, task.prio() as u16, wake::pack(task.tid(), 0, task.cpu()));
    Some(())
}

#[btf_tracepoint(function = "sched_migrate_task")]
fn sched_migrate_task(ctx: BtfTracePointContext) -> Option<()> {
    let state = this_cpu()?;
    if state.enabled & ENABLE_SCHED == 0 {
        return None;
    }
    let task = Task::from_arg(ctx.arg(0));
    let to: u32 = ctx.arg(1);
    let w = open(state, kind::MIGRATE, Task::current().tid())?;
    put(w, kind::MIGRATE, task.prio() as u16, migrate::pack(task.tid(), task.cpu(), to));
    Some(())
}
