//! The states of a thread, and the intervals that it spends in them.

use flightrec_format::abi::record::{Abi, WakeContext, switch};

use crate::TaskState;

/// What a thread does at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Not known: events are missing, or none were seen yet. It is never guessed.
    #[default]
    Unknown,
    /// Runs on a CPU.
    Running,
    /// Waits for a CPU that another thread has.
    Runnable,
    /// Could run, but its CPU went idle when it stopped: the quota of its control group is used
    /// up, or it moves to another CPU.
    Held,
    /// Waits for something to happen, in this `task_struct.__state`.
    Blocked(u16),
    /// Stopped by a signal or by its debugger, in this `task_struct.__state`.
    Stopped(u16),
    /// It has ended.
    Dead,
}

impl State {
    /// Of a thread that a switch takes off its CPU, in `task_struct.__state` `prev_state`; `idles`:
    /// no other thread takes the CPU.
    #[inline]
    pub fn after(prev_state: u16, preempted: bool, idles: bool) -> Self {
        if !switch::sleeps(prev_state, preempted) {
            return if idles { Self::Held } else { Self::Runnable };
        }
        match TaskState::of(u32::from(prev_state)) {
            TaskState::Dead => Self::Dead,
            TaskState::Stopped | TaskState::Traced => Self::Stopped(prev_state),
            _ => Self::Blocked(prev_state),
        }
    }

    /// The letter that ps(1) has for it.
    pub fn letter(self) -> char {
        match self {
            Self::Unknown => '?',
            Self::Running | Self::Runnable | Self::Held => 'R',
            Self::Blocked(state) | Self::Stopped(state) => TaskState::of(state.into()).letter(),
            Self::Dead => TaskState::Dead.letter(),
        }
    }

    /// Whether it waits, and no signal, or only one that kills it, ends that.
    pub fn is_uninterruptible(self) -> bool {
        matches!(self, Self::Blocked(state)
            if TaskState::of(state.into()) == TaskState::Uninterruptible)
    }
}

/// Which system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId {
    /// Its number.
    pub nr: u16,
    /// Whose number.
    pub abi: Abi,
}

/// A stretch of time that a thread spent in one state. Those of a thread follow one another without
/// a hole, from the first event, or its birth, on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Thread.
    pub tid: u32,
    /// What it did.
    pub state: State,
    /// Start, ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// End.
    pub until: u64,
    /// What woke it: at the end, where it was blocked; at the start, where it was runnable. `None`:
    /// nothing, or that was not seen.
    pub waker: Option<Waker>,
    /// The system call that it was in; `None`: none, or not known.
    pub call: Option<CallId>,
    /// The CPU on which it ran or waited, or else ran last.
    pub cpu: u16,
}

/// What woke a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waker {
    /// The thread that ran on that CPU; 0: the idle one.
    pub tid: u32,
    /// What the CPU was doing: only [`WakeContext::Thread`] means that the thread woke it.
    pub context: WakeContext,
}

impl Waker {
    /// The thread that woke it, as far as is known; `None`: it was an interrupt. The idle thread
    /// wakes nobody itself.
    pub fn thread(self) -> Option<u32> {
        (self.tid != 0 && !self.context.is_interrupt()).then_some(self.tid)
    }
}

impl Interval {
    /// Its length, ns.
    pub fn ns(&self) -> u64 {
        self.until.saturating_sub(self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_switch_says_of_the_thread_that_stops() {
        assert_eq!(State::after(0, false, false), State::Runnable);
        assert_eq!(State::after(0, true, false), State::Runnable);
        // It was about to sleep, and was preempted.
        assert_eq!(State::after(1, true, false), State::Runnable);
        assert_eq!(
            [(0, false), (0, true), (1, true)].map(|(s, p)| State::after(s, p, true)),
            [State::Held; 3]
        );
        assert_eq!(State::after(0x402, false, true), State::Blocked(0x402));
        assert_eq!(State::after(0x8000, false, true), State::Blocked(0x8000), "frozen");
        assert_eq!(
            [4, 8].map(|s| State::after(s, false, true)),
            [State::Stopped(4), State::Stopped(8)]
        );
        assert_eq!(State::after(0x80, false, true), State::Dead);
    }

    #[test]
    fn letters() {
        let states =
            [State::Unknown, State::Held, State::Blocked(2), State::Stopped(8), State::Dead];
        assert_eq!(states.map(State::letter), ['?', 'R', 'D', 't', 'X']);
        let stuck = |state| State::Blocked(state).is_uninterruptible();
        assert!(stuck(2) && stuck(0x102) && stuck(0x1000) && !stuck(1) && !stuck(0x402));
    }
}
