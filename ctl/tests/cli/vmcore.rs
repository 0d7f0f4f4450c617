//! `dump --vmcore`, of dumps made by hand.

use std::path::{Path, PathBuf};

use flightrec_format::abi::kinds::{BlockComplete, BlockIssue, Kind};
use flightrec_format::abi::page::{HEADER_LEN, Lane, PAGE_SIZE};
use flightrec_format::abi::record::{Abi, StringStatus};
use flightrec_format::abi::slot::{BLOCKED, IN_SYSCALL, TaskSlot};
use flightrec_format::chunks;
use flightrec_format::decode::{Body, Call, Event, Plain, Text};
use flightrec_format::descriptors::{Descriptor, HALF_PAGES, Object, Snapshot, Table};
use flightrec_format::encode::{PageWriter, in_kernel, write_header, write_slot};
use flightrec_format::identity::public_id;
use flightrec_format::meta::{self, Lanes, Meta};
use flightrec_vmcore::synthetic::{self, Codec, Image};
use tempfile::TempDir;

use super::common::{
    NOW, Recording, SECOND, SECRET, SESSION, STARTED, WALL, flightctl, meta, stderr, stdout,
};
use super::disk::{Disk, calls, files};

/// When the machine died.
const DEATH: u64 = 130 * SECOND;

pub(crate) type Bytes = Box<[u8; PAGE_SIZE]>;

pub(crate) fn event(time: u64, cpu: u16, tid: u32, body: Body) -> Event {
    Event { time, cpu, tid, body }
}

pub(crate) fn call(nr: u16, args: &[u64]) -> Call {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    Call { nr, abi: Abi::Native, nargs: args.len() as u8, args: all, strings: Vec::new() }
}

fn switch(next: u32, prev_state: u16) -> Body {
    Body::Switch {
        prev_state,
        next,
        preempted: false,
        io_wait: false,
        prev_prio: 120,
        next_prio: 120,
    }
}

pub(crate) fn slot(tid: u32, name: &[u8], flags: u32) -> TaskSlot {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name);
    TaskSlot {
        seq: 2,
        tid,
        tgid: tid,
        flags,
        start_time: 5,
        cgroup: 0,
        comm,
        since: DEATH - 7 * SECOND,
        state: 2,
        nr: 1,
        args: [4, 0x1000, 99, 0, 0, 0],
        ppid: 1,
        prio: 120,
        abi: 0,
        known: 0,
    }
}

pub(crate) fn slots_page(slots: &[TaskSlot]) -> Bytes {
    let mut header = PageWriter::new(SESSION, Lane::Slots, 0, 0).header();
    (header.seq, header.used) = (1, 1024);
    let mut page = Box::new([0; PAGE_SIZE]);
    page[..HEADER_LEN].copy_from_slice(&write_header(&header));
    for (i, slot) in slots.iter().enumerate() {
        page[HEADER_LEN + i * 128..][..128].copy_from_slice(&write_slot(slot));
    }
    page
}

pub(crate) fn described(meta: &Meta) -> Vec<Bytes> {
    meta::pack(meta, 1, meta::HALF_PAGES).unwrap().into_iter().map(Box::new).collect()
}

/// What the machine's memory held: thread 7 writes on CPU 1 when the machine dies, 9 is blocked in
/// a write that began 7 s before, 8 was pushed aside by 7 in its own code, CPU 0 idles.
pub(crate) fn pages() -> Vec<Bytes> {
    let tai = WALL + 37 * SECOND;
    let mut calls = PageWriter::new(SESSION, Lane::Syscall, 1, tai);
    for i in 0..500u64 {
        let at = STARTED + SECOND + i * 10_000_000;
        calls.push(&event(at, 1, 7, Body::Enter(call(39, &[])))).unwrap();
        let exit = Body::Exit { call: call(39, &[]), ret: 7, entered: Some(at) };
        calls.push(&event(at + 320, 1, 7, exit)).unwrap();
    }
    let text =
        Text { index: 1, status: StringStatus::Whole, bytes: b"the last words".to_vec().into() };
    let stuck = Call { strings: vec![text], ..call(1, &[4, 0x1000, 99]) };
    calls.push(&event(DEATH - 7 * SECOND - 1000, 1, 9, Body::Enter(stuck))).unwrap();
    calls.push(&event(DEATH - 2_000_000, 1, 7, Body::Enter(call(1, &[1, 0x2000, 2])))).unwrap();
    let mut sched = PageWriter::new(SESSION, Lane::Sched, 1, tai);
    sched.push(&event(DEATH - 7 * SECOND, 1, 9, switch(8, 2))).unwrap();
    sched.push(&event(DEATH - 3_000_000, 1, 8, switch(7, 0))).unwrap();
    let mut idle = PageWriter::new(SESSION, Lane::Sched, 0, tai);
    idle.push(&event(DEATH - 1, 0, 5, switch(0, 1))).unwrap();
    let slots =
        [slot(7, b"sh", 0), slot(8, b"busy", 0), slot(9, b"stu\x1bck", BLOCKED | IN_SYSCALL)];
    let rings = [calls.finish(), sched.finish(), idle.finish()].concat();
    [described(&meta()), rings, vec![slots_page(&slots)]].concat()
}

