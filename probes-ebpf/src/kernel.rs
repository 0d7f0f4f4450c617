//! The kernel's own structures, read by plain loads at offsets that the loader looked up.
//!
//! Those of members that every event reads stand in the instructions themselves, where the loader
//! puts them, as it would for CO-RE, which rustc does not know. The others stand in a frozen
//! read-only map, so the verifier knows them as constants. It takes either as typed accesses to
//! `task_struct` and friends (`check_ptr_to_btf_access`, kernel/bpf/verifier.c, Linux 6.1). A
//! member that is [`ABSENT`] is a dead branch to it.

use core::arch::asm;
use core::ffi::c_void;

use aya_ebpf::helpers::generated::{bpf_get_current_task_btf, bpf_probe_read_kernel};
use flightrec_format::abi::probe::{ARGUMENTS, CAST, COMPAT_FLAG, IoWaitOffsets, Machine, Offsets};
use flightrec_format::abi::record::Comm;

/// Filled by the loader (`daemon/src/load.rs`).
#[unsafe(no_mangle)]
static OFFSETS: Offsets = Offsets {
    compat_flags: 0,
    state: 0,
    prio: 0,
    pid: 0,
    tgid: 0,
    comm: 0,
    flags: 0,
    start_time: 0,
    exit_code: 0,
    real_parent: 0,
    mm: 0,
    files: 0,
    fs: 0,
    signal: 0,
    live: 0,
    cpu: 0,
    cgroups: 0,
    dfl_cgrp: 0,
    kn: 0,
    kn_id: 0,
    arg_start: 0,
    arg_end: 0,
    bprm_filename: 0,
    stack: 0,
    arguments: [0; ARGUMENTS],
    compat_arguments: [0; ARGUMENTS],
    call_number: 0,
    function_arguments: [0; ARGUMENTS],
    function_result: 0,
    stack_pointer: 0,
    mode: 0,
};

/// Filled by the loader. Read by [`machine!`].
#[unsafe(no_mangle)]
pub(crate) static MACHINE: Machine = Machine {
    user_bits: 0,
    user_mode_mask: 0,
    user_mode: 0,
    register_bytes: 0,
    has_x32: 0,
    sched_class: 0,
    rethooks: 0,
};

/// A member of [`MACHINE`], and nothing else of it: a constant to the verifier, but a load to the
/// program.
macro_rules! machine {
    ($member:ident) => {
        // SAFETY: a static of ours; volatile because the loader replaces its value.
        unsafe { (&raw const $crate::kernel::MACHINE.$member).read_volatile() }
    };
}
pub(crate) use machine;

/// The member of [`OFFSETS`], read so that the compiler does not assume its initial value. For use
/// inside `unsafe`: a static of ours, so the read is always sound.
macro_rules! offset {
    ($member:ident) => {
        (&raw const OFFSETS.$member).read_volatile() as usize
    };
}

/// Not 0: [`Task::cast`] makes a pointer of any address. A constant to the verifier. Filled by the
/// loader.
#[unsafe(no_mangle)]
static CAN_CAST: u32 = 0;

/// Whether [`Task::cast`] does so.
#[inline(always)]
pub(crate) fn can_cast() -> bool {
    // SAFETY: a static of ours; volatile because the loader replaces its value.
    unsafe { (&raw const CAN_CAST).read_volatile() != 0 }
}

/// Filled by the loader, where the kernel tells.
#[unsafe(no_mangle)]
static IO_WAIT_OFFSETS: IoWaitOffsets = IoWaitOffsets { word: 0, mask: 0 };

/// `PF_EXITING`, `PF_IO_WORKER`, `PF_USER_WORKER` (since 6.4; unused before), `PF_KTHREAD`:
/// include/linux/sched.h, Linux 6.1 and 6.18.
const PF_EXITING: u32 = 0x4;
const PF_IO_WORKER: u32 = 0x10;
const PF_USER_WORKER: u32 = 0x4000;
const PF_KTHREAD: u32 = 0x0020_0000;

/// A pointer to the kernel's structure, as the verifier typed it.
#[derive(Clone, Copy)]
pub(crate) struct Task(*const u8);

