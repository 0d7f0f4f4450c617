use std::time::Duration;

use proptest::prelude::*;

use flightrec_format::abi::record::{Act, StringStatus};
use flightrec_format::control::Totals;
use flightrec_format::decode::{Body, Call, Event};
use flightrec_format::descriptors::Snapshot;
use flightrec_format::encode::PageWriter;
use flightrec_format::meta::{Argument, Meta, Syscall};
use flightrec_reader::coverage;
use flightrec_reader::pipeline::Doubt;
use flightrec_reader::pipeline::testing::{call, event, text};
use flightrec_reader::source::Collector;
use flightrec_reader::window::Window;

use super::*;
use crate::filter::{FilterPlan, FilterSpec};
use crate::print::run;
use crate::text::{Options, Renderer};

const READ: u16 = 0;
const OPENAT: u16 = 257;
const RENAME: u16 = 82;
const ADDRESS: u64 = 0x7f00_1234_5678;

fn meta() -> Meta {
    let table = |nr, name: &str, args: &[(&str, &str)]| {
        let args = args
            .iter()
            .map(|(ctype, name)| Argument { name: (*name).into(), ctype: (*ctype).into() })
            .collect();
        Syscall { nr, name: name.into(), args: Some(args) }
    };
    let path = "const char *";
    let native = vec![
        table(READ, "read", &[("unsigned int", "fd"), ("char *", "buf"), ("size_t", "count")]),
        table(OPENAT, "openat", &[("int", "dfd"), (path, "filename"), ("int", "flags")]),
        table(RENAME, "rename", &[(path, "oldname"), (path, "newname")]),
    ];
    Meta { session: 1, cpus: vec![0, 1], strings: true, native, ..Meta::default() }
}

