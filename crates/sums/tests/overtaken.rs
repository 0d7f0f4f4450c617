//! Retention that is faster than adding up: what there are no sums of is told, and never nothing.

use std::path::Path;
use std::time::Duration;

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::abi::record::Abi;
use flightrec_format::decode::{Body, Call, Event, Page};
use flightrec_format::encode::PageWriter;
use flightrec_format::meta::{Meta, Syscall};
use flightrec_format::totals::{CpuTotals, Totals};
use flightrec_store::{Limits as StoreLimits, Now, Opening, Options, Store, StoreWriter};
use flightrec_sums::history;
use flightrec_sums::keeper::Limits;
use flightrec_sums::model::{Period, Table, flags};
use flightrec_sums::worker::{Turn, Worker};

const BOOT: [u8; 16] = [0xb0; 16];
const SESSION: u64 = 0x5e55;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const WALL: i64 = 1_800_000_000_000_000_000;
/// Where the recording begins.
const STARTED: u64 = 60 * MINUTE;
const ROOMY: Limits = Limits { max_size: 50_000_000, keep: None };

struct Beginning(Meta);

impl Opening for Beginning {
    fn meta(&mut self) -> Meta {
        self.0.clone()
    }

    fn slots(&mut self) -> (u64, Vec<[u8; PAGE_SIZE]>) {
        (STARTED, Vec::new())
    }

    fn descriptors(&mut self) -> Option<(u64, Vec<u8>)> {
        None
    }
}

/// A machine with one CPU and one thread that reads, recorded into files of two minutes.
struct Machine {
    ring: PageWriter,
    store: StoreWriter,
    opening: Beginning,
    now: u64,
    /// When each call ended.
    ended: Vec<u64>,
}

impl Machine {
    fn new(dir: &Path, max_total: u64) -> Self {
        let read = Syscall { nr: 0, name: "read".into(), args: None };
        let (cpus, native) = (vec![0], vec![read]);
        let meta = Meta { session: SESSION, started: STARTED, cpus, native, ..Meta::default() };
        let limits = StoreLimits {
            max_total,
            keep_free: 0,
            keep_at_least: 0,
            max_age: None,
            file_size: 1 << 20,
            file_age: Some(Duration::from_mins(2)),
        };
        let options = Options {
            state_dir: dir.into(),
            limits,
            level: 1,
            group: None,
            boot_id: BOOT,
            session: SESSION,
        };
        Self {
            ring: PageWriter::new(SESSION, Lane::Syscall, 0, 0),
            store: StoreWriter::open(options),
            opening: Beginning(meta),
            now: STARTED,
            ended: Vec::new(),
        }
    }

    /// So many seconds of 20 calls each, drained each second.
    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds {
            for i in 0..20 {
                let entered = self.now + i * 1_000_000;
                // Nothing that compresses well: the limit is reached by few events.
                let any = (entered ^ entered >> 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let args = [3, any, any.rotate_left(23), 0, 0, 0];
                let call = Call { nr: 0, abi: Abi::Native, nargs: 3, args, strings: Vec::new() };
                let returned = Call { nargs: 0, args: [0; 6], ..call.clone() };
                let exit = Body::Exit { call: returned, ret: 7, entered: Some(entered) };
                for (time, body) in [(entered, Body::Enter(call)), (entered + 1600, exit)] {
                    self.ring.push(&Event { time, cpu: 0, tid: 5, body }).unwrap();
                }
                self.ended.push(entered + 1600);
            }
            self.now += SECOND;
            self.drain();
        }
    }

    fn drain(&mut self) {
        let now = Now { mono: self.now, wall: WALL + self.now as i64 };
        assert!(self.store.ready(now));
        let (events, refused) = self.ring.totals();
        let mut cpu = CpuTotals { cpu: 0, recorded: true, ..CpuTotals::default() };
        (cpu.events[Lane::Syscall as usize], cpu.refused[Lane::Syscall as usize]) =
            (events, refused);
        let totals = Totals { now: self.now, cpus: vec![cpu], ..Totals::default() };
        let pages = self.ring.take().into_iter().chain(self.ring.current());
        let pages = pages.map(|page| Page::new(page).unwrap()).collect();
        self.store.append(pages, self.now, &mut self.opening, now);
        self.store.vouch(&totals);
        assert_eq!(*self.store.state(), flightrec_store::State::Ready);
    }