/// A request to a disk.
#[derive(Clone, Copy)]
pub(crate) struct Request(*const u8);

/// The disk that a request is for; null where there is none.
#[derive(Clone, Copy)]
pub(crate) struct Disk(*const u8);

/// Saved user registers.
#[derive(Clone, Copy)]
pub(crate) struct Regs(*const u8);

/// Loads a value at a byte offset.
///
/// # Safety
/// `p` must be a pointer that the verifier tracks; it checks the access itself.
#[inline(always)]
unsafe fn load<T: Copy>(p: *const u8, offset: usize) -> T {
    // SAFETY: by the contract above. Volatile: one load of just this width, here.
    unsafe { p.add(offset).cast::<T>().read_volatile() }
}

/// Loads a 32-bit (`u32`) or 64-bit (`u64`) member of `task_struct` at an offset that the loader
/// puts into the instruction itself ([`MARK`]).
macro_rules! member {
    ($p:expr, $member:ident, $width:ident) => {
        $crate::kernel::member!($p, $member, 0, $width)
    };
    // Of a member that is an array: its element `i`.
    ($p:expr, $member:ident, $i:expr, $width:ident) => {{
        let value: u64;
        // SAFETY: a load that the verifier checks, of a pointer that it tracks.
        unsafe {
            core::arch::asm!(concat!("{value} = *(", stringify!($width), " *)({p} + {at})"),
                value = out(reg) value, p = in(reg) $p,
                at = const flightrec_format::abi::probe::MARK as usize
                    + core::mem::offset_of!(flightrec_format::abi::probe::Offsets, $member) / 4
                    + $i,
                options(readonly, nostack, preserves_flags));
        }
        value as $width
    }};
}
pub(crate) use member;

/// Argument `N` of a tracepoint, loaded here and each time anew: a program has four registers that
/// outlive a call of the kernel, and what the context holds needs none of them.
#[inline(always)]
pub(crate) fn arg<const N: usize>(ctx: *mut c_void) -> u64 {
    let value;
    // SAFETY: a load of the program's context, which the verifier checks.
    unsafe {
        asm!("{value} = *(u64 *)({ctx} + {at})", value = out(reg) value, ctx = in(reg) ctx,
            at = const N * size_of::<u64>(), options(nostack));
    }
    value
}

/// Argument `N` of a tracepoint as a number. As a pointer the verifier takes it for one that is
/// never null, removes what is done about 0, and refuses to reckon with it.
#[inline(always)]
pub(crate) fn number<const N: usize>(ctx: *mut c_void) -> u64 {
    peek(ctx as u64 + (N * size_of::<u64>()) as u64)
}

impl Task {
    /// The running thread.
    #[inline(always)]
    pub(crate) fn current() -> Self {
        // SAFETY: the helper has no preconditions.
        Self(unsafe { bpf_get_current_task_btf() }.cast())
    }

    /// The running thread, whose `task_struct` is at `address`.
    #[inline(always)]
    pub(crate) fn cast(address: u64) -> Self {
        let task: *const u8;
        // SAFETY: a call of `bpf_get_current_task_btf`, which has no preconditions, or what the
        // loader makes of it ([`CAST`]).
        unsafe {
            asm!("r2 = {cast}", "call 158", cast = const CAST, inlateout("r1") address => _,
                lateout("r0") task, lateout("r2") _, lateout("r3") _, lateout("r4") _,
                lateout("r5") _, options(nostack));
        }
        Self(task)
    }

    /// The same, for members that are pointers: of each such load from an argument the verifier
    /// looks up by names, among all types of the kernel, whether what it points to is to be relied
    /// on (`btf_nested_type_is_trusted`, kernel/bpf/btf.c, Linux 6.18): ms each time that it comes
    /// there. Of what was made of a number it knows that it is not. The program is the same.
    #[inline(always)]
    fn untrusted(self) -> Self {
        if can_cast() { Self::cast(self.0 as u64) } else { self }
    }

    /// A tracepoint's task argument.
    #[inline(always)]
    pub(crate) fn from_arg(p: *const u8) -> Self {
        Self(p)
    }

