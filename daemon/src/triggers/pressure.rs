//! Pressure stall information: the share of time in which threads waited for a resource
//! (Documentation/accounting/psi.rst).
//!
//! The kernel's own averages lag behind; here the totals are taken, over `WINDOW`.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use crate::config;

/// Over how long, ns.
const WINDOW: u64 = 10_000_000_000;
const MILLION: u64 = 1_000_000;

/// What can be short.
const RESOURCES: [(&str, &str, &str); 3] = [
    ("cpu", "some", "some thread waited for a CPU"),
    ("memory", "full", "all threads waited for memory"),
    ("io", "full", "all threads waited for I/O"),
];

/// A resource.
#[derive(Debug)]
struct Resource {
    /// Millionths of the time.
    most: u64,
    /// Moments and totals, µs.
    totals: VecDeque<(u64, u64)>,
    above: bool,
}

/// Watches the resources.
#[derive(Debug)]
pub struct Pressure([Option<Resource>; 3]);

/// A resource that is short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Short {
    /// Which.
    pub resource: &'static str,
    /// How, in a sentence.
    pub reason: String,
}

impl Pressure {
    /// With these limits.
    pub fn new(config: &config::Pressure) -> Self {
        let resource = |share: config::Share| {
            let most = u64::from(share.millionths()?);
            Some(Resource { most, totals: VecDeque::new(), above: false })
        };
        Self([config.cpu, config.memory, config.io].map(resource))
    }

    /// What has become short by `now` (ns of `CLOCK_MONOTONIC`): each once, until it has fallen to
    /// half of its limit.
    pub fn look(&mut self, proc: &Path, now: u64) -> Vec<Short> {
        let mut short = Vec::new();
        for (resource, (name, line, words)) in self.0.iter_mut().zip(RESOURCES) {
            let Some(resource) = resource else { continue };
            let Some(total) = total(&proc.join("pressure").join(name), line) else { continue };
            if let Some(share) = resource.look(now, total) {
                let percent = share as f64 / 1e4;
                short.push(Short {
                    resource: name,
                    reason: format!("{words} for {percent:.0} % of 10 s"),
                });
            }
        }
        short
    }
}

impl Resource {
    /// The share, where it has come to exceed the limit.
    fn look(&mut self, now: u64, total: u64) -> Option<u64> {
        self.totals.push_back((now, total));
        // The first is the last that is as old as the window.
        while self.totals.get(1).is_some_and(|(then, _)| now.saturating_sub(*then) >= WINDOW) {
            self.totals.pop_front();
        }
        let (then, before) = *self.totals.front()?;
        let time = now.saturating_sub(then);
        if time < WINDOW {
            return None;
        }
        let share =
            total.saturating_sub(before).saturating_mul(1000).saturating_mul(MILLION) / time;
        let was = self.above;
        self.above = if was { share > self.most / 2 } else { share >= self.most };
        (self.above && !was).then_some(share.min(MILLION))
    }
}

/// `full avg10=0.00 avg60=0.00 avg300=0.00 total=1234`
fn total(path: &Path, line: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|words| words.split(' ').next() == Some(line))?;
    line.rsplit_once("total=")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Share;

    #[test]
    fn a_share_of_ten_seconds_is_told_once() {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("pressure")).unwrap();
        let memory = proc.path().join("pressure/memory");
        let limits =
            config::Pressure { memory: Share::Millionths(300_000), ..config::Pressure::default() };
        let mut pressure = Pressure::new(&limits);
        // Four of ten seconds from the 20th on, for 20 s; then none.
        let (mut total, mut told) = (7_000_000u64, Vec::new());
        for second in 0..60u64 {
            total += if (20..40).contains(&second) { 400_000 } else { 1000 };
            let line = |kind: &str, total| {
                format!("{kind} avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n")
            };
            fs::write(&memory, line("some", 9 * total) + &line("full", total)).unwrap();
            for short in pressure.look(proc.path(), second * 1_000_000_000) {
                told.push((second, short));
            }
        }
        let reason = "all threads waited for memory for 32 % of 10 s".to_owned();
        assert_eq!(told, [(27, Short { resource: "memory", reason })]);
    }

    #[test]
    fn kernels_without_it_and_nonsense_are_quiet() {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("pressure")).unwrap();
        let mut pressure = Pressure::new(&config::Pressure::default());
        for (second, text) in
            ["", "full", "full total=x", "full total=-1", "full total=18446744073709551615"]
                .iter()
                .enumerate()
        {
            fs::write(proc.path().join("pressure/io"), text).unwrap();
            assert_eq!(pressure.look(proc.path(), second as u64 * 1_000_000_000), []);
        }
        assert_eq!(
            Pressure::new(&config::Pressure::default()).look(Path::new("/nonexistent"), 1),
            []
        );
    }
}
