//! What the table of threads is sorted by.

use clap::ValueEnum;

/// A figure of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Column {
    /// System calls begun.
    #[default]
    Syscalls,
    /// System calls that failed.
    Errors,
    /// Time on a CPU.
    Run,
    /// Time in which it was runnable and waited for a CPU.
    Delay,
    /// Time in which it was runnable while its CPU was idle: its control group's quota was used up.
    Held,
    /// Time asleep.
    Blocked,
}

impl Column {
    /// All of them, from left to right.
    pub const ALL: [Self; 6] =
        [Self::Syscalls, Self::Errors, Self::Run, Self::Delay, Self::Held, Self::Blocked];

    /// The one to the right, or (`by` -1) to the left; round the ends.
    #[must_use]
    pub fn beside(self, by: isize) -> Self {
        let at = (self as usize).cast_signed() + by;
        Self::ALL
            .get(at.rem_euclid(Self::ALL.len().cast_signed()).cast_unsigned())
            .copied()
            .unwrap_or(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_the_ends() {
        assert_eq!(Column::Syscalls.beside(-1), Column::Blocked);
        assert_eq!(Column::Blocked.beside(1), Column::Syscalls);
        assert_eq!(Column::Run.beside(1), Column::Delay);
    }
}
