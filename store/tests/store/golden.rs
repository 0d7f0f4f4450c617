//! Files of earlier releases stay readable for ever: those in `tests/data`, named by the version of
//! their columns, each with what it holds as text beside it; those of a compile mix all hold the
//! same events.
//!
//! `FLIGHTREC_BLESS=1 cargo test -p flightrec-store golden` makes those that are missing. One that
//! is there is never made anew: a change of the format adds files of its own, under another name.

use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{Lane, VERSION};
use flightrec_format::abi::record::{Abi, Act, Exec, Fork, StringStatus, TaskExit};
use flightrec_format::decode::{Body, Call, Event, Page, Text};
use flightrec_format::encode::PageWriter;
use flightrec_format::ring::Rings;
use flightrec_store::block::BlockRef;
use flightrec_store::columns::{decode, decode_summed};
use flightrec_store::header::{COLUMNS_2, COLUMNS_3};
use flightrec_store::{
    Checkpoint, Content, FileHeader, FileReader, FileWriter, Kind, RingMark, verify,
};

use crate::support::{SESSION, event, header, meta, pages, slot, tidy, write};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn text(index: u8, bytes: &[u8]) -> Text {
    Text { index, status: StringStatus::Whole, bytes: bytes.into() }
}

fn call(nr: u16, args: &[u64], strings: Vec<Text>) -> Call {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    Call { nr, abi: Abi::Native, nargs: args.len() as u8, args: all, strings }
}

/// Every kind of event, and what makes encoding hard: strings, wide arguments, folded and late
/// exits, long pauses.
fn happened(lane: Lane) -> Vec<(u64, u32, Body)> {
    let comm = *b"worker\0\0\0\0\0\0\0\0\0\0";
    match lane {
        Lane::Syscall => {
            let mut events = Vec::new();
            for i in 0..60 {
                let (t, tid) = (1000 + i * 5000, 70 + (i / 7 % 3) as u32);
                let path =
                    vec![text(1, if i % 4 == 0 { b"/etc/hosts" } else { b"/proc/self/stat" })];
                let entry = match i % 5 {
                    0 => call(257, &[-100i64 as u64, 0x7fff_1234_5678, 0x80000, 0], path),
                    1 => call(0, &[3, 0x5555_0000_1000 + i * 64, 4096], Vec::new()),
                    2 => call(1, &[1, 0x7f00_dead_beef, u64::MAX - i], Vec::new()),
                    3 => call(39, &[], Vec::new()),
                    _ => call(202, &[0x7fff_ffff_0000, 128, 0, 1 << 62, 5, 6], Vec::new()),
                };
                let bare = call(entry.nr, &[], Vec::new());
                events.push((t, tid, Body::Enter(entry.clone())));
                let ret = if i % 6 == 0 { -2 } else { i as i64 * 100 };
                match i % 3 {
                    0 => events.push((
                        t + 320,
                        tid,
                        Body::Exit { call: bare, ret, entered: Some(t) },
                    )),
                    1 => {
                        events.push((t + 4000, tid, Body::Exit { call: entry, ret, entered: None }))
                    }
                    _ => {}
                }
            }
            let pause = 20_000_000_000;
            events.push((
                pause,
                71,
                Body::Exit { call: call(202, &[], Vec::new()), ret: -512, entered: None },
            ));
            let compat = Call { abi: Abi::Compat, ..call(4, &[1, 2, 3], Vec::new()) };
            events.push((pause + 10, 72, Body::Enter(compat)));
            events
        }
        Lane::Sched => (0..90)
            .map(|i| {
                let (t, tid) = (1500 + i * 2000, (i % 4) as u32 + 70);
                let (prio, cpu) = (120 + (i % 3) as u8, (i % 2) as u16);
                match i % 5 {
                    0 | 1 => (t, tid, event(lane, t, tid, i).body),
                    2 => (t, tid, Body::Waking { wakee: 71, prio, state: 1, cpu, new: false }),
                    3 => (t, tid, Body::Waking { wakee: 75, prio, state: 0, cpu, new: true }),
                    _ => (t, tid, Body::Migrate { thread: 71, prio, from: 0, to: 1 }),
                }
            })
            .collect(),
        _ => vec![
            (
                1000,
                70,
                Body::Fork(Fork {
                    parent_tid: 70,
                    parent_tgid: 70,
                    tid: 75,
                    tgid: 75,
                    start_time: 999,
                    cgroup: 7,
                    comm,
                }),
            ),
            (
                2000,
                75,
                Body::Exec {
                    exec: Exec { tid: 75, old_tid: 75, tgid: 75, args_len: 12, cgroup: 7, comm },
                    file: Some(text(0, b"/bin/cat")),
                    args: Some(text(1, b"cat\0/a b\0")),
                },
            ),
            (3000, 75, event(lane, 0, 75, 0).body),
            (
                4000,
                75,
                Body::TaskExit(TaskExit {
                    tid: 75,
                    tgid: 75,
                    code: 256,
                    reserved: 0,
                    start_time: 999,
                    comm,
                }),
            ),
            (5000, 70, Body::Mark(text(0, b"here"))),
            (6000, 0, Body::Act(Act::Start as u16, text(0, b"recording starts"))),
        ],
    }
}

