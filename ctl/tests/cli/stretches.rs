//! Windows that are told in stretches, since they do not fit into memory.

use std::process::Output;

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{Abi, Rename, StringStatus, WakeContext};
use flightrec_format::decode::{Body, Call, Event, Text};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tempfile::TempDir;

use crate::common::{NOW, Recording, SECOND, WALL, command, meta, stderr, stdout};
use crate::disk::{Disk, files, rewrite};

/// A limit at which some 250 pages are a stretch.
const SMALL: &str = "3M";

fn run(memory: &str, args: &[&str]) -> Output {
    command(args).env("FLIGHTREC_MEMORY", memory).output().unwrap()
}

fn event(time: u64, cpu: u16, tid: u32, body: Body) -> Event {
    Event { time, cpu, tid, body }
}

/// Calls that end after up to four seconds, by threads that are renamed, woken and switched, over
/// 20 seconds, in files of so many.
fn busy(file_seconds: u64) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut recording = Recording::new();
    let mut disk = Disk::new(dir.path(), meta(), WALL, file_seconds);
    let begin = NOW - 19 * SECOND;
    let call =
        |strings| Call { nr: 1, abi: Abi::Native, nargs: 3, args: [4, 5, 6, 0, 0, 0], strings };
    let comm = |n: u64| {
        let mut comm = [0; 16];
        comm[..9].copy_from_slice(format!("name{n:05}").as_bytes());
        comm
    };
    let mut long: Vec<(u64, u32)> = Vec::new();
    for n in 0..19_000u64 {
        let (time, tid) = (begin + n * SECOND / 1000, 10 + (n % 7) as u32);
        for (_, tid) in long.extract_if(.., |(end, _)| *end <= time) {
            let bare = Call { nargs: 0, args: [0; 6], ..call(Vec::new()) };
            recording.push(
                Lane::Syscall,
                &event(time, 1, tid, Body::Exit { call: bare, ret: 7, entered: None }),
            );
        }
        if n % 10 == 3 {
            let tid = 1000 + (n / 10) as u32;
            long.push((time + (1 + n % 40) * SECOND / 10, tid));
            recording.push(Lane::Syscall, &event(time + 1, 1, tid, Body::Enter(call(Vec::new()))));
        }
        let text = Text {
            index: 1,
            status: StringStatus::Whole,
            bytes: format!("text {n}").into_bytes().into(),
        };
        recording.push(Lane::Syscall, &event(time + 2, 0, tid, Body::Enter(call(vec![text]))));
        recording.push(
            Lane::Syscall,
            &event(
                time + 400,
                0,
                tid,
                Body::Exit { call: call(Vec::new()), ret: 3, entered: Some(time + 2) },
            ),
        );
        let body = Body::Waking {
            wakee: tid + 1,
            prio: 120,
            state: 1,
            cpu: 1,
            new: false,
            context: WakeContext::Thread,
        };
        recording.push(Lane::Sched, &event(time + 500, 0, tid, body));
        if n % 3 == 0 {
            let body = Body::Switch {
                prev_state: 1,
                next: tid + 1,
                preempted: false,
                io_wait: false,
                prev_prio: 120,
                next_prio: 120,
            };
            recording.push(Lane::Sched, &event(time + 600, 1, 3, body));
        }
        if n % 50 == 0 {
            let body =
                Body::Rename(Rename { tid, tgid: tid, old: comm(n / 350), new: comm(n / 350 + 1) });
            recording.push(Lane::Task, &event(time + 700, 0, tid, body));
        }
        if n % 500 == 499 {
            disk.drain(&mut recording, time + 1000);
        }
    }
    disk.close(&mut recording, begin + 19 * SECOND);
    dir
}

