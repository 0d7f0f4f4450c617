//! What runs beside the workload.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use flightrec_format::abi::state::{Bucket, CpuState, TIMED_BUCKETS};
use flightrec_format::live::{Generation, LiveRings};
use flightrec_tests::{Options, Recorder, die_with_parent};
use nix::sys::signal::Signal;

use super::bpftrace::Bpftrace;
use super::fifo;
use super::part::{Part, without};
use xtask::command::{cargo, probe, repository, run as run_command};

/// The events that flightrec records, as its peers name them.
const EVENTS: [&str; 6] = [
    "raw_syscalls:sys_enter",
    "raw_syscalls:sys_exit",
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup_new",
    "sched:sched_migrate_task",
];
/// A process of this age is no longer young to the budget (`crates/format/src/abi/share.rs`), s.
const OLDER: f64 = 2.8;
/// A process of this age that publishes for which spans its threads work has been found, s.
const FOUND: f64 = 4.0;
/// Has the variable by which it does be found.
const EXPORT: &str = "-Wl,--export-dynamic-symbol=otel_thread_ctx_v1";
const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// What runs beside the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Condition {
    Off,
    Floor,
    ClockFloor,
    StoreFloor,
    Flightrec,
    /// The programs of another build.
    Before,
    WithoutStrings,
    /// Without one part.
    Without(Part),
    /// Without any of these.
    WithoutParts,
    /// With contexts of threads, and no process that publishes any.
    Contexts,
    /// The work is done by threads that publish for which span of a trace they work.
    Publishing,
    /// The same, and that changes with each round trip.
    PublishingChanges,
    Drawing,
    Sharing,
    /// The same with a process that is not young.
    SharingOlder,
    Ftrace,
    Perf,
    /// A program of bpftrace that writes a line for each event.
    Bpftrace,
    /// One that counts events in the kernel, by number of the call and by kind.
    BpftraceCounts,
}

impl Condition {
    pub(super) const ALL: [Self; 29] = [
        Self::Off,
        Self::Floor,
        Self::ClockFloor,
        Self::StoreFloor,
        Self::Flightrec,
        Self::Before,
        Self::WithoutStrings,
        Self::Without(Part::Structures),
        Self::Without(Part::Signals),
        Self::Without(Part::Disk),
        Self::Without(Part::Memory),
        Self::Without(Part::Interrupts),
        Self::Without(Part::Locks),
        Self::Without(Part::Network),
        Self::Without(Part::Throttling),
        Self::Without(Part::IoUring),
        Self::Without(Part::Stacks),
        Self::Without(Part::Samples),
        Self::WithoutParts,
        Self::Contexts,
        Self::Publishing,
        Self::PublishingChanges,
        Self::Drawing,
        Self::Sharing,
        Self::SharingOlder,
        Self::Ftrace,
        Self::Perf,
        Self::Bpftrace,
        Self::BpftraceCounts,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Floor => "floor: empty programs",
            Self::ClockFloor => "clock floor: one read each",
            Self::StoreFloor => "clock, 16 bytes stored",
            Self::Flightrec => "flightrec",
            Self::Before => "flightrec, --against",
            Self::WithoutStrings => "flightrec, strings = false",
            Self::Without(part) => part.name(),
            Self::WithoutParts => "calls, scheduling, tasks",
            Self::Contexts => "flightrec, contexts",
            Self::Publishing => "contexts, published",
            Self::PublishingChanges => "contexts that change",
            Self::Drawing => "flightrec, limited",
            Self::Sharing => "limited, by who draws",
            Self::SharingOlder => "the same, older process",
            Self::Ftrace => "ftrace, same events",
            Self::Perf => "perf record --overwrite",
            Self::Bpftrace => "bpftrace, a line an event",
            Self::BpftraceCounts => "bpftrace, counts only",
        }
    }

    /// Its name for machines.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Floor => "floor",
            Self::ClockFloor => "clock_floor",
            Self::StoreFloor => "store_floor",
            Self::Flightrec => "flightrec",
            Self::Before => "flightrec_before",
            Self::WithoutStrings => "flightrec_without_strings",
            Self::Without(part) => part.key(),
            Self::WithoutParts => "without_parts",
            Self::Contexts => "contexts",
            Self::Publishing => "publishing",
            Self::PublishingChanges => "publishing_changes",
            Self::Drawing => "flightrec_limited",
            Self::Sharing => "flightrec_limited_by_process",
            Self::SharingOlder => "flightrec_limited_by_older_process",
            Self::Ftrace => "ftrace",
            Self::Perf => "perf",
            Self::Bpftrace => "bpftrace",
            Self::BpftraceCounts => "bpftrace_counts",
        }
    }

    /// How old the process that makes the calls is before it is measured, s.
    pub(super) fn age(self) -> f64 {
        match self {
            Self::SharingOlder => OLDER,
            Self::Publishing | Self::PublishingChanges => FOUND,
            _ => 0.0,
        }
    }

    /// How that process is compiled, if not as usual.
    pub(super) fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Publishing => &["-DPUBLISH=1", EXPORT],
            Self::PublishingChanges => &["-DPUBLISH=2", EXPORT],
            _ => &[],
        }
    }

    /// Starts it; it records when this returns. `folder` is for its files, `before` is where the
    /// programs of [`Self::Before`] are.
    pub(super) fn start(self, folder: &Path, before: Option<&Path>) -> Result<Beside> {
        let start = |config: String| {
            let options = Options { config, death_signal: Signal::SIGTERM, ..Options::default() };
            let options = match before {
                Some(before) if self == Self::Before => {
                    Options { programs: before.to_owned(), ..options }
                }
                _ => options,
            };
            Ok(Box::new(Recorder::try_start(options)?))
        };
        let recorder = |config: &str| {
            // A budget would be spent by what is measured, and change it.
            start(format!("{config}[budget]\ntotal = \"off\"\nper_cpu = \"off\"\n"))
                .map(Beside::Recorder)
        };
        // Buckets that nothing empties.
        let limited =
            || start("[budget]\ntotal = \"off\"\nper_cpu = \"100%\"\nburst = \"1h\"\n".to_owned());
        match self {
            Self::Off => Ok(Beside::Nothing),
            Self::Floor => floor("empty"),
            Self::ClockFloor => floor("clock"),
            Self::StoreFloor => floor("store"),
            Self::Flightrec | Self::Before => recorder(""),
            Self::Contexts | Self::Publishing | Self::PublishingChanges => {
                recorder("[record]\nthread_contexts = true\n")
            }
            Self::WithoutStrings => recorder("[record]\nstrings = false\n"),
            Self::Without(part) => recorder(&without(&[part])),
            Self::WithoutParts => recorder(&without(&Part::ALL)),
            Self::Drawing => limited().map(Beside::Recorder),
            Self::Sharing | Self::SharingOlder => {
                let recorder = limited()?;
                look_at_who_draws(&recorder)?;
                Ok(Beside::Recorder(recorder))
            }
            Self::Ftrace => Ok(Beside::Ftrace(Ftrace::start()?)),
            Self::Perf => perf(folder),
            Self::Bpftrace => Bpftrace::start(folder, "lines").map(Beside::Bpftrace),
            Self::BpftraceCounts => Bpftrace::start(folder, "counts").map(Beside::Bpftrace),
        }
    }
}

