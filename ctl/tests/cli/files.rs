//! The program on files: alone, and as the rings' past.

use std::fs;
use std::path::Path;
use std::process::Output;

use flightrec_store::{FileReader, Kind};

use crate::common::{
    BOOT_ID, NOW, Recording, SECOND, WALL, dump, flightctl, meta, stderr, stdout, usual,
};
use crate::disk::{Disk, boot_dir, calls, files, recorded};

/// A dump of files alone.
fn of_files(args: &[&str]) -> Output {
    flightctl(&[&["dump", "--fds", "off"], args].concat())
}

fn text<P: AsRef<Path> + ?Sized>(path: &P) -> &str {
    path.as_ref().to_str().unwrap()
}

/// The numbers of the calls in a dump, in its order.
fn numbers(out: &Output) -> Vec<u64> {
    assert!(matches!(out.status.code(), Some(0 | 3)), "{}", stderr(out));
    let number = |line: &str| line.split_once("write(")?.1.split_once(',')?.0.parse().ok();
    stdout(out).lines().filter_map(number).collect()
}

/// A moment so many seconds before the end, as typed.
fn ago(seconds: u64) -> String {
    let moment =
        jiff::Timestamp::from_nanosecond(i128::from(WALL + NOW - seconds * SECOND)).unwrap();
    moment.to_string()
}

#[test]
fn rings_and_files_are_one_history() {
    let (mut recording, dir) = recorded();
    // The rings hold about the last three seconds.
    let pages = recording.pages().iter().map(Vec::len).max().unwrap();
    recording.drop_pages = pages * 4 / 5;
    let daemon = recording.serve();
    let state = ["--state-dir", text(&dir)];
    let alone = dump(daemon.path(), &["--all", "--state-dir", "/nonexistent"]);
    assert!((100..6000).contains(&numbers(&alone).len()), "{}", numbers(&alone).len());
    let out = dump(daemon.path(), &[&["--all", "--strict"], &state[..]].concat());
    assert_eq!(numbers(&out), (0..15_000).collect::<Vec<_>>());
    assert_eq!(out.status.code(), Some(0), "complete: {}", stderr(&out));
    let out = dump(daemon.path(), &[&["--last", "10s", "--strict"], &state[..]].concat());
    assert_eq!(numbers(&out), (5_000..15_000).collect::<Vec<_>>());
    assert_eq!(out.status.code(), Some(0), "complete: {}", stderr(&out));
    let (since, until) = (ago(14), ago(12));
    let out = dump(
        daemon.path(),
        &[&["--since", &since, "--until", &until, "--strict"], &state[..]].concat(),
    );
    assert_eq!(numbers(&out), (1_000..3_000).collect::<Vec<_>>());
    assert_eq!(out.status.code(), Some(0), "complete: {}", stderr(&out));
}

#[test]
fn files_alone_tell_what_the_rings_told() {
    let (recording, dir) = recorded();
    let daemon = recording.serve();
    let (since, until) = (ago(9), ago(4));
    let window = ["--since", &since, "--until", &until, "--strict"];
    let live = dump(daemon.path(), &[&["--fds", "off"], &window[..]].concat());
    assert_eq!(live.status.code(), Some(0), "{}", stderr(&live));
    let mut paths: Vec<_> = files(dir.path());
    assert!(paths.len() >= 5, "{paths:?}");
    paths.rotate_left(2);
    paths.swap(0, 1);
    let all: Vec<&str> = paths.iter().map(text).collect();
    let boot = boot_dir(dir.path());
    let ways: [&[&str]; 3] =
        [&["--store", text(&dir)], &["--store", text(&boot)], &[&["--file"], &all[..]].concat()];
    for way in ways {
        let out = of_files(&[way, &window].concat());
        assert_eq!(stdout(&out), stdout(&live), "{way:?}: {}", stderr(&out));
        assert_eq!(out.status.code(), Some(0), "{way:?}: {}", stderr(&out));
    }
    // And where no daemon answers, from the state directory, which is said.
    let empty = tempfile::tempdir().unwrap();
    let args = ["--runtime-dir", text(&empty), "--state-dir", text(&dir), "dump", "--fds", "off"];
    let out = flightctl(&[&args[..], &window].concat());
    assert_eq!(stdout(&out), stdout(&live));
    assert!(stderr(&out).contains("flightd is not running"), "{}", stderr(&out));
}