    #[inline(always)]
    pub(crate) fn as_ptr(self) -> *const u8 {
        self.0
    }

    #[inline(always)]
    pub(crate) fn tid(self) -> u32 {
        member!(self.0, pid, u32)
    }

    #[inline(always)]
    pub(crate) fn tgid(self) -> u32 {
        member!(self.0, tgid, u32)
    }

    /// 0-99 real time, 100-139 nice; a deadline thread's -1 becomes 255.
    #[inline(always)]
    pub(crate) fn prio(self) -> u8 {
        member!(self.0, prio, u32) as u8
    }

    #[inline(always)]
    pub(crate) fn state(self) -> u32 {
        member!(self.0, state, u32)
    }

    /// Whether the kernel would warn of a look at this thread's stack: it is in a function whose
    /// return somebody probes, and runs or is about to (`rethook_find_ret_addr`,
    /// kernel/trace/rethook.c, Linux 6.1; a kernel with `panic_on_warn` would panic).
    #[inline(always)]
    pub(crate) fn has_unreadable_stack(self) -> bool {
        let at = machine!(rethooks);
        at != 0 && peek::<u64>((self.0 as u64).wrapping_add(u64::from(at))) != 0
    }

    /// The CPU whose run queue it is or was on.
    #[inline(always)]
    pub(crate) fn cpu(self) -> u32 {
        member!(self.0, cpu, u32)
    }

    #[inline(always)]
    pub(crate) fn is_kthread(self) -> bool {
        member!(self.0, flags, u32) & PF_KTHREAD != 0
    }

    /// It has begun to end: it may never run again.
    #[inline(always)]
    pub(crate) fn is_exiting(self) -> bool {
        member!(self.0, flags, u32) & PF_EXITING != 0
    }

