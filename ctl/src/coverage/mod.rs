//! What a dump can vouch for: from when to when, on which CPUs and lanes, and what is missing.

mod clock;
mod detached;
mod doubt;
mod fold;
mod json;
mod lacking;
mod lines;
mod marks;
#[cfg(test)]
mod partition;
mod seam;
mod spared;

pub use clock::{clock_asides, clock_lines, told};
pub use detached::detached;
pub use doubt::why;
pub use json::gap_line;
pub use seam::Seam;

use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::control::Totals;
use flightrec_format::meta::Lacking;
use flightrec_format::ring::{Coverage, Gap, LaneStream, Reason, Scope};

use crate::pipeline::Doubt;
use crate::source::Recording;
use crate::window::Window;

/// The coverage of a window.
#[derive(Debug)]
pub struct Report {
    window: Window,
    /// The moment before the pages were read.
    now: u64,
    /// When the recording began.
    started: u64,
    /// Whether the window begins where the recording does.
    from_start: bool,
    lanes: Vec<Coverage>,
    totals: Totals,
    /// Lanes that the configuration leaves out.
    off: [bool; 3],
    /// When system calls were detached, within the window.
    detached: Vec<(u64, u64)>,
    /// For how long they were detached beyond that, ns: the recorder's own lines about it are
    /// lost.
    untold: u64,
    /// Events of which the filter can't say whether they are wanted.
    doubts: Vec<Doubt>,
    /// Whether the configuration has strings recorded.
    strings: bool,
    /// Other recordings that claim to be the same machine's last, while nothing decides.
    disputed_by: Vec<u64>,
    /// Gaps of others than those who are asked for.
    spared: Vec<Gap>,
    /// Whose events the quiet ring left out of the other gaps, and how many; the busiest first.
    left_out: Vec<(u32, u64)>,
    /// What is asked for and the recorded kernel lacked.
    lacking: Vec<Lacking>,
}

impl Report {
    /// What `recording` has of `window`, whose end is not in the future; `now` is the moment before
    /// the pages were read.
    pub fn new(recording: &Recording, window: Window, now: u64) -> Self {
        let mut lanes = coverages(recording, window, now);
        for lane in &mut lanes {
            lane.gaps = Gap::joined(std::mem::take(&mut lane.gaps));
        }
        let within = |(from, until): (u64, u64)| (from.max(window.from), until.min(window.until));
        let lines = detached(recording);
        let untold = detached::untold(recording, &lines, window);
        let detached = lines.into_iter().map(within).filter(|(from, until)| from < until).collect();
        Self {
            window,
            now,
            detached,
            untold,
            doubts: Vec::new(),
            strings: recording.meta.strings,
            disputed_by: recording.disputed_by.clone(),
            spared: Vec::new(),
            left_out: spared::left_out(recording, window),
            lacking: Vec::new(),
            started: recording.meta.started,
            from_start: window.from <= recording.meta.started,
            lanes,
            totals: recording.totals.clone(),
            off: recording.meta.off,
        }
    }

    /// The same for a question that can't be answered of these events.
    #[must_use]
    pub fn with_doubts(mut self, doubts: Vec<Doubt>) -> Self {
        self.doubts = doubts;
        self
    }

    /// As [`Self::new`], of a recording of which is known that no page is missing behind `sure`,
    /// though it lacks some.
    pub fn of_ends(recording: &Recording, window: Window, now: u64, sure: u64) -> Self {
        let mut report = Self::new(recording, window, now);
        for lane in &mut report.lanes {
            lane.gaps.retain(|gap| gap.reason != Reason::Missing || gap.until <= sure);
        }
        report
    }

    /// Whether every event of the window is there.
    pub fn is_complete(&self) -> bool {
        self.disputed_by.is_empty()
            && self.lanes.iter().all(|lane| self.is_lane_complete(lane))
            && self.unrecorded().next().is_none()
            // Skipped program runs are counted since the start, and known to be in the window only if all is.
            && !(self.from_start && self.missed().next().is_some())
    }

    fn is_lane_complete(&self, lane: &Coverage) -> bool {
        let is_counted = lane.lane != Lane::Syscall || self.detached.is_empty() && self.untold == 0;
        let is_decided =
            lane.lane != Lane::Syscall || self.doubts.iter().all(|doubt| doubt.cpu != lane.cpu);
        is_counted && is_decided && lane.is_complete(self.window.from, self.window.until)
    }