/// In pages of this version.
fn rich(version: u16) -> Vec<Content> {
    let marks = Lane::RINGS.iter().map(|lane| RingMark {
        events: Counts::first([1, 2, 3, 4, 5, 6]),
        ..RingMark::new(*lane, 1)
    });
    let mut content = vec![
        Content::Meta(Box::new(meta())),
        Content::Slots(vec![slot(70), slot(71)]),
        Content::Descriptors(b"opaque".to_vec()),
        Content::Checkpoint(Checkpoint { time: 60, rings: Vec::new() }),
    ];
    for lane in Lane::RINGS {
        let mut ring = PageWriter::of_version(version, SESSION, lane, 1, 37_000_000_000);
        let all = happened(lane);
        // Not between an entry and the exit that folds into it: a part never ends there.
        let folds =
            |(_, _, body): &(u64, u32, Body)| matches!(body, Body::Exit { entered: Some(_), .. });
        let middle = (all.len() / 2..all.len()).find(|i| !folds(&all[*i])).unwrap();
        let (first, second) = all.split_at(middle);
        let push = |ring: &mut PageWriter, events: &[(u64, u32, Body)]| {
            for (time, tid, body) in events.iter().cloned() {
                ring.push(&Event { time, cpu: 1, tid, body }).unwrap();
            }
        };
        push(&mut ring, first);
        let before = pages(&mut ring);
        let cut = before.last().map(|page| *page.header()).unwrap();
        content.push(Content::Pages(tidy(&before)));
        push(&mut ring, second);
        let mut after: Vec<Page> = pages(&mut ring);
        if after[0].header().seq == cut.seq {
            after[0] = flightrec_store::part::tail(&after[0], cut.used).unwrap();
        }
        content.push(Content::Pages(tidy(&after)));
    }
    content.push(Content::Checkpoint(Checkpoint { time: 20_000_000_100, rings: marks.collect() }));
    content
}

fn bytes(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn texts<'a>(texts: impl IntoIterator<Item = &'a Text>) -> String {
    let one = |t: &Text| format!(" {}:{}:\"{}\"", t.index, t.status as u8, bytes(&t.bytes));
    texts.into_iter().map(one).collect()
}

fn line(body: &Body) -> String {
    let call = |c: &Call| {
        let args: Vec<String> =
            c.args.iter().take(c.nargs.into()).map(|a| format!("{a:x}")).collect();
        format!("{}.{}({}){}", c.abi as u8, c.nr, args.join(","), texts(&c.strings))
    };
    match body {
        Body::Enter(c) => format!("enter {}", call(c)),
        Body::Exit { call: c, ret, entered } => {
            format!("exit {} = {ret} {}", call(c), entered.unwrap_or(0))
        }
        Body::Switch { prev_prio, prev_state, preempted, next, next_prio } => {
            format!("switch {prev_prio} {prev_state} {preempted} {next} {next_prio}")
        }
        Body::Waking { wakee, prio, state, cpu, new } => {
            format!("waking {wakee} {prio} {state} {cpu} {new}")
        }
        Body::Migrate { thread, prio, from, to } => format!("migrate {thread} {prio} {from} {to}"),
        Body::Fork(f) => {
            let ids = format!("{} {} {} {}", f.parent_tid, f.parent_tgid, f.tid, f.tgid);
            format!("fork {ids} {} {} {}", f.start_time, f.cgroup, bytes(&f.comm))
        }
        Body::Exec { exec: e, file, args } => {
            let ids = format!("{} {} {} {} {}", e.tid, e.old_tid, e.tgid, e.args_len, e.cgroup);
            format!("exec {ids} {}{}", bytes(&e.comm), texts(file.iter().chain(args)))
        }
        Body::Rename(r) => {
            format!("rename {} {} {} {}", r.tid, r.tgid, bytes(&r.old), bytes(&r.new))
        }
        Body::TaskExit(e) => {
            format!("task_exit {} {} {} {} {}", e.tid, e.tgid, e.code, e.start_time, bytes(&e.comm))
        }
        Body::Mark(t) => format!("mark{}", texts([t])),
        Body::Act(act, t) => format!("act {act}{}", texts([t])),
        Body::Plain(plain) => format!("{} {:?}", plain.kind().name(), plain.bytes()),
    }
}

