//! Windows by time of day over recordings during which the wall clock was set: every event is found
//! by the time that it shows, wherever it is read from.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Output;

use flightrec_format::abi::page::Lane;
use flightrec_format::encode::in_kernel;
use flightrec_format::meta;
use flightrec_store::snapshot::About;
use flightrec_store::{FileReader, FileWriter};
use flightrec_vmcore::synthetic::{self, Image};
use tempfile::TempDir;

use crate::common::{NOW, Recording, SECOND, SECRET, STARTED, WALL, flightctl, stderr, stdout};
use crate::disk::{Disk, calls, files, getpid};

/// Halves of a second that are recorded, 500 calls each, up to [`NOW`].
const HALVES: u64 = 30;
/// When the first call is made.
const BEGIN: u64 = NOW - HALVES * SECOND / 2;
const HOUR: i64 = 3600;

/// What the wall clock does: at the beginning of a half of a second it is set by so many ns.
type Steps = Vec<(u64, i64)>;

/// Steps in seconds.
fn by_seconds(steps: &[(u64, i64)]) -> Steps {
    steps.iter().map(|(half, seconds)| (*half, seconds * SECOND as i64)).collect()
}

/// A recording, and where it can be read from.
struct Recorded {
    /// Of daemons, and of files; they go with it.
    _dirs: Vec<TempDir>,
    /// Name of the place, and what dumps it.
    places: Vec<(&'static str, Vec<String>)>,
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn owned(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

/// Records while the wall clock is set, into files as well if there is a directory.
fn record(steps: &Steps, dir: Option<&Path>) -> Recording {
    let mut recording = Recording::new();
    let mut disk = dir.map(|dir| Disk::new(dir, crate::common::meta(), WALL, 3));
    let (mut time, mut wall) = (BEGIN, WALL);
    for half in 0..HALVES {
        for (_, by) in steps.iter().filter(|(at, _)| *at == half) {
            wall = wall.wrapping_add_signed(*by);
        }
        recording.set_wall(wall);
        time = calls(&mut recording, time, half * 500..half * 500 + 500);
        if let Some(disk) = &mut disk {
            disk.wall = wall;
            disk.drain(&mut recording, time);
        }
    }
    if let Some(disk) = disk {
        disk.close(&mut recording, time);
    }
    recording
}

/// Records, and puts it wherever a recording can be.
fn recorded(steps: &Steps) -> Recorded {
    let (files_dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let state = text(files_dir.path());
    let mut recording = record(steps, Some(files_dir.path()));
    let image = other.path().join("vmcore");
    fs::write(&image, vmcore(&mut recording)).unwrap();
    snapshot(files_dir.path());
    // About the last three seconds are in the rings.
    recording.drop_pages = recording.pages().iter().map(Vec::len).max().unwrap() * 4 / 5;
    let (short, whole) = (recording.serve(), record(steps, None).serve());
    let saved = text(&other.path().join("saved.flight"));
    let live = ["--runtime-dir", &text(whole.path()), "--state-dir", "/nonexistent"];
    let out = flightctl(&[&live[..], &["save", "--all", "-o", &saved]].concat());
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let paths: Vec<String> = files(files_dir.path()).iter().map(|path| text(path)).collect();
    let places = vec![
        ("live", owned(&[&live[..], &["dump"]].concat())),
        (
            "rings and files",
            owned(&["--runtime-dir", &text(short.path()), "--state-dir", &state, "dump"]),
        ),
        ("store", owned(&["dump", "--store", &state])),
        ("files", [owned(&["dump", "--file"]), paths].concat()),
        ("saved", owned(&["dump", "--file", &saved])),
        (
            "snapshot",
            owned(&["--runtime-dir", "/x", "--state-dir", &state, "dump", "--snapshot", "latest"]),
        ),
        ("dump", owned(&["dump", "--vmcore", &text(&image)])),
    ];
    Recorded { _dirs: vec![files_dir, other, short, whole], places }
}

/// The pages of the rings in a machine's memory.
fn vmcore(recording: &mut Recording) -> Vec<u8> {
    let mut image = Image::new();
    let description = meta::pack(&crate::common::meta(), 1, meta::HALF_PAGES).unwrap();
    let rings: Vec<_> = recording.pages().into_iter().flatten().collect();
    let rings = rings.iter().map(|page| in_kernel(page, SECRET));
    let pages = description.iter().map(|page| in_kernel(page, SECRET)).chain(rings);
    for (place, page) in (100..).zip(pages) {
        image.insert(place, page);
    }
    synthetic::elf(&image, 0)
}

/// All files of a directory in one, as a snapshot.
fn snapshot(dir: &Path) -> PathBuf {
    let all: Vec<FileReader> =
        files(dir).iter().map(|path| FileReader::open(path).unwrap()).collect();
    fs::create_dir_all(dir.join("snapshots")).unwrap();
    let path = dir.join("snapshots/20260101T000159Z-asked.flight");
    let header = flightrec_store::FileHeader { number: 0, ..*all[0].header() };
    let mut to = FileWriter::new(File::create(&path).unwrap(), &header, 1).unwrap();
    for from in &all {
        for block in from.blocks() {
            to.push(from.block(block).unwrap()).unwrap();
        }
    }
    let about = About { held_from: STARTED, until: NOW, ..About::default() };
    to.snapshot(&about).unwrap();
    to.finish().unwrap();
    path
}

/// A call: its number, and the time that it shows, ns since 1970.
type Shown = (u64, i128);

/// The calls of a dump in JSON, in its order.
fn shown(out: &Output) -> Vec<Shown> {
    assert!(matches!(out.status.code(), Some(0 | 1)), "{}", stderr(out));
    let event = |line: &str| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let number = event["args"].get(0)?["value"].as_u64()?;
        let time: jiff::Timestamp = event["time"].as_str()?.parse().ok()?;
        Some((number, time.as_nanosecond()))
    };
    stdout(out).lines().filter_map(event).collect()
}

fn dump(place: &[String], more: &[&str]) -> Output {
    let args: Vec<&str> = place.iter().map(String::as_str).chain(more.iter().copied()).collect();
    flightctl(&args)
}

fn typed(wall: i128) -> String {
    jiff::Timestamp::from_nanosecond(wall).unwrap().to_string()
}

/// Windows that begin and end around the times that the clock showed, and around its steps.
fn windows(all: &[Shown]) -> Vec<(i128, i128)> {
    let at = |part: usize| all[(all.len() - 1) * part / 16].1;
    let ms = 1_000_000;
    let mut windows = vec![(at(5), at(6)), (at(6) + 7, at(14) + 7)];
    let steps = all.windows(2).filter(|pair| (pair[1].1 - pair[0].1 - ms).abs() > 10 * ms);
    for pair in steps.take(2) {
        // Around what was shown before the step, and around what was shown after it.
        windows.push((pair[0].1 - 700 * ms, pair[0].1 + 1300 * ms));
        windows.push((pair[1].1 - 1300 * ms, pair[1].1 + 700 * ms));
    }
    windows.retain(|(since, until)| since < until);
    windows
}

/// Looks in every place for the events of windows by the time that they show.
fn each_is_found_by_its_time(steps: &Steps) {
    let recorded = recorded(steps);
    let mut first: Option<Vec<Shown>> = None;
    for (place, args) in &recorded.places {
        let all = shown(&dump(args, &["--all", "--format", "jsonl"]));
        assert_eq!(all.len(), 15_000, "{place}");
        // One event shows one time, wherever it is read from.
        let first = first.get_or_insert_with(|| all.clone());
        assert!(*first == all, "{place}: other times than live");
        for (since, until) in windows(&all) {
            let of_window = |(_, time): &&Shown| (since..until).contains(time);
            let expected: Vec<Shown> = all.iter().filter(of_window).copied().collect();
            let window = ["--since", &typed(since), "--until", &typed(until), "--format", "jsonl"];
            let out = dump(args, &window);
            let found = shown(&out);
            let counts = (found.len(), expected.len());
            assert!(found == expected, "{place}, {window:?}: {counts:?}\n{}", stderr(&out));
        }
    }
}

#[test]
fn a_step_forward() {
    each_is_found_by_its_time(&by_seconds(&[(12, HOUR)]));
}

#[test]
fn a_step_back() {
    each_is_found_by_its_time(&by_seconds(&[(13, -4)]));
}

#[test]
fn a_step_forward_and_back_within_one_file() {
    each_is_found_by_its_time(&by_seconds(&[(7, HOUR), (10, -HOUR)]));
}

#[test]
fn steps_onto_the_same_times() {
    each_is_found_by_its_time(&by_seconds(&[(8, 5), (14, -5), (20, -3)]));
}

#[test]
fn a_clock_that_is_slewed() {
    each_is_found_by_its_time(&(0..HALVES).map(|half| (half, 250_000)).collect());
}

#[test]
fn an_event_has_one_time_whichever_pages_are_read_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut recording = Recording::new();
    let mut disk = Disk::new(dir.path(), crate::common::meta(), WALL, 3);
    for number in 0..15_000 {
        // A page's clocks are read one after the other: some 100 ns apart, and more when something
        // comes between.
        recording.set_wall(WALL - [70, 130, 700, 4_000][number as usize / 300 % 4]);
        let time = BEGIN + number * SECOND / 1000;
        recording.push(Lane::Syscall, &getpid(time, 0, number));
        if number % 500 == 499 {
            disk.drain(&mut recording, time + 1);
        }
    }
    disk.close(&mut recording, NOW);
    let daemon = recording.serve();
    let json = |args: &[&str], window: [&str; 2]| {
        shown(&flightctl(&[args, &window, &["--format", "jsonl"]].concat()))
    };
    let live = ["--runtime-dir", &text(daemon.path()), "--state-dir", "/nonexistent", "dump"];
    let all = json(&live, ["--all", "--strict"]);
    assert_eq!(all.len(), 15_000);
    for last in ["300ms", "1s", "4s", "7s"] {
        let from_files = json(&["dump", "--store", &text(dir.path())], ["--last", last]);
        assert!(
            from_files.len() > 100 && all.ends_with(&from_files),
            "{last}: {:?}",
            from_files.first()
        );
    }
}

/// Recorded live, with these steps.
fn live(steps: &[(u64, i64)]) -> TempDir {
    record(&by_seconds(steps), None).serve()
}

fn of(daemon: &TempDir, args: &[&str]) -> Output {
    flightctl(
        &[&["--runtime-dir", &text(daemon.path()), "--state-dir", "/nonexistent"], args].concat(),
    )
}

#[test]
fn a_time_that_was_shown_twice_is_said_to_be() {
    let daemon = live(&[(13, -4)]);
    // Shown from 5.0 s to 6.0 s, and again from 9.0 s to 10.0 s of the recording.
    let window = ["--since", "2026-01-01T00:01:50Z", "--until", "2026-01-01T00:01:51Z"];
    let out = of(&daemon, &[&["dump", "--strict"], &window[..]].concat());
    let told = stderr(&out);
    assert_eq!(out.status.code(), Some(0), "{told}");
    let lines: Vec<&str> = told.lines().collect();
    assert!(
        lines[0].starts_with("the wall clock was set back by 4.0 s at 2026-01-01 00:01:5"),
        "{told}"
    );
    assert_eq!(lines[1], "so the window has 2 parts, each with a coverage of its own", "{told}");
    let twice = "the clock showed 2026-01-01 00:01:50.000000 to 00:01:51.000000 more than once; \
         the dump has all of it";
    assert_eq!(lines[2].replace("2026-01-01 00:01:51", "00:01:51"), twice, "{told}");
    let coverage = "coverage: 2026-01-01 00:01:50.000000 to 00:01:51.000000 (1.0 s): complete";
    assert_eq!(lines.iter().filter(|line| line.starts_with(coverage)).count(), 2, "{told}");
    // The head of what is kept says the same.
    assert!(
        stdout(&out).starts_with(&format!("# {}\n# {}\n", lines[0], lines[1])),
        "{}",
        stdout(&out)
    );

    let json = stdout(&of(&daemon, &[&["dump", "--format", "jsonl"], &window[..]].concat()));
    let events = crate::json::valid(&json);
    let coverages = events.iter().take_while(|event| event["event"] == "coverage");
    assert_eq!(coverages.count(), 2);
    let set: Vec<_> = events.iter().filter(|event| event["event"] == "clock_set").collect();
    assert_eq!((set.len(), &set[0]["by_ns"]), (1, &(-4_000_000_000i64).into()), "{set:?}");

    // A whole dump says what its times of day do.
    let whole = stderr(&of(&daemon, &["dump", "--all"]));
    assert!(whole.contains(" more than once; the dump has all of it"), "{whole}");
    assert!(!stderr(&of(&live(&[]), &["dump", "--all"])).contains("wall clock"), "nothing to say");
}

#[test]
fn a_time_that_was_never_shown_is_said_not_to_have_been() {
    let daemon = live(&[(12, HOUR)]);
    let window = ["--since", "2026-01-01T00:10:00Z", "--until", "2026-01-01T00:11:00Z"];
    let out = of(&daemon, &[&["dump"], &window[..]].concat());
    assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
    assert_eq!(stderr(&out), "coverage: empty: the wall clock never showed these times\n");
    let later = of(&daemon, &["dump", "--since", "2026-01-01T03:00:00Z"]);
    assert!(stderr(&later).contains("the window begins in the future"), "{}", stderr(&later));
}

#[test]
fn what_a_window_across_a_step_saves_is_all_of_it() {
    let daemon = live(&[(7, HOUR), (10, -HOUR)]);
    let dir = tempfile::tempdir().unwrap();
    let file = text(&dir.path().join("x.flight"));
    // From before the first step until after the second one.
    let window = ["--since", "2026-01-01T00:01:47Z", "--until", "2026-01-01T00:01:52Z"];
    let out = of(&daemon, &[&["save", "--strict", "-o", &file], &window[..]].concat());
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let expected = shown(&of(&daemon, &[&["dump", "--format", "jsonl"], &window[..]].concat()));
    assert!((3000..4000).contains(&expected.len()), "{}", expected.len());
    let saved = flightctl(&[&["dump", "--file", &file, "--format", "jsonl"], &window[..]].concat());
    assert_eq!(shown(&saved), expected, "{}", stderr(&saved));
}

/// Its own window is what was asked for, and not what was between: the clock showed other times
/// then.
#[test]
fn what_is_saved_across_a_step_opens_on_what_was_asked_for() {
    let daemon = live(&[(7, HOUR), (10, -HOUR)]);
    let dir = tempfile::tempdir().unwrap();
    let [file, again] = ["x.flight", "y.flight"].map(|name| text(&dir.path().join(name)));
    let window = ["--since", "2026-01-01T00:01:47Z", "--until", "2026-01-01T00:01:52Z"];
    let out = of(&daemon, &[&["save", "--strict", "-o", &file], &window[..]].concat());
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let dumped = of(&daemon, &[&["dump", "--fds", "off"], &window[..]].concat());
    let (expected, told) = (stdout(&dumped), stderr(&dumped));
    assert!(expected.contains("the window has 2 parts"), "{expected}{told}");
    let opened = flightctl(&["dump", "--fds", "off", &file]);
    assert_eq!(stdout(&opened), expected);
    // Also when it is saved again.
    let out = flightctl(&["save", "--strict", "--file", &file, "-o", &again]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert_eq!(stdout(&flightctl(&["dump", "--fds", "off", &again])), expected);
}