#[test]
fn time_counts_back_from_the_last_moment_of_the_files() {
    let (_, dir) = recorded();
    let out = of_files(&["--store", text(&dir), "--last", "2s", "--strict"]);
    assert_eq!(numbers(&out), (13_000..15_000).collect::<Vec<_>>());
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let out = of_files(&["--store", text(&dir), "--since=-4s", "--until=-3s"]);
    assert_eq!(numbers(&out), (11_000..12_000).collect::<Vec<_>>());
}

#[test]
fn the_coverage_stands_first_and_once() {
    let (_, dir) = recorded();
    for window in [["--last", "14s"], ["--last", "9s"], ["--until=-2s", "--since=-12s"]] {
        let file = dir.path().join("out");
        for (format, marks) in [("text", "# coverage: "), ("jsonl", "{\"event\":\"coverage\",")] {
            let args = [&["--store", text(&dir), "--format", format][..], &window[..]].concat();
            let out = of_files(&args);
            let lines = stdout(&out);
            assert!(lines.starts_with(marks), "{}", lines.lines().next().unwrap_or_default());
            assert_eq!(lines.matches(marks).count(), 1, "{window:?}");
            // In a file it is written when all is read.
            let kept = of_files(&[&args[..], &["--force", "-o", text(&file)]].concat());
            assert_eq!(kept.status.code(), Some(0), "{}", stderr(&kept));
            assert_eq!(fs::read_to_string(&file).unwrap(), lines, "{window:?}");
        }
    }
}

#[test]
fn a_saved_window_reads_as_it_did_live() {
    let (recording, dir) = recorded();
    let daemon = recording.serve();
    drop(dir);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("incident.flight");
    let (since, until) = (ago(8), ago(5));
    let window = ["--since", &since, "--until", &until];
    let save = |more: &[&str]| {
        let args = ["--runtime-dir", text(&daemon), "save", "-o", text(&file)];
        flightctl(&[&args[..], &window, more].concat())
    };
    let saved = save(&["--strict"]);
    assert_eq!(saved.status.code(), Some(0), "{}", stderr(&saved));
    assert!(stderr(&saved).contains("saved") && stdout(&saved).is_empty(), "{}", stderr(&saved));
    for format in ["text", "jsonl"] {
        let live = dump(daemon.path(), &[&["--format", format], &window[..]].concat());
        let read = flightctl(
            &[&["dump", "--file", text(&file), "--format", format], &window[..]].concat(),
        );
        assert_eq!(stdout(&read), stdout(&live), "{}", stderr(&read));
    }
    // What was there stays, unless it is to be replaced.
    let before = fs::read(&file).unwrap();
    let again = save(&[]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("--force"), "{}", stderr(&again));
    assert_eq!(fs::read(&file).unwrap(), before);
    assert_eq!(save(&["--force"]).status.code(), Some(0));
    let names: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 1, "nothing else is left: {names:?}");
    // Whole, it has nothing to be told about.
    let verified = flightctl(&["verify", text(&file)]);
    assert_eq!(verified.status.code(), Some(0), "{}", stdout(&verified));
    assert!(!stdout(&verified).contains("missing"), "{}", stdout(&verified));
}

#[test]
fn a_window_is_saved_of_files_that_have_no_counters_yet() {
    let state = tempfile::tempdir().unwrap();
    let (dir, file) = (state.path().join("state"), state.path().join("saved.flight"));
    let mut recording = Recording::new();
    // Young: the file has the checkpoint that it begins with, and no other.
    let mut disk = Disk::new(&dir, meta(), WALL, 600);
    let end = calls(&mut recording, NOW - 2 * SECOND, 0..2_000);
    disk.append(&mut recording, end);
    let args = ["save", "--store", text(&dir), "--all", "-o", text(&file)];
    let saved = flightctl(&args);
    assert_eq!(saved.status.code(), Some(0), "{}", stderr(&saved));
    let all = numbers(&of_files(&["--store", text(&dir), "--all"]));
    assert!(all.len() > 1_000, "{}", all.len());
    assert_eq!(numbers(&of_files(&["--file", text(&file)])), all);
    let told = "on: the source has no later counters";
    for source in [["--store", text(&dir)], ["--file", text(&file)]] {
        let out = of_files(&[&source[..], &["--all", "--strict"]].concat());
        assert_eq!(out.status.code(), Some(3));
        assert!(stderr(&out).contains(told), "{}", stderr(&out));
    }
    let (since, until) = (ago(2), ago(1));
    let window = ["--file", text(&file), "--since", &since, "--until", &until];
    assert_eq!(numbers(&of_files(&window)), (0..1_000).collect::<Vec<_>>());
}

