//! The clocks of a recording's samples.

use std::mem::offset_of;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use flightrec_format::abi::state::CpuState;
use flightrec_format::meta::Lacking;
use tracing::{info, warn};

use super::Recording;
use crate::attachments::SAMPLE;
use crate::config::Sampling;

/// What the metadata name where clocks could not be set that could when the recording began.
const CLOCKS: &str = "clocks";

impl Recording {
    /// Sets how often what runs is recorded, and how much of it.
    pub(super) fn set_sampling(&self, sampling: &Sampling) {
        let frames = u64::from(sampling.kernel_frames) | u64::from(sampling.user_frames) << 32;
        for cpu in 0..self.state().entries() {
            self.state().write(cpu, offset_of!(CpuState, sample_frames), &frames.to_le_bytes());
        }
        self.hz.store(sampling.hz, Ordering::Relaxed);
        self.set_clocks();
    }

    /// Has each CPU that is online have its clock. That it could not is no reason to stop, and told
    /// once, also in the metadata, as long as it is so.
    pub(super) fn set_clocks(&self) {
        let (meta, hz) = (self.meta(), self.hz.load(Ordering::Relaxed));
        if meta.lacking.iter().any(|of| of.program == SAMPLE) {
            return;
        }
        let mut samplers = self.samplers.lock().unwrap_or_else(PoisonError::into_inner);
        let set = samplers.set(&self.dir, hz, &meta.cpus).map_err(|e| e.to_string());
        let told = meta.lacking.iter().find(|of| of.program == CLOCKS);
        if told.map(|of| &of.why) == set.as_ref().err() {
            return;
        }
        match &set {
            Ok(()) => info!("all clocks that make samples are set"),
            Err(e) => warn!("the clocks that make samples could not be set: {e}"),
        }
        let lacking = set.err().map(|why| Lacking {
            program: CLOCKS.into(),
            what: "samples of what runs".into(),
            kinds: vec!["sample".into()],
            why,
        });
        let told = self.update_meta(|meta| {
            meta.lacking.retain(|of| of.program != CLOCKS);
            meta.lacking.extend(lacking);
        });
        if let Err(e) = told {
            warn!("the recording's metadata do not tell of these clocks: {e}");
        }
    }
}