/// Has the probes look at who draws whatever their buckets hold, as they do where these run short.
fn look_at_who_draws(recorder: &Recorder) -> Result<()> {
    let generation =
        Generation::find(&recorder.sandbox().bpffs_dir()).context("there is no recording")?;
    let live = LiveRings::open(&generation, true).context("can't open the recording")?;
    let state = &live.maps().state;
    let fields = (0..TIMED_BUCKETS).map(|lane| {
        offset_of!(CpuState, buckets) + lane * size_of::<Bucket>() + offset_of!(Bucket, fair)
    });
    let fields: Vec<usize> = fields.collect();
    let all = || (0..state.entries()).flat_map(|cpu| fields.iter().map(move |field| (cpu, *field)));
    // flightd sets the limits once more when it first looks.
    for _ in 0..10 {
        for (cpu, field) in all() {
            ensure!(
                state.write(cpu, field, &i64::MAX.to_le_bytes()),
                "the recording has no bucket at {field}"
            );
        }
        sleep(Duration::from_millis(600));
        if all().all(|(cpu, field)| state.load(cpu, field) == i64::MAX as u64) {
            return Ok(());
        }
    }
    bail!("flightd sets its limits again and again")
}

/// Builds what the conditions need.
pub(super) fn prepare() -> Result<()> {
    xtask::probes::floor()?;
    run_command(cargo().args([
        "build",
        "--release",
        "--locked",
        "-p",
        "flightd",
        "--example",
        "floor",
    ]))
}

