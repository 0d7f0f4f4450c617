//! Whether events that are not there could have been wanted.

use flightrec_format::kept::{ANYONE, LeftOut, YOUNG};

use super::Filter;
use crate::left_out::LeftOuts;
use crate::threads::Threads;

impl Filter {
    /// Whether something that the quiet ring left out may be wanted; where that is not known, it
    /// may.
    pub fn may_want(&self, left_out: &LeftOut, known: &LeftOuts, threads: &Threads) -> bool {
        match left_out.process {
            ANYONE => true,
            YOUNG => self.may_want_younger(left_out.from, known),
            process => self.may_want_process(process, left_out.until, known, threads),
        }
    }

    /// Whether processes that began behind a moment may be wanted.
    fn may_want_younger(&self, moment: u64, known: &LeftOuts) -> bool {
        let may_be = |process: u32| known.began(process).is_none_or(|began| began >= moment);
        let by_tid = |tid: &u32| known.process(*tid).is_none_or(may_be);
        (self.pids.is_empty() || self.pids.iter().copied().any(may_be))
            && (self.tids.is_empty() || self.tids.iter().any(by_tid))
    }

    fn may_want_process(
        &self,
        process: u32,
        time: u64,
        known: &LeftOuts,
        threads: &Threads,
    ) -> bool {
        let is_known = known.threads(process).next().is_some();
        // Any thread of it that is known may be the one.
        let any = |wanted: &dyn Fn(u32) -> bool| !is_known || known.threads(process).any(wanted);
        let in_group = |groups: &rustc_hash::FxHashSet<u64>| {
            any(&|tid| {
                let group = threads.cgroup(tid, time);
                group == 0 || groups.contains(&group)
            })
        };
        (self.pids.is_empty() || self.pids.contains(&process))
            && (self.tids.is_empty()
                || self.tids.iter().any(|tid| known.process(*tid).is_none_or(|of| of == process)))
            && (self.comms.is_empty() || any(&|tid| self.comms.has(threads.comm(tid, 0, time))))
            && (self.trees.is_empty() || any(&|tid| threads.descends(tid, time, &self.trees)))
            && self.cgroups.as_ref().is_none_or(in_group)
            && self.units.as_ref().is_none_or(in_group)
    }
}
