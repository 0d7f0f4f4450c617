//! The members that the probes read: those that are required, and groups of others, of which a
//! kernel may lack each.

use flightrec_format::abi::file::FileOffsets;
use flightrec_format::abi::probe::{
    ABSENT, ARGUMENTS, CompactionOffsets, ContextOffsets, DiskOffsets, HandlerOffsets,
    IoWaitOffsets, MappingOffsets, Offsets, ReclaimShape, RingOffsets, SocketOffsets,
    ThrottleOffsets, VictimShape,
};
use flightrec_format::abi::publisher::ThreadPointerOffsets;
use flightrec_format::architecture::Architecture;

use super::{Btf, BtfError, io_uring};

/// Looks up every member in the kernel's BTF; the first one that it lacks is the error.
pub fn read_offsets(btf: &Btf, architecture: Architecture) -> Result<Offsets, BtfError> {
    let task = |member| btf.member_offset("task_struct", member);
    let registers = architecture.registers();
    Ok(Offsets {
        compat_flags: task(compat_flags(architecture))?,
        state: task("__state")?,
        prio: task("prio")?,
        pid: task("pid")?,
        tgid: task("tgid")?,
        comm: task("comm")?,
        flags: task("flags")?,
        start_time: task("start_time")?,
        exit_code: task("exit_code")?,
        real_parent: task("real_parent")?,
        mm: task("mm")?,
        files: task("files")?,
        fs: task("fs")?,
        signal: task("signal")?,
        live: btf.member_offset("signal_struct", "live")?,
        // It moved from task_struct into thread_info in Linux 5.16 (commit bcf9033e5449); some
        // stable kernels have the one, some the other.
        cpu: task("thread_info.cpu").or_else(|_| task("cpu"))?,
        cgroups: task("cgroups")?,
        dfl_cgrp: btf.member_offset("css_set", "dfl_cgrp")?,
        kn: btf.member_offset("cgroup", "kn")?,
        kn_id: btf.member_offset("kernfs_node", "id")?,
        arg_start: btf.member_offset("mm_struct", "arg_start")?,
        arg_end: btf.member_offset("mm_struct", "arg_end")?,
        bprm_filename: btf.member_offset("linux_binprm", "filename")?,
        stack: task("stack")?,
        arguments: each_register(btf, &registers.arguments)?,
        compat_arguments: each_register(btf, &registers.compat_arguments)?,
        call_number: register(btf, registers.call_number)?,
        function_arguments: each_register(btf, &registers.function_arguments)?,
        function_result: register(btf, registers.function_result)?,
        stack_pointer: register(btf, registers.stack_pointer)?,
        mode: register(btf, registers.mode)?,
    })
}

/// The member of `task_struct` that has the flag of 32-bit calls.
const fn compat_flags(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::X86_64 => "thread_info.status",
        Architecture::Aarch64 => "thread_info.flags",
    }
}

/// Byte of a register in `pt_regs`, by its name in [`flightrec_format::architecture::Registers`].
fn register(btf: &Btf, name: &str) -> Result<u32, BtfError> {
    let of = |member| btf.member_offset("pt_regs", member);
    let element = name.strip_suffix(']').and_then(|name| name.split_once('['));
    match element.and_then(|(array, i)| Some((array, i.parse::<u32>().ok()?))) {
        Some((array, i)) => Ok(of(array)?.saturating_add(i.saturating_mul(8))),
        None => of(name),
    }
}

fn each_register(btf: &Btf, names: &[&str; ARGUMENTS]) -> Result<[u32; ARGUMENTS], BtfError> {
    let mut all = [0; ARGUMENTS];
    for (at, name) in all.iter_mut().zip(names) {
        *at = register(btf, name)?;
    }
    Ok(all)
}

/// Offsets that a kernel may lack. They stand in one read-only global of the probes, a `repr(C)`
/// struct of `u32`s. Where a member is missing, the group is absent: programs that need it are not
/// loaded, and those that can do without find the global as it was compiled, all 0.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// The global's name.
    pub global: &'static str,
    /// The global's value: the offsets in the order of its members. The first one that the kernel
    /// lacks is the error.
    pub read: fn(&Btf) -> Result<Vec<u32>, BtfError>,
}

/// What the walk over open files reads.
pub const FILES: Group =
    Group { global: "FILE_OFFSETS", read: |btf| Ok(words(&read_file_offsets(btf)?)) };

/// In which context a program runs.
pub const CONTEXT: Group =
    Group { global: "CONTEXT_OFFSETS", read: |btf| Ok(words(&read_context_offsets(btf)?)) };

