//! Sums over a window: what each report adds up, and by what.
//!
//! A report is a [`Shape`] (its keys, its columns, what its value is) and an implementation of
//! [`Report`]: from an event, or from a stretch of time that a thread spent in one state, to a
//! value and the facts by which it may be grouped ([`Facts`]). [`pass`] brings it the events of any
//! source; [`Sums`] adds up in bounded memory; [`text`], [`json`], [`csv`] and [`folded`] write the
//! table ([`Table`]) of any report.

mod block;
mod bytes;
mod calls;
pub mod csv;
mod ends;
mod facts;
pub mod folded;
mod irq;
pub mod json;
mod key;
pub mod minutes;
mod net;
mod origin;
pub mod pass;
mod runq;
mod samples;
mod several;
mod shape;
mod signals;
mod stage;
mod sums;
mod table;
#[cfg(test)]
mod tests;
pub mod text;
mod waits;

use std::borrow::Cow;

use flightrec_analysis::CallId;
#[cfg(feature = "export")]
use flightrec_analysis::reason::Reason;
use flightrec_analysis::stretches::{Ran, Stretch};
use flightrec_format::decode::{Body, Event};
use flightrec_reader::coverage::Coverage;
use flightrec_reader::pipeline::EventContext;
use flightrec_reader::source::PageSet;
use flightrec_reader::threads::{Threads, trim};
use flightrec_sums::model::{Cell, Group, Table as SumsTable};

pub use self::calls::Calls;
pub use self::facts::Facts;
pub use self::key::Key;
pub use self::origin::Told;
pub use self::several::{SHAPE as WHOLE, Several};
pub use self::shape::{Column, Extra, Needs, Shape, Unit};
pub use self::sums::Sums;
pub use self::table::{Period, Table, Value, figures, window};

/// An event, with what is known of it.
pub struct Seen<'a> {
    /// The event; the end of a call has its arguments, where the report needs them.
    pub event: &'a Event,
    /// What the recording tells about it.
    pub known: &'a EventContext<'a>,
    /// It is in the window, and the filter wants it.
    pub is_wanted: bool,
    /// The threads as they were before it.
    pub names: &'a Threads,
    abouts: &'a origin::Abouts,
}

impl<'a> Seen<'a> {
    /// Of whom it is, on which CPU, and in which call.
    pub fn facts(&self) -> Facts<'a> {
        let EventContext { pid, ref comm, cgroup, .. } = *self.known;
        let call = match &self.event.body {
            Body::Enter(call) | Body::Exit { call, .. } => {
                Some(CallId { nr: call.nr, abi: call.abi })
            }
            _ => None,
        };
        let (tid, cpu) = (self.event.tid, self.event.cpu);
        Facts { tid, pid, comm: trim(comm), cgroup, cpu, call, ..Facts::default() }
    }

    /// The same of another thread.
    pub fn facts_of(&self, tid: u32) -> Facts<'a> {
        let Event { cpu, time, .. } = *self.event;
        let (pid, comm, cgroup) = self.names.who_and_where(tid, cpu, time);
        Facts { tid, pid, comm: trim(comm), cgroup, cpu, ..Facts::default() }
    }

    /// What the call is about: what its first descriptor stands for, or its first path.
    pub fn object(&self) -> Option<Cow<'a, [u8]>> {
        match &self.event.body {
            Body::Enter(call) | Body::Exit { call, .. } => self.abouts.object(call, self.known.fds),
            _ => None,
        }
    }
}

/// A part of a stretch of time that a thread spent in one state, within the window.
pub struct Part<'a> {
    /// The whole stretch.
    pub stretch: &'a Stretch<Told>,
    /// ns of it that are within the window.
    pub ns: u64,
    /// From when to when, ns of `CLOCK_MONOTONIC`.
    pub within: flightrec_reader::window::Window,
    /// Who it is.
    pub facts: Facts<'a>,
    /// Of a wait for a CPU: who ran there, and for how long.
    pub ran: &'a Ran,
    /// The threads as they were at its end.
    pub names: &'a Threads,
}

