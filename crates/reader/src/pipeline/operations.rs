//! Operations of io_uring: what of its submission is known when one has a result.
//!
//! An operation is known by a name ([`IoSubmit::operation`]) that another one gets when it is done.
//! A result without that name, as one that is not an operation's last, is joined by what the
//! program calls it, where no other of the ring's operations under way is called so. Where events
//! may be missing, nothing is said.

use rustc_hash::FxHashMap;

use flightrec_format::abi::kinds::{IoComplete, IoSubmit, Kind};
use flightrec_format::decode::{Body, Event};

use crate::holes::Holes;

/// Most operations under way that are remembered.
const FLIGHTS_MAX: usize = 65_536;
/// `IORING_CQE_F_MORE`, include/uapi/linux/io_uring.h: it is not the operation's last result.
const MORE: u32 = 1 << 1;

/// What is known of an operation that has a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// The thread that handed it over.
    pub submitted_by: u32,
    /// How long ago that was.
    pub duration_ns: u64,
    /// What was handed over.
    pub submit: IoSubmit,
}

/// An operation that is not done.
#[derive(Debug, Clone, Copy)]
struct Flight {
    began: u64,
    by: u32,
    submit: IoSubmit,
}

/// Operations under way.
#[derive(Debug, Clone, Default)]
pub struct Operations {
    flights: FxHashMap<u32, Flight>,
    /// By ring and what the program calls them: the last one's name, and how many there are.
    called: FxHashMap<(u32, u64), (u32, u32)>,
    /// When events may be missing.
    holes: Holes,
}

impl Operations {
    /// With events missing at these times.
    pub fn new(holes: Holes) -> Self {
        Self { holes, ..Self::default() }
    }

    /// Goes on with what is read from `from` on.
    pub fn go_on(&mut self, holes: Holes, from: u64) {
        self.holes.go_on(holes, from);
    }

    /// Goes past an event, and tells what is known of it.
    #[inline]
    pub fn take(&mut self, event: &Event) -> Option<Operation> {
        match &event.body {
            Body::IoSubmit { submit, .. } => {
                self.begin(event, *submit);
                None
            }
            Body::Plain(plain) if plain.kind() == Kind::IoComplete => {
                self.end(event.time, &IoComplete::read(plain.bytes())?)
            }
            _ => None,
        }
    }

    fn begin(&mut self, event: &Event, submit: IoSubmit) {
        // The end of the one that had its name before is missing.
        self.forget(submit.operation);
        if self.flights.len() >= FLIGHTS_MAX {
            return;
        }
        let flight = Flight { began: event.time, by: event.tid, submit };
        self.flights.insert(submit.operation, flight);
        let (last, count) = self.called.entry((submit.ring, submit.user_data)).or_default();
        (*last, *count) = (submit.operation, count.saturating_add(1));
    }

    fn end(&mut self, time: u64, result: &IoComplete) -> Option<Operation> {
        let called = (result.ring, result.user_data);
        let by_name = self.flights.get(&result.operation);
        let flight = by_name.or_else(|| match self.called.get(&called) {
            Some((operation, 1)) => self.flights.get(operation),
            _ => None,
        });
        let known = flight.filter(|flight| {
            flight.began >= self.holes.since(time)
                && (flight.submit.ring, flight.submit.user_data) == called
        });
        let known = known.map(|flight| Operation {
            submitted_by: flight.by,
            duration_ns: time.saturating_sub(flight.began),
            submit: flight.submit,
        });
        if result.operation != 0 && result.flags & MORE == 0 {
            self.forget(result.operation);
        }
        known
    }

    fn forget(&mut self, operation: u32) {
        let Some(Flight { submit, .. }) = self.flights.remove(&operation) else { return };
        let called = (submit.ring, submit.user_data);
        // Where the last one is gone before others, which of these it is is not known.
        if let Some((_, count)) = self.called.get_mut(&called) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.called.remove(&called);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::decode::Plain;

    use super::*;

    fn submit(operation: u32, user_data: u64) -> IoSubmit {
        IoSubmit { ring: 1, operation, user_data, op: 23, fd: 3, flags: 0, submitter: 0 }
    }

    fn submitted(time: u64, of: IoSubmit) -> Event {
        Event { time, cpu: 0, tid: 7, body: Body::IoSubmit { submit: of, paths: Vec::new() } }
    }

    fn done(time: u64, operation: u32, user_data: u64, flags: u32) -> Event {
        let of = IoComplete { ring: 1, operation, user_data, op: 23, result: 0, flags, context: 1 };
        let plain = Plain::read(Kind::IoComplete, &of.bytes()).unwrap();
        Event { time, cpu: 1, tid: 8, body: Body::Plain(plain) }
    }

    fn all() -> Operations {
        Operations::new(Holes::new(0))
    }

    #[test]
    fn a_result_is_its_operations() {
        let mut operations = all();
        assert_eq!(operations.take(&submitted(10, submit(5, 1))), None);
        assert_eq!(operations.take(&submitted(11, submit(6, 1))), None);
        let known = operations.take(&done(30, 5, 1, 0)).unwrap();
        assert_eq!((known.submitted_by, known.duration_ns, known.submit.operation), (7, 20, 5));
        let known = operations.take(&done(31, 6, 1, 0)).unwrap();
        assert_eq!((known.duration_ns, known.submit.operation), (20, 6));
        // Each is done once.
        assert_eq!(operations.take(&done(32, 6, 1, 0)), None);
        assert!(operations.flights.is_empty() && operations.called.is_empty());
    }

    #[test]
    fn results_before_the_last_one_are_joined_by_what_the_program_calls_them() {
        let mut operations = all();
        operations.take(&submitted(10, submit(5, 1)));
        assert_eq!(operations.take(&done(12, 0, 1, MORE)).map(|of| of.duration_ns), Some(2));
        assert_eq!(operations.take(&done(13, 0, 2, MORE)), None);
        assert_eq!(operations.take(&done(14, 5, 1, MORE)).map(|of| of.duration_ns), Some(4));
        // Which of two it is can't be told.
        operations.take(&submitted(15, submit(6, 1)));
        assert_eq!(operations.take(&done(16, 0, 1, MORE)), None);
        assert_eq!(operations.take(&done(17, 6, 1, 0)).map(|of| of.duration_ns), Some(2));
        assert_eq!(operations.take(&done(18, 5, 1, 0)).map(|of| of.duration_ns), Some(8));
        assert!(operations.called.is_empty() && operations.flights.is_empty());
    }

    #[test]
    fn what_has_another_ones_name_is_not_it() {
        let mut operations = all();
        operations.take(&submitted(10, submit(5, 1)));
        assert_eq!(operations.take(&done(12, 5, 2, 0)), None);
        // Nor across what is missing.
        let mut holes = Holes::new(0);
        holes.extend([(20, 30)]);
        let mut operations = Operations::new(holes);
        operations.take(&submitted(10, submit(5, 1)));
        assert_eq!(operations.take(&done(40, 5, 1, 0)), None);
    }
}
