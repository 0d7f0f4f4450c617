//! Waits in spans of distributed traces.

use flightrec_format::trace_context::{Said, TraceContext};

use super::*;
use crate::trace_context::Contexts;
use crate::why::Traced;

fn context(flags: u8) -> TraceContext {
    TraceContext { trace: [1; 16], span: [2; 8], flags }
}

/// The waits of the convoy, where thread 11 told a context at this time.
fn told(at: u64, said: Said, most: usize) -> Traced {
    let mut contexts = Contexts::new(50 * MS);
    contexts.take(11, at, said);
    story(&convoy(), 95 * MS, &[]).traced(&contexts, most, &Plainly)
}

#[test]
fn a_wait_in_a_span_is_told_with_its_holder() {
    let traced = told(MS / 2, Said::Begin(context(1)), 5);
    assert_eq!((traced.waits.len(), traced.left_out, traced.unsampled), (1, 0, 0), "{traced:#?}");
    let wait = &traced.waits[0];
    assert_eq!((wait.from, wait.until, wait.goes_on), (2 * MS, 92 * MS, false));
    assert_eq!((wait.call.as_str(), wait.state, wait.who.tid), ("futex", "blocked", 11));
    assert_eq!(wait.context, context(1));
    let culprit = wait.culprit.as_ref().unwrap();
    assert_eq!(culprit.who.as_ref().map(|who| who.tid), Some(12));
    assert_eq!(culprit.object.as_deref(), Some("/srv/journal"));
}

#[test]
fn what_is_not_in_a_span_is_not_told() {
    // The call began before the context was told, or long after.
    assert_eq!(told(MS, Said::Begin(context(1)), 5), Traced::default());
    let mut contexts = Contexts::new(MS / 4);
    contexts.take(11, MS / 2, Said::Begin(context(1)));
    contexts.take(13, MS / 2, Said::Begin(context(1)));
    let traced = story(&convoy(), 95 * MS, &[]).traced(&contexts, 5, &Plainly);
    assert_eq!(traced, Traced::default());
    assert_eq!(told(MS / 2, Said::End, 5), Traced::default());
}

#[test]
fn spans_that_are_not_sampled_are_counted() {
    let traced = told(MS / 2, Said::Begin(context(0)), 5);
    assert_eq!((traced.waits.len(), traced.left_out, traced.unsampled), (0, 0, 1));
}

#[test]
fn the_longest_are_kept() {
    let mut all = told(MS / 2, Said::Begin(context(1)), 0);
    assert_eq!((all.waits.len(), all.left_out), (0, 1));
    let of = |ns: u64| {
        let mut one = told(MS / 2, Said::Begin(context(1)), 1);
        one.waits[0].until = one.waits[0].from + ns;
        one
    };
    for ns in [5, 9, 1, 7] {
        all.add(of(ns), 2);
    }
    let lengths: Vec<u64> = all.waits.iter().map(|of| of.until - of.from).collect();
    assert_eq!((lengths, all.left_out), (vec![9, 7], 3));
}
