//! How the program ends.

use std::process::ExitCode;

/// Exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Fine.
    Fine = 0,
    /// Nothing to show.
    Nothing = 1,
    /// An error; wrong usage as well (clap's own status is the same).
    Error = 2,
    /// Something of the window is missing, and `--strict` was given.
    Incomplete = 3,
}

impl Exit {
    /// Its meaning, in help and manual pages.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Nothing => "nothing to show: nothing was there, or nothing that the filters let through",
            Self::Error => "error; standard error says what, and what to do",
            Self::Incomplete => "something is missing, and --strict was given",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}
