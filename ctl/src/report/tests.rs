//! Reports of made-up recordings, in every format.

use std::mem::offset_of;

use flightrec_analysis::groups::{CROWDED, Others};
use jiff::tz::TimeZone;
use serde_json::Value;

use flightrec_format::abi::kinds::{BlockComplete, BlockIssue, Kind, SockState};
use flightrec_format::abi::page::{Lane, RawHeader};
use flightrec_format::abi::record::WakeContext;
use flightrec_format::abi::value_names::MPTCP_SUBFLOW;
use flightrec_format::control::Totals;
use flightrec_format::decode::{Body, Call, Event, Plain};
use flightrec_format::encode::PageWriter;
use flightrec_format::meta::{Argument, Lanes, Meta, Syscall};
use flightrec_reader::fds::Naming;
use flightrec_reader::pipeline::testing::{call, comm, enter, event, exit, fork, switch, waking};
use flightrec_reader::source::history::Chapter;
use flightrec_reader::source::{Clock, Collector, HistoryPlace, HistoryPlan, PageSet};
use flightrec_reader::window::Edge;

use super::pass::{Pass, Scope};
use super::{ALL, Facts, Key, ReportKind, Sums, Table, csv, folded, json, of, text};
use crate::filter::{FilterPlan, FilterSpec};
use crate::options::past::Past;

#[test]
fn every_shape_has_its_report() {
    for ReportKind { shape, make } in ALL {
        assert!(std::ptr::eq(make().shape(), shape), "{}", shape.name);
        assert!(of(shape.name).is_some_and(|kind| std::ptr::eq(kind.shape, shape)));
        assert!(shape.default.iter().all(|key| shape.has_key(*key)), "{}", shape.name);
        assert!(shape.extras.len() <= flightrec_analysis::groups::EXTRAS);
        assert!(shape.default.len() <= flightrec_analysis::groups::KEYS);
    }
}

fn meta() -> Meta {
    let fd = Argument { name: "fd".into(), ctype: "unsigned int".into() };
    let calls = [(0, "read"), (1, "write"), (73, "flock")];
    let native = calls
        .map(|(nr, name)| Syscall { nr, name: name.into(), args: Some(vec![fd.clone()]) })
        .to_vec();
    Meta {
        session: 1,
        cpus: vec![0],
        native,
        lanes: Lanes::new([1 << 20; 4], [false; 4]),
        devices: [(254 << 20, "vda".into())].into(),
        ..Meta::default()
    }
}

fn recording(events: &[Event]) -> PageSet {
    let mut collector = Collector::new(meta());
    for lane in Lane::RINGS {
        let mut writer = PageWriter::new(1, lane, 0, 0);
        for event in events.iter().filter(|event| event.body.kind().lane() == lane) {
            writer.push(event).unwrap();
        }
        for page in writer.finish() {
            collector.add(&page[..]).unwrap();
        }
    }
    collector.finish(Totals::default())
}

/// A report of all events, with a filter.
fn report_of(name: &str, by: &[Key], events: &[Event], filter: FilterSpec) -> Table {
    let now = events.iter().map(|event| event.time).max().unwrap_or(0) + 1;
    table_of(recording(events), Edge::Open, now, (name, by, filter))
}

/// A report of a window up to `now`, which is when the recording was read.
fn table_of(
    recording: PageSet,
    since: Edge,
    now: u64,
    (name, by, filter): (&str, &[Key], FilterSpec),
) -> Table {
    let scope = Scope {
        past: Past {
            history: HistoryPlan { place: HistoryPlace::Files(Vec::new()), boot: None },
            since,
            until: Edge::Open,
        },
        dump: None,
        filter: FilterPlan::new(filter).unwrap(),
        naming: Naming::Near,
        wanted: super::minutes::Wanted::default(),
    };
    let mut report = (of(name).unwrap().make)();
    let by = if by.is_empty() { report.shape().default } else { by };
    let zone = TimeZone::UTC;
    let mut pass = Pass::new(&scope, &mut *report, by, &zone);
    let clock = Clock { now, wall_offset: 0 };
    pass.add(&Chapter::only(recording, clock, since, Edge::Open)).unwrap();
    pass.finish(100).unwrap()
}

fn report(name: &str, by: &[Key], events: &[Event]) -> Table {
    report_of(name, by, events, FilterSpec::default())
}

