//! `flightrec-fuzz`: takes good inputs of a parser, changes them, and hands them over, for as long
//! as it is told. A parser that panics, takes more than a few seconds, or asks for more memory than
//! it may, is a finding; the input is kept.
//!
//! It runs on the stable compiler, and needs nothing but the workspace. What it does follows from
//! its seed alone: the same seed gives the same inputs, so that an end without a report (out of
//! memory, a stack overflow) is found again.

mod targets;

use std::fs;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use clap::Parser;
use nix::sys::resource::{Resource, setrlimit};
use nix::time::{ClockId, clock_gettime};

use flightrec_fuzz::corpus::{KINDS, Kind};
use flightrec_fuzz::memory::{self, LIMIT, MUTATED, Places, Survey};
use flightrec_fuzz::mutate::{self, Random};
use targets::{TARGETS, Target};

/// A parser has so much CPU time for one input: inputs are small. (Of the clock on the wall it may
/// take more: a busy machine, or whoever stops the process for a while, is no finding.)
const PATIENCE: Duration = Duration::from_secs(5);
/// The address space that the process may have: whoever allocates what an input claims to hold
/// exceeds it.
const MEMORY: u64 = 4 << 30;

/// Blocks of crafted files. With half as many, commands take as much memory, within the 20 % that
/// the allocator makes of it from run to run: but for pages in a dump, which are few at any size,
/// and for calls of 4 million threads, which need 1,300.
const BLOCKS: usize = 2400;

/// Tries parsers on inputs gone wrong.
#[derive(Debug, Parser)]
struct Args {
    /// Parsers [default: all, in turn].
    parsers: Vec<String>,
    /// For how long each is tried.
    #[arg(long, value_name = "N", default_value_t = 10)]
    seconds: u64,
    /// Where the row of inputs begins [default: from the clock].
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Run this flightctl over crafted and mutated files instead, and tell the memory that its
    /// commands take.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "input")]
    memory: Option<PathBuf>,
    /// With --memory: mutated files, beside the crafted ones.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    mutations: u64,
    /// With --memory: files of this kind alone.
    #[arg(long, value_name = "KIND", requires = "memory")]
    only: Option<String>,
    /// With --memory: blocks of pages of crafted files, of 1 MiB each.
    #[arg(long, value_name = "N", default_value_t = BLOCKS)]
    blocks: usize,
    /// Run this input instead, of one parser.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Where inputs are kept that were findings.
    #[arg(long, value_name = "DIR", default_value = "target/fuzz")]
    findings: PathBuf,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    if let Some(flightctl) = &args.memory {
        return survey(args, flightctl);
    }
    setrlimit(Resource::RLIMIT_AS, MEMORY, MEMORY).context("can't limit memory")?;
    let chosen = chosen(&args.parsers)?;
    if let Some(path) = &args.input {
        let bytes = fs::read(path).with_context(|| path.display().to_string())?;
        return chosen.iter().try_for_each(|target| (target.run)(&bytes));
    }
    let clock = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(1, |since| since.as_nanos() as u64);
    let seed = args.seed.unwrap_or(clock);
    let mut found = 0;
    for target in chosen {
        println!("{}: {} s, seed {seed}", target.name, args.seconds);
        found += try_target(target, seed, args)?;
    }
    if found != 0 {
        bail!("{found} findings, in {}", args.findings.display());
    }
    Ok(())
}

/// What stands for mutated files where one kind alone is asked for.
const MUTATIONS: &str = "mutations";

/// The kinds of crafted files that are asked for, and whether mutated ones are.
fn kinds(only: Option<&str>) -> Result<(&'static [Kind], bool)> {
    match only {
        None => Ok((KINDS, true)),
        Some(MUTATIONS) => Ok((&[], true)),
        Some(name) => {
            let known = || KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
            let kind = KINDS.iter().find(|kind| kind.name == name);
            let kind = kind.with_context(|| {
                format!("no kind of files {name}; there are {}, {MUTATIONS}", known())
            })?;
            Ok((std::slice::from_ref(kind), false))
        }
    }
}

/// Says a line at once: what comes next takes long.
fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// The memory that the commands of flightctl take.
fn survey(args: &Args, flightctl: &Path) -> Result<()> {
    let (kinds, mutations) = kinds(args.only.as_deref())?;
    let dir = tempfile::tempdir()?;
    let places = Places { flightctl, dir: dir.path(), findings: &args.findings };
    let mut survey = Survey::default();
    for kind in kinds {
        // What is made is dropped before anything is run: a child begins with its parent's memory.
        memory::write(&(kind.make)(args.blocks)?, places)?;
        survey.run(kind.name, kind.form, places)?;
        say(&survey.line(kind.name))?;
    }
    if mutations {
        survey.mutations(args.mutations, args.seed.unwrap_or(1), places)?;
        MUTATED.iter().try_for_each(|kind| say(&survey.line(kind)))?;
    }
    survey.rows.sort_by_key(|row| std::cmp::Reverse(row.peak));
    println!("{} runs; the most:", survey.runs);
    for row in survey.rows.iter().take(15) {
        println!("  {:4} MiB  {}: flightctl {}", row.peak >> 20, row.kind, row.command);
    }
    for finding in &survey.findings {
        println!("finding: {finding}");
    }
    if !survey.findings.is_empty() {
        bail!("{} runs failed, or took more than {} MiB", survey.findings.len(), LIMIT >> 20);
    }
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<&'static Target>> {
    let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    let find = |name: &String| {
        let target = TARGETS.iter().find(|target| target.name == name);
        target.with_context(|| format!("no parser {name}; there are {}", known()))
    };
    if names.is_empty() { Ok(TARGETS.iter().collect()) } else { names.iter().map(find).collect() }
}

