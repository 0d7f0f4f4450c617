//! `cargo xtask bench ship-beside`: what flightd costs and loses beside a flight-ship that ships,
//! that reaches nobody, whose storage is full, or that is not there.
//!
//! One flightd records a steady load, of which a snapshot is taken every few seconds. The
//! conditions take turns in rounds, so that the machine's speed is the same for each.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use flightrec_tests::shipping::Shipper;
use flightrec_tests::{Options, Recorder, Tmpfs};
use serde_json::Value;

use super::drain::{Reading, flood_for};

/// How it is measured.
#[derive(Debug, Clone, Args)]
pub(crate) struct BesideArgs {
    /// Number of rounds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds per condition in a round.
    #[arg(long, default_value_t = 15)]
    seconds: u64,
}

/// Nothing is refused; sums are left out, as they are made a minute late, in any condition's turn.
const CONFIG: &str = "[budget]\ntotal = \"off\"\nper_cpu = \"off\"\n[history]\nenabled = false\n\
                      [store]\nkeep_free = \"0B\"\n[snapshots]\nafter = \"100ms\"\n\
                      per_hour = 3600\n";
/// Events a second of the load.
const RATE: u64 = 20_000;
/// Between a snapshot and the next.
const EVERY: Duration = Duration::from_secs(5);

/// What flight-ship does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Absent,
    Ships,
    ReachesNobody,
    StorageIsFull,
}

impl Condition {
    const ALL: [Self; 4] = [Self::Absent, Self::Ships, Self::ReachesNobody, Self::StorageIsFull];

    fn name(self) -> &'static str {
        match self {
            Self::Absent => "no flight-ship",
            Self::Ships => "ships to a directory",
            Self::ReachesNobody => "nobody at the address",
            Self::StorageIsFull => "the storage is full",
        }
    }

    /// The kind of the problem that flight-ship has.
    fn problem(self) -> Option<&'static str> {
        match self {
            Self::Absent | Self::Ships => None,
            Self::ReachesNobody => Some("unreachable"),
            Self::StorageIsFull => Some("full"),
        }
    }
}

/// What a turn came to.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// Events that flightd wrote, and that it lost.
    events: f64,
    lost: f64,
    /// CPU time of flightd, ns.
    cpu: f64,
}

pub(super) fn run(args: &BesideArgs) -> Result<()> {
    let mut recorder =
        Recorder::try_start(Options { config: CONFIG.into(), ..Options::default() })?;
    let dir = tempfile::Builder::new().prefix("flightrec-beside-").tempdir()?;
    let mut turns: [Vec<Turn>; 4] = Default::default();
    for round in 0..args.rounds {
        let mut order: Vec<usize> = (0..Condition::ALL.len()).collect();
        order.rotate_left(round % Condition::ALL.len());
        for at in order {
            let condition = Condition::ALL[at];
            eprintln!("round {} of {}, {}", round + 1, args.rounds, condition.name());
            let own = dir.path().join(format!("{round}-{at}"));
            turns[at].push(turn(&recorder, condition, &own, Duration::from_secs(args.seconds))?);
        }
    }
    ensure!(recorder.terminate()?.success(), "flightd failed:\n{}", recorder.log());
    println!(
        "{RATE} events a second of the load, a snapshot every {} s; {} turns of {} s each; median \
         (least to greatest):",
        EVERY.as_secs(),
        args.rounds,
        args.seconds
    );
    println!(
        "  {:<24}{:>26}{:>30}{:>34}{:>8}",
        "flight-ship",
        "events, thousands",
        "CPU of flightd, ns an event",
        "against none, in pairs",
        "lost"
    );
    for (condition, of) in Condition::ALL.iter().zip(&turns) {
        let column = |values: Vec<f64>, digits: usize| {
            let (median, least, greatest) = super::spread(&values);
            format!("{median:.digits$} ({least:.digits$} to {greatest:.digits$})")
        };
        let each = |of: &Turn| of.cpu / of.events;
        let pairs = of.iter().zip(&turns[0]).map(|(of, none)| each(of) / each(none)).collect();
        println!(
            "  {:<24}{:>26}{:>30}{:>34}{:>8.0}",
            condition.name(),
            column(of.iter().map(|of| of.events / 1000.0).collect(), 0),
            column(of.iter().map(each).collect(), 0),
            column(pairs, 2),
            of.iter().map(|of| of.lost).sum::<f64>()
        );
    }
    Ok(())
}

/// One condition, for a while.
fn turn(recorder: &Recorder, condition: Condition, dir: &Path, length: Duration) -> Result<Turn> {
    fs::create_dir_all(dir)?;
    let lake = dir.join("lake");
    let full =
        (condition == Condition::StorageIsFull).then(|| Tmpfs::new(&lake, "4k")).transpose()?;
    let to = match condition {
        // The port is tcpmux's, which no machine has.
        Condition::ReachesNobody => concat!(
            "to = \"s3://lake\"\n[storage]\nendpoint = \"http://127.0.0.1:1\"\n",
            "allow_http = true\n"
        )
        .to_owned(),
        _ => format!("to = \"{}\"\n[storage]\n", lake.display()),
    };
    let config = format!(
        "[ship]\nhost = \"web1\"\nstate_dir = \"{}\"\ninterval = \"1s\"\n{to}\
         retry_least = \"200ms\"\nretry_most = \"1s\"\n[snapshots]\nsettle = \"0s\"\n",
        recorder.sandbox().state_dir().display()
    );
    let mut shipper = Shipper::new(&dir.join("ship"), &config)?;
    if condition != Condition::Absent {
        shipper.start()?;
    }
    let before = Reading::of(recorder)?;
    thread::scope(|scope| {
        let load = scope.spawn(move || flood_for(RATE, length));
        let begun = Instant::now();
        let mut next = Duration::from_secs(1);
        while next < length {
            thread::sleep(next.saturating_sub(begun.elapsed()));
            let output = recorder.flightctl(&["snapshot", "--last", "1s", "--reason", "a turn"]);
            // On a busy machine it may come later.
            let is_late = String::from_utf8_lossy(&output.stderr).contains("is not finished yet");
            ensure!(
                output.status.success() || is_late,
                "no snapshot: {output:?}\n{}",
                recorder.log()
            );
            next += EVERY;
        }
        load.join().map_err(|_| anyhow::anyhow!("the load failed"))
    })?;
    let after = Reading::of(recorder)?;
    if condition != Condition::Absent {
        let status = shipper.status().unwrap_or(Value::Null);
        let problem = status["problem"]["kind"].as_str();
        ensure!(
            problem == condition.problem() && shipper.is_running(),
            "{}: flight-ship has the problem {problem:?}: {status}\n{}",
            condition.name(),
            shipper.log()
        );
    }
    drop((shipper, full));
    Ok(Turn {
        events: after.events - before.events,
        lost: after.lost - before.lost,
        cpu: (after.all - before.all) * 1e9,
    })
}