/// The secret of the recording before, and of one that a process makes up.
const SECRET_BEFORE: u64 = 0xbef0;
pub(crate) const SECRET_FORGED: u64 = 0xf0f0;

/// A page as the kernel's memory has it.
pub(crate) fn in_memory(page: &Bytes) -> Bytes {
    let session = page[8..16].try_into().map(u64::from_le_bytes).unwrap();
    let known = [SECRET, SECRET_BEFORE, SECRET_FORGED]
        .into_iter()
        .find(|secret| public_id(*secret) == session);
    in_kernel(page, known.unwrap_or(session))
}

/// Pages among others, as memory has them.
pub(crate) fn image(pages: &[Bytes]) -> Image {
    let mut image = Image::new();
    for (i, page) in (0u64..).zip(pages) {
        image.insert(100 - i * 3 % 90, in_memory(page));
        image.insert(200 + i, Box::new([i as u8; PAGE_SIZE]));
    }
    image
}

pub(crate) fn file(dir: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join("vmcore");
    std::fs::write(&path, bytes).unwrap();
    path
}

pub(crate) fn dump(path: &Path, args: &[&str]) -> std::process::Output {
    flightctl(&[&["dump", "--vmcore", path.to_str().unwrap()], args].concat())
}

#[test]
fn events_up_to_the_last() {
    let dir = tempfile::tempdir().unwrap();
    let image = image(&pages());
    let kdump = synthetic::kdump(&image, Codec::Zlib);
    let forms = [
        synthetic::elf(&image, 0x7c8),
        synthetic::flatten(&kdump, 3000),
        kdump,
        synthetic::raw(&image),
    ];
    let mut texts = Vec::new();
    for bytes in forms {
        let out = dump(&file(&dir, &bytes), &["--last", "5ms", "--strict"]);
        assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
        assert!(
            stderr(&out).contains("complete on CPUs 0-1 in lanes syscall, sched, task, kernel"),
            "{}",
            stderr(&out)
        );
        texts.push(stdout(&out));
    }
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:#?}");
    assert!(
        texts[0].contains("write(1, 0x2000, 2") && !texts[0].contains("getpid"),
        "{}",
        texts[0]
    );
}

