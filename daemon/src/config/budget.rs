//! `[budget]`: what recording may cost, and how it degrades to stay within that.

use std::time::Duration;

use flightrec_format::abi::state::{
    GIVEN_ARGUMENTS, GIVEN_EXIT_TIMES, GIVEN_SAMPLING, GIVEN_STACKS, GIVEN_STRINGS, GIVEN_SYSCALLS,
};
use serde::{Deserialize, Serialize};

use super::{Share, Span};

/// How much unspent allowance may be saved.
const BURST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(1));

/// `[budget]`: what recording may cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// CPU time of the machine that recording may take, the daemon's own included.
    pub total: Share,
    /// CPU time of each CPU that the probes may take.
    pub per_cpu: Share,
    /// Unspent allowance that may be spent at once, as time at the limit; whole seconds.
    pub burst: Span,
    /// Steps by which the recording degrades, in this order, where a limit would be exceeded.
    pub degrade_order: Vec<Step>,
    /// Whether system calls may be detached for part of the time.
    pub detach: Detach,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            total: Share::Off,
            per_cpu: Share::Millionths(50_000),
            burst: Span::seconds(10),
            degrade_order: Step::DEFAULT.to_vec(),
            detach: Detach::Auto,
        }
    }
}

impl Budget {
    /// Refuses what means nothing; names the key.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let (least, most) = BURST;
        let burst = self.burst.duration();
        if !(least..=most).contains(&burst) {
            let (least, most) =
                (humantime::format_duration(least), humantime::format_duration(most));
            let message = format!("{} is not within {least} to {most}", self.burst);
            return Err(("budget.burst", message));
        }
        if burst.subsec_nanos() != 0 {
            let message = format!("{} is not a whole number of seconds", self.burst);
            return Err(("budget.burst", message));
        }
        for (i, step) in self.degrade_order.iter().enumerate() {
            if self.degrade_order.iter().skip(i + 1).any(|other| other == step) {
                let message = format!("\"{}\" is listed twice", step.name());
                return Err(("budget.degrade_order", message));
            }
        }
        Ok(())
    }

    /// Its burst, in seconds.
    pub fn burst_seconds(&self) -> u32 {
        u32::try_from(self.burst.duration().as_secs()).unwrap_or(u32::MAX)
    }
}

/// A step by which the recording of a CPU degrades. It applies to the processes that make the most
/// calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// No strings of system calls.
    NoStrings,
    /// No end time of a call where that takes a clock read of its own.
    UntimedExits,
    /// The first argument only.
    FewerArguments,
    /// System calls in stretches without gaps, refused in between.
    Sampling,
    /// System calls refused, except for a stretch every few minutes.
    QuietOnly,
    /// No stacks of long waits, and no functions of samples.
    NoStacks,
}

impl Step {
    /// The default order.
    pub const DEFAULT: [Self; 5] =
        [Self::NoStrings, Self::UntimedExits, Self::FewerArguments, Self::NoStacks, Self::Sampling];
    /// All, in the usual order.
    pub const ALL: [Self; 6] = [
        Self::NoStrings,
        Self::UntimedExits,
        Self::FewerArguments,
        Self::NoStacks,
        Self::Sampling,
        Self::QuietOnly,
    ];

    /// Whether it is of what scheduling and the lane `kernel` may take, not of what system calls
    /// may.
    pub const fn is_of_scheduling(self) -> bool {
        matches!(self, Self::NoStacks)
    }

    /// Its name in configuration, recording and status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoStrings => "no_strings",
            Self::UntimedExits => "untimed_exits",
            Self::FewerArguments => "fewer_arguments",
            Self::Sampling => "sampling",
            Self::QuietOnly => "quiet_only",
            Self::NoStacks => "no_stacks",
        }
    }

    /// Its `GIVEN_…` bit.
    pub const fn bit(self) -> u32 {
        match self {
            Self::NoStrings => GIVEN_STRINGS,
            Self::UntimedExits => GIVEN_EXIT_TIMES,
            Self::FewerArguments => GIVEN_ARGUMENTS,
            Self::Sampling => GIVEN_SAMPLING,
            Self::QuietOnly => GIVEN_SYSCALLS,
            Self::NoStacks => GIVEN_STACKS,
        }
    }
}

/// Whether the programs on system calls may be detached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detach {
    /// Where the probe overhead alone would exceed the total.
    Auto,
    /// Not even then.
    Never,
}
