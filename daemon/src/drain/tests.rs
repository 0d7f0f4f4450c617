//! Rings in memory, real files, and a daemon that dies, comes late, or finds its files gone.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::control::{CpuTotals, Position, Totals};
use flightrec_format::decode::{Body, Event, Page};
use flightrec_format::encode::PageWriter;
use flightrec_format::meta::Meta;
use flightrec_format::ring::{LaneStream, Rings as Streams};
use flightrec_store::{Content, FileReader, Limits, Now, Opening, Options, Store, StoreWriter};
use tempfile::TempDir;

use super::losses::Losses;
use super::round::{Rings, round};
use super::source::Source;

const SESSION: u64 = 0xabcd;
const BOOT: [u8; 16] = [7; 16];
/// Pages of each ring.
const RING: u64 = 8;

/// Two CPUs' rings of the scheduling lane, which hold their last pages only.
struct Memory {
    rings: RefCell<BTreeMap<u16, (PageWriter, Vec<Page>)>>,
    /// Events written so far; each has a time of its own.
    n: RefCell<u64>,
}

impl Memory {
    fn new() -> Self {
        let ring = |cpu| (cpu, (PageWriter::new(SESSION, Lane::Sched, cpu, 0), Vec::new()));
        Self { rings: RefCell::new([0, 1].map(ring).into()), n: RefCell::new(0) }
    }

    /// Something happens on a CPU, so many times.
    fn happen(&self, cpu: u16, times: u64) {
        let (mut rings, mut n) = (self.rings.borrow_mut(), self.n.borrow_mut());
        let (writer, pages) = rings.get_mut(&cpu).unwrap();
        for _ in 0..times {
            *n += 1;
            let body = Body::Migrate { thread: (*n & 0xffff) as u32, prio: 120, from: 0, to: 1 };
            writer.push(&Event { time: *n * 1000, cpu, tid: 5, body }).unwrap();
        }
        pages.extend(writer.take().into_iter().map(|page| Page::new(page).unwrap()));
        let gone = pages.len().saturating_sub(RING as usize - 1);
        pages.drain(..gone);
    }

    fn counted(&self, cpu: u16) -> Counts {
        self.rings.borrow()[&cpu].0.totals().0
    }

    fn now(&self) -> Now {
        let mono = *self.n.borrow() * 1000 + 1_000_000_000;
        Now { mono, wall: 1_700_000_000_000_000_000 + mono as i64 }
    }
}

impl Source for Memory {
    fn rings(&self) -> Vec<(Lane, u16, u64)> {
        vec![(Lane::Sched, 0, RING), (Lane::Sched, 1, RING)]
    }

    fn newest(&self, _: Lane, cpu: u16) -> u64 {
        self.rings.borrow()[&cpu].0.header().seq
    }

    fn counters(&self) -> Totals {
        let cpu = |cpu| CpuTotals {
            cpu,
            recorded: true,
            events: [Counts::ZERO, self.counted(cpu), Counts::ZERO, Counts::ZERO],
            ..CpuTotals::default()
        };
        Totals { now: self.now().mono, cpus: vec![cpu(0), cpu(1)], ..Totals::default() }
    }

    fn after(&self, after: Position, last: u64) -> impl Iterator<Item = Box<[u8; PAGE_SIZE]>> {
        let rings = self.rings.borrow();
        let (writer, pages) = &rings[&after.cpu];
        let open = writer.current().map(|page| Page::new(page).unwrap());
        let all: Vec<Page> = pages.iter().cloned().chain(open).collect();
        let new = move |page: &Page| {
            let (seq, used) = (page.header().seq, page.header().used);
            (seq > after.seq || seq == after.seq && used > after.used) && seq <= last
        };
        all.into_iter().filter(new).map(|page| Box::new(*page.bytes()))
    }
}

struct Nothing;

impl Opening for Nothing {
    fn meta(&mut self) -> Meta {
        Meta { session: SESSION, ..Meta::default() }
    }

    fn slots(&mut self) -> (u64, Vec<[u8; PAGE_SIZE]>) {
        (0, Vec::new())
    }

    fn descriptors(&mut self) -> Option<(u64, Vec<u8>)> {
        None
    }
}

fn writer(dir: &Path) -> StoreWriter {
    let limits = Limits {
        max_total: 1 << 30,
        keep_free: 0,
        keep_at_least: 0,
        max_age: None,
        file_size: 1 << 20,
        file_age: None,
    };
    StoreWriter::open(Options {
        state_dir: dir.into(),
        limits,
        level: 1,
        group: None,
        boot_id: BOOT,
        session: SESSION,
    })
}

