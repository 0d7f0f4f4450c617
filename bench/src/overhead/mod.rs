//! What recording costs the work that is recorded: the same work with and without it, and beside
//! its peers.
//!
//! Machines drift, so the conditions take turns, round by round, and what is quoted are ratios
//! within one run.

mod bpftrace;
mod condition;
mod density;
mod fifo;
mod part;
mod table;
mod workload;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use flightrec_tests::{Sandbox, online_cpus};

use condition::{Beside, Condition};
use density::Density;
use workload::Workload;

/// How often each condition gets its turn, if nothing else is asked for.
pub(super) const ROUNDS: usize = 9;

/// Builds what measuring takes.
pub(super) fn prepare() -> Result<()> {
    condition::prepare()
}

/// Empty programs on the tracepoints of the probes.
pub(super) struct Floor(Beside);

impl Floor {
    /// Attaches empty ones.
    pub(super) fn empty() -> Result<Self> {
        condition::floor("empty").map(Self)
    }

    /// Attaches such as read the clock once.
    pub(super) fn clock() -> Result<Self> {
        condition::floor("clock").map(Self)
    }

    /// Detaches them.
    pub(super) fn stop(self) -> Result<()> {
        self.0.stop()
    }
}

/// All that was measured.
struct Measured {
    cpu: usize,
    rounds: usize,
    /// One figure a round.
    samples: BTreeMap<(Condition, Workload), Vec<f64>>,
    /// Peers that are not here, and why.
    missing: Vec<(Condition, String)>,
    density: Vec<Density>,
}

/// Measures, and prints a table, or one JSON object.
pub(super) fn run(
    rounds: usize,
    against: Option<&Path>,
    only: &[String],
    json: bool,
) -> Result<()> {
    let cpu = *online_cpus().last().context("no CPU is online")?;
    // One sandbox for all rounds: it mounts tracefs where there is none.
    let sandbox = Sandbox::new()?;
    let mut measured = Measured {
        cpu,
        rounds,
        samples: BTreeMap::new(),
        missing: condition::missing(against, only)?,
        density: Vec::new(),
    };
    let here =
        |condition: &Condition| !measured.missing.iter().any(|(missing, _)| missing == condition);
    let conditions: Vec<Condition> = Condition::ALL.into_iter().filter(here).collect();
    workload::warm_up(cpu, sandbox.root())?;
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        for condition in &conditions {
            let beside = condition.start(sandbox.root(), against)?;
            let flags = condition.flags();
            let figures = workload::run(cpu, sandbox.root(), condition.age(), flags)?;
            ensure!(flags.is_empty() || beside.has_contexts(), "no contexts were recorded");
            beside.stop()?;
            for (workload, figure) in figures {
                measured.samples.entry((*condition, workload)).or_default().push(figure);
            }
        }
    }
    measured.density = density::measure(cpu)?;
    drop(sandbox);
    if json {
        println!("{}", table::json(&measured));
    } else {
        print!("{}", table::text(&measured));
    }
    Ok(())
}
