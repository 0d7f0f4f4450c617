//! Which thread worked for which span of a distributed trace, and when. Where contexts come from
//! makes no difference: other sources than marks can feed it as well.

use flightrec_format::trace_context::{Said, TraceContext};
use rustc_hash::FxHashMap;

/// Most stretches that are kept, of all threads.
const STRETCHES_MAX: usize = 65_536;

/// A stretch of time in which a thread worked for a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The span.
    pub context: TraceContext,
    /// Start, ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// End.
    pub until: u64,
}

/// Which threads worked for which spans.
#[derive(Debug, Clone)]
pub struct Contexts {
    threads: FxHashMap<u32, Vec<Stretch>>,
    /// How long a context lasts that is neither ended nor told again, ns.
    longest: u64,
    stretches: usize,
    /// Contexts for which there was no room.
    left_out: u64,
}

impl Contexts {
    /// None yet. `longest`: how long a context lasts that is neither ended nor told again, ns.
    pub fn new(longest: u64) -> Self {
        Self { threads: FxHashMap::default(), longest, stretches: 0, left_out: 0 }
    }

    /// A thread said something of its context. What each thread said comes in the order of time.
    pub fn take(&mut self, tid: u32, time: u64, said: Said) {
        let end = time.saturating_add(self.longest);
        let last = self.threads.get_mut(&tid).and_then(|all| all.last_mut());
        if let Some(last) = last.filter(|last| last.until > time) {
            if said == Said::Begin(last.context) {
                last.until = end;
                return;
            }
            last.until = time;
        }
        let Said::Begin(context) = said else { return };
        if self.stretches >= STRETCHES_MAX {
            self.left_out += 1;
            return;
        }
        self.stretches += 1;
        self.threads.entry(tid).or_default().push(Stretch { context, from: time, until: end });
    }

    /// A thread ended, so its id may be another one's next.
    pub fn end(&mut self, tid: u32, time: u64) {
        if !self.threads.is_empty() {
            self.take(tid, time, Said::End);
        }
    }

    /// The stretches of a thread, in the order of time.
    pub fn of(&self, tid: u32) -> &[Stretch] {
        self.threads.get(&tid).map_or(&[], Vec::as_slice)
    }

    /// The span that a thread worked for at a moment.
    pub fn at(&self, tid: u32, time: u64) -> Option<TraceContext> {
        let all = self.of(tid);
        let before = all.partition_point(|of| of.from <= time).checked_sub(1)?;
        all.get(before).filter(|of| time < of.until).map(|of| of.context)
    }

    /// The threads that have any.
    pub fn threads(&self) -> impl Iterator<Item = (u32, &[Stretch])> {
        self.threads.iter().map(|(tid, all)| (*tid, all.as_slice()))
    }

    /// Contexts for which there was no room.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(span: u8) -> TraceContext {
        TraceContext { trace: [1; 16], span: [span; 8], flags: 1 }
    }

    #[test]
    fn threads_work_for_spans() {
        let mut contexts = Contexts::new(100);
        contexts.take(7, 10, Said::Begin(context(1)));
        // Told again: it lasts from then on.
        contexts.take(7, 80, Said::Begin(context(1)));
        contexts.take(7, 150, Said::Begin(context(2)));
        contexts.take(7, 170, Said::End);
        contexts.take(8, 50, Said::Begin(context(3)));
        contexts.end(9, 60);
        let at = |tid, time| contexts.at(tid, time).map(|of| of.span[0]);
        assert_eq!((at(7, 9), at(7, 10), at(7, 149)), (None, Some(1), Some(1)));
        assert_eq!((at(7, 150), at(7, 169), at(7, 170)), (Some(2), Some(2), None));
        assert_eq!((at(8, 149), at(8, 150), at(9, 70)), (Some(3), None, None));
        assert_eq!(contexts.of(7).len(), 2);
        assert_eq!(contexts.threads().count(), 2);
    }

    #[test]
    fn there_is_room_for_so_many() {
        let mut contexts = Contexts::new(10);
        for n in 0..STRETCHES_MAX as u64 + 5 {
            contexts.take(1, n, Said::Begin(context((n % 2) as u8)));
        }
        assert_eq!(contexts.left_out(), 5);
        assert_eq!(contexts.of(1).len(), STRETCHES_MAX);
        // The last one does not last into what is not known.
        assert_eq!(contexts.at(1, STRETCHES_MAX as u64 + 2), None);
    }
}
