//! The thread that looks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::Body;
use flightrec_format::excerpt::{Events, Excerpt};
use flightrec_format::human::span;
use flightrec_format::merge::Merge;
use flightrec_format::meta::Meta;
use tracing::info;

use super::blocked::Blocked;
use super::calls::Calls;
use super::crash::{Crash, Crashes, OomKills, oom_victim};
use super::errors::Errors;
use super::feed::{Feed, New};
use super::kernel_log::{KernelLog, is_wanted};
use super::pressure::Pressure;
use super::run_queue::RunQueue;
use super::slow_call::SlowCalls;
use super::threads::{Threads, group};
use crate::config;
use crate::recording::Recording;
use crate::snapshots::quota::Owner;
use crate::snapshots::{Alarm, Snapshots, names};
use crate::{clock, load};

/// How often the table of threads is looked at, at most.
const THREADS_EACH: u64 = 1_000_000_000;

/// All that is watched.
#[derive(Debug)]
pub(super) struct Watch {
    recording: Arc<Recording>,
    snapshots: Arc<Snapshots>,
    interval: Duration,
    proc: PathBuf,
    feed: Feed,
    threads: Threads,
    looked: u64,
    crashes: Option<Crashes>,
    oom_kills: Option<OomKills>,
    run_queue: Option<RunQueue>,
    blocked: Option<Blocked>,
    pressure: Option<Pressure>,
    errors: Option<Errors>,
    slow_calls: Option<SlowCalls>,
    log: Option<KernelLog>,
}

impl Watch {
    pub(super) fn new(
        config: &config::Triggers,
        recording: Arc<Recording>,
        snapshots: Arc<Snapshots>,
    ) -> Self {
        let meta = recording.meta();
        let path = recording.map_path(load::KERNEL_LOG);
        let wanted: &[String] =
            if config.kernel_log.enabled { &config.kernel_log.lines } else { &[] };
        // Who was killed for want of memory is in it, too.
        let log =
            (!wanted.is_empty() || config.oom_kill.enabled).then(|| KernelLog::open(&path, wanted));
        let log = log.and_then(|log| {
            log.inspect_err(|e| {
                info!("the kernel's log can't be read, so [triggers.kernel_log] is off: {e}");
            })
            .ok()
        });
        let queue = &config.run_queue;
        let blocked = &config.blocked;
        Self {
            interval: config.interval.duration(),
            proc: config.proc.clone(),
            feed: Feed::new(recording.live().clone()),
            threads: Threads::default(),
            looked: 0,
            crashes: config.core_dump.enabled.then(Crashes::default),
            oom_kills: config.oom_kill.enabled.then(OomKills::default),
            run_queue: queue.enabled.then(|| RunQueue::new(ns(queue.longer_than), queue.nice)),
            blocked: blocked
                .enabled
                .then(|| Blocked::new(ns(blocked.longer_than), blocked.kernel_threads)),
            pressure: config.pressure.enabled.then(|| Pressure::new(&config.pressure)),
            errors: config.errors.enabled.then(|| Errors::new(&config.errors, &meta)),
            slow_calls: SlowCalls::new(&config.slow_call.rules, &meta),
            log,
            recording,
            snapshots,
        }
    }

    /// Looks again and again.
    pub(super) fn run(&mut self) {
        if let Some(kills) = &mut self.oom_kills {
            kills.look(&self.proc);
        }
        let mut next = Instant::now();
        loop {
            // At even intervals; one that took too long is not made up for.
            next = (next + self.interval).max(Instant::now());
            thread::sleep(next.saturating_duration_since(Instant::now()));
            for alarm in self.look() {
                self.snapshots.fire(alarm);
            }
        }
    }

    /// What there is to be said.
    fn look(&mut self) -> Vec<Alarm> {
        let now = clock::mono();
        let meta = self.recording.meta();
        let mut alarms = Vec::new();
        // What was recorded is older than the table.
        self.task_life(&meta, &mut alarms);
        if now.saturating_sub(self.looked) >= THREADS_EACH {
            self.looked = now;
            self.threads.look(names::threads(self.recording.live()));
        }
        self.scheduling(&meta, &mut alarms);
        self.calls(&meta, now, &mut alarms);
        if self.looked == now {
            self.stuck(&meta, now, &mut alarms);
        }
        self.kernel(&meta, now, &mut alarms);
        if let Some(pressure) = &mut self.pressure {
            let short = pressure.look(&self.proc, now).into_iter();
            alarms.extend(
                short.map(|short| Alarm::new("pressure", short.resource, &short.reason, now, &[])),
            );
        }
        alarms
    }

