//! What is promised.

use std::fmt;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flightrec_format::abi::page::Lane;
use flightrec_format::live::{Generation, LiveRings};
use flightrec_tests::Recorder;

use super::load::{Hammered, Load, asked, number, recorder, stop};
use crate::overhead::Floor;

/// Something promised, and what was measured.
pub(super) struct Promise {
    what: &'static str,
    measured: String,
    /// `None`: a figure to compare with; nothing is promised.
    kept: Option<bool>,
}

impl Promise {
    fn new(what: &'static str, kept: bool, measured: String) -> Self {
        Self { what, measured, kept: Some(kept) }
    }

    fn figure(what: &'static str, measured: String) -> Self {
        Self { what, measured, kept: None }
    }

    pub(super) fn is_kept(&self) -> bool {
        self.kept != Some(false)
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.kept {
            Some(true) => "kept   ",
            Some(false) => "NOT KEPT",
            None => "figure ",
        };
        write!(f, "{verdict} {}\n         {}", self.what, self.measured)
    }
}

/// Mean, and half of its 95 % confidence interval (Student's t).
fn mean(values: &[f64]) -> (f64, f64) {
    const T: [f64; 10] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance =
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let t = T.get(values.len().saturating_sub(2)).copied().unwrap_or(2.1);
    (mean, t * (variance / n).sqrt())
}

/// What a loss of the usual load is, and whether the recorder's own account tells the same.
pub(super) fn paced(load: &Load, rounds: usize) -> Result<Vec<Promise>> {
    const SECONDS: f64 = 4.0;
    // After it the first round of the drain is over, which opens a file and puts the table of
    // threads into it: once, not each time.
    const START: Duration = Duration::from_secs(3);
    let (mut lost, mut asked_time, mut probes, mut daemon) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    load.paced(0.5)?;
    for _ in 0..rounds {
        let off = load.paced(SECONDS)?;
        let floor = Floor::clock()?;
        asked_time.push((off - load.paced(SECONDS)?) / SECONDS * 100.0);
        floor.stop()?;
        let recorder = recorder("")?;
        sleep(START);
        let before = asked(&recorder, &["budget", "--json"])?;
        let on = load.paced(SECONDS)?;
        let after = asked(&recorder, &["budget", "--json"])?;
        stop(recorder)?;
        lost.push((off - on) / SECONDS * 100.0);
        // Percent since the daemon began, of its time.
        let spent = |pointer: &str, cpus: f64| {
            let of = |json: &serde_json::Value| {
                Ok::<f64, anyhow::Error>(
                    number(json, pointer)? * number(json, "/spent/start/seconds")? * cpus,
                )
            };
            Ok::<f64, anyhow::Error>((of(&after)? - of(&before)?) / SECONDS)
        };
        let cpu = after["cpus"]
            .as_array()
            .and_then(|cpus| cpus.iter().position(|cpu| cpu["cpu"] == load.cpu));
        let cpu = cpu.context("the loaded CPU is not in the account")?;
        probes.push(spent(&format!("/cpus/{cpu}/spent_percent/start"), 1.0)?);
        let all = load.cpus.len() as f64;
        daemon.push(
            spent("/spent/start/drain_percent", all)? + spent("/spent/start/daemon_percent", all)?,
        );
    }
    let (lost, uncertain) = mean(&lost);
    let (least, uncertain_least) = mean(&asked_time);
    let (probes, daemon) = (mean(&probes).0, mean(&daemon).0);
    let own = probes + daemon;
    let ratio = (own / lost).max(lost / own);
    Ok(vec![
        Promise::new(
            "25,000 calls, 5,000 switches, 5,000 wakeups a second on a CPU: at most 1 % of its \
             time lost",
            lost <= 1.0,
            format!(
                "{lost:.2} % +- {uncertain:.2} lost (95 % of {rounds} rounds of {SECONDS} s off \
                 and on)"
            ),
        ),
        Promise::figure(
            "of that, what any recorder loses here: programs on the same tracepoints that read \
             the clock and do no more",
            format!("{least:.2} % +- {uncertain_least:.2} lost"),
        ),
        Promise::new(
            "the recorder's own account of that agrees within a factor of 1.5",
            ratio <= 1.5,
            format!(
                "{own:.2} %: probes and floor {probes:.2} %, flightd {daemon:.2} %; factor \
                 {ratio:.2}"
            ),
        ),
    ])
}

