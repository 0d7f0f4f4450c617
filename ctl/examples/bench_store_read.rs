//! How soon `flightctl dump` prints the first line out of a large store: 2 GiB of files of made-up
//! events, written by the store's own writer, are read by the program as it is built, and by
//! another build of it in turns.
//!
//! `cargo run --release -p flightctl --example bench_store_read -- FLIGHTCTL [--against FLIGHTCTL]
//! [--json] [--mib N] [--rate EVENTS_PER_SECOND]`

use std::fs::{self, File};
use std::io::{BufWriter, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{Abi, StringStatus, WakeContext};
use flightrec_format::decode::{Body, Call, Event, Page, Text};
use flightrec_format::encode::PageWriter;
use flightrec_format::meta::{Argument, Lanes, Meta, Syscall, TaiOffset};
use flightrec_store::{Checkpoint, FileHeader, FileWriter, RingMark};

const ROUNDS: usize = 15;
const CPUS: u16 = 2;
const THREADS: u64 = 32;
const SESSION: u64 = 0x00be_4c40;
const BOOT: [u8; 16] = *b"flightrec bench!";
const STARTED: u64 = 1_000_000_000;
/// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`.
const WALL: u64 = 1_790_000_000_000_000_000;
/// The daemon's default.
const LEVEL: i32 = 1;
/// Bytes of a file before the next is begun: the daemon's default.
const FILE: u64 = 64 << 20;
/// Pages are handed to the files this often, ns of the recording.
const ROUND_NS: u64 = 500_000_000;
/// Checkpoints of an idle recording.
const CHECKPOINT_NS: u64 = 10_000_000_000;

/// What is measured.
struct Options {
    flightctl: PathBuf,
    /// Another build of it.
    against: Option<PathBuf>,
    json: bool,
    bytes: u64,
    /// Events a second of the recording, entries and exits counted apart.
    rate: u64,
}

impl Options {
    fn parse() -> Result<Self> {
        let mut args = std::env::args().skip(1);
        let flightctl = args.next().context("name the flightctl to measure")?.into();
        let mut options =
            Self { flightctl, against: None, json: false, bytes: 2 << 30, rate: 100_000 };
        while let Some(arg) = args.next() {
            if arg == "--against" {
                options.against = Some(args.next().context("--against FLIGHTCTL")?.into());
                continue;
            }
            let mut number = || {
                args.next().and_then(|n| n.parse::<u64>().ok()).with_context(|| format!("{arg} N"))
            };
            match arg.as_str() {
                "--json" => options.json = true,
                "--mib" => options.bytes = number()? << 20,
                "--rate" => options.rate = number()?.max(1000),
                other => bail!("{other}: not --against, --json, --mib or --rate"),
            }
        }
        Ok(options)
    }

    /// The programs that are measured.
    fn programs(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.flightctl), self.against.as_ref()].into_iter().flatten().map(PathBuf::as_path)
    }
}

/// What was measured of one window.
struct Measured<'a> {
    window: &'a str,
    args: &'a [&'a str],
    lines: usize,
    /// Of each program, seconds until its first line in each round.
    first: Vec<Vec<f64>>,
    /// Of each program, seconds until its end.
    whole: Vec<Vec<f64>>,
}

