//! How fast a recording becomes text: `flightctl dump` beside `perf script`, both to /dev/null,
//! over recordings of the same workload and the same tracepoints; and what memory it takes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::live::{Generation, LiveRings};
use flightrec_tests::{Options, Recorder, bin_dir, c_program, online_cpus};
use nix::sys::signal::Signal;

use super::peak;

const ROUNDS: usize = 9;
/// How long nothing is done after the workload, so that a dump that ends a moment later holds the
/// same events.
const PAUSE: Duration = Duration::from_secs(1);
/// Rings that hold the whole workload, and no limit on it.
pub(super) const CONFIG: &str = "[rings]\nsyscall = \"256MiB\"\nsched = \"128MiB\"\nmax_total = \
                      \"2GiB\"\nmax_ram_percent = 50\n[budget]\ntotal = \"off\"\nper_cpu = \
                      \"off\"\n";
const EVENTS: [&str; 6] = [
    "raw_syscalls:sys_enter",
    "raw_syscalls:sys_exit",
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup_new",
    "sched:sched_migrate_task",
];

/// Measures and prints events a second, and the ratios: beside `perf script`, or beside the
/// `flightctl` in `against`. Then that build records, so that both read the same file of its.
pub(super) fn run(against: Option<&Path>) -> Result<()> {
    let options =
        Options { config: CONFIG.into(), death_signal: Signal::SIGTERM, ..Options::default() };
    let options = match against {
        Some(before) => Options { programs: before.to_owned(), ..options },
        None => options,
    };
    let mut recorder = Recorder::try_start(options)?;
    workload()?;
    let ended = Instant::now();
    let pages = pages(&recorder)?;
    thread::sleep(PAUSE);
    if let Some(before) = against {
        return compare(&mut recorder, before, ended);
    }
    let recording = recorder.sandbox().root().join("perf.data");
    let perf = record_perf(&recording)?;

    let script = || {
        let mut script = Command::new("perf");
        script.args(["script", "-i"]).arg(&recording);
        script
    };
    // What is dumped ends with the workload: the machine's own doings since, and this program's,
    // are recorded too.
    let dump = |format: &str| {
        let mut dump = recorder.flightctl_command();
        dump.args(["dump", "--format", format])
            .arg(format!("--until=-{}ns", ended.elapsed().as_nanos()));
        dump
    };
    let of_perf = if perf { count(&mut script())? } else { 0.0 };
    let events = count(&mut dump("text"))?;
    let mut perf_rates = Vec::new();
    let mut text = Vec::new();
    let mut json = Vec::new();
    let mut peak = 0;
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        if perf {
            perf_rates.push(of_perf / peak::run(&mut script())?.seconds);
        }
        for (format, rates) in [("text", &mut text), ("jsonl", &mut json)] {
            let run = peak::run(&mut dump(format))?;
            rates.push(events / run.seconds);
            peak = run.peak.max(peak);
        }
    }
    let status = recorder.terminate()?;
    ensure!(status.success(), "flightd: {status}\n{}", recorder.log());

    println!(
        "Events a second to /dev/null, median of {ROUNDS} interleaved rounds (least to greatest):"
    );
    let peer = perf.then(|| print("perf script", &perf_rates, None));
    if peer.is_none() {
        println!("  perf script: not measured, there is no perf (Debian's linux-perf)");
    }
    print("flightctl dump", &text, peer);
    print("flightctl dump --format jsonl", &json, peer);
    println!(
        "Events: {:.2} million of flightctl, {:.2} million of perf",
        events / 1e6,
        of_perf / 1e6
    );
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "Memory of flightctl at most: {:.0} MiB, for {:.0} MiB of pages in use in the rings",
        mib(peak),
        mib(pages)
    );
    Ok(())
}