/// What a call is recorded as.
#[derive(Debug, Clone)]
struct Made {
    tid: u32,
    nr: u16,
    args: Vec<u64>,
    strings: Vec<(u8, StringStatus, &'static str)>,
    ret: i64,
    /// `None`: the end stands alone, and has nothing but its value.
    entered: bool,
    /// ns; 0: not taken.
    took: u64,
}

impl Made {
    fn open(strings: &[(u8, &'static str)], ret: i64) -> Self {
        let strings =
            strings.iter().map(|(index, path)| (*index, StringStatus::Whole, *path)).collect();
        let args = vec![libc::AT_FDCWD as u64, ADDRESS, 0];
        Self { tid: 5, nr: OPENAT, args, strings, ret, entered: true, took: 496 }
    }

    fn read(fd: u64) -> Self {
        Self { nr: READ, args: vec![fd, ADDRESS, 10], ..Self::open(&[], 10) }
    }

    fn push(&self, time: u64, cpu: u16, writer: &mut PageWriter) {
        let mut entry = call(self.nr);
        entry.nargs = self.args.len() as u8;
        entry.args.iter_mut().zip(&self.args).for_each(|(slot, arg)| *slot = *arg);
        entry.strings =
            self.strings.iter().map(|(index, status, path)| text(*index, *status, path)).collect();
        if self.entered {
            writer.push(&event(time, cpu, self.tid, Body::Enter(entry))).unwrap();
        }
        let entered = self.entered.then_some(time);
        let exit = Body::Exit {
            call: Call { strings: Vec::new(), ..call(self.nr) },
            ret: self.ret,
            entered,
        };
        writer.push(&event(time + self.took, cpu, self.tid, exit)).unwrap();
    }
}

/// Calls, one a µs, those of odd numbers on CPU 1.
fn recording(made: &[Made]) -> PageSet {
    let mut collector = Collector::new(meta());
    let mut writers = [0, 1].map(|cpu| PageWriter::new(1, Lane::Syscall, cpu, 0));
    for (i, made) in made.iter().enumerate() {
        let cpu = i % 2;
        made.push(1000 + 1000 * i as u64, cpu as u16, &mut writers[cpu]);
    }
    for page in writers
        .iter_mut()
        .flat_map(|writer| std::mem::replace(writer, PageWriter::new(1, Lane::Task, 0, 0)).finish())
    {
        collector.add(page.as_slice()).unwrap();
    }
    let mut recording = collector.finish(Totals::default());
    // What was open before is known.
    recording.descriptors.push(Snapshot { begin: 1000, end: 1000, ..Snapshot::default() });
    recording
}

fn filter(args: FilterSpec) -> Filter {
    FilterPlan::new(args).unwrap().resolve(&meta()).unwrap()
}

fn of_path(path: &str) -> FilterSpec {
    FilterSpec { path: vec![path.into()], ..FilterSpec::default() }
}

/// A recording from its beginning on.
fn reading(recording: &PageSet) -> Reading<'static> {
    Reading { all: false, holes: coverage::holes(recording, Window::ALL), joins: None }
}

/// CPU, what is missing, from when, until when, how many events.
type Row = (u16, &'static str, u64, u64, u64);

/// Doubts about a recording, and how many events of it are shown.
fn found(made: &[Made], args: FilterSpec) -> (Vec<Row>, u64) {
    let (recording, filter) = (recording(made), filter(args));
    let all = Windows::from(Window { from: 0, until: 1_000_000_000 });
    let reading = reading(&recording);
    let found = doubts(&recording, &all, &all, &filter, &reading);
    let front = reading.front(&recording);
    let forced = count(&recording, &all, Doubts::new(all.iter()), &filter, &reading, front);
    assert!(found.all().eq(forced.all()), "the quick look");
    let row = |row: &Doubt| (row.cpu, row.part.name(), row.from, row.until, row.events);
    let renderer = Renderer::new(&recording.meta, Options::default());
    let shown =
        run(&recording, all, &filter, recording.wall_clock(0), renderer, &mut Vec::new()).unwrap();
    (found.all().map(row).collect(), shown)
}

#[test]
fn calls_without_the_path_that_they_were_given() {
    let made = [
        Made::open(&[(1, "/wanted")], 3),
        Made::open(&[], -2),
        Made::open(&[(1, "/other")], 4),
        Made::open(&[], 5),
        // No path at all, and one that could not be read.
        Made { args: vec![0, 0, 0], ..Made::open(&[], -14) },
        Made { strings: vec![(1, StringStatus::Unreadable, "")], ..Made::open(&[], -14) },
        // One of two.
        Made { nr: RENAME, args: vec![ADDRESS, ADDRESS + 9], ..Made::open(&[(0, "/x")], 0) },
    ];
    let expected = vec![
        (0, "paths", 7000, 7496, 2),
        (1, "paths", 2000, 4496, 4),
        // The call had no path: its exit says so by EFAULT, and nothing else does.
        (1, "unread_paths", 6000, 6000, 1),
    ];
    assert_eq!(found(&made, of_path("/wanted")), (expected, 2));
    // The rest of the question decides without a path.
    let nobody = FilterSpec { tid: vec![6], ..of_path("/wanted") };
    assert_eq!(found(&made, nobody), (vec![], 0));
    let failed = FilterSpec { errors: true, ..of_path("/wanted") };
    assert_eq!(found(&made, failed), (vec![(1, "paths", 2496, 2496, 1)], 0));
    let cpu = FilterSpec { cpu: vec![0], ..of_path("/wanted") };
    assert_eq!(found(&made, cpu).0, [(0, "paths", 7000, 7496, 2)]);
    // Who asks for something else knows all.
    assert_eq!(found(&made, FilterSpec { tid: vec![5], ..FilterSpec::default() }), (vec![], 14));
}

#[test]
fn descriptors_of_a_path_that_was_given_up() {
    let made = [
        Made::open(&[], 3),
        Made::read(3),
        Made::read(4),
        Made::open(&[(1, "/wanted")], 3),
        Made::read(3),
    ];
    let (rows, shown) = found(&made, of_path("/wanted"));
    assert_eq!(rows, [(0, "paths", 1000, 1496, 2), (1, "descriptors", 2000, 2496, 2)]);
    assert_eq!(shown, 4);
}

/// What was opened where events are missing may be anything, until a snapshot tells.
#[test]
fn descriptors_that_were_opened_in_a_gap() {
    let made = [
        Made::open(&[(1, "/wanted")], 3),
        Made::read(3),
        Made::read(4),
        Made { took: 300, ..Made::read(4) },
    ];
    let mut recording = recording(&made);
    let filter = filter(of_path("/wanted"));
    let all = Windows::from(Window { from: 0, until: 1_000_000_000 });
    let mut told = |snapshot: Snapshot| {
        recording.descriptors = vec![snapshot];
        let found = doubts(&recording, &all, &all, &filter, &reading(&recording));
        found
            .all()
            .map(|row| (row.cpu, row.part.name(), row.from, row.until, row.events))
            .collect::<Vec<Row>>()
    };
    let before = Snapshot { begin: 1000, end: 1000, ..Snapshot::default() };
    assert_eq!(told(before), []);
    let between = Snapshot { begin: 3600, end: 3600, ..Snapshot::default() };
    assert_eq!(told(between), [(0, "descriptors", 3000, 3496, 2)]);
    let partial = Snapshot { begin: 1000, end: 1000, left_out: 1, ..Snapshot::default() };
    assert_eq!(
        told(partial),
        [(0, "descriptors", 3000, 3496, 2), (1, "descriptors", 4000, 4288, 2)]
    );
}

#[test]
fn arguments_that_were_given_up() {
    let made = [Made { args: vec![libc::AT_FDCWD as u64], ..Made::open(&[], 3) }, Made::read(9)];
    assert_eq!(found(&made, of_path("/wanted")), (vec![(0, "arguments", 1000, 1496, 2)], 0));
}

#[test]
fn calls_whose_time_was_given_up() {
    let made = [Made { took: 0, ..Made::read(3) }, Made::read(3)];
    let limits = |slower: Option<u64>, faster: Option<u64>| FilterSpec {
        slower_than: slower.map(Duration::from_nanos),
        faster_than: faster.map(Duration::from_nanos),
        ..FilterSpec::default()
    };
    let untimed = vec![(0, "exit_times", 1000, 1000, 1)];
    assert_eq!(found(&made, limits(Some(400), None)), (untimed.clone(), 1));
    assert_eq!(found(&made, limits(None, Some(600))), (untimed.clone(), 1));
    assert_eq!(found(&made, limits(Some(400), Some(20_000_000))), (untimed, 1));
    // It took less than a jiffy.
    assert_eq!(found(&made, limits(Some(20_000_000), None)), (vec![], 0));
    assert_eq!(found(&made, limits(None, Some(20_000_000))), (vec![], 2));
}

#[test]
fn ends_without_a_beginning() {
    let made = [Made::open(&[(1, "/wanted")], 3), Made { entered: false, ..Made::open(&[], 4) }];
    assert_eq!(found(&made, of_path("/wanted")), (vec![(1, "entries", 2496, 2496, 1)], 2));
}

/// What the recorder says of itself is shown whatever the filter, and is no match.
#[test]
fn the_recorders_own_lines_stay() {
    let mut collector = Collector::new(meta());
    let mut writer = PageWriter::new(1, Lane::Task, 0, 0);
    for (i, act) in [Act::Start, Act::Level, Act::Detached, Act::Attached].into_iter().enumerate() {
        let line = text(0, StringStatus::Whole, &format!("line {}", act as u16));
        let act =
            Event { time: 1000 + i as u64, cpu: 0, tid: 1, body: Body::Act(act as u16, line) };
        writer.push(&act).unwrap();
    }
    for page in writer.finish() {
        collector.add(page.as_slice()).unwrap();
    }
    let recording = collector.finish(Totals::default());
    let shown = |args: FilterSpec| {
        let (filter, mut out) = (filter(args), Vec::new());
        let renderer = Renderer::new(&recording.meta, Options::default());
        let window = Window { from: 0, until: 1003 };
        let n =
            run(&recording, window, &filter, recording.wall_clock(0), renderer, &mut out).unwrap();
        let lines = String::from_utf8(out).unwrap();
        (n, (1..8).filter(|act| lines.contains(&format!("line {act}"))).collect::<Vec<u16>>())
    };
    assert_eq!(shown(of_path("/wanted")), (0, vec![4, 5]));
    assert_eq!(shown(FilterSpec { tid: vec![77], ..FilterSpec::default() }), (0, vec![4, 5]));
    assert_eq!(shown(FilterSpec::default()), (3, vec![1, 4, 5]));
}

fn made() -> impl Strategy<Value = Made> {
    let string = prop_oneof![Just(None), Just(Some("/wanted")), Just(Some("/other"))];
    let parts = (
        string,
        0..3usize,
        0..3u32,
        3..6i64,
        any::<bool>(),
        prop_oneof![Just(0u64), Just(100), Just(900)],
    );
    (0..3u8, parts).prop_map(|(kind, (string, fewer, tid, fd, entered, took))| {
        let strings: Vec<_> = string.iter().map(|path| (1, *path)).collect();
        let mut made = match kind {
            0 => Made::read(fd as u64),
            1 => Made { nr: RENAME, args: vec![ADDRESS, ADDRESS], ..Made::open(&strings, 0) },
            _ => Made::open(&strings, fd),
        };
        if fewer == 0 {
            made.args.truncate(1);
            made.strings.clear();
        }
        Made { tid, entered: entered || fewer != 1, took, ..made }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Of every event that the filter would want were all known, it is shown or it is told that it may be wanted.
    #[test]
    fn nothing_is_passed_over_in_silence(made in prop::collection::vec(made(), 0..40)) {
        let whole: Vec<Made> = made.iter().map(|made| match made.nr {
            // What was recorded of it is what it was; what is missing may have been what is wanted.
            OPENAT | RENAME if made.strings.is_empty() => {
                Made { strings: vec![(1, StringStatus::Whole, "/wanted")], args: vec![0, ADDRESS, 0], ..made.clone() }
            }
            _ => made.clone(),
        }).map(|made| Made { entered: true, ..made }).collect();
        let (rows, shown) = found(&made, of_path("/wanted"));
        let (_, at_most) = found(&whole, of_path("/wanted"));
        let undecided: u64 = rows.iter().map(|row| row.4).sum();
        let missing = made.iter().filter(|made| !made.entered).count() as u64;
        prop_assert!(at_most <= shown + undecided + missing, "{at_most} of {shown} and {undecided}, {missing}");
    }
}
