//! Scheduling: switches, wakeups, migrations. Interrupts are off in all of them but a self-wakeup
//! (see `lane`).
//!
//! And signals, which belong here and not to task life: timers send some out of interrupts, and
//! programs take hundreds a second for as long as they run (the Go runtime's preemption,
//! profilers), which would leave the ring of task life no room for anything else. Both tracepoints
//! are under `siglock`, with interrupts off but on PREEMPT_RT. A flood of them is bounded as one of
//! wakeups is: the busier of sender and target pays.

use core::ffi::c_void;
use core::mem::replace;
use core::ptr::null;

use aya_ebpf::EbpfContext;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use flightrec_format::abi::kinds::{SignalDeliver, SignalGenerate};
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{self, kind, migrate, switch, wake};
use flightrec_format::abi::state::{
    CpuState, ENABLE_LOCKS, ENABLE_MEMORY, ENABLE_SCHED, ENABLE_SIGNALS, ENABLE_TASK,
    ENABLE_THREAD_CONTEXTS, LIMIT_SCHED, LaneState, entered,
};

use crate::cpu::{now, this_cpu};
use crate::kernel::{Task, arg, comm_bytes, number, peek};
use crate::lane::Writer;
use crate::pages::{BODY, NAMES, Page, RINGS_SYSCALL, length};
use crate::sched_lane::open;
use crate::{budget, context, contexts, running, slots, stacks, waits};

/// THREAD, TIME, and a record of two words.
const ROOM: usize = NAMES + 16;
/// THREAD, TIME, and a signal's record.
const SIGNAL_ROOM: usize = NAMES + 8 + size_of::<SignalGenerate>();
/// `TASK_DEAD`, include/linux/sched.h, Linux 6.1.
const TASK_DEAD: u32 = 0x80;

/// Writes a record with a body of one word.
#[inline(always)]
fn put(mut w: Writer<'_>, kind: u8, aux: u16, word: u64) {
    let since = w.time();
    w.words(record::header(kind, length(8), aux, since), word);
    w.publish(kind);
}

#[btf_tracepoint(function = "sched_switch")]
fn sched_switch(ctx: BtfTracePointContext) -> Option<()> {
    let ctx = ctx.as_ptr();
    let state = this_cpu();
    // Another thread's calls follow on this CPU: what was entered here is not what exits next.
    let began = replace(&mut state.lanes[Lane::Syscall as usize].entered, entered::UNKNOWN);
    running::note(state, next(ctx));
    context::see(state, prev(ctx));
    if state.enabled & ENABLE_THREAD_CONTEXTS != 0 {
        contexts::leave(state, prev(ctx));
    }
    let enabled = state.enabled;
    if enabled & (ENABLE_SCHED | ENABLE_TASK) == 0 {
        let is_over = prev_state(ctx) & TASK_DEAD != 0 && !preempted(ctx);
        if is_over && enabled & (ENABLE_LOCKS | ENABLE_MEMORY) != 0 {
            waits::forget_waits(prev(ctx).tid());
        }
        return None;
    }
    let mut time = 0;
    if enabled & ENABLE_SCHED != 0 {
        let draw = |state: &mut CpuState| budget::draw_sched(state, prev(ctx), next(ctx));
        if let Some(w) = open::<ROOM, false>(state, kind::SWITCH, prev(ctx).tid(), draw) {
            time = w.now;
            let (prev, next) = (prev(ctx), next(ctx));
            let (prev_tid, next_tid) = (prev.tid(), next.tid());
            w.lane.tid = next_tid;
            let aux = prev.prio() as u16 | (next.prio() as u16) << 8;
            put(
                w,
                kind::SWITCH,
                aux,
                switch::pack(
                    prev_tid,
                    next_tid,
                    prev_state(ctx),
                    preempted(ctx),
                    prev.is_in_io_wait(),
                ),
            );
        } else if enabled & LIMIT_SCHED != 0 {
            time = state.buckets[Lane::Sched as usize].time;
        }
    }
    let (prev, prev_state) = (prev(ctx), prev_state(ctx));
    if prev_state != 0 && !preempted(ctx) && prev.tid() != 0 {
        if prev_state & TASK_DEAD != 0 {
            slots::free_slot(prev.tid(), prev.start_time());
            if enabled & (ENABLE_LOCKS | ENABLE_MEMORY) != 0 {
                waits::forget_waits(prev.tid());
            }
        } else {
            let lane = &state.lanes[Lane::Syscall as usize];
            let entry = if matches!(began, entered::FOLDABLE | entered::UNTIMED) {
                entry(lane)
            } else {
                null()
            };
            let refused = began == entered::REFUSED;
            slots::block(prev, prev_state, if time == 0 { now() } else { time }, entry, refused);
        }
    }
    let tid = next(ctx).tid();
    if tid == 0 {
        return None;
    }
    let mut slept = 0;
    let aux = slots::run(tid, time, &mut slept);
    if stacks::are_there() && slept >= state.long_wait {
        // Since before the recording: nobody knows how long.
        let known = if slept == time { 0 } else { slept };
        stacks::take(state, next(ctx).as_ptr(), known);
    }
    let aux = aux?;
    if state.enabled & ENABLE_TASK == 0 {
        // A call in which a thread takes its leader's id would return as another one's:
        // `sched_process_exec` sees to it.
        return None;
    }
    let lane = &mut state.lanes[Lane::Syscall as usize];
    if aux == slots::WAS_REFUSED {
        lane.entered = entered::REFUSED;
        return None;
    }
    lane.entered = entered::SLEPT;
    lane.enter_off = u32::from(aux);
    lane.enter_time = u64::from(tid);
    Some(())
}

