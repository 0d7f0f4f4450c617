use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::record::{Abi, WakeContext};
use flightrec_format::decode::Call;
use flightrec_format::meta::Syscall;
use flightrec_format::ring::Reason as GapReason;

use super::*;
use crate::model::{Cell, Group};

const SECOND: u64 = 1_000_000_000;

fn maker() -> Maker {
    let read = Syscall { nr: 0, name: "read".into(), args: None };
    let meta = Meta { native: vec![read], ..Meta::default() };
    Maker::new(&meta, Vec::new(), 0, 0)
}

fn call() -> Call {
    Call { nr: 0, abi: Abi::Native, nargs: 0, args: [0; 6], strings: Vec::new() }
}

fn take(maker: &mut Maker, time: u64, tid: u32, body: Body) {
    maker.event(&Event { time: time * SECOND, cpu: 0, tid, body });
}

fn enter(maker: &mut Maker, time: u64) {
    take(maker, time, 5, Body::Enter(call()));
}

fn exit(maker: &mut Maker, time: u64, ret: i64) {
    take(maker, time, 5, Body::Exit { call: call(), ret, entered: None });
}

fn switch(prev_state: u16, next: u32) -> Body {
    let (preempted, io_wait, prev_prio, next_prio) = (false, false, 120, 120);
    Body::Switch { prev_state, next, preempted, io_wait, prev_prio, next_prio }
}

fn cell(period: &Period, table: Table, keys: [&[u8]; 3]) -> Cell {
    period.rows.get(&Group::new(table, keys)).cloned().unwrap_or_default()
}

/// What goes over the ends of minutes: a call counts where it ends, times are cut, and a wait has
/// its whole length where it ends.
#[test]
fn a_call_counts_where_it_ends_and_times_are_cut() {
    let mut maker = maker();
    enter(&mut maker, 59);
    exit(&mut maker, 61, 10);
    enter(&mut maker, 62);
    take(&mut maker, 63, 5, switch(1, 0));
    let context = WakeContext::Hardirq;
    let body = Body::Waking { wakee: 5, prio: 120, state: 1, cpu: 0, new: false, context };
    take(&mut maker, 185, 0, body);
    take(&mut maker, 186, 0, switch(0, 5));
    exit(&mut maker, 187, -4);
    let periods = maker.finish();
    assert_eq!(periods.len(), 4);
    let ends: Vec<u64> = periods.iter().map(|of| of.until / SECOND).collect();
    assert_eq!(ends, [60, 120, 180, 187]);
    let calls: Vec<Cell> =
        periods.iter().map(|of| cell(of, Table::Calls, [b"", b"read", b""])).collect();
    assert_eq!(calls.iter().map(|of| of.count).collect::<Vec<_>>(), [0, 1, 0, 1]);
    assert_eq!(calls.iter().map(|of| of.sum / SECOND).collect::<Vec<_>>(), [0, 2, 0, 125]);
    assert_eq!(calls[3].extras[ERRORS], 1);
    assert_eq!(cell(&periods[3], Table::Errors, [b"", b"read", b"4"]).count, 1);
    assert_eq!(cell(&periods[1], Table::Bytes, [b"", b"read", b"read"]).sum, 10);
    let waits: Vec<Cell> = periods
        .iter()
        .map(|of| {
            let mut all = Cell::default();
            let waits = of.rows.iter().filter(|(group, _)| group.table == Table::Waits);
            waits.for_each(|(_, cell)| all.merge(cell));
            all
        })
        .collect();
    assert_eq!(waits.iter().map(|of| of.sum / SECOND).collect::<Vec<_>>(), [0, 57, 60, 5]);
    assert_eq!(waits.iter().map(|of| of.count).collect::<Vec<_>>(), [0, 0, 0, 1]);
    assert_eq!(waits[3].max, 122 * SECOND);
    let queue = cell(&periods[3], Table::RunQueue, [b"", b"", b""]);
    // The last period ends right after the last event.
    assert_eq!((queue.count, queue.sum, queue.extras[RUNNING]), (1, SECOND, SECOND + 1));
    let marks: Vec<u32> = periods.iter().map(|of| of.flags).collect();
    assert_eq!(marks, [0, 0, 0, flags::PART]);
}