#[test]
fn threads_in_flight() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, &synthetic::kdump(&image(&pages()), Codec::Lzo));
    let out = dump(&path, &["--in-flight"]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let text = stdout(&out);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!(
        lines[1],
        "      2.0 ms        7        7  sh               R      write(1, 0x2000, 2), on CPU 1"
    );
    assert_eq!(
        lines[2],
        "      3.0 ms        8        8  busy             R      its own code, waiting for a CPU"
    );
    assert!(lines[3].starts_with("       7.0 s        9        9  stu\\33ck"), "{text}");
    assert!(lines[3].contains("D      write(4, ") && lines[3].contains("the last words"), "{text}");

    let out = dump(&path, &["--in-flight", "--format", "jsonl"]);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let threads = json["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 3);
    let of = |i: usize, field: &str| threads[i][field].clone();
    assert_eq!((of(0, "tid"), of(0, "state"), of(0, "cpu")), (7.into(), "R".into(), 1.into()));
    assert_eq!(
        (of(2, "tid"), of(2, "state"), of(2, "cpu")),
        (9.into(), "D".into(), serde_json::Value::Null)
    );
}

/// The same, and of two requests to a disk one that is not done.
pub(crate) fn pages_with_request() -> Vec<Bytes> {
    let mut ring = PageWriter::new(SESSION, Lane::Kernel, 1, WALL + 37 * SECOND);
    let issue = |request| BlockIssue {
        request,
        device: 254 << 20,
        sector: 64,
        bytes: 4096,
        op: 1,
        flags: 0,
        context: 1,
    };
    for request in [1, 2] {
        let plain = Plain::read(Kind::BlockIssue, &issue(request).bytes()).unwrap();
        ring.push(&event(DEATH - 4_000_000, 1, 7, Body::Plain(plain))).unwrap();
    }
    let done = BlockComplete {
        request: 1,
        device: 254 << 20,
        sector: 64,
        bytes: 4096,
        op: 1,
        flags: 0,
        context: 3,
        left: 0,
        error: 0,
    };
    let plain = Plain::read(Kind::BlockComplete, &done.bytes()).unwrap();
    ring.push(&event(DEATH - 3_000_000, 1, 8, Body::Plain(plain))).unwrap();
    [pages(), ring.finish()].concat()
}

#[test]
fn requests_in_flight() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, &synthetic::elf(&image(&pages_with_request()), 0));
    let text = stdout(&dump(&path, &["--in-flight"]));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 6, "{text}");
    assert_eq!(
        lines[5],
        "      4.0 ms  254:0            write               4096              64  7, at the disk"
    );
    let out = dump(&path, &["--in-flight", "--format", "jsonl"]);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let expected = serde_json::json!([{"device": "254:0", "op": "write", "sector": 64,
        "bytes": 4096, "issued": true, "issued_by": 7, "ns": 4_000_000}]);
    assert_eq!(json["requests"], expected);
}

#[test]
fn threads_that_the_table_had_no_place_for_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut pages = pages();
    let table = pages.iter_mut().find(|page| page[18] == Lane::Slots as u8).unwrap();
    // How often a thread found no place in this page.
    table[104..112].copy_from_slice(&3u64.to_le_bytes());
    let path = file(&dir, &synthetic::elf(&image(&pages), 0));
    for args in
        [&["dump", "--in-flight", "--vmcore", text(&path)][..], &["ps", "--vmcore", text(&path)]]
    {
        let out = flightctl(args);
        // It left its CPU a moment before, and did not end.
        assert!(
            stderr(&out).contains("1 thread has no place in the thread table (5)"),
            "{args:?}: {}",
            stderr(&out)
        );
    }
}

#[test]
fn blocked_threads_of_a_dump() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, &synthetic::elf(&image(&pages()), 0));
    let ps = |more: &[&str]| flightctl(&[&["ps", "--vmcore", text(&path)], more].concat());
    let out = ps(&[]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let lines: Vec<String> = stdout(&out).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[1].starts_with("       7.0 s        9        9  stu\\33ck         D      write(4, "),
        "{lines:?}"
    );
    let json: serde_json::Value = serde_json::from_slice(&ps(&["--json"]).stdout).unwrap();
    assert_eq!((&json["mono_ns"], &json["threads"][0]["tid"]), (&(DEATH).into(), &9.into()));
    assert_eq!(ps(&["--tid", "7"]).status.code(), Some(1));
    assert_eq!(ps(&["--session", "1234"]).status.code(), Some(2));
    let bare: Vec<Bytes> =
        pages().into_iter().filter(|page| page[18] != Lane::Slots as u8).collect();
    let path = file(&dir, &synthetic::elf(&image(&bare), 0));
    let out = flightctl(&["ps", "--vmcore", text(&path)]);
    assert!(
        out.status.code() == Some(1) && stderr(&out).contains("thread table is not"),
        "{}",
        stderr(&out)
    );
}

/// The pages of a snapshot in which thread 9's descriptor 4 is a file.
fn snapshot() -> Vec<Bytes> {
    let object = Object::Named((*b"/srv/stuck").into());
    let table =
        Table { processes: vec![9], files: vec![Descriptor { fd: 4, object: 0, cloexec: false }] };
    let (begin, end) = (DEATH - 20 * SECOND, DEATH - 20 * SECOND + 1000);
    let (objects, tables) = (vec![object], vec![table]);
    let snapshot = Snapshot { begin, end, objects, tables, ..Snapshot::default() };
    let pages =
        chunks::pack(Lane::Descriptors, SESSION, 1, HALF_PAGES, &snapshot.encode()).unwrap();
    pages.into_iter().map(Box::new).collect()
}

