//! What is frozen into the probes when they are loaded: kernel offsets and the table of calls.

/// Offset of a member that this kernel does not have.
pub const ABSENT: u32 = u32::MAX;

/// A load at this byte offset plus *i* in the programs' code stands for one at the offset that is
/// member *i* of [`Offsets`]: the loader puts it into the instruction. Greater than the offset of
/// any register or field that a program means as it says.
pub const MARK: u16 = 0x7e00;

/// A constant of 64 bits in the programs' code that stands for the address of the first
/// [`super::state::CpuState`]. The map `state` has all of them in one value, whose address the
/// kernel itself puts into a program (`BPF_PSEUDO_MAP_VALUE`): a lookup would be a third of what a
/// cheap event costs.
pub const STATE: u64 = 0x5174_7ec0_5174_7ec0;
/// A number that a program compares with, and that stands for the last possible CPU's.
pub const LAST_CPU: i32 = 0x5174_7ec1;

/// A constant that stands for a type's number, in front of a call of `bpf_get_current_task_btf`:
/// where the kernel has `bpf_rdonly_cast` (since Linux 6.2; costs nothing), the loader puts that in
/// the call's place, and `task_struct`'s number here. Either makes a pointer that the verifier
/// knows of the address of the running thread's `task_struct`.
pub const CAST: i32 = 0x5174_7ec2;

/// A constant of 32 bits that a program adds, and that stands for the bytes of a kernel stack
/// (`THREAD_SIZE`).
pub const STACK_BYTES: i32 = 0x5174_7ec3;

/// A constant of 32 bits that a program masks by, and that stands for the bit of
/// [`Offsets::compat_flags`] that tells a 32-bit system call.
pub const COMPAT_FLAG: i32 = 0x5174_7ec4;

/// A store at this byte offset plus *i* in the programs' code stands for one at byte *i* that
/// publishes what was stored before it: the loader makes of it what does so on the machine
/// ([`crate::abi`] has no other store that far out).
pub const RELEASE: u16 = 0x7d00;

/// As [`RELEASE`], and what is stored after it comes later as well.
pub const BARRIER: u16 = 0x7c00;

/// Byte offsets of the kernel's members that the probes read, from the running kernel's BTF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Offsets {
    /// The `u32` of `task_struct` that has [`COMPAT_FLAG`]: `thread_info.status` on x86_64,
    /// `thread_info.flags` on aarch64.
    pub compat_flags: u32,
    /// `task_struct.__state`
    pub state: u32,
    /// `task_struct.prio`
    pub prio: u32,
    /// `task_struct.pid`: the thread's id.
    pub pid: u32,
    /// `task_struct.tgid`: the process's id.
    pub tgid: u32,
    /// `task_struct.comm`
    pub comm: u32,
    /// `task_struct.flags`
    pub flags: u32,
    /// `task_struct.start_time`
    pub start_time: u32,
    /// `task_struct.exit_code`
    pub exit_code: u32,
    /// `task_struct.real_parent`
    pub real_parent: u32,
    /// `task_struct.mm`
    pub mm: u32,
    /// `task_struct.files`: the table of descriptors.
    pub files: u32,
    /// `task_struct.fs`: working directory and root.
    pub fs: u32,
    /// `task_struct.signal`
    pub signal: u32,
    /// `signal_struct.live`
    pub live: u32,
    /// `task_struct.thread_info.cpu`
    pub cpu: u32,
    /// `task_struct.cgroups`
    pub cgroups: u32,
    /// `css_set.dfl_cgrp`: the v2 control group.
    pub dfl_cgrp: u32,
    /// `cgroup.kn`
    pub kn: u32,
    /// `kernfs_node.id`
    pub kn_id: u32,
    /// `mm_struct.arg_start`
    pub arg_start: u32,
    /// `mm_struct.arg_end`
    pub arg_end: u32,
    /// `linux_binprm.filename`
    pub bprm_filename: u32,
    /// `task_struct.stack`
    pub stack: u32,
    /// Of `pt_regs`: the arguments of a system call.
    pub arguments: [u32; ARGUMENTS],
    /// Of `pt_regs`: those of a 32-bit one.
    pub compat_arguments: [u32; ARGUMENTS],
    /// Of `pt_regs`: the system call's number, an `i32`; negative outside of calls.
    pub call_number: u32,
    /// Of `pt_regs`: the arguments of a function.
    pub function_arguments: [u32; ARGUMENTS],
    /// Of `pt_regs`: what a function returns.
    pub function_result: u32,
    /// Of `pt_regs`: the stack pointer.
    pub stack_pointer: u32,
    /// Of `pt_regs`: the word that tells whether a program's instruction was interrupted
    /// ([`Machine::user_mode_mask`]).
    pub mode: u32,
}

