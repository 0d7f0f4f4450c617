//! How fast a recording becomes text, or JSON lines: a synthetic recording of 2,000,000 events, in
//! memory, goes through the whole pipeline (pages checked and sorted, lanes merged, names, pairs,
//! run queues, lines) to a file, or to `/dev/null` with `--null`.
//!
//! `cargo run --release -p flightctl --example bench_read [-- --json] [--format text|jsonl]
//! [--merge] [--null]`

use std::fs::File;
use std::io::{self, Write};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use flightctl::filter::FilterPlan;
use flightctl::render::Render;
use flightctl::{json, print, text};
use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::abi::record::{Abi, Fork, StringStatus, WakeContext};
use flightrec_format::control::Totals;
use flightrec_format::decode::{Body, Call, Event, Text};
use flightrec_format::encode::PageWriter;
use flightrec_format::meta::{Argument, Lanes, Meta, Syscall, TaiOffset};
use flightrec_reader::source::Collector;
use flightrec_reader::window::Window;

const EVENTS: u64 = 2_000_000;
const ROUNDS: usize = 7;
const CPUS: u16 = 2;
const THREADS: u32 = 32;
const SESSION: u64 = 0x00be_4c40;
const STARTED: u64 = 1_000_000_000;
/// `CLOCK_TAI` minus `CLOCK_MONOTONIC`.
const TAI: u64 = 1_790_000_000_000_000_000;

/// A format of lines.
#[derive(Clone, Copy, Default)]
enum Format {
    #[default]
    Text,
    Jsonl,
}

/// What is measured.
#[derive(Default)]
struct Options {
    /// The result as JSON.
    json: bool,
    /// What lines.
    format: Format,
    /// Calls as one line.
    merge: bool,
    /// Nothing is kept: what the lines cost without the file system.
    null: bool,
}

impl Options {
    fn parse() -> Result<Self> {
        let mut options = Self::default();
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--json" => options.json = true,
                "--merge" => options.merge = true,
                "--null" => options.null = true,
                "--format" => match args.next().as_deref() {
                    Some("text") => options.format = Format::Text,
                    Some("jsonl") => options.format = Format::Jsonl,
                    other => bail!("--format {}: text or jsonl", other.unwrap_or_default()),
                },
                other => bail!("{other}: not --json, --format, --merge or --null"),
            }
        }
        Ok(options)
    }

    fn renderer(&self, meta: &Meta) -> Box<dyn Render> {
        match self.format {
            Format::Text => text::Renderer::new(
                meta,
                text::Options { merge: self.merge, ..text::Options::default() },
            )
            .into(),
            Format::Jsonl => json::Renderer::new(meta, self.merge, []).into(),
        }
    }
}