#[test]
fn descriptors_of_threads_in_flight_have_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, &synthetic::elf(&image(&[pages(), snapshot()].concat()), 0));
    for args in [
        &["dump", "--vmcore", text(&path), "--in-flight", "--last", "30s"][..],
        &["ps", "--vmcore", text(&path)],
    ] {
        let out = flightctl(args);
        assert!(stdout(&out).contains("write(4</srv/stuck>, "), "{}{}", stdout(&out), stderr(&out));
    }
}

#[test]
fn a_lost_page_of_the_description_is_no_loss() {
    let dir = tempfile::tempdir().unwrap();
    let meta = Meta { config: "x".repeat(20_000), ..meta() };
    let twice = [1, 2].map(|generation| meta::pack(&meta, generation, meta::HALF_PAGES).unwrap());
    let both: Vec<Bytes> = twice.into_iter().flatten().map(Box::new).collect();
    let rings = &pages()[described(&self::meta()).len()..];
    for victim in 0..both.len() {
        let mut left = both.clone();
        left.remove(victim);
        let path = file(&dir, &synthetic::elf(&image(&[&left, rings].concat()), 0));
        let out = dump(&path, &["--last", "5ms"]);
        assert!(stdout(&out).contains("write(1, 0x2000, 2)"), "{victim}: {}", stdout(&out));
    }
}

#[test]
fn sessions_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let before = public_id(SECRET_BEFORE);
    let hex = [SESSION, before].map(|id| format!("{id:016x}"));
    let before = Meta { session: before, started: 50 * SECOND, ended: STARTED, ..meta() };
    let mut ring = PageWriter::new(before.session, Lane::Sched, 0, WALL + 37 * SECOND);
    ring.push(&event(60 * SECOND, 0, 5, switch(6, 1))).unwrap();
    let path = file(
        &dir,
        &synthetic::elf(&image(&[pages(), described(&before), ring.finish()].concat()), 0),
    );
    let out = dump(&path, &["--list-sessions"]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let text = stdout(&out);
    let ids: Vec<&str> = text.lines().skip(1).map(|line| &line[..16]).collect();
    assert_eq!(ids, hex, "{text}");
    let out = dump(&path, &["--list-sessions", "--format", "jsonl"]);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let ids: Vec<&str> = json["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["session"].as_str().unwrap())
        .collect();
    assert_eq!(ids, hex, "{json}");
    let first = &json["sessions"][0];
    assert_eq!(
        (&first["from"], &first["described"]),
        (&"2026-01-01T00:01:40Z".into(), &true.into()),
        "{json}"
    );
    assert_eq!(first["pages"]["sched"], 2, "{json}");
    let out = dump(&path, &["--session", &hex[1], "--all"]);
    assert_eq!(
        stdout(&out).lines().filter(|line| !line.starts_with('#')).count(),
        2,
        "{}",
        stdout(&out)
    );
    let out = dump(&path, &["--session", "1234"]);
    assert!(stderr(&out).contains("--list-sessions"), "{}", stderr(&out));
    assert_eq!(out.status.code(), Some(2));
}

#[test]
fn what_is_missing_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let pages = pages();
    let whole = synthetic::elf(&image(&pages), 0);
    let out = dump(&file(&dir, &whole[..whole.len() - 9000]), &["--last", "5ms", "--strict"]);
    assert_eq!(out.status.code(), Some(3), "{}", stderr(&out));
    assert!(
        stderr(&out).contains("truncated") && stderr(&out).contains("INCOMPLETE"),
        "{}",
        stderr(&out)
    );

    // Without its description a recording is shown all the same.
    let bare = &pages[described(&meta()).len()..];
    let out = dump(&file(&dir, &synthetic::elf(&image(bare), 0)), &["--last", "5ms"]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert!(stderr(&out).contains("is not in the dump"), "{}", stderr(&out));
    assert!(stdout(&out).contains("write(1, 8192, 2) -->"), "{}", stdout(&out));
}

#[test]
fn files_without_a_recording_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let empty = image(&[]);
    let mut other = synthetic::elf(&image(&[Box::new([1; PAGE_SIZE])]), 0);
    other[18] = 243;
    let cases: [(&[u8], &str); 4] = [
        (&synthetic::kdump(&empty, Codec::None), "no recording in this kdump-compressed file"),
        (&[7; 10_000], "no recording in this memory image"),
        (&other, "the machine is riscv64"),
        (b"\x1f\x8b\x08", "gunzip"),
    ];
    for (bytes, words) in cases {
        let out = dump(&file(&dir, bytes), &[]);
        assert_eq!(out.status.code(), Some(2), "{words}");
        assert!(stderr(&out).contains(words) && out.stdout.is_empty(), "{words}: {}", stderr(&out));
    }
    let out = flightctl(&["dump", "--in-flight"]);
    assert!(stderr(&out).contains("--vmcore"), "{}", stderr(&out));
}

