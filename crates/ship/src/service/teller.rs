//! A collector, what is known of it, and what of snapshots waits to be told.

use std::cell::{Ref, RefCell, RefMut};
use std::collections::BTreeMap;
use std::path::Path;

use tokio::time::Instant;
use tracing::{error, info, warn};

use super::{StartError, now};
use crate::config::{self, Config};
use crate::files::FileError;
use crate::limits::Backoff;
use crate::otlp::answer::Answer;
use crate::otlp::client::{Collector, Failure, Fate, Kind, Request, Signal};
use crate::otlp::diary::{Diary, Told};
use crate::otlp::message::Resource;
use crate::otlp::metrics::Starts;
use crate::otlp::resource;
use crate::report;
use crate::source::Snapshot;

/// What it knows. Nothing of it is borrowed while a task waits.
pub(super) struct Teller {
    collector: Collector,
    pub(super) resource: Resource,
    pub(super) config: config::Otlp,
    core: RefCell<Core>,
}

/// What changes.
pub(super) struct Core {
    pub(super) diary: Diary,
    /// By kind of request: a collector may take some of them alone.
    lanes: [Lane; 3],
    /// The last one, with the kind of request, and since when.
    problem: Option<(Signal, Failure, i64)>,
    pub(super) trouble: Option<String>,
    pub(super) starts: Starts,
    /// Snapshots that wait to be told, in the order of their time.
    pub(super) waiting: BTreeMap<(i64, String), Snapshot>,
    /// The answer about the snapshot that is told next.
    pub(super) made: Option<(String, Answer)>,
}

/// How it stands with one kind of requests.
pub(super) struct Lane {
    backoff: Backoff,
    /// Nothing is sent before.
    paused: Option<Instant>,
    /// Why a request without content is to be taken before anything else is sent.
    held: Option<Kind>,
}

impl Lane {
    pub(super) fn is_paused(&self) -> bool {
        self.paused.is_some_and(|until| until > Instant::now())
    }
}

/// Why nothing more is told now.
pub(super) struct Paused;

impl Teller {
    /// Opens it; `None`: no collector is configured.
    pub(super) fn open(
        config: &Config,
        host: &str,
        state_dir: &Path,
    ) -> Result<Option<Self>, StartError> {
        if config.otlp.endpoint.is_empty() {
            return Ok(None);
        }
        let collector = Collector::open(&config.otlp)?;
        let diary = Diary::open(state_dir, now())?;
        // What begins here is there for the next start.
        diary.write()?;
        let config = config.otlp.clone();
        let (least, most) = (config.retry_least.duration(), config.retry_most.duration());
        let lane = || Lane { backoff: Backoff::new(least, most), paused: None, held: None };
        let core = RefCell::new(Core {
            starts: Starts::new(diary.begun),
            diary,
            lanes: [lane(), lane(), lane()],
            problem: None,
            trouble: None,
            waiting: BTreeMap::new(),
            made: None,
        });
        let id = resource::host_id(&state_dir.to_string_lossy());
        let resource = resource::resource(host, &id);
        Ok(Some(Self { collector, resource, config, core }))
    }