/// What is not measured, and why.
/// `only`: keys of the conditions that are asked for beside [`Condition::Off`]; none: all.
pub(super) fn missing(before: Option<&Path>, only: &[String]) -> Result<Vec<(Condition, String)>> {
    let mut missing = Vec::new();
    for key in only {
        let keys = Condition::ALL.map(Condition::key);
        ensure!(keys.contains(&key.as_str()), "{key} is none of {}", keys.join(", "));
    }
    let is_asked = |key: &str| only.is_empty() || key == "off" || only.iter().any(|one| one == key);
    let left_out = Condition::ALL.into_iter().filter(|condition| !is_asked(condition.key()));
    missing.extend(left_out.map(|condition| (condition, "left out by --only".to_owned())));
    if before.is_none() {
        missing.push((Condition::Before, "no other build is given (--against DIR)".into()));
    }
    if probe(Command::new("perf").arg("--version")).is_none() {
        missing.push((Condition::Perf, "there is no perf (Debian's linux-perf)".into()));
    }
    if probe(Command::new("bpftrace").arg("--version")).is_none() {
        for condition in [Condition::Bpftrace, Condition::BpftraceCounts] {
            missing.push((condition, "there is no bpftrace (Debian's bpftrace)".into()));
        }
    }
    if let Err(e) = Ftrace::start() {
        missing.push((Condition::Ftrace, format!("{e:#}")));
    }
    Ok(missing)
}

/// A running condition.
pub(super) enum Beside {
    Nothing,
    Floor(Child),
    Recorder(Box<Recorder>),
    Ftrace(Ftrace),
    Perf { perf: Child, control: fs::File },
    Bpftrace(Bpftrace),
}

impl Beside {
    /// Whether contexts of threads were recorded.
    pub(super) fn has_contexts(&self) -> bool {
        let Self::Recorder(recorder) = self else { return false };
        let output = recorder.flightctl(&["dump", "--last", "2m", "--event", "thread_context"]);
        output
            .stdout
            .split(|byte| *byte == b'\n')
            .any(|line| line.windows(16).any(|part| part == b"(THREAD_CONTEXT)"))
    }

    /// Ends it. Where a workload failed before, dropping does.
    pub(super) fn stop(self) -> Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Ftrace(ftrace) => {
                drop(ftrace);
                Ok(())
            }
            Self::Floor(mut child) => {
                // It ends when its standard input does.
                drop(child.stdin.take());
                let status = child.wait()?;
                ensure!(status.success(), "floor: {status}");
                Ok(())
            }
            Self::Recorder(mut recorder) => {
                ensure!(recorder.terminate()?.success(), "flightd failed:\n{}", recorder.log());
                Ok(())
            }
            Self::Perf { mut perf, mut control } => {
                control.write_all(b"stop\n")?;
                let status = perf.wait()?;
                ensure!(status.success(), "perf record: {status}");
                Ok(())
            }
            Self::Bpftrace(bpftrace) => bpftrace.stop(),
        }
    }
}

pub(super) fn floor(which: &str) -> Result<Beside> {
    let mut command = Command::new(repository().join("target/release/examples/floor"));
    command
        .arg(repository().join(xtask::probes::FLOOR))
        .arg(which)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = die_with_parent(&mut command, Signal::SIGKILL)
        .spawn()
        .context("can't run the floor's programs")?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
    ensure!(line == "ready\n", "the floor's programs are not attached");
    Ok(Beside::Floor(child))
}

/// `perf record` on all CPUs, the oldest overwritten; it writes what it holds when it ends.
fn perf(folder: &Path) -> Result<Beside> {
    let (ask, answer) = (folder.join("perf.ask"), folder.join("perf.answer"));
    let (mut control, answers) = (fifo::open(&ask)?, fifo::open(&answer)?);
    let mut command = Command::new("perf");
    command
        .args(["record", "-q", "-a", "--overwrite", "-m", "16M", "-D", "-1", "-o"])
        .arg(folder.join("perf.data"));
    command.arg(format!("--control=fifo:{},{}", ask.display(), answer.display()));
    for event in EVENTS {
        command.args(["-e", event]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let perf = die_with_parent(&mut command, Signal::SIGKILL).spawn().context("can't run perf")?;
    control.write_all(b"enable\n")?;
    let mut line = String::new();
    BufReader::new(answers).read_line(&mut line)?;
    ensure!(line.contains("ack"), "perf record does not answer: {line:?}");
    Ok(Beside::Perf { perf, control })
}

/// The same tracepoints in a tracing instance of our own, oldest overwritten.
pub(super) struct Ftrace(PathBuf);

impl Ftrace {
    fn start() -> Result<Self> {
        let dir = PathBuf::from(format!("{INSTANCES}/flightrec-{}", std::process::id()));
        fs::create_dir(&dir).with_context(|| format!("can't make {}", dir.display()))?;
        let instance = Self(dir);
        for event in EVENTS {
            let file = instance.0.join("events").join(event.replace(':', "/")).join("enable");
            fs::write(&file, "1").with_context(|| file.display().to_string())?;
        }
        Ok(instance)
    }
}

impl Drop for Ftrace {
    fn drop(&mut self) {
        if let Err(e) =
            fs::write(self.0.join("events/enable"), "0").and_then(|()| fs::remove_dir(&self.0))
        {
            eprintln!("{}: {e}: remove it by hand", self.0.display());
        }
    }
}
