//! Stores of made-up events for benchmarks, written by the store's own writer: two CPUs, whose
//! threads take turns as the benchmark says.

use std::fs::{self, File};
use std::path::Path;
use std::sync::mpsc::sync_channel;

use anyhow::{Result, bail, ensure};

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::abi::record::Abi;
use flightrec_format::decode::{Body, Call, Event, Page};
use flightrec_format::descriptors::{Descriptor, Object, Snapshot, Table};
use flightrec_format::encode::PageWriter;
use flightrec_format::meta::{Argument, Lanes, Meta, Syscall, TaiOffset};
use flightrec_format::part::PROVISIONAL_NS;
use flightrec_store::{
    Checkpoint, Limits, Now, Opening, Options, RingMark, State, Store, StoreWriter,
};
use nix::fcntl::PosixFadviseAdvice;
use serde::{Deserialize, Serialize};

pub(crate) const CPUS: u16 = 2;
const SESSION: u64 = 0x00be_4c40;
const BOOT: [u8; 16] = *b"flightrec bench!";
const STARTED: u64 = 1_000_000_000;
/// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`.
const WALL: u64 = 1_790_000_000_000_000_000;
/// The daemon's default.
const LEVEL: i32 = 1;
/// Bytes of a file before the next is begun: the daemon's default.
const FILE: u64 = 64 << 20;
/// Pages are drained this often, ns of the recording.
const ROUND_NS: u64 = 500_000_000;
/// Descriptors that each process has open.
const DESCRIPTORS: u32 = 10;
/// And synced each so many rounds.
const SYNC_ROUNDS: u64 = 20;

/// What a CPU does in a turn: pushes some events.
pub(crate) type Turn = fn(&mut Cpu) -> Result<()>;

/// What was written.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Made {
    /// Files.
    pub(crate) files: usize,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Events, entries and exits counted apart.
    pub(crate) events: u64,
    /// Time of the recording, ns.
    pub(crate) span: u64,
}

/// Pages of a round, and where the rings are after them.
struct Round {
    pages: Vec<Page>,
    end: Checkpoint,
}

/// What each file begins with.
struct Beginning {
    /// The processes that were there before the recording.
    processes: Vec<u32>,
    /// When their descriptors were looked at last: as often as the rings are drained.
    at: u64,
}

impl Opening for Beginning {
    fn meta(&mut self) -> Meta {
        meta()
    }

    fn slots(&mut self) -> (u64, Vec<[u8; PAGE_SIZE]>) {
        (STARTED, Vec::new())
    }

    fn descriptors(&mut self) -> Option<(u64, Vec<u8>)> {
        let at = self.at;
        let objects = [&b"/dev/null"[..], b"/var/log/worker.log", b"pipe:[4711]"];
        let object = |fd: u32| fd.min(objects.len() as u32 - 1);
        let files =
            (0..DESCRIPTORS).map(|fd| Descriptor { fd, cloexec: false, object: object(fd) });
        let files: Vec<Descriptor> = files.collect();
        let table = |process: &u32| Table { processes: vec![*process], files: files.clone() };
        let snapshot = Snapshot {
            begin: at,
            end: at,
            left_out: 0,
            objects: objects.map(|name| Object::Named(name.into())).into(),
            tables: self.processes.iter().map(table).collect(),
            divided: Vec::new(),
        };
        Some((at, snapshot.encode()))
    }
}

/// Writes a store of at least so many events into an empty directory, as the daemon does: one
/// thread makes events, `rate` a second, this one files. `processes`: those that are there before.
/// `killed`: all go to one file, which is not closed.
pub(crate) fn make(
    dir: &Path,
    events: u64,
    rate: u64,
    turn: Turn,
    processes: Vec<u32>,
    killed: bool,
) -> Result<Made> {
    let mut beginning = Beginning { processes, at: STARTED };
    ensure!(fs::read_dir(dir)?.next().is_none(), "{}: not empty", dir.display());
    let (to, from) = sync_channel::<Round>(8);
    let source = std::thread::spawn(move || {
        let mut cpus: Vec<Cpu> = (0..CPUS).map(|number| Cpu::new(number, rate)).collect();
        let mut time = STARTED;
        loop {
            time += ROUND_NS;
            let (mut pages, mut rings) = (Vec::new(), Vec::new());
            for cpu in &mut cpus {
                cpu.run(time, turn)?;
                cpu.drain(&mut pages, &mut rings)?;
            }
            if to.send(Round { pages, end: Checkpoint { time, rings } }).is_err() {
                return anyhow::Ok(());
            }
        }
    });
    let limits = Limits {
        max_total: u64::MAX,
        keep_free: 0,
        keep_at_least: 0,
        max_age: None,
        file_size: if killed { u64::MAX } else { FILE },
        file_age: None,
    };
    let (state_dir, boot_id, session) = (dir.into(), BOOT, SESSION);
    let options = Options { state_dir, limits, level: LEVEL, group: None, boot_id, session };
    let mut writer = StoreWriter::open(options);
    let now = |mono| Now { mono, wall: (WALL + mono) as i64 };
    let mut made = Made { files: 0, bytes: 0, events: 0, span: 0 };
    let mut rounds = 0;
    while made.events < events {
        let Ok(Round { pages, end }) = from.recv() else {
            bail!("the recording ended: {:?}", source.join())
        };
        // Until then the last entry could yet become a whole call.
        let mono = end.time + PROVISIONAL_NS;
        ensure!(writer.ready(now(mono)), "the files can't be written: {:?}", writer.state());
        beginning.at = end.time - ROUND_NS / 2;
        let state = writer.append(pages, mono, &mut beginning, now(mono));
        ensure!(*state == State::Ready, "the files can't be written: {state:?}");
        let mut totals = end.totals();
        totals.now = mono;
        writer.vouch(&totals);
        rounds += 1;
        if rounds % SYNC_ROUNDS == 0
            && let Some(job) = writer.sync(now(mono))
        {
            writer.synced(job.run(), now(mono));
        }
        made.events = end.rings.iter().flat_map(|ring| ring.events).sum();
        made.span = end.time - STARTED;
    }
    let end = now(STARTED + made.span + PROVISIONAL_NS);
    let job = if killed { writer.sync(end) } else { writer.close(&mut beginning, end) };
    if let Some(job) = job {
        writer.synced(job.run(), end);
    }
    drop(from);
    source.join().map_err(|_| anyhow::anyhow!("the recording panicked"))??;
    for file in Store::open(dir)?.all() {
        made.files += 1;
        made.bytes += file.path.metadata()?.len();
    }
    Ok(made)
}