#[test]
fn a_window_is_saved_from_files_too() {
    let (_, dir) = recorded();
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("x.flight");
    let (since, until) = (ago(8), ago(5));
    let window = ["--since", &since, "--until", &until, "--strict"];
    let saved =
        flightctl(&[&["save", "--store", text(&dir), "-o", text(&file)], &window[..]].concat());
    assert_eq!(saved.status.code(), Some(0), "{}", stderr(&saved));
    let (read, expected) = (
        of_files(&[&["--file", text(&file)], &window[..]].concat()),
        of_files(&[&["--store", text(&dir)], &window[..]].concat()),
    );
    assert_eq!(stdout(&read), stdout(&expected));
    assert_eq!(read.status.code(), Some(0), "{}", stderr(&read));
    let verified = flightctl(&["verify", text(&file)]);
    assert!(!stdout(&verified).contains("missing"), "{}", stdout(&verified));
    let nothing = flightctl(&[
        "save",
        "--store",
        text(&dir),
        "-o",
        text(&file),
        "--force",
        "--since=2019-01-01T00:00:00Z",
        "--until=2019-01-02T00:00:00Z",
    ]);
    assert_eq!(nothing.status.code(), Some(1), "{}", stderr(&nothing));
}

/// Two boots: an earlier one of a day before, and the usual.
fn two_boots() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let earlier = "fedcba98-7654-3210-fedc-ba9876543210";
    let wall = WALL - 86_400 * SECOND;
    let mut recording = Recording::with(0xbef0, wall);
    let disk = Disk::new(
        dir.path(),
        flightrec_format::meta::Meta { session: 0xbef0, boot_id: earlier.into(), ..meta() },
        wall,
        60,
    );
    let end = calls(&mut recording, 110 * SECOND, 90_000..95_000);
    disk.close(&mut recording, end);
    let mut recording = Recording::new();
    let disk = Disk::new(dir.path(), meta(), WALL, 60);
    let end = calls(&mut recording, NOW - 5 * SECOND, 0..5_000);
    disk.close(&mut recording, end);
    dir
}

/// A boot, as the list in JSON has it.
fn boot(index: i32, boot_id: &str, from: &str, until: &str) -> serde_json::Value {
    serde_json::json!({ "index": index, "boot_id": boot_id, "from": from, "until": until })
}

#[test]
fn boots_are_listed_for_programs_and_into_files() {
    let dir = two_boots();
    let file = dir.path().join("boots.json");
    let list = ["dump", "--store", text(&dir), "--list-boots", "--format", "jsonl"];
    let out = flightctl(&[&list[..], &["-o", text(&file)]].concat());
    assert_eq!((out.status.code(), stdout(&out).as_str()), (Some(0), ""), "{}", stderr(&out));
    let again = flightctl(&[&list[..], &["-o", text(&file)]].concat());
    assert_eq!(again.status.code(), Some(2), "it is there: {}", stderr(&again));
    let boots = [
        boot(
            -1,
            "fedcba9876543210fedcba9876543210",
            "2025-12-31T00:01:50Z",
            "2025-12-31T00:01:55Z",
        ),
        boot(0, "0123456789abcdef0123456789abcdef", "2026-01-01T00:01:55Z", "2026-01-01T00:02:00Z"),
    ];
    let json: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(json, serde_json::json!({ "schema_version": 1, "boots": boots }));
    assert_eq!(stdout(&flightctl(&list)), fs::read_to_string(&file).unwrap());

    // What would make no difference is not taken.
    for more in [
        &["--pid", "7"][..],
        &["--errors"],
        &["--last", "1s"],
        &["--all"],
        &["--boot", "-1"],
        &["--merge"],
        &["--fds", "off"],
        &["--strict"],
    ] {
        let out = flightctl(&[&list[..], more].concat());
        assert_eq!(out.status.code(), Some(2), "{more:?}: {}", stdout(&out));
        assert!(stderr(&out).contains("cannot be used with"), "{more:?}: {}", stderr(&out));
    }
}