const WAYS: [&[&str]; 10] = [
    &["--last", "12s"],
    &["--since=-15s", "--until=-2s"],
    &["--last", "16s", "--format", "jsonl", "--merge"],
    &["--all", "--format", "jsonl"],
    &["--all", "--merge"],
    &["--all", "--fds", "all"],
    &["--all", "--slower-than", "2500ms"],
    &["--last", "12s", "--slower-than", "1900ms"],
    &["--all", "--comm", "name00020"],
    &["--all", "--tid", "1003", "--merge", "--format", "jsonl"],
];

/// Whether it is told of before it is read, if it is whole: how long calls took only their pages
/// tell, and nothing tells of the time before the files.
fn is_told_at_once(way: &[&str]) -> bool {
    !way.contains(&"--all") && !way.contains(&"--slower-than")
}

/// The lines of a dump, without those that say what it covers.
fn events(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.contains("\"event\":\"coverage\""))
        .collect()
}

/// What a window read in stretches shows is what it shows when it is read at once, whatever is
/// asked for.
#[test]
fn a_window_in_stretches_has_the_same_events() {
    let dir = busy(6);
    for way in WAYS {
        let args = [&["dump", "--store", dir.path().to_str().unwrap(), "--strict"], way].concat();
        let (one, many) = (run("512MiB", &args), run(SMALL, &args));
        assert_eq!(one.status.code(), Some(0), "{way:?}: {}", stderr(&one));
        assert_eq!(many.status.code(), Some(0), "{way:?}: {}", stderr(&many));
        let (one, many) = (stdout(&one), stdout(&many));
        // What is known to be whole before it is read is told at once.
        assert!(
            is_told_at_once(way)
                || many.matches("coverage").count() > one.matches("coverage").count(),
            "{way:?}: in stretches"
        );
        let (one, many) = (events(&one), events(&many));
        assert_eq!(one.iter().zip(&many).find(|(one, many)| one != many), None, "{way:?}");
        assert_eq!(one.len(), many.len(), "{way:?}");
    }
}

/// Where it is known before that all is there, not even what is said of the coverage differs.
#[test]
fn a_whole_window_in_stretches_reads_as_one() {
    for dir in [busy(60), busy(6)] {
        for way in WAYS.into_iter().filter(|way| is_told_at_once(way)) {
            assert_eq!(reads_as_one(&dir, way), Some(0), "{way:?}");
        }
    }
}

/// Compares what a dump says whose window is read at once with what it says in stretches; returns
/// its exit status.
fn reads_as_one(dir: &TempDir, way: &[&str]) -> Option<i32> {
    let args = [&["dump", "--store", dir.path().to_str().unwrap()], way].concat();
    let (one, many) = (run("512MiB", &args), run(SMALL, &args));
    assert_eq!(one.status.code(), many.status.code(), "{way:?}: {}", stderr(&many));
    let (one_lines, many_lines) = (stdout(&one), stdout(&many));
    let differs = one_lines.lines().zip(many_lines.lines()).find(|(one, many)| one != many);
    assert_eq!((differs, stderr(&many)), (None, stderr(&one)), "{way:?}");
    assert_eq!(one_lines.len(), many_lines.len(), "{way:?}");
    one.status.code()
}

/// Filters that need no events but those of the task lane, or turn out to; and some that do not.
const NARROW: [&[&str]; 12] = [
    &["--event", "rename"],
    &["--event", "rename,exec,fork,exit,mark,recorder"],
    &["--event", "exit"],
    &["--event", "rename", "--tid", "12"],
    &["--event", "rename", "--comm", "name0002?"],
    &["--event", "rename,switch", "--tid", "3"],
    &["--comm", "nosuch"],
    &["--comm", "nosuch,name99999", "--event", "waking"],
    &["--comm", "[n-z]ope*", "--syscall", "1"],
    &["--comm", "swapper*"],
    &["--comm", "name00020"],
    &["--comm", "*0005?,nosuch"],
];

const LOOKS: [&[&str]; 4] = [&[], &["--format", "jsonl"], &["--merge"], &["--graph"]];

