//! Who did how much in a stretch of a ring, and who of them is kept.

use std::collections::{HashMap, HashSet};

use flightrec_format::kept::{LeftOut, YOUNG, YOUNG_NS};

/// Events by process.
#[derive(Debug, Default)]
pub(super) struct Census {
    events: HashMap<u32, u32>,
}

impl Census {
    /// Counts events of a process.
    pub(super) fn count(&mut self, process: u32, events: u32) {
        let sum = self.events.entry(process).or_default();
        *sum = sum.saturating_add(events);
    }

    /// All of them; one of scheduling counts for each of its processes.
    pub(super) fn events(&self) -> u64 {
        self.events.values().map(|events| u64::from(*events)).sum()
    }

    /// Those that are kept where there is room for so many events: who did least first. What one
    /// process leaves is another's; so one that does not fit can take nothing from those that
    /// did less.
    pub(super) fn kept(&self, room: u64) -> HashSet<u32> {
        let mut by_events: Vec<(u32, u32)> =
            self.events.iter().map(|(process, events)| (*events, *process)).collect();
        by_events.sort_unstable();
        let mut sum = 0u64;
        let fit = by_events.into_iter().take_while(|(events, _)| {
            sum = sum.saturating_add(u64::from(*events));
            sum <= room
        });
        fit.map(|(_, process)| process).collect()
    }

    /// The others, the busiest first, in a stretch of time.
    pub(super) fn left_out(&self, kept: &HashSet<u32>, from: u64, until: u64) -> Vec<LeftOut> {
        let others = self.events.iter().filter(|(process, _)| !kept.contains(process));
        let left_out = |(process, events): (&u32, &u32)| {
            let born = if *process == YOUNG { until.saturating_sub(YOUNG_NS) } else { 0 };
            LeftOut { process: *process, events: *events, from, until, born }
        };
        let mut others: Vec<LeftOut> = others.map(left_out).collect();
        others.sort_unstable_by_key(|left_out| {
            (std::cmp::Reverse(left_out.events), left_out.process)
        });
        others
    }
}
