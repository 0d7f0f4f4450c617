//! What a disk did while a thread waited for it.

use super::answer::{Link, time};
use super::chain::Chain;
use super::facts::RequestRow;
use super::names::Names;
use flightrec_format::human::counted;

/// How far the end of a request may be after that of the wait for it, ns.
const DONE_NS: u64 = 1_000_000;

impl<N: Names> Chain<'_, N> {
    /// The disk that a thread waited for, if its requests are known.
    pub(super) fn disk(
        &self,
        tid: u32,
        link: &mut Link,
        (from, until): (u64, u64),
    ) -> Option<String> {
        let rows = &self.story.facts.requests;
        let first = rows.partition_point(|row| row.until <= from);
        let rows: Vec<&RequestRow> = rows
            .get(first..)?
            .iter()
            .take_while(|row| row.until <= until.saturating_add(DONE_NS))
            .collect();
        let own: Vec<&RequestRow> =
            rows.iter().filter(|row| row.by == Some(tid)).copied().collect();
        // What a thread's data waits for may be handed over by threads of the kernel: then the
        // request counts that ended when the wait did.
        let nearest = rows.iter().min_by_key(|row| row.until.abs_diff(until));
        let last = nearest.map(|row| row.device);
        let rows: Vec<&RequestRow> = if own.is_empty() {
            rows.into_iter().filter(|row| Some(row.device) == last).collect()
        } else {
            own
        };
        let device = rows.iter().max_by_key(|row| row.until.saturating_sub(row.from))?.device;
        let (mut busy, mut at) = (0, from);
        let mut spans: Vec<(u64, u64)> = rows
            .iter()
            .filter(|row| row.device == device)
            .map(|row| (row.issued, row.until))
            .collect();
        spans.sort_unstable();
        for (a, b) in &spans {
            busy = b.min(&until).saturating_sub(*a.max(&at)).saturating_add(busy);
            at = at.max(*b);
        }
        let name = self.names.device(device);
        let whole = until.saturating_sub(from);
        link.evidence.push(format!(
            "{name} had {} in flight for {} of {}",
            counted(spans.len() as u64, "request"),
            time(busy),
            time(whole)
        ));
        if busy.saturating_mul(2) < whole {
            link.evidence.push(
                "in the rest of the time the disk had no request: requests were held back before \
                 it (an I/O limit, the file system), or there were none"
                    .to_owned(),
            );
        }
        Some(name)
    }
}
