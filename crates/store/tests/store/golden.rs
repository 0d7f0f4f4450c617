//! Files of all releases stay readable: those in `tests/data`, named by the version of their
//! columns, each with what it holds as text beside it.
//!
//! `FLIGHTREC_BLESS=1 cargo test -p flightrec-store golden` makes those that are missing. One that
//! is there is never made anew: a change of the format adds files of its own, under another name.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{Abi, Act, Exec, Fork, StringStatus, TaskExit, WakeContext};
use flightrec_format::decode::{Body, Call, Event, Page, Text};
use flightrec_format::encode::PageWriter;
use flightrec_format::ring::Rings;
use flightrec_store::block::BlockRef;
use flightrec_store::columns::{Contents, Decoder, PAGES_MAX, decode, decode_summed, encode};
use flightrec_store::{Checkpoint, Content, FileReader, Kind, RingMark, verify};

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
                        events.push((
                            t + 4000,
                            tid,
                            Body::Exit { call: entry, ret, entered: None },
                        ));
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
                    2 => (
                        t,
                        tid,
                        Body::Waking {
                            wakee: 71,
                            prio,
                            state: 1,
                            cpu,
                            new: false,
                            context: WakeContext::ALL[i as usize / 5 % 5],
                        },
                    ),
                    3 => (
                        t,
                        tid,
                        Body::Waking {
                            wakee: 75,
                            prio,
                            state: 0,
                            cpu,
                            new: true,
                            context: WakeContext::Thread,
                        },
                    ),
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
                    shares: 0,
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
                    left: 0,
                    start_time: 999,
                    comm,
                }),
            ),
            (5000, 70, Body::Mark(text(0, b"here"))),
            (6000, 0, Body::Act(Act::Start as u16, text(0, b"recording starts"))),
        ],
    }
}

/// The lanes of the golden files: those that there were when they were written.
const LANES: [Lane; 3] = [Lane::Syscall, Lane::Sched, Lane::Task];

fn rich() -> Vec<Content> {
    let marks = LANES.iter().map(|lane| RingMark {
        events: Counts::first([1, 2, 3, 4, 5, 6]),
        ..RingMark::new(*lane, 1)
    });
    let mut content = vec![
        Content::Meta(Box::new(meta())),
        Content::Slots(vec![slot(70), slot(71)]),
        Content::Descriptors(b"opaque".to_vec()),
        Content::Checkpoint(Checkpoint { time: 60, rings: Vec::new() }),
    ];
    for lane in LANES {
        let mut ring = PageWriter::new(SESSION, lane, 1, 37_000_000_000);
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
        Body::Switch { prev_prio, prev_state, preempted, io_wait, next, next_prio } => {
            let io_wait = if *io_wait { " io_wait" } else { "" };
            format!("switch {prev_prio} {prev_state} {preempted} {next} {next_prio}{io_wait}")
        }
        Body::Waking { wakee, prio, state, cpu, new, context } => {
            let context = match context {
                WakeContext::Unknown => String::new(),
                known => format!(" {}", known.name()),
            };
            format!("waking {wakee} {prio} {state} {cpu} {new}{context}")
        }
        Body::Migrate { thread, prio, from, to } => format!("migrate {thread} {prio} {from} {to}"),
        Body::Stack(s) => {
            format!("stack {:?} {} {} {:?}", s.slept, s.status as u16, s.cut, s.frames)
        }
        Body::Sample(s) => {
            let cut = (s.kernel_cut, s.user_cut);
            let frames = format!("{:?} {:?}", s.kernel, s.user);
            format!("sample {} {} {cut:?} {frames}", s.user_mode, s.status as u16)
        }
        Body::IoSubmit { submit, paths } => {
            format!("io_submit {:?}{}", submit.bytes(), texts(paths))
        }
        Body::Tracepoint(t) => {
            let stack = t.stack.as_ref().map(|s| (s.status as u16, s.cut, &s.frames));
            let context = t.context.name();
            format!("tracepoint {} {context} {} {stack:?} {}", t.id, t.cut, bytes(&t.bytes))
        }
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
                writeln!(out, "  {} {:?} {}", meta.host, meta.cpus, meta.started).unwrap();
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
                writeln!(out, "  {} {} {}", about.cause, about.reason, about.time).unwrap();
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
    writeln!(out, "events {:?} lost {}", &report.events[..LANES.len()], report.lost).unwrap();
    for damage in report.damage {
        writeln!(out, "{damage}").unwrap();
    }
    out
}

/// Makes a file that is missing, where that is asked for, and its text.
fn bless(name: &str, make: impl FnOnce(&Path)) {
    let path = data(name);
    if !path.exists() && std::env::var_os("FLIGHTREC_BLESS").is_some() {
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
    for lane in LANES {
        for (time, tid, body) in happened(lane) {
            let line = format!("  {time} {tid} {}\n", line(&body));
            assert!(text.contains(&line), "{line}");
        }
    }
}

#[test]
fn version_1_closed() {
    bless("v1-closed.flight", |path| write(path, &rich()));
    check_closed("v1-closed.flight");
    assert_eq!(FileReader::open(data("v1-closed.flight")).unwrap().header(), &header());
    assert!(of_pages("v1-closed.flight").iter().all(|page| page.header().version == 1));
}

#[test]
fn version_1_killed_while_writing() {
    bless("v1-killed.flight", |path| {
        write(path, &rich());
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, &bytes[..bytes.len() * 2 / 3]).unwrap();
    });
    check("v1-killed.flight");
}

/// Two seconds of a compile mix: what the model of calls knows best and least.
#[test]
fn version_1_of_a_compile_mix() {
    check("v1-mix.flight");
    let calls = of_pages("v1-mix.flight").into_iter().filter(|page| page.lane() == Lane::Syscall);
    let times: Vec<u64> =
        calls.flat_map(|page| page.events().collect::<Vec<_>>()).map(|e| e.time).collect();
    assert!(times.len() > 800 && times.iter().all(|time| time % 16 == 0));
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

/// What is written now is what was written before, bit for bit.
#[test]
fn columns_of_version_1_stay_as_they_are() {
    for before in ["v1-closed.flight", "v1-mix.flight"].into_iter().flat_map(columns) {
        let mut now = Vec::new();
        encode(&decode(&before).unwrap(), &mut now);
        assert!(now == before, "{} bytes for {}", now.len(), before.len());
    }
}

/// What goes wrong in columns ends in pages or an error: those that a cut or another byte leaves.
#[test]
fn damaged_columns_do_no_harm() {
    let files = ["v1-closed.flight", "v1-mix.flight"];
    let mut decoder = Decoder::new();
    for bytes in files.into_iter().flat_map(columns) {
        assert_eq!(bytes[0], 1);
        let step = 1 + bytes.len() / 700;
        for at in (0..bytes.len()).step_by(step) {
            assert!(decode(&bytes[..at]).is_err());
            for value in [0, 0x1f, 0x80, 0xff, bytes[at] ^ 1] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let pages = decode_summed(&damaged);
                let without = decoder.decode(&damaged, PAGES_MAX, Contents::None);
                match (&pages, &without) {
                    (Ok(pages), Ok(without)) => {
                        let all = pages.iter().chain(without);
                        all.for_each(|(page, summary)| assert_eq!(page.summary(), *summary));
                        assert_eq!(pages.len(), without.len());
                    }
                    (Ok(_), Err(error)) => panic!("{error} without contents alone"),
                    // What is left alone is not found to be wrong.
                    (Err(_), _) => {}
                }
            }
        }
    }
}