/// Whether a thread waits for I/O.
pub const IO_WAIT: Group = Group {
    global: "IO_WAIT_OFFSETS",
    read: |btf| {
        let (word, mask) = btf.bit("task_struct", "in_iowait")?;
        Ok(words(&IoWaitOffsets { word, mask }))
    },
};

/// Which connection it is.
pub const SOCKET: Group =
    Group { global: "SOCKET_OFFSETS", read: |btf| Ok(words(&read_socket_offsets(btf)?)) };

/// What an operation of io_uring is.
pub const RING: Group =
    Group { global: "RING_OFFSETS", read: |btf| Ok(words(&io_uring::read_offsets(btf)?)) };

/// What a request to a disk is.
pub const DISK: Group =
    Group { global: "DISK_OFFSETS", read: |btf| Ok(words(&read_disk_offsets(btf)?)) };

/// Where a thread's own variables are in user space.
pub const THREAD_POINTER: Group = Group {
    global: "THREAD_POINTER_OFFSETS",
    read: |btf| {
        let (member, vector) = match Architecture::HERE {
            Architecture::X86_64 => ("thread.fsbase", 8),
            // A program's first thread sets the register itself, and the kernel has its value from
            // the first switch away from the thread on (`tls_preserve_current_state`,
            // arch/arm64/kernel/process.c, Linux 6.1).
            Architecture::Aarch64 => ("thread.uw.tp_value", 0),
        };
        let thread_pointer = btf.member_offset("task_struct", member)?;
        Ok(words(&ThreadPointerOffsets { thread_pointer, vector }))
    },
};

/// What the walk over mapped files reads.
pub const MAPPINGS: Group =
    Group { global: "MAPPING_OFFSETS", read: |btf| Ok(words(&read_mapping_offsets(btf)?)) };

/// How it tells of a victim of the OOM killer.
pub const VICTIM: Group = Group {
    global: "VICTIM_SHAPE",
    read: |btf| {
        let is_task = u32::from(parameters(btf, "mark_victim", &[1, 2])? == 2);
        Ok(words(&VictimShape { is_task }))
    },
};

/// How it tells of reclaim: `order, gfp_flags`, or `gfp_flags, order, memcg`.
pub const RECLAIM: Group = Group {
    global: "RECLAIM_SHAPE",
    read: |btf| {
        let found = parameters(btf, "mm_vmscan_direct_reclaim_begin", &[2, 3])?;
        Ok(words(&ReclaimShape { order_is_second: u32::from(found == 3) }))
    },
};

/// What compaction is for.
pub const COMPACTION: Group = Group {
    global: "COMPACTION_OFFSETS",
    read: |btf| {
        parameters(btf, "mm_compaction_end", &[5])?;
        Ok(words(&CompactionOffsets { order: btf.member_offset("compact_control", "order")? }))
    },
};

/// Whose handler an interrupt runs.
pub const HANDLER: Group = Group {
    global: "HANDLER_OFFSETS",
    read: |btf| Ok(words(&HandlerOffsets { name: btf.member_offset("irqaction", "name")? })),
};

/// Which control group was throttled, where and since when.
pub const THROTTLED: Group =
    Group { global: "THROTTLE_OFFSETS", read: |btf| Ok(words(&read_throttle_offsets(btf)?)) };

/// Whether softirqs run to their end once they have begun: no offsets, but 1 where they do. With
/// PREEMPT_RT threads run them, and others in their middle (kernel/softirq.c, Linux 6.1).
pub const SOFTIRQS: Group = Group {
    global: "SOFTIRQS_ARE_WHOLE",
    read: |btf| {
        // That the other member is missing says nothing where all are.
        btf.member_offset("task_struct", "pid")?;
        match btf.member_offset("task_struct", "softirq_disable_cnt") {
            Ok(_) => Err(BtfError::Preempted),
            Err(_) => Ok(vec![1]),
        }
    },
};

/// Whether the kernel tells where a thread waits that does not run: no offsets, but 1 where it
/// does. The helper is there without the second function, and then tells nothing (a kernel without
/// `CONFIG_STACKTRACE`).
pub const STACKS: Group = Group {
    global: "CAN_TAKE_STACKS",
    read: |btf| {
        let missing = ["bpf_get_task_stack", "stack_trace_save_tsk"]
            .into_iter()
            .find(|function| btf.function(function).is_none());
        let error = |function| BtfError::Missing { what: format!("function {function}") };
        missing.map_or(Ok(vec![1]), |function| Err(error(function)))
    },
};