    /// It may be in a system call: no kernel thread, nor a worker made from a user's thread, which
    /// carries its creator's registers (`copy_thread`, arch/x86/kernel/process.c).
    #[inline(always)]
    pub(crate) fn makes_calls(self) -> bool {
        member!(self.0, flags, u32) & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER) == 0
    }

    /// Whether the system call that it is in came by the 32-bit entry.
    #[inline(always)]
    pub(crate) fn is_compat(self) -> bool {
        let mut flags = member!(self.0, compat_flags, u32);
        // SAFETY: arithmetic on one register; the loader puts in the bit.
        unsafe {
            asm!("{flags} &= {bit}", flags = inout(reg) flags, bit = const COMPAT_FLAG,
                options(nomem, nostack));
        }
        flags != 0
    }

    /// Where its kernel stack begins.
    #[inline(always)]
    pub(crate) fn stack(self) -> u64 {
        member!(self.0, stack, u64)
    }

    #[inline(always)]
    pub(crate) fn start_time(self) -> u64 {
        member!(self.0, start_time, u64)
    }

    #[inline(always)]
    pub(crate) fn exit_code(self) -> u32 {
        // SAFETY: see `load`.
        unsafe { load(self.0, offset!(exit_code)) }
    }

    /// Whether it waits for I/O.
    #[inline(always)]
    pub(crate) fn is_in_io_wait(self) -> bool {
        // SAFETY: statics of ours, volatile because the loader replaces their values; then see
        // `load`.
        unsafe {
            let at = (&raw const IO_WAIT_OFFSETS).read_volatile();
            at.mask != 0 && load::<u32>(self.0, at.word as usize) & at.mask != 0
        }
    }

    /// Address of the run queue that it is in; 0: none.
    #[inline(always)]
    pub(crate) fn run_queue(self, cfs_rq: u32, rq: u32) -> u64 {
        // SAFETY: see `load`; the verifier makes the second load a fault-tolerant one.
        unsafe {
            let queue: *const u8 = load(self.untrusted().0, cfs_rq as usize);
            load(queue, rq as usize)
        }
    }

    /// The `u32` at a byte offset that the verifier knows.
    #[inline(always)]
    pub(crate) fn word(self, at: usize) -> u32 {
        // SAFETY: see `load`.
        unsafe { load(self.0, at) }
    }

    /// The `u64` at a byte offset that the verifier knows.
    #[inline(always)]
    pub(crate) fn address(self, at: usize) -> u64 {
        // SAFETY: see `load`.
        unsafe { load(self.0, at) }
    }

    /// The `u32` at its address: `task_struct` begins with whole words (`thread_info.flags`).
    #[inline(always)]
    pub(crate) fn first_word(self) -> u32 {
        self.word(0)
    }

    /// Process id of the parent.
    #[inline(always)]
    pub(crate) fn ppid(self) -> u32 {
        // SAFETY: see `load`; a task always has a real parent, and the verifier makes the second
        // load a fault-tolerant one.
        unsafe {
            let parent: *const u8 = load(self.untrusted().0, offset!(real_parent));
            load(parent, offset!(tgid))
        }
    }

    /// Id of its v2 control group.
    #[inline(always)]
    pub(crate) fn cgroup(self) -> u64 {
        // SAFETY: see `ppid`; a task always has its set of groups, and that a group and a node.
        unsafe {
            let set: *const u8 = load(self.untrusted().0, offset!(cgroups));
            group_id(load(set, offset!(dfl_cgrp)))
        }
    }

    /// Address of its `mm_struct`; 0: it has none.
    #[inline(always)]
    pub(crate) fn mm(self) -> u64 {
        // SAFETY: see `load`.
        unsafe { load(self.untrusted().0, offset!(mm)) }
    }

    /// Addresses of its table of descriptors, and of its working directory and root.
    #[inline(always)]
    pub(crate) fn files_and_fs(self) -> (u64, u64) {
        let task = self.untrusted().0;
        // SAFETY: see `load`.
        unsafe { (load(task, offset!(files)), load(task, offset!(fs))) }
    }

    /// Threads of its process that have not begun to end.
    #[inline(always)]
    pub(crate) fn left(self) -> u32 {
        // SAFETY: see `ppid`; a task has its process's signals until it is released.
        unsafe {
            let signal: *const u8 = load(self.untrusted().0, offset!(signal));
            load(signal, offset!(live))
        }
    }

    /// Where the program's arguments stand in user memory: start and length.
    #[inline(always)]
    pub(crate) fn arg_range(self) -> (u64, u64) {
        // SAFETY: see `ppid`; the caller is the thread itself, just after exec, so it has an mm.
        unsafe {
            let mm: *const u8 = load(self.untrusted().0, offset!(mm));
            if mm.is_null() {
                return (0, 0);
            }
            let start: u64 = load(mm, offset!(arg_start));
            let end: u64 = load(mm, offset!(arg_end));
            (start, end.wrapping_sub(start))
        }
    }

    /// Its name as two words.
    #[inline(always)]
    pub(crate) fn comm(self) -> [u64; 2] {
        // SAFETY: see `load`; comm is 16 bytes long (`TASK_COMM_LEN`).
        unsafe { [load(self.0, offset!(comm)), load(self.0, offset!(comm) + 8)] }
    }
}

impl Regs {
    /// The tracepoint's registers argument, or `bpf_task_pt_regs`'s result.
    #[inline(always)]
    pub(crate) fn from_arg(p: *const u8) -> Self {
        Self(p)
    }

    /// Argument `i` (0 to 5) of the system call that the thread is in. The offset is a constant of
    /// the instruction, so there is one for each.
    #[inline(always)]
    pub(crate) fn argument(self, i: usize) -> u64 {
        match i {
            0 => member!(self.0, arguments, 0, u64),
            1 => member!(self.0, arguments, 1, u64),
            2 => member!(self.0, arguments, 2, u64),
            3 => member!(self.0, arguments, 3, u64),
            4 => member!(self.0, arguments, 4, u64),
            _ => member!(self.0, arguments, 5, u64),
        }
    }

    /// The same of a 32-bit call.
    #[inline(always)]
    pub(crate) fn compat_argument(self, i: usize) -> u64 {
        0xffff_ffff
            & match i {
                0 => member!(self.0, compat_arguments, 0, u64),
                1 => member!(self.0, compat_arguments, 1, u64),
                2 => member!(self.0, compat_arguments, 2, u64),
                3 => member!(self.0, compat_arguments, 3, u64),
                4 => member!(self.0, compat_arguments, 4, u64),
                _ => member!(self.0, compat_arguments, 5, u64),
            }
    }

