//! States and priorities of threads, as the scheduler knows them.

use std::sync::LazyLock;

use super::set::{LazySet, Set};

/// `task_struct.__state` (include/linux/sched.h, Linux 6.1; no user-space header has them).
///
/// A dying thread's last switch shows its state, not its `exit_state`; the `EXIT_` bits are named
/// because the tracepoint's own printing names them.
pub static TASK_STATE: LazySet = LazyLock::new(|| {
    Set::flags([
        (0x0000, "TASK_RUNNING"),
        (0x0001, "TASK_INTERRUPTIBLE"),
        (0x0002, "TASK_UNINTERRUPTIBLE"),
        (0x0004, "__TASK_STOPPED"),
        (0x0008, "TASK_TRACED"),
        (0x0010, "EXIT_DEAD"),
        (0x0020, "EXIT_ZOMBIE"),
        (0x0040, "TASK_PARKED"),
        (0x0080, "TASK_DEAD"),
        (0x0100, "TASK_WAKEKILL"),
        (0x0200, "TASK_WAKING"),
        (0x0400, "TASK_NOLOAD"),
        (0x0800, "TASK_NEW"),
        (0x1000, "TASK_RTLOCK_WAIT"),
        (0x2000, "TASK_FREEZABLE"),
        (0x4000, "__TASK_FREEZABLE_UNSAFE"),
        (0x8000, "TASK_FROZEN"),
        // Compositions that have a name of their own.
        (0x0102, "TASK_KILLABLE"),
        (0x0104, "TASK_STOPPED"),
        (0x0402, "TASK_IDLE"),
    ])
});

/// A thread's priority as people set it. From `task_struct.prio`
/// (include/linux/sched/prio.h: `MAX_RT_PRIO` 100, `DEFAULT_PRIO` 120).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Nice value.
    Nice(i16),
    /// Real-time priority, 99 the highest.
    RealTime(i16),
    /// A deadline.
    Deadline,
}

impl Priority {
    /// From an event: 0-99 real time, 100 and more nice, 255 deadline.
    pub fn from_event(prio: u8) -> Self {
        match prio {
            u8::MAX => Self::Deadline,
            0..=99 => Self::RealTime(99 - i16::from(prio)),
            _ => Self::Nice(i16::from(prio) - 120),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(bits: u64) -> String {
        crate::names::set::tests::text(&TASK_STATE, bits)
    }

    #[test]
    fn states_alone_and_combined() {
        assert_eq!(state(0), "TASK_RUNNING");
        assert_eq!(state(1), "TASK_INTERRUPTIBLE");
        assert_eq!(state(0x402), "TASK_IDLE");
        assert_eq!(state(0x102), "TASK_KILLABLE");
        assert_eq!(state(0x2001), "TASK_INTERRUPTIBLE|TASK_FREEZABLE");
        assert_eq!(state(0x80), "TASK_DEAD");
    }

    #[test]
    fn priorities() {
        assert_eq!(Priority::from_event(49), Priority::RealTime(50));
        assert_eq!(Priority::from_event(99), Priority::RealTime(0));
        assert_eq!(Priority::from_event(100), Priority::Nice(-20));
        assert_eq!(Priority::from_event(139), Priority::Nice(19));
        assert_eq!(Priority::from_event(255), Priority::Deadline);
    }
}