/// A daemon at work.
struct Daemon {
    writer: StoreWriter,
    losses: Losses,
}

impl Daemon {
    fn start(dir: &Path) -> Self {
        Self { writer: writer(dir), losses: Losses::default() }
    }

    fn drain(&mut self, memory: &Memory, rings: Rings) -> bool {
        self.writer.ready(memory.now())
            && round(memory, rings, &mut self.writer, &mut Nothing, &mut self.losses, || {
                memory.now()
            })
            .is_some()
    }

    fn checkpoint(&mut self, memory: &Memory) {
        let job = self.writer.sync(memory.now()).expect("something to sync");
        self.writer.synced(job.run(), memory.now());
    }

    fn close(mut self, memory: &Memory) {
        let job = self.writer.close(&mut Nothing, memory.now()).expect("a file");
        self.writer.synced(job.run(), memory.now());
    }
}

/// What all files together hold.
fn streams(dir: &Path) -> Vec<LaneStream> {
    let mut rings = Streams::new(SESSION);
    for info in Store::open(dir).unwrap().all() {
        let file = FileReader::open(&info.path).unwrap();
        for block in file.blocks() {
            if let Content::Pages(pages) = file.read(block).unwrap() {
                assert!(pages.into_iter().all(|page| rings.add(page)));
            }
        }
    }
    rings.finish()
}

/// Recorded by CPU, and lost by CPU.
fn held(dir: &Path) -> Vec<(u64, u64)> {
    let lost = |stream: &LaneStream| {
        let first = stream.pages()[0].header().events.iter().sum::<u64>();
        first + stream.gaps().iter().filter_map(flightrec_format::ring::Gap::missing).sum::<u64>()
    };
    streams(dir).iter().map(|stream| (stream.recorded().iter().sum(), lost(stream))).collect()
}

#[test]
fn rounds_take_what_is_new_and_nothing_twice() {
    let (memory, dir) = (Memory::new(), TempDir::new().unwrap());
    let mut daemon = Daemon::start(dir.path());
    let (mut first, mut second) = (0, 0);
    for times in [3, 0, 1, 400, 7, 900, 0] {
        memory.happen(0, times);
        memory.happen(1, times / 3);
        (first, second) = (first + times, second + times / 3);
        assert!(daemon.drain(&memory, Rings::Live));
    }
    assert_eq!(
        (daemon.losses.written(), daemon.losses.lost()),
        ([0, first + second, 0, 0], [0; 4])
    );
    daemon.close(&memory);
    assert_eq!(held(dir.path()), [(first, 0), (second, 0)]);
    let times: Vec<u64> = streams(dir.path())[0].events().map(|event| event.time).collect();
    assert!(times.is_sorted_by(|a, b| a < b));
}

#[test]
fn what_is_overwritten_is_counted_once() {
    let (memory, dir) = (Memory::new(), TempDir::new().unwrap());
    let mut daemon = Daemon::start(dir.path());
    memory.happen(0, 100);
    assert!(daemon.drain(&memory, Rings::Live));
    memory.happen(0, 10_000);
    memory.happen(1, 5_000);
    assert!(daemon.drain(&memory, Rings::Live));
    let lost = daemon.losses.lost();
    assert_eq!(daemon.losses.written()[1] + lost[1], 15_100);
    daemon.close(&memory);
    let held = held(dir.path());
    assert_eq!(
        held.iter().map(|(recorded, lost)| recorded + lost).collect::<Vec<_>>(),
        [10_100, 5_000]
    );
    assert_eq!(held.iter().map(|(_, lost)| lost).sum::<u64>(), lost[1]);
}

#[test]
fn a_killed_daemon_is_followed_without_a_hole() {
    let (memory, dir) = (Memory::new(), TempDir::new().unwrap());
    for i in 0..12 {
        let mut daemon = Daemon::start(dir.path());
        memory.happen(i % 2, 150);
        assert!(daemon.drain(&memory, Rings::Live));
        if i % 3 != 0 {
            daemon.checkpoint(&memory);
        }
        memory.happen(0, 60);
        assert!(daemon.drain(&memory, Rings::Live));
        assert_eq!(daemon.losses.lost(), [0; 4]);
        drop(daemon); // nothing is closed
        memory.happen(1, 60);
    }
    let mut daemon = Daemon::start(dir.path());
    assert!(daemon.drain(&memory, Rings::Ended));
    daemon.close(&memory);
    assert_eq!(held(dir.path()), [(6 * 150 + 12 * 60, 0), (6 * 150 + 12 * 60, 0)]);
}