/// 15,000 numbered calls up to [`NOW`]. The files in the directory have all but the last two
/// seconds, for they were being written when the machine died; the rings in its memory hold about
/// the last three.
pub(crate) fn died_while_recording(dir: &TempDir) -> (Vec<Bytes>, PathBuf) {
    let state = dir.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let mut recording = Recording::new();
    let mut disk = Disk::new(&state, meta(), WALL, 3);
    let mut time = NOW - 15 * SECOND;
    for half in 0..30 {
        time = calls(&mut recording, time, half * 500..half * 500 + 500);
        if half < 26 {
            disk.drain(&mut recording, time);
        }
    }
    // Nobody closes the last file.
    std::mem::forget(disk);
    let mut rings = Vec::new();
    let mut ring_bytes = meta().lanes.ring_bytes();
    for ring in recording.pages() {
        let gone = if ring.len() > 8 { ring.len() * 4 / 5 } else { 0 };
        if gone != 0 {
            ring_bytes[0] = ((ring.len() - gone) * PAGE_SIZE) as u64;
        }
        rings.extend(ring.into_iter().skip(gone));
    }
    (
        [described(&Meta { lanes: Lanes::new(ring_bytes, [false; 4]), ..meta() }), rings].concat(),
        state,
    )
}

/// The numbers of the calls in an output.
fn numbers(out: &std::process::Output) -> Vec<u64> {
    let number = |line: &str| line.split_once("write(")?.1.split_once(',')?.0.parse().ok();
    stdout(out).lines().filter_map(number).collect()
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_recovered_file_tells_what_the_dump_does() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, &synthetic::kdump(&image(&pages()), Codec::Zlib));
    let flight = dir.path().join("panic.flight");
    let recover =
        |more: &[&str]| flightctl(&[&["recover", text(&path), "-o", text(&flight)], more].concat());
    let out = recover(&["--strict"]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert!(
        stderr(&out).contains("recovered") && stderr(&out).contains("1005 events"),
        "{}",
        stderr(&out)
    );
    assert!(flight.metadata().unwrap().len() < 20_000);
    let saved = std::fs::read(&flight).unwrap();
    for window in [["--last", "5ms"], ["--last", "25s"], ["--last", "5ms"]] {
        for format in ["text", "jsonl"] {
            let of = |from: &[&str]| {
                let fixed = ["--strict", "--fds", "off", "--format", format];
                flightctl(&[&["dump"], from, &window, &fixed].concat())
            };
            let (dump, file) = (of(&["--vmcore", text(&path)]), of(&["--file", text(&flight)]));
            assert_eq!(stdout(&dump), stdout(&file), "{window:?}: {}", stderr(&file));
            assert_eq!(
                (dump.status.code(), file.status.code()),
                (Some(0), Some(0)),
                "{window:?}: {}",
                stderr(&file)
            );
        }
    }
    let out = flightctl(&["verify", text(&flight)]);
    assert_eq!(out.status.code(), Some(0), "{}", stdout(&out));
    // What is there stays, unless told otherwise.
    let out = recover(&[]);
    assert!(out.status.code() == Some(2) && stderr(&out).contains("--force"), "{}", stderr(&out));
    assert_eq!(std::fs::read(&flight).unwrap(), saved);
    assert_eq!(recover(&["--force"]).status.code(), Some(0));
    assert_eq!(recover(&["--force", "--session", "1234"]).status.code(), Some(2));
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "nothing half-made is left: {left:?}");
}