/// What hammers lose beside a recorder, percent of their throughput.
struct Loss {
    /// After the first second, against the same without a recorder before and after; mean of all
    /// rounds.
    lost: f64,
    /// Half of its 95 % confidence interval.
    uncertain: f64,
    rounds: usize,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.2} % +- {:.2} lost (95 % of {} rounds)",
            self.lost, self.uncertain, self.rounds
        )?;
        if self.is_told() { Ok(()) } else { write!(f, ": this machine is too noisy to tell") }
    }
}

impl Loss {
    /// Whether it is known well enough to say that so much is lost as is promised.
    fn is_told(&self) -> bool {
        self.uncertain <= 3.0
    }
}

/// Lets hammers run on these CPUs without a recorder and with one in turns, `seconds` after the
/// first with it.
fn loss(
    load: &Load,
    cpus: &[usize],
    (seconds, rounds): (f64, usize),
    mut on: impl FnMut() -> Result<Hammered>,
) -> Result<Loss> {
    let off = || load.hammer(seconds / 3.0, cpus).map(|hammered| hammered.throughput());
    let mut before = off()?;
    let mut lost = Vec::new();
    for _ in 0..rounds {
        let on = on()?.throughput();
        let after = off()?;
        lost.push((1.0 - on / before.midpoint(after)) * 100.0);
        before = after;
    }
    let (lost, uncertain) = mean(&lost);
    Ok(Loss { lost, uncertain, rounds })
}

/// Rounds of hammers, of so many that were asked for: one takes half a minute.
fn few(rounds: usize) -> usize {
    (rounds / 2).max(2)
}

/// Entries refused, of all CPUs or one.
fn refused(recorder: &Recorder, cpu: Option<usize>) -> Result<u64> {
    let dir = Generation::find(&recorder.sandbox().bpffs_dir())?;
    let totals = LiveRings::open(&dir, false)?.counters();
    let of =
        totals.cpus.iter().filter(|totals| cpu.is_none_or(|cpu| usize::from(totals.cpu) == cpu));
    Ok(of.map(|totals| totals.throttled[Lane::Syscall as usize].iter().sum::<u64>()).sum())
}

/// Hammers on every CPU.
pub(super) fn hammer(load: &Load, rounds: usize) -> Result<Vec<Promise>> {
    const SECONDS: f64 = 20.0;
    let mut said = Vec::new();
    let lost = loss(load, &load.cpus, (SECONDS, few(rounds)), || {
        said.clear();
        let recorder = recorder("total = \"2%\"\nper_cpu = \"2%\"")?;
        let rate = load.hammer(SECONDS, &load.cpus)?;
        let account = asked(&recorder, &["budget", "--json"])?;
        let own = number(&account, "/spent/start/all_percent")?;
        let seconds = number(&account, "/detached_seconds")?;
        said.push(Promise::figure(
            "its own account of that, the first second included",
            format!("{own:.2} %, system calls detached for {seconds:.1} s"),
        ));
        let coverage = recorder.flightctl(&["dump", "--all", "--strict", "--event", "recorder"]);
        let (lines, coverage) =
            (String::from_utf8_lossy(&coverage.stdout), String::from_utf8_lossy(&coverage.stderr));
        let counted = refused(&recorder, None)?;
        let told = |words: &str| {
            coverage.lines().find(|line| line.contains(words)).unwrap_or_default().to_owned()
        };
        let (detached, by_budget) =
            (told("system calls were detached"), told("refused by the budget"));
        let figure = by_budget.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        // The counters go on between the two readings.
        let agrees = figure > 0 && figure <= counted && figure as f64 >= counted as f64 * 0.99;
        said.push(Promise::new(
            "the dump says what was not recorded",
            agrees && !detached.is_empty(),
            format!("{detached}; {by_budget} (the probes' counters a moment later: {counted})"),
        ));
        let levels: Vec<&str> = lines
            .lines()
            .filter(|line| line.contains("level ") || line.contains("tached"))
            .collect();
        said.push(Promise::new(
            "changes of level are visible in the dump at their time",
            levels.len() >= 2,
            format!(
                "{} lines, the first two:\n         {}",
                levels.len(),
                levels.get(..2).unwrap_or_default().join("\n         ")
            ),
        ));
        stop(recorder)?;
        Ok(rate)
    })?;
    let first = Promise::new(
        "system calls without end on every CPU, total = per_cpu = 2%: at most 3 % lost over 20 s \
         after the first",
        lost.lost <= 3.0 && lost.is_told(),
        lost.to_string(),
    );
    Ok(std::iter::once(first).chain(said).collect())
}

