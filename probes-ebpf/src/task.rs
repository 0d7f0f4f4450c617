//! Task life, marks, recorder events, and the walk over the threads that exist already.

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::{bpf_get_current_cgroup_id, bpf_probe_read_kernel_str};
use aya_ebpf::macros::{btf_tracepoint, map};
use aya_ebpf::maps::Array;
use aya_ebpf::programs::{BtfTracePointContext, RawTracePointContext};
use core::ffi::c_void;
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{
    self, Exec, Fork, Rename, SHARES_FILES, SHARES_FS, SHARES_NAME, STRING_MAX, StringStatus,
    TaskExit, kind,
};
use flightrec_format::abi::state::{
    CpuState, ENABLE_EXEC_ARGS, ENABLE_EXEC_FILE, ENABLE_EXEC_MASK, ENABLE_TASK, entered,
};

use crate::cpu::{is_cpu, state_of, this_cpu};
use crate::kernel::{Task, bprm_filename, comm_bytes, number};
use crate::lane::Writer;
use crate::pages::{BODY, NAMES, UNIT, length, store};
use crate::strings::{self, Source};
use crate::{budget, slots};

/// THREAD, TIME, header, and the longest body.
const ROOM: usize = NAMES + 8 + 56;
/// Most CPUs that [`disown`] visits: as many as the verifier lets a loop run. (The largest x86_64
/// machines have 1,920; a kernel may be built for 8,192.)
const MAX_CPUS: u32 = 4096;

#[inline(always)]
fn open(state: &mut CpuState, need: usize) -> Option<Writer<'_>> {
    let i = Lane::Task as usize;
    Writer::open::<ROOM, true>(&mut state.lanes[i], &mut state.no_ring[i], Lane::Task, need, None)
}

#[inline(always)]
fn cgroup() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_get_current_cgroup_id() }
}

#[btf_tracepoint(function = "sched_process_fork")]
fn sched_process_fork(ctx: BtfTracePointContext) -> Option<()> {
    let state = this_cpu();
    if state.enabled & ENABLE_TASK == 0 {
        return None;
    }
    let (parent, child) = (Task::from_arg(ctx.arg(0)), Task::from_arg(ctx.arg(1)));
    let cgroup = cgroup();
    slots::insert(child.as_ptr());
    if child.tid() != child.tgid() && !budget::draw_task(state, parent, kind::FORK, budget::BIRTH) {
        return None;
    }
    let ((files, fs), (own_files, own_fs)) = (parent.files_and_fs(), child.files_and_fs());
    let (name, own_name) = (parent.comm(), child.comm());
    let has_its_name = name[0] == own_name[0] && name[1] == own_name[1];
    let shares = SHARES_FILES * u64::from(files == own_files)
        + SHARES_FS * u64::from(fs == own_fs)
        + SHARES_NAME * u64::from(has_its_name);
    let body = Fork {
        parent_tid: parent.tid(),
        parent_tgid: parent.tgid(),
        tid: child.tid(),
        tgid: child.tgid(),
        start_time: child.start_time(),
        cgroup,
        comm: comm_bytes(own_name),
        shares,
    };
    let mut w = open(state, ROOM)?;
    w.record(kind::FORK, body);
    w.publish(kind::FORK);
    Some(())
}

