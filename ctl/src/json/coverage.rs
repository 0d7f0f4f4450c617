//! Coverage as JSON: the first line of a dump, and a line for each gap where it falls.

use std::collections::BTreeMap;

use serde::Serialize;

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{Lane, RING_LANES, Refusal};
use flightrec_format::meta::{Lacking, Meta, SwitchedOff};
use flightrec_format::ring::{Gap, Reason};
use flightrec_reader::coverage::Coverage;
use flightrec_reader::coverage::unknown::Unknown;
use flightrec_reader::kind::Kind;
use flightrec_reader::pipeline::Doubt;
use flightrec_reader::source::trust;
use flightrec_reader::wall::WallClock;
use flightrec_reader::window::Window;

use super::Aside;
use super::clock::Clock;
use crate::render::Following;
use crate::schema::SCHEMA_VERSION;
use crate::text::printable;

/// The first line.
#[derive(Serialize)]
struct CoverageLine {
    event: &'static str,
    schema_version: u32,
    #[serde(flatten)]
    span: Span,
    complete: bool,
    from_start: bool,
    cpus: Vec<u16>,
    lanes: Vec<LaneCoverage>,
    gaps: Vec<GapFields>,
    refused: BTreeMap<&'static str, ByLane>,
    own: ByLane,
    recursion_misses: BTreeMap<String, u64>,
    cpus_without_rings: Vec<NoRings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<UnknownFields>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    detached: Vec<Span>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unasked_lanes: Vec<&'static str>,
    #[serde(skip_serializing_if = "is_zero")]
    left_out_of_others: u64,
    #[serde(skip_serializing_if = "is_zero")]
    detached_untold_ns: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    undecided: Vec<DoubtFields>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    disputed_by: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    switched_off: Vec<OffFields>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lacking: Vec<LackingFields>,
    recording: Recorded,
}

/// The first line of a recording that is followed.
#[derive(Serialize)]
struct FollowingLine {
    event: &'static str,
    schema_version: u32,
    session: String,
    from: String,
    from_mono_ns: u64,
}

/// What a newer release recorded.
#[derive(Serialize)]
struct UnknownFields {
    lanes: Vec<String>,
    kinds: BTreeMap<String, u64>,
}

impl UnknownFields {
    /// `None`: there is nothing of it.
    fn of(unknown: &Unknown) -> Option<Self> {
        let lanes = unknown.lanes.iter().map(printable).collect();
        let kinds = unknown.kinds.iter().map(|(name, n)| (printable(name), *n)).collect();
        let is_empty = unknown.lanes.is_empty() && unknown.kinds.is_empty();
        (!is_empty).then_some(Self { lanes, kinds })
    }
}

/// A lane over all CPUs.
#[derive(Serialize)]
struct LaneCoverage {
    lane: &'static str,
    complete_cpus: Vec<u16>,
    cpus: usize,
}

/// A CPU on which something happened that nothing recorded; counts since the start of the
/// recording.
#[derive(Serialize)]
struct NoRings {
    cpu: u16,
    events: ByLane,
}

/// What the configuration leaves out.
#[derive(Serialize)]
struct OffFields {
    key: String,
    kinds: Vec<String>,
}

fn switched_off(of: &SwitchedOff) -> OffFields {
    OffFields { key: printable(&of.key), kinds: of.kinds.iter().map(printable).collect() }
}

/// What the recorded kernel lacked of what is asked for.
#[derive(Serialize)]
struct LackingFields {
    what: String,
    kinds: Vec<String>,
    why: String,
}

fn lacking(of: &Lacking) -> LackingFields {
    LackingFields {
        what: printable(&of.what),
        kinds: of.kinds.iter().map(printable).collect(),
        why: printable(&of.why),
    }
}

/// Which recording it is.
#[derive(Serialize)]
struct Recorded {
    session: String,
    boot_id: String,
    host: String,
    kernel: String,
    machine: String,
    recorder: String,
}

/// A stretch of time.
#[derive(Serialize)]
struct Span {
    from: String,
    from_mono_ns: u64,
    until: String,
    until_mono_ns: u64,
}

/// Events of a CPU of which it is not known whether the filter wants them.
#[derive(Serialize)]
struct DoubtFields {
    cpu: u16,
    #[serde(flatten)]
    span: Span,
    missing: &'static str,
    events: u64,
}

