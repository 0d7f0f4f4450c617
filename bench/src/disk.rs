//! What history takes on disk, and what writing it costs: a compile mix, recorded, then stored as
//! `flightd` stores it.
//!
//! What is counted is the blocks of pages, with their summaries: of calls, scheduling, task life,
//! samples and stacks. The sums of minutes are not in it.
//!
//! Every round records the mix twice, with the strings of system calls and without. What the
//! strings take is the difference of two recordings, not a guess.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;
use flightrec_tests::{Options, Recorder, key_values};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use xtask::command::{cargo, read};

/// How it is measured.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct DiskArgs {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Compress at this zstd level.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    level: i32,
    /// Number of times to record the mix.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

const LANES: [&str; 4] = ["syscall", "sched", "task", "kernel"];
/// Rings that hold the whole mix, and no limit on it.
const RINGS: &str = "[rings]\nsyscall = \"256MiB\"\nsched = \"128MiB\"\ntask = \
                     \"16MiB\"\nmax_total = \"2GiB\"\nmax_ram_percent = 50\n[budget]\ntotal = \
                     \"off\"\nper_cpu = \"off\"\n";
/// Files that the mix compiles.
const FILES: usize = 120;

/// Figures of one kind of recording: by name, one value a round.
type Figures = BTreeMap<&'static str, Vec<f64>>;

/// Measures and prints.
pub(super) fn run(args: DiskArgs) -> Result<()> {
    let mut results =
        [("without strings", false, Figures::new()), ("with strings", true, Figures::new())];
    for round in 1..=args.rounds {
        for (name, strings, figures) in &mut results {
            eprintln!("round {round} of {}, {name}", args.rounds);
            for (figure, value) in measure(args, *strings)? {
                figures.entry(figure).or_default().push(value);
            }
        }
    }
    if args.json {
        let recordings: Vec<Value> =
            results.iter().map(|(name, _, figures)| object(name, figures)).collect();
        println!(
            "{}",
            json!({ "rounds": args.rounds, "level": args.level, "recordings": recordings })
        );
        return Ok(());
    }
    println!(
        "A compile mix on {} CPUs, zstd level {}; an entry and an exit count as two events; \
             without sums.",
        flightrec_tests::online_cpus().len(),
        args.level
    );
    println!(
        "Median of {} rounds (least to greatest); times are CPU time of one thread.",
        args.rounds
    );
    for (name, _, figures) in &results {
        println!("\n{name}");
        for (figure, values) in figures {
            let (median, least, greatest) = super::spread(values);
            println!("  {figure:<48} {median:>12.2}  ({least:.2} to {greatest:.2})");
        }
    }
    Ok(())
}

/// Records the mix once, and stores what was recorded.
fn measure(args: DiskArgs, strings: bool) -> Result<Vec<(&'static str, f64)>> {
    let config = format!("{RINGS}[record]\nstrings = {strings}\n");
    let mut recorder = Recorder::try_start(Options {
        config,
        death_signal: Signal::SIGTERM,
        ..Options::default()
    })?;
    mix(&recorder.sandbox().root().join("mix"))?;
    let file = recorder.sandbox().root().join("mix.flight");
    let mut bench = cargo();
    bench.args([
        "run",
        "--quiet",
        "--release",
        "--locked",
        "-p",
        "flightrec-store",
        "--example",
        "bench_disk",
        "--",
    ]);
    bench.arg(recorder.sandbox().bpffs_dir()).arg(&file).arg(args.level.to_string());
    let values = key_values(read(&mut bench)?.as_bytes());
    let own = drain_cpu(&recorder)?;
    let status = recorder.terminate()?;
    ensure!(status.success(), "flightd: {status}\n{}", recorder.log());

    let value = |name: &str| -> Result<f64> {
        Ok(values.get(name).with_context(|| format!("bench_disk printed no {name}"))?.parse()?)
    };
    let sum = |what: &str| -> Result<f64> {
        LANES.iter().map(|lane| value(&format!("{lane}_{what}"))).sum()
    };
    let events = sum("events")?;
    ensure!(events > 0.0, "nothing was recorded");
    let drain = value("copy_ns")? + value("write_ns")?;
    Ok(vec![
        ("events, system calls", value("syscall_events")?),
        ("events, scheduling", value("sched_events")?),
        ("events, task life", value("task_events")?),
        ("bytes an event: pages", sum("raw_bytes")? / events),
        ("bytes an event: pages, zstd -1", sum("naive_bytes")? / events),
        ("bytes an event: stored", sum("stored_bytes")? / events),
        (
            "bytes an event: stored, system calls",
            value("syscall_stored_bytes")? / value("syscall_events")?,
        ),
        (
            "bytes an event: stored, scheduling",
            value("sched_stored_bytes")? / value("sched_events")?,
        ),
        ("ns an event: encode by column", value("encode_ns")?),
        ("ns an event: decode from columns", value("decode_ns")?),
        ("ns an event: copy, encode, compress, write", drain),
        ("ns an event: read, decompress, decode", value("read_ns")?),
        ("% of one CPU to store 100,000 events a second", drain * 1e5 / 1e9 * 100.0),
        ("ns an event: flightd's own drain of the mix", own),
        ("% of one CPU at that, 100,000 events a second", own * 1e5 / 1e9 * 100.0),
    ])
}

