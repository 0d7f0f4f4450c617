//! Sets of kinds of event, as `--event` names them.

pub use flightrec_format::abi::kinds::Kind;

/// A set of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds([bool; Kind::COUNT]);

impl Kinds {
    /// No kind.
    pub const NONE: Self = Self([false; Kind::COUNT]);
    /// Every kind.
    pub const ALL: Self = Self([true; Kind::COUNT]);
    /// System call entry and exit.
    pub const SYSCALLS: Self = Self::NONE.with(Kind::SysEnter).with(Kind::SysExit);
    /// Operations of io_uring: submitted, done.
    pub const OPERATIONS: Self = Self::NONE.with(Kind::IoSubmit).with(Kind::IoComplete);
    /// What has to do with paths: system calls and operations of io_uring.
    pub const OF_PATHS: Self = Self::SYSCALLS.with(Kind::IoSubmit).with(Kind::IoComplete);

    /// With this kind as well.
    #[must_use]
    pub const fn with(mut self, kind: Kind) -> Self {
        self.0[kind.place()] = true;
        self
    }

    /// Whether the kind is in it.
    pub const fn has(self, kind: Kind) -> bool {
        self.0[kind.place()]
    }

    /// The kinds of both sets.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(is, too)| *is &= too);
        self
    }
}

impl Default for Kinds {
    fn default() -> Self {
        Self::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets() {
        assert!(Kind::ALL.iter().all(|k| Kinds::ALL.has(*k) && !Kinds::NONE.has(*k)));
        assert!(Kinds::NONE.with(Kind::Recorder).has(Kind::Recorder));
        assert!(Kinds::SYSCALLS.has(Kind::SysExit) && !Kinds::SYSCALLS.has(Kind::Switch));
    }
}