/// A gap, in the first line and in its own.
#[derive(Serialize)]
struct GapFields {
    cpu: u16,
    lane: &'static str,
    #[serde(flatten)]
    span: Span,
    reason: &'static str,
    missing: Option<u64>,
    lost: BTreeMap<&'static str, u64>,
    refused: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    beyond: bool,
}

/// A gap's own line.
#[derive(Serialize)]
struct GapLine {
    time: String,
    mono_ns: u64,
    event: &'static str,
    #[serde(flatten)]
    gap: GapFields,
}

/// Counts by lane, those of 0 left out.
type ByLane = BTreeMap<&'static str, u64>;

/// Refusals that are a loss.
const LOSSES: [(Refusal, &str); 2] = [(Refusal::Busy, "busy"), (Refusal::Throttled, "throttled")];

/// The first line of a recording that is followed, with its end.
pub fn following_line(following: &Following<'_>) -> String {
    json_line(&FollowingLine {
        event: "following",
        schema_version: SCHEMA_VERSION,
        session: format!("{:016x}", following.meta.session),
        from: Clock::new().string(following.wall_ns),
        from_mono_ns: following.from,
    })
}

/// A gap's line, with its end, as it is told between events.
pub fn gap_line(gap: &Gap, wall: &mut WallClock) -> String {
    let mut times = Times { wall, clock: Clock::new() };
    json_line(&GapLine {
        time: times.time(gap.from),
        mono_ns: gap.from,
        event: "gap",
        gap: times.gap(gap, false),
    })
}

/// The first line of a dump in JSON, with its end.
pub fn line(report: &Coverage, meta: &Meta, wall: &mut WallClock) -> String {
    let mut times = Times { wall, clock: Clock::new() };
    let line = CoverageLine {
        event: "coverage",
        schema_version: SCHEMA_VERSION,
        span: times.span(report.window.from, report.window.until),
        complete: report.is_complete(),
        from_start: report.from_start,
        cpus: report.all_cpus(),
        lanes: Lane::RINGS.iter().map(|lane| lane_json(report, *lane)).collect(),
        gaps: report.gaps().into_iter().map(|gap| times.gap(gap, report.is_beyond(gap))).collect(),
        refused: LOSSES
            .iter()
            .map(|(refusal, name)| (*name, by_lane(&report.refused(*refusal))))
            .collect(),
        own: by_lane(&report.refused(Refusal::Own)),
        recursion_misses: report.missed().map(|(name, n)| (printable(name), n)).collect(),
        cpus_without_rings: report
            .unrecorded()
            .map(|(cpu, events)| NoRings { cpu, events: by_lane(&events) })
            .collect(),
        unknown: UnknownFields::of(&report.unknown),
        unasked_lanes: report.lacking_unasked().into_iter().map(Lane::name).collect(),
        left_out_of_others: report.spared(),
        detached: report.detached.iter().map(|(from, until)| times.span(*from, *until)).collect(),
        detached_untold_ns: report.untold,
        undecided: report.doubts.iter().map(|doubt| times.doubt(doubt)).collect(),
        disputed_by: trust::hex(&report.disputed_by),
        switched_off: report.switched_off.iter().map(switched_off).collect(),
        lacking: report.lacking.iter().map(lacking).collect(),
        recording: Recorded {
            session: format!("{:016x}", meta.session),
            boot_id: printable(&meta.boot_id),
            host: printable(&meta.host),
            kernel: printable(&meta.kernel),
            machine: printable(&meta.machine),
            recorder: printable(&meta.recorder),
        },
    };
    json_line(&line)
}

/// A line for each gap, in order of the time where it falls in the window.
pub fn gap_lines(report: &Coverage, wall: &mut WallClock) -> Vec<Aside> {
    let mut times = Times { wall, clock: Clock::new() };
    let line = |gap: &Gap| {
        // One that began before is told where the window begins.
        let time = gap.from.max(report.window.from);
        let gap = times.gap(gap, report.is_beyond(gap));
        let line = GapLine { time: times.time(time), mono_ns: time, event: "gap", gap };
        Aside { time, line: json_line(&line) }
    };
    report.gaps().into_iter().map(line).collect()
}

