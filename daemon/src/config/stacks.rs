//! `[stacks]`: of which waits it is recorded where in the kernel the thread waited.

use std::time::Duration;

use flightrec_format::abi::record::stack::FRAMES_MAX;
use flightrec_format::abi::state::NO_STACKS;
use serde::{Deserialize, Serialize};

use super::Span;

/// Shortest wait that may count as long: taking a stack takes a microsecond or two.
const LEAST: Duration = Duration::from_micros(10);

/// Kernel stacks of long waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stacks {
    /// Whether they are recorded.
    pub enabled: bool,
    /// How long a thread must have slept.
    pub longer_than: Span,
    /// Most functions of a stack, from the innermost one out.
    pub kernel_frames: u32,
}

impl Default for Stacks {
    fn default() -> Self {
        Self { enabled: true, longer_than: Span::millis(1), kernel_frames: 16 }
    }
}

impl Stacks {
    /// How long a wait is that counts, ns, for the probes.
    pub fn long_wait(&self) -> u64 {
        let ns = u64::try_from(self.longer_than.duration().as_nanos()).unwrap_or(NO_STACKS);
        if self.enabled { ns } else { NO_STACKS }
    }

    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let most = FRAMES_MAX as u32;
        if !(1..=most).contains(&self.kernel_frames) {
            let message = format!("{} is not within 1 to {most}", self.kernel_frames);
            return Err(("stacks.kernel_frames", message));
        }
        if self.longer_than.duration() < LEAST {
            let message = format!(
                "{} is too short: give at least {}, or set enabled = false",
                self.longer_than,
                humantime::format_duration(LEAST)
            );
            return Err(("stacks.longer_than", message));
        }
        Ok(())
    }
}
