//! Coverage in words.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use flightrec_format::abi::page::{Lane, RING_LANES, Refusal};
use flightrec_format::kept::{ANYONE, YOUNG};
use flightrec_format::meta::{Lacking, SwitchedOff};
use flightrec_format::ring::{Gap, Reason};
use flightrec_reader::coverage::Coverage;
use flightrec_reader::coverage::unknown::Unknown;
use flightrec_reader::kind::Kind;
use flightrec_reader::source::trust;
use flightrec_reader::wall::WallClock;

use super::doubt::doubt_lines;
use super::fold::{Folded, fold};
use crate::text::printable;
use flightrec_format::human::{counted, ranges, span};

/// The report, a line each, times of day in `zone`.
pub fn lines(report: &Coverage, wall: &mut WallClock, zone: &TimeZone) -> Vec<String> {
    let mut times = Times { wall, zone };
    let mut lines = Vec::new();
    if !report.disputed_by.is_empty() {
        let others = trust::list(&report.disputed_by);
        lines.push(format!("NOT CONFIRMED: nothing decides between this recording and {others}"));
    }
    if report.window.from >= report.window.until {
        lines.push(nothing(report, &mut times));
        return lines;
    }
    lines.push(summary(report, &mut times));
    let named = |lane: &Lane| !report.is_complete() || report.is_off(*lane);
    lines.extend(Lane::RINGS.into_iter().filter(named).map(|lane| lane_line(report, lane)));
    lines.extend(switched_off(report));
    lines.extend(lacking(&report.lacking));
    lines.extend(unknown(&report.unknown));
    let (uncounted, gaps): (Vec<&Gap>, Vec<&Gap>) =
        report.gaps().into_iter().partition(|gap| gap.reason == Reason::Uncounted);
    let rows = fold(&gaps);
    lines.extend(rows.iter().map(|row| gap_line(row, report.is_beyond(&row.gap), &mut times)));
    lines.extend(uncounted_lines(&uncounted, &mut times));
    lines.extend(unasked(report));
    if !report.left_out.is_empty() {
        lines.push(busy(&report.left_out));
    }
    if report.spared() != 0 {
        let n = events(report.spared());
        let how = "of processes that were not asked for, overwritten in the rings";
        lines.push(format!("not counted as missing: {n} {how} (the quiet ring holds the others')"));
    }
    lines.extend(doubt_lines(report, &mut times));
    if !report.detached.is_empty() {
        let ns =
            report.detached.iter().map(|(from, until)| until - from).fold(0, u64::saturating_add);
        let times = counted(report.detached.len() as u64, "time");
        let how = "for the budget: not recorded, nor counted";
        lines.push(format!(
            "system calls were detached on all CPUs for {} in all ({times}), {how}",
            span(ns)
        ));
    }
    if report.untold != 0 {
        let lost = "the recorder's events about it are lost, so the times are unknown: not \
                    recorded, nor counted";
        lines.push(format!(
            "system calls were detached for {} more in or near the window: {lost}",
            span(report.untold)
        ));
    }
    let refused = [
        (Refusal::Busy, "refused, as another program was writing the lane"),
        (Refusal::Throttled, "refused by the budget"),
        (Refusal::Own, "of the recorder's own left out"),
    ];
    for (reason, words) in refused {
        let by_lane = report.refused(reason);
        if by_lane != [0; RING_LANES] {
            let most = if report.is_bound(reason) { "at most " } else { "" };
            lines.push(format!(
                "{most}{} {words} ({})",
                events(total(&by_lane)),
                lanes_of(&by_lane)
            ));
        }
    }
    for (cpu, no_ring) in report.unrecorded() {
        let since = "since the start of the recording";
        lines.push(format!(
            "CPU {cpu} has no rings: {} {since} ({})",
            events(total(&no_ring)),
            lanes_of(&no_ring)
        ));
    }
    for (program, n) in report.missed() {
        let runs = counted(n, "run");
        lines.push(format!(
            "the kernel skipped {runs} of {program} since the start of the recording \
             (recursion)"
        ));
    }
    lines
}

/// `2 kinds of a newer release not shown: 512 events (500 net_drop, 12 oom)`
fn unknown(unknown: &Unknown) -> Vec<String> {
    let mut lines: Vec<String> =
        unknown.lanes.iter().map(|lane| unknown_lane(lane, "not shown")).collect();
    if !unknown.kinds.is_empty() {
        let all = unknown.kinds.values().fold(0u64, |sum, n| sum.saturating_add(*n));
        let named: Vec<String> =
            unknown.kinds.iter().map(|(name, n)| format!("{n} {}", printable(name))).collect();
        let kinds = counted(unknown.kinds.len() as u64, "kind");
        let (events, named) = (events(all), named.join(", "));
        lines.push(format!("{kinds} of a newer release not shown: {events} ({named})"));
    }
    lines
}

