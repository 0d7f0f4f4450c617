//! The first pass: tables, distributions, and what each thread comes to.

use std::collections::BTreeMap;

use flightrec_analysis::State;
use flightrec_analysis::histogram::Histogram;
use flightrec_format::decode::Body;
use rustc_hash::FxHashMap;

use crate::report::{self, Part, Report, Seen, Several, Shape, Sums};
use crate::text::printable;

/// Most threads that are told apart; those that come later are not chosen.
const SURVEYED_MAX: usize = 65_536;
/// Waits shorter than that are no reason to draw a thread, ns.
const WAIT_LEAST: u64 = 1_000_000;

/// What a thread comes to.
#[derive(Debug, Default)]
pub(super) struct Total {
    /// Its name, fit to print.
    pub(super) comm: String,
    pub(super) pid: u32,
    pub(super) running: u64,
    /// For how long it waited for a CPU.
    pub(super) delayed: u64,
    /// Its longest wait for what work needs.
    pub(super) waited: u64,
}

/// What a window comes to.
#[derive(Default)]
pub(super) struct Survey {
    pub(super) threads: FxHashMap<u32, Total>,
    /// For how long each CPU was busy.
    pub(super) cpus: BTreeMap<u16, u64>,
    /// How long calls took.
    pub(super) calls: Histogram,
    /// How long threads waited for a CPU, each time.
    pub(super) delays: Histogram,
    pub(super) events: u64,
}

impl Survey {
    fn stretch(&mut self, part: &Part<'_>, to: &Sums) {
        let interval = &part.stretch.interval;
        let tid = interval.tid;
        if tid == 0 || self.threads.len() >= SURVEYED_MAX && !self.threads.contains_key(&tid) {
            return;
        }
        let total = self.threads.entry(tid).or_default();
        if total.comm.is_empty() && !part.facts.comm.is_empty() {
            total.comm = printable(part.facts.comm);
        }
        total.pid = part.facts.pid;
        match interval.state {
            State::Running => {
                total.running += part.ns;
                *self.cpus.entry(interval.cpu).or_default() += part.ns;
            }
            State::Runnable => {
                total.delayed += part.ns;
                self.delays.add(part.ns);
            }
            State::Blocked(_)
                if part.ns > total.waited.max(WAIT_LEAST)
                    && !report::reason(part, to).is_idle() =>
            {
                total.waited = part.ns;
            }
            _ => {}
        }
    }
}

/// The survey, and the tables.
pub(super) struct Both {
    pub(super) survey: Survey,
    pub(super) tables: Several,
}

impl Report for Both {
    fn shape(&self) -> &'static Shape {
        &report::WHOLE
    }

    fn event(&mut self, seen: &Seen<'_>, to: &mut Sums) {
        if seen.is_wanted {
            self.survey.events += 1;
            if let (Body::Exit { .. }, Some(ns)) = (&seen.event.body, seen.known.duration_ns) {
                self.survey.calls.add(ns);
            }
        }
        self.tables.event(seen, to);
    }

    fn stretch(&mut self, part: &Part<'_>, to: &mut Sums) {
        self.survey.stretch(part, to);
        self.tables.stretch(part, to);
    }

    fn end(&mut self, to: &mut Sums) {
        self.tables.end(to);
    }
}