    fn close(mut self) -> Vec<u64> {
        let now = Now { mono: self.now, wall: WALL + self.now as i64 };
        self.store.close(&mut self.opening, now);
        self.ended
    }
}

/// All that can be added up.
fn add_up(worker: &mut Worker, is_live: bool) {
    while worker.turn(is_live.then_some((BOOT, SESSION))).unwrap() == Turn::More {}
}

fn read(dir: &Path) -> Vec<Period> {
    let mut periods = Vec::new();
    let damage =
        history::read(dir, (i64::MIN, i64::MAX), |_| true, |dated| periods.push(dated.period));
    assert_eq!(damage.unwrap(), Vec::<String>::new());
    periods
}

/// Each period has the calls that ended in it, or says that it has not; how many ns have no sums.
fn check(periods: &[Period], ended: &[u64]) -> u64 {
    let mut unsummed = 0;
    for period in periods {
        let inside = ended.iter().filter(|time| (period.from..period.until).contains(*time));
        let calls = period.rows.iter().filter(|(group, _)| group.table == Table::Calls);
        let counted: u64 = calls.map(|(_, cell)| cell.count).sum();
        if period.flags & flags::NOT_SUMMED != 0 {
            assert!(period.rows.is_empty(), "{period:?}");
            unsummed += period.until - period.from;
        } else {
            assert_eq!(counted, inside.count() as u64, "{} s", (period.from - STARTED) / SECOND);
            assert!(counted > 0 && period.missing() == 0);
        }
    }
    // Nothing is between them, so nothing is silently without sums.
    assert!(periods.windows(2).all(|pair| pair[0].until == pair[1].from), "{periods:?}");
    unsummed
}

#[test]
fn what_was_deleted_before_it_was_added_up_is_told() {
    for is_restarted in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut machine = Machine::new(dir.path(), 600_000);
        let mut worker = Worker::open(dir.path(), ROOMY, None).unwrap();
        machine.run(6 * 60);
        add_up(&mut worker, true);
        let first = Store::open(dir.path()).unwrap().all()[0].number;
        // Nobody adds up, until the files of some minutes are gone.
        machine.run(40 * 60);
        let store = Store::open(dir.path()).unwrap();
        assert!(store.all()[0].number > first + 5, "nothing was deleted");
        let begins = flightrec_store::read_header(&store.all()[0].path).unwrap().begins;
        if is_restarted {
            worker.flush().unwrap();
            worker = Worker::open(dir.path(), ROOMY, None).unwrap();
        }
        add_up(&mut worker, true);
        // What was not added up is the part that is gone, and no more.
        machine.run(3 * 60);
        add_up(&mut worker, true);
        let ended = machine.close();
        add_up(&mut worker, false);
        worker.flush().unwrap();
        let periods = read(dir.path());
        let unsummed = check(&periods, &ended);
        assert_eq!(worker.unsummed(), unsummed);
        let marked: Vec<&Period> =
            periods.iter().filter(|of| of.flags & flags::NOT_SUMMED != 0).collect();
        assert_eq!(marked.len(), 1, "restarted: {is_restarted}");
        assert_eq!(marked[0].until, begins, "restarted: {is_restarted}");
        assert!(marked[0].from < STARTED + 6 * MINUTE && unsummed > 10 * MINUTE);
        assert_eq!(periods[0].from, STARTED);
        assert!(periods.last().unwrap().until > *ended.last().unwrap());
    }
}

/// Who keeps up has sums of everything, also of what is deleted then.
#[test]
fn what_was_added_up_in_time_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut machine = Machine::new(dir.path(), 600_000);
    let mut worker = Worker::open(dir.path(), ROOMY, None).unwrap();
    for _ in 0..40 {
        machine.run(70);
        // Here nothing happens for a while, so that a file begins after the last event.
        machine.now += 30 * SECOND;
        machine.drain();
        add_up(&mut worker, true);
        let backlog = worker.backlog();
        assert!(backlog.waiting < 200_000, "{backlog:?}");
    }
    assert!(worker.backlog().done > 200_000, "{:?}", worker.backlog());
    let ended = machine.close();
    add_up(&mut worker, false);
    worker.flush().unwrap();
    assert!(Store::open(dir.path()).unwrap().all()[0].number > 5, "nothing was deleted");
    let periods = read(dir.path());
    assert_eq!((check(&periods, &ended), worker.unsummed()), (0, 0));
    assert_eq!(periods[0].from, STARTED);
}
