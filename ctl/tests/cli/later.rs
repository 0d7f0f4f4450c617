//! A recording of a later release: a lane, two kinds and fields of the metadata more than this one
//! knows. What is known is shown as ever, and what is not is told.

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::Lane;
use flightrec_format::control::{CpuTotals, Request, Response, Status, Totals};
use flightrec_format::meta::{KindMeta, LaneMeta, to_json};
use serde_json::{Value, json};

use crate::common::{
    NOW, SECOND, SESSION, WALL, daemon, dump, flightctl, meta, status, stderr, stdout,
};
use crate::json::valid;
use crate::later_pages::{LATER_LANE, LaterRing, later_kinds, mark};

const TAI: u64 = WALL + 37 * SECOND;
const BASE: u64 = NOW - 5 * SECOND;

/// A daemon of that release.
fn later() -> tempfile::TempDir {
    let [one, two] = later_kinds();
    let mut ring = LaterRing::new(SESSION, Lane::Task as u8, 0, TAI);
    let body = [0xab; 16];
    let [line, text] = mark(1, b"one\0");
    let first = ring.page(BASE, &[line, text, (one, 2, &body), (one, 3, &body), (two, 4, &[])]);
    let [line, text] = mark(1, b"two\0");
    let second = ring.page(BASE + SECOND, &[(two, 7, &body), line, text]);
    let counts = Counts::first(ring.counts);
    let mut other = LaterRing::new(SESSION, LATER_LANE, 0, TAI);
    let unknown = other.page(BASE, &[(0x50, 1, &body)]);
    let mut meta = meta();
    let mut task = meta.lanes.get(Lane::Task as u8).unwrap().clone();
    task.kinds.push(KindMeta { number: one, name: "net_\u{1b}drop".into() });
    meta.lanes.set(task);
    let kinds = vec![KindMeta { number: 0x50, name: "packet".into() }];
    let name = "net\n".to_owned();
    let lane = LaneMeta { name, number: LATER_LANE, ring_bytes: 1 << 20, off: false, kinds };
    meta.lanes.set(lane);
    let mut document: Value = serde_json::from_str(&to_json(&meta).unwrap()).unwrap();
    document["of_the_future"] = json!({"a": [1]});
    document["lanes"][0]["of_the_future"] = json!(1);
    let cpu = |cpu, task| {
        let events = [Counts::ZERO, Counts::ZERO, task, Counts::ZERO];
        CpuTotals { cpu, recorded: true, events, ..CpuTotals::default() }
    };
    let cpus = vec![cpu(0, counts), cpu(1, Counts::ZERO)];
    let totals = Totals { now: NOW, cpus, ..Totals::default() };
    let status = Status { totals: totals.clone(), ..status() };
    let pages = [&first[..], &second[..], &unknown[..]].concat();
    daemon(move |request| match request {
        Request::Pages { .. } => vec![
            Response::Meta(document.to_string()),
            Response::Pages(pages.clone()),
            Response::End(totals.clone()),
        ],
        Request::Status => vec![Response::Status(Box::new(status.clone()))],
        other => panic!("{other:?}"),
    })
}

/// The coverage's lines, and the others.
fn parted(text: &str) -> (Vec<&str>, Vec<&str>) {
    text.lines().partition(|line| line.starts_with('#'))
}

#[test]
fn what_is_known_is_shown_and_the_rest_is_told() {
    let daemon = later();
    let out = dump(daemon.path(), &["--all", "--strict"]);
    let text = stdout(&out);
    assert_eq!(out.status.code(), Some(0), "{text}{}", stderr(&out));
    let (coverage, lines) = parted(&text);
    let shown: Vec<&str> = lines.iter().filter_map(|line| line.split("(MARK) ").nth(1)).collect();
    assert_eq!((shown.as_slice(), lines.len()), (["one", "two"].as_slice(), 2), "{text}");
    let coverage = coverage.join("\n");
    for told in [
        "lane net\\n: of a newer release, not shown",
        "2 kinds of a newer release not shown: 4 events (",
        "2 net_\\33drop",
    ] {
        assert!(coverage.contains(told), "{told}: {coverage}");
    }
    // Of the window alone.
    let until = format!(
        "--until={}",
        jiff::Timestamp::from_nanosecond((WALL + BASE + SECOND).into()).unwrap()
    );
    let early = stdout(&dump(daemon.path(), &["--since=-20s", &until]));
    assert!(early.contains("2 kinds of a newer release not shown: 3 events"), "{early}");
}

#[test]
fn json_tells_it_as_the_schema_says() {
    let daemon = later();
    let out = dump(daemon.path(), &["--all", "--format", "jsonl"]);
    let lines = valid(&stdout(&out));
    let [_, two] = later_kinds();
    let second = format!("{two:#04x}");
    let expected = json!({"lanes": ["net\\n"], "kinds": {"net_\\33drop": 2, second: 2}});
    assert_eq!((&lines[0]["unknown"], &lines[0]["complete"]), (&expected, &json!(true)));
    assert_eq!(lines.len(), 3);
}

#[test]
fn it_is_saved_verified_and_read_again() {
    let daemon = later();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("saved.flight");
    let path = file.to_str().unwrap();
    let runtime = daemon.path().to_str().unwrap();
    let out = flightctl(&["--runtime-dir", runtime, "save", "-o", path, "--all", "--strict"]);
    let said = stderr(&out);
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(said.contains("lane net\\n: of a newer release, not saved"), "{said}");
    assert!(!said.contains("not shown"), "{said}");
    let out = flightctl(&["verify", path]);
    assert_eq!(out.status.code(), Some(0), "{}{}", stdout(&out), stderr(&out));
    let live = stdout(&dump(daemon.path(), &["--all"]));
    let out = flightctl(&["dump", "--file", path, "--strict"]);
    assert_eq!(out.status.code(), Some(0), "{}{}", stdout(&out), stderr(&out));
    let saved = stdout(&out);
    let untimed = |lines: Vec<&str>| -> Vec<String> {
        lines.into_iter().skip(1).map(str::to_owned).collect()
    };
    assert_eq!(untimed(parted(&saved).0), untimed(parted(&live).0), "{saved}");
    assert_eq!(parted(&saved).1, parted(&live).1);
}