/// Tries one parser; how many findings there were. After the third it is enough.
fn try_target(target: &Target, seed: u64, args: &Args) -> Result<usize> {
    let seeds = (target.seeds)()?;
    for input in &seeds {
        (target.run)(input)
            .with_context(|| format!("{} refuses an input that is whole", target.name))?;
    }
    let mut random = Random::new(seed);
    let (started, mut runs, mut found) = (Instant::now(), 0u64, 0);
    let end = Duration::from_secs(args.seconds);
    while started.elapsed() < end && found < 3 {
        let mut input = mutate::mutate(&seeds, &mut random);
        if let Some(seal) = target.seal
            && random.one_in(2)
        {
            seal(&mut input);
        }
        let begun = cpu_time()?;
        // An error is an answer; only how it is come by matters.
        let result = catch_unwind(AssertUnwindSafe(|| drop((target.run)(&input))));
        let slow = cpu_time()?.saturating_sub(begun) > PATIENCE;
        if result.is_err() || slow {
            let what = if slow { "slow" } else { "panic" };
            fs::create_dir_all(&args.findings)?;
            let path = args.findings.join(format!("{}-{what}-{seed:x}-{runs}", target.name));
            fs::write(&path, &input)?;
            println!("  {what} in run {runs}: {}", path.display());
            found += 1;
        }
        runs += 1;
    }
    println!("  {runs} inputs, {found} findings");
    Ok(found)
}

/// CPU time that the process has had.
fn cpu_time() -> Result<Duration> {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).context("no clock of CPU time")?;
    Ok(Duration::from(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(seconds: u64) -> (tempfile::TempDir, Args) {
        let dir = tempfile::tempdir().unwrap();
        let findings = dir.path().join("findings");
        (
            dir,
            Args {
                parsers: Vec::new(),
                seconds,
                seed: None,
                memory: None,
                mutations: 0,
                only: None,
                blocks: 0,
                input: None,
                findings,
            },
        )
    }

    #[test]
    fn a_parser_that_panics_is_found_and_the_input_kept() {
        let seeds = || Ok(vec![vec![0; 64]]);
        let run = |bytes: &[u8]| {
            assert!(bytes.len() == 64, "another length");
            Ok(())
        };
        let (_dir, args) = args(60);
        let found = try_target(&Target { name: "test", seeds, run, seal: None }, 1, &args).unwrap();
        assert_eq!(found, 3);
        let kept: Vec<_> =
            fs::read_dir(&args.findings).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(kept.len(), 3);
        assert!(kept.iter().all(|path| fs::read(path).unwrap().len() != 64));
    }

    #[test]
    fn one_kind_alone_is_asked_for_by_its_name() {
        let names = |only| kinds(only).map(|(kinds, mutated)| (kinds.len(), mutated)).unwrap();
        assert_eq!(names(None), (KINDS.len(), true));
        assert_eq!(names(Some(MUTATIONS)), (0, true));
        for kind in KINDS {
            let (found, mutated) = kinds(Some(kind.name)).unwrap();
            assert_eq!((found.len(), found[0].name, mutated), (1, kind.name, false));
        }
        let error = kinds(Some("nothing")).unwrap_err().to_string();
        assert!(error.contains("no kind of files nothing"), "{error}");
        assert!(KINDS.iter().all(|kind| error.contains(kind.name)), "{error}");
        assert!(error.ends_with(MUTATIONS), "{error}");
    }

    #[test]
    fn every_parser_takes_its_seeds_and_some_inputs_gone_wrong() {
        let (_dir, args) = args(0);
        for target in TARGETS {
            assert_eq!(try_target(target, 1, &args).unwrap(), 0, "{}", target.name);
            let seeds = (target.seeds)().unwrap();
            let mut random = Random::new(7);
            for _ in 0..20 {
                let mut input = mutate::mutate(&seeds, &mut random);
                target.seal.iter().for_each(|seal| seal(&mut input));
                drop((target.run)(&input));
            }
            // Sealing what is whole changes nothing.
            for seed in &seeds {
                let mut sealed = seed.clone();
                target.seal.iter().for_each(|seal| seal(&mut sealed));
                assert!(sealed == *seed, "{}", target.name);
            }
        }
    }
}