/// A gap is counted where it is noticed, and marks the minutes in which it began.
#[test]
fn minutes_with_gaps_are_marked() {
    let mut maker = maker();
    enter(&mut maker, 10);
    exit(&mut maker, 130, 1);
    let lost = Counts::first([7]);
    maker.miss(&Gap {
        lane: Lane::Syscall,
        cpu: 0,
        from: 70 * SECOND,
        until: 129 * SECOND,
        lost: Some(lost),
        refused: [1, 2, 4],
        reason: GapReason::Missing,
    });
    let periods = maker.finish();
    let marks: Vec<bool> = periods.iter().map(|of| of.flags & flags::LOST != 0).collect();
    assert_eq!(marks, [false, true, true]);
    // The recorder's own are no loss.
    assert_eq!(periods[2].lost, [10, 0, 0, 0]);
    assert_eq!(periods.iter().map(Period::missing).sum::<u64>(), 10);
}

/// The exit that follows what is missing may be of another call of the same kind.
#[test]
fn no_call_takes_as_long_as_what_is_missing() {
    let gap = |lane, cpu, reason, refused: [u64; 3]| {
        let mut maker = maker();
        enter(&mut maker, 1);
        maker.miss(&Gap {
            lane,
            cpu,
            from: 2 * SECOND,
            until: 3 * SECOND,
            lost: Some(Counts::first([if refused == [0; 3] { 2 } else { 0 }])),
            refused,
            reason,
        });
        exit(&mut maker, 4, 1);
        let periods = maker.finish();
        let of = cell(&periods[0], Table::Calls, [b"", b"read", b""]);
        (of.count, of.max)
    };
    let none = [0; 3];
    assert_eq!(gap(Lane::Syscall, 0, GapReason::Overwritten, none), (1, 0));
    let of_budget = gap(Lane::Syscall, 0, GapReason::Refused, [0, 2, 0]);
    assert_eq!(of_budget, (1, 3 * SECOND), "both ends are refused");
    assert_eq!(gap(Lane::Syscall, 0, GapReason::Refused, [2, 0, 0]), (1, 0), "one may be");
    assert_eq!(gap(Lane::Sched, 0, GapReason::Overwritten, none), (1, 3 * SECOND));
    let elsewhere = gap(Lane::Syscall, 1, GapReason::Overwritten, none);
    assert_eq!(elsewhere, (1, 3 * SECOND), "on a CPU where the thread was not");
}

/// Minutes are the wall clock's; what the clock was set by makes none of a moment.
#[test]
fn minutes_are_those_of_the_wall_clock() {
    let offset = 1_767_225_600 * SECOND as i64 - 30 * SECOND as i64;
    let mut maker = Maker::new(&Meta::default(), Vec::new(), 100 * SECOND, offset);
    assert_eq!((maker.from, maker.until), (100 * SECOND, 150 * SECOND));
    take(&mut maker, 151, 5, switch(0, 6));
    maker.know(&Meta::default(), offset - SECOND as i64 / 2);
    take(&mut maker, 211, 6, switch(0, 5));
    assert_eq!(maker.from, 210 * SECOND);
    assert_eq!(maker.until, 270 * SECOND + SECOND / 2);
    let periods = maker.finish();
    assert_eq!(periods[0].flags, flags::PART);
    assert_eq!(periods[0].wall, 1_767_225_670 * SECOND as i64);
}

/// A gap of minutes: each of them is marked, also those that end before any event of them is seen.
#[test]
fn every_minute_of_a_gap_is_marked() {
    let mut maker = maker();
    enter(&mut maker, 30);
    exit(&mut maker, 31, 1);
    let lost = Some(Counts::first([40]));
    let (from, until) = (31 * SECOND, 290 * SECOND);
    maker.miss(&Gap {
        lane: Lane::Syscall,
        cpu: 0,
        from,
        until,
        lost,
        refused: [0; 3],
        reason: GapReason::Missing,
    });
    enter(&mut maker, 291);
    exit(&mut maker, 301, 1);
    let periods = maker.finish();
    let told: Vec<(u32, u64)> = periods.iter().map(|of| (of.flags, of.missing())).collect();
    let lost = flags::LOST;
    assert_eq!(told, [(lost, 40), (lost, 0), (lost, 0), (lost, 0), (lost, 0), (flags::PART, 0)]);
}