/// A sink that counts.
struct Counted {
    sink: File,
    bytes: u64,
    lines: u64,
    /// Lines are counted in a round of its own: it takes time.
    count_lines: bool,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(bytes)?;
        let new = bytes.get(..written).unwrap_or_default();
        self.bytes += new.len() as u64;
        if self.count_lines {
            self.lines += new.split(|byte| *byte == b'\n').skip(1).count() as u64;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

fn main() -> Result<()> {
    let options = Options::parse()?;
    let pages = record()?;
    let dir = tempfile::tempdir()?;
    let path = if options.null { "/dev/null".into() } else { dir.path().join("dump") };
    let sink = |count_lines| {
        io::Result::Ok(Counted { sink: File::create(&path)?, bytes: 0, lines: 0, count_lines })
    };
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let mut sink = sink(false)?;
        let start = Instant::now();
        let events = read(&pages, &options, &mut sink)?;
        ensure!(events == EVENTS, "{events} events came out of {EVENTS}");
        rates.push(EVENTS as f64 / start.elapsed().as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    let (slowest, median, fastest) = (rates[0], rates[ROUNDS / 2], rates[ROUNDS - 1]);
    let mut counted = sink(true)?;
    read(&pages, &options, &mut counted)?;
    let (bytes, lines) = (counted.bytes, counted.lines);
    let per_line = bytes as f64 / lines as f64;
    let format = match options.format {
        Format::Text => "text",
        Format::Jsonl => "jsonl",
    };
    if options.json {
        println!(
            "{{\"format\":\"{format}\",\"events\":{EVENTS},\"lines\":{lines},\"rounds\":{ROUNDS},\
             \"events_per_second\":{median:.0},\"slowest\":{slowest:.0},\"fastest\":{fastest:.0},\
             \"text_bytes\":{bytes},\"bytes_per_line\":{per_line:.1},\"pages\":{}}}",
            pages.len()
        );
    } else {
        println!(
            "{EVENTS} events in {} pages to {lines} lines ({format}) of {per_line:.1} bytes, \
             {ROUNDS} rounds",
            pages.len()
        );
        println!(
            "{:.2} million events/s (median; {:.2} to {:.2})",
            median / 1e6,
            slowest / 1e6,
            fastest / 1e6
        );
    }
    Ok(())
}

/// One round: pages to lines.
fn read(pages: &[Box<[u8; PAGE_SIZE]>], options: &Options, out: &mut Counted) -> Result<u64> {
    let meta = meta();
    let mut collector = Collector::new(meta.clone());
    for page in pages {
        collector.add(page.as_slice())?;
    }
    let recording = collector.finish(Totals::default());
    let wall = recording.wall_clock(0);
    let filter = FilterPlan::all().resolve(&meta)?;
    let renderer = options.renderer(&meta);
    Ok(print::run(&recording, Window::ALL, &filter, wall, renderer, out)?)
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
        started: STARTED,
        tai_offsets: vec![TaiOffset { since: 0, seconds: 37 }],
        cpus: (0..CPUS).collect(),
        lanes: Lanes::new([256 << 20, 64 << 20, 1 << 20, 1 << 20], [false; 4]),
        native: vec![
            call(0, "read", &[("fd", "unsigned int"), ("buf", "char *"), ("count", "size_t")]),
            call(
                1,
                "write",
                &[("fd", "unsigned int"), ("buf", "const char *"), ("count", "size_t")],
            ),
            call(
                72,
                "fcntl",
                &[("fd", "unsigned int"), ("cmd", "unsigned int"), ("arg", "unsigned long")],
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

/// One CPU's writing.
struct Cpu {
    number: u16,
    syscall: PageWriter,
    sched: PageWriter,
    time: u64,
    running: u32,
    random: u64,
    left: u64,
}

/// The recording's pages. On each CPU threads work a little, wake the next and sleep, as servers
/// do.
fn record() -> Result<Vec<Box<[u8; PAGE_SIZE]>>> {
    let mut task = PageWriter::new(SESSION, Lane::Task, 0, TAI);
    let mut births = 0;
    for tid in (0..CPUS).flat_map(|cpu| (0..THREADS).map(move |i| thread(cpu, i))) {
        let mut comm = [0; 16];
        comm[..7].copy_from_slice(format!("work{:03}", tid % 1000).as_bytes());
        let fork = Fork {
            parent_tid: 1,
            parent_tgid: 1,
            tid,
            tgid: tid,
            start_time: STARTED,
            cgroup: 1,
            comm,
            shares: 0,
        };
        births += 1;
        task.push(&Event { time: STARTED + births, cpu: 0, tid: 1, body: Body::Fork(fork) })?;
    }
    let mut pages = task.finish();
    for number in 0..CPUS {
        let mut cpu = Cpu {
            number,
            syscall: PageWriter::new(SESSION, Lane::Syscall, number, TAI),
            sched: PageWriter::new(SESSION, Lane::Sched, number, TAI),
            time: STARTED + 10_000,
            running: 0,
            random: 0x9e37_79b9_7f4a_7c15 ^ u64::from(number),
            left: (EVENTS - births) / u64::from(CPUS),
        };
        while cpu.left > 0 {
            cpu.round().context("synthetic recording")?;
        }
        pages.extend(cpu.syscall.finish());
        pages.extend(cpu.sched.finish());
    }
    Ok(pages)
}

fn thread(cpu: u16, i: u32) -> u32 {
    1000 + u32::from(cpu) * 1000 + i
}

impl Cpu {
    /// A thread returns from its read, works, wakes the next, and sleeps in read.
    fn round(&mut self) -> Result<()> {
        let (me, next) =
            (thread(self.number, self.running), thread(self.number, (self.running + 1) % THREADS));
        self.running = (self.running + 1) % THREADS;
        let read = call(0, &[5, 0x7ffd_1234_5670, 4096]);
        self.put(me, 300, Body::Exit { call: read.clone(), ret: 512, entered: None })?;
        for _ in 0..3 {
            let (nr, arg) =
                if self.random().is_multiple_of(2) { (72, 4) } else { (1, 0x7f00_dead_beef) };
            let size = self.random() % 4096;
            self.whole(me, call(nr, &[3, arg, size]), size as i64)?;
        }
        if self.random().is_multiple_of(4) {
            let mut open = call(257, &[0xffff_ff9c, 0x7ffd_aaaa_0000, 0x8_0000, 0]);
            let path = format!("/usr/share/zoneinfo/Europe/place{}", self.random() % 1000);
            open.strings.push(Text {
                index: 1,
                status: StringStatus::Whole,
                bytes: path.as_bytes().into(),
            });
            let ret = if self.random().is_multiple_of(3) { -2 } else { 7 };
            self.whole(me, open, ret)?;
        }
        let entered = self.time + 400;
        let write = call(1, &[6, 0x7ffd_1234_5670, 512]);
        self.put(me, 400, Body::Enter(write.clone()))?;
        let waking = Body::Waking {
            wakee: next,
            prio: 120,
            state: 1,
            cpu: self.number,
            new: false,
            context: WakeContext::Thread,
        };
        self.put(me, 700, waking)?;
        let folded = Call { nargs: 0, args: [0; 6], ..write };
        self.put(me, 500, Body::Exit { call: folded, ret: 512, entered: Some(entered) })?;
        self.put(me, 350, Body::Enter(read))?;
        let (prev_prio, next_prio) = (120, 120);
        self.put(
            me,
            800,
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
        let entered = self.time + 250;
        let exit = Call { nargs: 0, args: [0; 6], strings: Vec::new(), ..call };
        self.put(tid, 250, Body::Enter(call))?;
        let took = 200 + self.random() % 2000;
        self.put(tid, took, Body::Exit { call: exit, ret, entered: Some(entered) })
    }

    fn put(&mut self, tid: u32, later: u64, body: Body) -> Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        self.time += later;
        let lane = match body {
            Body::Enter(_) | Body::Exit { .. } => &mut self.syscall,
            _ => &mut self.sched,
        };
        Ok(lane.push(&Event { time: self.time, cpu: self.number, tid, body })?)
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
    args[..values.len()].copy_from_slice(values);
    Call { nr, abi: Abi::Native, nargs: values.len() as u8, args, strings: Vec::new() }
}
