//! The thread that keeps the budget: looks at the probes' counters, reckons, and degrades the
//! recording as far as it must.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use flightrec_format::abi::record::{Act, kind};
use flightrec_format::control::{self, CpuAccount};
use tokio::sync::oneshot;
use tracing::{debug, info, warn};

use super::account::{Account, Counts, sum};
use super::crowding::Crowding;
use super::ladder::{Ladder, Limits, Rung, Sight, of_calls};
use crate::buckets::{self, Limit};
use crate::calibrate::{self, Costs};
use crate::clock;
use crate::config::{Budget, Detach, Share, Step};
use crate::control::Meter;
use crate::drain::Monitor;
use crate::recording::Recording;

/// The thread's name, as `ps -L` and the recording itself show it.
const NAME: &str = "flightd-budget";
/// How often it looks, and how often while system calls are attached for a short time.
const LOOK: Duration = Duration::from_millis(250);
const LOOK_CLOSELY: Duration = Duration::from_millis(20);
/// How often a call's cost is measured again, and when for the first time, or where it was not
/// believed: a start, of a machine too, is a noisy moment; ns.
const AGAIN: u64 = 3600 * 1_000_000_000;
const FIRST: u64 = 60 * 1_000_000_000;
/// A bucket that pays for measuring is as full as this, at least.
const FULL: f64 = 0.5;
/// Millionths of a second's nanoseconds.
const MILLIONTH: f64 = 1e3;

/// What may be changed while it works, and what it tells.
#[derive(Debug)]
pub struct Settings {
    shared: Mutex<Shared>,
    changed: Condvar,
    readers: Meter,
}

#[derive(Debug)]
struct Shared {
    budget: Budget,
    account: control::Account,
    end: bool,
}

impl Settings {
    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the budget; it holds from the next look on, which is now.
    pub fn set(&self, change: impl FnOnce(&mut Budget)) {
        change(&mut self.lock().budget);
        self.changed.notify_all();
    }

    /// What counts the CPU time of answers to clients. It is no cost of recording: nothing is given
    /// up for it.
    pub fn readers(&self) -> &Meter {
        &self.readers
    }

    /// What was spent, as of the last look.
    pub fn account(&self) -> control::Account {
        self.lock().account.clone()
    }
}

/// The thread, running.
#[derive(Debug)]
pub struct Keeper {
    settings: Arc<Settings>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Keeper {
    /// Begins to keep a recording within its budget. The receiver tells when the thread has died,
    /// which it never does by itself.
    pub fn start(
        budget: Budget,
        recording: Arc<Recording>,
        files: Arc<Monitor>,
    ) -> io::Result<(Self, oneshot::Receiver<()>)> {
        let shared = Shared { budget, account: control::Account::default(), end: false };
        let settings = Arc::new(Settings {
            shared: Mutex::new(shared),
            changed: Condvar::new(),
            readers: Meter::default(),
        });
        let (alive, died) = oneshot::channel();
        let mut work = Work::new(settings.clone(), recording, files);
        let thread = thread::Builder::new().name(NAME.into()).spawn(move || {
            work.run();
            drop(alive);
        })?;
        Ok((Self { settings, thread: Some(thread) }, died))
    }

    /// What may be changed, and what it tells.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.clone()
    }

    /// Ends it. Levels and limits stay as they are; system calls are attached.
    pub fn finish(mut self) {
        self.settings.lock().end = true;
        self.settings.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            warn!("the budget thread panicked at its end; its message is above");
        }
    }
}

/// One CPU, as it was when it was looked at last.
#[derive(Debug, Clone)]
struct Seen {
    cpu: usize,
    counts: Counts,
    enters: u64,
    rung: Option<Rung>,
    given: u32,
}

struct Work {
    settings: Arc<Settings>,
    recording: Arc<Recording>,
    files: Arc<Monitor>,
    costs: Costs,
    cpus: Vec<Seen>,
    account: Account,
    ladder: Ladder,
    looked: u64,
    daemon: u64,
    measure_at: u64,
    detached_since: Option<u64>,
    detached: u64,
    /// What is in force.
    budget: Budget,
    /// Whether the log has been told that system calls come and go.
    told: bool,
    /// Whether attaching has been begun, and not been done yet.
    attaching: bool,
    /// What it costs where system calls come and go; and the CPU that made most calls when they
    /// were attached last.
    crowding: Crowding,
    busiest: Option<usize>,
    /// Whether an own call has been timed since they came or went.
    timed: bool,
}

