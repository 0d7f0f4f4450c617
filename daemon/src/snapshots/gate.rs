//! What is taken, what is counted, and what is refused.

use std::time::Duration;

use super::quota::{Bucket, Quotas};
use super::refusals::{Refusals, Refused};
use super::{Alarm, ns};

/// Most causes that are remembered at a time.
const CAUSES_MOST: usize = 1024;

/// What comes of an alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// A snapshot is taken.
    Take,
    /// The same was kept a short while ago; it is counted there.
    Counted,
    /// There were too many.
    Refused,
}

/// A cause that has its snapshot, or gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownCause {
    cause: String,
    subject: String,
    /// Until when the same is counted.
    until: u64,
    /// The snapshot's id, once it is there.
    id: Option<String>,
    /// How often it came again, and when it was last.
    count: u64,
    last: u64,
    /// Whether that is written.
    written: u64,
}

/// Counts and limits. Times are ns of `CLOCK_MONOTONIC`.
#[derive(Debug)]
pub struct Gate {
    dedup_window: u64,
    known: Vec<KnownCause>,
    alarms: Quotas,
    requests: Bucket,
    refused: Refusals,
}

impl Gate {
    /// `dedup_window`: how long the same is counted. `per_hour`: how many triggers may take because
    /// of users, and as many because of the rest; and how many may be asked for.
    pub fn new(dedup_window: Duration, per_hour: u32, now: u64) -> Self {
        let (alarms, requests) = (Quotas::new(per_hour, now), Bucket::whole(per_hour, now));
        Self {
            dedup_window: ns(dedup_window),
            known: Vec::new(),
            alarms,
            requests,
            refused: Refusals::default(),
        }
    }

    /// A trigger saw something.
    pub fn alarm(&mut self, alarm: &Alarm, now: u64) -> Decision {
        let (cause, subject) = (alarm.cause, alarm.subject.as_str());
        let same = |known: &&mut KnownCause| known.cause == cause && known.subject == subject;
        // Of one that is older the count is final; whoever writes it has had its time.
        if let Some(known) = self.known.iter_mut().find(same).filter(|known| now < known.until) {
            known.count += 1;
            known.last = now;
            return Decision::Counted;
        }
        self.known.retain(|known| {
            now < known.until || known.id.is_some() && known.written != known.count
        });
        self.known.retain(|known| known.cause != cause || known.subject != subject);
        let room = if self.known.len() < CAUSES_MOST {
            Ok(())
        } else {
            Err("all that are remembered".to_owned())
        };
        if let Err(quota) = room.and_then(|()| self.alarms.take(cause, alarm.owner, now)) {
            let (subject, reason) = (subject.to_owned(), alarm.reason.clone());
            self.refused.add(Refused { cause, subject, reason, quota, count: 1 });
            return Decision::Refused;
        }
        self.known.push(KnownCause {
            cause: cause.to_owned(),
            subject: subject.to_owned(),
            until: now.saturating_add(self.dedup_window),
            id: None,
            count: 0,
            last: now,
            written: 0,
        });
        Decision::Take
    }

    /// Somebody asks for one; the error is how long to wait.
    pub fn request(&mut self, now: u64) -> Result<(), Duration> {
        self.requests.take(now)
    }

    /// The snapshot of a cause is there.
    pub fn taken(&mut self, cause: &str, subject: &str, id: &str) {
        if let Some(known) =
            self.known.iter_mut().find(|known| known.cause == cause && known.subject == subject)
        {
            known.id = Some(id.to_owned());
        }
    }

    /// It could not be taken: the next alarm of the cause may try again.
    pub fn forget(&mut self, cause: &str, subject: &str) {
        self.known.retain(|known| known.cause != cause || known.subject != subject);
    }

    /// Counts that changed: id, how often, and when it was last. They are taken for written then.
    pub fn counts(&mut self) -> Vec<(String, u64, u64)> {
        let changed = self.known.iter_mut().filter(|known| known.count != known.written);
        let counts = changed.filter_map(|known| {
            let id = known.id.clone()?;
            known.written = known.count;
            Some((id, known.count, known.last))
        });
        counts.collect()
    }