fn main() -> Result<()> {
    let options = Options::parse()?;
    // Beside the programs: on a disk, unlike /tmp on many machines, and not in the way of anything.
    let target =
        std::env::current_exe()?.ancestors().nth(3).context("no target directory")?.to_owned();
    let dir = tempfile::Builder::new().prefix("bench-store-").tempdir_in(target)?;
    let made = make(dir.path(), &options)?;
    warm(dir.path())?;

    let middle = jiff::Timestamp::from_nanosecond(i128::from(WALL + STARTED + made.span / 2))?;
    let middle = [middle.to_string(), (middle + jiff::SignedDuration::from_secs(10)).to_string()];
    let windows: [(&str, Vec<&str>); 3] = [
        ("the last 10 s", vec!["--last", "10s"]),
        ("the last 1 s", vec!["--last", "1s"]),
        ("10 s in the middle", vec!["--since", &middle[0], "--until", &middle[1]]),
    ];
    let programs: Vec<&Path> = options.programs().collect();
    let mut results = Vec::new();
    for (window, args) in &windows {
        let lines = lines(&options.flightctl, dir.path(), args)?;
        let none = vec![Vec::new(); programs.len()];
        results.push(Measured { window, args, lines, first: none.clone(), whole: none });
    }
    for round in 0..ROUNDS {
        eprint!("\rround {} of {ROUNDS}", round + 1);
        for of in &mut results {
            // In turns, so that neither always comes second.
            for turn in 0..programs.len() {
                let at = (turn + round) % programs.len();
                let (first, whole) = dump(programs[at], dir.path(), of.args)?;
                of.first[at].push(first);
                of.whole[at].push(whole);
            }
        }
    }
    eprintln!();
    report(&options, &made, &results);
    Ok(())
}

/// What was written.
struct Made {
    files: usize,
    bytes: u64,
    events: u64,
    /// Time of the recording, ns.
    span: u64,
}

/// Pages of a round, and where the rings are after it.
struct Batch {
    pages: Vec<Page>,
    checkpoint: Checkpoint,
    /// The pages that are still written, and where the rings are after those.
    open: Vec<Page>,
    end: Checkpoint,
}

/// Writes the store: one thread makes events, this one files.
fn make(dir: &Path, options: &Options) -> Result<Made> {
    let dir = dir.join(flightrec_store::dir::boot_name(&BOOT));
    fs::create_dir(&dir)?;
    let (to, from) = sync_channel::<Batch>(8);
    let rate = options.rate;
    let source = std::thread::spawn(move || {
        let mut cpus: Vec<Cpu> = (0..CPUS).map(|number| Cpu::new(number, rate)).collect();
        let mut time = STARTED;
        loop {
            time += ROUND_NS;
            let mut pages = Vec::new();
            for cpu in &mut cpus {
                cpu.run(time)?;
                pages.extend(cpu.take()?);
            }
            let (mut open, mut end) = (Vec::new(), Vec::new());
            for cpu in &cpus {
                cpu.open(&mut open, &mut end)?;
            }
            let rings = cpus.iter().flat_map(Cpu::marks).collect();
            let (checkpoint, end) = (Checkpoint { time, rings }, Checkpoint { time, rings: end });
            if to.send(Batch { pages, checkpoint, open, end }).is_err() {
                return anyhow::Ok(());
            }
        }
    });
    let mut made = Made { files: 0, bytes: 0, events: 0, span: 0 };
    let mut time = STARTED;
    let mut last = Checkpoint::default();
    while made.bytes < options.bytes {
        made.files += 1;
        let header = FileHeader {
            compatible: 0,
            incompatible: 0,
            boot_id: BOOT,
            session: SESSION,
            number: made.files as u32,
            created_wall: (WALL + time) as i64,
            created_mono: time,
            begins: time,
        };
        let start = jiff::Timestamp::from_nanosecond(i128::from(header.created_wall))?
            .strftime("%Y%m%dT%H%M%SZ");
        let out =
            BufWriter::new(File::create(dir.join(format!("{start}-{:06}.flight", made.files)))?);
        let mut file = FileWriter::new(out, &header, LEVEL)?;
        file.meta(&meta(), time)?;
        file.checkpoint(&Checkpoint { time, ..last })?;
        let mut checkpoint = time;
        last = loop {
            let Ok(batch) = from.recv() else { bail!("the recording ended: {:?}", source.join()) };
            write(&mut file, &batch.pages)?;
            time = batch.checkpoint.time;
            if time - checkpoint >= CHECKPOINT_NS {
                file.checkpoint(&batch.checkpoint)?;
                checkpoint = time;
            }
            if made.bytes + file.written() >= options.bytes {
                write(&mut file, &batch.open)?;
                break batch.end;
            }
            if file.written() >= FILE {
                break batch.checkpoint;
            }
        };
        file.meta(&meta(), time)?;
        file.checkpoint(&last)?;
        made.bytes += file.written();
        file.finish()?.into_inner()?.sync_all()?;
        eprint!("\rwriting {} of {} MiB", made.bytes >> 20, options.bytes >> 20);
    }
    eprintln!();
    drop(from);
    source.join().map_err(|_| anyhow::anyhow!("the recording panicked"))??;
    made.span = time - STARTED;
    made.events = last.rings.iter().flat_map(|ring| ring.events).sum();
    Ok(made)
}

