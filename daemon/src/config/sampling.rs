//! `[sampling]`: how often it is recorded what runs.

use flightrec_format::abi::record::sample::FRAMES_MAX;
use serde::{Deserialize, Serialize};

/// Most samples a second: a sample takes some microseconds, with interrupts off.
const HZ_MAX: u32 = 1000;

/// Samples of what runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// How many a second, on each CPU that runs something; 0: none.
    pub hz: u32,
    /// Most functions of the program, from the innermost one out.
    pub user_frames: u32,
    /// Most functions of the kernel.
    pub kernel_frames: u32,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { hz: 49, user_frames: 16, kernel_frames: 16 }
    }
}

impl Sampling {
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.hz > HZ_MAX {
            return Err(("sampling.hz", format!("{} is not within 0 to {HZ_MAX}", self.hz)));
        }
        let most = FRAMES_MAX as u32;
        let frames = [
            ("sampling.user_frames", self.user_frames),
            ("sampling.kernel_frames", self.kernel_frames),
        ];
        match frames.into_iter().find(|(_, frames)| *frames > most) {
            Some((key, frames)) => Err((key, format!("{frames} is not within 0 to {most}"))),
            None => Ok(()),
        }
    }
}