/// What flightd's own threads took to drain the mix into files while it ran, ns of CPU time an
/// event.
fn drain_cpu(recorder: &Recorder) -> Result<f64> {
    let output = recorder.flightctl(&["status", "--json"]);
    let status: Value =
        serde_json::from_slice(&output.stdout).context("flightctl status --json")?;
    let store = &status["store"];
    let events: f64 = LANES.iter().filter_map(|lane| store["written_events"][lane].as_f64()).sum();
    let cpu = store["cpu_seconds"].as_f64().context("no cpu_seconds in the status")?;
    ensure!(events > 0.0, "flightd wrote no events: {store}");
    Ok(cpu * 1e9 / events)
}

fn object(name: &str, figures: &Figures) -> Value {
    let spread = |values: &[f64]| {
        let (median, least, greatest) = super::spread(values);
        json!({ "median": median, "least": least, "greatest": greatest })
    };
    let figures: serde_json::Map<String, Value> =
        figures.iter().map(|(figure, values)| ((*figure).to_owned(), spread(values))).collect();
    json!({ "recording": name, "figures": figures })
}

/// What is recorded: small files compiled two at a time, a tree listed and searched.
pub(super) fn mix(folder: &Path) -> Result<()> {
    fs::create_dir(folder).context("can't make a folder")?;
    for i in 0..FILES {
        let text = format!(
            "#include <errno.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include \
             <string.h>\n#include <sys/stat.h>\n#include <unistd.h>\nint f{i}(int x)\n{{\n    \
             char name[64];\n    struct stat s;\n    snprintf(name, sizeof name, \"%d\", x);\n    \
             return stat(name, &s) ? errno : (int)strlen(name) + {i};\n}}\n"
        );
        fs::write(folder.join(format!("f{i}.c")), text).context("can't write a source file")?;
    }
    std::thread::scope(|scope| {
        let compilers: Vec<_> =
            (0..2).map(|half| scope.spawn(move || compile(folder, half))).collect();
        compilers.into_iter().try_for_each(|compiler| match compiler.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    let include = "/usr/include";
    finish(Command::new("ls").args(["-lR", include]), &[0])?;
    // It finds nothing, which is its status 1.
    finish(Command::new("grep").args(["-r", "no line holds this one", include]), &[0, 1])
}

/// Compiles every second file.
fn compile(folder: &Path, half: usize) -> Result<()> {
    (half..FILES).step_by(2).try_for_each(|i| {
        let mut gcc = Command::new("gcc");
        gcc.current_dir(folder).args(["-O1", "-Wall", "-c"]).arg(format!("f{i}.c"));
        finish(&mut gcc, &[0])
    })
}

fn finish(command: &mut Command, good: &[i32]) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let status = status.with_context(|| {
        format!("can't run {name} (`cargo xtask setup` installs what is needed)")
    })?;
    ensure!(status.code().is_some_and(|code| good.contains(&code)), "{name}: {status}");
    Ok(())
}
