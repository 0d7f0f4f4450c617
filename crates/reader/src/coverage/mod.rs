//! What a dump can vouch for: from when to when, on which CPUs and lanes, and what is missing.

pub mod detached;
mod joined;
mod missing_calls;
#[cfg(test)]
mod partition;
mod spared;
mod told;
pub mod unknown;

pub use missing_calls::{has_switches_from, holes};
pub use told::told;

use flightrec_format::abi::page::{Lane, REFUSALS, RING_LANES, Refusal};
use flightrec_format::meta::{Lacking, Meta, SwitchedOff};
use flightrec_format::ring::{Gap, LaneStream, Reason, RingCoverage, Scope};
use flightrec_format::totals::{Totals, lane_of};

use self::unknown::Unknown;
use crate::counters;
use crate::pipeline::Doubt;
use crate::source::history::{Chapter, Foretold};
use crate::source::{PageSet, detached};
use crate::window::Window;
use crate::windows::Windows;

/// The coverage of a window.
#[derive(Debug)]
pub struct Coverage {
    /// Of which it tells.
    pub window: Window,
    /// The moment before the pages were read.
    pub now: u64,
    /// When the recording began.
    pub started: u64,
    /// Whether the window begins where the recording does.
    pub from_start: bool,
    /// What each ring has of the window.
    pub lanes: Vec<RingCoverage>,
    /// The recorder's counters, read after the pages.
    pub totals: Totals,
    /// Lanes that the configuration leaves out.
    pub off: [bool; RING_LANES],
    /// What else it leaves out.
    pub switched_off: Vec<SwitchedOff>,
    /// When system calls were detached, within the window.
    pub detached: Vec<(u64, u64)>,
    /// For how long they were detached beyond that, ns: the recorder's own lines about it are
    /// lost.
    pub untold: u64,
    /// Events of which the filter can't say whether they are wanted.
    pub doubts: Vec<Doubt>,
    /// Whether the configuration has strings recorded.
    pub strings: bool,
    /// Other recordings that claim to be the same machine's last, while nothing decides.
    pub disputed_by: Vec<u64>,
    /// Whether it is of several stretches ([`Self::join`]).
    pub is_joined: bool,
    /// Gaps of others than those who are asked for.
    spared: Vec<Gap>,
    /// What this release does not know.
    pub unknown: Unknown,
    /// Whose events the quiet ring left out of the other gaps, and how many; the busiest first.
    pub left_out: Vec<(u32, u64)>,
    /// What is asked for and the recording lacks, wherever it happened: kinds of event that the
    /// kernel did not have, which leave the window complete; or who threads are
    /// ([`Lacking::is_of_threads`]), which does not.
    pub lacking: Vec<Lacking>,
    /// Lanes that hold events of the kinds that are asked for, and those that say whose they are.
    asked: [bool; RING_LANES],
}

/// What the recorded kernel lacked of kinds of event.
pub fn lacking(meta: &Meta) -> Vec<Lacking> {
    meta.lacking.iter().filter(|lacking| !lacking.kinds.is_empty()).cloned().collect()
}

impl Coverage {
    /// What `recording` has of `window`, whose end is not in the future; `now` is the moment before
    /// the pages were read.
    pub fn new(recording: &PageSet, window: Window, now: u64) -> Self {
        let mut lanes = coverages(recording, window, now, |_| true);
        for lane in &mut lanes {
            lane.gaps = Gap::joined(std::mem::take(&mut lane.gaps));
            // Most rings of many have none but this.
            let uncounted = uncounted(lane, window);
            lane.gaps.reserve_exact(usize::from(uncounted.is_some()));
            lane.gaps.extend(uncounted);
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
            is_joined: false,
            spared: Vec::new(),
            left_out: spared::left_out(recording, window),
            unknown: Unknown::of(recording, window),
            lacking: Vec::new(),
            asked: [true; RING_LANES],
            started: recording.meta.started,
            from_start: window.from <= recording.meta.started,
            lanes,
            totals: recording.totals.clone(),
            off: recording.meta.lanes.off(),
            switched_off: recording.meta.switched_off.clone(),
        }
    }

    /// Of each stretch of a chapter's window that is told by itself, for a question about all
    /// events.
    pub fn of_all(chapter: &Chapter, windows: &Windows) -> Vec<Self> {
        let Chapter { recording, clock, .. } = chapter;
        let of = |window| Self::new(recording, window, clock.now).with_all_lacking(&recording.meta);
        told(windows).iter().map(of).collect()
    }

    /// The same for a question that can't be answered of these events.
    #[must_use]
    pub fn with_doubts(mut self, doubts: Vec<Doubt>) -> Self {
        self.doubts = doubts;
        self
    }