/// All that a file holds, as text that does not depend on how this release is written.
fn described(path: &Path) -> String {
    let reader = FileReader::open(path).unwrap();
    let mut out = String::new();
    let h = reader.header();
    let boot = bytes(&h.boot_id);
    writeln!(out, "{boot} {:x} {} {} {}", h.session, h.number, h.created_wall, h.created_mono)
        .unwrap();
    writeln!(out, "complete {}", reader.complete()).unwrap();
    let mut rings = Rings::new(SESSION);
    for block in reader.blocks() {
        let b = block.header;
        writeln!(out, "block {} {} {} {}", b.kind.name(), b.first, b.last, b.events).unwrap();
        match reader.read(block).unwrap() {
            Content::Meta(meta) => {
                writeln!(out, "  {} {:?} {}", meta.host, meta.cpus, meta.started).unwrap()
            }
            Content::Slots(slots) => {
                for s in slots {
                    writeln!(out, "  {} {} {} {}", s.tid, s.tgid, s.start_time, bytes(&s.comm))
                        .unwrap();
                }
            }
            Content::Descriptors(content) => writeln!(out, "  {}", bytes(&content)).unwrap(),
            Content::Checkpoint(checkpoint) => {
                writeln!(out, "  {}", checkpoint.time).unwrap();
                for r in checkpoint.rings {
                    let (lane, place) = (r.lane.name(), format!("{}.{}", r.seq, r.used));
                    let events: Vec<u64> = r.events.iter().take(6).copied().collect();
                    writeln!(out, "  {lane} {} {place} {events:?} {:?}", r.cpu, r.refused).unwrap();
                }
            }
            Content::Snapshot(about) => {
                writeln!(out, "  {} {} {}", about.cause, about.reason, about.time).unwrap()
            }
            Content::Pages(pages) => assert!(pages.into_iter().all(|page| rings.add(page))),
        }
    }
    for stream in rings.finish() {
        writeln!(out, "ring {} {}", stream.lane().name(), stream.cpu()).unwrap();
        for event in stream.events() {
            writeln!(out, "  {} {} {}", event.time, event.tid, line(&event.body)).unwrap();
        }
    }
    let report = verify(path).unwrap();
    writeln!(out, "events {:?} lost {}", report.events, report.lost).unwrap();
    for damage in report.damage {
        writeln!(out, "{damage}").unwrap();
    }
    out
}

/// The path of a file that is missing, where making it is asked for.
fn missing(name: &str) -> Option<PathBuf> {
    Some(data(name)).filter(|path| !path.exists() && std::env::var_os("FLIGHTREC_BLESS").is_some())
}

/// Makes a file that is missing, where that is asked for, and its text.
fn bless(name: &str, make: impl FnOnce(&Path)) {
    if let Some(path) = missing(name) {
        make(&path);
        std::fs::write(path.with_extension("txt"), described(&path)).unwrap();
    }
}

fn check(name: &str) {
    let path = data(name);
    let expected = std::fs::read_to_string(path.with_extension("txt")).unwrap();
    assert_eq!(described(&path), expected);
}

/// The file holds what its text says, and its events are those that happened.
fn check_closed(name: &str) {
    check(name);
    let text = std::fs::read_to_string(data(name).with_extension("txt")).unwrap();
    for lane in Lane::RINGS {
        for (time, tid, body) in happened(lane) {
            let line = format!("  {time} {tid} {}\n", line(&body));
            assert!(text.contains(&line), "{line}");
        }
    }
}

/// As a kill leaves a file.
fn killed(path: &Path) {
    write(path, &rich(VERSION));
    let blocks = FileReader::open(path).unwrap().blocks().to_vec();
    let end = blocks[blocks.len() - 2].data() + 100;
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(end).unwrap();
}

#[test]
fn version_1_closed() {
    check_closed("v1-closed.flight");
    assert_eq!(FileReader::open(data("v1-closed.flight")).unwrap().header(), &header());
}

#[test]
fn version_1_killed_while_writing() {
    check("v1-killed.flight");
}

/// Columns of version 1, two seconds of a compile mix: what its model of calls knows best and
/// least.
#[test]
fn version_1_of_a_compile_mix() {
    check("v1-mix.flight");
}

/// Columns of version 2: a feature that earlier readers refuse.
#[test]
fn version_2_closed() {
    check_closed("v2-closed.flight");
    let expected = FileHeader { incompatible: COLUMNS_2, ..header() };
    assert_eq!(FileReader::open(data("v2-closed.flight")).unwrap().header(), &expected);
}

#[test]
fn version_2_killed_while_writing() {
    check("v2-killed.flight");
}

/// The same pages as in the file of version 1.
#[test]
fn version_2_of_a_compile_mix() {
    assert_eq!(of_pages("v2-mix.flight"), of_pages("v1-mix.flight"));
    assert_eq!(
        described(&data("v2-mix.flight")),
        std::fs::read_to_string(data("v1-mix.txt")).unwrap()
    );
}

