//! The tasks that tell a collector: of snapshots, and metrics. They know nothing of the storage,
//! but where a snapshot is in it: neither holds the other up.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tracing::debug;

use super::teller::{Paused, Teller};
use super::{Service, now};
use crate::hour::Hour;
use crate::journal::{Key, Name, State};
use crate::layout::Sort;
use crate::make::tool::ToolError;
use crate::otlp::answer::Answer;
use crate::otlp::client::{Request, Signal};
use crate::otlp::diary::Told;
use crate::otlp::metrics;
use crate::otlp::record::{self, Facts};
use crate::otlp::spans;
use crate::source::{self, About, Snapshot};

/// How long a snapshot that is on its way into the storage is waited for, so that its record can
/// say where it is, ns.
const SHIPPED_WITHIN: i64 = 60_000_000_000;
/// How often it is looked, at least, whether there is anything to be done.
const LOOK: Duration = Duration::from_secs(1);

impl Service {
    /// Tells what comes; once, what is there. Whether something is left.
    pub(super) async fn tell_all(&self, teller: &Teller) -> bool {
        if self.once {
            let left = self.tell_waiting(teller).await.is_err();
            return self.tell_metrics(teller).await.is_err() || left;
        }
        let snapshots = async {
            let mut reported = teller.report();
            loop {
                let wait = match self.tell_waiting(teller).await {
                    Ok(()) => self.config.ship.interval.duration(),
                    Err(Paused) => LOOK.min(self.config.ship.interval.duration()),
                };
                let stands = teller.report();
                if stands != reported {
                    self.report();
                    reported = stands;
                }
                sleep(wait).await;
            }
        };
        let metrics = async {
            let every = self.config.otlp.metrics_interval.duration();
            if every.is_zero() {
                return std::future::pending().await;
            }
            let mut next = Instant::now();
            loop {
                // What was not taken is not sent again: the next ones have it all.
                let _ = self.tell_metrics(teller).await;
                next = (next + every).max(Instant::now());
                sleep_until(next).await;
            }
        };
        tokio::select! {
            () = snapshots => {}
            () = metrics => {}
        }
        false
    }

    /// Tells the snapshots that wait.
    async fn tell_waiting(&self, teller: &Teller) -> Result<(), Paused> {
        if !self.look(teller) {
            return Ok(());
        }
        loop {
            let next =
                teller.get().waiting.iter().next().map(|(key, of)| (key.clone(), of.clone()));
            let Some((key, snapshot)) = next else { return Ok(()) };
            self.tell(teller, &snapshot).await?;
            teller.change().waiting.remove(&key);
            self.report();
        }
    }

    /// Looks which snapshots are to be told; whether that could be seen.
    fn look(&self, teller: &Teller) -> bool {
        let found = match source::snapshots(&self.config.ship.state_dir) {
            Ok(found) => found,
            Err(e) => {
                let what = format!("{e}: flight-ship must be in the group flightrec");
                teller.change().trouble(&what);
                return false;
            }
        };
        let mut core = teller.change();
        core.trouble = None;
        let (now, reach) = (now(), ns(teller.config.reach.duration()));
        let settle = ns(self.config.snapshots.settle.duration());
        let mut changed = false;
        let ids: BTreeSet<&str> = found.iter().map(|of| of.id.as_str()).collect();
        let gone: Vec<(i64, String)> =
            core.waiting.keys().filter(|(_, id)| !ids.contains(id.as_str())).cloned().collect();
        for key in gone {
            // flightd deleted it before there was time for it.
            core.waiting.remove(&key);
            core.leave_out(&key.1);
            changed = true;
        }
        for snapshot in &found {
            let (id, age) = (&snapshot.id, now.saturating_sub(snapshot.modified));
            let key = (snapshot.modified, id.clone());
            let is_over = matches!(core.diary.told(id), Some(Told::All | Told::LeftOut));
            // One of the future is as old as it will get: the clock was set.
            let is_settled = age >= settle || age < 0;
            if is_over || !is_settled || core.waiting.contains_key(&key) {
                continue;
            }
            if age > reach {
                continue;
            }
            // Whoever saw it while it was being written saw another time.
            core.waiting.retain(|(_, of), _| of != id);
            core.waiting.insert(key, snapshot.clone());
        }
        while core.waiting.len() > teller.config.waiting as usize
            || core.waiting.keys().next().is_some_and(|(at, _)| now.saturating_sub(*at) > reach)
        {
            let Some(((_, id), _)) = core.waiting.pop_first() else { break };
            core.leave_out(&id);
            changed = true;
        }
        core.diary.forget(&ids);
        if changed {
            core.write();
        }
        true
    }

