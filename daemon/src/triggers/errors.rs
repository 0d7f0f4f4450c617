//! Calls of a control group fail far more often than is usual there.
//!
//! The rate is taken over ten seconds (`WINDOW_NS`); what is usual is its mean over the last minutes
//! (`MEMORY_NS`). A group that has not been watched for as long as the configuration's `learn` has
//! no usual rate yet, and causes no snapshot.

use std::collections::{HashMap, VecDeque};

use flightrec_analysis::Failures;
use flightrec_format::abi::record::Abi;
use flightrec_format::meta::Meta;

use crate::config;

/// Most groups that are followed.
const GROUPS_MOST: usize = 4096;
/// Most threads whose failures are counted between two looks.
const THREADS_MOST: usize = 1 << 15;
/// Of a second: what the rates are reckoned in.
const WINDOW_NS: u64 = 10_000_000_000;
const MEMORY_NS: f64 = 300e9;

/// How many failed since the last look, and of those by error and thread.
type Counts = (u64, HashMap<(i32, u32), u64>);

/// A group.
#[derive(Debug, Default)]
struct Group {
    /// Moments and failures since the one before.
    counts: VecDeque<(u64, u64)>,
    first: u64,
    last: u64,
    usual: f64,
    above: bool,
}

/// A group that fails far more often than usual.
#[derive(Debug, Clone, PartialEq)]
pub struct Burst {
    /// Which group.
    pub cgroup: u64,
    /// Failures a second, over ten seconds.
    pub rate: f64,
    /// What is usual.
    pub usual: f64,
    /// The error that came the most often since the last look, and the thread that it came to the
    /// most.
    pub worst: Option<(i32, u32)>,
}

/// Counts failures.
#[derive(Debug)]
pub struct Errors {
    least: f64,
    times: f64,
    /// After this time the usual rate of a group is known, ns.
    learn: u64,
    ignore: Vec<i32>,
    failures: Failures,
    new: HashMap<(u32, i32), u64>,
    groups: HashMap<u64, Group>,
}

impl Errors {
    /// With these limits.
    pub fn new(config: &config::Errors, meta: &Meta) -> Self {
        let ignore = config.ignore.iter().filter_map(|name| config::errno(name)).collect();
        let (least, times) = (f64::from(config.min_rate), f64::from(config.factor));
        let failures = Failures::new(meta);
        let learn = u64::try_from(config.learn.duration().as_nanos()).unwrap_or(u64::MAX);
        Self { least, times, learn, ignore, failures, new: HashMap::new(), groups: HashMap::new() }
    }

    /// The error with which a call failed, if it counts.
    pub fn counts(&self, abi: Abi, nr: u16, ret: i64) -> Option<i32> {
        self.failures.failure(abi, nr, ret).filter(|error| !self.ignore.contains(error))
    }

    /// A call of a thread failed.
    pub fn failed(&mut self, tid: u32, error: i32) {
        if self.new.len() < THREADS_MOST || self.new.contains_key(&(tid, error)) {
            *self.new.entry((tid, error)).or_default() += 1;
        }
    }

    /// What that comes to at `now` (ns of `CLOCK_MONOTONIC`). `group`: of a thread, 0 where it is
    /// not known.
    pub fn look(&mut self, now: u64, group: impl Fn(u32) -> u64) -> Vec<Burst> {
        let mut new: HashMap<u64, Counts> = HashMap::new();
        for ((tid, error), count) in self.new.drain() {
            let (sum, of) = new.entry(group(tid)).or_default();
            *sum += count;
            *of.entry((error, tid)).or_default() += count;
        }
        for id in new.keys() {
            if self.groups.len() < GROUPS_MOST {
                self.groups.entry(*id).or_insert_with(|| Group {
                    first: now,
                    last: now,
                    ..Group::default()
                });
            }
        }
        let mut bursts = Vec::new();
        for (id, group) in &mut self.groups {
            let (count, of) = new.remove(id).unwrap_or_default();
            group.add(now, count);
            let is_known = now.saturating_sub(group.first) >= self.learn;
            let limits = is_known.then_some((self.least, self.times));
            if let Some((rate, usual)) = group.look(now, limits) {
                let worst = of
                    .into_iter()
                    .max_by_key(|(which, count)| (*count, *which))
                    .map(|(which, _)| which);
                bursts.push(Burst { cgroup: *id, rate, usual, worst });
            }
        }
        // Of one in which nothing fails any more nothing has to be known.
        self.groups
            .retain(|_, group| group.usual > 1e-3 || now.saturating_sub(group.first) < self.learn);
        bursts
    }
}