    /// Births, deaths, new names.
    fn task_life(&mut self, meta: &Meta, alarms: &mut Vec<Alarm>) {
        let news = self.feed.take(Lane::Task);
        let rings = news.rings.iter().map(|ring| events(ring));
        for event in Merge::new(rings) {
            self.threads.learn(&event);
            match &event.body {
                Body::TaskExit(exit) => {
                    self.crashes.iter_mut().for_each(|crashes| crashes.ended(exit, event.time));
                }
                Body::Exec { exec, .. } => {
                    let (old, tid) = (exec.old_tid, exec.tid);
                    let slow_calls = self.slow_calls.iter_mut();
                    slow_calls.for_each(|slow| slow.executed(event.time, old, tid));
                }
                _ => {}
            }
        }
        for crash in self.crashes.iter_mut().flat_map(Crashes::take) {
            let Crash { tgid, tid, time, signal, dumped } = crash;
            let name = self.threads.process(tid, time);
            let core = if dumped { "core dumped" } else { "no core was dumped" };
            let reason = format!("{name} ({tgid}) was killed by {signal}, {core}");
            let owner = self.threads.owner(&self.proc, meta, tid, time);
            alarms.push(Alarm::new("core_dump", &name, &reason, time, &[tid]).owned(owner));
        }
    }

    /// Who waits for a CPU.
    fn scheduling(&mut self, meta: &Meta, alarms: &mut Vec<Alarm>) {
        let Some(queue) = &mut self.run_queue else { return };
        let news = self.feed.take(Lane::Sched);
        if news.lack.any || news.lack.throttled {
            queue.forget();
        }
        let mut events = Merge::new(news.rings.iter().map(|ring| events(ring)));
        let mut next = Box::default();
        while let Some(event) = events.read(next) {
            let delay = queue.event(&event);
            next = event;
            let Some(delay) = delay else { continue };
            let (who, cpu) = (self.threads.text(delay.tid, delay.time), delay.cpu);
            let reason = format!("{who} waited {} for CPU {cpu}", span(delay.ns));
            let process = self.threads.process(delay.tid, delay.time);
            let owner = self.threads.owner(&self.proc, meta, delay.tid, delay.time);
            alarms.push(
                Alarm::new("run_queue", &process, &reason, delay.time, &[delay.tid]).owned(owner),
            );
        }
    }

    /// Failing calls, and slow ones.
    fn calls(&mut self, meta: &Meta, now: u64, alarms: &mut Vec<Alarm>) {
        if self.errors.is_none() && self.slow_calls.is_none() {
            return;
        }
        let news = self.feed.take(Lane::Syscall);
        if let Some(slow) = self.slow_calls.as_mut().filter(|_| news.lack.any) {
            slow.forget();
        }
        let mut calls = Calls::new(&news.rings);
        loop {
            let (errors, slow_calls) = (self.errors.as_ref(), self.slow_calls.as_ref());
            let wanted = |abi, nr, ret: Option<i64>| {
                errors.zip(ret).is_some_and(|(errors, ret)| errors.counts(abi, nr, ret).is_some())
                    || slow_calls.is_some_and(|slow| slow.wants(abi, nr))
            };
            let Some(record) = calls.next(wanted) else { break };
            if let Some(errors) = &mut self.errors
                && let Some((_, ret)) = record.exited
                && let Some(error) = errors.counts(record.call.abi, record.call.nr, ret)
            {
                errors.failed(record.tid, error);
            }
            let slow =
                self.slow_calls.as_mut().filter(|slow| slow.wants(record.call.abi, record.call.nr));
            if let Some(slow) = slow.and_then(|slow| slow.record(&record, meta, &self.threads)) {
                alarms.push(slow_alarm(&slow, &self.threads, &self.proc, meta));
            }
        }
        let threads = &self.threads;
        let bursts = self
            .errors
            .as_mut()
            .map(|errors| errors.look(now, |tid| threads.get(tid).map_or(0, |known| known.cgroup)));
        for burst in bursts.unwrap_or_default() {
            let group = group(meta, burst.cgroup);
            let (error, tid) = burst.worst.unwrap_or_default();
            let who = threads.text(tid, now);
            let reason = format!(
                "calls of {group} fail {:.0} times a second, usually {:.1}; most of {who}, {}",
                burst.rate,
                burst.usual,
                names::error(error)
            );
            let owner = threads.owner(&self.proc, meta, tid, now);
            alarms.push(Alarm::new("errors", &group, &reason, now, &[tid]).owned(owner));
        }
    }

