//! Whether two builds of `flightctl` say the same, byte by byte: every command that reads, over a
//! recording that was saved, the files of a recorder that ended and of one that was killed, a
//! snapshot, damaged files and a kernel dump. The other build records them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail, ensure};
use flightrec_tests::{Options, Recorder, bin_dir, kernel_dump};
use nix::sys::signal::Signal;
use xtask::command::repository;

/// What is asked of each recording; the options that name it, and `--all`, come after these.
const QUESTIONS: &[&str] = &[
    "dump",
    "dump --format jsonl",
    "dump --merge",
    "dump --graph",
    "dump --stacks --event stack,switch",
    "dump --fds off",
    "dump --syscall openat,read",
    "dump --syscall %file --errors",
    "dump --errno ENOENT --format jsonl",
    "dump --slower-than 1ms",
    "dump --slower-than 10ms --event sys_exit",
    "dump --path **/*.h",
    "dump --path /usr/include/**",
    "dump --comm cc1",
    "dump --comm nobody",
    "dump --event exec,fork,exit",
    "dump --event switch,waking --comm gcc",
    "dump --cpu 0 --syscall write --strict",
    "report calls",
    "report calls --format json",
    "report calls --comm cc1 --by comm,syscall",
    "report waits --format csv",
    "report waits --format json",
    "report runq",
    "report offcpu --format folded",
    "report wakers",
    "report block",
    "report bytes --by file",
    "report functions",
    "report irq",
    "report net",
    "report signals",
    "why",
    "why --format json",
    "why --comm sh",
    "why --comm gcc --format json",
    "export --format perfetto --force -o OUT",
    "export --format chrome --force -o OUT",
    "export --format trace.dat --force -o OUT",
    "export --format ctf --force -o OUT",
    "export --format parquet --force -o OUT",
    "export --format speedscope --force -o OUT",
    "export --format folded --event stack --force -o OUT",
    "page --force -o OUT",
];

/// What is asked of each file beside that.
const OF_FILES: &[&str] = &["verify", "ls"];

/// A recording: what it is called, and the options that name it.
struct Recording {
    name: &'static str,
    options: Vec<OsString>,
    /// A single file.
    file: Option<PathBuf>,
    /// It is not damaged, and not a kernel dump: no question is an error.
    is_whole: bool,
}

/// What a command did.
#[derive(PartialEq)]
struct Said {
    status: ExitStatus,
    /// By name: what it wrote to its standard output and error, and into files.
    texts: BTreeMap<String, Vec<u8>>,
}

/// Compares this build with the one in `against`; fails where they differ.
pub(super) fn run(against: &Path) -> Result<()> {
    // In the build's directory: a benchmark that is killed leaves nothing outside of it.
    let dir = tempfile::tempdir_in(repository().join("target"))?;
    let (mut asked, mut empty, mut different) = (0, 0, 0);
    for recording in record(against, dir.path())? {
        let of_window = QUESTIONS.iter().map(|question| (*question, true));
        let of_file = OF_FILES.iter().map(|question| (*question, false));
        for (question, is_window) in of_window.chain(of_file) {
            let options: Vec<OsString> = match (&recording.file, is_window) {
                (_, true) => recording.options.iter().cloned().chain(["--all".into()]).collect(),
                (Some(file), false) => vec![file.into()],
                (None, false) => continue,
            };
            let out = dir.path().join("out");
            let before = ask(against, question, &options, &out)?;
            let now = ask(&bin_dir(), question, &options, &out)?;
            asked += 1;
            // Two errors that are alike prove nothing. Status 1 says that no event matches.
            ensure!(
                !recording.is_whole || matches!(now.status.code(), Some(0 | 1 | 3)),
                "{}: flightctl {question}: {}",
                recording.name,
                now.status
            );
            empty += u32::from(now.status.code() == Some(1));
            if before != now {
                different += 1;
                println!("{}: flightctl {question}", recording.name);
                explain(&before, &now);
            }
        }
    }
    println!("{asked} questions, {empty} without an answer, {different} with other answers");
    ensure!(different == 0, "the builds say different things");
    Ok(())
}

/// Asks one build.
fn ask(programs: &Path, question: &str, options: &[OsString], out: &Path) -> Result<Said> {
    let _ = fs::remove_file(out);
    let _ = fs::remove_dir_all(out);
    let words = question.split(' ').map(|word| match word {
        "OUT" => out.as_os_str().to_owned(),
        word => word.into(),
    });
    let output = Command::new(programs.join("flightctl"))
        .args(words)
        .args(options)
        .env("TZ", "UTC")
        .env_remove("FLIGHTREC_MEMORY")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("can't run flightctl in {}", programs.display()))?;
    let mut texts = BTreeMap::new();
    texts.insert("standard output".to_owned(), output.stdout);
    texts.insert("standard error".to_owned(), output.stderr);
    collect(out, out, &mut texts)?;
    Ok(Said { status: output.status, texts })
}

