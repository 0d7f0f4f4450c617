//! A filter as what the pipeline asks which events are wanted.

use flightrec_format::abi::kinds::IoSubmit;
use flightrec_format::decode::{Call, Event, Text};
use flightrec_reader::fds::FdNames;
use flightrec_reader::pipeline::{CallFacts, Choice, Part};
use flightrec_reader::threads::Threads;

use super::Filter;

impl Choice for Filter {
    fn wants_all(&self) -> bool {
        self.wants_all()
    }

    fn wants_entries(&self) -> bool {
        self.wants_entries()
    }

    fn wants_whole_ends(&self) -> bool {
        self.wants_whole_ends()
    }

    fn has_paths(&self) -> bool {
        self.has_paths()
    }

    fn wants_path(&self, call: &Call, fds: FdNames<'_>) -> bool {
        self.wants_path(call, fds)
    }

    fn wants_operation(
        &self,
        submit: &IoSubmit,
        paths: &[Text],
        fds: FdNames<'_>,
    ) -> (bool, Option<Part>) {
        self.wants_operation(submit, paths, fds)
    }

    fn has_traces(&self) -> bool {
        self.has_traces()
    }

    fn lacks(&self, call: &Call, fds: FdNames<'_>, alone: bool) -> Option<Part> {
        self.lacks(call, fds, alone)
    }

    fn wants(&self, event: &Event, facts: CallFacts, threads: &Threads) -> bool {
        self.wants(event, facts, threads)
    }

    fn doubt(&self, event: &Event, facts: CallFacts, threads: &Threads) -> Option<Part> {
        self.doubt(event, facts, threads)
    }

    fn note_shown(&self, event: &Event) {
        self.note_shown(event);
    }
}