/// How many parameters a tracepoint has; which numbers of them the programs know.
pub(super) fn parameters(
    btf: &Btf,
    tracepoint: &'static str,
    known: &[usize],
) -> Result<usize, BtfError> {
    // The first one is hidden.
    match btf.func_proto_params(&format!("btf_trace_{tracepoint}")).map(|n| n.saturating_sub(1)) {
        Some(found) if known.contains(&found) => Ok(found),
        Some(found) => Err(BtfError::Shape { tracepoint, found }),
        None => Err(BtfError::Missing { what: format!("tracepoint {tracepoint}") }),
    }
}

/// A type that is `repr(C)`, has nothing but `u32`s as members, and no padding.
///
/// # Safety
/// As said.
unsafe trait Words: Copy {}

// SAFETY: its members are u32s, and its size is asserted where it is defined.
unsafe impl Words for FileOffsets {}

// SAFETY: as above.
unsafe impl Words for SocketOffsets {}

// SAFETY: as above.
unsafe impl Words for ContextOffsets {}

// SAFETY: as above.
unsafe impl Words for IoWaitOffsets {}

// SAFETY: as above.
unsafe impl Words for DiskOffsets {}

// SAFETY: as above.
unsafe impl Words for MappingOffsets {}

// SAFETY: as above.
unsafe impl Words for ThreadPointerOffsets {}

/// The members in their order.
fn words<T: Words>(offsets: &T) -> Vec<u32> {
    let begin = (&raw const *offsets).cast::<u32>();
    // SAFETY: by the trait, so many u32s stand there.
    unsafe { std::slice::from_raw_parts(begin, size_of::<T>() / size_of::<u32>()) }.to_vec()
}

// SAFETY: as above.
unsafe impl Words for VictimShape {}

// SAFETY: as above.
unsafe impl Words for ReclaimShape {}

// SAFETY: as above.
unsafe impl Words for CompactionOffsets {}

// SAFETY: as above.
unsafe impl Words for HandlerOffsets {}

// SAFETY: as above.
unsafe impl Words for ThrottleOffsets {}

// SAFETY: as above.
unsafe impl Words for RingOffsets {}

fn read_mapping_offsets(btf: &Btf) -> Result<MappingOffsets, BtfError> {
    let area = |member| btf.member_offset("vm_area_struct", member);
    Ok(MappingOffsets {
        vm_start: area("vm_start")?,
        vm_end: area("vm_end")?,
        vm_file: area("vm_file")?,
        f_path: btf.member_offset("file", "f_path")?,
        f_inode: btf.member_offset("file", "f_inode")?,
        i_ino: btf.member_offset("inode", "i_ino")?,
        cred: btf.member_offset("task_struct", "real_cred")?,
        euid: btf.member_offset("cred", "euid")?,
    })
}

fn read_disk_offsets(btf: &Btf) -> Result<DiskOffsets, BtfError> {
    let request = |member| btf.member_offset("request", member);
    Ok(DiskOffsets {
        q: request("q")?,
        disk: btf.member_offset("request_queue", "disk")?,
        major: btf.member_offset("gendisk", "major")?,
        first_minor: btf.member_offset("gendisk", "first_minor")?,
        cmd_flags: request("cmd_flags")?,
        data_len: request("__data_len")?,
        sector: request("__sector")?,
    })
}

/// `throttled` is an int in Linux 6.1, and a bit in 6.18.
fn read_throttle_offsets(btf: &Btf) -> Result<ThrottleOffsets, BtfError> {
    let queue = |member| btf.member_offset("cfs_rq", member);
    let (throttled, throttled_mask) = match btf.bit("cfs_rq", "throttled") {
        Ok(bit) => bit,
        Err(_) => (queue("throttled")?, u32::MAX),
    };
    Ok(ThrottleOffsets {
        throttled_clock: queue("throttled_clock")?,
        throttled,
        throttled_mask,
        rq: queue("rq")?,
        clock: btf.member_offset("rq", "clock")?,
        cpu: btf.member_offset("rq", "cpu")?,
        tg: queue("tg")?,
        cgroup: btf.member_offset("task_group", "css.cgroup")?,
        root: btf.member_offset("cgroup", "root")?,
        hierarchy_id: btf.member_offset("cgroup_root", "hierarchy_id")?,
    })
}