/// Appends pages, by lane.
fn write(file: &mut FileWriter<BufWriter<File>>, pages: &[Page]) -> Result<()> {
    for lane in Lane::RINGS {
        let of_lane: Vec<Page> = pages.iter().filter(|page| page.lane() == lane).cloned().collect();
        of_lane
            .chunks(flightrec_store::block::PAGES_MAX)
            .try_for_each(|pages| file.pages(pages))?;
    }
    Ok(())
}

/// Reads every file once, so that all of them are in the page cache.
fn warm(dir: &Path) -> Result<()> {
    for boot in fs::read_dir(dir)? {
        for file in fs::read_dir(boot?.path())? {
            std::io::copy(&mut File::open(file?.path())?, &mut std::io::sink())?;
        }
    }
    Ok(())
}

fn command(flightctl: &Path, dir: &Path, window: &[&str]) -> Command {
    let mut command = Command::new(flightctl);
    command.args(["dump", "--store"]).arg(dir).args(window);
    command
}

/// Runs the program: seconds until its first byte, and until its end.
fn dump(flightctl: &Path, dir: &Path, window: &[&str]) -> Result<(f64, f64)> {
    let start = Instant::now();
    let mut child =
        command(flightctl, dir, window).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut out = child.stdout.take().context("no output")?;
    let mut buffer = vec![0; 1 << 20];
    ensure!(out.read(&mut buffer)? != 0, "nothing was printed");
    let first = start.elapsed().as_secs_f64();
    while out.read(&mut buffer)? != 0 {}
    let whole = start.elapsed().as_secs_f64();
    let status = child.wait()?;
    ensure!(status.success(), "flightctl: {status}");
    Ok((first, whole))
}

/// Lines of a window, which must be complete.
fn lines(flightctl: &Path, dir: &Path, window: &[&str]) -> Result<usize> {
    let output = command(flightctl, dir, window).arg("--strict").output()?;
    ensure!(
        output.status.success(),
        "flightctl: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout.split(|byte| *byte == b'\n').count() - 1)
}

fn report(options: &Options, made: &Made, results: &[Measured<'_>]) {
    let sorted = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        let of = |at: usize| values.get(at).copied().unwrap_or(f64::NAN);
        (of(ROUNDS / 2), of(0), of(ROUNDS - 1))
    };
    let spread = |values: &[f64]| sorted(values.iter().map(|seconds| seconds * 1e3).collect());
    // Of the other build, how many times as long this one takes in the same round.
    let ratio = |of: &[Vec<f64>]| {
        let (this, other) = (of.first()?, of.get(1)?);
        Some(sorted(this.iter().zip(other).map(|(this, other)| this / other).collect()))
    };
    let per_event = made.bytes as f64 / made.events as f64;
    if options.json {
        let window = |of: &Measured<'_>| {
            let (f, f0, f1) = spread(&of.first[0]);
            let (w, ..) = spread(&of.whole[0]);
            let against = ratio(&of.first).zip(ratio(&of.whole)).map(|(first, whole)| {
                format!(",\"first_ratio\":{:.3},\"whole_ratio\":{:.3}", first.0, whole.0)
            });
            format!(
                "{{\"window\":\"{}\",\"lines\":{},\"first_ms\":{f:.1},\"least_ms\":{f0:.1},\
                 \"greatest_ms\":{f1:.1},\"whole_ms\":{w:.1}{}}}",
                of.window,
                of.lines,
                against.unwrap_or_default()
            )
        };
        let windows: Vec<String> = results.iter().map(window).collect();
        println!(
            "{{\"files\":{},\"bytes\":{},\"events\":{},\"bytes_per_event\":{per_event:.2},\
             \"seconds\":{:.0},\"rounds\":{ROUNDS},\"windows\":[{}]}}",
            made.files,
            made.bytes,
            made.events,
            made.span as f64 / 1e9,
            windows.join(",")
        );
        return;
    }
    println!(
        "{} files, {} MiB, {} million events at {} a second ({per_event:.2} bytes each), {:.0} s \
         of a recording; warm cache",
        made.files,
        made.bytes >> 20,
        made.events / 1_000_000,
        options.rate,
        made.span as f64 / 1e9
    );
    println!(
        "flightctl dump --store, ms, median of {ROUNDS} interleaved rounds (least to greatest):"
    );
    for of in results {
        for (name, at) in [("this build", 0), ("the other", 1)] {
            let (Some(first), Some(whole)) = (of.first.get(at), of.whole.get(at)) else { continue };
            let ((f, f0, f1), (w, w0, w1)) = (spread(first), spread(whole));
            println!(
                "  {:<20} {name:<10} {:>9} lines: the first after {f:>6.1} ({f0:.1} to {f1:.1}), \
                 all after {w:>7.1} ({w0:.1} to {w1:.1})",
                of.window, of.lines
            );
        }
        for (what, of) in [("the first", ratio(&of.first)), ("all", ratio(&of.whole))] {
            let Some((r, r0, r1)) = of else { continue };
            println!("    {what}: {r:.2} times as long, in pairs ({r0:.2} to {r1:.2})");
        }
    }
}