/// Arguments of a system call, or of a function, in registers.
pub const ARGUMENTS: usize = 6;

const _: () = assert!(size_of::<Offsets>() == 46 * 4);

/// What of the machine the rarer programs need, as constants to the verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Machine {
    /// Bits of a program's addresses.
    pub user_bits: u32,
    /// Bits of the word at [`Offsets::mode`] that tell in what the machine was interrupted.
    pub user_mode_mask: u32,
    /// What they are where it was a program's instruction.
    pub user_mode: u32,
    /// Bytes of the registers that programs at functions may read ([`super::function::Operand`]).
    pub register_bytes: u32,
    /// Not 0: the machine has x32 calls.
    pub has_x32: u32,
    /// `task_struct.sched_class`: an address in the kernel's own image. Its code, and that of its
    /// modules, is at most 2 GiB away.
    pub sched_class: u32,
    /// `task_struct.rethooks`, where the kernel warns of a look at the stack of a thread that is in
    /// a function whose return is probed, and about to run; 0 elsewhere.
    pub rethooks: u32,
}

const _: () = assert!(size_of::<Machine>() == 7 * 4);

/// How a program finds out in which context it runs: by the CPU's preemption count
/// (include/linux/preempt.h). Its address is not to be had from the kernel's symbols where
/// `CONFIG_KALLSYMS_ALL` is off. But any thread of the CPU leads to the CPU's run queue, a variable
/// of each CPU as the count is, and the two are as far apart in memory as in the kernel's image.
///
/// All 0: this kernel does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ContextOffsets {
    /// `task_struct.se.cfs_rq`
    pub cfs_rq: u32,
    /// `cfs_rq.rq`
    pub rq: u32,
    /// What is to be added to the address of `runqueues` for that of `__preempt_count`, or of
    /// `pcpu_hot.preempt_count`, modulo 2^32: both are below 2^31 bytes from their section's start.
    pub preempt_count: u32,
    /// `task_struct.softirq_disable_cnt`, of a kernel with PREEMPT_RT, where the preemption count
    /// has no softirqs; [`ABSENT`] elsewhere.
    pub softirq_disable_cnt: u32,
    /// `HARDIRQ_MASK`: no offset, but the bits of the count that are set in an interrupt.
    pub hardirq: u32,
    /// `NMI_MASK`: those that are set in a non-maskable interrupt.
    pub nmi: u32,
    /// `task_struct.thread_info.preempt.count`, where the count is the running thread's (aarch64);
    /// 0: it is a variable of each CPU, by the members above.
    pub in_task: u32,
}

const _: () = assert!(size_of::<ContextOffsets>() == 7 * 4);

/// Where a program finds whether a thread waits for I/O. All 0: this kernel does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct IoWaitOffsets {
    /// Byte offset of the `u32` in `task_struct` that holds the bit field `in_iowait`.
    pub word: u32,
    /// The bit field's bit in it, as a mask.
    pub mask: u32,
}

const _: () = assert!(size_of::<IoWaitOffsets>() == 2 * 4);

/// Byte offsets of what events of connections read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct SocketOffsets {
    /// `sock.__sk_common.skc_family`
    pub family: u32,
    /// `sock.__sk_common.skc_state`
    pub state: u32,
    /// `sock.sk_protocol`
    pub protocol: u32,
    /// `inet_sock.inet_sport`: the local port, in the network's order. (`skc_num` is 0 by the time
    /// a socket is closed: `inet_put_port`, net/ipv4/inet_hashtables.c, Linux 6.1.)
    pub sport: u32,
    /// `sock.__sk_common.skc_dport`: the remote port, in the network's order.
    pub dport: u32,
    /// `sock.__sk_common.skc_rcv_saddr`
    pub local4: u32,
    /// `sock.__sk_common.skc_daddr`
    pub remote4: u32,
    /// `sock.__sk_common.skc_v6_rcv_saddr`; [`ABSENT`] in a kernel without IPv6.
    pub local6: u32,
    /// `sock.__sk_common.skc_v6_daddr`; as above.
    pub remote6: u32,
    /// `tcp_sock.is_mptcp`: the socket is a subflow of an MPTCP connection; [`ABSENT`] in a kernel
    /// without that, as are the next two.
    pub is_mptcp: u32,
    /// `inet_connection_sock.icsk_ulp_data`: of a subflow, its `mptcp_subflow_context`.
    pub ulp_data: u32,
    /// `mptcp_subflow_context.conn`: the connection's own socket.
    pub subflow_conn: u32,
}

