//! How the program ends.

use std::process::ExitCode;

/// Exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Fine.
    Fine = 0,
    /// Nothing in the window.
    Nothing = 1,
    /// An error; wrong usage as well (clap's own status is the same).
    Error = 2,
    /// Something of the window is missing, and `--strict` was given.
    Incomplete = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}
