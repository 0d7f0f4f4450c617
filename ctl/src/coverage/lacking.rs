//! What the recorded kernel lacked of what is asked for: kinds of event that are not recorded,
//! wherever they happened.

use serde::Serialize;

use flightrec_format::meta::{Lacking, Meta};

use super::Report;
use super::json::printable;
use crate::filter::Filter;
use crate::kind::Kind;

/// One thing, as JSON.
#[derive(Serialize)]
pub(super) struct LackingFields {
    what: String,
    kinds: Vec<String>,
    why: String,
}

impl Report {
    /// With what the recorded kernel lacked of the kinds of event that the filter asks for.
    #[must_use]
    pub fn with_lacking(mut self, meta: &Meta, filter: &Filter) -> Self {
        let is_asked = |name: &String| match Kind::ALL.into_iter().find(|kind| kind.name() == name)
        {
            Some(kind) => filter.wants_kind(kind),
            // A kind of a later release can't be asked for by name.
            None => Kind::ALL.into_iter().all(|kind| filter.wants_kind(kind)),
        };
        let wanted = meta.lacking.iter().filter(|lacking| lacking.kinds.iter().any(is_asked));
        self.lacking = wanted.cloned().collect();
        self
    }

    /// `not recorded on this kernel: signals (this kernel has no tracepoint signal:…)`
    pub(super) fn lacking_line(&self) -> Option<String> {
        let told = |of: &Lacking| format!("{} ({})", printable(&of.what), printable(&of.why));
        let all: Vec<String> = self.lacking.iter().map(told).collect();
        (!all.is_empty()).then(|| format!("not recorded on this kernel: {}", all.join("; ")))
    }

    /// The same, as JSON.
    pub(super) fn lacking_fields(&self) -> Vec<LackingFields> {
        let fields = |of: &Lacking| LackingFields {
            what: printable(&of.what),
            kinds: of.kinds.iter().map(|kind| printable(kind)).collect(),
            why: printable(&of.why),
        };
        self.lacking.iter().map(fields).collect()
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::control::{CpuTotals, Totals};
    use jiff::tz::TimeZone;
    use serde_json::{Value, json};

    use super::*;
    use crate::args::FilterArgs;
    use crate::filter::FilterPlan;
    use crate::source::{Collector, Recording};
    use crate::window::Window;

    const S: u64 = 1_000_000_000;

    /// Of a kernel without migrations, and without something that a later release records.
    fn recording() -> Recording {
        let lacking = |kind: &str, what: &str, why: &str| Lacking {
            program: kind.into(),
            what: what.into(),
            kinds: vec![kind.into()],
            why: why.into(),
        };
        let meta = Meta {
            session: 1,
            started: 10 * S,
            cpus: vec![0],
            lacking: vec![
                lacking("migrate", "migrations", "no tracepoint sched:x\u{1b}"),
                lacking("of_later", "later events", "refused"),
                // What records no events is no part of any question about events.
                Lacking { what: "names".into(), why: "no iterator".into(), ..Lacking::default() },
            ],
            ..Meta::default()
        };
        let cpu = CpuTotals { cpu: 0, recorded: true, ..CpuTotals::default() };
        let totals = Totals { now: 30 * S, cpus: vec![cpu], ..Totals::default() };
        Collector::new(meta).finish(totals)
    }

    /// What is said to `--event`s, in words and as JSON.
    fn told(events: &[&str]) -> (Vec<String>, Value) {
        let recording = recording();
        let event = events.iter().map(|name| (*name).to_owned()).collect();
        let plan = FilterPlan::new(FilterArgs { event, ..FilterArgs::default() }).unwrap();
        let filter = plan.resolve(&recording.meta).unwrap();
        let report = Report::new(&recording, Window { from: 20 * S, until: 30 * S }, 30 * S)
            .with_lacking(&recording.meta, &filter);
        assert!(report.is_complete(), "what is recorded is all there");
        let mut wall = recording.wall_clock(0);
        let json = report.json(&recording.meta, &mut wall);
        let lines = report.lines(&mut wall, &TimeZone::UTC);
        (lines, serde_json::from_str(&json).unwrap())
    }

    #[test]
    fn what_is_asked_for_and_the_kernel_lacked_is_said() {
        let (lines, json) = told(&["migrate", "switch"]);
        let line = "not recorded on this kernel: migrations (no tracepoint sched:x\\33)";
        assert_eq!(lines[1..], [line]);
        let want = json!([{
            "what": "migrations", "kinds": ["migrate"], "why": "no tracepoint sched:x\\33"
        }]);
        assert_eq!(json["lacking"], want);
        let (lines, json) = told(&[]);
        assert_eq!(lines[1..], [format!("{line}; later events (refused)")]);
        assert_eq!(json["lacking"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn who_asks_for_something_else_is_not_told() {
        let (lines, json) = told(&["switch"]);
        assert_eq!((lines.len(), json.get("lacking")), (1, None), "{lines:?}");
    }
}