fn meta() -> Meta {
    let call = |nr, name: &str, args: &[(&str, &str)]| Syscall {
        nr,
        name: name.into(),
        args: Some(
            args.iter().map(|(n, t)| Argument { name: (*n).into(), ctype: (*t).into() }).collect(),
        ),
    };
    Meta {
        session: SESSION,
        boot_id: flightrec_store::dir::boot_name(&BOOT),
        started: STARTED,
        tai_offsets: vec![TaiOffset { since: 0, seconds: 37 }],
        cpus: (0..CPUS).collect(),
        lanes: Lanes::new([16 << 20, 8 << 20, 1 << 20, 1 << 20], [false; 4]),
        native: vec![
            call(0, "read", &[("fd", "unsigned int"), ("buf", "char *"), ("count", "size_t")]),
            call(
                1,
                "write",
                &[("fd", "unsigned int"), ("buf", "const char *"), ("count", "size_t")],
            ),
            call(
                257,
                "openat",
                &[
                    ("dfd", "int"),
                    ("filename", "const char *"),
                    ("flags", "int"),
                    ("mode", "umode_t"),
                ],
            ),
        ],
        ..Meta::default()
    }
}

/// One CPU: threads that read, open and write in turns.
struct Cpu {
    number: u16,
    syscall: PageWriter,
    sched: PageWriter,
    task: PageWriter,
    time: u64,
    thread: u64,
    random: u64,
    /// ns between two events.
    pace: u64,
}

impl Cpu {
    fn new(number: u16, rate: u64) -> Self {
        let ring = |lane| PageWriter::new(SESSION, lane, number, WALL + 37_000_000_000);
        Self {
            number,
            syscall: ring(Lane::Syscall),
            sched: ring(Lane::Sched),
            task: ring(Lane::Task),
            time: STARTED,
            thread: u64::from(number),
            random: 0x9e37_79b9_7f4a_7c15 ^ u64::from(number),
            pace: u64::from(CPUS) * 1_000_000_000 / rate,
        }
    }

    /// Goes on until a moment.
    fn run(&mut self, until: u64) -> Result<()> {
        while self.time < until {
            self.turn()?;
        }
        Ok(())
    }

