//! A thread's priority, as events of scheduling have it.

/// That of nice 0 (`DEFAULT_PRIO`, include/linux/sched/prio.h, Linux 6.1); greater numbers give
/// way.
const NICE_0: u8 = 120;
/// Of threads with a deadline.
const DEADLINE: u8 = 255;

/// Whether a thread of this priority gives way to usual ones: it has a positive nice value.
pub fn gives_way(prio: u8) -> bool {
    prio > NICE_0 && prio != DEADLINE
}
