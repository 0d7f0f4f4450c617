//! What recording costs the work that is recorded: the same loops with and without it.
//!
//! Machines drift, so the conditions take turns, round by round, and what is quoted is the ratio
//! of medians of one run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flightrec_tests::{Options, Recorder, Sandbox, c_program, key_values, online_cpus};
use nix::sys::signal::Signal;

const ROUNDS: usize = 7;
const WORKLOADS: [(&str, &str); 3] =
    [("getppid", "system call"), ("open", "openat of a missing 40-character path"), ("pipe", "pipe round trip")];

/// What runs beside the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Condition {
    Off,
    Flightrec,
    WithoutStrings,
    Ftrace,
}

impl Condition {
    const ALL: [Self; 4] = [Self::Off, Self::Flightrec, Self::WithoutStrings, Self::Ftrace];

    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Flightrec => "flightrec",
            Self::WithoutStrings => "flightrec, strings = false",
            Self::Ftrace => "ftrace, same events",
        }
    }
}

/// Measures and prints a table: ns an operation, and what each condition adds.
pub(super) fn run() -> Result<()> {
    let cpu = *online_cpus().last().context("no CPU is online")?;
    let program = c_program("cost", &["-O2", "-pthread"]);
    // One sandbox for all rounds: it mounts tracefs where there is none.
    let sandbox = Sandbox::new()?;
    let mut samples: BTreeMap<(Condition, &str), Vec<f64>> = BTreeMap::new();
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        for condition in Condition::ALL {
            for (workload, ns) in measure(condition, &program, cpu)? {
                samples.entry((condition, workload)).or_default().push(ns);
            }
        }
    }
    drop(sandbox);
    print(&samples);
    Ok(())
}

/// One run of the workloads under a condition.
fn measure(condition: Condition, program: &Path, cpu: usize) -> Result<Vec<(&'static str, f64)>> {
    let config = match condition {
        Condition::WithoutStrings => "[record]\nstrings = false\n",
        _ => "",
    };
    let mut recorder = match condition {
        Condition::Flightrec | Condition::WithoutStrings => {
            let options = Options { config: config.into(), death_signal: Signal::SIGTERM, ..Options::default() };
            Some(Recorder::try_start(options)?)
        }
        _ => None,
    };
    let ftrace = (condition == Condition::Ftrace).then(Ftrace::start).transpose()?;
    let output = Command::new(program).arg(cpu.to_string()).output().context("can't run the workload")?;
    drop(ftrace);
    if let Some(recorder) = &mut recorder {
        ensure!(recorder.terminate()?.success(), "flightd failed:\n{}", recorder.log());
    }
    ensure!(output.status.success(), "the workload failed ({})", output.status);
    let values = key_values(&output.stdout);
    WORKLOADS
        .into_iter()
        .map(|(name, _)| {
            let value = values.get(&format!("{name}_ns")).with_context(|| format!("the workload printed no {name}"))?;
            Ok((name, value.parse()?))
        })
        .collect()
}

/// The same tracepoints in a tracing instance of our own, oldest overwritten.
struct Ftrace(PathBuf);

impl Ftrace {
    fn start() -> Result<Self> {
        let dir = PathBuf::from(format!("/sys/kernel/tracing/instances/flightrec-{}", std::process::id()));
        fs::create_dir(&dir).with_context(|| format!("can't make {}", dir.display()))?;
        let instance = Self(dir);
        let events = [
            "raw_syscalls",
            "sched/sched_switch",
            "sched/sched_waking",
            "sched/sched_wakeup_new",
            "sched/sched_migrate_task",
        ];
        for event in events {
            fs::write(instance.0.join("events").join(event).join("enable"), "1")?;
        }
        Ok(instance)
    }
}

impl Drop for Ftrace {
    fn drop(&mut self) {
        if let Err(e) = fs::write(self.0.join("events/enable"), "0").and_then(|()| fs::remove_dir(&self.0)) {
            eprintln!("{}: {e}: remove it by hand", self.0.display());
        }
    }
}

fn print(samples: &BTreeMap<(Condition, &str), Vec<f64>>) {
    let of = |condition, workload| samples.get(&(condition, workload)).map_or(&[][..], Vec::as_slice);
    println!("Median of {ROUNDS} interleaved rounds on one pinned CPU (least to greatest); ns an operation.");
    for (workload, what) in WORKLOADS {
        let (off, ..) = super::spread(of(Condition::Off, workload));
        let (ftrace, ..) = super::spread(of(Condition::Ftrace, workload));
        println!("\n{workload} ({what})");
        for condition in Condition::ALL {
            let (median, least, greatest) = super::spread(of(condition, workload));
            print!("  {:<28} {median:>8.0}  ({least:.0} to {greatest:.0})", condition.name());
            if condition != Condition::Off {
                print!("  adds {:>6.0}: {:.2} x off", median - off, median / off);
                print!(", {:.2} x what ftrace adds", (median - off) / (ftrace - off));
            }
            println!();
        }
    }
}