fn lane_json(report: &Coverage, lane: Lane) -> LaneCoverage {
    LaneCoverage {
        lane: lane.name(),
        complete_cpus: report.complete_cpus(lane),
        cpus: report.cpus(lane),
    }
}

/// A step of the wall clock, between events.
#[derive(Serialize)]
struct ClockSet {
    time: String,
    mono_ns: u64,
    event: &'static str,
    by_ns: i64,
}

/// A line for each step of the wall clock within a window.
pub fn clock_asides(window: Window, wall: &mut WallClock) -> Vec<Aside> {
    let steps: Vec<(u64, i64)> = wall.steps(window).collect();
    let mut clock = Clock::new();
    let line = |(at, by_ns): (u64, i64)| {
        let time = clock.string(wall.wall(at));
        let line = json_line(&ClockSet { time, mono_ns: at, event: "clock_set", by_ns });
        Aside { time: at, line }
    };
    steps.into_iter().map(line).collect()
}

/// Moments of the recording in UTC.
struct Times<'a> {
    wall: &'a mut WallClock,
    clock: Clock,
}

impl Times<'_> {
    fn time(&mut self, mono: u64) -> String {
        self.clock.string(self.wall.wall(mono))
    }

    fn span(&mut self, from: u64, until: u64) -> Span {
        Span {
            from: self.time(from),
            from_mono_ns: from,
            until: self.time(until),
            until_mono_ns: until,
        }
    }

    fn doubt(&mut self, doubt: &Doubt) -> DoubtFields {
        DoubtFields {
            cpu: doubt.cpu,
            span: self.span(doubt.from, doubt.until),
            missing: doubt.part.name(),
            events: doubt.events,
        }
    }

    fn gap(&mut self, gap: &Gap, beyond: bool) -> GapFields {
        // Refusals that the probes counted are events that were never recorded: none of those is
        // missing.
        let lost = gap.lost.filter(|_| gap.reason != Reason::Refused);
        let mut kinds = BTreeMap::new();
        for (index, n) in lost.iter().flat_map(Counts::present) {
            let name = Kind::counted(gap.lane, index).map_or("unknown", Kind::name);
            let sum: &mut u64 = kinds.entry(name).or_default();
            *sum = sum.saturating_add(n);
        }
        let refused = LOSSES
            .iter()
            .filter_map(|(refusal, name)| Some((*name, *gap.refused.get(*refusal as usize)?)));
        GapFields {
            cpu: gap.cpu,
            lane: gap.lane.name(),
            span: self.span(gap.from, gap.until),
            reason: match gap.reason {
                Reason::Overwritten => "overwritten",
                Reason::Missing => "missing",
                Reason::Undrained => "undrained",
                Reason::Damaged => "damaged",
                Reason::Refused => "refused",
                Reason::Newer => "newer",
                Reason::LeftOut => "left_out",
                Reason::Uncounted => "uncounted",
            },
            missing: if gap.reason == Reason::Refused { Some(0) } else { gap.missing() },
            lost: kinds,
            refused: refused.filter(|(_, n)| *n != 0).collect(),
            beyond,
        }
    }
}

fn by_lane(counts: &[u64; RING_LANES]) -> ByLane {
    Lane::RINGS
        .iter()
        .zip(counts)
        .filter(|(_, n)| **n != 0)
        .map(|(lane, n)| (lane.name(), *n))
        .collect()
}

/// What has no maps with odd keys and no failing parts always becomes JSON.
/// For what is left out then.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

fn json_line(value: &impl Serialize) -> String {
    let mut line = serde_json::to_string(value).unwrap_or_default();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::text::coverage::lines;
    use flightrec_reader::pipeline::testing::detached_recording;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_window_with_an_untold_stretch_has_no_system_calls_complete() {
        let recording = detached_recording(&[(10, 0), (12, 0), (20, 6)]);
        let report = Coverage::new(&recording, Window { from: 11 * S, until: 19 * S }, 21 * S);
        let lines = lines(&report, &mut recording.wall_clock(0), &TimeZone::UTC).join("\n");
        assert!(
            !report.is_complete() && lines.contains("system calls were detached for 6.0 s more"),
            "{lines}"
        );
        let json = line(&report, &recording.meta, &mut recording.wall_clock(0));
        assert!(json.contains("\"detached_untold_ns\":5"), "{json}");
    }
}