#[test]
fn boots_are_named_as_by_journalctl() {
    let dir = two_boots();
    let list = ["dump", "--store", text(&dir), "--list-boots"];
    let out = flightctl(&list);
    let expected = "\
IDX BOOT ID                          FIRST ENTRY                 LAST ENTRY
 -1 fedcba9876543210fedcba9876543210 Wed 2025-12-31 00:01:50 UTC Wed 2025-12-31 00:01:55 UTC
  0 0123456789abcdef0123456789abcdef Thu 2026-01-01 00:01:55 UTC Thu 2026-01-01 00:02:00 UTC
";
    assert_eq!(stdout(&out), expected, "{}", stderr(&out));
    let boot =
        |boot: &str| numbers(&of_files(&["--store", text(&dir), "--boot", boot, "--last", "1s"]));
    let (earlier, later): (Vec<u64>, Vec<u64>) =
        ((94_000..95_000).collect(), (4_000..5_000).collect());
    for name in
        ["-1", "1", "fedcba98-7654-3210-fedc-ba9876543210", "0123456789abcdef0123456789abcdef-1"]
    {
        assert_eq!(boot(name), earlier, "{name}");
    }
    for name in ["0", "-0", "2", "0123456789abcdef0123456789abcdef"] {
        assert_eq!(boot(name), later, "{name}");
    }
    assert_eq!(
        numbers(&of_files(&["--store", text(&dir), "-b", "--last", "1s"])),
        later,
        "of the running boot is nothing"
    );
    assert_eq!(
        numbers(&of_files(&["--store", text(&dir), "--last", "1s"])),
        later,
        "no length of time reaches over a boot"
    );
    let beyond = of_files(&["--store", text(&dir), "--boot", "-2"]);
    assert_eq!(beyond.status.code(), Some(2));
    assert!(stderr(&beyond).contains("2 boots"), "{}", stderr(&beyond));
}

#[test]
fn all_boots_are_told_one_after_the_other() {
    let dir = two_boots();
    let out = of_files(&["--store", text(&dir), "--all"]);
    assert_eq!(numbers(&out), (90_000..95_000).chain(0..5_000).collect::<Vec<_>>());
    let said = stderr(&out);
    assert!(
        said.contains("boot fedcba9876543210fedcba9876543210: recording 000000000000bef0"),
        "{said}"
    );
    assert!(
        said.contains("boot 0123456789abcdef0123456789abcdef: recording ab445cfd8bb85abd"),
        "{said}"
    );
    // A time of day finds its boot.
    let out = of_files(&[
        "--store",
        text(&dir),
        "--since",
        "2025-12-31T00:01:50Z",
        "--until",
        "2025-12-31T00:01:52Z",
    ]);
    assert_eq!(numbers(&out), (90_000..92_000).collect::<Vec<_>>(), "{}", stderr(&out));
}

#[test]
fn recordings_of_one_boot_follow_one_another() {
    let dir = tempfile::tempdir().unwrap();
    let mut recording = Recording::new();
    let disk = Disk::new(dir.path(), meta(), WALL, 60);
    // The first goes on a little beside the second, which has all of it from its beginning on.
    let end = calls(&mut recording, 110 * SECOND, 0..3_000);
    disk.close(&mut recording, end);
    let second = |session, started| flightrec_format::meta::Meta { session, started, ..meta() };
    let mut recording = Recording::with(0xbef1, WALL);
    let disk = Disk::new(dir.path(), second(0xbef1, 112 * SECOND), WALL, 60);
    let end = calls(&mut recording, 112 * SECOND, 2_000..4_000);
    disk.close(&mut recording, end);
    let out = of_files(&["--store", text(&dir), "--all", "--strict"]);
    assert_eq!(numbers(&out), (0..4_000).collect::<Vec<_>>());
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let said = stderr(&out);
    assert!(
        said.contains(
            "recording 000000000000bef1 began at 2026-01-01 00:01:52.000000, where the one before \
             it ends"
        ),
        "{said}"
    );
    let last = of_files(&["--store", text(&dir), "--last", "3s"]);
    assert_eq!(numbers(&last), (1_000..4_000).collect::<Vec<_>>(), "over the seam");

    // A third begins a second later: nobody knows what happened between.
    let mut recording = Recording::with(0xbef2, WALL);
    let disk = Disk::new(dir.path(), second(0xbef2, 115 * SECOND), WALL, 60);
    let end = calls(&mut recording, 115 * SECOND, 5_000..6_000);
    disk.close(&mut recording, end);
    let out = of_files(&["--store", text(&dir), "--all", "--strict"]);
    assert_eq!(out.status.code(), Some(3), "{}", stderr(&out));
    assert!(stderr(&out).contains("nothing was recorded in the 1.0 s between"), "{}", stderr(&out));
    let last = of_files(&["--store", text(&dir), "--last", "500ms", "--strict"]);
    assert_eq!(last.status.code(), Some(0), "the hole is not in this window: {}", stderr(&last));
}

