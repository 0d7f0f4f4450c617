//! `flightctl page` of a window of many threads, waits and calls, none of which is like another.

use std::path::PathBuf;

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::WakeContext;
use flightrec_format::decode::{Body, Event};
use flightrec_format::meta::Meta;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{NOW, Recording, SECOND, WALL, flightctl, meta, stderr};
use crate::disk::{Disk, files};
use crate::page::{PAGE_MAX, open, read, switch};

const TURNS: u64 = 12_000;
const THREADS: u64 = 6000;
/// Events of a turn.
const EVENTS: u64 = 7;
/// From one turn to the next.
const STEP: u64 = 1_000_000;
/// The turn whose wait is much longer than any other, in turns.
const LONG: (u64, u64) = (9000, 1500);

/// Threads take turns on two CPUs. Each opens a file of a name of its own, and waits for the disk
/// meanwhile.
fn busy() -> (TempDir, PathBuf) {
    let mut recording = Recording::new();
    let start = NOW - TURNS * STEP - 2 * SECOND;
    let thread = |turn: u64| 1000 + (turn % THREADS) as u32;
    for turn in 0..TURNS {
        let cpu = (turn % 2) as u16;
        // The CPUs take turns, too.
        let mut at = start + turn * STEP;
        if cpu == LONG.0 as u16 % 2 && turn > LONG.0 {
            at += LONG.1 * STEP;
        }
        let (tid, next) = (thread(turn), thread(turn + 2));
        let last = if turn == LONG.0 { LONG.1 * STEP } else { 0 };
        let mut put = |lane, after, tid, body| {
            recording.push(lane, &Event { time: at + after, cpu, tid, body });
        };
        let path = format!("/srv/{turn:08}/{}", "x".repeat(120));
        let waking = |wakee| Body::Waking {
            wakee,
            prio: 120,
            state: 2,
            cpu,
            new: false,
            context: WakeContext::Hardirq,
        };
        put(Lane::Syscall, 100_000, tid, Body::Enter(open(&path)));
        put(Lane::Sched, 200_000, tid, switch(0, tid, 2, 0).body);
        put(Lane::Sched, last + 800_000, 0, waking(tid));
        put(Lane::Sched, last + 810_000, 0, switch(0, 0, 0, tid).body);
        let exit = Body::Exit { call: open(&path), ret: -2, entered: None };
        put(Lane::Syscall, last + 900_000, tid, exit);
        put(Lane::Sched, last + 910_000, tid, waking(next));
        put(Lane::Sched, last + 920_000, tid, switch(0, tid, 1, next).body);
    }
    let dir = TempDir::new().unwrap();
    let meta = Meta { started: start, ..meta() };
    let disk = Disk::new(dir.path(), meta, WALL, 100_000);
    disk.close(&mut recording, NOW);
    let file = files(dir.path()).remove(0);
    (dir, file)
}

#[test]
fn what_has_no_room_is_counted() {
    let (dir, file) = busy();
    let out = dir.path().join("out.html");
    let (out_name, file) = (out.to_str().unwrap(), file.to_str().unwrap());
    let output = flightctl(&["page", "-o", out_name, "--file", file, "--all"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let (html, data) = read(&out);
    assert!(html.len() < PAGE_MAX, "{} bytes", html.len());
    // Sums are of all events.
    assert_eq!(data["about"]["events"], EVENTS * TURNS);
    assert_eq!(data["histograms"][0]["count"], TURNS);
    let calls = &data["tables"][1];
    assert_eq!(calls["title"], "Calls");
    let sum: u64 = calls["rows"].as_array().unwrap().iter().map(|row| number(&row[2])).sum();
    assert_eq!(sum, TURNS);
    // A row for each thread has no room, and those that are left out are counted.
    let waits = &data["tables"][0];
    let rows = waits["rows"].as_array().unwrap();
    let shown: u64 = rows.iter().map(|row| number(&row[3])).sum();
    let remark = waits["remark"].as_str().unwrap();
    let others = remark.split_once("with a count of ").unwrap().1.split(' ').next().unwrap();
    assert_eq!(rows.len(), 100);
    // In a call and out of one.
    assert_eq!(shown + others.parse::<u64>().unwrap(), 2 * TURNS, "{remark}");
    let answer = &data["answer"];
    let tid = 1000 + LONG.0 % THREADS;
    assert_eq!(answer["chain"][0]["tid"], tid, "{answer:#}");
    let merged = data["merged"].to_string();
    assert!(merged.contains("threads") && merged.contains("are drawn"), "{merged}");
}

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap_or_else(|| panic!("no number: {of}"))
}