/// Reads every file once, so that all of them are in the page cache.
pub(crate) fn warm(dir: &Path) -> Result<()> {
    for file in Store::open(dir)?.all() {
        std::io::copy(&mut File::open(&file.path)?, &mut std::io::sink())?;
    }
    Ok(())
}

/// Has every file out of the page cache.
pub(crate) fn cool(dir: &Path) -> Result<()> {
    for file in Store::open(dir)?.all() {
        let file = File::open(&file.path)?;
        file.sync_all()?;
        nix::fcntl::posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
    }
    Ok(())
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
                59,
                "execve",
                &[
                    ("filename", "const char *"),
                    ("argv", "const char *const *"),
                    ("envp", "const char *const *"),
                ],
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

/// One CPU.
#[derive(Debug)]
pub(crate) struct Cpu {
    /// Its number.
    pub(crate) number: u16,
    syscall: PageWriter,
    sched: PageWriter,
    task: PageWriter,
    /// The last event's, ns of `CLOCK_MONOTONIC`.
    pub(crate) time: u64,
    /// Which of its threads runs.
    pub(crate) thread: u64,
    /// Turns so far.
    pub(crate) turns: u64,
    /// Which of its threads sleep in a call, a bit each.
    pub(crate) sleeping: u64,
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
            turns: 0,
            sleeping: 0,
            random: 0x9e37_79b9_7f4a_7c15 ^ u64::from(number),
            pace: u64::from(CPUS) * 1_000_000_000 / rate,
        }
    }

    /// Goes on until a moment.
    fn run(&mut self, until: u64, turn: Turn) -> Result<()> {
        while self.time < until {
            turn(self)?;
            self.turns += 1;
        }
        Ok(())
    }

    /// A call that folds.
    pub(crate) fn whole(&mut self, tid: u32, call: Call, ret: i64) -> Result<()> {
        let exit = Call { nargs: 0, args: [0; 6], strings: Vec::new(), ..call };
        self.put(tid, Body::Enter(call))?;
        let entered = Some(self.time);
        self.put(tid, Body::Exit { call: exit, ret, entered })
    }

    /// The next event.
    pub(crate) fn put(&mut self, tid: u32, body: Body) -> Result<()> {
        self.time += self.pace / 2 + self.random() % self.pace;
        let lane = match body {
            Body::Enter(_) | Body::Exit { .. } => &mut self.syscall,
            Body::Fork(_) | Body::Exec { .. } | Body::Rename(_) | Body::TaskExit(_) => {
                &mut self.task
            }
            _ => &mut self.sched,
        };
        Ok(lane.push(&Event { time: self.time, cpu: self.number, tid, body })?)
    }

    /// The pages that are new since, those that are still written among them, and where the rings
    /// are after them.
    fn drain(&mut self, pages: &mut Vec<Page>, marks: &mut Vec<RingMark>) -> Result<()> {
        let number = self.number;
        let rings = [
            (Lane::Syscall, &mut self.syscall),
            (Lane::Sched, &mut self.sched),
            (Lane::Task, &mut self.task),
        ];
        for (lane, ring) in rings {
            for page in ring.take().into_iter().chain(ring.current()) {
                pages.push(Page::new(page)?);
            }
            let (header, (events, refused)) = (ring.header(), ring.totals());
            let mark = RingMark::new(lane, number);
            marks.push(RingMark { seq: header.seq, used: header.used, events, refused, ..mark });
        }
        Ok(())
    }

    /// xorshift64
    pub(crate) fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// A native call with these arguments.
pub(crate) fn call(nr: u16, values: &[u64]) -> Call {
    let mut args = [0; 6];
    for (to, value) in args.iter_mut().zip(values) {
        *to = *value;
    }
    Call { nr, abi: Abi::Native, nargs: values.len() as u8, args, strings: Vec::new() }
}