/// Which pages are read for a filter makes no difference to what is said.
#[test]
fn what_is_not_needed_is_not_missed() {
    let windows = [&["--last", "12s"][..], &["--since=-15s", "--until=-2s"]];
    for store in [busy(60), busy(6)] {
        for (n, filter) in NARROW.into_iter().enumerate() {
            let [window, look] = [windows[n % 2], LOOKS[n / 2 % 4]];
            reads_as_one(&store, &[window, filter, look].concat());
        }
    }
}

/// Nor for any window, with and without counters that prove it complete before it is read.
#[test]
fn no_window_misses_what_is_not_needed() {
    // Not in a `static`, which nothing drops: its directories would stay.
    let stores = [busy(60), busy(6)];
    let config = ProptestConfig { cases: 12, failure_persistence: None, ..Default::default() };
    let ways = ((9u64..14, 0u64..4), 0..NARROW.len(), 0..LOOKS.len());
    let checked = TestRunner::new(config).run(&ways, |((length, until), which, look)| {
        let window = [format!("--since=-{}s", length + until), format!("--until=-{until}s")];
        let way = [&[window[0].as_str(), window[1].as_str()], NARROW[which], LOOKS[look]].concat();
        for store in &stores {
            let args = [&["dump", "--store", store.path().to_str().unwrap()], &*way].concat();
            let (one, many) = (run("512MiB", &args), run(SMALL, &args));
            prop_assert_eq!(one.status.code(), many.status.code(), "{:?}", way);
            let (one, many) = (stdout(&one), stdout(&many));
            prop_assert_eq!(events(&one), events(&many), "{:?}", way);
        }
        Ok(())
    });
    checked.unwrap_or_else(|e| panic!("{e}"));
}

/// Where a block is damaged, all is read, and the gap is told.
#[test]
fn damage_is_told_though_its_events_are_not_needed() {
    let dir = busy(60);
    let store = dir.path().to_str().unwrap();
    let dump = |kind| {
        let args = ["dump", "--store", store, "--last", "12s", "--event", kind, "--strict"];
        run(SMALL, &args)
    };
    let whole = dump("rename");
    assert_eq!(whole.status.code(), Some(0), "{}", stderr(&whole));
    let file = files(dir.path()).remove(0);
    let blocks = flightrec_store::FileReader::open(&file).unwrap().blocks().to_vec();
    let mut of_calls = blocks.iter().filter(|block| block.header.lane == Some(Lane::Syscall));
    let middle = of_calls.find(|block| block.header.first > NOW - 6 * SECOND).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[middle.data() as usize + 50] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let damaged = dump("rename");
    let said = stderr(&damaged);
    assert_eq!(damaged.status.code(), Some(0), "{said}");
    assert!(said.contains("damaged: ") && said.contains("gap: CPU 0, lane syscall"), "{said}");
    assert!(said.contains("events of lane syscall: no event of it is asked for"), "{said}");
    assert_eq!(events(&stdout(&damaged)), events(&stdout(&whole)));
    let damaged = dump("sys_enter");
    assert_eq!(damaged.status.code(), Some(3), "{}", stderr(&damaged));
}

/// Where the beginnings of calls are not known, the stretches tell of as many as one does, each of
/// its own: what was read before them is known.
#[test]
fn calls_that_began_before_the_window_are_told_once() {
    let dir = busy(3);
    let undecided = |memory: &str| {
        let args = ["dump", "--store", dir.path().to_str().unwrap(), "--last", "12s"];
        let out = run(memory, &[&args[..], &["--slower-than", "2500ms", "--strict"]].concat());
        assert_eq!(out.status.code(), Some(3));
        let said = stderr(&out);
        let lines = said.lines().filter(|line| line.contains(" that the filter can't decide"));
        let events = |line: &str| -> u64 {
            let before = line.split(" event").next().unwrap();
            before.rsplit(' ').next().unwrap().parse().unwrap()
        };
        (lines.map(events).sum::<u64>(), stdout(&out).matches("(>= ").count())
    };
    let whole = undecided("512M");
    assert!(whole.0 > 0 && whole.1 > 0, "{whole:?}");
    assert_eq!(undecided(SMALL), whole);
}

