//! Time that threads spend on getting free memory: reclaim and compaction.

use super::answer::{counted, time};
use super::chain::Chain;
use super::names::Names;
use super::track::{Deed, Track};

/// From this part of the time on, it is what a thread did; one in so many.
const MAIN_PART: u64 = 3;
/// From this part of what a thread ran on, it is told beside that; one in so many.
const FAIR_PART: u64 = 10;

/// Direct reclaim and compaction of one thread in a stretch of time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reclaim {
    /// In all, ns.
    pub(super) ns: u64,
    /// How often.
    count: u64,
    /// Of the time, what it spent on moving pages together, ns.
    compaction: u64,
    /// Whether the limit of a control group was the reason of one of them.
    is_of_group: bool,
    /// The control group of the thread, if it was its limit. One of cgroup v1 is of a group that
    /// is not known, and the root has none.
    pub(super) group: Option<String>,
}

impl Reclaim {
    fn of(track: &Track, from: u64, until: u64) -> Self {
        let (mut sum, mut at) = (Self::default(), from);
        for deed in &track.deeds {
            let (is_compaction, is_of_group) = match deed.deed {
                Deed::Reclaim { is_group } => (false, is_group),
                Deed::Compaction => (true, false),
                Deed::Contention => continue,
            };
            let (a, b) = (deed.from.max(at), deed.until.min(until));
            if a < b {
                (sum.ns, sum.count, at) = (sum.ns + (b - a), sum.count + 1, b);
                sum.compaction += if is_compaction { b - a } else { 0 };
                sum.is_of_group |= is_of_group;
            }
        }
        sum
    }

    fn is_compaction(&self) -> bool {
        self.compaction > self.ns / 2
    }

    /// As of [`super::Culprit::mechanism`].
    pub(super) fn mechanism(&self) -> &'static str {
        if self.is_compaction() { "memory compaction" } else { "memory reclaim" }
    }

    /// `spent 12 ms in direct reclaim (3 times), as the machine's memory was short`
    pub(super) fn words(&self) -> String {
        let why = match (&self.group, self.is_of_group) {
            _ if self.is_compaction() => "too few free pages lay in a row".to_owned(),
            (Some(group), _) => {
                format!("the memory limit of its control group {group} was reached")
            }
            (None, true) => "the memory limit of its control group was reached".to_owned(),
            (None, false) => "the machine's memory was short".to_owned(),
        };
        let what = if self.is_compaction() { "compaction" } else { "reclaim" };
        format!(
            "spent {} in direct {what} ({}), as {why}",
            time(self.ns),
            counted(self.count, "time")
        )
    }
}

impl<N: Names> Chain<'_, N> {
    /// A thread that spent most of the time on getting free memory.
    pub(super) fn memory(&mut self, tid: u32, from: u64, until: u64) -> bool {
        let whole = until.saturating_sub(from);
        let Some(reclaim) = self.reclaim(tid, (from, until), whole / MAIN_PART) else {
            return false;
        };
        let mut link = self.link(tid, from, until);
        (link.state, link.ns, link.count) = ("blocked", reclaim.ns, reclaim.count);
        link.did = reclaim.words();
        self.links.push(link);
        self.blame(Some(tid), reclaim.mechanism(), None, reclaim.group, reclaim.ns);
        true
    }

    /// What a thread that ran for `ran` ns spent on it, if it is a fair part of that.
    pub(super) fn reclaim_of(&self, tid: u32, span: (u64, u64), ran: u64) -> Option<Reclaim> {
        self.reclaim(tid, span, ran / FAIR_PART)
    }

    /// What a thread spent on it, if that is as long as `least` ns.
    fn reclaim(&self, tid: u32, (from, until): (u64, u64), least: u64) -> Option<Reclaim> {
        let mut reclaim = Reclaim::of(self.story.tracks.get(tid)?, from, until);
        if reclaim.ns == 0 || reclaim.ns < least {
            return None;
        }
        let group = self.who(tid).group.filter(|group| group != "/");
        reclaim.group = group.filter(|_| reclaim.is_of_group);
        Some(reclaim)
    }
}
