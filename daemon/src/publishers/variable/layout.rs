//! Where a machine has thread-local variables, by its ABI and the C library.

use flightrec_format::architecture::Architecture;

use super::Variable;

/// How a machine lays thread-local storage out.
#[derive(Debug, Clone, Copy)]
pub(in crate::publishers) struct Layout {
    pub(super) machine: Architecture,
    /// The static part is after the thread pointer, and a head of the C library's of so many
    /// bytes (variant I of the ABI). `None`: it is before the thread pointer (variant II).
    head: Option<u64>,
    /// Type of the relocation by which the dynamic linker writes a function and its argument.
    pub(super) descriptor: u32,
    /// Of that by which it writes a module and an offset.
    pub(super) index: u32,
    /// Of that by which it writes bytes from the thread pointer on.
    pub(super) fixed: u32,
}

/// `R_X86_64_TLSDESC`, `R_X86_64_DTPMOD64`, `R_X86_64_TPOFF64`.
pub(super) const X86_64: Layout =
    Layout { machine: Architecture::X86_64, head: None, descriptor: 36, index: 16, fixed: 18 };

/// `R_AARCH64_TLSDESC`, `R_AARCH64_TLS_DTPMOD`, `R_AARCH64_TLS_TPREL`; the head is the C library's
/// `tcbhead_t` (sysdeps/aarch64/nptl/tls.h, glibc 2.36).
pub(super) const AARCH64: Layout = Layout {
    machine: Architecture::Aarch64,
    head: Some(16),
    descriptor: 1031,
    index: 1028,
    fixed: 1030,
};

impl Layout {
    /// That of a machine.
    pub(in crate::publishers) const fn of(machine: Architecture) -> &'static Self {
        match machine {
            Architecture::X86_64 => &X86_64,
            Architecture::Aarch64 => &AARCH64,
        }
    }

    /// Where the program's own part is, from the thread pointer on, if it has such an address, size
    /// and alignment (`_dl_determine_tlsoffset`, elf/dl-tls.c, glibc 2.36).
    pub(super) fn program(&self, (address, size, align): (u64, u64, u64)) -> u64 {
        let below = align.max(1).wrapping_sub(1);
        if let Some(head) = self.head {
            // The first place after the head that is aligned as the address is.
            return head.wrapping_add(address.wrapping_sub(head) & below);
        }
        // It ends at the thread pointer, moved down so that it is aligned.
        let moved = 0u64.wrapping_sub(address.wrapping_add(size)) & below;
        0u64.wrapping_sub(size).wrapping_sub(moved)
    }

    /// A place of the static part, by an offset that the dynamic linker wrote. `None`: it is on the
    /// wrong side of the thread pointer, or far, and so not the linker's word.
    pub(super) fn place(&self, offset: u64) -> Option<Variable> {
        let offset = offset as i64;
        let is_there = match self.head {
            Some(head) => offset >= head as i64 && offset < 1 << 31,
            None => offset < 0 && offset > -(1 << 31),
        };
        is_there.then_some(Variable { module: 0, offset })
    }
}