    /// Gaps that are a loss, by time.
    fn gaps(&self) -> Vec<&Gap> {
        let lost = |gap: &&Gap| {
            gap.reason != Reason::Newer && gap.intersects(self.window.from, self.window.until)
        };
        let mut gaps: Vec<&Gap> =
            self.lanes.iter().flat_map(|lane| &lane.gaps).filter(lost).collect();
        gaps.sort_by_key(|gap| (gap.from, gap.lane, gap.cpu));
        gaps
    }

    /// CPUs without a ring on which something happened, and how much, by lane.
    fn unrecorded(&self) -> impl Iterator<Item = (u16, [u64; 3])> + '_ {
        let without = self.totals.cpus.iter().filter(|cpu| cpu.no_ring != [0; 3]);
        without.map(|cpu| (cpu.cpu, cpu.no_ring))
    }

    /// Programs that the kernel skipped.
    fn missed(&self) -> impl Iterator<Item = (&str, u64)> + '_ {
        self.totals.misses.iter().filter(|(_, n)| *n != 0).map(|(name, n)| (name.as_str(), *n))
    }

    /// Events refused in the window for a reason, by lane; of losses, in the stretches that touch
    /// it.
    fn refused(&self, reason: Refusal) -> [u64; 3] {
        let mut out = [0u64; 3];
        for lane in &self.lanes {
            let of = |refused: &[u64; 3]| refused.get(reason as usize).copied().unwrap_or(0);
            let n = match reason {
                Refusal::Own => of(&lane.refused),
                _ => lane.gaps.iter().map(|gap| of(&gap.refused)).fold(0, u64::saturating_add),
            };
            if let Some(sum) = out.get_mut(lane.lane as usize) {
                *sum = sum.saturating_add(n);
            }
        }
        out
    }

    /// Whether some of what was refused for a reason may have been outside of the window.
    fn is_bound(&self, reason: Refusal) -> bool {
        let refused = |gap: &&Gap| gap.refused.get(reason as usize).is_some_and(|n| *n != 0);
        self.lanes.iter().flat_map(|lane| &lane.gaps).filter(refused).any(|gap| self.is_beyond(gap))
    }

    /// Whether a gap reaches beyond the window: its count is then the most that the window may
    /// lack.
    fn is_beyond(&self, gap: &Gap) -> bool {
        gap.from < self.window.from || gap.until > self.window.until
    }

    /// Whether the configuration leaves a lane's events out.
    fn is_off(&self, lane: Lane) -> bool {
        self.off.get(lane as usize).copied().unwrap_or(false)
    }

    /// CPUs on which a lane is complete; none of one that is left out.
    fn complete_cpus(&self, lane: Lane) -> Vec<u16> {
        if self.is_off(lane) {
            return Vec::new();
        }
        let mut cpus: Vec<u16> = self
            .lanes
            .iter()
            .filter(|c| c.lane == lane && self.is_lane_complete(c))
            .map(|c| c.cpu)
            .collect();
        cpus.sort_unstable();
        cpus
    }

    /// All CPUs with a ring of a lane.
    fn cpus(&self, lane: Lane) -> usize {
        self.lanes.iter().filter(|c| c.lane == lane).count()
    }
}