    /// A thread's turn: a few calls, then it sleeps in a read.
    fn turn(&mut self) -> Result<()> {
        let next = (self.thread + 1 + self.random() % THREADS) % THREADS;
        let (me, next) = (1000 + self.thread as u32, 1000 + next as u32);
        self.thread = u64::from(next) - 1000;
        let (address, count) =
            (0x7ffd_0000_0000 + (self.random() & 0xf_fff8), self.random() % 4096);
        let mut open = call(257, &[u64::MAX - 99, address, 0x8_0000, 0]);
        let path = format!("/usr/share/doc/package-{}/copyright", self.random() % 2000);
        open.strings.push(Text {
            index: 1,
            status: StringStatus::Whole,
            bytes: path.into_bytes().into(),
        });
        self.whole(me, open, if count.is_multiple_of(3) { -2 } else { 3 + (count % 60) as i64 })?;
        for _ in 0..3 {
            let (address, count) =
                (0x55d0_0000_0000 + (self.random() & 0xff_fff8), self.random() % 8192);
            self.whole(me, call(1, &[1 + count % 9, address, count]), count as i64)?;
        }
        let waking = Body::Waking {
            wakee: next,
            prio: 120,
            state: 1,
            cpu: self.number,
            new: false,
            context: WakeContext::Thread,
        };
        self.put(me, waking)?;
        self.put(me, Body::Enter(call(0, &[5, address, 512])))?;
        let (prev_prio, next_prio) = (120, 120);
        self.put(
            me,
            Body::Switch {
                prev_prio,
                prev_state: 1,
                preempted: false,
                io_wait: false,
                next,
                next_prio,
            },
        )
    }

    /// A call that folds.
    fn whole(&mut self, tid: u32, call: Call, ret: i64) -> Result<()> {
        let exit = Call { nargs: 0, args: [0; 6], strings: Vec::new(), ..call };
        self.put(tid, Body::Enter(call))?;
        let entered = Some(self.time);
        self.put(tid, Body::Exit { call: exit, ret, entered })
    }

    fn put(&mut self, tid: u32, body: Body) -> Result<()> {
        self.time += self.pace / 2 + self.random() % self.pace;
        let lane = match body {
            Body::Enter(_) | Body::Exit { .. } => &mut self.syscall,
            _ => &mut self.sched,
        };
        Ok(lane.push(&Event { time: self.time, cpu: self.number, tid, body })?)
    }

    /// The pages that are written, and the rings' marks after them.
    fn open(&self, pages: &mut Vec<Page>, marks: &mut Vec<RingMark>) -> Result<()> {
        let rings =
            [(Lane::Syscall, &self.syscall), (Lane::Sched, &self.sched), (Lane::Task, &self.task)];
        for (lane, ring) in rings {
            if let Some(page) = ring.current() {
                pages.push(Page::new(page)?);
            }
            let (header, (events, refused)) = (ring.header(), ring.totals());
            let mark = RingMark::new(lane, self.number);
            marks.push(RingMark { seq: header.seq, used: header.used, events, refused, ..mark });
        }
        Ok(())
    }

    /// The pages that were closed since: while it goes on, the files have whole pages alone.
    fn take(&mut self) -> Result<Vec<Page>> {
        let mut pages = Vec::new();
        for ring in [&mut self.syscall, &mut self.sched, &mut self.task] {
            for page in ring.take() {
                pages.push(Page::new(page)?);
            }
        }
        Ok(pages)
    }

    /// Where the rings are: at the beginning of the open page.
    fn marks(&self) -> Vec<RingMark> {
        let rings =
            [(Lane::Syscall, &self.syscall), (Lane::Sched, &self.sched), (Lane::Task, &self.task)];
        rings
            .into_iter()
            .map(|(lane, ring)| {
                let header = ring.header();
                RingMark {
                    seq: header.seq,
                    events: header.events,
                    ..RingMark::new(lane, self.number)
                }
            })
            .collect()
    }

    /// xorshift64
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

fn call(nr: u16, values: &[u64]) -> Call {
    let mut args = [0; 6];
    for (to, value) in args.iter_mut().zip(values) {
        *to = *value;
    }
    Call { nr, abi: Abi::Native, nargs: values.len() as u8, args, strings: Vec::new() }
}
