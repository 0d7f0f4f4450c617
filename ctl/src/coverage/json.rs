//! Coverage as JSON: the first line of a dump, and a line for each gap where it falls.

use std::collections::BTreeMap;

use serde::Serialize;

use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::meta::Meta;
use flightrec_format::ring::{Gap, Reason};

use super::Report;
use super::doubt::DoubtFields;
use super::lacking::LackingFields;
use crate::json::Aside;
use crate::json::clock::Clock;
use crate::kind::Kind;
use crate::pipeline::wall::WallClock;
use crate::source::anchor;
use crate::text::escape;

/// The first line.
#[derive(Serialize)]
struct Coverage {
    event: &'static str,
    #[serde(flatten)]
    span: Span,
    complete: bool,
    from_start: bool,
    cpus: Vec<u16>,
    lanes: Vec<LaneCoverage>,
    gaps: Vec<GapFields>,
    refused: BTreeMap<&'static str, ByLane>,
    own: ByLane,
    misses: BTreeMap<String, u64>,
    cpus_without_rings: Vec<NoRings>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    detached: Vec<Span>,
    #[serde(skip_serializing_if = "is_zero")]
    left_out_of_others: u64,
    #[serde(skip_serializing_if = "is_zero")]
    detached_untold_ns: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    undecided: Vec<DoubtFields>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    disputed_by: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lacking: Vec<LackingFields>,
    recording: Recorded,
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
pub(super) struct Span {
    from: String,
    from_mono_ns: u64,
    until: String,
    until_mono_ns: u64,
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

impl Report {
    /// The first line of a dump in JSON, with its end.
    pub fn json(&self, meta: &Meta, wall: &mut WallClock) -> String {
        let mut times = Times { wall, clock: Clock::new() };
        let line = Coverage {
            event: "coverage",
            span: times.span(self.window.from, self.window.until),
            complete: self.is_complete(),
            from_start: self.from_start,
            cpus: self.all_cpus(),
            lanes: Lane::RINGS.iter().map(|lane| self.lane_json(*lane)).collect(),
            gaps: self.gaps().into_iter().map(|gap| times.gap(gap, self.is_beyond(gap))).collect(),
            refused: LOSSES
                .iter()
                .map(|(refusal, name)| (*name, by_lane(&self.refused(*refusal))))
                .collect(),
            own: by_lane(&self.refused(Refusal::Own)),
            misses: self.missed().map(|(program, n)| (printable(program), n)).collect(),
            cpus_without_rings: self
                .unrecorded()
                .map(|(cpu, events)| NoRings { cpu, events: by_lane(&events) })
                .collect(),
            left_out_of_others: self.spared(),
            detached: self.detached.iter().map(|(from, until)| times.span(*from, *until)).collect(),
            detached_untold_ns: self.untold,
            undecided: self.doubt_fields(|from, until| times.span(from, until)),
            disputed_by: anchor::hex(&self.disputed_by),
            lacking: self.lacking_fields(),
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
    pub fn gap_lines(&self, wall: &mut WallClock) -> Vec<Aside> {
        let mut times = Times { wall, clock: Clock::new() };
        let line = |gap: &Gap| {
            // One that began before is told where the window begins.
            let time = gap.from.max(self.window.from);
            let gap = times.gap(gap, self.is_beyond(gap));
            let line = GapLine { time: times.time(time), mono_ns: time, event: "gap", gap };
            Aside { time, line: json_line(&line) }
        };
        self.gaps().into_iter().map(line).collect()
    }

    fn lane_json(&self, lane: Lane) -> LaneCoverage {
        LaneCoverage {
            lane: lane.name(),
            complete_cpus: self.complete_cpus(lane),
            cpus: self.cpus(lane),
        }
    }

    /// All CPUs with a ring.
    fn all_cpus(&self) -> Vec<u16> {
        let mut cpus: Vec<u16> = self.lanes.iter().map(|lane| lane.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }
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

    fn gap(&mut self, gap: &Gap, beyond: bool) -> GapFields {
        // Refusals that the probes counted are events that were never recorded: none of those is
        // missing.
        let lost = gap.lost.filter(|_| gap.reason != Reason::Refused);
        let mut kinds = BTreeMap::new();
        for (index, n) in lost.iter().flatten().enumerate().filter(|(_, n)| **n != 0) {
            let name = Kind::counted(gap.lane as usize, index).map_or("unknown", Kind::name);
            let sum: &mut u64 = kinds.entry(name).or_default();
            *sum = sum.saturating_add(*n);
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
            },
            missing: if gap.reason == Reason::Refused { Some(0) } else { gap.missing() },
            lost: kinds,
            refused: refused.filter(|(_, n)| *n != 0).collect(),
            beyond,
        }
    }
}

fn by_lane(counts: &[u64; 3]) -> ByLane {
    Lane::RINGS
        .iter()
        .zip(counts)
        .filter(|(_, n)| **n != 0)
        .map(|(lane, n)| (lane.name(), *n))
        .collect()
}

/// What the recording says of itself is as hostile as any name.
pub(super) fn printable(text: &str) -> String {
    let mut out = Vec::new();
    escape(text.as_bytes(), &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// What has no maps with odd keys and no failing parts always becomes JSON.
/// For what is left out then.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

pub(super) fn json_line(value: &impl Serialize) -> String {
    let mut line = serde_json::to_string(value).unwrap_or_default();
    line.push('\n');
    line
}
