//! How fast `flightctl why` answers, with what memory, and whether its shares add up: over the last
//! 10 s of a compile mix, live and from a saved file.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use flightrec_tests::{Options, Recorder};
use nix::sys::signal::Signal;
use serde_json::Value;

use super::{disk, peak, read};

const ROUNDS: usize = 9;
/// What is asked about.
const WINDOW: Duration = Duration::from_secs(10);
/// Longest of the random windows, ns.
const LONGEST_NS: u64 = 5_000_000_000;
const DAY_NS: u64 = 86_400_000_000_000;
/// Shares of a window may add up to so much more or less than 100.
const PERCENT: f64 = 0.1;

/// Measures and prints; fails where the shares of one of `windows` random threads and windows do
/// not add up to 100 %.
pub(super) fn run(windows: u32) -> Result<()> {
    let options = Options {
        config: read::CONFIG.into(),
        death_signal: Signal::SIGTERM,
        ..Options::default()
    };
    let mut recorder = Recorder::try_start(options)?;
    let begun = Instant::now();
    disk::mix(&recorder.sandbox().root().join("mix"))?;
    std::thread::sleep(WINDOW.saturating_sub(begun.elapsed()));
    let (ended, end_ns) = (Instant::now(), wall_ns()?);
    let live = || {
        let mut why = recorder.flightctl_command();
        let until = ended.elapsed();
        why.args(["why", "--since", &format!("-{}ns", (until + WINDOW).as_nanos())]);
        why.args(["--until", &format!("-{}ns", until.as_nanos())]);
        why
    };
    let file = recorder.sandbox().root().join("saved.flight");
    let mut save = recorder.flightctl_command();
    save.args(["save", "--all", "-o"]).arg(&file).stdout(Stdio::null());
    ensure!(save.status()?.success(), "flightctl save failed");

    let begin_ns = end_ns - WINDOW.as_nanos() as u64;
    let seen = seen(&recorder, &file, begin_ns, end_ns)?;
    let threads: BTreeSet<u32> = seen.iter().map(|(tid, _)| *tid).collect();
    let events = seen.len() as u64;
    println!(
        "flightctl why over 10 s with {:.2} million events of {} threads, median of {ROUNDS} rounds \
         (least to greatest):",
        events as f64 / 1e6,
        threads.len()
    );
    measure("live", events, live)?;
    measure("a saved file", events, || asked(&recorder, &file, begin_ns, end_ns))?;

    let mut random = Random(end_ns);
    let (mut answered, mut worst) = (0u32, 0.0_f64);
    for _ in 0..windows {
        // A window around one of its events.
        let (tid, after) = seen[random.below(events) as usize];
        let length = 1 + random.below(LONGEST_NS);
        let since = (begin_ns + after).saturating_sub(random.below(length)).max(begin_ns);
        let mut why = asked(&recorder, &file, since, since + length);
        why.args(["--format", "json", "--tid", &tid.to_string()]).stderr(Stdio::null());
        let output = why.output().context("can't run flightctl")?;
        if output.status.code() == Some(1) && output.stdout.is_empty() {
            continue; // It did not exist in that window.
        }
        let answer: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("thread {tid}: {}", output.status))?;
        let shares = answer["shares"].as_array().context("no shares")?;
        let sum: f64 = shares.iter().filter_map(|share| share["percent"].as_f64()).sum();
        ensure!((sum - 100.0).abs() <= PERCENT, "thread {tid}, {since} ns: {sum} %");
        (answered, worst) = (answered + 1, worst.max((sum - 100.0).abs()));
    }
    println!(
        "Shares of {windows} random threads and windows: {answered} were there, all add up to 100 % \
         (at most {worst:.3} off)"
    );
    let status = recorder.terminate()?;
    ensure!(status.success(), "flightd: {status}\n{}", recorder.log());
    Ok(())
}

fn measure(name: &str, events: u64, why: impl Fn() -> Command) -> Result<()> {
    let (mut times, mut most) = (Vec::new(), 0);
    for _ in 0..ROUNDS {
        let run = peak::run(&mut why())?;
        times.push(run.seconds);
        most = run.peak.max(most);
    }
    let (median, least, greatest) = super::spread(&times);
    println!(
        "  {name:<14} {median:.2} s ({least:.2} to {greatest:.2}), {:.2} s a million events, {} MiB",
        median * 1e6 / events as f64,
        most >> 20
    );
    Ok(())
}

/// `why` about a window of a file, ns of the wall clock.
fn asked(recorder: &Recorder, file: &Path, since: u64, until: u64) -> Command {
    let mut why = recorder.flightctl_command();
    why.args(["why", "--since", &since.to_string(), "--until", &until.to_string(), "--file"]);
    why.arg(file);
    why
}

/// The events in a window of a file: the thread of each, and how long after the first one it was,
/// ns.
fn seen(recorder: &Recorder, file: &Path, since: u64, until: u64) -> Result<Vec<(u32, u64)>> {
    let mut dump = recorder.flightctl_command();
    dump.args(["dump", "--since", &since.to_string(), "--until", &until.to_string(), "--file"]);
    dump.arg(file).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = dump.spawn().context("can't run flightctl")?;
    let output = BufReader::new(child.stdout.take().context("no output")?);
    let (mut seen, mut first) = (Vec::new(), None);
    for line in output.split(b'\n') {
        let line = line?;
        // `14:03:07.123456 [001]    8883 mysqld           what happened`
        let line = String::from_utf8_lossy(&line);
        let mut words = line.split_ascii_whitespace();
        let time = words.next().and_then(time_of_day);
        let tid = words.nth(1).and_then(|tid| tid.parse::<u32>().ok()).filter(|tid| *tid != 0);
        let (Some(time), Some(tid)) = (time, tid) else { continue };
        let first = *first.get_or_insert(time);
        seen.push((tid, (time + DAY_NS - first) % DAY_NS));
    }
    // Busy events of lane kernel are gaps.
    let status = child.wait()?;
    ensure!(matches!(status.code(), Some(0 | 3)) && !seen.is_empty(), "flightctl dump: {status}");
    Ok(seen)
}

/// `14:03:07.123456` in ns.
fn time_of_day(text: &str) -> Option<u64> {
    let (clock, fraction) = text.split_once('.')?;
    let seconds = clock
        .split(':')
        .try_fold(0, |sum: u64, part| Some(sum * 60 + part.parse::<u64>().ok()?))?;
    Some(seconds * 1_000_000_000 + fraction.parse::<u64>().ok()? * 1000)
}

fn wall_ns() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64)
}

/// Numbers that look random (xorshift64, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}