    /// Tells a snapshot: its record, then its spans.
    async fn tell(&self, teller: &Teller, snapshot: &Snapshot) -> Result<(), Paused> {
        let id = &snapshot.id;
        if teller.get().lane(Signal::Logs).is_paused() {
            return Err(Paused);
        }
        let about = source::about(snapshot).map_err(|e| e.to_string());
        let about = about.and_then(|of| of.ok_or("it does not say what it is of".to_owned()));
        let about = match about {
            Ok(about) => about,
            Err(why) => {
                teller.leave_out(id, &why);
                return Ok(());
            }
        };
        let object = self.object(id, &about, snapshot)?;
        let is_told = teller.get().diary.told(id) == Some(Told::Record);
        let a_minute = teller.config.records_per_minute;
        if !is_told && teller.change().diary.wait(a_minute, now()) > 0 {
            return Err(Paused);
        }
        let answer = match self.answer(teller, snapshot).await {
            Ok(answer) => answer,
            Err(_) if !snapshot.path.exists() => {
                teller.leave_out(id, "flightd deleted it");
                return Ok(());
            }
            // Its record says what is known of it all the same.
            Err(e) => Answer { doubts: vec![e.to_string()], ..Answer::default() },
        };
        if !is_told {
            let left_out = teller.get().diary.to_say;
            let facts = Facts { object, left_out, now: now() };
            let record = record::record(id, &about, &answer, &facts);
            let request = Request::Logs(record::request(&teller.resource, vec![record]));
            teller.change().diary.sends(now());
            let taken = teller.send(&request).await?;
            let mut core = teller.change();
            core.diary.records += u64::from(taken);
            core.diary.to_say -= if taken { left_out } else { 0 };
            core.diary.spans_left_out += answer.spans_left_out;
            core.diary.tell(id, if answer.spans.is_empty() { Told::All } else { Told::Record });
            core.write();
            debug!("snapshot {id} is told: taken: {taken}");
        }
        let spans = spans::spans(&answer, about.session);
        let n = spans.len() as u64;
        let request = Request::Traces(spans::request(&teller.resource, spans));
        let taken = match n {
            0 => false,
            _ => match teller.send(&request).await {
                // It may well be one for logs alone: they are not held up.
                Err(Paused) if teller.takes_no_spans() => false,
                taken => taken?,
            },
        };
        let mut core = teller.change();
        core.diary.spans += if taken { n } else { 0 };
        core.diary.spans_left_out += if taken { 0 } else { n };
        core.diary.tell(id, Told::All);
        core.made = None;
        core.write();
        Ok(())
    }

    /// Where a snapshot is in the storage; empty: it is not there. It is waited for, but not long.
    fn object(&self, id: &str, about: &About, snapshot: &Snapshot) -> Result<String, Paused> {
        let Some(storage) = self.storage.as_ref().filter(|_| self.config.snapshots.enabled) else {
            return Ok(String::new());
        };
        let hour = Hour::of(about.wall);
        let key = Key { hour, name: Name::Snapshot(id.to_owned()) };
        let core = self.state.get();
        let state = core.journal.get(&key).map(|item| item.state);
        match state {
            Some(State::Shipped) => {
                let table = self.config.snapshots.tables.first();
                let sort = match table {
                    Some(table) if !self.config.snapshots.page => Sort::Table(table),
                    _ => Sort::Page,
                };
                let name = self.layout.snapshot(&sort, hour, id, about.session);
                Ok(storage.target().url(name.as_ref()))
            }
            Some(State::Waiting | State::Spooled) | None
                if !self.once
                    && !core.has_problem()
                    && now().saturating_sub(snapshot.modified)
                        < ns(self.config.snapshots.settle.duration()) + SHIPPED_WITHIN =>
            {
                Err(Paused)
            }
            _ => Ok(String::new()),
        }
    }

    /// What `flightctl why` says of a snapshot.
    async fn answer(&self, teller: &Teller, snapshot: &Snapshot) -> Result<Answer, ToolError> {
        if let Some((id, answer)) = &teller.get().made
            && *id == snapshot.id
        {
            return Ok(answer.clone());
        }
        let text = self.tool.answer(&snapshot.path, teller.config.spans).await?;
        let answer = serde_json::from_str(&text).unwrap_or_else(|e| Answer {
            doubts: vec![format!("the answer of flightctl why could not be read: {e}")],
            ..Answer::default()
        });
        teller.change().made = Some((snapshot.id.clone(), answer.clone()));
        Ok(answer)
    }

    /// Tells how the recorder and flight-ship stand.
    async fn tell_metrics(&self, teller: &Teller) -> Result<(), Paused> {
        if self.config.otlp.metrics_interval.duration().is_zero() {
            return Ok(());
        }
        if teller.get().lane(Signal::Metrics).is_paused() {
            return Err(Paused);
        }
        let recorder = match self.tool.metrics(&self.config.ship.runtime_dir).await {
            Ok(text) => text,
            Err(e) => {
                debug!("metrics of the recorder: {e}");
                "# TYPE flightrec_daemon_up gauge\n# HELP flightrec_daemon_up Whether flightd \
                 answers.\nflightrec_daemon_up 0\n"
                    .to_owned()
            }
        };
        let own = crate::metrics::text(&self.stand());
        let texts = [recorder.as_str(), &own];
        let mut starts = teller.get().starts;
        let requests = metrics::requests(&teller.resource, &texts, &mut starts, now());
        teller.change().starts = starts;
        for request in requests {
            let points = metrics::points(&request);
            let taken = teller.send(&Request::Metrics(request)).await?;
            teller.change().diary.points += if taken { points } else { 0 };
        }
        teller.change().write();
        Ok(())
    }
}

fn ns(of: Duration) -> i64 {
    i64::try_from(of.as_nanos()).unwrap_or(i64::MAX)
}
