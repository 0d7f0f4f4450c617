//! Calls that end, as the sums count them.

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::Abi;
use flightrec_format::decode::{Body, Event};
use flightrec_format::meta::Meta;
use flightrec_format::ring::Gap;
use flightrec_reader::holes::Holes;
use flightrec_reader::pairing::{Pairing, Taken};
use flightrec_reader::threads::THREADS_MAX;

/// A call that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) nr: u16,
    pub(super) abi: Abi,
    pub(super) ret: i64,
    /// How long it took, ns, as far as that is known.
    pub(super) ns: Option<u64>,
    /// When it began.
    pub(super) entered: Option<u64>,
}

/// Entries that wait for their exits, by thread.
#[derive(Debug)]
pub(super) struct Calls {
    pairing: Pairing<()>,
}

impl Calls {
    pub(super) fn new(meta: &Meta) -> Self {
        let mut holes = Holes::default();
        if meta.lanes.is_off(Lane::Sched) {
            holes = holes.without_switches();
        }
        Self { pairing: Pairing::new(holes, THREADS_MAX) }
    }

    /// Events are missing.
    pub(super) fn miss(&mut self, gap: &Gap) {
        self.pairing.holes().miss(gap);
    }

    /// All events before a moment were taken.
    pub(super) fn settle(&mut self, now: u64) {
        self.pairing.settle(now, |_| ());
    }

    /// Goes past an event; where it ends a call, what is known of that.
    #[inline]
    pub(super) fn take(&mut self, event: &Event) -> Option<Ended> {
        let Taken::Ended(found) = self.pairing.event(event, |_| (), |_| ()) else { return None };
        let Body::Exit { call, entered, ret } = &event.body else { return None };
        let entry = found.entry();
        let (abi, nr) = entry.map_or((call.abi, call.nr), |entry| entry.call);
        let entered = entered.or(entry.map(|entry| entry.time));
        let ns = entered.map(|entered| event.time.saturating_sub(entered));
        Some(Ended { nr, abi, ret: *ret, ns, entered })
    }
}
