//! Trace contexts in what threads wrote as marks ([`Marks`]).

use flightrec_analysis::trace_context::Contexts;
use flightrec_format::decode::{Body, Event};
use flightrec_format::meta::Meta;
use flightrec_format::trace_context::LONGEST_NS;

use flightrec_reader::pipeline::traces::Marks;

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
    use flightrec_format::abi::record::StringStatus;
    use flightrec_format::decode::Text;

    use super::*;

    #[test]
    fn marks_begin_and_end_them() {
        let value = "traceparent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let mut finder = Finder::new(&Meta::default());
        for (time, text) in [(5, value), (9, "traceparent=")] {
            let (index, status) = (0, StringStatus::Whole);
            let body = Body::Mark(Text { index, status, bytes: text.as_bytes().into() });
            finder.take(&Event { time, cpu: 0, tid: 7, body });
        }
        let at = |tid, time| finder.contexts().at(tid, time).is_some();
        assert!(at(7, 5) && at(7, 8) && !at(7, 9) && !at(8, 5));
    }
}
