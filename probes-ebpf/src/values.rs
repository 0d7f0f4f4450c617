//! Where a call's arguments come from. They are read one by one, and only those that are recorded:
//! all six at once would go over the stack, since a program has ten registers.

use core::ffi::c_void;

use crate::kernel::{Regs, arg};

/// All arguments of a call, and zeros after them: any number of three bits is one's.
pub(crate) type Arguments = [u64; 8];
/// Those of a call of which none are asked for.
pub(crate) static NO_ARGUMENTS: Arguments = [0; 8];

/// A call's arguments.
pub(crate) trait Values: Copy {
    /// Argument `i` (0 to 5).
    fn get(self, i: usize) -> u64;

    /// All six.
    #[inline(always)]
    fn all(self) -> [u64; 6] {
        [self.get(0), self.get(1), self.get(2), self.get(3), self.get(4), self.get(5)]
    }
}

/// The registers of a 64-bit call.
#[derive(Clone, Copy)]
pub(crate) struct Native(pub(crate) Regs);

impl Values for Native {
    #[inline(always)]
    fn get(self, i: usize) -> u64 {
        self.0.argument(i)
    }
}

/// The registers that are the first argument of a tracepoint: of a 64-bit call.
#[derive(Clone, Copy)]
pub(crate) struct First(pub(crate) *mut c_void);

impl Values for First {
    #[inline(always)]
    fn get(self, i: usize) -> u64 {
        Native(Regs::from_arg(arg::<0>(self.0) as *const u8)).get(i)
    }
}

/// The registers of a 32-bit call (`syscall_get_arguments`, arch/x86/include/asm/syscall.h and
/// arch/arm64/include/asm/syscall.h).
#[derive(Clone, Copy)]
pub(crate) struct Compat(pub(crate) Regs);

impl Values for Compat {
    #[inline(always)]
    fn get(self, i: usize) -> u64 {
        self.0.compat_argument(i)
    }
}

/// Arguments that are at hand.
impl Values for &Arguments {
    #[inline(always)]
    fn get(self, i: usize) -> u64 {
        self[i]
    }
}