/// What the model needs of the configuration.
fn limits(budget: &Budget, cpus: usize) -> Limits {
    let share = |share: Share, of: f64| share.millionths().map(|n| f64::from(n) * MILLIONTH * of);
    Limits {
        per_cpu: share(budget.per_cpu, 1.0),
        total: share(budget.total, cpus as f64),
        burst: f64::from(budget.burst_seconds()),
        order: budget.degrade_order.clone(),
        detach: budget.detach == Detach::Auto,
    }
}

/// The `GIVEN_…` bits of a level, and of the steps of scheduling.
fn given(order: &[Step], level: usize, thin: bool) -> u32 {
    let of_scheduling = order.iter().copied().filter(|step| thin && step.is_of_scheduling());
    of_calls(order).take(level).chain(of_scheduling).fold(0, |bits, step| bits | step.bit())
}

impl Work {
    fn new(settings: Arc<Settings>, recording: Arc<Recording>, files: Arc<Monitor>) -> Self {
        let budget = settings.lock().budget.clone();
        let live = recording.live();
        let totals = live.counters();
        let with_rings = totals.cpus.iter().filter(|cpu| cpu.recorded);
        let cpus: Vec<Seen> = with_rings
            .map(|cpu| Seen {
                cpu: usize::from(cpu.cpu),
                counts: Counts::of(cpu),
                enters: entries(cpu),
                rung: None,
                given: cpu.given,
            })
            .collect();
        // Where the daemon before left off, as far as the order is the same.
        let level = |seen: &Seen| {
            let thin = seen.given & Step::NoStacks.bit() != 0;
            let is = |level: &usize| given(&budget.degrade_order, *level, thin) == seen.given;
            let level = (0..=budget.degrade_order.len()).find(is);
            level.map_or((0, false), |level| (level, thin))
        };
        let levels: Vec<(usize, bool)> = cpus.iter().map(level).collect();
        let ladder = Ladder::new(&levels, &limits(&budget, cpus.len()), recording.is_begun());
        let now = clock::mono();
        let account = Account::new(now, cpus.len(), daemon_cpu(&files, settings.readers()));
        let costs = Costs::of(&live.budget());
        // The daemon's start is not what recording costs.
        let daemon = clock::process_cpu().saturating_sub(settings.readers().spent());
        Self {
            costs,
            cpus,
            account,
            ladder,
            looked: now,
            daemon,
            measure_at: now.saturating_add(FIRST),
            detached_since: None,
            detached: 0,
            told: false,
            attaching: false,
            crowding: Crowding::default(),
            busiest: None,
            timed: true,
            budget,
            settings,
            recording,
            files,
        }
    }

    fn run(&mut self) {
        buckets::set_total(self.recording.state(), &self.budget);
        loop {
            self.look();
            let wait = if self.ladder.in_slice() { LOOK_CLOSELY } else { LOOK };
            let shared = self.settings.lock();
            if shared.end {
                break;
            }
            let (shared, _) = self
                .settings
                .changed
                .wait_timeout(shared, wait)
                .unwrap_or_else(PoisonError::into_inner);
            if shared.end {
                break;
            }
            if self.budget != shared.budget {
                self.budget = shared.budget.clone();
                buckets::set_total(self.recording.state(), &self.budget);
            }
        }
        if self.detached_since.is_some() {
            self.attach();
        }
    }

    fn look(&mut self) {
        let totals = self.recording.live().counters();
        let now = totals.now;
        let dt = now.saturating_sub(self.looked) as f64 / 1e9;
        self.looked = now;
        self.recording.count_detached();
        self.time_call();
        let costs = if self.detached_since.is_some() || self.ladder.in_slice() {
            self.costs.times(self.crowding.factor())
        } else {
            self.costs
        };
        let mut most = 0;
        let (mut sights, mut spent) =
            (Vec::with_capacity(self.cpus.len()), Vec::with_capacity(self.cpus.len()));
        for seen in &mut self.cpus {
            let Some(cpu) = totals.cpus.get(seen.cpu) else { continue };
            let (counts, enters) = (Counts::of(cpu), entries(cpu));
            let more = counts.since(&seen.counts);
            let strings_are_on = seen.given & Step::NoStrings.bit() == 0;
            let recorded = if strings_are_on { enters.saturating_sub(seen.enters) } else { 0 };
            sights.push(Sight {
                calls: more.call_events.saturating_add(more.other_call_events) as f64 / 2.0,
                refused: more.other_call_events as f64 / 2.0,
                with_strings: (recorded as f64, more.strings as f64),
                sched: more.sched.saturating_add(more.other_sched) as f64,
                disk: more.disk.saturating_add(more.other_disk) as f64,
                stacks: (seen.given & Step::NoStacks.bit() == 0).then_some(more.stack_time as f64),
                looked: more.looked as f64,
                sched_full: buckets::fullness(self.recording.state(), seen.cpu, 1, now),
                full: buckets::fullness(self.recording.state(), seen.cpu, 0, now),
            });
            spent.push(more.cost(&costs, seen.given));
            let calls = more.call_events.saturating_add(more.other_call_events);
            if calls > most {
                (most, self.busiest) = (calls, Some(seen.cpu));
            }
            (seen.counts, seen.enters) = (counts, enters);
        }
        let process = clock::process_cpu().saturating_sub(self.settings.readers().spent());
        let daemon = process.saturating_sub(self.daemon);
        // The clocks are read one after the other: it may seem to have gone back.
        self.daemon = process.max(self.daemon);
        self.account.enter(now, &spent, daemon_cpu(&self.files, self.settings.readers()));
        let all = spent.iter().map(sum).fold(daemon, u64::saturating_add);
        let limits = limits(&self.budget, self.cpus.len());
        if dt > 0.0 {
            let rungs =
                self.ladder.step(&limits, &self.costs, dt, &sights, (all as f64, daemon as f64));
            self.apply(&rungs);
            self.take_turns();
        }
        if now >= self.measure_at {
            self.measure_at = now.saturating_add(FIRST);
            self.measure(now);
        }
        self.tell(now);
    }

