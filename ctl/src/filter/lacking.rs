//! What the recorded kernel lacked of what is asked for: kinds of event that are not recorded,
//! wherever they happened.

use flightrec_format::meta::{Lacking, Meta};
use flightrec_reader::kind::Kind;

use super::Filter;

impl Filter {
    /// What the recorded kernel lacked of the kinds of event that the filter asks for, and of who
    /// threads are if it asks for that.
    pub fn lacking(&self, meta: &Meta) -> Vec<Lacking> {
        let is_asked = |name: &String| match Kind::ALL.into_iter().find(|kind| kind.name() == name)
        {
            Some(kind) => self.wants_kind(kind),
            // A kind of a later release can't be asked for by name.
            None => Kind::ALL.into_iter().all(|kind| self.wants_kind(kind)),
        };
        let of_kinds = meta.lacking.iter().filter(|lacking| lacking.kinds.iter().any(is_asked));
        let of_threads = meta.unseen_threads().filter(|_| self.asks_who());
        of_kinds.chain(of_threads).cloned().collect()
    }

    /// Whether it asks for threads by anything but their ids.
    fn asks_who(&self) -> bool {
        let Self { pids, comms, trees, groups, .. } = self;
        !(pids.is_empty() && comms.is_empty() && trees.is_empty() && groups.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::meta::WALK_OF_THREADS;

    use super::*;
    use crate::filter::{FilterPlan, FilterSpec};

    /// What a kernel without migrations, and without something that a later release records, lacks
    /// of these kinds.
    fn lacking(events: &[&str]) -> Vec<String> {
        let lacking = |kind: &str| Lacking {
            what: kind.into(),
            kinds: vec![kind.into()],
            ..Lacking::default()
        };
        // What records no events is no part of any question about events.
        let names = Lacking { what: "names".into(), ..Lacking::default() };
        let lacking = vec![lacking("migrate"), lacking("of_later"), names];
        let meta = Meta { lacking, ..Meta::default() };
        let event = events.iter().map(|name| (*name).to_owned()).collect();
        let plan = FilterPlan::new(FilterSpec { event, ..FilterSpec::default() }).unwrap();
        let filter = plan.resolve(&meta).unwrap();
        filter.lacking(&meta).into_iter().map(|of| of.what).collect()
    }

    #[test]
    fn who_threads_are_may_be_lacking() {
        let unseen = Lacking { program: WALK_OF_THREADS.into(), ..Lacking::default() };
        let meta = Meta { lacking: vec![unseen], ..Meta::default() };
        let lacks = |spec: FilterSpec| {
            let filter = FilterPlan::new(spec).unwrap().resolve(&meta).unwrap();
            !filter.lacking(&meta).is_empty()
        };
        assert!(lacks(FilterSpec { comm: vec!["cron".into()], ..FilterSpec::default() }));
        assert!(lacks(FilterSpec { pid: vec![7], ..FilterSpec::default() }));
        assert!(!lacks(FilterSpec { tid: vec![7], ..FilterSpec::default() }));
        assert!(!lacks(FilterSpec::default()));
    }

    #[test]
    fn only_what_is_asked_for_is_lacking() {
        assert_eq!(lacking(&["migrate", "switch"]), ["migrate"]);
        assert_eq!(lacking(&[]), ["migrate", "of_later"]);
        assert_eq!(lacking(&["switch"]), [""; 0]);
    }
}