const _: () = assert!(size_of::<SocketOffsets>() == 12 * 4);

/// Where a program finds what a request to a disk is. A kernel without block devices lacks these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DiskOffsets {
    /// `request.q`
    pub q: u32,
    /// `request_queue.disk`: none for requests of a device before it has a disk.
    pub disk: u32,
    /// `gendisk.major`
    pub major: u32,
    /// `gendisk.first_minor`
    pub first_minor: u32,
    /// `request.cmd_flags`
    pub cmd_flags: u32,
    /// `request.__data_len`
    pub data_len: u32,
    /// `request.__sector`
    pub sector: u32,
}

const _: () = assert!(size_of::<DiskOffsets>() == 7 * 4);

/// How a kernel tells of a victim of the OOM killer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct VictimShape {
    /// Not 0: by its `task_struct` (Linux 6.8, commit 72ba14deb40a; 6.1.y has it as well), not by
    /// its thread id.
    pub is_task: u32,
}

const _: () = assert!(size_of::<VictimShape>() == 4);

/// How a kernel tells of reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ReclaimShape {
    /// Not 0: `order` is the second argument at its beginning, not the first (seen in Linux 7.3:
    /// `gfp_flags, order, memcg`).
    pub order_is_second: u32,
}

const _: () = assert!(size_of::<ReclaimShape>() == 4);

/// Where a program finds what compaction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct CompactionOffsets {
    /// `compact_control.order`
    pub order: u32,
}

const _: () = assert!(size_of::<CompactionOffsets>() == 4);

/// Where a program finds whose handler an interrupt runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct HandlerOffsets {
    /// `irqaction.name`
    pub name: u32,
}

const _: () = assert!(size_of::<HandlerOffsets>() == 4);

/// Where a program finds which control group was throttled, where and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ThrottleOffsets {
    /// `cfs_rq.throttled_clock`: when its threads began to wait; 0: none does.
    pub throttled_clock: u32,
    /// The `u32` in `cfs_rq` that has `throttled`.
    pub throttled: u32,
    /// Its bits that do.
    pub throttled_mask: u32,
    /// `cfs_rq.rq`
    pub rq: u32,
    /// `rq.clock`
    pub clock: u32,
    /// `rq.cpu`
    pub cpu: u32,
    /// `cfs_rq.tg`
    pub tg: u32,
    /// `task_group.css.cgroup`
    pub cgroup: u32,
    /// `cgroup.root`
    pub root: u32,
    /// `cgroup_root.hierarchy_id`
    pub hierarchy_id: u32,
}

const _: () = assert!(size_of::<ThrottleOffsets>() == 10 * 4);

/// Operations of io_uring of which a program knows where their arguments are: numbers below this.
pub const RING_OPS: usize = 64;

/// Where a program finds what an operation of io_uring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RingOffsets {
    /// `io_kiocb.ctx`
    pub ctx: u32,
    /// `io_kiocb.opcode`
    pub opcode: u32,
    /// `io_kiocb.flags`, whose lower bits are those of the `struct io_uring_sqe` (`REQ_F_…`,
    /// include/linux/io_uring_types.h).
    pub flags: u32,
    /// `io_kiocb.cqe.user_data`
    pub user_data: u32,
    /// `io_ring_ctx.flags`: `IORING_SETUP_…`
    pub setup: u32,
    /// `filename.name`
    pub name: u32,
    /// Not 0: the tracepoint of a result has the `struct io_uring_cqe` (seen in Linux 6.18: `ctx,
    /// req, cqe`); else what is in it (6.1: `ctx, req, user_data, res, cflags, extra1, extra2`).
    pub has_cqe: u32,
    /// 0
    pub reserved: u32,
    /// By number of operation.
    pub ops: [OpOffsets; RING_OPS],
}

/// Where in a `struct io_kiocb` the arguments of an operation are, once they are taken over from
/// the program; [`ABSENT`] what the operation has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct OpOffsets {
    /// The descriptor, or the directory that a path begins in.
    pub fd: u32,
    /// The place in the ring's table of files plus 1; 0: it is about descriptors.
    pub slot: u32,
    /// The address of the `struct filename` of its path, and of a second one.
    pub paths: [u32; 2],
}