/// Its rows, as JSON, which is as the schema says.
fn rows(table: &Table) -> Vec<Value> {
    let document: Value = serde_json::from_str(&json::table(table, true).unwrap()).unwrap();
    let schema = include_str!("../../../docs/flightctl-report.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<String> = validator.iter_errors(&document).map(|e| e.to_string()).collect();
    assert!(wrong.is_empty(), "{wrong:?} in {document:#}");
    document["rows"].as_array().unwrap().clone()
}

fn of_call(time: u64, tid: u32, nr: u16, ret: Option<i64>) -> Event {
    let call = Call { nargs: 1, args: [3, 0, 0, 0, 0, 0], ..call(nr) };
    let body = match ret {
        None => Body::Enter(call),
        Some(ret) => Body::Exit { call, ret, entered: None },
    };
    event(time, 0, tid, body)
}

fn plain(time: u64, tid: u32, kind: Kind, bytes: &[u8]) -> Event {
    event(time, 0, tid, Body::Plain(Plain::read(kind, bytes).unwrap()))
}

#[test]
fn calls_by_name_and_error() {
    let events = [
        of_call(100, 5, 0, None),
        of_call(150, 5, 0, Some(10)),
        of_call(200, 5, 0, None),
        of_call(500, 5, 0, Some(-2)),
        of_call(600, 6, 1, None),
        of_call(601, 6, 1, Some(7)),
    ];
    let table = report("calls", &[], &events);
    let all = rows(&table);
    let read = &all[0];
    assert_eq!(read["syscall"], "read");
    for (name, value) in [
        ("count", 2),
        ("errors", 1),
        ("total_duration_ns", 350),
        ("average_duration_ns", 175),
        ("max_duration_ns", 300),
    ] {
        assert_eq!(read[name], value, "{name} in {read}");
    }
    assert_eq!((all.len(), &all[1]["syscall"]), (2, &Value::from("write")));
    assert_eq!((&all[1]["errors"], &all[1]["untimed"]), (&0.into(), &0.into()));
    let by_error = rows(&report("calls", &[Key::Syscall, Key::Errno], &events));
    let failed: Vec<&Value> = by_error.iter().filter(|row| row["errno"] == "ENOENT").collect();
    assert_eq!((failed.len(), by_error.len()), (1, 3));
    // A filter selects as it does for dump.
    let only = FilterSpec { tid: vec![6], ..FilterSpec::default() };
    assert_eq!(rows(&report_of("calls", &[], &events, only)).len(), 1);
    let shown = text::table(&table, true);
    assert!(shown.lines().next().unwrap().starts_with("CALLS"), "{shown}");
    assert!(shown.contains("read") && shown.contains("@@@"), "{shown}");
}

/// Two threads on a CPU: one waits for the other's flock, and then for the CPU.
fn waits() -> Vec<Event> {
    vec![
        event(1, 0, 1, Body::Fork(fork(1, 1, 5, 5, "taker"))),
        of_call(100, 5, 73, None),
        switch(110, 0, 5, 1, 6),
        of_call(150, 6, 1, None),
        waking(310, 0, 6, 5, 0),
        of_call(320, 6, 1, Some(9)),
        switch(400, 0, 6, 0, 5),
        of_call(410, 5, 73, Some(0)),
        switch(450, 0, 5, 1, 6),
    ]
}

#[test]
fn waits_have_reasons_wakers_and_delays() {
    let of_five = || FilterSpec { tid: vec![5], ..FilterSpec::default() };
    let table = report_of("waits", &[Key::Reason, Key::Waker], &waits(), of_five());
    let all = rows(&table);
    let flock = all.iter().find(|row| row["reason"] == "flock").expect("a flock");
    assert_eq!(
        (flock["total_duration_ns"].as_u64(), flock["count"].as_u64()),
        (Some(200), Some(1))
    );
    assert_eq!(flock["waker"], "thread 6 in write");
    let delays = rows(&report_of("runq", &[Key::Tid], &waits(), of_five()));
    assert_eq!(delays.len(), 1);
    assert_eq!(delays[0]["total_delay_ns"], 90);
    let instead = &delays[0]["ran_instead"][0];
    assert_eq!((&instead["name"], &instead["ns"]), (&Value::from(" (6)"), &Value::from(90)));
    let off = report_of("offcpu", &[Key::Comm, Key::Stack], &waits(), of_five());
    let lines = String::from_utf8(folded::table(&off)).unwrap();
    assert!(lines.lines().any(|line| line == "taker;[flock] 0"), "{lines}");
    // A filter of calls selects the waits in them.
    let read = FilterSpec { syscall: vec!["read".into()], ..FilterSpec::default() };
    assert_eq!(rows(&report_of("waits", &[], &waits(), read)).len(), 0);
    let flock = FilterSpec { syscall: vec!["flock".into()], ..FilterSpec::default() };
    assert_eq!(rows(&report_of("waits", &[], &waits(), flock)).len(), 1);
}

/// The pages of one CPU reach further back than those of the other, where a thread ran on, and
/// ended.
#[test]
fn what_was_before_all_cpus_are_read_tells_nothing() {
    const S: u64 = 1_000_000_000;
    let is_delayed = |other: u64| {
        let mut collector = Collector::new(Meta { cpus: vec![0, 1], ..meta() });
        for events in [
            &[switch(S, 0, 4, 1, 5), switch(2 * S, 0, 5, 0, 6), switch(11 * S, 0, 6, 0, 4)][..],
            &[switch(other, 1, 8, 1, 0), switch(11 * S, 1, 0, 0, 8)],
        ] {
            let mut writer = PageWriter::new(1, Lane::Sched, events[0].cpu, 0);
            for event in events {
                writer.push(event).unwrap();
            }
            let mut page = writer.finish().remove(0);
            // Not the first of its ring.
            page[offset_of!(RawHeader, seq)] = 9;
            collector.add(&page[..]).unwrap();
        }
        let recording = collector.finish(Totals::default());
        let asked = ("runq", &[Key::Tid][..], FilterSpec::default());
        let table = table_of(recording, Edge::Ago(2 * S + 1), 12 * S + 1, asked);
        rows(&table).iter().any(|row| row["tid"] == 5)
    };
    assert!(is_delayed(S));
    assert!(!is_delayed(9 * S));
}

/// A request that ended just before a thread released a lock did not end the wait for it.
#[test]
fn a_lock_that_a_thread_released_is_no_disk() {
    let request = (9, 254 << 20);
    let issue = BlockIssue {
        request: request.0,
        device: request.1,
        sector: 8,
        bytes: 4096,
        op: 0,
        flags: 0,
        context: WakeContext::Thread as u32,
    };
    let done = BlockComplete {
        request: request.0,
        device: request.1,
        sector: 8,
        bytes: 4096,
        op: 0,
        flags: 0,
        context: 2,
        left: 0,
        error: 0,
    };
    let mut events = waits();
    events.push(plain(105, 5, Kind::BlockIssue, &issue.bytes()));
    events.push(plain(305, 6, Kind::BlockComplete, &done.bytes()));
    events.sort_by_key(|event| event.time);
    let of_five = || FilterSpec { tid: vec![5], ..FilterSpec::default() };
    let by = [Key::Reason, Key::Waker, Key::Device];
    let of = |events: &[Event]| {
        let all = rows(&report_of("waits", &by, events, of_five()));
        let row = all.iter().find(|row| row["total_duration_ns"] == 200).expect("a wait").clone();
        [&row["reason"], &row["waker"], &row["device"]].map(Clone::clone)
    };
    assert_eq!(of(&events), ["flock".into(), "thread 6 in write".into(), Value::Null]);
    for event in &mut events {
        if let Body::Waking { context, .. } = &mut event.body {
            *context = WakeContext::Softirq;
        }
    }
    assert_eq!(of(&events), ["disk vda: read", "disk vda: read", "vda"].map(Value::from));
}

/// However many paths there are, commands have names.
#[test]
fn paths_crowd_out_no_commands() {
    let kind = of("calls").unwrap();
    let mut sums = Sums::new(kind.shape, &[Key::File, Key::Comm]);
    for n in 0..70_000u32 {
        let file = n.to_le_bytes();
        sums.of(&Facts { file: Some(&file), comm: b"early", ..Facts::default() }).add(1);
    }
    sums.of(&Facts { file: Some(b"one more"), comm: b"late", ..Facts::default() }).add(1_000_000);
    let (ranked, words) = sums.finish(1);
    let [file, comm, ..] = ranked.rows[0].0;
    assert_eq!((file, words.keys[1].word(comm)), (CROWDED, Some(b"late".as_slice())));
}

#[test]
fn bytes_by_what_was_done() {
    let events = [
        of_call(100, 5, 0, None),
        of_call(150, 5, 0, Some(10)),
        of_call(160, 5, 1, None),
        of_call(170, 5, 1, Some(300)),
        of_call(180, 5, 1, None),
        of_call(190, 5, 1, Some(-11)),
    ];
    let all = rows(&report("bytes", &[Key::Op], &events));
    let sums: Vec<_> = all.iter().map(|row| (&row["op"], &row["total_size_bytes"])).collect();
    assert_eq!(sums, [(&"write".into(), &300.into()), (&"read".into(), &10.into())]);
}

#[test]
fn requests_count_when_all_of_them_is_done() {
    let device = 254 << 20;
    let issue =
        BlockIssue { request: 9, device, sector: 8, bytes: 8192, op: 0, flags: 0, context: 0 };
    let done = |sector, bytes, left| BlockComplete {
        request: 9,
        device,
        sector,
        bytes,
        op: 0,
        flags: 0,
        context: 2,
        left,
        error: 0,
    };
    let events = [
        plain(100, 5, Kind::BlockIssue, &issue.bytes()),
        plain(300, 0, Kind::BlockComplete, &done(8, 4096, 4096).bytes()),
        plain(700, 0, Kind::BlockComplete, &done(16, 4096, 0).bytes()),
    ];
    let all = rows(&report("block", &[], &events));
    assert_eq!(all.len(), 1);
    let row = &all[0];
    assert_eq!((&row["device"], &row["op"]), (&"vda".into(), &"read".into()));
    assert_eq!((&row["count"], &row["bytes"]), (&1.into(), &8192.into()));
    assert_eq!(row["total_service_ns"], 600);
}

/// Above what can be followed at a time, a connection still counts once.
#[test]
fn too_many_connections_count_once() {
    let mut events = Vec::new();
    let mut at = |time, socket, (old, new)| {
        let state = SockState { socket, ..sock_state(old, new, 0) };
        events.push(plain(time, 5, Kind::SockState, &state.bytes()));
    };
    for n in 0..20u32 {
        at(100 + 10 * u64::from(n), n, (7, 2));
        at(105 + 10 * u64::from(n), n, (2, 1));
    }
    for n in 0..20u32 {
        at(1000 + 10 * u64::from(n), n, (1, 4));
        at(1005 + 10 * u64::from(n), n, (4, 7));
    }
    // A socket is used again.
    at(2000, 3, (7, 2));
    at(2010, 3, (2, 7));
    let table = report("net", &[Key::ClosedBy], &events);
    let all = rows(&table);
    let count: u64 = all.iter().map(|row| row["count"].as_u64().unwrap()).sum();
    assert_eq!(count, 21, "{all:#?}");
    assert!(table.limits[0].contains(" 16 were counted as open"), "{:?}", table.limits);
    assert!(report("net", &[], &events[..4]).limits.is_empty());
}

fn sock_state(old_state: u32, new_state: u32, context: u32) -> SockState {
    SockState {
        socket: 7,
        protocol: 6,
        old_state,
        new_state,
        local: flightrec_format::abi::ip::Ip::v4([10, 0, 0, 1]),
        remote: flightrec_format::abi::ip::Ip::v4([10, 0, 0, 2]),
        local_port: 40000,
        remote_port: 443,
        context,
        reserved: 0,
    }
}

/// One connection is one row, however many subflows it has, under who made it.
#[test]
fn a_connection_of_mptcp_counts_once() {
    let at = |time, socket, protocol, (old, new), context| {
        let state = SockState { socket, protocol, ..sock_state(old, new, context) };
        plain(time, 5, Kind::SockState, &state.bytes())
    };
    let (mptcp, subflow) = (262, MPTCP_SUBFLOW);
    let events = [
        at(100, 7, mptcp, (7, 2), 0),
        at(110, 8, subflow, (7, 2), 0),
        at(350, 8, subflow, (2, 1), 1),
        at(360, 7, mptcp, (2, 1), 1),
        at(900, 7, mptcp, (1, 4), 0),
        at(910, 8, subflow, (1, 4), 0),
        at(950, 8, subflow, (4, 7), 1),
        at(960, 7, mptcp, (4, 7), 1),
        at(970, 7, mptcp, (7, 7), 0),
    ];
    let all = rows(&report("net", &[Key::Tid, Key::Remote, Key::ClosedBy], &events));
    assert_eq!(all.len(), 1, "{all:#?}");
    let row = &all[0];
    assert_eq!((&row["count"], &row["tid"]), (&1.into(), &5.into()));
    assert_eq!((&row["closed_by"], &row["total_establish_ns"]), (&"local".into(), &260.into()));
}

#[test]
fn connections_are_told_when_they_end() {
    let at = |time, old, new, context| {
        plain(time, 5, Kind::SockState, &sock_state(old, new, context).bytes())
    };
    let events = [
        at(100, 7, 2, 0),
        at(350, 2, 1, 1),
        at(900, 1, 8, 1),
        at(950, 8, 9, 0),
        at(960, 9, 7, 1),
        // Another one on the same socket, which fails.
        at(1000, 7, 2, 0),
        at(1100, 2, 7, 1),
    ];
    let all = rows(&report("net", &[Key::Local, Key::Remote, Key::ClosedBy], &events));
    let of = |by: &str| all.iter().find(|row| row["closed_by"] == by).expect("a row");
    assert_eq!(of("remote")["total_establish_ns"], 250);
    assert_eq!(
        (&of("remote")["local"], &of("remote")["remote"]),
        (&"10.0.0.1".into(), &"10.0.0.2:443".into())
    );
    assert_eq!(
        (&of("failed")["failed"], of("failed")["max_establish_ns"].is_null()),
        (&1.into(), true)
    );
}

/// What CSV has can be read back, whatever names there are.
#[test]
fn csv_reads_back() {
    let events = [
        event(1, 0, 1, Body::Fork(fork(1, 1, 5, 5, "a,b\"c\n"))),
        of_call(100, 5, 0, None),
        of_call(150, 5, 0, Some(10)),
        enter(160, 0, 6, 0),
        exit(170, 0, 6, 0),
    ];
    assert_eq!(comm("x")[0], b'x');
    let table = report("calls", &[Key::Comm, Key::Syscall], &events);
    let written = String::from_utf8(csv::table(&table)).unwrap();
    let lines: Vec<Vec<String>> = written.lines().map(fields).collect();
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{written}");
    let at = |name: &str| lines[0].iter().position(|head| head == name).unwrap();
    let back: Vec<(&str, u64)> = lines[1..]
        .iter()
        .map(|line| (&*line[at("comm")], line[at("total_duration_ns")].parse().unwrap()))
        .collect();
    let told: Vec<(String, u64)> = rows(&table)
        .iter()
        .map(|row| {
            let comm = row["comm"].as_str().unwrap_or_default().to_owned();
            (comm, row["total_duration_ns"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(back, told.iter().map(|(comm, ns)| (&**comm, *ns)).collect::<Vec<_>>());
    assert!(back.iter().any(|(comm, _)| *comm == "a,b\"c\\n"), "{written}");
}

/// Names of threads are chosen by whoever wants to.
#[test]
fn csv_has_no_formulas() {
    let names = ["=1+1", "+a", "-b", "@c", "d=1"];
    let mut events = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let (tid, time) = (5 + at as u32, 100 * (at as u64 + 1));
        events.push(event(time, 0, 1, Body::Fork(fork(1, 1, tid, tid, name))));
        events.push(of_call(time + 10, tid, 0, None));
        events.push(of_call(time + 20, tid, 0, Some(-2)));
    }
    let table = report("calls", &[Key::Comm], &events);
    let written = String::from_utf8(csv::table(&table)).unwrap();
    for word in ["'=1+1,", "'+a,", "'-b,", "'@c,", "d=1,"] {
        assert!(written.lines().any(|line| line.starts_with(word)), "{word} {written}");
    }
}

/// What has no row is in one of its own, and that groups were given up is said.
#[test]
fn folded_stacks_have_the_others() {
    let mut table = report("offcpu", &[Key::Tid, Key::Stack], &waits());
    let all = folded_sum(&table);
    assert!(!String::from_utf8(folded::table(&table)).unwrap().contains("(others)"));
    let (_, sum) = table.ranked.rows.pop().unwrap();
    let ns = sum.values.sum();
    table.ranked.others = Others { groups: 1, sum };
    let lines = String::from_utf8(folded::table(&table)).unwrap();
    let last = lines.lines().last().unwrap();
    assert_eq!(last, format!("(others) {}", ns / 1000), "{lines}");
    assert_eq!(folded_sum(&table), all);
    assert!(text::limits(&table).is_empty());
    table.ranked.is_cut = true;
    assert!(text::limits(&table)[0].starts_with("too many groups"));
}

fn folded_sum(table: &Table) -> u64 {
    let lines = String::from_utf8(folded::table(table)).unwrap();
    lines.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// The fields of a line of CSV.
fn fields(line: &str) -> Vec<String> {
    let (mut out, mut is_quoted) = (vec![String::new()], false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let last = out.last_mut().unwrap();
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                last.push('"');
                chars.next();
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => out.push(String::new()),
            c => last.push(c),
        }
    }
    out
}