/// What is missing is told of the window, not of each of its stretches.
#[test]
fn the_coverage_of_a_window_in_stretches_is_that_of_the_window() {
    let dir = busy(60);
    let store = dir.path().to_str().unwrap();
    let file = files(dir.path()).remove(0);
    let blocks = flightrec_store::FileReader::open(&file).unwrap().blocks().to_vec();
    let mut bytes = std::fs::read(&file).unwrap();
    let of_calls = || blocks.iter().filter(|block| block.header.lane == Some(Lane::Syscall));
    for ago in [9, 6, 3] {
        let is_after = |of: &&_| -> bool {
            let block: &flightrec_store::BlockRef = of;
            block.header.first > NOW - ago * SECOND
        };
        bytes[of_calls().find(is_after).unwrap().data() as usize + 50] ^= 1;
    }
    std::fs::write(&file, bytes).unwrap();
    let ways: [&[&str]; 4] = [
        &["dump", "--event", "sys_enter"],
        &["report", "calls"],
        &["why", "--tid", "12"],
        &["top"],
    ];
    for way in ways {
        let args = [way, &["--store", store, "--last", "12s"]].concat();
        let of = |memory: &str| -> Vec<String> {
            let said = stderr(&run(memory, &args));
            let is_coverage =
                |line: &&str| ["coverage:", "lane ", "gap:"].iter().any(|word| line.contains(word));
            said.lines().filter(is_coverage).map(str::to_owned).collect()
        };
        let (one, many) = (of("512M"), of(SMALL));
        assert!(one.iter().any(|line| line.contains("INCOMPLETE")), "{way:?}: {one:#?}");
        assert!(one.iter().filter(|line| line.contains("gap:")).count() >= 3, "{way:?}: {one:#?}");
        assert_eq!(one, many, "{way:?}");
    }
}

/// A window is one file, however much of it fits into memory, and has the same events.
#[test]
fn a_window_in_stretches_is_saved_as_one_file() {
    for file_seconds in [6, 60] {
        let dir = busy(file_seconds);
        let out = tempfile::tempdir().unwrap();
        for (n, window) in [&["--all"][..], &["--last", "12s"], &["--since=-15s", "--until=-2s"]]
            .into_iter()
            .enumerate()
        {
            let save = |memory: &str, name: &str| {
                let path = out.path().join(format!("{name}{n}.flight"));
                let path = path.to_str().unwrap().to_owned();
                let store = dir.path().to_str().unwrap();
                let args = [&["save", "--store", store, "--strict", "-o", &path], window].concat();
                let out = run(memory, &args);
                assert_eq!(out.status.code(), Some(0), "{window:?}: {}", stderr(&out));
                (path, stderr(&out))
            };
            let ((one, _), (many, told)) = (save("512MiB", "one"), save(SMALL, "many"));
            assert_eq!(told.matches("saved ").count(), 1, "{told}");
            let verified = run("512MiB", &["verify", &many]);
            assert_eq!(verified.status.code(), Some(0), "{}", stdout(&verified));
            // Its own window, and all that it holds for names and durations: with what lies before
            // the window, but not all of it.
            for more in ["--strict", "--all"] {
                let dump = |path: &str| {
                    let out = run("512MiB", &["dump", path, more]);
                    assert_eq!(out.status.code(), Some(0), "{window:?}: {}", stderr(&out));
                    stdout(&out)
                };
                let (one, many) = (dump(&one), dump(&many));
                let (one, many) = (events(&one), events(&many));
                assert!(one.len() > 10_000, "{window:?}: {}", one.len());
                let differ = one.iter().zip(&many).find(|(one, many)| one != many);
                assert_eq!(differ, None, "{window:?}, {more:?}");
                assert_eq!(one.len(), many.len(), "{window:?}, {more:?}");
            }
        }
        assert_eq!(out.path().read_dir().unwrap().count(), 6, "a file for each");
    }
}