    /// Who does not get on.
    fn stuck(&mut self, meta: &Meta, now: u64, alarms: &mut Vec<Alarm>) {
        if let Some(blocked) = &mut self.blocked {
            for slot in blocked.look(self.threads.live(), meta, now) {
                let waits = span(now.saturating_sub(slot.since.max(meta.started)));
                let (who, process) =
                    (self.threads.text(slot.tid, now), self.threads.process(slot.tid, now));
                let reason = format!("{who} has been in uninterruptible sleep for {waits}");
                let owner = self.threads.owner(&self.proc, meta, slot.tid, now);
                alarms
                    .push(Alarm::new("blocked", &process, &reason, now, &[slot.tid]).owned(owner));
            }
        }
        if let Some(slow) = &mut self.slow_calls {
            let slow = slow.look(&self.threads, meta, now);
            alarms
                .extend(slow.iter().map(|slow| slow_alarm(slow, &self.threads, &self.proc, meta)));
        }
    }

    /// What the kernel says and counts.
    fn kernel(&mut self, meta: &Meta, now: u64, alarms: &mut Vec<Alarm>) {
        let killed = self.oom_kills.as_mut().map_or(0, |kills| kills.look(&self.proc));
        let (mut lines, mut victims) = (Vec::new(), Vec::new());
        if let Some(log) = &mut self.log {
            let wanted = log.wanted().to_vec();
            log.each(|line| {
                if line.written {
                    // Anybody's words.
                } else if let Some((pid, name)) = oom_victim(&line.text) {
                    victims.push((pid, name.to_owned()));
                } else if is_wanted(&wanted, &line) {
                    lines.push(line);
                }
            });
        }
        for line in lines {
            // The same place in the kernel is the same cause, whoever ran into it.
            let text = &line.text;
            let subject: String = text.chars().filter(|c| !c.is_ascii_digit()).take(80).collect();
            let (threads, reason) = (line.thread(), format!("the kernel logged: {text}"));
            // An idle thread is nobody's.
            let owner = threads.map_or(Owner::Machine, |tid| match self.threads.get(tid) {
                Some(known) if tid == line.tid => Owner::of(Some(line.uid), known.cgroup, None),
                _ => self.threads.owner(&self.proc, meta, tid, now),
            });
            alarms.push(
                Alarm::new("kernel_log", &subject, &reason, now, threads.as_slice()).owned(owner),
            );
        }
        if self.oom_kills.is_none() {
            return;
        }
        for (pid, name) in &victims {
            let reason = format!("{name} ({pid}) was killed because memory ran out");
            let owner = self.threads.owner(&self.proc, meta, *pid, now);
            alarms.push(Alarm::new("oom_kill", name, &reason, now, &[*pid]).owned(owner));
        }
        if killed != 0 && victims.is_empty() {
            let processes = if killed == 1 {
                "a process was".to_owned()
            } else {
                format!("{killed} processes were")
            };
            let reason = format!("{processes} killed because memory ran out");
            alarms.push(Alarm::new("oom_kill", "the machine", &reason, now, &[]));
        }
    }
}

/// The new events of a ring.
fn events(ring: &[New]) -> Events<'_> {
    Events::new(
        ring.iter()
            .map(|new| Excerpt { page: &new.page, skip: new.seen as u64, take: u64::MAX })
            .collect(),
    )
}

fn slow_alarm(slow: &super::slow_call::Slow, threads: &Threads, proc: &Path, meta: &Meta) -> Alarm {
    let (who, call, took) = (threads.text(slow.tid, slow.time), &slow.call, span(slow.ns));
    let reason = if slow.ended {
        format!("{call} of {who} took {took}")
    } else {
        format!("{call} of {who} has taken {took} so far")
    };
    let subject = format!("{call} of {}", threads.process(slow.tid, slow.time));
    let owner = threads.owner(proc, meta, slow.tid, slow.time);
    Alarm::new("slow_call", &subject, &reason, slow.time, &[slow.tid]).owned(owner)
}

/// A configured length of time, ns.
fn ns(span: config::Span) -> u64 {
    u64::try_from(span.duration().as_nanos()).unwrap_or(u64::MAX)
}