    /// Times an own call where the most are made, once after system calls were attached or
    /// detached.
    fn time_call(&mut self) {
        if std::mem::replace(&mut self.timed, true) || self.recording.records_own() {
            return;
        }
        let Some(_pinned) = self.busiest.and_then(|cpu| calibrate::Pinned::to(cpu).ok()) else {
            return;
        };
        let ns = calibrate::time_call_usually();
        if self.detached_since.is_some() {
            self.crowding.is_detached(ns);
        } else {
            self.crowding.is_attached(ns, &self.costs);
            debug!(
                factor = self.crowding.factor(),
                "probe overhead, as a multiple of what was measured"
            );
        }
    }

    /// Has the probes take the steps that they must, and says so.
    fn apply(&mut self, rungs: &[Rung]) {
        let (budget, costs) = (&self.budget, &self.costs);
        let mut changes: Vec<(u32, u32, Vec<u16>)> = Vec::new();
        for (seen, rung) in self.cpus.iter_mut().zip(rungs) {
            let given = given(&budget.degrade_order, rung.level, rung.thin);
            let limit =
                Limit { share: rung.limit, refused: rung.refused, least: rung.least, given };
            if seen.rung != Some(*rung) || seen.given != given {
                self.recording.set_limit(seen.cpu, &limit, budget.burst_seconds(), costs);
                seen.rung = Some(*rung);
            }
            let before = std::mem::replace(&mut seen.given, given);
            if before == given {
                continue;
            }
            match changes.iter_mut().find(|(from, to, _)| (*from, *to) == (before, given)) {
                Some((_, _, cpus)) => cpus.push(seen.cpu as u16),
                None => changes.push((before, given, vec![seen.cpu as u16])),
            }
        }
        for (_, given, cpus) in changes {
            let what = names(&budget.degrade_order, given);
            let (cpus, level, degraded) = (listed(&cpus), what.len(), what.join(" "));
            let text = format!("{cpus}: {}", sentence(&what));
            self.recording.act(Act::Level, &text);
            if self.ladder.in_slice() || !self.ladder.is_attached() {
                debug!(cpus, level, degraded, "the level changed: {text}");
            } else {
                info!(cpus, level, degraded, "the budget changed what is recorded: {text}");
            }
        }
    }

    /// Attaches system calls, or detaches them, as the model says.
    fn take_turns(&mut self) {
        match (self.ladder.is_attached(), self.detached_since) {
            (true, Some(_)) => self.attach(),
            (false, None) => match self.recording.detach() {
                Ok(true) => {
                    (self.detached_since, self.timed) = (Some(clock::mono()), false);
                    let text = "system calls are detached on all CPUs: the probe overhead alone \
                                would exceed the total";
                    self.recording.act(Act::Detached, text);
                    if !self.told {
                        self.told = true;
                        warn!(
                            total = %self.budget.total,
                            "system calls are detached for part of the time: the probe overhead \
                             alone would exceed the total of {}",
                            self.budget.total
                        );
                    }
                }
                Ok(false) => {}
                Err(e) => warn!("system calls can't be detached: {e}"),
            },
            _ => {}
        }
        if self.told && self.ladder.is_attached() && !self.ladder.in_slice() {
            self.told = false;
            info!(total = %self.budget.total, "system calls stay attached again");
        }
    }

