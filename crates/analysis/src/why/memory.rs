//! What threads do to get free memory: reclaim and compaction.

use super::answer::time;
use super::chain::Chain;
use super::names::Names;
use super::track::{Deed, Track};
use flightrec_format::human::counted;

/// At least this part of a stretch of time, a third, is what a thread did in it.
const MAIN_PART: u64 = 3;
/// At least this part of what a thread ran, a tenth, is told beside that.
const FAIR_PART: u64 = 10;

/// Why memory was not free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    /// A control group has all that it may have.
    Group,
    /// The machine has no more.
    Machine,
    /// There is some, but not enough pages in a row.
    Row,
}

/// What a thread did to get free memory in a stretch of time, for the reason that took most of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MemoryWork {
    want: Want,
    /// In all, ns.
    pub(super) ns: u64,
    /// How often.
    count: u64,
    /// The thread's control group, if a limit was the reason.
    pub(super) group: Option<String>,
}

impl MemoryWork {
    fn of(track: &Track, from: u64, until: u64) -> Option<Self> {
        let mut sums = [Want::Row, Want::Machine, Want::Group].map(|want| (0_u64, 0_u64, want));
        let mut at = from;
        for deed in &track.deeds {
            let of = match deed.deed {
                Deed::Reclaim { is_group: true } => Want::Group,
                Deed::Reclaim { is_group: false } => Want::Machine,
                Deed::Compaction => Want::Row,
                Deed::Contention => continue,
            };
            let (a, b) = (deed.from.max(at), deed.until.min(until));
            if a < b {
                at = b;
                for (ns, count, _) in sums.iter_mut().filter(|(.., want)| *want == of) {
                    (*ns, *count) = (ns.saturating_add(b - a), *count + 1);
                }
            }
        }
        let (ns, count, want) = sums.into_iter().max_by_key(|(ns, ..)| *ns)?;
        (ns != 0).then_some(Self { want, ns, count, group: None })
    }

    /// As of [`super::Culprit::mechanism`].
    pub(super) fn mechanism(&self) -> &'static str {
        if self.want == Want::Row { "memory compaction" } else { "memory reclaim" }
    }

    /// `spent 12 ms in direct reclaim (3 times), as the machine's memory was short`
    pub(super) fn words(&self) -> String {
        let (what, why) = match (self.want, &self.group) {
            // Not only who needs memory compacts, but `kcompactd` as well (`compact_zone`,
            // mm/compaction.c, Linux 6.1).
            (Want::Row, _) => ("compaction", "too few free pages lay in a row".to_owned()),
            (Want::Machine, _) => ("direct reclaim", "the machine's memory was short".to_owned()),
            (Want::Group, None) => {
                ("direct reclaim", "the memory limit of its control group was reached".to_owned())
            }
            (Want::Group, Some(group)) => {
                // Whose limit it is the kernel does not tell.
                let above =
                    if group.matches('/').count() > 1 { ", or of one above it," } else { "" };
                let limit = format!("the memory limit of its control group {group}{above}");
                ("direct reclaim", limit + " was reached")
            }
        };
        let often = counted(self.count, "time");
        format!("spent {} in {what} ({often}), as {why}", time(self.ns))
    }
}

impl<N: Names> Chain<'_, N> {
    /// A thread that spent most of the time on getting free memory.
    pub(super) fn memory(&mut self, tid: u32, from: u64, until: u64) -> bool {
        let whole = until.saturating_sub(from);
        let work = self.memory_work(tid, (from, until));
        let Some(work) = work.filter(|work| work.ns >= whole / MAIN_PART) else { return false };
        let mut link = self.link(tid, from, until);
        (link.state, link.ns, link.count) = ("blocked", work.ns, work.count);
        link.did = work.words();
        self.links.push(link);
        self.blame(Some(tid), work.mechanism(), None, work.group, work.ns);
        true
    }

    /// What a thread that ran for `ran` ns did of that to get free memory, if it is a fair part.
    pub(super) fn memory_beside(&self, tid: u32, span: (u64, u64), ran: u64) -> Option<MemoryWork> {
        self.memory_work(tid, span).filter(|work| work.ns >= ran / FAIR_PART)
    }

    fn memory_work(&self, tid: u32, (from, until): (u64, u64)) -> Option<MemoryWork> {
        let work = MemoryWork::of(self.story.tracks.get(tid)?, from, until)?;
        // The root has no limit; a limit of cgroup v1 is of a group that is not known.
        let group = self.who(tid).group.filter(|group| group != "/");
        Some(MemoryWork { group: group.filter(|_| work.want == Want::Group), ..work })
    }
}