    /// The number of the system call that the thread is in; negative: in none.
    #[inline(always)]
    pub(crate) fn nr(self) -> i64 {
        // `syscall_get_nr` cuts it to an int (arch/x86/include/asm/syscall.h), or it is one
        // (arch/arm64/include/asm/ptrace.h, Linux 6.1).
        i64::from(member!(self.0, call_number, u32) as i32)
    }
}

impl Request {
    /// A tracepoint's request argument.
    #[inline(always)]
    pub(crate) fn from_arg(p: *const u8) -> Self {
        Self(p)
    }

    /// The `u32` at a byte offset that the verifier knows.
    #[inline(always)]
    pub(crate) fn word(self, at: u32) -> u32 {
        // SAFETY: see `load`.
        unsafe { load(self.0, at as usize) }
    }

    /// The `u64` there.
    #[inline(always)]
    pub(crate) fn long(self, at: u32) -> u64 {
        // SAFETY: see `load`.
        unsafe { load(self.0, at as usize) }
    }

    /// Its disk, by the offsets of its queue, and of the disk there.
    #[inline(always)]
    pub(crate) fn disk(self, queue: u32, disk: u32) -> Disk {
        // SAFETY: see `load`; the verifier makes the second load a fault-tolerant one.
        unsafe {
            let queue: *const u8 = load(self.0, queue as usize);
            Disk(load(queue, disk as usize))
        }
    }
}

impl Disk {
    /// The `u32` at a byte offset that the verifier knows; 0 where there is no disk.
    #[inline(always)]
    pub(crate) fn word(self, at: u32) -> u32 {
        // SAFETY: see `load`; the load is a fault-tolerant one.
        unsafe { load(self.0, at as usize) }
    }
}

/// `linux_binprm.filename`: the address of a string in kernel memory. As a number ([`number`]): no
/// global function takes pointers of the kernel's.
#[inline(always)]
pub(crate) fn bprm_filename(bprm: u64) -> u64 {
    // SAFETY: see `offset`.
    peek(bprm.wrapping_add(unsafe { offset!(bprm_filename) } as u64))
}

/// Id of a control group (`struct cgroup`): the inode number of its directory.
#[inline(always)]
pub(crate) fn group_id(group: *const u8) -> u64 {
    // SAFETY: see `load`; the verifier makes the second load a fault-tolerant one.
    unsafe {
        let node: *const u8 = load(group, offset!(kn));
        load(node, offset!(kn_id))
    }
}

/// The `u32` at a byte offset, which the verifier knows, of a structure of the kernel that a
/// tracepoint's argument points to.
#[inline(always)]
pub(crate) fn word_at(p: *const u8, at: u32) -> u32 {
    // SAFETY: see `load`.
    unsafe { load(p, at as usize) }
}

/// The pointer there.
#[inline(always)]
pub(crate) fn pointer_at(p: *const u8, at: u32) -> *const u8 {
    // SAFETY: see `load`.
    unsafe { load(p, at as usize) }
}

/// The address, or any other number of 64 bits, there.
#[inline(always)]
pub(crate) fn address_at(p: *const u8, at: u32) -> u64 {
    // SAFETY: see `load`.
    unsafe { load(p, at as usize) }
}

/// A value anywhere in the kernel's memory; 0 where there is none.
#[inline(always)]
pub(crate) fn peek<T: Default>(address: u64) -> T {
    let mut value = T::default();
    // SAFETY: as many bytes of our own; the address may be any.
    unsafe {
        bpf_probe_read_kernel((&raw mut value).cast(), size_of::<T>() as u32, address as *const _)
    };
    value
}

/// Splits a name's words into the bytes that records hold.
#[inline(always)]
pub(crate) fn comm_bytes(words: [u64; 2]) -> Comm {
    // SAFETY: both are 16 bytes of plain integers.
    unsafe { core::mem::transmute(words) }
}
