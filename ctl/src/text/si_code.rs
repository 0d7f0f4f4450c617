//! Names of `si_code`: why a signal was sent. What a positive number means depends on the signal.
//!
//! The numbers are the kernel's (include/uapi/asm-generic/siginfo.h, Linux 6.18), part of the ABI.

use nix::sys::signal::Signal;

/// Of any signal, those of [`SENT`], from 0 downwards; a negative number beyond is the sender's own
/// (`rt_sigqueueinfo`).
const SENT: [&str; 8] = [
    "SI_USER",
    "SI_QUEUE",
    "SI_TIMER",
    "SI_MESGQ",
    "SI_ASYNCIO",
    "SI_SIGIO",
    "SI_TKILL",
    "SI_DETHREAD",
];
/// Of any signal: by the kernel.
const SI_KERNEL: i32 = 0x80;
/// Of any signal: the answer to `getaddrinfo_a`.
const SI_ASYNCNL: i32 = -60;

/// Names of the positive codes of a signal, from 1 on.
fn of_signal(signal: u32) -> &'static [&'static str] {
    let Ok(signal) = Signal::try_from(signal as i32) else { return &[] };
    match signal {
        Signal::SIGILL => &[
            "ILL_ILLOPC",
            "ILL_ILLOPN",
            "ILL_ILLADR",
            "ILL_ILLTRP",
            "ILL_PRVOPC",
            "ILL_PRVREG",
            "ILL_COPROC",
            "ILL_BADSTK",
            "ILL_BADIADDR",
        ],
        Signal::SIGFPE => &[
            "FPE_INTDIV",
            "FPE_INTOVF",
            "FPE_FLTDIV",
            "FPE_FLTOVF",
            "FPE_FLTUND",
            "FPE_FLTRES",
            "FPE_FLTINV",
            "FPE_FLTSUB",
        ],
        Signal::SIGSEGV => &[
            "SEGV_MAPERR",
            "SEGV_ACCERR",
            "SEGV_BNDERR",
            "SEGV_PKUERR",
            "SEGV_ACCADI",
            "SEGV_ADIDERR",
            "SEGV_ADIPERR",
            "SEGV_MTEAERR",
            "SEGV_MTESERR",
            "SEGV_CPERR",
        ],
        Signal::SIGBUS => {
            &["BUS_ADRALN", "BUS_ADRERR", "BUS_OBJERR", "BUS_MCEERR_AR", "BUS_MCEERR_AO"]
        }
        Signal::SIGTRAP => {
            &["TRAP_BRKPT", "TRAP_TRACE", "TRAP_BRANCH", "TRAP_HWBKPT", "TRAP_UNK", "TRAP_PERF"]
        }
        Signal::SIGCHLD => &[
            "CLD_EXITED",
            "CLD_KILLED",
            "CLD_DUMPED",
            "CLD_TRAPPED",
            "CLD_STOPPED",
            "CLD_CONTINUED",
        ],
        Signal::SIGIO => &["POLL_IN", "POLL_OUT", "POLL_MSG", "POLL_ERR", "POLL_PRI", "POLL_HUP"],
        Signal::SIGSYS => &["SYS_SECCOMP", "SYS_USER_DISPATCH"],
        _ => &[],
    }
}

/// The name of a signal's `si_code`.
pub(super) fn name(signal: u32, code: i32) -> Option<&'static str> {
    match code {
        SI_KERNEL => Some("SI_KERNEL"),
        SI_ASYNCNL => Some("SI_ASYNCNL"),
        1.. => of_signal(signal).get(code as usize - 1).copied(),
        _ => SENT.get(code.unsigned_abs() as usize).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_the_name_that_its_signal_gives_it() {
        for (signal, code, expected) in [
            (libc::SIGKILL, 0, Some("SI_USER")),
            (libc::SIGUSR1, libc::SI_QUEUE, Some("SI_QUEUE")),
            (libc::SIGALRM, libc::SI_TIMER, Some("SI_TIMER")),
            (libc::SIGUSR1, libc::SI_TKILL, Some("SI_TKILL")),
            (libc::SIGCHLD, libc::CLD_CONTINUED, Some("CLD_CONTINUED")),
            (libc::SIGTRAP, libc::TRAP_HWBKPT, Some("TRAP_HWBKPT")),
            (libc::SIGSEGV, 1, Some("SEGV_MAPERR")),
            (libc::SIGBUS, 1, Some("BUS_ADRALN")),
            (libc::SIGSEGV, 0x80, Some("SI_KERNEL")),
            (libc::SIGSEGV, 11, None),
            (libc::SIGKILL, 1, None),
            (99, 1, None),
            (libc::SIGUSR1, -8, None),
            (libc::SIGUSR1, -60, Some("SI_ASYNCNL")),
            (libc::SIGUSR1, i32::MIN, None),
        ] {
            assert_eq!(name(signal as u32, code), expected, "{signal} {code}");
        }
    }
}
