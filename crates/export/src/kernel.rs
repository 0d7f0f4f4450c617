//! Numbers as the kernel's own tracepoints tell them.

/// A priority: one of the deadline class is below 0.
pub(crate) fn priority(prio: u8) -> i64 {
    if prio == u8::MAX { -1 } else { i64::from(prio) }
}

/// What a thread was in when it stopped running, as `sched_switch` tells it: the state's bit of
/// `TASK_REPORT`, 128 idle, 256 preempted (`__trace_sched_switch_state`, `task_state_index`,
/// include/linux/sched.h).
pub(crate) fn state(state: u16, preempted: bool) -> u64 {
    const IDLE: u16 = 0x402;
    const DEAD: u16 = 0x80;
    const RTLOCK_OR_FROZEN: u16 = 0x1000 | 0x8000;
    const REPORT: u16 = 0x7f;
    if preempted {
        256
    } else if state & IDLE == IDLE {
        128
    } else if state & DEAD != 0 {
        16
    } else if state & REPORT != 0 {
        1 << (state & REPORT).ilog2()
    } else if state & RTLOCK_OR_FROZEN != 0 {
        2
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_those_of_the_kernels_tracepoint() {
        let cases = [
            (0, false, 0),
            (0, true, 256),
            (1, false, 1),
            (2, false, 2),
            (0x402, false, 128),
            (0x80, false, 16),
            (0x102, false, 2),
            (0x1000, false, 2),
            (0x8000, false, 2),
            (8, false, 8),
            (0x2001, false, 1),
        ];
        for (raw, preempted, expected) in cases {
            assert_eq!(state(raw, preempted), expected, "{raw:#x}");
        }
    }
}