    /// With what the recorded kernel lacked of the kinds of event that are asked for.
    #[must_use]
    pub fn with_lacking(mut self, lacking: Vec<Lacking>) -> Self {
        self.lacking = lacking;
        self
    }

    /// The same for a question about events of the lanes for which `asks` says so: what the others
    /// lack does not make the answer incomplete. The task lane always counts, as its events say
    /// whose all others are.
    #[must_use]
    pub fn of_lanes(self, asks: impl Fn(Lane) -> bool) -> Self {
        Self { asked: Lane::RINGS.map(|lane| lane == Lane::Task || asks(lane)), ..self }
    }

    /// With all kinds of event that the recorded kernel lacked.
    #[must_use]
    pub fn with_all_lacking(self, meta: &Meta) -> Self {
        self.with_lacking(lacking(meta))
    }

    /// The report of a window of several stretches, if that is known before they are read: then
    /// nothing of it is missing, but for what [`Self::with_lacking`] adds.
    pub fn foretold(foretold: &Foretold, window: Window) -> Option<Self> {
        let Chapter { recording, clock, .. } = foretold.chapter();
        let sure = foretold.sure();
        let known =
            |before: &Totals| before.now <= window.from && window.until <= recording.totals.now;
        let is_known = recording.before.as_ref().is_some_and(known)
            && window.from <= sure.from
            && window.until >= sure.until.min(clock.now);
        is_known
            .then(|| Self::of_ends(recording, window, clock.now, sure.from))
            .filter(Self::is_complete)
    }

    /// As [`Self::new`], of a recording of which is known that no page is missing after `sure`,
    /// though it lacks some.
    pub fn of_ends(recording: &PageSet, window: Window, now: u64, sure: u64) -> Self {
        let mut report = Self::new(recording, window, now);
        for lane in &mut report.lanes {
            // Before the first page of a ring, what is not read counts as overwritten.
            let is_read = |gap: &Gap| !matches!(gap.reason, Reason::Missing | Reason::Overwritten);
            lane.gaps.retain(|gap| is_read(gap) || gap.until <= sure);
        }
        report
    }

    /// Whether every event of the window is there that is asked for.
    pub fn is_complete(&self) -> bool {
        let is_who_known = || !self.lacking.iter().any(Lacking::is_of_threads);
        self.disputed_by.is_empty()
            && is_who_known()
            && self
                .lanes
                .iter()
                .all(|lane| !self.is_asked(lane.lane) || self.is_lane_complete(lane))
            && !Lane::RINGS
                .into_iter()
                .any(|lane| self.is_asked(lane) && self.is_lane_uncounted(Some(lane)))
            && !self.is_lane_uncounted(None)
    }

    /// Whether events of a lane are missing that its rings do not count: on a CPU without a ring,
    /// or where the kernel skipped a program. `None`: of any lane, it is not known which.
    fn is_lane_uncounted(&self, lane: Option<Lane>) -> bool {
        let lacks_ring = |(_, events): (u16, [u64; RING_LANES])| {
            lane.is_some_and(|lane| events.get(lane as usize).is_some_and(|n| *n != 0))
        };
        // Skipped program runs are counted since the start, and known to be in the window only if
        // all is.
        let mut missed = self.missed().filter(|_| self.from_start);
        self.unrecorded().any(lacks_ring) || missed.any(|(program, _)| lane_of(program) == lane)
    }

    fn is_lane_complete(&self, lane: &RingCoverage) -> bool {
        let is_counted = lane.lane != Lane::Syscall || self.detached.is_empty() && self.untold == 0;
        let is_decided =
            lane.lane != Lane::Syscall || self.doubts.iter().all(|doubt| doubt.cpu != lane.cpu);
        is_counted && is_decided && lane.is_complete(self.window.from, self.window.until)
    }

    /// Gaps that are a loss, by time.
    pub fn gaps(&self) -> Vec<&Gap> {
        let lost = |gap: &&Gap| {
            gap.reason != Reason::Newer && gap.intersects(self.window.from, self.window.until)
        };
        let mut gaps: Vec<&Gap> =
            self.lanes.iter().flat_map(|lane| &lane.gaps).filter(lost).collect();
        gaps.sort_by_key(|gap| (gap.from, gap.lane, gap.cpu));
        gaps
    }