/// `sched_switch`'s arguments (`TP_PROTO`, include/trace/events/sched.h, Linux 6.1): whether the
/// thread could have gone on.
#[inline(always)]
fn preempted(ctx: *mut c_void) -> bool {
    arg::<0>(ctx) & 0xff != 0
}

/// The thread that stops.
#[inline(always)]
fn prev(ctx: *mut c_void) -> Task {
    Task::from_arg(arg::<1>(ctx) as *const u8)
}

/// The thread that runs next.
#[inline(always)]
fn next(ctx: *mut c_void) -> Task {
    Task::from_arg(arg::<2>(ctx) as *const u8)
}

/// The state that the thread stops in.
#[inline(always)]
fn prev_state(ctx: *mut c_void) -> u32 {
    arg::<3>(ctx) as u32
}

/// The ENTER record of the call that was entered last on this CPU, which is the last of its page;
/// null where it is too near the page's end.
#[inline(always)]
fn entry(lane: &LaneState) -> *const u8 {
    // SAFETY: a field of our own, loaded once.
    let at = unsafe { (&raw const lane.enter_off).read_volatile() } as usize;
    if at > BODY - slots::ENTRY {
        return null();
    }
    let Some(page) = RINGS_SYSCALL.get_ptr_mut(lane.ring_base + lane.page) else { return null() };
    // SAFETY: inside the page by the check above.
    unsafe { Page::body(page).add(at) }
}

#[btf_tracepoint(function = "sched_waking")]
fn sched_waking(ctx: BtfTracePointContext) -> Option<()> {
    let state = this_cpu();
    if state.enabled & ENABLE_SCHED == 0 {
        return None;
    }
    let task = Task::from_arg(ctx.arg(0));
    let count = state.preempt_count;
    let w = open::<ROOM, false>(state, kind::WAKING, running::tid(state), |state| {
        budget::draw_wakeup(state, task)
    })?;
    let word = wake::pack(task.tid(), task.state(), task.cpu(), context::now(count));
    put(w, kind::WAKING, task.prio() as u16, word);
    Some(())
}

#[btf_tracepoint(function = "sched_wakeup_new")]
fn sched_wakeup_new(ctx: BtfTracePointContext) -> Option<()> {
    let state = this_cpu();
    if state.enabled & ENABLE_SCHED == 0 {
        return None;
    }
    let task = Task::from_arg(ctx.arg(0));
    let count = state.preempt_count;
    let w = open::<ROOM, false>(state, kind::WAKEUP_NEW, running::tid(state), |state| {
        budget::draw_wakeup(state, task)
    })?;
    put(
        w,
        kind::WAKEUP_NEW,
        task.prio() as u16,
        wake::pack(task.tid(), 0, task.cpu(), context::now(count)),
    );
    Some(())
}