impl Group {
    /// Failures since the last look.
    fn add(&mut self, now: u64, count: u64) {
        self.counts.push_back((now, count));
        while self.counts.front().is_some_and(|(then, _)| now.saturating_sub(*then) >= WINDOW_NS) {
            self.counts.pop_front();
        }
    }

    /// The rate and what is usual, where it has come to exceed that: by `limits`, the least rate and
    /// how many times the usual one; `None` while what is usual is learned.
    fn look(&mut self, now: u64, limits: Option<(f64, f64)>) -> Option<(f64, f64)> {
        let rate = self.counts.iter().map(|(_, count)| *count as f64).sum::<f64>()
            / (WINDOW_NS as f64 / 1e9);
        let usual = self.usual;
        let was = self.above;
        self.above = limits.is_some_and(|(least, times)| rate >= least && rate >= usual * times);
        // While it is learned everything before weighs alike; later the last minutes do.
        let time = now.saturating_sub(self.last) as f64;
        let memory = MEMORY_NS.min(now.saturating_sub(self.first) as f64).max(1.0);
        self.usual += (rate - usual) * (time / memory).min(1.0);
        self.last = now;
        (self.above && !was).then_some((rate, usual))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn errors() -> Errors {
        let config = config::Errors { min_rate: 50, factor: 10, ..config::Errors::default() };
        Errors::new(&config, &Meta::default())
    }

    /// `rate(second)` failures a second, in group 7; the seconds in which it was told.
    fn told(errors: &mut Errors, seconds: u64, rate: impl Fn(u64) -> u64) -> Vec<u64> {
        let mut told = Vec::new();
        for second in 0..seconds {
            (0..rate(second)).for_each(|_| errors.failed(5, libc::EIO));
            for burst in errors.look(second * S, |_| 7) {
                assert_eq!((burst.cgroup, burst.worst), (7, Some((libc::EIO, 5))));
                told.push(second);
            }
        }
        told
    }

    #[test]
    fn a_burst_above_the_usual_is_told_once() {
        let told =
            told(&mut errors(), 200, |second| if (120..150).contains(&second) { 200 } else { 1 });
        assert_eq!(told.len(), 1, "{told:?}");
        assert!((122..130).contains(&told[0]), "{told:?}");
    }

    #[test]
    fn what_is_usual_new_or_rare_is_no_alarm() {
        assert_eq!(told(&mut errors(), 300, |_| 300), [0u64; 0], "usual");
        assert_eq!(
            told(&mut errors(), 300, |second| if second > 100 { 40 } else { 0 }),
            [0u64; 0],
            "below the least"
        );
        assert_eq!(told(&mut errors(), 50, |second| 10 * second), [0u64; 0], "not yet known");
        assert_eq!(
            told(&mut errors(), 300, |second| if second > 100 { 400 } else { 100 }),
            [0u64; 0],
            "four times"
        );
    }

    #[test]
    fn which_errors_count() {
        let errors = errors();
        let counts = |ret| errors.counts(Abi::Native, 0, ret);
        assert_eq!((counts(-5), counts(-524)), (Some(5), Some(524)), "ENOTSUPP reaches programs");
        for ret in [0, 7, -i64::from(libc::ENOENT), -i64::from(libc::EAGAIN), -512, -4096, i64::MIN]
        {
            assert_eq!(counts(ret), None, "{ret}");
        }
    }
}
