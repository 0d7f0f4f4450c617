//! What of the machine that flightd runs on the probes are given: the same programs serve all of
//! them ([`Architecture`]).

use flightrec_format::abi::probe::Machine;
use flightrec_format::architecture::Architecture;
use flightrec_format::live::sys;
use nix::unistd::{SysconfVar, sysconf};

use crate::btf::{Btf, BtfError};
use crate::relocation::StoreOrder;

/// What stands in the programs' instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// How a store publishes.
    pub order: StoreOrder,
    /// Bytes of a kernel stack.
    pub stack_bytes: u32,
    /// The bit that tells a 32-bit system call, in the word at `Offsets::compat_flags`.
    pub compat_flag: u32,
}

/// Bytes of a kernel stack of 16 KiB (`THREAD_SIZE`; arch/x86/include/asm/page_64_types.h,
/// arch/arm64/include/asm/memory.h, Linux 6.1; more with KASAN, so that the kernel is asked there
/// who runs).
const STACK_LEAST: u32 = 16 << 10;
/// `TS_COMPAT`, arch/x86/include/asm/thread_info.h, Linux 6.1.
const TS_COMPAT: u32 = 2;
/// `TIF_32BIT`, arch/arm64/include/asm/thread_info.h, Linux 6.1 and 7.3.
const TIF_32BIT: u32 = 1 << 22;

impl Code {
    /// Of this machine.
    pub fn here() -> Self {
        match Architecture::HERE {
            Architecture::X86_64 => {
                Self { order: StoreOrder::Strong, stack_bytes: STACK_LEAST, compat_flag: TS_COMPAT }
            }
            // A page, where that is more.
            Architecture::Aarch64 => Self {
                order: if sys::has_store_release() {
                    StoreOrder::StoreRelease
                } else {
                    StoreOrder::Exchange
                },
                stack_bytes: page_bytes().max(STACK_LEAST),
                compat_flag: TIF_32BIT,
            },
        }
    }
}

/// Bytes of a page of this machine's memory.
fn page_bytes() -> u32 {
    let bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    bytes.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or_default()
}

/// A kernel that does not warn of a look at the stack of a thread that is about to run, and in a
/// function whose return is probed, as `cargo xtask vm` found; one of 6.1 does. Between the two, the
/// check was removed ("rethook: Remove warning messages printed for finding return address of a
/// frame").
const WITHOUT_WARNING: (u32, u32) = (6, 12);

/// What the rarer programs are given, by the kernel's BTF and its version, if that is known.
pub fn machine(
    btf: &Btf,
    architecture: Architecture,
    version: Option<(u32, u32)>,
) -> Result<Machine, BtfError> {
    let sched_class = btf.member_offset("task_struct", "sched_class")?;
    let rethooks = match version {
        Some(version) if version >= WITHOUT_WARNING => 0,
        // A kernel without the member has no such check.
        _ => btf.member_offset("task_struct", "rethooks").unwrap_or(0),
    };
    Ok(match architecture {
        Architecture::X86_64 => Machine {
            // `TASK_SIZE_MAX`, arch/x86/include/asm/page_64_types.h, Linux 6.1.
            user_bits: 47,
            // `user_mode`, arch/x86/include/asm/ptrace.h, Linux 6.1 and 6.18.
            user_mode_mask: 3,
            user_mode: 3,
            // `struct pt_regs` there.
            register_bytes: 168,
            has_x32: 1,
            sched_class,
            rethooks,
        },
        Architecture::Aarch64 => Machine {
            // `TASK_SIZE_64`, arch/arm64/include/asm/processor.h, Linux 6.1: of 52 bits a program
            // gets none that has not asked for them, and a frame has room for 48.
            user_bits: 48,
            // `PSR_MODE_MASK`, `PSR_MODE_EL0t` (arch/arm64/include/uapi/asm/ptrace.h).
            user_mode_mask: 0xf,
            user_mode: 0,
            // `struct user_pt_regs` there.
            register_bytes: 272,
            has_x32: 0,
            sched_class,
            rethooks,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The members that are named here are in the running kernel.
    #[test]
    fn this_machine() {
        let btf = Btf::read(std::path::Path::new("/sys/kernel/btf/vmlinux")).unwrap();
        let of = |version| machine(&btf, Architecture::HERE, version).unwrap();
        let (machine, older) = (of(Some((6, 12))), of(Some((6, 11))));
        assert_eq!(machine.rethooks, 0);
        assert_eq!(older, of(None));
        assert_eq!(Machine { rethooks: 0, ..older }, machine);
        assert!(machine.sched_class > 0 && machine.register_bytes.is_multiple_of(8));
        assert!(Code::here().stack_bytes.is_power_of_two());
    }
}