/// A call and a descriptor of an earlier stretch are known in the later ones: what the filter can't
/// decide is no more than of a window that is read at once.
#[test]
fn what_a_path_filter_knows_goes_on() {
    const OPENAT: u16 = 257;
    const WRITE: u16 = 1;
    let dir = tempfile::tempdir().unwrap();
    let mut recording = Recording::new();
    let mut disk = Disk::new(dir.path(), meta(), WALL, 60);
    let begin = NOW - 19 * SECOND;
    let call = |nr, args: &[u64], path: Option<&str>| {
        let text = |path: &str| {
            let bytes = path.as_bytes().into();
            Text { index: 1, status: StringStatus::Whole, bytes }
        };
        let nargs = args.len() as u8;
        let mut call = Call { nr, abi: Abi::Native, nargs, args: [0; 6], strings: Vec::new() };
        call.args.iter_mut().zip(args).for_each(|(to, arg)| *to = *arg);
        call.strings = path.map(text).into_iter().collect();
        call
    };
    let push = |recording: &mut Recording, time, tid, body| {
        recording.push(Lane::Syscall, &event(time, 0, tid, body));
    };
    let opens = |path: &str| call(OPENAT, &[u64::MAX - 99, 0x1000, 0], Some(path));
    let whole = |call: Call, ret, entered| Body::Exit { call, ret, entered: Some(entered) };
    let bare = || call(WRITE, &[], None);
    push(&mut recording, begin, 900, Body::Enter(opens("/srv/log")));
    push(&mut recording, begin + 100, 900, whole(opens("/srv/log"), 5, begin));
    push(&mut recording, begin + 200, 900, Body::Enter(call(WRITE, &[5, 0x2000, 64], None)));
    for n in 0..19_000u64 {
        let time = begin + SECOND / 1000 + n * SECOND / 1000;
        let path = format!("/tmp/some/file/number/{n}");
        push(&mut recording, time, 7, Body::Enter(opens(&path)));
        push(&mut recording, time + 100, 7, whole(opens(&path), -2, time));
        // It ends long after it began, and writes once more.
        if n == 15_000 {
            let again = call(WRITE, &[5, 0x2000, 64], None);
            let exit = Body::Exit { call: bare(), ret: 64, entered: None };
            push(&mut recording, time + 200, 900, exit);
            push(&mut recording, time + 300, 900, Body::Enter(again.clone()));
            push(&mut recording, time + 400, 900, whole(again, 0, time + 300));
        }
        if n % 500 == 499 {
            disk.drain(&mut recording, time + 1000);
        }
    }
    disk.close(&mut recording, begin + 20 * SECOND);
    let args = ["dump", "--store", dir.path().to_str().unwrap(), "--all", "--path", "/srv/log"];
    let args = [&args[..], &["--strict"]].concat();
    let ask = |memory| {
        let output = run(memory, &args);
        assert_eq!(output.status.code(), Some(0), "{memory}: {}", stderr(&output));
        output
    };
    // Only the first stretch is read whole.
    let (one, some) = (stdout(&ask("512MiB")), stdout(&ask(SMALL)));
    assert_eq!(events(&one), events(&some));
    for file in files(dir.path()) {
        rewrite(&file, |_, _| None);
    }
    let many = stdout(&ask(SMALL));
    assert!(many.matches("coverage").count() > one.matches("coverage").count(), "{many}");
    assert_eq!(events(&one), events(&many));
    assert_eq!(events(&many).iter().filter(|line| line.contains("write")).count(), 4, "{many}");
}
