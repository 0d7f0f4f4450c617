//! What is said of the tests.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::catalogue::{Catalogue, Test};
use crate::process::{Outcome, Verdict};

/// A test that takes longer is named when it ends.
const SLOW: Duration = Duration::from_secs(10);
/// How many of the slowest are listed.
const SLOWEST: usize = 10;
/// Lines of what a failed test wrote: its last ones.
const LINES: usize = 400;

/// What has come out so far.
pub(crate) struct Report {
    began: Instant,
    all: usize,
    passed: usize,
    failed: Vec<String>,
    /// Names by the reason.
    left_out: BTreeMap<String, Vec<String>>,
    times: Vec<(Duration, String)>,
}

impl Report {
    pub(crate) fn new(all: usize) -> Self {
        println!("running {all} tests");
        let (failed, left_out, times) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self { began: Instant::now(), all, passed: 0, failed, left_out, times }
    }

    pub(crate) fn add(&mut self, test: &Test, outcome: Outcome) {
        let (name, took) = (test.full_name(), outcome.took);
        self.times.push((took, name.clone()));
        let ended = self.times.len();
        let say = |what: &str| {
            let all = self.all;
            println!("{ended:5}/{all} {what} {:8.3} s  {name}", took.as_secs_f64());
        };
        match outcome.verdict {
            Verdict::Passed => {
                self.passed += 1;
                if took > SLOW || test.is_of_kernel || ended.is_multiple_of(100) {
                    say("passed");
                }
            }
            Verdict::LeftOut(why) => {
                say("left out");
                self.left_out.entry(why).or_default().push(name);
            }
            Verdict::Failed(why, output) => {
                say("FAILED");
                let lines: Vec<&str> = output.lines().collect();
                let from = lines.len().saturating_sub(LINES);
                println!("--- {name}: {why}\n{}\n---", lines[from..].join("\n"));
                self.failed.push(name);
            }
        }
    }

    /// The end; whether all went well.
    pub(crate) fn finish(mut self, left: &[String], catalogue: &Catalogue) -> bool {
        self.times.sort_by(|a, b| b.cmp(a));
        println!("\nslowest:");
        for (took, name) in self.times.iter().take(SLOWEST) {
            println!("{:8.1} s  {name}", took.as_secs_f64());
        }
        for (why, names) in &self.left_out {
            println!("left out: {why}: {}", names.join(", "));
        }
        for (n, why) in &catalogue.unselected {
            println!("not run: {n} tests {why}");
        }
        println!("not run: cargo xtask vm, service, bare, kubernetes, calm");
        for name in &self.failed {
            println!("FAILED: {name}");
        }
        for what in left {
            println!("LEFT BEHIND: {what}");
        }
        let skipped: usize = self.left_out.values().map(Vec::len).sum();
        println!("ended after {} s", self.began.elapsed().as_secs());
        println!("{} passed, {} failed, {skipped} skipped", self.passed, self.failed.len());
        self.failed.is_empty() && left.is_empty() && self.passed > 0
    }
}