/// Saves what was recorded up to `ended`, and has this build and the one in `before` read it.
fn compare(recorder: &mut Recorder, before: &Path, ended: Instant) -> Result<()> {
    let file = recorder.sandbox().root().join("saved.flightrec");
    let mut save = recorder.flightctl_command();
    save.args(["save", "--all", "-o"]).arg(&file);
    save.arg(format!("--until=-{}ns", ended.elapsed().as_nanos())).stdout(Stdio::null());
    ensure!(save.status()?.success(), "flightctl save failed");
    let status = recorder.terminate()?;
    ensure!(status.success(), "flightd: {status}\n{}", recorder.log());
    let dump = |programs: &Path, format: &str| {
        let mut dump = Command::new(programs.join("flightctl"));
        dump.args(["dump", "--format", format, "--all", "--file"]).arg(&file);
        dump
    };
    let now = bin_dir();
    let events = count(&mut dump(before, "text"))?;
    println!(
        "{:.2} million events of a saved file to /dev/null, events a second, median of {ROUNDS} \
         interleaved rounds (least to greatest):",
        events / 1e6
    );
    for format in ["text", "jsonl"] {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        let mut peaks = [0; 2];
        for _ in 0..ROUNDS {
            for (at, programs, rates) in [(0, before, &mut old), (1, now.as_path(), &mut new)] {
                let run = peak::run(&mut dump(programs, format))?;
                rates.push(events / run.seconds);
                peaks[at] = run.peak.max(peaks[at]);
            }
        }
        print(&format!("{format}, --against"), &old, None);
        let median = print(format, &new, None);
        println!(
            "  {format} x {:.3}, {:.3} of the fastest; memory {} MiB, before {} MiB",
            median / super::spread(&old).0,
            super::spread(&new).2 / super::spread(&old).2,
            peaks[1] >> 20,
            peaks[0] >> 20
        );
    }
    Ok(())
}

/// Bytes of the pages that its rings have in use now: what a dump of everything reads.
fn pages(recorder: &Recorder) -> Result<u64> {
    let recording = LiveRings::open(&Generation::find(&recorder.sandbox().bpffs_dir())?, false)?;
    let rings = Lane::RINGS
        .into_iter()
        .flat_map(|lane| recording.cpus().into_iter().map(move |cpu| (lane, cpu)));
    let used = |(lane, cpu)| recording.newest(lane, cpu).min(recording.ring_pages(lane, cpu));
    Ok(rings.map(used).sum::<u64>() * PAGE_SIZE as u64)
}

/// System calls, opens and a pipe ping-pong on one CPU.
pub(super) fn workload() -> Result<()> {
    let cpu = *online_cpus().last().context("no CPU is online")?;
    let status = Command::new(c_program("cost", &["-O2", "-pthread"]))
        .arg(cpu.to_string())
        .stdout(Stdio::null())
        .status()?;
    ensure!(status.success(), "the workload failed ({status})");
    Ok(())
}

/// Records the workload by perf, if there is one.
fn record_perf(to: &Path) -> Result<bool> {
    let cpu = *online_cpus().last().context("no CPU is online")?;
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-a", "-m", "16M", "-o"]).arg(to);
    for event in EVENTS {
        perf.args(["-e", event]);
    }
    perf.arg("--").arg(c_program("cost", &["-O2", "-pthread"])).arg(cpu.to_string());
    match perf.stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) => ensure!(status.success(), "perf record failed ({status})"),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e).context("can't run perf"),
    }
    Ok(true)
}

/// Lines that tell of an event: not a comment, and of a switch's two lines only the first.
pub(super) fn count(reader: &mut Command) -> Result<f64> {
    use std::io::{BufRead, BufReader};
    let mut child = reader.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let output = child.stdout.take().context("no output")?;
    let mut events = 0u64;
    let mut line = Vec::new();
    let mut output = BufReader::with_capacity(1 << 20, output);
    while output.read_until(b'\n', &mut line)? > 0 {
        let waited = b"] --> disk: ";
        let switched_in =
            line.ends_with(b"] -->\n") || line.windows(waited.len()).any(|part| part == waited);
        let coverage = line.starts_with(b"#") || line.starts_with(b"{\"event\":\"coverage\"");
        events += u64::from(!(switched_in || coverage));
        line.clear();
    }
    child.wait()?;
    Ok(events as f64)
}

/// Prints one reader's line; returns its median.
fn print(name: &str, rates: &[f64], peer: Option<f64>) -> f64 {
    let (median, least, greatest) = super::spread(rates);
    print!(
        "  {name:<30} {:>6.2} million ({:.2} to {:.2})",
        median / 1e6,
        least / 1e6,
        greatest / 1e6
    );
    match peer {
        Some(peer) => println!("  {:.1} x perf script", median / peer),
        None => println!(),
    }
    median
}
