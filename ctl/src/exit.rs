//! How the program ends.

use std::process::ExitCode;

/// Exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Fine.
    Fine,
    /// Nothing to show.
    Nothing,
    /// A file that was checked is damaged.
    Damaged,
    /// The machine is not ready for a panic.
    NotReady,
    /// An error; wrong usage as well (clap's own status is the same).
    Error,
    /// Something of the window is missing, and `--strict` was given.
    Incomplete,
    /// A host did not answer.
    Unanswered,
    /// All hosts answered, but something of a window is missing.
    Partial,
}

impl Exit {
    /// Its number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Nothing | Self::Damaged | Self::NotReady | Self::Unanswered => 1,
            Self::Error => 2,
            Self::Incomplete | Self::Partial => 3,
        }
    }

    /// Its meaning, in help and manual pages.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Fine => "success",
            Self::Nothing => "nothing to show: no events, or none that match the filters",
            Self::Damaged => "damage was found; standard output says where, and what was lost",
            Self::NotReady => "not ready; standard output says what is missing, and what to do",
            Self::Error => "error; standard error says what, and what to do",
            Self::Incomplete => "events are missing, and --strict was given",
            Self::Unanswered => "a host did not answer; the table says why",
            Self::Partial => "all hosts answered, but a window is incomplete, or of another time",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}
