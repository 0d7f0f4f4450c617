//! The waits of calls that threads made in spans of distributed traces.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flightrec_format::trace_context::TraceContext;

use super::answer::{Culprit, Who};
use super::names::Names;
use super::story::Story;
use crate::State;
use crate::trace_context::Contexts;

/// A wait as short as that is not told, ns: of shorter calls no words are kept.
const SHORT_NS: u64 = 500_000;

/// A wait of a thread, in a call that it made in a span.
#[derive(Debug, Clone, PartialEq)]
pub struct TracedWait {
    /// The span.
    pub context: TraceContext,
    /// The thread.
    pub who: Who,
    /// When the wait began, ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// End.
    pub until: u64,
    /// Whether it went on when the window ended.
    pub goes_on: bool,
    /// The call's name.
    pub call: String,
    /// As of [`Link::state`](super::Link::state).
    pub state: &'static str,
    /// What the thread did, in words.
    pub did: String,
    /// What the call is about.
    pub object: Option<String>,
    /// Who or what was the cause, as far as it is known.
    pub culprit: Option<Culprit>,
    /// What is not sure of it.
    pub doubt: Option<String>,
}

/// Waits in spans, and what was left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Traced {
    /// The longest ones, the longest first.
    pub waits: Vec<TracedWait>,
    /// How many were shorter, and left out.
    pub left_out: u64,
    /// How many were in spans that are not sampled, and left out.
    pub unsampled: u64,
}

impl Traced {
    /// Adds those of another part of the window, and keeps the longest.
    pub fn add(&mut self, more: Self, most: usize) {
        self.left_out += more.left_out;
        self.unsampled += more.unsampled;
        self.waits.extend(more.waits);
        self.waits.sort_by_key(|of| (Reverse(of.until.saturating_sub(of.from)), of.from));
        self.left_out += self.waits.len().saturating_sub(most) as u64;
        self.waits.truncate(most);
    }
}

impl Story {
    /// The waits of the window that threads had in calls that they made in spans: the longest, at
    /// most so many.
    pub fn traced(&self, contexts: &Contexts, most: usize, names: &impl Names) -> Traced {
        let mut traced = Traced::default();
        // The shortest one on top.
        let mut longest = BinaryHeap::new();
        for (tid, stretches) in contexts.threads() {
            let Some(track) = self.tracks.get(tid) else { continue };
            for stretch in stretches {
                let (from, until) = (stretch.from.max(self.from), stretch.until.min(self.until));
                for span in track.within(from, until) {
                    let waits = matches!(
                        span.state,
                        State::Blocked(_) | State::Runnable | State::Held | State::Stopped(_)
                    );
                    // The call that told the context is not one that was made in it.
                    let is_of = waits
                        && span.ns() >= SHORT_NS
                        && track.call_at(span.from).is_some_and(|call| call.from > stretch.from);
                    if !is_of {
                        continue;
                    }
                    if !stretch.context.is_sampled() {
                        traced.unsampled += 1;
                        continue;
                    }
                    let key = (span.ns(), Reverse(span.from), tid, span.until, stretch.context);
                    longest.push(Reverse(key));
                    if longest.len() > most {
                        longest.pop();
                        traced.left_out += 1;
                    }
                }
            }
        }
        let sorted = longest.into_sorted_vec();
        traced.waits = sorted
            .into_iter()
            .filter_map(|Reverse((_, Reverse(from), tid, until, context))| {
                self.traced_wait(tid, (from, until), context, names)
            })
            .collect();
        traced
    }

    fn traced_wait(
        &self,
        tid: u32,
        (from, until): (u64, u64),
        context: TraceContext,
        names: &impl Names,
    ) -> Option<TracedWait> {
        let call = self.tracks.get(tid)?.call_at(from)?;
        let told = self.tracks.told(call.told);
        let answer = self.answer_within(tid, from, until, names);
        let link = answer.chain.into_iter().next().unwrap_or_default();
        let object = told.and_then(|told| told.object.as_ref().or(told.peer.as_ref()));
        Some(TracedWait {
            context,
            who: self.who(tid, names),
            from,
            until,
            goes_on: until >= self.until,
            call: self.kinds.name(call.call),
            state: link.state,
            did: link.did,
            object: link.object.or_else(|| object.map(ToString::to_string)),
            culprit: answer.culprits.into_iter().next(),
            doubt: link.doubt,
        })
    }
}