/// The content of a file, or of all files in a directory.
fn collect(root: &Path, path: &Path, into: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            collect(root, &entry?.path(), into)?;
        }
    } else if path.is_file() {
        let name = path.strip_prefix(root).unwrap_or(path).display();
        into.insert(format!("file {name}"), fs::read(path)?);
    }
    Ok(())
}

/// Prints where two answers differ first.
fn explain(before: &Said, now: &Said) {
    if before.status != now.status {
        println!("  {}, before {}", now.status, before.status);
    }
    let nothing = Vec::new();
    let names: BTreeSet<&String> = before.texts.keys().chain(now.texts.keys()).collect();
    for name in names {
        let old = before.texts.get(name).unwrap_or(&nothing);
        let new = now.texts.get(name).unwrap_or(&nothing);
        if old == new {
            continue;
        }
        println!("  {name}: {} bytes, before {}", new.len(), old.len());
        let mut lines = old.split(|b| *b == b'\n').zip(new.split(|b| *b == b'\n'));
        if let Some((old, new)) = lines.find(|(old, new)| old != new) {
            let shown = |line: &[u8]| {
                String::from_utf8_lossy(line.get(..200).unwrap_or(line)).escape_debug().to_string()
            };
            println!("    before: {}\n    now:    {}", shown(old), shown(new));
        }
    }
}

/// Makes the recordings, by the build in `programs`.
fn record(programs: &Path, dir: &Path) -> Result<Vec<Recording>> {
    let start = || {
        Recorder::try_start(Options {
            config: "[budget]\ntotal = \"off\"\nper_cpu = \"off\"\n".into(),
            death_signal: Signal::SIGTERM,
            programs: programs.to_owned(),
            ..Options::default()
        })
    };
    let mut recordings = Vec::new();
    let mut add = |name, option: &str, path: PathBuf, is_whole| {
        let file = (option == "--file").then(|| path.clone());
        recordings.push(Recording {
            name,
            options: vec![option.into(), path.into()],
            file,
            is_whole,
        });
    };

    let mut recorder = start()?;
    workload(dir)?;
    let saved = dir.join("saved.flight");
    let status = recorder
        .flightctl_command()
        .args(["save", "--all", "-o"])
        .arg(&saved)
        .stdout(Stdio::null())
        .status()?;
    // 3: something is missing.
    ensure!(matches!(status.code(), Some(0 | 3)), "flightctl save: {status}");
    let taken = recorder.flightctl(&["snapshot", "--reason", "outputs"]);
    ensure!(taken.status.success(), "flightctl snapshot: {taken:?}");
    let dump = dir.join("vmcore");
    fs::write(&dump, kernel_dump(&recorder))?;
    recorder.terminate()?;
    let closed = dir.join("closed");
    copy(&recorder.sandbox().state_dir(), &closed)?;
    let snapshot = snapshot(&closed)?;
    drop(recorder);

    let mut recorder = start()?;
    workload(dir)?;
    recorder.kill();
    let killed = dir.join("killed");
    copy(&recorder.sandbox().state_dir(), &killed)?;
    drop(recorder);

    let whole = fs::read(&saved)?;
    let damaged = |name: &str, damage: &dyn Fn(&mut Vec<u8>)| -> Result<PathBuf> {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        let path = dir.join(name);
        fs::write(&path, bytes)?;
        Ok(path)
    };
    let cut = damaged("cut.flight", &|bytes| bytes.truncate(bytes.len() * 2 / 3))?;
    let flipped = damaged("flipped.flight", &|bytes| {
        let middle = bytes.len() / 2;
        bytes.iter_mut().skip(middle).take(64).for_each(|byte| *byte ^= 0x55);
    })?;
    add("saved", "--file", saved, true);
    add("closed", "--store", closed, true);
    add("killed", "--store", killed, true);
    add("snapshot", "--file", snapshot, true);
    add("cut", "--file", cut, false);
    add("flipped", "--file", flipped, false);
    add("kernel dump", "--vmcore", dump, false);
    Ok(recordings)
}

/// What a build machine does.
fn workload(dir: &Path) -> Result<()> {
    let programs = repository().join("tests/programs");
    let status = Command::new("sh")
        .args([programs.join("mix.sh"), programs.join("storm.c"), dir.to_owned()])
        .stdout(Stdio::null())
        .status()?;
    ensure!(status.success(), "the workload failed: {status}");
    Ok(())
}

/// Copies a directory.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp").arg("-r").args([from, to]).status()?;
    ensure!(status.success(), "can't copy {}", from.display());
    Ok(())
}

/// The snapshot in a state directory.
fn snapshot(state_dir: &Path) -> Result<PathBuf> {
    let mut files = BTreeMap::new();
    collect(state_dir, state_dir, &mut files)?;
    let mut found =
        files.into_keys().filter_map(|name| name.strip_prefix("file ").map(str::to_owned));
    match found.find(|name| name.contains("snapshots/") && name.ends_with(".flight")) {
        Some(name) => Ok(state_dir.join(name)),
        None => bail!("no snapshot in {}", state_dir.display()),
    }
}