    pub(super) fn get(&self) -> Ref<'_, Core> {
        self.core.borrow()
    }

    pub(super) fn change(&self) -> RefMut<'_, Core> {
        self.core.borrow_mut()
    }

    /// How it stands.
    pub(super) fn report(&self) -> report::Otlp {
        let core = self.get();
        let diary = &core.diary;
        report::Otlp {
            collector: self.collector.place(),
            problem: core.problem.as_ref().map(|(_, failure, since)| report::Problem {
                kind: failure.kind.name().to_owned(),
                message: failure.message.clone(),
                since: *since,
            }),
            trouble: core.trouble.clone(),
            last: diary.last,
            waiting: core.waiting.len() as u64,
            records: diary.records,
            spans: diary.spans,
            points: diary.points,
            left_out: diary.left_out,
            spans_left_out: diary.spans_left_out,
            rejected: diary.rejected,
            refused: diary.refused,
            failures: diary.failures,
        }
    }

    /// Sends a request; whether it was taken, or else is never to be sent again.
    pub(super) async fn send(&self, request: &Request) -> Result<bool, Paused> {
        let signal = request.signal();
        if self.get().lane(signal).is_paused() {
            return Err(Paused);
        }
        if self.get().lane(signal).held.is_some() {
            let tried = self.collector.probe(signal).await;
            self.came(signal, tried.map(|()| 0))?;
        }
        let sent = self.collector.send(request).await;
        let sent = sent.map(|answer| {
            if !answer.error_message.is_empty() || answer.rejected > 0 {
                let (n, why) = (answer.rejected, report::plain(&answer.error_message));
                warn!("{}: {n} rejected: {why}", self.collector.place());
            }
            answer.rejected.try_into().unwrap_or(0)
        });
        self.came(signal, sent)
    }

    /// Whether there is no collector of spans at this address.
    pub(super) fn takes_no_spans(&self) -> bool {
        self.get().lane(Signal::Traces).held == Some(Kind::Address)
    }

    /// A snapshot can't be told.
    pub(super) fn leave_out(&self, id: &str, why: &str) {
        warn!("snapshot {id} is not told: {why}");
        let mut core = self.change();
        core.leave_out(id);
        core.made = None;
        core.write();
    }

    /// Enters what came of a request.
    fn came(&self, signal: Signal, sent: Result<u64, Failure>) -> Result<bool, Paused> {
        let mut core = self.change();
        let failure = match sent {
            Ok(rejected) => {
                core.diary.rejected += rejected;
                core.arrived(signal);
                return Ok(true);
            }
            Err(failure) => failure,
        };
        core.failed(signal, &failure);
        let lane = core.lane_mut(signal);
        let asked = match failure.fate {
            Fate::Drop => {
                // It answers.
                lane.backoff.succeed();
                lane.held = None;
                core.diary.refused += 1;
                core.write();
                return Ok(false);
            }
            Fate::Retry(asked) => asked,
            Fate::Hold => {
                lane.held = Some(failure.kind);
                None
            }
        };
        let pause = lane.backoff.fail(fastrand::f64()).max(asked.unwrap_or_default());
        lane.paused = Some(Instant::now() + pause);
        core.diary.failures += 1;
        Err(Paused)
    }
}

impl Core {
    pub(super) fn lane(&self, signal: Signal) -> &Lane {
        let [logs, traces, metrics] = &self.lanes;
        match signal {
            Signal::Logs => logs,
            Signal::Traces => traces,
            Signal::Metrics => metrics,
        }
    }

    fn lane_mut(&mut self, signal: Signal) -> &mut Lane {
        let [logs, traces, metrics] = &mut self.lanes;
        match signal {
            Signal::Logs => logs,
            Signal::Traces => traces,
            Signal::Metrics => metrics,
        }
    }

    /// The collector took something.
    fn arrived(&mut self, signal: Signal) {
        if let Some((_, _, since)) = self.problem.take_if(|(of, _, _)| *of == signal) {
            let seconds = now().saturating_sub(since) / 1_000_000_000;
            info!("the collector takes what it is given again, after {seconds} s");
        }
        let lane = self.lane_mut(signal);
        lane.backoff.succeed();
        (lane.held, lane.paused) = (None, None);
        self.diary.last = now();
    }

    /// It did not.
    fn failed(&mut self, signal: Signal, failure: &Failure) {
        match &mut self.problem {
            Some((_, known, _)) if known.message == failure.message => {}
            Some((of, known, _)) => {
                warn!("{failure}");
                (*of, *known) = (signal, failure.clone());
            }
            none => {
                let next = match failure.fate {
                    Fate::Retry(_) => "it is tried again",
                    Fate::Hold => "it is tried by a request without content",
                    Fate::Drop => "it is not sent again",
                };
                error!("{failure}; {next}");
                *none = Some((signal, failure.clone(), now()));
            }
        }
    }

    /// A snapshot is not told, or not its spans.
    pub(super) fn leave_out(&mut self, id: &str) {
        match self.diary.told(id) {
            None => self.diary.leave_out(id),
            Some(_) => self.diary.tell(id, Told::All),
        }
    }

    pub(super) fn write(&mut self) {
        let written = self.diary.write();
        self.own(written);
    }

    fn own(&mut self, done: Result<(), FileError>) {
        match done {
            Ok(()) => {}
            Err(e) => self.trouble(&format!("{e}; after a restart, something may be told twice")),
        }
    }

    pub(super) fn trouble(&mut self, what: &str) {
        if self.trouble.as_deref() != Some(what) {
            error!("{what}");
            self.trouble = Some(what.to_owned());
        }
    }
}