/// Spoils the block of pages in the middle of a file; how many events it held, and when.
pub(crate) fn spoil(path: &Path) -> (u64, u64, u64) {
    let reader = FileReader::open(path).unwrap();
    let blocks: Vec<_> =
        reader.of(Kind::Pages).filter(|block| block.header.events > 100).copied().collect();
    let block = blocks[blocks.len() / 2];
    let mut bytes = fs::read(path).unwrap();
    let at = block.data() as usize + block.header.data_len as usize / 2;
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
    (block.header.events, block.header.first, block.header.last)
}

#[test]
fn damage_costs_what_was_damaged_and_is_told() {
    let (_, dir) = recorded();
    let path = files(dir.path())[2].clone();
    let (events, first, last) = spoil(&path);
    let out = of_files(&["--store", text(&dir), "--all", "--strict"]);
    assert_eq!(out.status.code(), Some(3), "{}", stderr(&out));
    assert_eq!(numbers(&out).len() as u64, 15_000 - events);
    let said = stderr(&out);
    assert!(said.contains(&format!("{events} events missing ({events} sys_enter)")), "{said}");
    assert!(said.contains(text(&path)) && said.contains("damaged"), "{said}");
    // The window ends within the damage: nothing after it is asked for, and yet it is known.
    let number = |mono: u64| (mono - (NOW - 15 * SECOND)) / (SECOND / 1000);
    let middle = jiff::Timestamp::from_nanosecond(i128::from(WALL + first.midpoint(last)))
        .unwrap()
        .to_string();
    let out = of_files(&["--store", text(&dir), "--until", &middle, "--strict"]);
    assert_eq!(numbers(&out), (0..number(first)).collect::<Vec<_>>());
    assert_eq!(out.status.code(), Some(3), "{}", stderr(&out));
    // It is said at once, and once.
    let out = of_files(&["--store", text(&dir), "--last", "14s", "--strict"]);
    let coverage: Vec<String> = stdout(&out)
        .lines()
        .filter(|line| line.starts_with("# coverage"))
        .map(str::to_owned)
        .collect();
    assert!(coverage.len() == 1 && coverage[0].ends_with("INCOMPLETE"), "{coverage:?}");
    // Other windows are whole.
    let out = of_files(&["--store", text(&dir), "--last", "3s", "--strict"]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));

    let verified = flightctl(&["verify", text(&dir)]);
    assert_eq!(verified.status.code(), Some(1), "{}", stdout(&verified));
    let said = stdout(&verified);
    assert!(
        said.contains("DAMAGED")
            && said.contains(&format!("{events} events in blocks that can't be read")),
        "{said}"
    );
    assert!(said.lines().filter(|line| line.contains(": sound: ")).count() >= 4, "{said}");
}

#[test]
fn a_file_that_is_gone_is_a_gap() {
    let (_, dir) = recorded();
    fs::remove_file(&files(dir.path())[2]).unwrap();
    let out = of_files(&["--store", text(&dir), "--all", "--strict"]);
    assert_eq!(out.status.code(), Some(3));
    let missing = 15_000 - numbers(&out).len();
    let said = stderr(&out);
    assert!(
        missing > 1000 && said.contains(&format!("{missing} events missing ({missing} sys_enter)")),
        "{said}"
    );
    assert!(said.contains("1 file missing from the series"), "{said}");
}

