//! What a thread's `task_struct.__state` means, in the letters of ps(1).

use std::str::FromStr;

/// The state of a thread that stopped running by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// Anything may wake it.
    Sleeping,
    /// No signal wakes it, or only one that kills it.
    Uninterruptible,
    /// A kernel thread without work: uninterruptible, but no load.
    Idle,
    /// By a signal.
    Stopped,
    /// By its debugger.
    Traced,
    /// A kernel thread that is not needed now.
    Parked,
    /// It has ended.
    Dead,
    /// Something else.
    Other,
}

impl TaskState {
    const ALL: [Self; 8] = [
        Self::Sleeping,
        Self::Uninterruptible,
        Self::Idle,
        Self::Stopped,
        Self::Traced,
        Self::Parked,
        Self::Dead,
        Self::Other,
    ];

    /// From `task_struct.__state` (include/linux/sched.h, Linux 6.1).
    pub fn of(state: u32) -> Self {
        const NOLOAD: u32 = 0x400;
        const RTLOCK_WAIT: u32 = 0x1000;
        /// `EXIT_DEAD`, `EXIT_ZOMBIE`, `TASK_DEAD`.
        const DEAD: u32 = 0x10 | 0x20 | 0x80;
        match state {
            _ if state & DEAD != 0 => Self::Dead,
            _ if state & 1 != 0 => Self::Sleeping,
            _ if state & 2 != 0 && state & NOLOAD != 0 => Self::Idle,
            _ if state & (2 | RTLOCK_WAIT) != 0 => Self::Uninterruptible,
            _ if state & 4 != 0 => Self::Stopped,
            _ if state & 8 != 0 => Self::Traced,
            _ if state & 0x40 != 0 => Self::Parked,
            _ => Self::Other,
        }
    }

    /// The letter that ps(1) has for it.
    pub fn letter(self) -> char {
        match self {
            Self::Sleeping => 'S',
            Self::Uninterruptible => 'D',
            Self::Idle => 'I',
            Self::Stopped => 'T',
            Self::Traced => 't',
            Self::Parked => 'P',
            Self::Dead => 'X',
            Self::Other => '?',
        }
    }
}

impl FromStr for TaskState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|state| text.chars().eq([state.letter()]));
        known.ok_or_else(|| {
            "not a state; S sleeping, D uninterruptible, I idle, T stopped, t traced, P parked, X \
             dead, ? other"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_as_ps_has_them() {
        let letters: String =
            [1, 2, 0x402, 0x102, 4, 0x104, 8, 0x40, 0x2001, 0x1000, 0x8000, 0x80, 0x10, 0x20]
                .map(|bits| TaskState::of(bits).letter())
                .iter()
                .collect();
        assert_eq!(letters, "SDIDTTtPSD?XXX");
        assert!(
            TaskState::ALL.iter().all(|state| state.letter().to_string().parse() == Ok(*state))
        );
        assert!(
            "d".parse::<TaskState>().is_err()
                && "DD".parse::<TaskState>().is_err()
                && "".parse::<TaskState>().is_err()
        );
    }
}