#[btf_tracepoint(function = "sched_process_exec")]
fn sched_process_exec(ctx: BtfTracePointContext) -> Option<()> {
    let state = this_cpu();
    if state.enabled & ENABLE_TASK == 0 {
        return None;
    }
    let task = Task::from_arg(ctx.arg(0));
    let old_tid: u32 = ctx.arg(1);
    // It may have another id than the one that slept in its call, and than before.
    let lane = &mut state.lanes[Lane::Syscall as usize];
    if lane.entered != entered::REFUSED || old_tid != task.tid() {
        lane.entered = entered::UNKNOWN;
    }
    state.running.stack = 0;
    let cgroup = cgroup();
    if old_tid != task.tid() {
        slots::free_slot(old_tid, task.start_time());
    }
    slots::insert(task.as_ptr());
    let (args, args_len) = task.arg_range();
    let body = Exec {
        tid: task.tid(),
        old_tid,
        tgid: task.tgid(),
        args_len: args_len as u32,
        cgroup,
        comm: comm_bytes(task.comm()),
    };
    let enabled = state.enabled;
    let mut w = open(state, ROOM + 3 * strings::ROOM)?;
    w.record(kind::EXEC, body);
    if enabled & ENABLE_EXEC_FILE != 0 {
        let file = bprm_filename(number::<2>(ctx.as_ptr()));
        w.at = bounded(strings::put(w.page(), w.at, 0, file, Source::Kernel));
    }
    if enabled & ENABLE_EXEC_ARGS != 0 {
        put_args(&mut w, args, args_len, enabled & ENABLE_EXEC_MASK != 0);
    }
    w.publish(kind::EXEC);
    Some(())
}

/// An argument list, as it stands in user memory: its beginning and, where that is not all, its
/// end; of a list that is masked the beginning alone, since what the end begins in the middle of is
/// not known.
#[inline(always)]
fn put_args(w: &mut Writer<'_>, args: u64, len: u64, masked: bool) {
    const MAX: u64 = STRING_MAX as u64;
    let begin = w.at;
    w.at = bounded(strings::put_bytes(w.body(), begin, 1, args, len));
    if masked && strings::mask_arguments(w.page(), begin as u64) != 0 {
        // Never; but what could not be masked is not recorded.
        w.at = begin;
    }
    if !masked && len > MAX {
        let rest = len - MAX;
        let end = if rest > MAX { MAX } else { rest };
        w.at = bounded(strings::put_bytes(w.body(), w.at, 2, args.wrapping_add(len - end), end));
    }
}

/// The offset in a result of [`strings::put`], inside the page.
#[inline(always)]
fn bounded(end: u64) -> usize {
    let at = (end & (strings::COLD - 1)) as usize;
    if at > BODY { BODY } else { at }
}

#[btf_tracepoint(function = "task_rename")]
fn task_rename(ctx: BtfTracePointContext) -> Option<()> {
    let state = this_cpu();
    if state.enabled & ENABLE_TASK == 0 {
        return None;
    }
    let task = Task::from_arg(ctx.arg(0));
    let mut new = [0u64; 2];
    // SAFETY: 16 bytes of our own; the kernel's string is any pointer to the helper.
    unsafe { bpf_probe_read_kernel_str((&raw mut new).cast(), 16, ctx.arg::<*const c_void>(1)) };
    slots::rename(task.tid(), new);
    // Anyone can make renames without end: what else this ring holds must not go for them.
    if !budget::draw_task(state, task, kind::RENAME, budget::RENAME) {
        return None;
    }
    let body = Rename {
        tid: task.tid(),
        tgid: task.tgid(),
        old: comm_bytes(task.comm()),
        new: comm_bytes(new),
    };
    let mut w = open(state, ROOM)?;
    w.record(kind::RENAME, body);
    w.publish(kind::RENAME);
    Some(())
}

#[btf_tracepoint(function = "sched_process_exit")]
fn sched_process_exit(ctx: BtfTracePointContext) -> Option<()> {
    let state = this_cpu();
    let task = Task::from_arg(ctx.arg(0));
    let (tid, tgid) = (task.tid(), task.tgid());
    if tgid == state.own_tgid && tid == tgid {
        disown();
    }
    if tid == tgid {
        budget::forget_drawer(state, tgid);
    }
    if state.enabled & ENABLE_TASK == 0 {
        return None;
    }
    // The end of a process is that of its last thread.
    let left = task.left();
    if tid != tgid && left != 0 && !budget::draw_task(state, task, kind::TASK_EXIT, budget::END) {
        return None;
    }
    let body = TaskExit {
        tid,
        tgid,
        code: task.exit_code(),
        left,
        start_time: task.start_time(),
        comm: comm_bytes(task.comm()),
    };
    let mut w = open(state, ROOM)?;
    w.record(kind::TASK_EXIT, body);
    w.publish(kind::TASK_EXIT);
    Some(())
}

