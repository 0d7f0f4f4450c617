//! What is taken, what is counted, and what is refused.

use std::time::Duration;

use super::ns;

/// Most causes that are remembered at a time.
const CAUSES_MOST: usize = 1024;
/// Snapshots that may come at once, of each kind.
const BURST: u64 = 5;
const HOUR: u64 = 3_600_000_000_000;

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
pub struct Known {
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

/// So many at once, and so many an hour.
#[derive(Debug)]
struct Bucket {
    /// ns that one takes to come back.
    each: u64,
    /// When it would be full.
    full: u64,
}

impl Bucket {
    fn new(per_hour: u32, now: u64) -> Self {
        Self { each: HOUR / u64::from(per_hour.max(1)), full: now }
    }

    /// Takes one, or says how long it is until there is one.
    fn take(&mut self, now: u64) -> Result<(), Duration> {
        let full = self.full.max(now).saturating_add(self.each);
        let most = now.saturating_add(self.each.saturating_mul(BURST));
        if full > most {
            return Err(Duration::from_nanos(full - most));
        }
        self.full = full;
        Ok(())
    }
}

/// Counts and limits. Times are ns of `CLOCK_MONOTONIC`.
#[derive(Debug)]
pub struct Gate {
    fold: u64,
    known: Vec<Known>,
    alarms: Bucket,
    requests: Bucket,
    refused: u64,
}

impl Gate {
    /// `fold`: how long the same is counted. `per_hour`: how many triggers may take, and how many may be asked for.
    pub fn new(fold: Duration, per_hour: u32, now: u64) -> Self {
        let bucket = || Bucket::new(per_hour, now);
        Self { fold: ns(fold), known: Vec::new(), alarms: bucket(), requests: bucket(), refused: 0 }
    }

    /// A trigger saw something.
    pub fn alarm(&mut self, cause: &str, subject: &str, now: u64) -> Decision {
        let same = |known: &&mut Known| known.cause == cause && known.subject == subject;
        // Of one that is older the count is final; whoever writes it has had its time.
        if let Some(known) = self.known.iter_mut().find(same).filter(|known| now < known.until) {
            known.count += 1;
            known.last = now;
            return Decision::Counted;
        }
        self.known.retain(|known| now < known.until || known.id.is_some() && known.written != known.count);
        self.known.retain(|known| known.cause != cause || known.subject != subject);
        if self.known.len() >= CAUSES_MOST || self.alarms.take(now).is_err() {
            self.refused += 1;
            return Decision::Refused;
        }
        self.known.push(Known {
            cause: cause.to_owned(),
            subject: subject.to_owned(),
            until: now.saturating_add(self.fold),
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
        if let Some(known) = self.known.iter_mut().find(|known| known.cause == cause && known.subject == subject) {
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

    /// Alarms that were refused since this was asked last.
    pub fn refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_storm_of_one_cause_is_one_snapshot_and_a_count() {
        let mut gate = Gate::new(Duration::from_mins(10), 20, 0);
        assert_eq!(gate.alarm("blocked", "process 5", S), Decision::Take);
        for i in 0..1000 {
            assert_eq!(gate.alarm("blocked", "process 5", 2 * S + i), Decision::Counted);
        }
        assert_eq!(gate.counts(), [], "there is no file to count beside yet");
        gate.taken("blocked", "process 5", "x");
        assert_eq!(gate.counts(), [("x".to_owned(), 1000, 2 * S + 999)]);
        assert_eq!(gate.counts(), []);
        assert_eq!(gate.alarm("blocked", "process 5", 601 * S), Decision::Take);
    }

    #[test]
    fn other_subjects_and_causes_are_snapshots_of_their_own() {
        let mut gate = Gate::new(Duration::from_mins(10), 20, 0);
        for (cause, subject) in [("a", "x"), ("a", "y"), ("b", "x")] {
            assert_eq!(gate.alarm(cause, subject, S), Decision::Take, "{cause} {subject}");
        }
        gate.forget("a", "x");
        assert_eq!(gate.alarm("a", "x", S), Decision::Take);
    }

    #[test]
    fn many_causes_at_once_are_bounded_and_do_not_keep_others_from_asking() {
        let mut gate = Gate::new(Duration::from_mins(10), 20, 0);
        let taken = (0..1000).filter(|i| gate.alarm("a", &i.to_string(), S) == Decision::Take).count();
        assert_eq!((taken, gate.refused()), (5, 995));
        let asked = (0..1000).filter(|_| gate.request(S).is_ok()).count();
        assert_eq!(asked, 5);
        // 20 an hour: one in three minutes.
        assert_eq!(gate.request(S), Err(Duration::from_mins(3)));
        assert_eq!(gate.request(181 * S), Ok(()));
        let day = (0..86_400).filter(|s| gate.request((200 + s) * S).is_ok()).count();
        assert!((476..=486).contains(&day), "{day}");
    }
}