#[btf_tracepoint(function = "sched_migrate_task")]
fn sched_migrate_task(ctx: BtfTracePointContext) -> Option<()> {
    let state = this_cpu();
    if state.enabled & ENABLE_SCHED == 0 {
        return None;
    }
    let task = Task::from_arg(ctx.arg(0));
    let to: u32 = ctx.arg(1);
    let w = open::<ROOM, false>(state, kind::MIGRATE, running::tid(state), |state| {
        budget::draw_wakeup(state, task)
    })?;
    put(w, kind::MIGRATE, task.prio() as u16, migrate::pack(task.tid(), task.cpu(), to));
    Some(())
}

/// `SI_USER`, `SI_KERNEL`: include/uapi/asm-generic/siginfo.h.
const SI_USER: i32 = 0;
const SI_KERNEL: i32 = 0x80;
/// `siginfo.si_code`, and `sigaction.sa_handler` and `.sa_flags`: part of the ABI, from which the
/// kernel's own structures do not differ (`siginfo_buildtime_checks`, kernel/signal.c;
/// `rt_sigaction`, which copies the structure as it is; Linux 6.1 and 6.18).
const SI_CODE: u64 = 8;
const SA_HANDLER: u64 = 0;
const SA_FLAGS: u64 = 8;

/// `si_code` of a signal, as `TP_STORE_SIGINFO` (include/trace/events/signal.h, Linux 6.1) has it:
/// instead of a pointer there may be `SEND_SIG_NOINFO` (0) or `SEND_SIG_PRIV` (1). It is the second
/// argument of both tracepoints.
#[inline(always)]
fn si_code(ctx: *mut c_void) -> i32 {
    match number::<1>(ctx) {
        0 => SI_USER,
        1 => SI_KERNEL,
        info => peek(info + SI_CODE),
    }
}

/// `signal_generate(sig, info, task, group, result)`
#[btf_tracepoint(function = "signal_generate")]
fn signal_generate(ctx: BtfTracePointContext) -> Option<()> {
    let ctx = ctx.as_ptr();
    let state = this_cpu();
    if state.enabled & ENABLE_SIGNALS == 0 {
        return None;
    }
    let target = Task::from_arg(arg::<2>(ctx) as *const u8);
    let code = si_code(ctx);
    let mut w =
        open::<SIGNAL_ROOM, true>(state, kind::SIGNAL_GENERATE, running::tid(state), |state| {
            budget::draw_wakeup(state, target)
        })?;
    let body = SignalGenerate {
        signal: arg::<0>(ctx) as u32,
        code,
        target_tid: target.tid(),
        target_pid: target.tgid(),
        scope: u32::from(arg::<3>(ctx) as u32 != 0),
        result: arg::<4>(ctx) as u32,
        target_comm: comm_bytes(target.comm()),
    };
    w.record(kind::SIGNAL_GENERATE, body);
    w.publish(kind::SIGNAL_GENERATE);
    Some(())
}

/// `signal_deliver(sig, info, ka)`
#[btf_tracepoint(function = "signal_deliver")]
fn signal_deliver(ctx: BtfTracePointContext) -> Option<()> {
    let ctx = ctx.as_ptr();
    let state = this_cpu();
    if state.enabled & ENABLE_SIGNALS == 0 {
        return None;
    }
    let (code, action) = (si_code(ctx), number::<2>(ctx));
    let (handler, flags) = (peek(action + SA_HANDLER), peek(action + SA_FLAGS));
    let mut w =
        open::<SIGNAL_ROOM, true>(state, kind::SIGNAL_DELIVER, running::tid(state), |state| {
            budget::draw_wakeup(state, Task::current())
        })?;
    let body = SignalDeliver { signal: arg::<0>(ctx) as u32, code, handler, flags };
    w.record(kind::SIGNAL_DELIVER, body);
    w.publish(kind::SIGNAL_DELIVER);
    Some(())
}
