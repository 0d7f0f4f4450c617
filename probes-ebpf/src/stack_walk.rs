//! The walk over blocked threads: where in the kernel each of them waits at this moment.
//!
//! Run by reading the iterator's file; each run of the program writes one record
//! (`format::thread_stack`) into it. It holds no lane and fills no page. Threads that run are left
//! out: what is on the stack of one that runs elsewhere is not where it is
//! (`stack_trace_save_tsk`, kernel/stacktrace.c, Linux 6.1).

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{bpf_get_task_stack, bpf_seq_write};
use flightrec_format::abi::record::stack::FRAMES_MAX;

use crate::files::IterMeta;
use crate::kernel::Task;
use crate::pages::bounded;
use crate::stacks;
use crate::task::IterTask;

/// A record: the thread's id and the number of its frames, and room for these as the kernel gives
/// them.
#[repr(C, align(8))]
struct Scratch {
    tid: u32,
    frames: u32,
    stack: [u64; FRAMES_MAX],
}

/// Bytes before the frames.
const HEAD: usize = 2 * size_of::<u32>();
/// Bytes of the frames in the record.
const FRAMES: usize = FRAMES_MAX * size_of::<u32>();

/// One thread.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
fn walk_stacks(ctx: *mut c_void) -> i32 {
    let ctx = ctx.cast::<IterTask>();
    // SAFETY: the context of this program type.
    let (meta, task) = unsafe {
        ((&raw const (*ctx).meta).read_volatile(), (&raw const (*ctx).task).read_volatile())
    };
    if task.is_null() || !stacks::are_there() {
        return 0;
    }
    let thread = Task::from_arg(task);
    // One that blocks may be woken in the middle of it.
    if thread.state() == 0 || thread.has_unreadable_stack() {
        return 0;
    }
    // SAFETY: the verifier knows the member's type.
    let seq = unsafe { (&raw const (*meta.cast::<IterMeta>()).seq).read_volatile() };
    let mut scratch = Scratch { tid: thread.tid(), frames: 0, stack: [0; FRAMES_MAX] };
    let to = (&raw mut scratch.stack).cast::<u8>();
    let size = size_of::<[u64; FRAMES_MAX]>() as u32;
    // SAFETY: the helper takes any thread that the verifier knows, and writes no more than that.
    let bytes = unsafe { bpf_get_task_stack(task.cast_mut().cast(), to.cast(), size, 0) } as i64;
    if bytes <= 0 {
        return 0;
    }
    let frames = bounded::<0, FRAMES_MAX>(bytes as usize / size_of::<u64>());
    scratch.frames = frames as u32;
    stacks::put_frames(to.cast(), to.cast_const().cast(), frames as u32);
    let length = bounded::<0, { HEAD + FRAMES }>(HEAD + frames * size_of::<u32>());
    // SAFETY: so much of the record is filled.
    unsafe { bpf_seq_write(seq.cast(), (&raw mut scratch).cast(), length as u32) };
    0
}
