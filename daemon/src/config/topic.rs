//! The topics of events: what a key of `[record]` turns on and off.

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::state::{
    ENABLE_DISK, ENABLE_INTERRUPTS, ENABLE_IO_URING, ENABLE_LOCKS, ENABLE_MEMORY, ENABLE_NETWORK,
    ENABLE_SCHED, ENABLE_SIGNALS, ENABLE_SYSCALL, ENABLE_TASK, ENABLE_THREAD_CONTEXTS,
    ENABLE_THROTTLING,
};

use super::Record;

/// Kinds of event that are switched together.
///
/// A new one takes a line in each function here, its key in [`Record`] and in
/// `config/flightd.toml`, and its `ENABLE_…` bit in `crates/format/src/abi/state.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// System calls.
    Syscalls,
    /// Scheduling.
    Sched,
    /// Task life.
    Tasks,
    /// Signals.
    Signals,
    /// Requests to disks.
    Disk,
    /// Memory that runs out.
    Memory,
    /// Long interrupts.
    Interrupts,
    /// Long waits for locks of the kernel.
    Locks,
    /// Connections.
    Network,
    /// Control groups whose CPU time is used up.
    Throttling,
    /// Operations of io_uring.
    IoUring,
    /// For which spans of distributed traces threads work.
    ThreadContexts,
}

impl Topic {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Syscalls,
        Self::Sched,
        Self::Tasks,
        Self::Signals,
        Self::Disk,
        Self::Memory,
        Self::Interrupts,
        Self::Locks,
        Self::Network,
        Self::Throttling,
        Self::IoUring,
        Self::ThreadContexts,
    ];

    /// Its key in `[record]`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Syscalls => "syscalls",
            Self::Sched => "sched",
            Self::Tasks => "tasks",
            Self::Signals => "signals",
            Self::Disk => "disk",
            Self::Memory => "memory",
            Self::Interrupts => "interrupts",
            Self::Locks => "locks",
            Self::Network => "network",
            Self::Throttling => "throttling",
            Self::IoUring => "io_uring",
            Self::ThreadContexts => "thread_contexts",
        }
    }

    /// The lane that has its events.
    pub const fn lane(self) -> Lane {
        match self {
            Self::Syscalls => Lane::Syscall,
            Self::Sched | Self::Signals | Self::ThreadContexts => Lane::Sched,
            Self::Tasks => Lane::Task,
            Self::Disk
            | Self::Memory
            | Self::Interrupts
            | Self::Locks
            | Self::Network
            | Self::Throttling
            | Self::IoUring => Lane::Kernel,
        }
    }

    /// The bit by which the probes know that it is recorded.
    pub const fn bit(self) -> u32 {
        match self {
            Self::Syscalls => ENABLE_SYSCALL,
            Self::Sched => ENABLE_SCHED,
            Self::Tasks => ENABLE_TASK,
            Self::Signals => ENABLE_SIGNALS,
            Self::Disk => ENABLE_DISK,
            Self::Memory => ENABLE_MEMORY,
            Self::Interrupts => ENABLE_INTERRUPTS,
            Self::Locks => ENABLE_LOCKS,
            Self::Network => ENABLE_NETWORK,
            Self::Throttling => ENABLE_THROTTLING,
            Self::IoUring => ENABLE_IO_URING,
            Self::ThreadContexts => ENABLE_THREAD_CONTEXTS,
        }
    }

    /// Whether it is recorded unless the configuration says otherwise.
    pub const fn is_usual(self) -> bool {
        !matches!(self, Self::ThreadContexts)
    }

    /// Those of a lane.
    pub fn of_lane(lane: Lane) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |topic| topic.lane() == lane)
    }
}

impl Record {
    /// Whether a topic is recorded.
    pub const fn has(&self, topic: Topic) -> bool {
        match topic {
            Topic::Syscalls => self.syscalls,
            Topic::Sched => self.sched,
            Topic::Tasks => self.tasks,
            Topic::Signals => self.signals,
            Topic::Disk => self.disk,
            Topic::Memory => self.memory,
            Topic::Interrupts => self.interrupts,
            Topic::Locks => self.locks,
            Topic::Network => self.network,
            Topic::Throttling => self.throttling,
            Topic::IoUring => self.io_uring,
            Topic::ThreadContexts => self.thread_contexts,
        }
    }

    /// Whether any topic of a lane is.
    pub fn has_any(&self, lane: Lane) -> bool {
        Topic::of_lane(lane).any(|topic| self.has(topic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_key_and_a_bit_of_its_own() {
        let mut bits = 0;
        for topic in Topic::ALL {
            let others =
                if topic == Topic::ThreadContexts { "" } else { "thread_contexts = true\n" };
            let off = format!("{others}{} = false", topic.key());
            let record: Record = toml::from_str(&off).expect("a key of [record]");
            let others = Topic::ALL.into_iter().filter(|other| !record.has(*other));
            assert_eq!(others.collect::<Vec<_>>(), [topic], "{off}");
            assert_eq!(bits & topic.bit(), 0, "{off}");
            bits |= topic.bit();
        }
    }
}
