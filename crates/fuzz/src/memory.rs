//! The memory that `flightctl` takes for a file, by every command that reads one.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use flightrec_tests::wait_peak;

use crate::corpus::{Form, KINDS};
use crate::mutate::{Random, mutate};
use crate::{seal, seeds};

/// The most memory that any command may take for any file, bytes.
pub const LIMIT: u64 = 256 << 20;

/// A window of `diff` that holds the events of every crafted file.
const DIFF: &str = "1970-01-02..2200-01-01";

/// What a command took.
#[derive(Debug)]
pub struct Run {
    /// The most memory that it had in use at once, bytes.
    pub peak: u64,
    /// How long it took.
    pub seconds: f64,
    /// How it ended.
    pub status: ExitStatus,
    /// The beginning of what it said.
    pub said: String,
}

impl Run {
    /// Whether it ended by itself: with an answer, or with an error that it told.
    pub fn is_orderly(&self) -> bool {
        self.status.code().is_some_and(|code| code < 100)
    }
}

/// The commands that read files of a form; `FILE` stands for the file, `OUT` for one to be written.
pub const fn commands(form: Form) -> &'static [&'static [&'static str]] {
    match form {
        Form::File => &[
            &["dump", "FILE"],
            &["dump", "--file", "FILE", "--all", "--format", "jsonl"],
            &["dump", "--file", "FILE", "--all", "--merge", "--fds", "all"],
            &["dump", "--file", "FILE", "--all", "--path", "/no/such", "--slower-than", "1s"],
            &["dump", "--file", "FILE", "--list-boots"],
            &["top", "--file", "FILE", "--last", "1000s"],
            &["save", "--file", "FILE", "--all", "-o", "OUT", "--force"],
            &["snapshots", "show", "FILE"],
            &["ls", "FILE"],
            &["verify", "FILE"],
            &["why", "FILE"],
            &["why", "FILE", "--format", "json", "--slower-than", "1ms"],
            &["page", "FILE", "--all", "-o", "OUT", "--force"],
            &["diff", "--file", "FILE", "--a", DIFF, "--b", DIFF],
            &["report", "calls", "FILE", "--all", "--by", "comm,unit,syscall,file"],
            &["report", "waits", "FILE", "--all", "--by", "reason,stack,waker,file"],
            &["report", "runq", "FILE", "--all", "--by", "tid,cpu", "--format", "json"],
            &["report", "offcpu", "FILE", "--all", "--format", "folded"],
            &["report", "wakers", "FILE", "--all", "--format", "csv"],
            &["report", "block", "FILE", "--all", "--hist"],
            &["report", "bytes", "FILE", "--all", "--by", "file,comm", "--fds", "all"],
            &["report", "functions", "FILE", "--all", "--by", "stack"],
            &["report", "irq", "FILE", "--all", "--by", "interrupt,comm"],
            &["report", "net", "FILE", "--all", "--by", "tid,local,remote,closed_by"],
            &["report", "signals", "FILE", "--all"],
        ],
        Form::Dump => &[
            &["dump", "--vmcore", "FILE", "--all"],
            &["dump", "--vmcore", "FILE", "--list-sessions"],
            &["top", "--vmcore", "FILE", "--last", "1000s"],
            &["ps", "--vmcore", "FILE"],
            &["why", "--vmcore", "FILE"],
            &["page", "--vmcore", "FILE", "-o", "OUT", "--force"],
            &["report", "calls", "--vmcore", "FILE", "--all", "--by", "tid,syscall"],
            &["report", "waits", "--vmcore", "FILE", "--all", "--by", "tid,reason"],
            &["report", "runq", "--vmcore", "FILE", "--all", "--format", "json"],
            &["report", "block", "--vmcore", "FILE", "--all", "--format", "csv"],
            &["recover", "FILE", "-o", "OUT", "--force"],
        ],
    }
}

/// Runs a command of `flightctl` over a file; `dir` is for what it writes.
pub fn run(flightctl: &Path, command: &[&str], file: &Path, dir: &Path) -> Result<Run> {
    let (out, said) = (dir.join("out.flight"), dir.join("said"));
    let mut told =
        fs::File::options().read(true).write(true).create(true).truncate(true).open(&said)?;
    let mut program = Command::new(flightctl);
    for argument in command {
        match *argument {
            "FILE" => program.arg(file),
            "OUT" => program.arg(&out),
            other => program.arg(other),
        };
    }
    program
        .env("TZ", "UTC")
        // `top` has room for all of its columns.
        .env("COLUMNS", "200")
        .env_remove("FLIGHTREC_MEMORY")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let begun = Instant::now();
    let child = program
        .stderr(told.try_clone()?)
        .spawn()
        .with_context(|| flightctl.display().to_string())?;
    let (status, peak) = wait_peak(&child)?;
    let seconds = begun.elapsed().as_secs_f64();
    told.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    told.take(4096).read_to_end(&mut bytes)?;
    Ok(Run { peak, seconds, status, said: String::from_utf8_lossy(&bytes).into_owned() })
}

