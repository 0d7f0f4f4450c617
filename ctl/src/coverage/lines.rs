//! Coverage in words.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::kept::{ANYONE, YOUNG};
use flightrec_format::ring::Reason;

use super::Report;
use super::fold::{Folded, fold};
use crate::human::{counted, ranges, span};
use crate::kind::Kind;
use crate::pipeline::wall::WallClock;
use crate::source::anchor;

impl Report {
    /// The report, a line each, times of day in `zone`.
    pub fn lines(&self, wall: &mut WallClock, zone: &TimeZone) -> Vec<String> {
        let mut times = Times { wall, zone };
        let mut lines = Vec::new();
        if !self.disputed_by.is_empty() {
            let others = anchor::list(&self.disputed_by);
            lines.push(format!(
                "NOT VOUCHED FOR: nothing decides between this recording and {others}"
            ));
        }
        if self.window.from >= self.window.until {
            lines.push(self.nothing(&mut times));
            return lines;
        }
        lines.push(self.summary(&mut times));
        let named = |lane: &Lane| !self.is_complete() || self.is_off(*lane);
        lines.extend(Lane::RINGS.into_iter().filter(named).map(|lane| self.lane(lane)));
        lines.extend(self.lacking_line());
        let rows = fold(&self.gaps());
        lines.extend(rows.iter().map(|row| gap_line(row, self.is_beyond(&row.gap), &mut times)));
        if !self.left_out.is_empty() {
            lines.push(busy(&self.left_out));
        }
        if self.spared() != 0 {
            let n = events(self.spared());
            let how = "of processes that were not asked for, overwritten in the rings";
            lines.push(format!(
                "not counted as missing: {n} {how} (the quiet ring holds the others')"
            ));
        }
        lines.extend(self.doubt_lines(&mut times));
        if !self.detached.is_empty() {
            let ns =
                self.detached.iter().map(|(from, until)| until - from).fold(0, u64::saturating_add);
            let times = counted(self.detached.len() as u64, "time");
            let how = "for the budget: not recorded, nor counted";
            lines.push(format!(
                "system calls were detached on all CPUs for {} in all ({times}), {how}",
                span(ns)
            ));
        }
        if self.untold != 0 {
            let lost = "the recorder's own lines about it are lost, so it is not known when: not \
                        recorded, nor counted";
            lines.push(format!(
                "system calls were detached for {} more in or near the window: {lost}",
                span(self.untold)
            ));
        }
        let refused = [
            (Refusal::Busy, "refused, as another program was writing the lane"),
            (Refusal::Throttled, "refused by the budget"),
            (Refusal::Own, "of the recorder's own left out"),
        ];
        for (reason, words) in refused {
            let by_lane = self.refused(reason);
            if by_lane != [0; 3] {
                let most =
                    if reason != Refusal::Own && self.is_bound(reason) { "at most " } else { "" };
                lines.push(format!(
                    "{most}{} {words} ({})",
                    events(total(&by_lane)),
                    lanes_of(&by_lane)
                ));
            }
        }
        for (cpu, no_ring) in self.unrecorded() {
            let since = "since the start of the recording";
            lines.push(format!(
                "CPU {cpu} has no rings: {} {since} ({})",
                events(total(&no_ring)),
                lanes_of(&no_ring)
            ));
        }
        for (program, n) in self.missed() {
            let runs = counted(n, "run");
            lines.push(format!(
                "the kernel skipped {runs} of {program} since the start of the recording \
                 (recursion)"
            ));
        }
        lines
    }

    /// For a window that nothing can be in.
    fn nothing(&self, times: &mut Times<'_>) -> String {
        if self.from_start {
            return format!(
                "coverage: nothing, as the recording began only at {}",
                times.full(self.started)
            );
        }
        if self.window.until < self.now {
            return "coverage: nothing, as the wall clock showed no time of the window".to_owned();
        }
        format!(
            "coverage: nothing, as the window begins in the future (it is {})",
            times.full(self.window.until)
        )
    }

    /// `coverage: 14:03:01.000000 to 14:03:11.000000 (10.0 s): complete on CPUs 0-1 in syscall,
    /// sched, task`
    fn summary(&self, times: &mut Times<'_>) -> String {
        let (from, until) = (self.window.from, self.window.until);
        let start = if self.from_start { ", the start of the recording," } else { "" };
        let mut line = format!(
            "coverage: {}{start} to {} ({}): ",
            times.full(from),
            times.short(until, from),
            span(until.saturating_sub(from))
        );
        let recorded: Vec<Lane> =
            Lane::RINGS.into_iter().filter(|lane| !self.is_off(*lane)).collect();
        if recorded.is_empty() {
            line.push_str("nothing but marks is recorded");
        } else if self.is_complete() {
            let cpus =
                ranges(recorded.first().map_or_else(Vec::new, |lane| self.complete_cpus(*lane)));
            let lanes = recorded.into_iter().map(Lane::name).collect::<Vec<_>>().join(", ");
            // Writing to a string can't fail.
            let _ = write!(line, "complete on CPUs {cpus} in lanes {lanes}");
        } else {
            line.push_str("INCOMPLETE");
        }
        line
    }

    /// `lane sched: complete on CPUs 0, 2-3 (3 of 4)`
    fn lane(&self, lane: Lane) -> String {
        if self.is_off(lane) {
            return format!(
                "lane {}: not recorded (off in the configuration's [record])",
                lane.name()
            );
        }
        let (complete, all) = (self.complete_cpus(lane), self.cpus(lane));
        match complete.len() {
            0 => format!("lane {}: complete on no CPU", lane.name()),
            n => format!(
                "lane {}: complete on CPUs {} ({n} of {all})",
                lane.name(),
                ranges(complete)
            ),
        }
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
            let named = lost.iter().enumerate().filter(|(_, n)| **n != 0);
            let list: Vec<String> = named
                .map(|(i, n)| {
                    format!(
                        "{n} {}",
                        Kind::counted(gap.lane as usize, i).map_or("unknown", Kind::name)
                    )
                })
                .collect();
            let _ = write!(line, "{} missing", events(total(lost)));
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
        line.push_str("; at most so many of them in the window");
    }
    line
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
fn lanes_of(counts: &[u64; 3]) -> String {
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