/// Columns of version 3, and pages of version 2.
#[test]
fn version_3_closed() {
    bless("v3-closed.flight", |path| write(path, &rich(2)));
    check_closed("v3-closed.flight");
    let expected = FileHeader { incompatible: COLUMNS_2 | COLUMNS_3, ..header() };
    assert_eq!(FileReader::open(data("v3-closed.flight")).unwrap().header(), &expected);
    assert!(of_pages("v3-closed.flight").iter().all(|page| page.header().version == 2));
}

#[test]
fn version_3_killed_while_writing() {
    bless("v3-killed.flight", killed);
    check("v3-killed.flight");
}

/// As a release that writes columns of version 3 stores what the one before it left in the rings.
#[test]
fn version_3_of_pages_of_version_1() {
    bless("v3-pages-1.flight", |path| write(path, &rich(1)));
    check_closed("v3-pages-1.flight");
    assert_eq!(of_pages("v3-pages-1.flight"), of_pages("v2-closed.flight"));
}

/// The same events as in the file of version 1.
#[test]
fn version_3_of_a_compile_mix() {
    if let Some(path) = missing("v3-mix.flight") {
        let mut file = FileWriter::new(File::create(path).unwrap(), &header(), 9).unwrap();
        let pages = of_pages("v1-mix.flight");
        for ring in pages.chunk_by(|a, b| (a.lane(), a.header().cpu) == (b.lane(), b.header().cpu))
        {
            let mut writer =
                PageWriter::of_version(2, SESSION, ring[0].lane(), ring[0].header().cpu, 0);
            ring.iter().flat_map(Page::events).for_each(|event| writer.push(&event).unwrap());
            file.pages(
                &writer
                    .finish()
                    .into_iter()
                    .map(|page| Page::new(page).unwrap())
                    .collect::<Vec<_>>(),
            )
            .unwrap();
        }
        file.finish().unwrap();
    }
    let pages = of_pages("v3-mix.flight");
    assert!(pages.iter().all(|page| page.header().version == 2));
    let events = |pages: &[Page]| pages.iter().flat_map(Page::events).collect::<Vec<_>>();
    let (now, before) = (events(&pages), events(&of_pages("v1-mix.flight")));
    assert_eq!(now.len(), before.len());
    // An exit that has no room in the smaller slot is an event of its own, and does not know its
    // entry.
    for (now, mut before) in now.into_iter().zip(before) {
        if let (Body::Exit { entered: None, .. }, Body::Exit { entered, .. }) =
            (&now.body, &mut before.body)
        {
            *entered = None;
        }
        assert_eq!(now, before);
    }
}

/// All pages of a file.
fn of_pages(name: &str) -> Vec<Page> {
    let reader = FileReader::open(data(name)).unwrap();
    let pages =
        |block| if let Ok(Content::Pages(pages)) = reader.read(block) { pages } else { Vec::new() };
    reader.blocks().iter().flat_map(pages).collect()
}

/// The columns of a file's pages, decompressed.
fn columns(name: &str) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(data(name)).unwrap();
    let reader = FileReader::open(data(name)).unwrap();
    let pages = reader.blocks().iter().filter(|block| block.header.kind == Kind::Pages);
    let raw = |block: &BlockRef| {
        let frame = &bytes[block.data() as usize..block.end() as usize];
        zstd::bulk::decompress(frame, block.header.raw_len as usize).unwrap()
    };
    pages.map(raw).collect()
}

/// What goes wrong in columns of any version ends in pages or an error: those that a cut or another
/// byte leaves.
fn check_damaged(version: u8, names: &[&str]) {
    for bytes in names.iter().copied().flat_map(columns) {
        assert_eq!(bytes[0], version);
        let step = 1 + bytes.len() / 700;
        for at in (0..bytes.len()).step_by(step) {
            assert!(decode(&bytes[..at]).is_err());
            for value in [0, 0x1f, 0x80, 0xff, bytes[at] ^ 1] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                if let Ok(pages) = decode_summed(&damaged) {
                    assert!(pages.iter().all(|(page, summary)| page.summary() == *summary));
                }
            }
        }
    }
}

#[test]
fn damaged_columns_of_version_1_do_no_harm() {
    check_damaged(1, &["v1-closed.flight", "v1-mix.flight"]);
}

#[test]
fn damaged_columns_of_version_2_do_no_harm() {
    check_damaged(2, &["v2-closed.flight", "v2-mix.flight"]);
}

#[test]
fn damaged_columns_of_version_3_do_no_harm() {
    check_damaged(3, &["v3-closed.flight", "v3-pages-1.flight", "v3-mix.flight"]);
}
