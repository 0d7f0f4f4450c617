//! `cargo xtask bench contexts`: what thread contexts add to the program of a switch while no
//! process publishes any.
//!
//! A round trip between two threads varies by hundreds of ns from run to run, so the kernel counts:
//! with `kernel.bpf_stats_enabled` it adds up what each run of a program takes. Its two reads of
//! the clock are in both conditions.

use std::fs;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flightrec_format::live::sys;
use flightrec_tests::{Options, Recorder, c_program, online_cpus};

use super::spread;

/// Rounds, each with both conditions.
pub(super) const ROUNDS: usize = 15;
/// Round trips of a turn: two switches each.
const TRIPS: u64 = 200_000;
/// The program that runs at each switch.
const PROGRAM: &str = "sched_switch";
const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// The kernel counts while this is there.
struct Counting {
    before: String,
}

impl Counting {
    fn start() -> Result<Self> {
        let before = fs::read_to_string(SWITCH).context(SWITCH)?;
        fs::write(SWITCH, "1").context(SWITCH)?;
        Ok(Self { before })
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        if let Err(e) = fs::write(SWITCH, &self.before) {
            eprintln!("{SWITCH}: {e}");
        }
    }
}

pub(super) fn run(rounds: usize) -> Result<()> {
    let cpu = online_cpus().last().context("no CPU is online")?.to_string();
    let program = c_program("pingpong", &[]);
    let counting = Counting::start()?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        // Each is the first one every other time.
        for contexts in if round % 2 == 0 { [false, true] } else { [true, false] } {
            let ns = turn(&program, &cpu, contexts)?;
            if contexts { &mut with } else { &mut without }.push(ns);
        }
    }
    drop(counting);
    let pairs: Vec<f64> = with.iter().zip(&without).map(|(with, without)| with - without).collect();
    println!(
        "ns of the program of a switch; {rounds} rounds of {TRIPS} round trips; median (least \
              to greatest):"
    );
    for (name, values) in
        [("without contexts", without), ("with contexts", with), ("they add, in pairs", pairs)]
    {
        let (median, least, greatest) = spread(&values);
        println!("  {name:<20}{median:>8.1}  ({least:.1} to {greatest:.1})");
    }
    Ok(())
}

/// ns of a run of the program, on average of a turn.
fn turn(program: &Path, cpu: &str, contexts: bool) -> Result<f64> {
    let config = format!(
        "[record]\nthread_contexts = {contexts}\n[budget]\ntotal = \"off\"\nper_cpu = \"off\"\n"
    );
    let mut recorder = Recorder::try_start(Options { config, ..Options::default() })?;
    let pins = recorder.sandbox().pins()?;
    let is_it = |pin: &&PathBuf| pin.ends_with(Path::new("progs").join(PROGRAM));
    let pin = pins.iter().find(is_it).with_context(|| format!("no program {PROGRAM}"))?;
    let pinned = sys::obj_get(pin)?;
    let before = sys::prog_runs(pinned.as_fd())?;
    let status = Command::new(program).args([&TRIPS.to_string(), "1", cpu, cpu]).output()?.status;
    ensure!(status.success(), "pingpong failed: {status}");
    let after = sys::prog_runs(pinned.as_fd())?;
    ensure!(recorder.terminate()?.success(), "flightd failed:\n{}", recorder.log());
    let (ns, runs) = (after.0 - before.0, after.1 - before.1);
    ensure!(runs > TRIPS, "{PROGRAM} ran only {runs} times");
    Ok(ns as f64 / runs as f64)
}