    /// Alarms that were refused and are to be told now, and how many more there were.
    pub fn refused(&mut self, now: u64) -> Option<(Vec<Refused>, u64)> {
        self.refused.news(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::snapshots::quota::Owner;

    const S: u64 = 1_000_000_000;

    fn alarm(cause: &'static str, subject: &str, uid: u32) -> Alarm {
        let reason = format!("{subject} failed");
        Alarm::new(cause, subject, &reason, 0, &[]).owned(Owner::of(Some(uid), 0, None))
    }

    #[test]
    fn a_real_crash_after_a_storm_of_crashes_is_taken_and_who_is_refused_is_named() {
        let mut gate = Gate::new(Duration::from_mins(10), 20, 0);
        let taken = |gate: &mut Gate, alarm: &Alarm| gate.alarm(alarm, S) == Decision::Take;
        let storm = (0..50)
            .filter(|i| taken(&mut gate, &alarm("core_dump", &format!("x{i}"), 1000)))
            .count();
        assert_eq!(storm, 2);
        assert!(taken(&mut gate, &alarm("core_dump", "editor", 1001)), "another user's");
        assert!(taken(&mut gate, &alarm("core_dump", "db", 70)), "a service's");
        let (named, others) = gate.refused(S).unwrap();
        assert_eq!((named[0].subject.as_str(), named[0].reason.as_str()), ("x2", "x2 failed"));
        assert_eq!(
            (named[0].quota.as_str(), named.len() as u64 + others),
            ("those that user 1000 may cause", 48)
        );
    }

    #[test]
    fn a_storm_of_one_cause_is_one_snapshot_and_a_count() {
        let mut gate = Gate::new(Duration::from_mins(10), 20, 0);
        assert_eq!(gate.alarm(&alarm("blocked", "process 5", 0), S), Decision::Take);
        for i in 0..1000 {
            assert_eq!(gate.alarm(&alarm("blocked", "process 5", 0), 2 * S + i), Decision::Counted);
        }
        assert_eq!(gate.counts(), [], "there is no file to count beside yet");
        gate.taken("blocked", "process 5", "x");
        assert_eq!(gate.counts(), [("x".to_owned(), 1000, 2 * S + 999)]);
        assert_eq!(gate.counts(), []);
        assert_eq!(gate.alarm(&alarm("blocked", "process 5", 0), 601 * S), Decision::Take);
    }

    #[test]
    fn other_subjects_and_causes_are_snapshots_of_their_own() {
        let mut gate = Gate::new(Duration::from_mins(10), 20, 0);
        for (cause, subject, uid) in [("a", "x", 1000), ("a", "y", 1001), ("b", "x", 1002)] {
            assert_eq!(
                gate.alarm(&alarm(cause, subject, uid), S),
                Decision::Take,
                "{cause} {subject}"
            );
        }
        gate.forget("a", "x");
        assert_eq!(gate.alarm(&alarm("a", "x", 1000), S), Decision::Take);
    }

    #[test]
    fn many_causes_at_once_are_bounded_and_do_not_keep_others_from_asking() {
        let mut gate = Gate::new(Duration::from_mins(10), 20, 0);
        let alarms =
            (0..1000).map(|i| alarm(if i % 2 == 0 { "a" } else { "b" }, &i.to_string(), 1000 + i));
        let taken = alarms.filter(|alarm| gate.alarm(alarm, S) == Decision::Take).count();
        let refused = gate.refused(S).map(|(named, others)| named.len() as u64 + others);
        assert_eq!((taken, refused), (5, Some(995)));
        let asked = (0..1000).filter(|_| gate.request(S).is_ok()).count();
        assert_eq!(asked, 5);
        // 20 an hour: one in three minutes.
        assert_eq!(gate.request(S), Err(Duration::from_mins(3)));
        assert_eq!(gate.request(181 * S), Ok(()));
        let day = (0..86_400).filter(|s| gate.request((200 + s) * S).is_ok()).count();
        assert!((476..=486).contains(&day), "{day}");
    }
}