/// `lane net: of a newer release, not shown`; `fate`: what becomes of its events here.
pub fn unknown_lane(name: &str, fate: &str) -> String {
    format!("lane {}: of a newer release, {fate}", printable(name))
}

/// For a window that nothing can be in.
fn nothing(report: &Coverage, times: &mut Times<'_>) -> String {
    if report.from_start {
        return format!(
            "coverage: nothing, as the recording began only at {}",
            times.full(report.started)
        );
    }
    if report.window.until < report.now {
        return "coverage: empty: the wall clock never showed these times".to_owned();
    }
    format!(
        "coverage: nothing, as the window begins in the future (it is {})",
        times.full(report.window.until)
    )
}

/// `coverage: 14:03:01.000000 to 14:03:11.000000 (10.0 s): complete on CPUs 0-1 in syscall,
/// sched, task`
fn summary(report: &Coverage, times: &mut Times<'_>) -> String {
    let (from, until) = (report.window.from, report.window.until);
    let start = if report.from_start { ", the start of the recording," } else { "" };
    let mut line = format!(
        "coverage: {}{start} to {} ({}): ",
        times.full(from),
        times.short(until, from),
        span(until.saturating_sub(from))
    );
    let unasked = report.lacking_unasked();
    let is_named = |lane: &Lane| !report.is_off(*lane) && !unasked.contains(lane);
    let recorded: Vec<Lane> = Lane::RINGS.into_iter().filter(is_named).collect();
    if recorded.is_empty() {
        line.push_str("nothing but marks is recorded");
    } else if report.is_complete() {
        let cpus =
            ranges(recorded.first().map_or_else(Vec::new, |lane| report.complete_cpus(*lane)));
        let lanes = recorded.into_iter().map(Lane::name).collect::<Vec<_>>().join(", ");
        // Writing to a string can't fail.
        let _ = write!(line, "complete on CPUs {cpus} in lanes {lanes}");
    } else {
        line.push_str("INCOMPLETE");
    }
    line
}

/// `not counted as missing: events of lane kernel: no event of it is asked for`
fn unasked(report: &Coverage) -> Option<String> {
    let lanes = report.lacking_unasked();
    if lanes.is_empty() {
        return None;
    }
    let names = lanes.iter().map(|lane| lane.name()).collect::<Vec<_>>().join(", ");
    Some(format!("not counted as missing: events of lane {names}: no event of it is asked for"))
}

/// `lane sched: complete on CPUs 0, 2-3 (3 of 4)`
fn lane_line(report: &Coverage, lane: Lane) -> String {
    if report.is_off(lane) {
        return format!("lane {}: not recorded (off in the configuration)", lane.name());
    }
    let (complete, all) = (report.complete_cpus(lane), report.cpus(lane));
    match complete.len() {
        0 => format!("lane {}: complete on no CPU", lane.name()),
        n => format!("lane {}: complete on CPUs {} ({n} of {all})", lane.name(), ranges(complete)),
    }
}

/// `gap: CPU 1, lane syscall, … to … (3.1 s): 12034 events missing (6017 sys_enter, 6017 sys_exit):
/// overwritten …` `is_beyond`: it reaches beyond the window, so its count is a bound.
fn gap_line(row: &Folded, is_beyond: bool, times: &mut Times<'_>) -> String {
    let gap = &row.gap;
    let length = match row.count {
        1 => String::new(),
        n => format!("{n} gaps, together "),
    };
    let mut line = format!(
        "gap: CPU {}, lane {}, {} to {} ({length}{}): ",
        gap.cpu,
        gap.lane.name(),
        times.full(gap.from),
        times.short(gap.until, gap.from),
        span(row.length)
    );
    match (&gap.lost, gap.reason) {
        (_, Reason::Refused) => {
            let reasons = ["busy", "throttled", "own"];
            let by_reason =
                gap.refused.iter().zip(reasons).filter(|(n, reason)| **n != 0 && *reason != "own");
            let list: Vec<String> = by_reason.map(|(n, reason)| format!("{n} {reason}")).collect();
            let n = gap.refused.iter().take(2).fold(0u64, |sum, n| sum.saturating_add(*n));
            // Writing to a string can't fail.
            let _ = write!(line, "{} refused ({})", events(n), list.join(", "));
        }
        (Some(lost), reason) => {
            let name = |i| Kind::counted(gap.lane, i).map_or("unknown", Kind::name);
            let named = lost.present().map(|(i, n)| format!("{n} {}", name(i)));
            let list: Vec<String> = named.collect();
            let _ = write!(line, "{} missing", events(lost.total()));
            if !list.is_empty() {
                let _ = write!(line, " ({})", list.join(", "));
            }
            let _ = write!(line, ": {}", reason.describe());
        }
        (None, reason) => {
            let _ = write!(line, "unknown number of events missing: {}", reason.describe());
        }
    }
    if is_beyond && (gap.lost.is_some() || gap.reason == Reason::Refused) {
        line.push_str("; at most that many are in the window");
    }
    line
}

