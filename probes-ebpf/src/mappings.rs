//! The walk over the files that a process has mapped: which one an address is in.
//!
//! Run by the daemon alone, for one process, by reading an iterator's file; each run of the program
//! writes one record ([`Mapping`]) into it.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{bpf_d_path, bpf_seq_write};
use aya_ebpf::macros::map;
use aya_ebpf::maps::Array;
use flightrec_format::abi::probe::{MAPPING_PATH, Mapping, MappingOffsets};

use crate::files::{IterMeta, load, peek};
use crate::kernel::Task;
use crate::pages::bounded;

/// A record and its path.
#[repr(C)]
struct Scratch {
    record: Mapping,
    path: [u8; MAPPING_PATH],
}

/// Where the record at hand is put together. One is enough: the daemon runs one walk at a time.
#[map(name = "mapping_scratch")]
static SCRATCH: Array<Scratch> = Array::with_max_entries(1, 0);

/// Filled by the loader, where the kernel tells.
#[unsafe(no_mangle)]
static MAPPING_OFFSETS: MappingOffsets = MappingOffsets {
    vm_start: 0,
    vm_end: 0,
    vm_file: 0,
    f_path: 0,
    f_inode: 0,
    i_ino: 0,
    cred: 0,
    euid: 0,
};

/// `struct bpf_iter__task_vma`, kernel/bpf/task_iter.c, Linux 6.1.
#[repr(C)]
struct IterTaskVma {
    meta: *const IterMeta,
    task: *const u8,
    vma: *const u8,
}

/// One piece of a process's memory. That there is no room for its record needs no care, as in
/// [`crate::files`].
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task_vma")]
fn walk_mappings(ctx: *mut c_void) -> i32 {
    let ctx = ctx.cast::<IterTaskVma>();
    // SAFETY: the context of this program type, then a static of ours.
    let (meta, task, vma, at) = unsafe {
        (
            (&raw const (*ctx).meta).read_volatile(),
            (&raw const (*ctx).task).read_volatile(),
            (&raw const (*ctx).vma).read_volatile(),
            (&raw const MAPPING_OFFSETS).read_volatile(),
        )
    };
    if task.is_null() || vma.is_null() {
        return 0;
    }
    // SAFETY: a typed load.
    let file: *const u8 = unsafe { load(vma, at.vm_file) };
    if file.is_null() {
        return 0;
    }
    let Some(scratch) = SCRATCH.get_ptr_mut(0) else { return 0 };
    // SAFETY: one walk at a time uses the scratch; typed loads; the path inside a file that the
    // verifier knows, and as much room as is said; of record and path so much is filled.
    unsafe {
        let seq = (&raw const (*meta).seq).read_volatile();
        let record = &mut (*scratch).record;
        record.start = load(vma, at.vm_start);
        record.end = load(vma, at.vm_end);
        record.mm = Task::from_arg(task).mm();
        let path = file.add(at.f_path as usize).cast_mut();
        let text = (&raw mut (*scratch).path).cast::<u8>();
        let n = bpf_d_path(path.cast(), text.cast(), MAPPING_PATH as u32);
        // Without its NUL.
        let length = bounded::<0, MAPPING_PATH>(if n > 0 { n as usize - 1 } else { 0 });
        record.path = length as u64;
        let inode: *const u8 = load(file, at.f_inode);
        record.inode = load(inode, at.i_ino);
        let cred: u64 = peek(task as u64, at.cred);
        record.user = u64::from(peek::<u32>(cred, at.euid));
        bpf_seq_write(seq.cast(), scratch.cast(), (size_of::<Mapping>() + length) as u32);
    }
    0
}
