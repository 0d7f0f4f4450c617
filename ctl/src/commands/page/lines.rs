//! The lines around the cause, as `flightctl dump` prints them: of the threads that the answer
//! names.

use std::collections::VecDeque;

use flightrec_export::page::model::Lines;
use flightrec_export::redact::Redact;
use flightrec_format::decode::{Body, Event};
use rustc_hash::FxHashSet;

/// Lines before the moment: of the subject, and of the others; and after it.
const OWN_MAX: usize = 80;
const OTHERS_MAX: usize = 160;
const AFTER_MAX: usize = 80;
/// Longest line, bytes.
const LINE_MAX: usize = 600;

/// The number of a line, its time, whether it is of the subject, the line.
type Row = (u64, u64, bool, String);

/// Lines in the making.
#[derive(Debug, Default)]
pub(super) struct Raw {
    /// The moment, ns of `CLOCK_MONOTONIC`; `None`: there is none.
    moment: Option<u64>,
    subject: u32,
    named: FxHashSet<u32>,
    own: VecDeque<Row>,
    others: VecDeque<Row>,
    after: Vec<Row>,
    number: u64,
    redact: Redact,
}

impl Raw {
    /// Around a moment, of these threads, of which the first is the one that is asked about.
    pub(super) fn new(
        moment: Option<u64>,
        threads: impl IntoIterator<Item = u32>,
        redact: Redact,
    ) -> Self {
        let mut threads = threads.into_iter();
        let subject = threads.next().unwrap_or(0);
        let named = threads.chain([subject]).filter(|tid| *tid != 0).collect();
        Self { moment, subject, named, redact, ..Self::default() }
    }

    /// Takes an event of the window, whose lines `write` makes.
    pub(super) fn take(&mut self, event: &Event, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(moment) = self.moment else { return };
        if event.time > moment && self.after.len() >= AFTER_MAX {
            return;
        }
        let other = match event.body {
            Body::Switch { next, .. } => next,
            Body::Waking { wakee, .. } => wakee,
            Body::Migrate { thread, .. } => thread,
            _ => 0,
        };
        if !self.named.contains(&event.tid) && !self.named.contains(&other) {
            return;
        }
        let is_own = self.subject != 0 && (event.tid == self.subject || other == self.subject);
        let mut text = Vec::new();
        write(&mut text);
        // Every byte is printable.
        for line in String::from_utf8_lossy(&text).lines() {
            let line = self.redact.cut(line, LINE_MAX);
            self.number += 1;
            let row = (self.number, event.time, is_own, line);
            if event.time > moment {
                self.after.push(row);
                continue;
            }
            let (kept, most) =
                if is_own { (&mut self.own, OWN_MAX) } else { (&mut self.others, OTHERS_MAX) };
            if kept.len() >= most {
                kept.pop_front();
            }
            kept.push_back(row);
        }
    }

    /// The lines; times from `from` on.
    pub(super) fn finish(self, from: u64) -> Lines {
        let mut rows: Vec<Row> = self.own.into_iter().chain(self.others).collect();
        rows.extend(self.after);
        rows.sort_unstable_by_key(|(number, ..)| *number);
        let line = |(_, time, is_own, line): Row| (time.saturating_sub(from), is_own, line);
        Lines {
            title: "The threads that the answer names, up to the end of the longest wait and \
                    shortly after it, as flightctl dump prints them."
                .to_owned(),
            lines: rows.into_iter().map(line).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_around_the_moment_of_those_who_are_named() {
        let mut raw = Raw::new(Some(1000), [5, 6], Redact::default());
        let mut put = |time, tid| {
            let body = Body::Migrate { thread: tid, prio: 120, from: 0, to: 1 };
            let event = Event { time, cpu: 0, tid, body };
            raw.take(&event, |out| out.extend_from_slice(format!("{time} {tid}\n").as_bytes()));
        };
        put(1, 5);
        for time in 2..1200 {
            put(time, 6);
            put(time, 7);
        }
        let lines = raw.finish(1).lines;
        assert_eq!(lines.len(), 1 + OTHERS_MAX + AFTER_MAX);
        // What is long ago is there, if it is of the one that is asked about.
        assert_eq!(lines[0], (0, true, "1 5".to_owned()));
        assert_eq!(lines[1], (840, false, "841 6".to_owned()));
        assert_eq!(lines.last().unwrap().2, "1080 6");
        assert!(Raw::new(None, [5], Redact::default()).finish(0).lines.is_empty());
    }
}
