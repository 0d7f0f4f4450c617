//! How fast a recording becomes a file for another tool, how large that is, and what memory it
//! takes: each format, of one recording.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use flightrec_tests::{Options, Recorder, bin_dir};
use nix::sys::signal::Signal;

use super::peak;
use super::read::{CONFIG, count, workload};

/// By the names of `flightctl export --format`.
const FORMATS: [&str; 7] =
    ["parquet", "trace.dat", "ctf", "perfetto", "chrome", "folded", "speedscope"];

/// What is told of Perfetto's format by itself: of these kinds, by the number of those.
const PARTS: [(&str, &str, &str); 2] = [
    ("an event of the scheduler", SCHEDULER, SCHEDULER),
    ("a call", "sys_enter,sys_exit", "sys_exit"),
];
const SCHEDULER: &str = "switch,waking,wakeup_new,migrate";

/// Measures and prints a line for each format.
pub(super) fn run(rounds: usize, file: Option<&Path>) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = match file {
        Some(file) => file.to_owned(),
        None => record(dir.path())?,
    };
    let flightctl = || Command::new(bin_dir().join("flightctl"));
    let events = count(flightctl().args(["dump", "--all", "--file"]).arg(&file))?;
    println!("{:.2} million events; median of {rounds} rounds (least to greatest):", events / 1e6);
    println!(
        "  {:<12} {:>28} {:>12} {:>14} {:>12}",
        "FORMAT", "MILLION A SECOND", "MB A SECOND", "BYTES AN EVENT", "MEMORY"
    );
    for format in FORMATS {
        let out = dir.path().join(format);
        let (mut rates, mut most) = (Vec::new(), 0);
        for _ in 0..rounds {
            let mut export = flightctl();
            export.args(["export", "--all", "--force", "--format", format, "-o"]).arg(&out);
            let run = peak::run(export.arg("--file").arg(&file))?;
            rates.push(events / run.seconds);
            most = run.peak.max(most);
        }
        let (median, least, greatest) = super::spread(&rates);
        let size = bytes(&out)? as f64 / events;
        println!(
            "  {format:<12} {:>8.2} ({:>6.2} to {:>6.2}) {:>12.1} {size:>14.1} {:>8} MiB",
            median / 1e6,
            least / 1e6,
            greatest / 1e6,
            median * size / 1e6,
            most >> 20
        );
    }
    let out = dir.path().join("part");
    for (what, kinds, counted) in PARTS {
        let mut export = flightctl();
        export.args(["export", "--all", "--force", "--format", "perfetto", "--event", kinds, "-o"]);
        peak::run(export.arg(&out).arg("--file").arg(&file))?;
        let dump = ["dump", "--all", "--event", counted, "--file"];
        let number = count(flightctl().args(dump).arg(&file))?;
        let size = bytes(&out)? as f64 / number;
        println!("  perfetto: {size:.1} bytes {what}, of {:.2} million", number / 1e6);
    }
    Ok(())
}

/// Records the workload into a file.
fn record(dir: &Path) -> Result<std::path::PathBuf> {
    let options =
        Options { config: CONFIG.into(), death_signal: Signal::SIGTERM, ..Options::default() };
    let mut recorder = Recorder::try_start(options)?;
    workload()?;
    let file = dir.join("saved.flight");
    let mut save = recorder.flightctl_command();
    save.args(["save", "--all", "-o"]).arg(&file).stdout(Stdio::null());
    // 3: something is missing, as of events that were refused.
    ensure!(matches!(save.status()?.code(), Some(0 | 3)), "flightctl save failed");
    let status = recorder.terminate()?;
    ensure!(status.success(), "flightd: {status}\n{}", recorder.log());
    Ok(file)
}

/// Bytes of a file, or of all files in a directory.
fn bytes(path: &Path) -> Result<u64> {
    let metadata = fs::metadata(path).with_context(|| format!("no {}", path.display()))?;
    if metadata.is_file() {
        return Ok(metadata.len());
    }
    fs::read_dir(path)?.map(|entry| bytes(&entry?.path())).sum()
}