/// `CPUs 0-1, lane syscall: events may be missing from … on: …`; a line for each lane.
fn uncounted_lines(gaps: &[&Gap], times: &mut Times<'_>) -> Vec<String> {
    let of_lane = |lane: Lane| {
        let of_lane = gaps.iter().filter(move |gap| gap.lane == lane);
        let from = of_lane.clone().map(|gap| gap.from).min()?;
        let mut cpus: Vec<u16> = of_lane.map(|gap| gap.cpu).collect();
        cpus.sort_unstable();
        Some(format!(
            "CPUs {}, lane {}: events may be missing from {} on: {}",
            ranges(cpus),
            lane.name(),
            times.full(from),
            Reason::Uncounted.describe()
        ))
    };
    Lane::RINGS.into_iter().filter_map(of_lane).collect()
}

fn total(counts: &[u64]) -> u64 {
    counts.iter().fold(0, |sum, n| sum.saturating_add(*n))
}

fn events(n: u64) -> String {
    counted(n, "event")
}

/// `the busy processes are: 4711 (123 events), new ones (45 events)`
fn busy(left_out: &[(u32, u64)]) -> String {
    /// Most that are named.
    const NAMED: usize = 8;
    let name = |(process, n): &(u32, u64)| match *process {
        ANYONE => format!("unknown ones ({})", events(*n)),
        YOUNG => format!("new ones ({})", events(*n)),
        process => format!("{process} ({})", events(*n)),
    };
    let names: Vec<String> = left_out.iter().take(NAMED).map(name).collect();
    let more = match left_out.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("the busy processes are: {}{more}", names.join(", "))
}

/// `12 syscall, 3 sched`
fn lanes_of(counts: &[u64; RING_LANES]) -> String {
    let named = counts.iter().zip(Lane::RINGS).filter(|(n, _)| **n != 0);
    named.map(|(n, lane)| format!("{n} {}", lane.name())).collect::<Vec<_>>().join(", ")
}

/// Moments of the recording as local times.
pub(super) struct Times<'a> {
    pub(super) wall: &'a mut WallClock,
    pub(super) zone: &'a TimeZone,
}

impl Times<'_> {
    /// Date and time.
    pub(super) fn full(&mut self, mono: u64) -> String {
        self.format(mono, "%Y-%m-%d %H:%M:%S%.6f")
    }

    /// The time; with its date where that is not `other`'s.
    pub(super) fn short(&mut self, mono: u64, other: u64) -> String {
        let date = "%Y-%m-%d";
        if self.format(mono, date) == self.format(other, date) {
            self.format(mono, "%H:%M:%S%.6f")
        } else {
            self.full(mono)
        }
    }

    /// Date and time of what the wall clock showed, ns since 1970.
    pub(super) fn wall_full(&self, wall: i64) -> String {
        self.format_wall(wall, "%Y-%m-%d %H:%M:%S%.6f")
    }

    fn format(&mut self, mono: u64, format: &str) -> String {
        let wall = self.wall.wall(mono);
        self.format_wall(wall, format)
    }

    fn format_wall(&self, wall: i64, format: &str) -> String {
        let moment = Timestamp::from_nanosecond(i128::from(wall)).unwrap_or(Timestamp::UNIX_EPOCH);
        moment.to_zoned(self.zone.clone()).strftime(format).to_string()
    }
}

/// `not recorded (off in the configuration): signals (signal_generate, signal_deliver)`;
/// lanes that are off as a whole are told by themselves.
fn switched_off(report: &Coverage) -> Option<String> {
    let is_told = |name: &str| {
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        kind.is_some_and(|kind| report.is_off(kind.lane()))
    };
    let one = |of: &SwitchedOff| {
        let kinds = of.kinds.iter().filter(|name| !is_told(name));
        let kinds: Vec<String> = kinds.map(printable).collect();
        (!kinds.is_empty()).then(|| format!("{} ({})", printable(&of.key), kinds.join(", ")))
    };
    let all: Vec<String> = report.switched_off.iter().filter_map(one).collect();
    let off = "not recorded (off in the configuration)";
    (!all.is_empty()).then(|| format!("{off}: {}", all.join("; ")))
}

/// `not recorded on this kernel: signals (this kernel has no tracepoint signal:…)`, and a line for
/// threads that are not known.
pub fn lacking(lacking: &[Lacking]) -> Vec<String> {
    let one = |of: &Lacking| format!("{} ({})", printable(&of.what), printable(&of.why));
    let line = |of_events: bool, begin: &str| {
        let rows = lacking.iter().filter(|of| of.kinds.is_empty() != of_events);
        let all: Vec<String> = rows.map(one).collect();
        (!all.is_empty()).then(|| format!("{begin}: {}", all.join("; ")))
    };
    [line(true, "not recorded on this kernel"), line(false, "not known")]
        .into_iter()
        .flatten()
        .collect()
}