#[test]
fn what_is_missing_in_a_dump_is_missing_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let (mut holed, _) = died_while_recording(&dir);
    let middle = holed.len() / 2;
    holed.remove(middle);
    let path = file(&dir, &synthetic::elf(&image(&holed), 0));
    let flight = dir.path().join("panic.flight");
    let out = flightctl(&["recover", text(&path), "-o", text(&flight), "--strict"]);
    assert_eq!(out.status.code(), Some(3), "{}", stderr(&out));
    assert!(
        stderr(&out).contains("INCOMPLETE: ") && stderr(&out).contains("are not in the dump"),
        "{}",
        stderr(&out)
    );
    let of = |from: &[&str]| {
        flightctl(&[&["dump"], from, &["--all", "--strict", "--fds", "off"]].concat())
    };
    let (dump, read) = (of(&["--vmcore", text(&path)]), of(&["--file", text(&flight)]));
    assert_eq!(numbers(&dump), numbers(&read));
    assert_eq!((dump.status.code(), read.status.code()), (Some(3), Some(3)), "{}", stderr(&read));
}

#[test]
fn a_dump_and_the_files_of_its_boot_are_one_history() {
    let dir = tempfile::tempdir().unwrap();
    let (all, state) = died_while_recording(&dir);
    let path = file(&dir, &synthetic::kdump(&image(&all), Codec::Zlib));
    let joined = |path: &Path, more: &[&str]| {
        dump(path, &[&["--store", text(&state), "--fds", "off"], more].concat())
    };
    let alone = dump(&path, &["--all", "--fds", "off"]);
    assert!((2000..6000).contains(&numbers(&alone).len()), "{}", numbers(&alone).len());
    let out = joined(&path, &["--all", "--strict"]);
    assert_eq!(numbers(&out), (0..15_000).collect::<Vec<_>>(), "{}", stderr(&out));
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let out = joined(&path, &["--last", "10s", "--strict"]);
    assert_eq!(numbers(&out), (5_000..15_000).collect::<Vec<_>>(), "{}", stderr(&out));
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));

    // A page that the dump lacks is taken from the files, and so is the description.
    let mut holed = all.clone();
    holed.remove(all.len() - rings_of_last(&all));
    let bare = holed.split_off(described(&meta()).len());
    let holed = file(&dir, &synthetic::elf(&image(&bare), 0));
    let out = joined(&holed, &["--all"]);
    assert_eq!(numbers(&out), (0..15_000).collect::<Vec<_>>(), "{}", stderr(&out));

    // The recovered rings, put where the hook of kdump puts them, are the end of the store.
    let path = file(&dir, &synthetic::kdump(&image(&all), Codec::Zlib));
    let crash = state.join("crash");
    std::fs::create_dir(&crash).unwrap();
    let flight = crash.join("20260101T000200Z.flight");
    assert_eq!(flightctl(&["recover", text(&path), "-o", text(&flight)]).status.code(), Some(0));
    let of = |more: &[&str]| {
        flightctl(&[&["dump", "--store", text(&state), "--fds", "off"], more].concat())
    };
    let out = of(&["--all", "--strict"]);
    assert_eq!(numbers(&out), (0..15_000).collect::<Vec<_>>(), "{}", stderr(&out));
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let out = of(&["--boot", "0", "--last", "1s", "--strict"]);
    assert_eq!(numbers(&out), (14_000..15_000).collect::<Vec<_>>(), "{}", stderr(&out));
    let listed: Vec<PathBuf> = files(&state).into_iter().chain([flight]).collect();
    let args: Vec<&str> = listed.iter().map(|path| text(path)).collect();
    let out =
        flightctl(&[&["dump", "--all", "--strict", "--fds", "off", "--file"], &args[..]].concat());
    assert_eq!(numbers(&out), (0..15_000).collect::<Vec<_>>(), "{}", stderr(&out));

    // Files of another machine are no help, and that is said.
    let out = dump(&path, &["--all", "--store", "/nonexistent"]);
    assert!(stderr(&out).contains("rings alone") && !numbers(&out).is_empty(), "{}", stderr(&out));
}