#[test]
fn a_directory_that_can_not_be_made_costs_nothing_as_long_as_the_rings_hold() {
    let (memory, dir) = (Memory::new(), TempDir::new().unwrap());
    let state = dir.path().join("state");
    std::fs::write(&state, "in the way").unwrap();
    let mut daemon = Daemon::start(&state);
    memory.happen(0, 500);
    assert!(!daemon.drain(&memory, Rings::Live));
    assert_eq!((daemon.losses.written(), daemon.losses.lost()), ([0; 4], [0; 4]));
    std::fs::remove_file(&state).unwrap();
    // Each attempt has its time.
    memory.happen(1, 3);
    *memory.n.borrow_mut() += 100_000_000;
    assert!(daemon.drain(&memory, Rings::Live));
    daemon.close(&memory);
    assert_eq!(held(&state), [(500, 0), (3, 0)]);
}

#[test]
fn files_that_are_deleted_are_written_again_and_their_losses_not_counted_again() {
    let (memory, dir) = (Memory::new(), TempDir::new().unwrap());
    let state = dir.path().join("state");
    let mut daemon = Daemon::start(&state);
    memory.happen(0, 10_000);
    assert!(daemon.drain(&memory, Rings::Live));
    let (written, lost) = (daemon.losses.written(), daemon.losses.lost());
    assert!(lost[1] > 5_000);
    std::fs::remove_dir_all(&state).unwrap();
    memory.happen(0, 1);
    while !daemon.drain(&memory, Rings::Live) {
        *memory.n.borrow_mut() += 1_000_000;
    }
    assert_eq!((daemon.losses.written()[1], daemon.losses.lost()), (written[1] + 1, lost));
    daemon.close(&memory);
    assert_eq!(held(&state), [(written[1] + 1, lost[1])]);
}

/// One CPU's ring of system calls, with all its pages, and its number of events.
struct Big(Vec<Page>, u64);
impl Source for Big {
    fn rings(&self) -> Vec<(Lane, u16, u64)> {
        vec![(Lane::Syscall, 0, 4096)]
    }
    fn newest(&self, _: Lane, _: u16) -> u64 {
        self.0.len() as u64
    }
    fn counters(&self) -> Totals {
        let cpu = CpuTotals {
            cpu: 0,
            recorded: true,
            events: [Counts::first([self.1]), Counts::ZERO, Counts::ZERO, Counts::ZERO],
            ..CpuTotals::default()
        };
        Totals { now: 1_000_000_000, cpus: vec![cpu], ..Totals::default() }
    }
    fn after(&self, after: Position, last: u64) -> impl Iterator<Item = Box<[u8; PAGE_SIZE]>> {
        let new = move |page: &&Page| page.header().seq > after.seq && page.header().seq <= last;
        self.0.iter().filter(new).map(|page| Box::new(*page.bytes()))
    }
}

#[test]
fn a_batch_that_ends_within_a_ring_leaves_nothing_behind() {
    // The last record of each page is an entry whose exit might fold: it is left out where the page
    // is taken for open.
    let ring = RefCell::new(PageWriter::new(SESSION, Lane::Syscall, 0, 0));
    let enter = |n: u64| {
        let call = flightrec_format::decode::Call {
            nr: 1,
            abi: flightrec_format::abi::record::Abi::Native,
            nargs: 0,
            args: [0; 6],
            strings: Vec::new(),
        };
        Event { time: 1_000_000_000 + n, cpu: 0, tid: 5, body: Body::Enter(call) }
    };
    let mut n = 0;
    while ring.borrow().header().seq < 2100 {
        ring.borrow_mut().push(&enter(n)).unwrap();
        n += 1;
    }
    let pages =
        ring.into_inner().finish().into_iter().map(|page| Page::new(page).unwrap()).collect();
    let (source, dir) = (Big(pages, n), TempDir::new().unwrap());
    let mut daemon = Daemon::start(dir.path());
    let now = || Now { mono: 1_000_000_000, wall: 1_700_000_000_000_000_000 };
    assert!(daemon.writer.ready(now()));
    let done =
        round(&source, Rings::Live, &mut daemon.writer, &mut Nothing, &mut daemon.losses, now);
    assert!(done.is_some());
    // But for the very last record, which is left for the next round.
    assert_eq!((daemon.losses.written()[0], daemon.losses.lost()), (n - 1, [0; 4]));
    drop(daemon.writer.close(&mut Nothing, now()));
    assert_eq!(held(dir.path()), [(n - 1, 0)]);
}
