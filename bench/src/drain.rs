//! What draining costs, and up to which rate nothing is lost: of this build, or of two in turns.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use flightrec_tests::{Options, Recorder, bin_dir, online_cpus};
use nix::sys::signal::Signal;
use nix::unistd::getppid;
use serde_json::Value;

use super::disk::mix;

/// How it is measured.
#[derive(Debug, Clone, Args)]
pub(crate) struct DrainArgs {
    /// Compare with the flightd and flightctl in DIR, of another build.
    #[arg(long, value_name = "DIR")]
    against: Option<PathBuf>,
    /// Number of times to record the compile mix with each build.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Then record calls on all CPUs at these rates, in thousands of events per second, for 5 s
    /// each.
    #[arg(long, value_name = "THOUSANDS", value_delimiter = ',')]
    rates: Vec<u64>,
    /// Wait until the events are added up, and print what that costs: a minute more each round.
    #[arg(long)]
    sums: bool,
}

/// Nothing is refused.
const CONFIG: &str = "[budget]\ntotal = \"off\"\nper_cpu = \"off\"\n";
/// Sums are made as fast as they can be; not said to builds that know of none.
const SUMS: &str = "[history]\nmax_cpu_percent = 100\n";
/// How long calls are made at one rate.
const FLOOD: Duration = Duration::from_secs(5);
/// How long the rings are drained behind what is recorded, at most.
const SETTLED: Duration = Duration::from_secs(20);
/// The same for adding up: what is newer than 20 s is left, and the rest is known every 10 s.
const ADDED: Duration = Duration::from_secs(90);

/// What one recording came to.
#[derive(Debug, Clone, Copy)]
struct Drained {
    events: f64,
    lost: f64,
    /// CPU time of draining, of adding up and of all of flightd, ns.
    drain: f64,
    sums: f64,
    all: f64,
}

/// Measures and prints.
pub(super) fn run(args: &DrainArgs) -> Result<()> {
    let builds: Vec<(&str, PathBuf)> = [("this build", Some(bin_dir()))]
        .into_iter()
        .chain([("the other", args.against.clone())])
        .filter_map(|(name, dir)| Some((name, dir?)))
        .collect();
    let mut costs = vec![Vec::new(); builds.len()];
    for round in 0..args.rounds as usize {
        // In turns, so that neither always comes second.
        let mut order: Vec<usize> = (0..builds.len()).collect();
        order.rotate_left(round % builds.len());
        for at in order {
            let (name, dir) = &builds[at];
            eprintln!("round {} of {}, {name}", round + 1, args.rounds);
            costs[at].push(record(dir, args.sums, mix)?);
        }
    }
    println!(
        "The compile mix, {} rounds; ns of CPU time an event, median (least to greatest):",
        args.rounds
    );
    for ((name, _), of_build) in builds.iter().zip(&costs) {
        let line = |what: &str, value: &dyn Fn(&Drained) -> f64| {
            let values: Vec<f64> = of_build.iter().map(|of| value(of) / of.events).collect();
            let (median, least, greatest) = super::spread(&values);
            println!("  {name:<10} {what:<22} {median:>7.1} ({least:.1} to {greatest:.1})");
        };
        line("draining", &|of| of.drain);
        if args.sums {
            line("sums", &|of| of.sums);
        }
        line("all of flightd", &|of| of.all);
        let lost: f64 = of_build.iter().map(|of| of.lost).sum();
        println!("  {name:<10} {:<22} {lost:>7.0}", "events lost");
    }
    if let [ours, theirs] = &costs[..] {
        let ratios: Vec<f64> = ours
            .iter()
            .zip(theirs)
            .map(|(a, b)| (a.drain / a.events) / (b.drain / b.events) * 100.0 - 100.0)
            .collect();
        let (median, least, greatest) = super::spread(&ratios);
        println!("  draining, in pairs: {median:+.1} % ({least:+.1} to {greatest:+.1})");
    }
    for rate in &args.rates {
        for (name, dir) in &builds {
            let of = record(dir, false, |_| {
                flood_for(rate * 1000, FLOOD);
                Ok(())
            })?;
            println!(
                "{rate:>6}000 events a second asked, {name}: {:.0} a second written, {:.0} lost, \
                 draining takes {:.1} % of one CPU",
                of.events / FLOOD.as_secs_f64(),
                of.lost,
                of.drain / FLOOD.as_nanos() as f64 * 100.0
            );
        }
    }
    Ok(())
}

