//! Trace contexts in what threads wrote as marks ([`Marks`]).

use flightrec_analysis::trace_context::Contexts;
use flightrec_format::decode::{Body, Event};
use flightrec_format::meta::Meta;
use flightrec_format::trace_context::LONGEST_NS;

use crate::pipeline::traces::Marks;

/// Finds contexts.
#[derive(Debug)]
pub(super) struct Finder {
    marks: Marks,
    contexts: Contexts,
}

impl Finder {
    /// Of a recording.
    pub(super) fn new(meta: &Meta) -> Self {
        Self { marks: Marks::new(meta), contexts: Contexts::new(LONGEST_NS) }
    }

    /// Takes the next event.
    pub(super) fn take(&mut self, event: &Event) {
        if let Body::TaskExit(_) = event.body {
            self.contexts.end(event.tid, event.time);
        } else if let Some(said) = self.marks.said(event) {
            self.contexts.take(event.tid, event.time, said);
        }
    }

    /// What has been found.
    pub(super) fn contexts(&self) -> &Contexts {
        &self.contexts
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::record::{Abi, StringStatus};
    use flightrec_format::decode::{Call, Text};
    use flightrec_format::meta::Syscall;

    use super::*;

    const VALUE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn text(bytes: &str) -> Text {
        Text { index: 0, status: StringStatus::Whole, bytes: bytes.as_bytes().into() }
    }

    fn call(nr: u16, path: &str) -> Body {
        let strings = vec![text(path)];
        Body::Enter(Call { nr, abi: Abi::Native, nargs: 1, args: [0; 6], strings })
    }

    #[test]
    fn marks_of_both_kinds() {
        let named = |nr, name: &str| Syscall { nr, name: name.into(), args: None };
        let native = vec![named(439, "faccessat2"), named(2, "open")];
        let mut finder = Finder::new(&Meta { native, ..Meta::default() });
        let path = format!("Orders:{VALUE}");
        let mut take = |time, tid, body| finder.take(&Event { time, cpu: 0, tid, body });
        take(5, 7, Body::Mark(text(&format!("traceparent={VALUE}"))));
        take(5, 8, call(439, &path));
        take(5, 9, call(2, &path));
        take(9, 7, Body::Mark(text("traceparent=")));
        let at = |tid, time| finder.contexts().at(tid, time).is_some();
        assert!(at(7, 5) && at(7, 8) && !at(7, 9));
        assert!(at(8, 1_000_000_000) && !at(8, 5 + LONGEST_NS));
        assert!(!at(9, 5), "not every path is a mark");
    }
}
