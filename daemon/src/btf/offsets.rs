//! The members that the probes read.

use flightrec_format::abi::probe::{Offsets, regs};

use super::{Btf, BtfError};

/// Looks up every member in the kernel's BTF; the first one that it lacks is the error.
pub fn read_offsets(btf: &Btf) -> Result<Offsets, BtfError> {
    let task = |member| btf.member_offset("task_struct", member);
    Ok(Offsets {
        thread_status: task("thread_info.status")?,
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
    })
}

/// Holds the offsets that are fixed in the probes against the kernel's BTF.
pub fn check_registers(btf: &Btf) -> Result<(), BtfError> {
    for (member, fixed) in regs::ALL {
        let found = btf.member_offset("pt_regs", member)?;
        if found != fixed {
            return Err(BtfError::Moved { member, found, fixed });
        }
    }
    Ok(())
}
