//! Whether a system call failed.

use std::collections::BTreeSet;

use crate::abi::record::{Abi, NR_INVALID, errno};
use crate::meta::Meta;

/// `ENOSYS`, include/uapi/asm-generic/errno.h.
const ENOSYS: i32 = 38;

/// Whether this error means that the kernel interrupted the call and goes on with it: no program
/// sees it. It is one of those that `arch_do_signal_or_restart` takes (`ERESTARTSYS`,
/// `ERESTARTNOINTR`, `ERESTARTNOHAND`, `ERESTART_RESTARTBLOCK`; include/linux/errno.h). Other
/// numbers from 512 on do reach programs, as `ENOTSUPP` (524) does.
pub const fn is_restart(error: i32) -> bool {
    matches!(error, 512..=514 | 516)
}

/// Whether a call itself returned this: it is no failure, or one of a call that waited, with which
/// no filter (seccomp) refuses a call.
pub const fn is_own(ret: i64) -> bool {
    const EINTR: i32 = 4;
    const ETIMEDOUT: i32 = 110;
    match errno(ret) {
        None => true,
        Some(error) => is_restart(error) || matches!(error, EINTR | ETIMEDOUT),
    }
}

/// Which return values are errors, for the calls of a recording.
#[derive(Debug, Clone, Default)]
pub struct Failures {
    /// Calls that return what a register held before: never an error.
    restored: BTreeSet<(Abi, u16)>,
}

impl Failures {
    /// By the recording's own tables of system calls.
    pub fn new(meta: &Meta) -> Self {
        let sigreturn = |name: &str| matches!(name, "rt_sigreturn" | "sigreturn");
        let tables =
            [(Abi::Native, &meta.native), (Abi::X32, &meta.native), (Abi::Compat, &meta.compat)];
        let restored = tables.into_iter().flat_map(|(abi, table)| {
            table.iter().filter(|call| sigreturn(&call.name)).map(move |call| (abi, call.nr))
        });
        Self { restored: restored.collect() }
    }

    /// The error that a call returned, as a positive number, if it returned one; it may be one of
    /// the kernel's own ([`is_restart`]).
    #[inline]
    pub fn error(&self, abi: Abi, nr: u16, ret: i64) -> Option<i32> {
        let error = errno(ret)?;
        // A call whose number fits no table fails with ENOSYS. Any other value without a number is
        // what `sigreturn` restored, which leaves no number at its end.
        let own =
            if nr == NR_INVALID { error == ENOSYS } else { !self.restored.contains(&(abi, nr)) };
        own.then_some(error)
    }

    /// The error with which a call failed: [`Self::error`] without restarts.
    #[inline]
    pub fn failure(&self, abi: Abi, nr: u16, ret: i64) -> Option<i32> {
        self.error(abi, nr, ret).filter(|error| !is_restart(*error))
    }
}

#[cfg(test)]
mod tests {
    use crate::meta::Syscall;

    use super::*;

    fn failures() -> Failures {
        let call = |nr, name: &str| Syscall { nr, name: name.into(), args: None };
        Failures::new(&Meta {
            native: vec![call(0, "read"), call(15, "rt_sigreturn")],
            compat: vec![call(15, "chmod"), call(119, "sigreturn"), call(173, "rt_sigreturn")],
            ..Meta::default()
        })
    }

    #[test]
    fn errors_fail_but_restarts_do_not() {
        let failure = |ret| failures().failure(Abi::Native, 0, ret);
        assert_eq!([-1, -38, -511, -4095].map(failure), [Some(1), Some(38), Some(511), Some(4095)]);
        assert_eq!([0, 7, -4096, i64::MIN, i64::MAX].map(failure), [None; 5]);
        assert_eq!([-512, -513, -514, -516].map(failure), [None; 4], "the call goes on");
        assert_eq!([-515, -517, -524].map(failure), [Some(515), Some(517), Some(524)]);
        assert_eq!(failures().error(Abi::Native, 0, -512), Some(512));
    }

    #[test]
    fn what_sigreturn_restores_is_no_error() {
        let error = |abi, nr| failures().error(abi, nr, -4);
        assert_eq!((error(Abi::Native, 15), error(Abi::X32, 15)), (None, None));
        assert_eq!((error(Abi::Compat, 119), error(Abi::Compat, 173)), (None, None));
        assert_eq!((error(Abi::Compat, 15), error(Abi::Native, 119)), (Some(4), Some(4)));
        // Its end has no number of its own; neither has a call that there is not.
        assert_eq!(error(Abi::Native, NR_INVALID), None);
        assert_eq!(failures().failure(Abi::Native, NR_INVALID, -38), Some(38));
    }
}
