//! Whether the budget is kept, measured from outside: by what the work that is recorded loses.
//!
//! Each line says what is promised, what was measured, and whether that is kept. Off and on take
//! turns, so that a machine that drifts does not count as one that is slowed down.

mod load;
mod promise;

use anyhow::{Context, Result, ensure};
use flightrec_tests::online_cpus;

use load::Load;
use promise::Promise;

/// How often off and on take turns, if nothing else is asked for.
pub(super) const ROUNDS: usize = 8;

/// Measures, prints a line for each promise, and fails where one is not kept.
pub(super) fn run(rounds: usize, only: Option<&str>) -> Result<()> {
    ensure!(rounds >= 2, "a confidence interval needs two rounds at least");
    let cpus = online_cpus();
    ensure!(cpus.len() >= 2, "this takes two CPUs: one that is loaded, and one that is not");
    let load = Load::new(*cpus.last().context("no CPU is online")?, cpus);
    let (mut kept, mut all) = (0, 0);
    for (name, measure) in PROMISES {
        if only.is_some_and(|only| only != *name) {
            continue;
        }
        eprintln!("measuring: {name}");
        for promise in measure(&load, rounds).with_context(|| (*name).to_owned())? {
            println!("{promise}");
            all += 1;
            kept += usize::from(promise.is_kept());
        }
    }
    ensure!(
        all > 0,
        "there is no such promise; there are: {}",
        PROMISES.map(|(name, _)| name).join(", ")
    );
    println!("\n{kept} of {all} kept");
    ensure!(kept == all, "the budget is not kept");
    Ok(())
}

type Measure = fn(&Load, usize) -> Result<Vec<Promise>>;

/// Everything that is promised, by a name to ask for it alone.
const PROMISES: &[(&str, Measure); 6] = &[
    ("paced", promise::paced),
    ("hammer", promise::hammer),
    ("unlimited", promise::unlimited),
    ("one-cpu", promise::one_cpu),
    ("no-daemon", promise::no_daemon),
    ("burst", promise::burst),
];