const _: () = assert!(size_of::<RingOffsets>() == (8 + 4 * RING_OPS) * 4);

/// Bits of the preemption count (include/linux/preempt.h, Linux 6.1 to 7.3): the lowest byte counts
/// reasons not to preempt, the lowest bit of the second byte is set while a softirq runs. Where the
/// bits of interrupts are, [`ContextOffsets`] has.
pub mod preempt {
    /// `PREEMPT_MASK`
    const PREEMPT: u32 = 0xff;
    /// `SOFTIRQ_MASK`
    const SOFTIRQS: u32 = 0xff00;
    /// `SOFTIRQ_OFFSET`: a softirq runs; the other bits count who has them disabled.
    pub const SOFTIRQ: u32 = 0x100;
    /// Whether a count may be what the scheduler has when it switches threads: preemption disabled
    /// some times over, no softirq disabled, and nothing of `interrupts`, the bits of these.
    pub const fn is_of_switch(count: u32, interrupts: u32) -> bool {
        count & (SOFTIRQS | interrupts) == 0 && count & PREEMPT < 8
    }
}

/// Words of a page of the table of frames that stacks of the recording have: what the daemon looks
/// up the names of. A frame that is not 0 is in one of [`FRAME_WAYS`] places ([`frame_place`]).
pub const FRAME_WORDS: usize = 1024;
/// Pages of that table. One more page follows, whose first word is not 0 once a frame found no
/// place.
pub const FRAME_PAGES: usize = 64;
/// Frames that the table can have.
pub const FRAMES: usize = FRAME_PAGES * FRAME_WORDS;
/// Places that a frame may have: neighbours, from a multiple of so many on.
pub const FRAME_WAYS: usize = 8;

/// The page of a frame, and the first of its places there.
#[inline(always)]
pub const fn frame_place(frame: u32) -> (u32, usize) {
    // Knuth's 2^32 / phi; the upper bits of the product are the mixed ones.
    let set = (frame.wrapping_mul(2_654_435_761) >> 19) as usize;
    let sets = FRAME_WORDS / FRAME_WAYS;
    ((set / sets) as u32, set % sets * FRAME_WAYS)
}

const _: () = assert!(FRAMES / FRAME_WAYS == 1 << (32 - 19) && FRAME_WORDS * 4 == 4096);

/// A binary that samples have frames in, as the probes enter it into the table of these (map
/// `binaries`), for the daemon to name. Its number is its place there, from 1 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Binary {
    /// 0: the place is free; odd: it is being written; else it is there. Grows with each write.
    pub version: u64,
    /// Its build id, 20 bytes: after shorter ones are zeros.
    pub id: [u32; 5],
    /// A process in which it was seen last; 0: none yet.
    pub tgid: u32,
    /// Where it was seen there: an address.
    pub address: u64,
    /// That process's `mm_struct`, by its address: another program has another one.
    pub mm: u64,
    /// Not 0: its name is known. The daemon's to write.
    pub named: u64,
    /// 0
    pub reserved: u64,
}

const _: () = assert!(size_of::<Binary>() == 64);

/// Places that a binary may have: neighbours, from a multiple of so many on.
pub const BINARY_WAYS: usize = 4;
/// Places for binaries.
pub const BINARIES: usize = 1024;

/// The first place of a binary, by the first word of its build id.
#[inline(always)]
pub const fn binary_place(id: u32) -> u32 {
    const SETS: u32 = (BINARIES / BINARY_WAYS) as u32;
    (id.wrapping_mul(2_654_435_761) >> (32 - SETS.trailing_zeros())) * BINARY_WAYS as u32
}

/// What the walk over a process's mapped files tells the daemon of each; its path follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The address after its last one.
    pub end: u64,
    /// The process's `mm_struct`.
    pub mm: u64,
    /// Bytes of the path after this; 0: the kernel could not give it.
    pub path: u64,
    /// The file's inode number.
    pub inode: u64,
    /// Whose the process is: its effective user id.
    pub user: u64,
}

const _: () = assert!(size_of::<Mapping>() == 48);

/// Most bytes of a path, its NUL included.
pub const MAPPING_PATH: usize = 512;

