//! Alarms that were refused: named in the log, but a flood of them not each.

use std::time::Duration;

/// Most that are named each time.
const NAMED_MOST: usize = 8;
/// How often they are told.
const EVERY: Duration = Duration::from_mins(1);

/// An alarm that was refused, maybe again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its cause and subject.
    pub cause: &'static str,
    /// The same.
    pub subject: String,
    /// The cause in a sentence, of the first.
    pub reason: String,
    /// Why it was refused: which quota is used up.
    pub quota: String,
    /// How often since it was told.
    pub count: u64,
}

/// Those that are to be told.
#[derive(Debug, Default)]
pub struct Refusals {
    named: Vec<Refused>,
    others: u64,
    /// When they were told last, ns of `CLOCK_MONOTONIC`.
    told: Option<u64>,
}

impl Refusals {
    /// One more.
    pub fn add(&mut self, refused: Refused) {
        let same =
            |held: &&mut Refused| (held.cause, &held.subject) == (refused.cause, &refused.subject);
        if let Some(held) = self.named.iter_mut().find(same) {
            held.count = held.count.saturating_add(refused.count);
        } else if self.named.len() < NAMED_MOST {
            self.named.push(refused);
        } else {
            self.others = self.others.saturating_add(refused.count);
        }
    }

    /// Those to be told now, and how many more there were: the first at once, then once in a while.
    pub fn news(&mut self, now: u64) -> Option<(Vec<Refused>, u64)> {
        let every = u64::try_from(EVERY.as_nanos()).unwrap_or(u64::MAX);
        if self.named.is_empty() || self.told.is_some_and(|told| now.saturating_sub(told) < every) {
            return None;
        }
        self.told = Some(now);
        Some((std::mem::take(&mut self.named), std::mem::take(&mut self.others)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(subject: &str) -> Refused {
        let (subject, reason) = (subject.to_owned(), "it crashed".to_owned());
        Refused {
            cause: "core_dump",
            subject,
            reason,
            quota: "those of core_dump".into(),
            count: 1,
        }
    }

    #[test]
    fn each_is_named_and_a_flood_is_counted() {
        let (mut refusals, s) = (Refusals::default(), 1_000_000_000);
        assert_eq!(refusals.news(s), None);
        refusals.add(refused("db"));
        assert_eq!(refusals.news(s), Some((vec![refused("db")], 0)));
        (0..1000).for_each(|i| refusals.add(refused(&i.to_string())));
        (0..10).for_each(|_| refusals.add(refused("3")));
        assert_eq!(refusals.news(30 * s), None, "not yet");
        let (named, others) = refusals.news(61 * s).unwrap();
        assert_eq!((named.len(), others, named[3].count), (NAMED_MOST, 992, 11));
        assert_eq!(refusals.news(200 * s), None);
    }
}
