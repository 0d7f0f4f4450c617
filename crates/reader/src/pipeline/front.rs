//! The pass's first half: from merged events to complete ones, in order.

use flightrec_format::decode::Event;
use flightrec_format::merge::{Merge, Stream};

use super::SPARE;
use super::delay::{DelayLine, Item};
use super::pairing::Pairs;
use super::placement::Placement;
use crate::holes::Holes;
use crate::left_out::LeftOuts;
use crate::redact;
use crate::source::PageSet;
use crate::source::sure::Skips;

/// Finds out about each event what later ones tell.
pub struct Front {
    pairing: Pairs,
    placement: Placement,
    line: DelayLine,
    /// The latest moment of which is known that it has come.
    now: u64,
    /// What takes strings out of events, if any are.
    redact: Option<redact::Events>,
    /// Where events were left unread.
    skips: Skips,
    /// Boxes of events that are done with, to be used again.
    #[expect(clippy::vec_box, reason = "it is the boxes that are used again")]
    spare: Vec<Box<Event>>,
}

impl Front {
    /// For a recording; `holes`: when system calls may be missing in what is read of it.
    pub fn new(recording: &PageSet, holes: Holes) -> Self {
        let mut front = Self {
            pairing: Pairs::new(&recording.meta, holes),
            placement: Placement::default(),
            line: DelayLine::default(),
            now: 0,
            redact: redact::Events::of(&recording.meta),
            skips: Skips::default(),
            spare: Vec::new(),
        };
        front.learn(recording, 0);
        front
    }

    /// Goes on with what comes next of the same recording, from `from` on.
    pub fn go_on(&mut self, recording: &PageSet, holes: Holes, from: u64) {
        self.pairing.go_on(holes, from, &mut self.line);
        self.learn(recording, from);
    }

    fn learn(&mut self, recording: &PageSet, from: u64) {
        self.skips = Skips::of(recording, from);
        if let Some(left_outs) = LeftOuts::of(recording) {
            self.pairing.learn(&left_outs, from);
            self.placement.learn(&left_outs);
        }
    }

    /// What is known here of threads and calls, without the events that still wait: for a second
    /// look at what comes next.
    #[must_use]
    pub fn again(&self) -> Self {
        Self {
            pairing: self.pairing.clone(),
            placement: self.placement.clone(),
            line: self.line.emptied(),
            now: self.now,
            redact: self.redact.clone(),
            skips: self.skips.clone(),
            spare: Vec::new(),
        }
    }

    /// What is known of threads and calls.
    pub fn pairing(&mut self) -> &mut Pairs {
        &mut self.pairing
    }

    /// The number that the next event will have.
    pub fn next(&self) -> u64 {
        self.line.next()
    }

    /// A box for an event.
    #[inline]
    pub fn spare(&mut self) -> Box<Event> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes all events before `until`; `each` is given those that are complete, as by
    /// [`Self::take`].
    ///
    /// # Errors
    /// The stream's, and that of `each`.
    pub fn all<S: Stream<Item = Event>, E>(
        &mut self,
        mut events: Merge<S>,
        until: u64,
        each: &mut impl FnMut(&mut Item, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(event) = events.read(self.spare()) {
            if event.time >= until {
                break;
            }
            self.take(event, each)?;
        }
        Ok(())
    }

    /// No more events come.
    ///
    /// # Errors
    /// That of `each`.
    pub fn end<E>(
        &mut self,
        each: &mut impl FnMut(&mut Item, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        self.advance(u64::MAX, each)
    }

    /// Takes the next event. `each` is given those that are complete now, in order, and the moment
    /// that had come before this one. What it leaves of them is done with.
    ///
    /// # Errors
    /// That of `each`.
    #[inline]
    pub fn take<E>(
        &mut self,
        mut event: Box<Event>,
        each: &mut impl FnMut(&mut Item, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(redact) = &self.redact {
            redact.redact(&mut event);
        }
        let now = event.time;
        // What waited too long before it has waited too long, whatever was read in between.
        self.advance(now.saturating_sub(1), each)?;
        if self.skips.pass(now).is_some() {
            self.placement.skip();
        }
        let mut item = Item::new(event);
        self.pairing.take(&mut item, &mut self.line, &self.placement);
        self.placement.take(&mut item, &mut self.line);
        if self.line.go_by(&item) {
            self.give(item, each)?;
        } else {
            self.line.push(item);
        }
        self.advance(now, each)
    }

    /// It is `now`: events that have waited long enough wait no longer. `each` is given them as by
    /// [`Self::take`].
    ///
    /// # Errors
    /// That of `each`.
    #[inline]
    pub fn advance<E>(
        &mut self,
        now: u64,
        each: &mut impl FnMut(&mut Item, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(item) = self.line.pop(now) {
            self.give(item, each)?;
        }
        self.now = self.now.max(now);
        Ok(())
    }

    #[inline]
    fn give<E>(
        &mut self,
        mut item: Item,
        each: &mut impl FnMut(&mut Item, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        each(&mut item, self.now)?;
        // Those that waited together come back together; they are not all kept.
        if self.spare.len() < SPARE {
            self.spare.push(item.event);
        }
        Ok(())
    }
}