/// What a command took at most for the files of a kind.
#[derive(Debug)]
pub struct Row {
    /// The kind of files.
    pub kind: &'static str,
    /// The command.
    pub command: String,
    /// The most memory that it took, bytes.
    pub peak: u64,
    /// The longest that it took.
    pub seconds: f64,
    /// Length of the longest of the files, bytes.
    pub length: u64,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Survey {
    /// The commands, the one that took the most first.
    pub rows: Vec<Row>,
    /// Runs.
    pub runs: u64,
    /// Runs that ended by a signal or a panic, or took more than [`LIMIT`]: what the file was, the
    /// command, what it said.
    pub findings: Vec<String>,
}

/// Where flightctl is, where files are written, and where inputs are kept that were findings.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The program.
    pub flightctl: &'a Path,
    /// Files in the making.
    pub dir: &'a Path,
    /// Where an input is kept that was a finding.
    pub findings: &'a Path,
}

/// Kinds of mutated files ([`Survey::mutations`]).
pub const MUTATED: [&str; 2] = ["mutated recordings", "mutated dumps"];

/// Name of the file that commands are run over.
const INPUT: &str = "input.flight";

/// Writes the file that commands are to be run over. Whoever made it drops it before: a child's
/// memory counts from its parent's on.
pub fn write(bytes: &[u8], places: Places<'_>) -> Result<()> {
    Ok(fs::write(places.dir.join(INPUT), bytes)?)
}

impl Survey {
    /// Runs all commands over the file that was written last (`write`).
    pub fn run(&mut self, kind: &'static str, form: Form, places: Places<'_>) -> Result<()> {
        let file = places.dir.join(INPUT);
        let length = fs::metadata(&file)?.len();
        for command in commands(form) {
            let run = run(places.flightctl, command, &file, places.dir)?;
            self.runs += 1;
            let name = command.join(" ");
            if run.peak > LIMIT || !run.is_orderly() {
                fs::create_dir_all(places.findings)?;
                let kept = places.findings.join(format!("memory-{}", self.findings.len()));
                fs::copy(&file, &kept)?;
                let (peak, status, said) =
                    (run.peak >> 20, run.status, run.said.lines().next().unwrap_or_default());
                let kept = kept.display();
                self.findings.push(format!("{kind}: {name}: {peak} MiB, {status}: {said}; {kept}"));
            }
            let of = |row: &&mut Row| (row.kind, &row.command) == (kind, &name);
            if let Some(row) = self.rows.iter_mut().find(of) {
                row.peak = row.peak.max(run.peak);
                row.seconds = row.seconds.max(run.seconds);
                row.length = row.length.max(length);
            } else {
                let Run { peak, seconds, .. } = run;
                self.rows.push(Row { kind, command: name, peak, seconds, length });
            }
        }
        Ok(())
    }

    /// Runs all commands over so many mutations of files that are whole, and of small crafted ones.
    pub fn mutations(&mut self, count: u64, seed: u64, places: Places<'_>) -> Result<()> {
        let mut random = Random::new(seed);
        let mut files = seeds::files()?;
        let mut dumps = [seeds::elf()?, seeds::kdump()?, seeds::flattened()?].concat();
        for kind in KINDS {
            match kind.form {
                Form::File => files.push((kind.make)(1)?),
                Form::Dump => dumps.push((kind.make)(1)?),
            }
        }
        for number in 0..count {
            let form = if number % 5 == 4 { Form::Dump } else { Form::File };
            let mut bytes = mutate(if form == Form::File { &files } else { &dumps }, &mut random);
            if form == Form::File && !number.is_multiple_of(4) {
                seal::file(&mut bytes);
            }
            let [recordings, dumps] = MUTATED;
            let kind = if form == Form::File { recordings } else { dumps };
            write(&bytes, places)?;
            drop(bytes);
            self.run(kind, form, places)?;
        }
        Ok(())
    }

    /// A line for people about files of a kind: the longest file; the most memory, and the longest
    /// time, and which command took them.
    pub fn line(&self, kind: &str) -> String {
        let rows = || self.rows.iter().filter(|row| row.kind == kind);
        let (most, slowest) = (
            rows().max_by_key(|row| row.peak),
            rows().max_by(|a, b| a.seconds.total_cmp(&b.seconds)),
        );
        let (Some(most), Some(slowest)) = (most, slowest) else { return format!("{kind}: no run") };
        format!(
            "{kind}: {} KiB; at most {} MiB (flightctl {}); {:.1} s (flightctl {})",
            most.length.div_ceil(1 << 10),
            most.peak >> 20,
            most.command,
            slowest.seconds,
            slowest.command
        )
    }

    /// The most memory that was taken, bytes.
    pub fn peak(&self) -> u64 {
        self.rows.iter().map(|row| row.peak).max().unwrap_or(0)
    }
}