    /// CPUs without a ring on which something happened, and how much, by lane.
    pub fn unrecorded(&self) -> impl Iterator<Item = (u16, [u64; RING_LANES])> + '_ {
        let without = self.totals.cpus.iter().filter(|cpu| cpu.no_ring != [0; RING_LANES]);
        without.map(|cpu| (cpu.cpu, cpu.no_ring))
    }

    /// Programs that the kernel skipped.
    pub fn missed(&self) -> impl Iterator<Item = (&str, u64)> + '_ {
        self.totals.misses.iter().filter(|(_, n)| *n != 0).map(|(name, n)| (name.as_str(), *n))
    }

    /// Events refused in the window for a reason, by lane; of losses, in the stretches that touch
    /// it.
    pub fn refused(&self, reason: Refusal) -> [u64; RING_LANES] {
        let mut out = [0u64; RING_LANES];
        for lane in &self.lanes {
            let of = |refused: &[u64; REFUSALS]| refused.get(reason as usize).copied().unwrap_or(0);
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

    /// Whether some of what was refused for a reason may have been outside of the window, or may
    /// have been counted twice.
    pub fn is_bound(&self, reason: Refusal) -> bool {
        if reason == Refusal::Own {
            return self.is_joined;
        }
        let refused = |gap: &&Gap| gap.refused.get(reason as usize).is_some_and(|n| *n != 0);
        self.lanes.iter().flat_map(|lane| &lane.gaps).filter(refused).any(|gap| self.is_beyond(gap))
    }

    /// Whether a gap reaches beyond the window: its count is then the most that the window may
    /// lack.
    pub fn is_beyond(&self, gap: &Gap) -> bool {
        gap.from < self.window.from || gap.until > self.window.until
    }

    /// Whether the configuration leaves a lane's events out.
    pub fn is_off(&self, lane: Lane) -> bool {
        self.off.get(lane as usize).copied().unwrap_or(false)
    }

    /// Whether a lane's events are [asked for](Self::of_lanes).
    pub fn is_asked(&self, lane: Lane) -> bool {
        self.asked.get(lane as usize).copied().unwrap_or(true)
    }

    /// Lanes that lack events, which does not count as they are not asked for.
    pub fn lacking_unasked(&self) -> Vec<Lane> {
        let lacks = |lane: &Lane| {
            let mut of = self.lanes.iter().filter(|of| of.lane == *lane);
            let is_complete = of.all(|of| self.is_lane_complete(of));
            !self.is_off(*lane) && (!is_complete || self.is_lane_uncounted(Some(*lane)))
        };
        Lane::RINGS.into_iter().filter(|lane| !self.is_asked(*lane) && lacks(lane)).collect()
    }

    /// All CPUs with a ring.
    pub fn all_cpus(&self) -> Vec<u16> {
        let mut cpus: Vec<u16> = self.lanes.iter().map(|lane| lane.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// CPUs on which a lane is complete; none of one that is left out.
    pub fn complete_cpus(&self, lane: Lane) -> Vec<u16> {
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
    pub fn cpus(&self, lane: Lane) -> usize {
        self.lanes.iter().filter(|c| c.lane == lane).count()
    }
}

/// What of a window is after the last moment at which a ring's counters are known, if none of its
/// gaps tells of it.
fn uncounted(lane: &RingCoverage, window: Window) -> Option<Gap> {
    let from = lane.complete.map_or(window.from, |(_, until)| until.max(window.from));
    let is_told = |gap: &Gap| gap.reason != Reason::Newer && gap.intersects(from, window.until);
    (from < window.until && !lane.gaps.iter().any(is_told)).then_some(Gap {
        lane: lane.lane,
        cpu: lane.cpu,
        from,
        until: window.until,
        lost: None,
        refused: [0; REFUSALS],
        reason: Reason::Uncounted,
    })
}

/// What `recording` has of `window` in each ring: each gap by itself, from one moment at which the
/// ring's counters are known to the next. Of the rings for which `wanted` says so.
fn coverages(
    recording: &PageSet,
    window: Window,
    now: u64,
    wanted: impl Fn(&LaneStream) -> bool,
) -> Vec<RingCoverage> {
    let scope = Scope {
        from: window.from,
        until: window.until,
        started: recording.meta.started,
        copied: recording.copied.min(now),
        totals: Some(&recording.totals),
        ring_bytes: recording.meta.lanes.ring_bytes(),
    };
    let of_stream = |stream: &LaneStream| {
        let mut coverage = counters::coverage(recording, stream, &scope);
        if recording.copied == 0 {
            counters::is_missing(&mut coverage);
        }
        if recording.whole_files {
            counters::is_undrained(&mut coverage);
        }
        coverage.gaps.retain(|gap| gap.intersects(window.from, window.until));
        coverage
    };
    recording.streams.iter().filter(|stream| wanted(stream)).map(of_stream).collect()
}
