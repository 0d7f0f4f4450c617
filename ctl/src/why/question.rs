//! What is asked of a window; where it has more events than a story holds, of each of its parts.

use std::time::Duration;

use flightrec_analysis::why::{Answer, Story};
use flightrec_format::containers::Container;
use flightrec_format::trace_context::TraceContext;
use flightrec_reader::source::history::Chapter;
use flightrec_reader::wall::WallClock;
use flightrec_reader::window::Edge;

use super::cause::Cause;
use super::plan::WhyPlan;
use super::words::Dictionary;

/// How much around a moment is asked about where no call or wait is there, ns.
const MOMENT_NS: u64 = 250_000_000;

/// A question.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    plan: &'a WhyPlan,
    /// Of the snapshot, where that is asked about.
    cause: Option<&'a Cause>,
    /// The moment that is asked about, ns of `CLOCK_MONOTONIC`.
    at: Option<u64>,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) answer: Answer,
    /// How much it answers what was asked: of several, the greatest is given. Whether it has the
    /// moment in question, and how much trouble it tells of, ns.
    pub(super) worth: (bool, u64),
    /// As of [`Story::lacks_any`].
    pub(super) lacks_any: bool,
    /// The container, or pod, of the subject.
    pub(super) container: Option<Container>,
    /// The span that the subject worked for in its longest wait.
    pub(super) context: Option<TraceContext>,
}

impl Found {
    /// Says that the answer is about one of so many parts.
    pub(super) fn say_parts(&mut self, parts: u64) {
        self.answer.say_part(parts, self.worth.0);
    }
}

impl<'a> Question<'a> {
    pub(super) fn new(plan: &'a WhyPlan, cause: Option<&'a Cause>) -> Self {
        Self { plan, cause, at: None }
    }

    /// The same in the clock of a chapter.
    pub(super) fn of(self, chapter: &Chapter, wall: &WallClock) -> Self {
        let moment = |at| wall.windows(at, Edge::Open, chapter.present).hull().from;
        Self { at: self.plan.at.map(moment), ..self }
    }

    /// Asks.
    pub(super) fn ask(&self, story: &mut Story, names: &Dictionary) -> Found {
        // At the time itself what ended there is over.
        let moment = self.cause.map(|cause| cause.time().saturating_sub(1)).or(self.at);
        let has_moment = moment.is_some_and(|moment| story.has(moment));
        let lacks_any = story.lacks_any(&self.plan.subject, names);
        let found = match self.cause {
            Some(cause) => Some(cause.ask(story, names)),
            None => self.ask_plan(story, names),
        };
        let (answer, trouble) = found.unwrap_or_else(|| (story.none(&self.none()), 0));
        let group = answer.subject.as_ref().and_then(|of| of.group.as_deref());
        let container = group.and_then(|group| names.container(group)).cloned();
        Found { answer, worth: (has_moment, trouble), lacks_any, container, context: None }
    }

    /// How many waits in spans of traces are told.
    pub(super) fn spans(&self) -> usize {
        self.plan.spans
    }

    /// Asks what was asked. The answer, and how much trouble it tells of, ns.
    fn ask_plan(&self, story: &mut Story, names: &Dictionary) -> Option<(Answer, u64)> {
        let plan = self.plan;
        if plan.call.is_some() || plan.slower_than.is_some() {
            let at_least = plan.slower_than.unwrap_or(0);
            let call = story.slowest_call(&plan.subject, plan.call.as_deref(), at_least, names)?;
            let answer = story.answer_within(call.tid, call.from, call.until, names);
            return Some((answer, call.trouble));
        }
        if let Some(at) = self.at {
            story.narrow(at.saturating_sub(MOMENT_NS), at.saturating_add(MOMENT_NS));
            let (tid, trouble) = story.worst_of(&plan.subject, names)?;
            let (from, until) = story.episode(tid, at);
            return Some((story.answer_within(tid, from, until, names), trouble));
        }
        match story.worst_of(&plan.subject, names) {
            Some((tid, trouble)) => Some((story.answer(tid, names), trouble)),
            None if plan.subject.is_any() => Some((story.nothing(), 0)),
            None => None,
        }
    }

    /// What is said where nothing is as it was asked for.
    fn none(&self) -> String {
        let WhyPlan { call, slower_than, subject, .. } = self.plan;
        let whose = if subject.is_any() { "" } else { " of these threads" };
        let time = slower_than.map_or(String::new(), |ns| {
            format!(" that took {:?} or longer", Duration::from_nanos(ns))
        });
        match call {
            Some(call) => format!("the window has no {call}{whose}{time}"),
            None if slower_than.is_some() => format!("the window has no call{whose}{time}"),
            None => format!("the window has no activity{whose}"),
        }
    }
}
