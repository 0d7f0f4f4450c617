//! Formats of other tools: what the crate `flightrec-export` makes, as an output format of this
//! program.
//!
//! An exporter makes one thing of all recordings of a window, so it is shared by what the pass asks
//! for each of them. Its bytes go the way of lines; an error of it waits until it is asked for.

mod members;
#[cfg(test)]
mod tests;
mod words;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashSet;

use flightrec_export::{ExportError, Exporter, Session};
use flightrec_format::decode::Event;
use flightrec_format::meta::Meta;
use flightrec_format::ring::Gap;
use flightrec_reader::fds::Naming;
use flightrec_reader::pipeline::{EventContext, Merging, Wants};
use flightrec_reader::wall::WallClock;

use self::words::Words;
use crate::render::{self, Following, Render, Start};

/// An export in the making, to be shared.
#[derive(Clone)]
pub struct Export {
    shared: Arc<Mutex<Shared>>,
    fds: Naming,
    /// Whether the spans that threads work for are wanted.
    traces: bool,
}

struct Shared {
    exporter: Box<dyn Exporter>,
    words: Option<(u64, Words)>,
    /// What it has made before the events that come next.
    pending: Vec<u8>,
    /// Windows, and gaps, that were told already: session, lane and CPU, from, until.
    told: FxHashSet<(u64, u32, u64, u64)>,
    /// Why it can't go on.
    error: Option<ExportError>,
    fds: Naming,
}

impl Export {
    /// By this exporter, with descriptors named so.
    pub fn new(exporter: Box<dyn Exporter>, fds: Naming) -> Self {
        let shared = Shared {
            exporter,
            words: None,
            pending: Vec::new(),
            told: FxHashSet::default(),
            error: None,
            fds,
        };
        Self { shared: Arc::new(Mutex::new(shared)), fds, traces: false }
    }

    /// With the spans that threads work for.
    #[must_use]
    pub fn with_traces(self, traces: bool) -> Self {
        Self { traces, ..self }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why it can't go on, once.
    pub fn error(&self) -> Option<ExportError> {
        self.lock().error.take()
    }

    /// Whether it can't go on.
    pub fn has_failed(&self) -> bool {
        self.lock().error.is_some()
    }

    /// No more events come: writes the rest of its bytes, and returns what the format had no place
    /// for.
    ///
    /// # Errors
    /// Why the export can't be finished: an [`ExportError`], or what `write` returns.
    pub fn end(
        &self,
        mut write: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<String>> {
        // Whoever writes may ask for an error: the lock is free meanwhile.
        let mut out = std::mem::take(&mut self.lock().pending);
        self.lock().exporter.end(&mut out)?;
        write(&out)?;
        out.clear();
        while self.lock().exporter.more(&mut out)? {
            write(&out)?;
            out.clear();
        }
        Ok(self.lock().exporter.remarks())
    }
}

impl Shared {
    /// Notes an error.
    fn check(&mut self, result: Result<(), ExportError>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }

    /// A recording's events come next: tells what it covers and lacks, each once.
    fn start(&mut self, start: &mut Start<'_>) {
        let Start { recording, reports, windows, wall, .. } = start;
        let number = recording.meta.session;
        if self.error.is_some() || windows.is_empty() {
            return;
        }
        let mut session = Session { recording, window: windows.hull(), wall };
        let Self { exporter, pending, .. } = self;
        let begun = exporter.begin(&mut session, pending);
        self.check(begun);
        if self.error.is_some() {
            return;
        }
        let words = Words::new(&recording.meta, self.fds);
        self.words = Some((number, words));
        let Self { exporter, pending, told, .. } = self;
        for report in *reports {
            let window = report.window;
            if told.insert((number, u32::MAX, window.from, window.until)) {
                exporter.coverage(report, wall, pending);
            }
            for gap in report.gaps() {
                let ring = (gap.lane as u32) << 16 | u32::from(gap.cpu);
                if told.insert((number, ring, gap.from, gap.until)) {
                    exporter.gap(gap, window, wall, pending);
                }
            }
        }
    }
}

impl render::Format for Export {
    fn begin(&self, start: &mut Start<'_>) -> Vec<u8> {
        self.lock().start(start);
        Vec::new()
    }

    fn follow(&self, _following: &Following<'_>) -> Vec<u8> {
        Vec::new()
    }

    fn gap(&self, _gap: &Gap, _wall: &mut WallClock) -> Vec<u8> {
        Vec::new()
    }

    fn remark(&self, _line: &str) -> Vec<u8> {
        Vec::new()
    }

    fn events(&self, _meta: &Meta) -> Box<dyn Render> {
        Box::new(self.clone())
    }
}

impl Render for Export {
    fn wants(&self) -> Wants {
        Wants { naming: self.fds, merging: Merging::Never, traces: self.traces }
    }

    fn expect(&mut self, start: &mut Start<'_>) {
        self.lock().start(start);
    }

    fn event(&mut self, event: &Event, known: &EventContext<'_>, out: &mut Vec<u8>) {
        let mut shared = self.lock();
        let Shared { exporter, words, pending, error, .. } = &mut *shared;
        if error.is_some() {
            // Whoever writes it is told that it is of no use: see `has_failed`.
            out.push(0);
            return;
        }
        out.append(pending);
        let Some((_, words)) = words else { return };
        let made = exporter.event(event, known, words, out);
        shared.check(made);
    }

    fn end(&mut self, _out: &mut Vec<u8>) {}
}