/// Records what `work` does, and waits until it is drained.
fn record(dir: &Path, sums: bool, work: impl FnOnce(&Path) -> Result<()>) -> Result<Drained> {
    let mut recorder = Recorder::try_start(Options {
        config: format!("{CONFIG}{}", if sums { SUMS } else { "" }),
        death_signal: Signal::SIGTERM,
        programs: dir.to_owned(),
        ..Options::default()
    })?;
    let before = Reading::of(&recorder)?;
    work(&recorder.sandbox().root().join("mix"))?;
    let done = Reading::of(&recorder)?;
    let mut after = wait(&recorder, SETTLED, |now| now.drained >= done.time)?;
    let drained = after.clone();
    if sums {
        after = wait(&recorder, ADDED, |now| now.summed >= done.time)?;
    }
    let status = recorder.terminate()?;
    ensure!(status.success(), "flightd: {status}\n{}", recorder.log());
    Ok(Drained {
        events: drained.events - before.events,
        lost: drained.lost - before.lost,
        drain: (drained.drain - before.drain) * 1e9,
        sums: (after.sums - before.sums) * 1e9,
        all: (after.all - before.all) * 1e9,
    })
}

/// What the status tells.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    /// s of `CLOCK_MONOTONIC`.
    time: f64,
    drained: f64,
    summed: f64,
    pub(super) events: f64,
    pub(super) lost: f64,
    /// CPU time, s.
    drain: f64,
    sums: f64,
    pub(super) all: f64,
}

impl Reading {
    pub(super) fn of(recorder: &Recorder) -> Result<Self> {
        let output = recorder.flightctl(&["status", "--json"]);
        let status: Value =
            serde_json::from_slice(&output.stdout).context("flightctl status --json")?;
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let sum = |lanes: &Value| {
            lanes.as_object().map_or(0.0, |lanes| lanes.values().map(number).sum::<f64>())
        };
        let (store, sums) = (&status["store"], &status["sums"]);
        let time = number(&status["mono_ns"]) / 1e9;
        // Of what is not known: never.
        let behind = |value: &Value| time - value.as_f64().unwrap_or(f64::INFINITY);
        Ok(Self {
            time,
            drained: behind(&store["behind_seconds"]),
            summed: behind(&sums["behind_seconds"]),
            events: sum(&store["written_events"]),
            lost: sum(&store["lost_events"]),
            drain: number(&store["cpu_seconds"]),
            sums: number(&sums["cpu_seconds"]),
            all: number(&status["daemon"]["cpu_seconds"]),
        })
    }
}

/// Reads until something holds.
fn wait(recorder: &Recorder, limit: Duration, holds: impl Fn(&Reading) -> bool) -> Result<Reading> {
    let begun = Instant::now();
    loop {
        let now = Reading::of(recorder)?;
        if holds(&now) {
            return Ok(now);
        }
        ensure!(begun.elapsed() < limit, "not within {limit:?}: {now:?}\n{}", recorder.log());
        thread::sleep(Duration::from_millis(200));
    }
}

/// Makes calls on all CPUs, as many as give so many events a second: an entry and an exit each.
pub(super) fn flood_for(rate: u64, length: Duration) {
    const TICK: Duration = Duration::from_millis(2);
    let threads = online_cpus().len() as u64;
    let calls = rate * TICK.as_millis() as u64 / 1000 / 2 / threads.max(1);
    let work = || {
        let begun = Instant::now();
        let mut next = TICK;
        while begun.elapsed() < length {
            for _ in 0..calls {
                std::hint::black_box(getppid());
            }
            // What was late is made up for.
            thread::sleep(next.saturating_sub(begun.elapsed()));
            next += TICK;
        }
    };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
}