/// Pages from a full page of system calls in the middle of their ring to the end.
fn rings_of_last(pages: &[Bytes]) -> usize {
    let is_call = |page: &&Bytes| page[18] == Lane::Syscall as u8 && page[20] == 0;
    let calls = pages.iter().filter(is_call).count();
    let at = pages.iter().position(|page| is_call(&page)).unwrap();
    // Before the last two seconds, which no file has.
    pages.len() - at - calls / 8
}

/// Commands that read dumps.
fn readers(path: &Path, output: &Path) -> Vec<std::process::Output> {
    [
        &["dump", "--all", "--vmcore", text(path)][..],
        &["dump", "--in-flight", "--vmcore", text(path)],
        &["recover", "--force", text(path), "-o", text(output)],
    ]
    .into_iter()
    .map(limited)
    .collect()
}

/// With little memory: what a file claims to hold is not allocated.
fn limited(args: &[&str]) -> std::process::Output {
    use std::os::unix::process::CommandExt;
    let mut command = super::common::command(args);
    let limit =
        || nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_AS, 1 << 30, 1 << 30);
    // SAFETY: setrlimit is async-signal-safe, and nothing else is done between fork and exec.
    unsafe { command.pre_exec(move || limit().map_err(std::io::Error::from)) };
    command.output().unwrap()
}

#[test]
fn gigabytes_of_noise_are_no_recording() {
    let dir = tempfile::tempdir().unwrap();
    let (path, output) = (dir.path().join("noise"), dir.path().join("out.flight"));
    // Sparse: 4 GB to read, and noise where a program would look for a header.
    let noise = std::fs::File::create(&path).unwrap();
    noise.set_len(4 << 30).unwrap();
    let mut seed = 1u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 56) as u8
    };
    for at in [0, 1 << 20, (4 << 30) - 8192] {
        let bytes: Vec<u8> = (0..8192).map(|_| random()).collect();
        std::os::unix::fs::FileExt::write_all_at(&noise, &bytes, at).unwrap();
    }
    let out = limited(&["dump", "--vmcore", text(&path)]);
    assert_eq!(out.status.code(), Some(2), "{}", stderr(&out));
    assert!(stderr(&out).contains("no recording in this memory image"), "{}", stderr(&out));
    assert!(!output.exists());
}

#[test]
fn damage_anywhere_is_answered_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("out.flight");
    let image = image(&[pages(), snapshot()].concat());
    let kdump = synthetic::kdump(&image, Codec::Zlib);
    let forms = [
        synthetic::elf(&image, 0x7c8),
        synthetic::flatten(&kdump, 3000),
        kdump,
        synthetic::raw(&image),
    ];
    for (number, whole) in forms.iter().enumerate() {
        let mut damaged: Vec<Vec<u8>> =
            [1, 19, 5000, whole.len() / 2].iter().map(|cut| whole[..*cut].to_vec()).collect();
        // Every other bit of a header, and of pages.
        for at in [18, 32, 56, 440, 4200, whole.len() / 2] {
            let mut flipped = whole.clone();
            flipped[at..at + 4].iter_mut().for_each(|byte| *byte ^= 0xa5);
            damaged.push(flipped);
        }
        for (i, bytes) in damaged.iter().enumerate() {
            for out in readers(&file(&dir, bytes), &output) {
                let says = stderr(&out);
                let code = out.status.code();
                assert!(
                    matches!(code, Some(0..=2)),
                    "form {number}, damage {i}: {:?} {says}",
                    out.status
                );
                assert!(
                    !says.contains("panicked") && (code == Some(0) || !says.is_empty()),
                    "{number}, {i}: {says}"
                );
            }
        }
    }
}

#[test]
fn the_busiest_threads_before_death() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, &synthetic::elf(&image(&pages()), 0x7c8));
    let out = flightctl(&["top", "--vmcore", path.to_str().unwrap(), "--sort", "run"]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert!(stdout(&out).lines().count() > 1 && stdout(&out).contains("RUN %"), "{}", stdout(&out));
    assert!(
        stderr(&out).contains("up to its last event") && stderr(&out).contains("coverage: "),
        "{}",
        stderr(&out)
    );
}
