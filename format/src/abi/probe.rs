//! What is frozen into the probes when they are loaded: kernel offsets and the table of calls.

/// Offset of a member that this kernel does not have.
pub const ABSENT: u32 = u32::MAX;

/// Byte offsets of the kernel's members that the probes read, from the running kernel's BTF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Offsets {
    /// `task_struct.thread_info.status`: `TS_COMPAT` tells a 32-bit system call.
    pub thread_status: u32,
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
    /// `pt_regs.di`
    pub regs_di: u32,
    /// `pt_regs.si`
    pub regs_si: u32,
    /// `pt_regs.dx`
    pub regs_dx: u32,
    /// `pt_regs.r10`
    pub regs_r10: u32,
    /// `pt_regs.r8`
    pub regs_r8: u32,
    /// `pt_regs.r9`
    pub regs_r9: u32,
    /// `pt_regs.bx`
    pub regs_bx: u32,
    /// `pt_regs.cx`
    pub regs_cx: u32,
    /// `pt_regs.bp`
    pub regs_bp: u32,
    /// `pt_regs.ax`
    pub regs_ax: u32,
    /// `pt_regs.orig_ax`
    pub regs_orig_ax: u32,
}

const _: () = assert!(size_of::<Offsets>() == 30 * 4);

/// Numbers in a table of calls; those behind it take six arguments and no strings.
pub const CALLS: usize = 512;

/// A table of calls, by number. Bits 0-2: number of arguments; bit 3 [`ARGS_LOST`]; bits 8-10,
/// 11-13, 14-16: indices of arguments that are strings, [`NO_STRING`] for none.
pub type CallTable = [u32; CALLS];

/// The call's success replaces the saved registers (execve, sigreturn): no arguments at its exit.
pub const ARGS_LOST: u32 = 1 << 3;
/// No further string.
pub const NO_STRING: u32 = 7;
/// Most strings of one call that are recorded.
pub const CALL_STRINGS: usize = 3;

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
        i += 1;
        k += 1;
    }
    entry
}

const _: () = assert!(call_entry(4, false, 0b0010) == 4 | 1 << 8 | 7 << 11 | 7 << 14);
const _: () = assert!(call_entry(5, true, 0b0111) == 5 | 8 | 1 << 11 | 2 << 14);
const _: () = assert!(call_entry(4, false, 0b1010) == 4 | 1 << 8 | 3 << 11 | 7 << 14);
