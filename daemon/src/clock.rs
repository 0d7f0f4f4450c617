//! The kernel's clocks.

pub use flightrec_format::live::clock::{monotonic as mono, wall_offset};
use nix::time::{ClockId, clock_getres, clock_gettime};

fn ns(clock: ClockId) -> u64 {
    // These clocks exist on every kernel that flightrec runs on, so the call can't fail.
    clock_gettime(clock).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

/// `CLOCK_TAI` minus `CLOCK_REALTIME`, s: 0 until a time service sets it, then 37.
pub fn tai_offset() -> i64 {
    let difference = ns(ClockId::CLOCK_TAI) as i64 - ns(ClockId::CLOCK_REALTIME) as i64;
    // The two are read one after the other, so the difference is a little more than whole seconds.
    difference.div_euclid(1_000_000_000)
        + i64::from(difference.rem_euclid(1_000_000_000) > 500_000_000)
}

/// CPU time that the calling thread has used, ns.
pub fn thread_cpu() -> u64 {
    ns(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time that this process has used, ns.
pub fn process_cpu() -> u64 {
    ns(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// Length of a jiffy, ns: the coarse clock goes by it (`hrtimer_resolution`'s counterpart
/// `KTIME_LOW_RES`, kernel/time/posix-timers.c, Linux 6.1).
pub fn jiffy() -> u64 {
    clock_getres(ClockId::CLOCK_MONOTONIC_COARSE)
        .map_or(4_000_000, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}
