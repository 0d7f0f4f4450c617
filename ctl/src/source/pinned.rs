//! The rings as the kernel has them, whether a daemon lives or not.

use std::path::{Path, PathBuf};

use flightrec_format::abi::page::Lane;
use flightrec_format::control::Totals;
use flightrec_format::live::{self, Generation, LiveError, clock::monotonic};
use flightrec_format::meta::Meta;

use super::{Clock, Collector, Recording, Source, SourceError};
use crate::window::Window;

/// The newest recording that is pinned below a bpffs directory.
pub struct PinnedSource {
    recording: live::Recording,
    progs: PathBuf,
    clock: Clock,
}

impl PinnedSource {
    /// Maps it.
    pub fn open(bpffs_dir: &Path) -> Result<Self, LiveError> {
        let dir = Generation::find(bpffs_dir)?;
        let recording = live::Recording::open(&dir, false)?;
        let now = monotonic();
        let clock = Clock { now, wall_offset: wall().saturating_sub(now as i64) };
        Ok(Self { recording, progs: dir.join("progs"), clock })
    }

    /// The recording's description.
    pub fn meta(&self) -> Result<Meta, LiveError> {
        self.recording.meta()
    }

    /// Its counters, now.
    pub fn totals(&self) -> Result<Totals, LiveError> {
        self.recording.totals(&self.progs)
    }

    /// By lane: the history that every ring holds, ns.
    pub fn held(&self) -> [u64; 3] {
        Lane::RINGS.map(|lane| self.recording.held(lane))
    }
}

impl Source for PinnedSource {
    fn clock(&self) -> Clock {
        self.clock
    }

    fn read(&mut self, window: Window) -> Result<Recording, SourceError> {
        let meta = self.recording.meta()?;
        let cpus = self.recording.cpus();
        let mut collector = Collector::new(meta);
        for lane in Lane::RINGS {
            // The task lane is small, and all of it tells names.
            let Window { from, until } = if lane == Lane::Task { Window::ALL } else { window };
            for cpu in &cpus {
                for page in self.recording.pages(lane, *cpu, from, until) {
                    collector.add(&page)?;
                }
            }
        }
        for page in self.recording.slots() {
            collector.add(&page)?;
        }
        Ok(collector.finish(self.totals()?))
    }
}

/// `CLOCK_REALTIME`, ns.
fn wall() -> i64 {
    i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
}
