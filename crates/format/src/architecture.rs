//! The machine that was recorded, and what of a recording depends on it.
//!
//! A recording says it ([`Meta::machine`](crate::meta::Meta::machine)), so that a reader on any
//! machine takes numbers of calls, flags and structures for what they are there. What is not here
//! is the same on all of these: errors, signals, structures of 64-bit numbers.

/// A machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// 64-bit x86; its 32-bit calls are those of i386.
    #[default]
    X86_64,
    /// 64-bit ARM; its 32-bit calls are those of ARM's EABI.
    Aarch64,
}

/// Names of registers in the kernel's `struct pt_regs`; `regs[2]` is the third of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Arguments of a system call (`syscall_get_arguments`).
    pub arguments: [&'static str; 6],
    /// Those of a 32-bit one.
    pub compat_arguments: [&'static str; 6],
    /// The system call's number (`syscall_get_nr`).
    pub call_number: &'static str,
    /// Arguments of a function (the C calling convention).
    pub function_arguments: [&'static str; 6],
    /// What a function returns.
    pub function_result: &'static str,
    /// The stack pointer.
    pub stack_pointer: &'static str,
    /// What tells whether a program's instruction was interrupted.
    pub mode: &'static str,
}

/// Of x86_64 (arch/x86/include/asm/ptrace.h, arch/x86/include/asm/syscall.h, Linux 6.1).
const X86_64: Registers = Registers {
    arguments: ["di", "si", "dx", "r10", "r8", "r9"],
    compat_arguments: ["bx", "cx", "dx", "si", "di", "bp"],
    call_number: "orig_ax",
    function_arguments: ["di", "si", "dx", "cx", "r8", "r9"],
    function_result: "ax",
    stack_pointer: "sp",
    mode: "cs",
};

/// Of aarch64 (arch/arm64/include/asm/ptrace.h, arch/arm64/include/asm/syscall.h, Linux 6.1): a
/// call's result overwrites the register of its first argument, which is kept beside.
const AARCH64: Registers = Registers {
    arguments: ["orig_x0", "regs[1]", "regs[2]", "regs[3]", "regs[4]", "regs[5]"],
    compat_arguments: ["orig_x0", "regs[1]", "regs[2]", "regs[3]", "regs[4]", "regs[5]"],
    call_number: "syscallno",
    function_arguments: ["regs[0]", "regs[1]", "regs[2]", "regs[3]", "regs[4]", "regs[5]"],
    function_result: "regs[0]",
    stack_pointer: "sp",
    mode: "pstate",
};

impl Architecture {
    /// The one that this program was built for.
    pub const HERE: Self = if cfg!(target_arch = "aarch64") { Self::Aarch64 } else { Self::X86_64 };

    /// By what a recording says of its machine (`uname -m`). Those that say nothing were made on
    /// x86_64, as all were once.
    pub fn of_machine(machine: &str) -> Self {
        match machine {
            "aarch64" => Self::Aarch64,
            _ => Self::X86_64,
        }
    }

    /// By the number in an ELF file's header; `None`: none of these.
    pub const fn of_elf(machine: u16) -> Option<Self> {
        match machine {
            62 => Some(Self::X86_64),
            183 => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// The number in an ELF file's header: `EM_X86_64`, `EM_AARCH64` (include/uapi/linux/elf-em.h).
    pub const fn elf_machine(self) -> u16 {
        match self {
            Self::X86_64 => 62,
            Self::Aarch64 => 183,
        }
    }

    /// Its name, as `uname -m` has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// What the manual calls a call of the machine's own table, by the kernel's name for its
    /// number: `__NR3264_fstatat` is newfstatat wherever `stat` has 64 bits
    /// (include/uapi/asm-generic/unistd.h, Linux 6.1).
    pub fn call_name(self, name: &'static str) -> &'static str {
        match (self, name) {
            (Self::Aarch64, "fstatat") => "newfstatat",
            _ => name,
        }
    }

    /// Where registers are.
    pub const fn registers(self) -> &'static Registers {
        match self {
            Self::X86_64 => &X86_64,
            Self::Aarch64 => &AARCH64,
        }
    }

    /// Bytes of a `struct epoll_event`, also of 32-bit programs: x86 packs it, so that both of its
    /// tables have the same (include/uapi/linux/eventpoll.h, Linux 6.1).
    pub const fn epoll_event(self) -> u8 {
        match self {
            Self::X86_64 => 12,
            Self::Aarch64 => 16,
        }
    }

    /// Bytes of the beginning of a `struct epoll_event` before its 64 bits of data.
    pub const fn epoll_data(self) -> usize {
        self.epoll_event() as usize - 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_that_says_nothing_is_of_x86_64() {
        for (machine, wanted) in [
            ("aarch64", Architecture::Aarch64),
            ("x86_64", Architecture::X86_64),
            ("i686", Architecture::X86_64),
            ("", Architecture::X86_64),
        ] {
            assert_eq!(Architecture::of_machine(machine), wanted, "{machine}");
        }
        for of in [Architecture::X86_64, Architecture::Aarch64] {
            assert_eq!(Architecture::of_machine(of.name()), of);
            assert_eq!(Architecture::of_elf(of.elf_machine()), Some(of));
        }
        assert_eq!(Architecture::of_elf(3), None);
    }

    #[test]
    fn an_epoll_events_data_stands_where_the_kernel_has_it() {
        let of = |a: Architecture| (a.epoll_event(), a.epoll_data());
        assert_eq!(of(Architecture::X86_64), (12, 4));
        assert_eq!(of(Architecture::Aarch64), (16, 8));
        assert_eq!(usize::from(Architecture::HERE.epoll_event()), size_of::<libc::epoll_event>());
    }
}