#[test]
fn files_are_listed() {
    let (_, dir) = recorded();
    let listed = flightctl(&["ls", text(&dir)]);
    assert_eq!(listed.status.code(), Some(0), "{}", stderr(&listed));
    let said = stdout(&listed);
    let paths = files(dir.path());
    assert!(said.contains(&format!("boot {}", BOOT_ID.replace('-', ""))), "{said}");
    assert!(paths.iter().all(|path| said.contains(text(path))), "{said}");
    assert!(said.lines().nth(2).unwrap().starts_with("2026-01-01 00:01:45.000 "), "{said}");
    let json = flightctl(&["ls", "--json", text(&dir)]);
    let document: serde_json::Value = serde_json::from_str(&stdout(&json)).unwrap();
    let listed = document["files"].as_array().unwrap();
    assert_eq!(listed.len(), paths.len());
    assert!(
        listed.iter().all(|file| file["state"] == "closed" && file["events"].as_u64().unwrap() > 0),
        "{document}"
    );
    assert_eq!(listed[0]["path"], text(&paths[0]));
    spoil(&paths[0]);
    let torn = fs::read(&paths[1]).unwrap();
    fs::write(&paths[1], &torn[..torn.len() * 2 / 3]).unwrap();
    let said = stdout(&flightctl(&["ls", text(&dir)]));
    assert!(said.lines().nth(3).unwrap().contains("unclosed"), "{said}");
}

#[test]
fn what_can_not_be_read_is_told_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let said = |args: &[&str]| {
        let out = flightctl(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        stderr(&out)
    };
    for command in ["ls", "verify"] {
        assert!(said(&[command, "/nonexistent"]).contains("does not exist"), "{command}");
        assert!(said(&[command, text(&dir)]).contains("no recording in"), "{command}");
    }
    assert!(said(&["dump", "--store", "/nonexistent"]).contains("/nonexistent does not exist"));
    assert!(said(&["dump", "--store", text(&dir)]).contains("no recording in"));
    let other = dir.path().join("notes.flight");
    fs::write(&other, "not a recording at all").unwrap();
    assert!(said(&["dump", "--file", text(&other)]).contains("notes.flight: no recording"));
    assert!(said(&["verify", text(&other)]).contains("notes.flight"));
    // A file that needs what this release does not have.
    let (_, made) = recorded();
    let path = files(made.path())[0].clone();
    let mut bytes = fs::read(&path).unwrap();
    let end = 8 + 96 - 4;
    bytes[8 + 24] |= 4; // incompatible, bit 2
    let crc = crc32fast::hash(&bytes[8..end]);
    bytes[end..end + 4].copy_from_slice(&crc.to_le_bytes());
    fs::write(&other, bytes).unwrap();
    assert!(said(&["dump", "--file", text(&other)]).contains("incompatible bits 2"));
    // Without a daemon, rings and files, both are said.
    let said = said(&["--runtime-dir", text(&dir), "--state-dir", "/nonexistent", "dump"]);
    assert!(
        said.contains("flightd is not running") && said.contains("/nonexistent does not exist"),
        "{said}"
    );
}

#[test]
fn a_recorder_that_was_killed_leaves_what_it_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let mut recording = Recording::new();
    let mut disk = Disk::new(dir.path(), meta(), WALL, 60);
    let end = calls(&mut recording, NOW - 5 * SECOND, 0..2_000);
    disk.drain(&mut recording, end);
    let end = calls(&mut recording, end, 2_000..3_000);
    disk.drain(&mut recording, end);
    drop(disk);
    let out = of_files(&["--store", text(&dir), "--all"]);
    let shown = numbers(&out);
    assert_eq!(shown, (0..shown.len() as u64).collect::<Vec<_>>());
    // The last entry might yet have become a whole call: it stays in the ring.
    assert!(shown.len() >= 2_980, "{}", shown.len());
    assert!(stderr(&out).contains("was not closed"), "{}", stderr(&out));
}

#[test]
fn more_files_than_may_usually_be_open_are_read() {
    let (_, dir) = recorded();
    let count = files(dir.path()).len();
    assert!(count >= 4, "{count} files");
    // Room for the program's own and two more.
    let script = "ulimit -Sn 6 && exec \"$0\" dump --fds off --all --strict --store \"$1\"";
    let mut shell = std::process::Command::new("/bin/sh");
    let args = ["-c", script, env!("CARGO_BIN_EXE_flightctl"), text(&dir)];
    let out = usual(&mut shell).args(args).output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert_eq!(numbers(&out), (0..15_000).collect::<Vec<_>>());
}