/// The same without a budget, and with nothing but empty programs.
pub(super) fn unlimited(load: &Load, rounds: usize) -> Result<Vec<Promise>> {
    let lost = loss(load, &load.cpus, (6.0, few(rounds)), || {
        let recorder = recorder("total = \"off\"\nper_cpu = \"off\"")?;
        let rate = load.hammer(6.0, &load.cpus)?;
        stop(recorder)?;
        Ok(rate)
    })?;
    let floor = floor(load, rounds)?;
    Ok(vec![Promise::figure(
        "without a budget the same loses what `cargo xtask bench overhead` says",
        format!("{lost}; {floor} where empty programs are attached"),
    )])
}

/// What hammers lose beside empty programs.
fn floor(load: &Load, rounds: usize) -> Result<Loss> {
    loss(load, &load.cpus, (6.0, few(rounds)), || {
        let floor = Floor::empty()?;
        let rate = load.hammer(6.0, &load.cpus)?;
        floor.stop()?;
        Ok(rate)
    })
}

/// A hammer on one CPU, while the total holds.
pub(super) fn one_cpu(load: &Load, _: usize) -> Result<Vec<Promise>> {
    let recorder = recorder("total = \"90%\"\nper_cpu = \"2%\"")?;
    let other = *load.cpus.iter().find(|cpu| **cpu != load.cpu).context("another CPU")?;
    load.hammer(10.0, &[load.cpu])?;
    let (here, there) = (refused(&recorder, Some(load.cpu))?, refused(&recorder, Some(other))?);
    let account = asked(&recorder, &["budget", "--json"])?;
    let detached = number(&account, "/detached_seconds")?;
    stop(recorder)?;
    Ok(vec![Promise::new(
        "system calls without end on one CPU do not blind the others while the total holds",
        here > 0 && there == 0 && detached == 0.0,
        format!(
            "events refused: {here} on CPU {}, {there} on CPU {other}; detached for {detached} s",
            load.cpu
        ),
    )])
}

/// Hammers, and no daemon.
pub(super) fn no_daemon(load: &Load, rounds: usize) -> Result<Vec<Promise>> {
    const SECONDS: f64 = 9.0;
    let mut spent = 0.0_f64;
    let lost = loss(load, &load.cpus, (SECONDS, few(rounds)), || {
        let mut recorder = recorder("total = \"off\"\nper_cpu = \"2%\"\nburst = \"1s\"")?;
        recorder.kill();
        let dir = Generation::find(&recorder.sandbox().bpffs_dir())?;
        let recording = LiveRings::open(&dir, false)?;
        let entries = || {
            let totals = recording.counters();
            totals.cpus.iter().map(|cpu| cpu.events[Lane::Syscall as usize][0]).sum::<u64>()
        };
        let before = entries();
        let rate = load.hammer(SECONDS, &load.cpus)?;
        let ns = (entries() - before) as f64 * f64::from(recording.budget().call);
        spent = spent.max(ns / 1e9 / (SECONDS + 1.0) / load.cpus.len() as f64 * 100.0);
        drop(recording);
        // The next daemon takes it over, and ends it.
        recorder.restart();
        stop(recorder)?;
        Ok(rate)
    })?;
    let floor = floor(load, rounds)?;
    ensure!(spent > 0.0, "nothing was recorded");
    Ok(vec![Promise::new(
        "with flightd killed, per_cpu = 2% holds by itself, beyond the probe overhead",
        spent <= 2.2,
        format!(
            "{spent:.2} % of each CPU spent on recording; {lost}; {floor} beside empty programs"
        ),
    )])
}

/// A burst in a quiet time, by default settings.
pub(super) fn burst(load: &Load, _: usize) -> Result<Vec<Promise>> {
    let recorder = recorder("")?;
    sleep(Duration::from_secs(30));
    let pid = load.burst(30_000, 300)?.to_string();
    sleep(Duration::from_secs(30));
    let dump = recorder.flightctl(&[
        "dump",
        "--all",
        "--pid",
        &pid,
        "--syscall",
        "getppid",
        "--event",
        "sys_enter",
    ]);
    let seen =
        String::from_utf8_lossy(&dump.stdout).lines().filter(|line| !line.starts_with('#')).count();
    let status = asked(&recorder, &["status", "--json"])?;
    let level = status["level"].as_str().unwrap_or_default().to_owned();
    let refused = refused(&recorder, None)?;
    stop(recorder)?;
    Ok(vec![Promise::new(
        "100,000 calls a second for 300 ms within a quiet minute are recorded in full, by default \
         settings",
        seen == 30_000,
        format!(
            "{seen} of 30000 in the dump; of all that the machine did, {refused} events refused, \
             level {level}"
        ),
    )])
}
