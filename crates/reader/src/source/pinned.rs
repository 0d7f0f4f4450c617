//! The rings as the kernel has them, whether a daemon lives or not.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use flightrec_format::abi::page::{Lane, RING_LANES};
use flightrec_format::abi::probe::STACK_WALK;
use flightrec_format::control::{Budget, Position, Totals};
use flightrec_format::live::{
    self, Generation, LiveError, Since, clock::monotonic, clock::wall_offset,
};
use flightrec_format::meta::Meta;
use flightrec_format::slots;
use flightrec_format::symbols::Symbols;
use flightrec_format::thread_stack::ThreadStack;

use super::live::{NewsCollector, Stacks};
use super::{Clock, Collector, Live, News, PageSet, Source, SourceError};
use crate::observe;
use crate::window::Window;

/// The newest recording that is pinned below a bpffs directory.
pub struct PinnedSource {
    recording: live::LiveRings,
    progs: PathBuf,
    stack_walk: PathBuf,
    clock: Clock,
}

impl PinnedSource {
    /// Maps it.
    ///
    /// # Errors
    /// There is no recording, or it may not be mapped: that takes root.
    pub fn open(bpffs_dir: &Path) -> Result<Self, LiveError> {
        let dir = Generation::find(bpffs_dir)?;
        let recording = live::LiveRings::open(&dir, false)?;
        let now = monotonic();
        let clock = Clock { now, wall_offset: wall_offset() };
        Ok(Self {
            recording,
            progs: dir.join("progs"),
            stack_walk: dir.join("links").join(STACK_WALK),
            clock,
        })
    }

    /// The recording's description.
    ///
    /// # Errors
    /// It is damaged.
    pub fn meta(&self) -> Result<Meta, LiveError> {
        self.recording.meta()
    }

    /// Its counters, now.
    ///
    /// # Errors
    /// The kernel does not tell what programs it skipped.
    pub fn totals(&self) -> Result<Totals, LiveError> {
        self.recording.totals(&self.progs)
    }

    /// Kernel memory of its rings and tables, bytes.
    pub fn memory(&self) -> u64 {
        self.recording.maps().bytes()
    }

    /// Threads in its thread table.
    pub fn threads(&self) -> u64 {
        self.recording.slots().map(|page| slots::read(&page).count() as u64).sum()
    }

    /// By lane: the history that every ring holds, ns.
    pub fn held(&self) -> [u64; RING_LANES] {
        Lane::RINGS.map(|lane| self.recording.held(lane))
    }

    /// What recording may cost, and what it costs.
    pub fn budget(&self) -> Budget {
        self.recording.budget()
    }
}

impl Source for PinnedSource {
    fn clock(&self) -> Clock {
        self.clock
    }

    fn read(&mut self, window: Window) -> Result<PageSet, SourceError> {
        let meta = self.recording.meta()?;
        let cpus = self.recording.cpus();
        let mut collector = Collector::new(meta);
        // Before the rings, so that what happened up to the snapshot is in their copies.
        for page in self.recording.descriptors() {
            collector.add(&page)?;
        }
        let progress = observe::begins("reading the recording");
        for lane in Lane::RINGS {
            // The task lane is small, and all of it tells names.
            let Window { from, until } = if lane == Lane::Task { Window::ALL } else { window };
            for cpu in &cpus {
                for page in self.recording.pages(lane, *cpu, from, until) {
                    progress.add(page.len() as u64);
                    collector.add(&page)?;
                }
            }
        }
        for (_, page) in self.recording.kept(0..self.recording.quiet_pages()) {
            collector.add(&page)?;
        }
        for page in self.recording.slots() {
            collector.add(&page)?;
        }
        Ok(collector.finish(self.totals()?))
    }
}

impl Live for PinnedSource {
    fn session(&self) -> u64 {
        self.recording.session()
    }

    fn cpus(&self) -> Vec<u16> {
        self.recording.cpus()
    }

    fn stacks(&mut self) -> Result<Stacks, SourceError> {
        let mut by_thread = HashMap::new();
        let told = File::open(&self.stack_walk).and_then(|file| {
            ThreadStack::walk(file, |of| drop(by_thread.insert(of.tid, of.frames)))
        });
        told.map_err(SourceError::NoStacks)?;
        // No daemon lives that would look up functions that no stack had before.
        Ok(Stacks { by_thread, symbols: Symbols::new(&self.meta()?) })
    }

    fn since(
        &mut self,
        session: u64,
        after: &[Position],
        newest: u32,
    ) -> Result<Option<News>, SourceError> {
        // A recording that ended stays mapped, and is written no more.
        if session != self.recording.session() || !self.progs.exists() {
            return Ok(None);
        }
        let mut collector = NewsCollector::new(session, after, newest);
        // What is new is settled for all rings now: a busy ring goes on while those before it are
        // copied.
        let new: Vec<Since> =
            after.iter().map(|position| self.recording.since(position, newest)).collect();
        for mut since in new {
            while let Some(page) = self.recording.advance_since(&mut since) {
                collector.add(&page)?;
            }
        }
        Ok(Some(collector.finish(self.totals()?)))
    }
}