    fn attach(&mut self) {
        // Once: where it fails it is tried again at each look.
        let first = !std::mem::replace(&mut self.attaching, true);
        if first {
            self.recording.act(Act::Attached, "system calls are attached on all CPUs");
        }
        if let Err(e) = self.recording.attach() {
            if first {
                warn!("attaching system calls failed, and will be tried again: {e}");
            }
            return;
        }
        (self.attaching, self.timed) = (false, false);
        if let Some(since) = self.detached_since.take() {
            self.detached += clock::mono().saturating_sub(since);
        }
    }

    /// Measures again what a call costs, where nothing is degraded and there is room for it.
    fn measure(&mut self, now: u64) {
        let state = self.recording.state();
        let idle =
            |seen: &&Seen| seen.given == 0 && buckets::fullness(state, seen.cpu, 0, now) >= FULL;
        let Some(seen) = self.cpus.iter().find(idle).filter(|_| self.detached_since.is_none())
        else {
            return;
        };
        let Some(own) = self.recording.time_own_calls(seen.cpu) else { return };
        if let Some(costs) = self.costs.again(&own, buckets::clock(state)) {
            // Every hour: `status` and `budget` show it, the journal need not.
            debug!("measured event costs again: {costs}");
            self.costs = costs;
            buckets::set_costs(state, &costs, own.clock);
            self.measure_at = now.saturating_add(AGAIN);
        } else {
            debug!(
                ?own,
                "the repeated measurement of event costs is implausible; keeping the \
                          previous costs"
            );
        }
    }

    /// Says what was spent.
    fn tell(&self, now: u64) {
        let (spans, spent, daemon) = self.account.spans();
        let cpus = self.cpus.iter().zip(spent).map(|(seen, spent)| CpuAccount {
            cpu: seen.cpu as u16,
            level: seen.given.count_ones(),
            limit: seen
                .rung
                .and_then(|rung| rung.limit)
                .map_or(0, |limit| (limit / MILLIONTH).round() as u32),
            spent,
        });
        let millionths = |share: Share| share.millionths().unwrap_or(0);
        let account = control::Account {
            per_cpu: millionths(self.budget.per_cpu),
            total: millionths(self.budget.total),
            burst_seconds: self.budget.burst_seconds(),
            order: self.budget.degrade_order.iter().map(|step| step.name().to_owned()).collect(),
            may_detach: self.budget.detach == Detach::Auto,
            left: self.ladder.left() as i64,
            detached: self.detached
                + self.detached_since.map_or(0, |since| now.saturating_sub(since)),
            spans,
            daemon,
            cpus: cpus.collect(),
        };
        self.settings.lock().account = account;
    }
}

/// Entries recorded.
fn entries(cpu: &control::CpuTotals) -> u64 {
    cpu.events.first().map_or(0, |calls| calls.of(kind::ENTER))
}

/// The daemon's CPU time: the drain's, that of answers to clients, and all else; ns.
fn daemon_cpu(files: &Monitor, readers: &Meter) -> [u64; 3] {
    let (drain, readers) = (files.status().cpu, readers.spent());
    [drain, clock::process_cpu().saturating_sub(drain).saturating_sub(readers), readers]
}

/// The steps that are taken, by name, in order.
fn names(order: &[Step], given: u32) -> Vec<&'static str> {
    order.iter().filter(|step| given & step.bit() != 0).map(|step| step.name()).collect()
}

/// `level 2: no_strings, untimed_exits`
fn sentence(names: &[&str]) -> String {
    if names.is_empty() {
        return "level 0: everything is recorded".to_owned();
    }
    format!("level {}: {}", names.len(), names.join(", "))
}

/// `CPU 1`, `CPUs 0-3, 5`
fn listed(cpus: &[u16]) -> String {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for cpu in cpus {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*cpu) => *last = *cpu,
            _ => runs.push((*cpu, *cpu)),
        }
    }
    let text: Vec<String> = runs
        .iter()
        .map(
            |(first, last)| {
                if first == last { first.to_string() } else { format!("{first}-{last}") }
            },
        )
        .collect();
    format!("{} {}", if cpus.len() == 1 { "CPU" } else { "CPUs" }, text.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_in_words() {
        let order = Step::ALL;
        assert_eq!(
            sentence(&names(&order, given(&order, 0, false))),
            "level 0: everything is recorded"
        );
        assert_eq!(
            sentence(&names(&order, given(&order, 2, false))),
            "level 2: no_strings, untimed_exits"
        );
        assert_eq!(listed(&[3]), "CPU 3");
        assert_eq!(listed(&[0, 1, 2, 5]), "CPUs 0-2, 5");
    }

    #[test]
    fn the_total_is_of_all_cpus() {
        let budget = Budget { total: Share::Millionths(10_000), ..Budget::default() };
        let limits = limits(&budget, 4);
        assert_eq!((limits.per_cpu, limits.total), (Some(5e7), Some(4e7)));
    }
}