/// The daemon is gone: its process id may become somebody else's, whose calls are to be recorded.
#[inline(never)]
fn disown() -> u32 {
    for cpu in 0..MAX_CPUS {
        if !is_cpu(cpu) {
            break;
        }
        // SAFETY: a whole aligned field of the CPU's state.
        unsafe { (&raw mut (*state_of(cpu)).own_tgid).write_volatile(0) };
    }
    0
}

/// Text of the next [`note`]: written by the daemon before it runs the program.
#[map(name = "note_text")]
static NOTE_TEXT: Array<[u64; STRING_MAX / 8]> =
    Array::with_max_entries(1, 1 << 10 /* BPF_F_MMAPABLE */);

/// A mark or an act of the recorder, run by the daemon (`BPF_PROG_TEST_RUN`), which disables
/// preemption around it. Arguments: kind, aux, thread, length of the text. Returns 0, or 1 where
/// it could not be recorded here and now. Kind 0 records nothing, and returns the caller's process
/// id as the kernel and these programs know it, whatever the caller's pid namespace.
///
/// (Written out, for aya's macro drops the program's result.)
#[unsafe(no_mangle)]
#[unsafe(link_section = "raw_tp/note")]
fn note(ctx: *mut c_void) -> i32 {
    let ctx = RawTracePointContext::new(ctx);
    if ctx.arg::<u64>(0) == 0 {
        return Task::current().tgid() as i32;
    }
    match try_note(&ctx) {
        Some(()) => 0,
        None => 1,
    }
}

#[inline(always)]
fn try_note(ctx: &RawTracePointContext) -> Option<()> {
    let state = this_cpu();
    let kind: u64 = ctx.arg(0);
    let aux: u64 = ctx.arg(1);
    let tid: u64 = ctx.arg(2);
    let len: u64 = ctx.arg(3);
    if kind != kind::MARK as u64 && kind != kind::ACT as u64 || len > STRING_MAX as u64 {
        return None;
    }
    let text = NOTE_TEXT.get_ptr(0)?;
    let mut w = open(state, ROOM + strings::ROOM)?;
    w.thread(tid as u32);
    let since = w.time();
    w.word(record::header(kind as u8, length(0), aux as u16, since));
    let padded = (len as usize + UNIT - 1) & !(UNIT - 1);
    let string = StringStatus::Whole as u16;
    w.word(record::header(kind::STRING, length(padded), string << 4, len as u32));
    if w.at > BODY - STRING_MAX {
        return None; // never: room was made; the verifier wants to see it
    }
    // SAFETY: both are STRING_MAX bytes long; all are copied, `padded` of them count.
    unsafe {
        let to = w.body().add(w.at);
        for i in 0..STRING_MAX / 8 {
            store::<0>(to.add(8 * i), (*text)[i]);
        }
    }
    w.at += padded;
    if kind == kind::MARK as u64 {
        w.publish(kind::MARK);
    } else {
        w.publish(kind::ACT);
    }
    Some(())
}

/// `struct bpf_iter__task`, kernel/bpf/task_iter.c, Linux 6.1.
#[repr(C)]
pub(crate) struct IterTask {
    pub(crate) meta: *const c_void,
    pub(crate) task: *const u8,
}

/// Enters every thread that exists into the table. Run once, after the other programs are
/// attached, so that none falls between.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
fn walk_tasks(ctx: *mut c_void) -> i32 {
    // SAFETY: the context of this program type.
    let task = unsafe { (&raw const (*ctx.cast::<IterTask>()).task).read_volatile() };
    if !task.is_null() {
        slots::walk(Task::from_arg(task));
    }
    0
}