/// What `recording` has of `window` in each ring: each gap by itself, from one moment at which the
/// ring's counters are known to the next.
fn coverages(recording: &Recording, window: Window, now: u64) -> Vec<Coverage> {
    let scope = Scope {
        from: window.from,
        until: window.until,
        started: recording.meta.started,
        copied: recording.copied.min(now),
        totals: Some(&recording.totals),
    };
    let of_stream = |stream: &LaneStream| {
        let mut coverage = stream.coverage_around(&scope);
        marks::refine(&mut coverage, stream, recording);
        if recording.copied == 0 {
            marks::is_missing(&mut coverage);
        }
        if recording.whole_files {
            marks::is_undrained(&mut coverage);
        }
        coverage.gaps.retain(|gap| gap.intersects(window.from, window.until));
        coverage
    };
    recording.streams.iter().map(of_stream).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Collector;
    use flightrec_format::control::CpuTotals;
    use flightrec_format::meta::Meta;
    use jiff::tz::TimeZone;

    const S: u64 = 1_000_000_000;

    /// A recording since 10 s, of an idle machine, as counted at 30 s.
    fn report(totals: Totals, from: u64) -> (bool, String) {
        let meta = Meta { session: 1, started: 10 * S, cpus: vec![0], ..Meta::default() };
        let recording = Collector::new(meta).finish(totals);
        let report = Report::new(&recording, Window { from, until: 30 * S }, 30 * S);
        let lines = report.lines(&mut recording.wall_clock(0), &TimeZone::UTC);
        (report.is_complete(), lines.join("\n"))
    }

    fn totals() -> Totals {
        let cpu = CpuTotals { cpu: 0, recorded: true, ..CpuTotals::default() };
        Totals { now: 30 * S, cpus: vec![cpu], ..Totals::default() }
    }

    #[test]
    fn silence_is_complete_where_the_counters_agree() {
        let (complete, text) = report(totals(), 20 * S);
        assert!(complete, "{text}");
        let expected = "coverage: 1970-01-01 00:00:20.000000 to 00:00:30.000000 (10.0 s): \
                        complete on CPUs 0 in lanes syscall, sched, task";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_lane_that_is_left_out_is_not_called_complete() {
        let meta = Meta {
            session: 1,
            started: 10 * S,
            cpus: vec![0],
            off: [false, true, false],
            ..Meta::default()
        };
        let recording = Collector::new(meta).finish(totals());
        let report = Report::new(&recording, Window { from: 20 * S, until: 30 * S }, 30 * S);
        let lines = report.lines(&mut recording.wall_clock(0), &TimeZone::UTC);
        assert!(lines[0].ends_with("complete on CPUs 0 in lanes syscall, task"), "{lines:?}");
        assert_eq!(lines[1], "lane sched: not recorded (off in the configuration's [record])");
        assert!(report.complete_cpus(Lane::Sched).is_empty());
    }

    #[test]
    fn windows_that_nothing_can_be_in() {
        let (complete, text) = report(totals(), 30 * S);
        assert!(complete, "no time, no loss");
        assert_eq!(
            text,
            "coverage: nothing, as the window begins in the future (it is 1970-01-01 \
             00:00:30.000000)"
        );
        let meta = Meta { session: 1, started: 10 * S, cpus: vec![0], ..Meta::default() };
        let recording = Collector::new(meta).finish(totals());
        let report = Report::new(&recording, Window { from: 5 * S, until: 5 * S }, 30 * S);
        let lines = report.lines(&mut recording.wall_clock(0), &TimeZone::UTC);
        assert_eq!(
            lines,
            ["coverage: nothing, as the recording began only at 1970-01-01 00:00:10.000000"]
        );
    }

    #[test]
    fn a_time_without_system_calls_is_told() {
        let meta = Meta { session: 1, started: 10 * S, cpus: vec![0], ..Meta::default() };
        let recording = Collector::new(meta).finish(totals());
        let mut report = Report::new(&recording, Window { from: 20 * S, until: 30 * S }, 30 * S);
        assert!(report.is_complete());
        report.detached = vec![(21 * S, 22 * S), (24 * S, 26 * S)];
        let lines = report.lines(&mut recording.wall_clock(0), &TimeZone::UTC).join("\n");
        assert!(!report.is_complete() && report.complete_cpus(Lane::Syscall).is_empty(), "{lines}");
        let line = "system calls were detached on all CPUs for 3.0 s in all (2 times), for the \
                    budget: not recorded, nor counted";
        assert!(
            lines.contains(line) && lines.contains("lane sched: complete on CPUs 0"),
            "{lines}"
        );
    }

    #[test]
    fn a_cpu_without_rings_is_named() {
        let mut totals = totals();
        totals.cpus.push(CpuTotals { cpu: 4, no_ring: [3, 2, 0], ..CpuTotals::default() });
        let (complete, text) = report(totals, 20 * S);
        assert!(!complete);
        let line =
            "CPU 4 has no rings: 5 events since the start of the recording (3 syscall, 2 sched)";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn skipped_runs_fail_only_a_window_that_surely_has_them() {
        let totals =
            Totals { misses: vec![("sys_exit".into(), 2), ("fork".into(), 0)], ..totals() };
        let (complete, text) = report(totals.clone(), 20 * S);
        assert!(complete && text.contains("the kernel skipped 2 runs of sys_exit"), "{text}");
        assert!(!text.contains("fork"), "{text}");
        let (complete, text) = report(totals, 10 * S);
        assert!(!complete && text.contains("the start of the recording"), "{text}");
    }

    #[test]
    fn a_ring_that_was_written_and_is_not_there_is_missing() {
        let mut totals = totals();
        totals.cpus[0].events[1] = [7, 0, 0, 5, 0, 0];
        let (complete, text) = report(totals, 20 * S);
        assert!(!complete);
        assert!(
            text.contains("lane sched: complete on no CPU")
                && text.contains("(7 switch, 5 migrate)"),
            "{text}"
        );
    }
}