/// On aarch64 the preemption count is the running thread's (`preempt_count`,
/// arch/arm64/include/asm/preempt.h, Linux 6.1). On x86_64 it is a variable of its own but in Linux
/// 6.2 to 6.14, where it is a member of another (commits 64701838bf05 and 46e8fff6d45f).
fn read_context_offsets(btf: &Btf) -> Result<ContextOffsets, BtfError> {
    let in_task = btf.member_offset("task_struct", "thread_info.preempt.count").ok();
    let hot = || {
        let at = btf.per_cpu_variable("pcpu_hot")?;
        Ok(at.wrapping_add(btf.member_offset("pcpu_hot", "preempt_count")?))
    };
    let count = btf.per_cpu_variable("__preempt_count");
    let count = count.or_else(|missing| hot().map_err(|_: BtfError| missing));
    // Where nesting of disabled interrupts is counted as well (Linux 7; `HARDIRQ_DISABLE_BITS`, in
    // bits 16-23), with what is saved then in a variable of its own, interrupts have bits 24-27,
    // and non-maskable ones those from 28 on. Bit 31 may be `PREEMPT_NEED_RESCHED`.
    let is_wide = btf.per_cpu_variable("local_interrupt_disable_state").is_ok();
    let (hardirq, nmi) =
        if is_wide { (0x0f00_0000, 0x7000_0000) } else { (0x000f_0000, 0x00f0_0000) };
    let softirqs = btf.member_offset("task_struct", "softirq_disable_cnt");
    let softirq_disable_cnt = softirqs.unwrap_or(ABSENT);
    if let Some(in_task) = in_task {
        let (cfs_rq, rq, preempt_count) = (0, 0, 0);
        return Ok(ContextOffsets {
            cfs_rq,
            rq,
            preempt_count,
            softirq_disable_cnt,
            hardirq,
            nmi,
            in_task,
        });
    }
    Ok(ContextOffsets {
        cfs_rq: btf.member_offset("task_struct", "se.cfs_rq")?,
        rq: btf.member_offset("cfs_rq", "rq")?,
        preempt_count: count?.wrapping_sub(btf.per_cpu_variable("runqueues")?),
        softirq_disable_cnt,
        hardirq,
        nmi,
        in_task: 0,
    })
}

/// A kernel without IPv6 lacks its two.
fn read_socket_offsets(btf: &Btf) -> Result<SocketOffsets, BtfError> {
    let common = |member: &str| btf.member_offset("sock", &format!("__sk_common.{member}"));
    let has_mptcp = btf.member_offset("mptcp_subflow_context", "conn").is_ok();
    let mptcp = |of: &str, member: &str| {
        let offset = btf.member_offset(of, member).ok();
        offset.filter(|_| has_mptcp).unwrap_or(ABSENT)
    };
    Ok(SocketOffsets {
        family: common("skc_family")?,
        state: common("skc_state")?,
        protocol: btf.member_offset("sock", "sk_protocol")?,
        sport: btf.member_offset("inet_sock", "inet_sport")?,
        dport: common("skc_dport")?,
        local4: common("skc_rcv_saddr")?,
        remote4: common("skc_daddr")?,
        local6: common("skc_v6_rcv_saddr").unwrap_or(ABSENT),
        remote6: common("skc_v6_daddr").unwrap_or(ABSENT),
        is_mptcp: mptcp("tcp_sock", "is_mptcp"),
        ulp_data: mptcp("inet_connection_sock", "icsk_ulp_data"),
        subflow_conn: mptcp("mptcp_subflow_context", "conn"),
    })
}

/// As above.
fn read_file_offsets(btf: &Btf) -> Result<FileOffsets, BtfError> {
    let common = |member: &str| btf.member_offset("sock", &format!("__sk_common.{member}"));
    Ok(FileOffsets {
        files: btf.member_offset("task_struct", "files")?,
        fdt: btf.member_offset("files_struct", "fdt")?,
        close_on_exec: btf.member_offset("fdtable", "close_on_exec")?,
        f_path: btf.member_offset("file", "f_path")?,
        f_inode: btf.member_offset("file", "f_inode")?,
        i_mode: btf.member_offset("inode", "i_mode")?,
        i_ino: btf.member_offset("inode", "i_ino")?,
        socket_sk: btf.member_offset("socket", "sk")?,
        socket_file: btf.member_offset("socket", "file")?,
        family: common("skc_family")?,
        num: common("skc_num")?,
        dport: common("skc_dport")?,
        local4: common("skc_rcv_saddr")?,
        remote4: common("skc_daddr")?,
        local6: common("skc_v6_rcv_saddr").unwrap_or(ABSENT),
        remote6: common("skc_v6_daddr").unwrap_or(ABSENT),
        kind: btf.member_offset("sock", "sk_type")?,
        protocol: btf.member_offset("sock", "sk_protocol")?,
        sk_socket: btf.member_offset("sock", "sk_socket")?,
        unix_addr: btf.member_offset("unix_sock", "addr")?,
        unix_peer: btf.member_offset("unix_sock", "peer")?,
        unix_len: btf.member_offset("unix_address", "len")?,
        unix_name: btf.member_offset("unix_address", "name")?,
        fd: btf.member_offset("fdtable", "fd")?,
        i_rdev: btf.member_offset("inode", "i_rdev")?,
        private_data: btf.member_offset("file", "private_data")?,
    })
}
