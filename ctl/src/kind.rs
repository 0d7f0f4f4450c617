//! Kinds of event, as `--event` names them.

use flightrec_format::decode::Body;

/// A kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A system call begins.
    SysEnter,
    /// A system call ends.
    SysExit,
    /// A context switch.
    Switch,
    /// A thread is woken.
    Waking,
    /// A new thread becomes runnable.
    WakeupNew,
    /// A thread moves to another CPU.
    Migrate,
    /// A thread is created.
    Fork,
    /// A program is executed.
    Exec,
    /// A thread changes its name.
    Rename,
    /// A thread ends.
    Exit,
    /// A line by a user.
    Mark,
    /// An act of the recorder.
    Act,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 12] = [
        Kind::SysEnter,
        Kind::SysExit,
        Kind::Switch,
        Kind::Waking,
        Kind::WakeupNew,
        Kind::Migrate,
        Kind::Fork,
        Kind::Exec,
        Kind::Rename,
        Kind::Exit,
        Kind::Mark,
        Kind::Act,
    ];

    /// The kind's name.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::SysEnter => "sys_enter",
            Kind::SysExit => "sys_exit",
            Kind::Switch => "switch",
            Kind::Waking => "waking",
            Kind::WakeupNew => "wakeup_new",
            Kind::Migrate => "migrate",
            Kind::Fork => "fork",
            Kind::Exec => "exec",
            Kind::Rename => "rename",
            Kind::Exit => "exit",
            Kind::Mark => "mark",
            Kind::Act => "act",
        }
    }

    /// The kind of an event.
    pub const fn of(body: &Body) -> Self {
        match body {
            Body::Enter(_) => Kind::SysEnter,
            Body::Exit { .. } => Kind::SysExit,
            Body::Switch { .. } => Kind::Switch,
            Body::Waking { new: false, .. } => Kind::Waking,
            Body::Waking { new: true, .. } => Kind::WakeupNew,
            Body::Migrate { .. } => Kind::Migrate,
            Body::Fork(_) => Kind::Fork,
            Body::Exec { .. } => Kind::Exec,
            Body::Rename(_) => Kind::Rename,
            Body::TaskExit(_) => Kind::Exit,
            Body::Mark(_) => Kind::Mark,
            Body::Act(..) => Kind::Act,
        }
    }

    /// The kind that a lane counts at an index of its header's totals.
    pub const fn counted(lane: usize, index: usize) -> Option<Self> {
        match (lane, index) {
            (0, 0) => Some(Kind::SysEnter),
            (0, 1) => Some(Kind::SysExit),
            (1, 0) => Some(Kind::Switch),
            (1, 1) => Some(Kind::Waking),
            (1, 2) => Some(Kind::WakeupNew),
            (1, 3) => Some(Kind::Migrate),
            (2, 0) => Some(Kind::Fork),
            (2, 1) => Some(Kind::Exec),
            (2, 2) => Some(Kind::Rename),
            (2, 3) => Some(Kind::Exit),
            (2, 4) => Some(Kind::Mark),
            (2, 5) => Some(Kind::Act),
            _ => None,
        }
    }
}

/// A set of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kinds(u16);

impl Kinds {
    /// No kind.
    pub const NONE: Self = Self(0);
    /// Every kind.
    pub const ALL: Self = Self((1 << Kind::ALL.len()) - 1);
    /// System call entry and exit.
    pub const SYSCALLS: Self = Self(1 << Kind::SysEnter as u8 | 1 << Kind::SysExit as u8);

    /// With this kind as well.
    #[must_use]
    pub const fn with(self, kind: Kind) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// Whether the kind is in it.
    pub const fn has(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flightrec_format::abi::record::{counter, kind};

    #[test]
    fn counters_are_named_as_the_format_numbers_them() {
        for (lane, code, want) in [
            (0, kind::ENTER, Kind::SysEnter),
            (0, kind::EXIT, Kind::SysExit),
            (1, kind::SWITCH, Kind::Switch),
            (1, kind::WAKING, Kind::Waking),
            (1, kind::WAKEUP_NEW, Kind::WakeupNew),
            (1, kind::MIGRATE, Kind::Migrate),
            (2, kind::FORK, Kind::Fork),
            (2, kind::EXEC, Kind::Exec),
            (2, kind::RENAME, Kind::Rename),
            (2, kind::TASK_EXIT, Kind::Exit),
            (2, kind::MARK, Kind::Mark),
            (2, kind::ACT, Kind::Act),
        ] {
            assert_eq!(Kind::counted(lane, counter(code)), Some(want));
        }
    }

    #[test]
    fn sets() {
        assert!(Kind::ALL.iter().all(|k| Kinds::ALL.has(*k) && !Kinds::NONE.has(*k)));
        assert!(Kinds::NONE.with(Kind::Act).has(Kind::Act));
        assert!(Kinds::SYSCALLS.has(Kind::SysExit) && !Kinds::SYSCALLS.has(Kind::Switch));
    }
}
