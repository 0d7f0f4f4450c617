//! The quiet ring in a dump: a flood wrote over a ring, and what a quiet process did is there all
//! the same.

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::decode::{Body, Event, Page};
use flightrec_format::encode::PageWriter;
use flightrec_format::kept::{ANYONE, KeptWriter, LeftOut};
use flightrec_format::meta::{Lanes, Meta};
use flightrec_vmcore::synthetic;

use super::common::{SECOND, SESSION, STARTED, WALL, flightctl, meta, stderr, stdout};
use super::vmcore::{Bytes, call, described, dump, event, file, image, slot, slots_page, text};

/// The pages of the ring that are not written over.
const RING: usize = 4;
const QUIET: u32 = 501;
const BUSY: u32 = 502;

/// A ring of which the last pages are left, and a quiet ring with what a process did before; and
/// how often that did something. `left_out`: whom the quiet ring says that it left out.
fn flooded(left_out: u32) -> (Vec<Bytes>, usize) {
    let mut writer = PageWriter::new(SESSION, Lane::Syscall, 1, WALL + 37 * SECOND);
    let mut made = 0;
    for i in 0..8000u64 {
        let time = STARTED + SECOND + i * 1_000_000;
        let tid = if i % 200 == 0 { QUIET } else { BUSY };
        made += usize::from(tid == QUIET);
        let call = call(1, &[i, 0, 0]);
        writer.push(&event(time, 1, tid, Body::Enter(call.clone()))).unwrap();
        // Too long to fold.
        writer
            .push(&event(
                time + 500_000,
                1,
                tid,
                Body::Exit { call: super::vmcore::call(1, &[]), ret: 0, entered: None },
            ))
            .unwrap();
    }
    let pages = writer.finish();
    let (gone, ring) = pages.split_at(pages.len() - RING);
    let mut kept: Vec<Bytes> = Vec::new();
    // It reaches into what is left of the ring.
    for run in gone
        .iter()
        .chain(&ring[..1])
        .map(|page| Page::new(page.clone()).unwrap())
        .collect::<Vec<_>>()
        .chunks(5)
    {
        let mut thinned = KeptWriter::new(&run[0]);
        let (from, until) = (run[0].header().base_mono, run[run.len() - 1].summary().last + 1);
        thinned.leave_out(&[LeftOut { process: left_out, events: 7, from, until, born: 0 }]);
        for page in run {
            let events: Vec<Event> = page.events().filter(|event| event.tid == QUIET).collect();
            assert!(thinned.append(page, &events));
        }
        kept.push(thinned.page().unwrap());
    }
    let few = 4 * PAGE_SIZE as u64;
    let ring_bytes = [(RING * PAGE_SIZE) as u64, few, few, few];
    let lanes = Lanes::new(ring_bytes, [false; 4]);
    let meta = Meta { lanes, quiet_bytes: 1 << 20, ..meta() };
    let slots = slots_page(&[slot(QUIET, b"quiet", 0), slot(BUSY, b"busy", 0)]);
    ([described(&meta), ring.to_vec(), kept, vec![slots]].concat(), made)
}

fn entries(out: &std::process::Output) -> usize {
    stdout(out).lines().filter(|line| line.ends_with("-->")).count()
}

#[test]
fn who_was_not_left_out_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let (pages, made) = flooded(BUSY);
    let path = file(&dir, &synthetic::kdump(&image(&pages), synthetic::Codec::Zlib));
    let flight = dir.path().join("panic.flight");
    let recovered = flightctl(&["recover", text(&path), "-o", text(&flight)]);
    assert_eq!(recovered.status.code(), Some(0), "{}", stderr(&recovered));
    assert!(stderr(&recovered).contains("of busy ones are not in it"), "{}", stderr(&recovered));
    let shown = |args: &[&str]| {
        let args = [&["--all", "--strict", "--syscall", "write"], args].concat();
        let out = dump(&path, &args);
        let file = flightctl(&[&["dump", "--file", text(&flight)], &args[..]].concat());
        assert_eq!(stdout(&file), stdout(&out), "{}", stderr(&file));
        out
    };
    for who in [["--pid", "501"], ["--tid", "501"], ["--comm", "quiet"]] {
        let out = shown(&who);
        assert_eq!(
            (entries(&out), out.status.code()),
            (made, Some(0)),
            "{who:?}: {}",
            stderr(&out)
        );
        assert!(stderr(&out).contains("not counted as missing: "), "{}", stderr(&out));
    }
    for who in [&["--pid", "502"][..], &["--comm", "busy"], &[]] {
        let out = shown(who);
        assert_eq!(out.status.code(), Some(3), "{who:?}: {}", stderr(&out));
        assert!(stderr(&out).contains("the busy processes are: 502 ("), "{}", stderr(&out));
    }
    // What is shown and what is told add up to what happened.
    let out = shown(&["--format", "jsonl"]);
    let mut lines = stdout(&out);
    let events = lines.lines().filter(|line| line.contains("\"syscall\":\"write\"")).count() as u64;
    lines.truncate(lines.find('\n').unwrap());
    let head: serde_json::Value = serde_json::from_str(&lines).unwrap();
    let gaps = head["gaps"].as_array().unwrap();
    assert!(gaps.iter().all(|gap| gap["reason"] == "left_out"), "{head}");
    let missing: u64 = gaps.iter().map(|gap| gap["missing"].as_u64().unwrap()).sum();
    assert_eq!(missing + events, 16_000);
}

#[test]
fn where_anybody_may_be_left_out_nobody_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let (pages, made) = flooded(ANYONE);
    let path = file(&dir, &synthetic::elf(&image(&pages), 0));
    let out = dump(&path, &["--all", "--strict", "--syscall", "write", "--pid", "501"]);
    assert_eq!((entries(&out), out.status.code()), (made, Some(3)), "{}", stderr(&out));
    assert!(stderr(&out).contains("unknown ones ("), "{}", stderr(&out));
}

/// An exit that is left out makes the next one no exit of the entry before.
#[test]
fn exits_of_who_was_left_out_find_no_entries_from_before() {
    let dir = tempfile::tempdir().unwrap();
    let (pages, _) = flooded(QUIET);
    let path = file(&dir, &synthetic::elf(&image(&pages), 0));
    let out = dump(&path, &["--all", "--syscall", "write", "--pid", "501", "--event", "sys_exit"]);
    let timed = stdout(&out).lines().filter(|line| line.contains(" us)")).count();
    let exits = stdout(&out).lines().filter(|line| line.contains("<--")).count();
    assert!(
        timed < exits / 2,
        "{timed} of {exits} exits have a duration, though calls between are left out"
    );
}