/// Byte offsets of the kernel's members that this walk reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct MappingOffsets {
    /// `vm_area_struct.vm_start`
    pub vm_start: u32,
    /// `vm_area_struct.vm_end`
    pub vm_end: u32,
    /// `vm_area_struct.vm_file`
    pub vm_file: u32,
    /// `file.f_path`
    pub f_path: u32,
    /// `file.f_inode`
    pub f_inode: u32,
    /// `inode.i_ino`
    pub i_ino: u32,
    /// `task_struct.real_cred`
    pub cred: u32,
    /// `cred.euid`
    pub euid: u32,
}

const _: () = assert!(size_of::<MappingOffsets>() == 4 * 8);

/// Bytes that the name of a frame may take: `function+0x12/0x345 [module]`.
pub const SYMBOL_TEXT: usize = 256;

/// The program, and the pin, of the walk over the stacks of blocked threads
/// (`format::thread_stack`).
pub const STACK_WALK: &str = "walk_stacks";

/// Numbers in a table of calls; those after it take six arguments and no strings.
pub const CALLS: usize = 512;

/// A table of calls, by number. Bits 0-2: number of arguments; bit 3 [`ARGS_LOST`]; bit 4
/// [`HAS_POINTEES`]; bit 5 [`IS_BIRTH`]; bit 6 [`WRITES`]; bits 8-10, 11-13, 14-16: indices of
/// arguments that are strings, [`NO_STRING`] for none; bits 17-18: how many.
pub type CallTable = [u32; CALLS];

/// The call's success replaces the saved registers (execve, sigreturn): no arguments at its exit.
pub const ARGS_LOST: u32 = 1 << 3;
/// The call has items in the [table of pointees](super::pointee::PointeeTable).
pub const HAS_POINTEES: u32 = 1 << 4;
/// The call makes a thread, which returns 0 from it (clone, fork).
pub const IS_BIRTH: u32 = 1 << 5;
/// The call writes to the descriptor that is its first argument.
pub const WRITES: u32 = 1 << 6;
/// Bytes of a line of the kernel's log that are looked at: the rest is cut. A program asks for them
/// by a constant.
pub const LOG_LINE: usize = 256;

/// A line of the kernel's log, and in which thread it was logged: what runs there, also in
/// interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct LogLine {
    /// The thread; 0: an idle one.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// Its user.
    pub uid: u32,
    /// [`WRITTEN`].
    pub flags: u32,
    /// Its name.
    pub comm: super::record::Comm,
    /// The line's beginning, up to a NUL.
    pub text: [u8; LOG_LINE],
}

const _: () = assert!(size_of::<LogLine>() == 32 + LOG_LINE);

/// Of a [`LogLine`]: the thread is in a call that writes to /dev/kmsg, so the line is no word of
/// the kernel's.
pub const WRITTEN: u32 = 1;

/// No further string.
pub const NO_STRING: u32 = 7;
/// Most strings of one call that are recorded.
pub const CALL_STRINGS: usize = 3;

/// Where an entry has the number of its strings.
pub const STRINGS_SHIFT: u32 = 17;

/// How many strings of the call are recorded.
#[inline(always)]
pub const fn call_strings(entry: u32) -> u32 {
    entry >> STRINGS_SHIFT & 3
}

/// One call's entry; `strings` has bit `i` set where argument `i` is a string.
pub const fn call_entry(nargs: u32, args_lost: bool, strings: u8) -> u32 {
    let mut entry = nargs & 7;
    if args_lost {
        entry |= ARGS_LOST;
    }
    let (mut i, mut k) = (0, 0);
    while k < CALL_STRINGS as u32 {
        while i < 6 && strings >> i & 1 == 0 {
            i += 1;
        }
        entry |= (if i < 6 { i } else { NO_STRING }) << (8 + 3 * k);
        entry |= (if i < 6 { i } else { NO_STRING }) << (8 + 3 * k);
        entry += ((i < 6) as u32) << STRINGS_SHIFT;
        i += 1;
        k += 1;
    }
    entry
}

const _: () = assert!(call_entry(4, false, 0b0010) == 4 | 1 << 8 | 7 << 11 | 7 << 14 | 1 << 17);
const _: () = assert!(call_entry(5, true, 0b0111) == 5 | 8 | 1 << 11 | 2 << 14 | 3 << 17);
const _: () = assert!(call_entry(4, false, 0b1010) == 4 | 1 << 8 | 3 << 11 | 7 << 14 | 2 << 17);