/// What a report adds up.
pub trait Report {
    /// Its keys, columns and needs.
    fn shape(&self) -> &'static Shape;

    /// What a recording, or a stretch of one, has of the window, before its events.
    fn coverage(&mut self, _recording: &PageSet, _reports: &[Coverage]) {}

    /// Whether it counts nothing but the ends of calls, and which.
    fn of_ends(&self) -> Option<Calls> {
        None
    }

    /// An event. All events that are read come here, also those outside of the window.
    fn event(&mut self, _seen: &Seen<'_>, _to: &mut Sums) {}

    /// A part of a stretch that the filter wants. They come if [`Needs::stretches`] says so.
    fn stretch(&mut self, _part: &Part<'_>, _to: &mut Sums) {}

    /// The sums of minutes that it can be made of, where the events are gone.
    fn tables(&self) -> &'static [SumsTable] {
        &[]
    }

    /// By what it groups where sums are used and no keys were asked for.
    fn minute_keys(&self) -> &'static [Key] {
        self.shape().default
    }

    /// Sums are used beside events: tells only what sums know as well.
    fn join_minutes(&mut self) {}

    /// A group of a period of sums, with its keys.
    fn minute(&mut self, group: &Group, keys: &[(Key, &[u8])], cell: &Cell, to: &mut Sums) {
        if minutes::table(self.tables(), to.by()) == Some(group.table) {
            to.of_words(keys).merge(&cell.to_sum());
        }
    }

    /// No more events come of this recording.
    fn end(&mut self, _to: &mut Sums) {}

    /// What there was no room for, in words, a line each.
    fn limits(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Why a thread waited, in a stretch of it.
#[cfg(feature = "export")]
pub fn reason(part: &Part<'_>, to: &Sums) -> Reason {
    waits::reason(part, to, false)
}

/// What ended a wait: a thread, with its call; a disk; an interrupt. Any bytes.
#[cfg(feature = "export")]
pub fn waker(part: &Part<'_>, to: &Sums) -> Vec<u8> {
    waits::waker(part, to)
}

/// `waits` without those for what others, or the time, bring: events, timers, children.
pub fn waits_of_work() -> Box<dyn Report> {
    Box::new(waits::Waits::of_work())
}

/// `calls` of which only failures count.
pub fn failures() -> Box<dyn Report> {
    Box::new(Calls { is_of_failures: true })
}

/// One of the reports that there are.
#[derive(Debug, Clone, Copy)]
pub struct ReportKind {
    /// What it looks like.
    pub shape: &'static Shape,
    /// Makes what adds it up.
    pub make: fn() -> Box<dyn Report>,
}

/// All reports.
pub const ALL: [ReportKind; 11] = [
    kind(&calls::SHAPE, || Box::new(Calls { is_of_failures: false })),
    kind(&waits::WAITS, || Box::new(waits::Waits::new(&waits::WAITS))),
    kind(&runq::SHAPE, || Box::new(runq::RunQueue)),
    kind(&waits::OFFCPU, || Box::new(waits::Waits::new(&waits::OFFCPU))),
    kind(&waits::WAKERS, || Box::new(waits::Waits::new(&waits::WAKERS))),
    kind(&block::SHAPE, || Box::new(block::Block)),
    kind(&bytes::SHAPE, || Box::<bytes::Bytes>::default()),
    kind(&samples::SHAPE, || Box::<samples::Samples>::default()),
    kind(&irq::SHAPE, || Box::new(irq::Interrupts)),
    kind(&net::SHAPE, || Box::<net::Net>::default()),
    kind(&signals::SHAPE, || Box::new(signals::Signals)),
];

const fn kind(shape: &'static Shape, make: fn() -> Box<dyn Report>) -> ReportKind {
    ReportKind { shape, make }
}

/// The report of a name in [`ALL`].
pub fn of(name: &str) -> Option<ReportKind> {
    ALL.into_iter().find(|kind| kind.shape.name == name)
}
