//! `[budget]`: what recording may cost, and what it may give up for that.

use flightrec_format::abi::state::{
    GIVEN_ARGUMENTS, GIVEN_CONTINUITY, GIVEN_EXIT_TIMES, GIVEN_STRINGS, GIVEN_SYSCALLS,
};
use serde::{Deserialize, Serialize};

use super::Share;

/// `[budget]`: what recording may cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// CPU time of the machine that recording may take, the daemon's own included.
    pub total: Share,
    /// CPU time of each CPU that the probes may take.
    pub per_cpu: Share,
    /// Seconds of unspent allowance that may be spent at once.
    pub burst_seconds: u32,
    /// What is given up, in this order, where a limit would be broken.
    pub give_up: Vec<Step>,
    /// Whether system calls may be detached for part of the time.
    pub detach: Detach,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            total: Share::Off,
            per_cpu: Share::Millionths(50_000),
            burst_seconds: 10,
            give_up: Step::DEFAULT.to_vec(),
            detach: Detach::Auto,
        }
    }
}

impl Budget {
    /// Refuses what means nothing; names the key.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if !(1..=3600).contains(&self.burst_seconds) {
            return Err((
                "budget.burst_seconds",
                format!("{} is not within 1 to 3600", self.burst_seconds),
            ));
        }
        for (i, step) in self.give_up.iter().enumerate() {
            if self.give_up.iter().skip(i + 1).any(|other| other == step) {
                return Err(("budget.give_up", format!("\"{}\" is listed twice", step.name())));
            }
        }
        Ok(())
    }
}

/// Something that can be given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Strings of system calls.
    Strings,
    /// When a call ended, where that takes a clock read of its own.
    ExitTimes,
    /// All arguments but the first.
    Arguments,
    /// That system calls of loud processes are recorded all the time: they are in whole stretches.
    Continuity,
    /// System calls of loud processes, but for a stretch in minutes.
    Syscalls,
}

impl Step {
    /// What is given up by default, in order.
    pub const DEFAULT: [Self; 4] =
        [Self::Strings, Self::ExitTimes, Self::Arguments, Self::Continuity];
    /// In the usual order.
    pub const ALL: [Self; 5] =
        [Self::Strings, Self::ExitTimes, Self::Arguments, Self::Continuity, Self::Syscalls];

    /// Its name in configuration and status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strings => "strings",
            Self::ExitTimes => "exit_times",
            Self::Arguments => "arguments",
            Self::Continuity => "continuity",
            Self::Syscalls => "syscalls",
        }
    }

    /// Its `GIVEN_…` bit.
    pub const fn bit(self) -> u32 {
        match self {
            Self::Strings => GIVEN_STRINGS,
            Self::ExitTimes => GIVEN_EXIT_TIMES,
            Self::Arguments => GIVEN_ARGUMENTS,
            Self::Continuity => GIVEN_CONTINUITY,
            Self::Syscalls => GIVEN_SYSCALLS,
        }
    }
}

/// Whether the programs on system calls may be detached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detach {
    /// Where being asked alone would break the total.
    Auto,
    /// Not even then.
    Never,
}
