//! The answer of `why`, as the page has it, and what is near the cause.

use flightrec_analysis::why::{self, Answer};
use flightrec_export::page::model;
use flightrec_reader::window::Window;

use super::chosen::who;

/// How much before and after the begin, and the end, of the longest wait is drawn in full, ns.
const BEGIN: (u64, u64) = (2_000_000, 20_000_000);
const END: (u64, u64) = (200_000_000, 20_000_000);
/// The same around the ends of the other links.
const LINK: (u64, u64) = (20_000_000, 2_000_000);

/// The answer; times from `base` on.
pub(super) fn told(answer: &Answer, base: u64) -> model::Answer {
    let since = |time: u64| time.saturating_sub(base);
    let link = |link: &why::Link| model::Link {
        tid: link.who.tid,
        who: who(&link.who.comm, link.who.tid),
        group: link.who.group.clone().filter(|group| group != "/").unwrap_or_default(),
        did: if link.did.is_empty() { "caused it".to_owned() } else { link.did.clone() },
        from: since(link.from),
        until: since(link.until),
        count: link.count,
        evidence: link.evidence.clone(),
        doubt: link.doubt.clone().unwrap_or_default(),
    };
    model::Answer {
        sentence: answer.sentence.clone(),
        subject: answer.subject.as_ref().map(|of| who(&of.comm, of.tid)).unwrap_or_default(),
        window: (since(answer.from), since(answer.until)),
        chain: answer.chain.iter().map(link).collect(),
        doubts: answer.doubts.clone(),
        complete: answer.complete,
    }
}

/// The moment that the answer is about: when the longest wait of its subject was over.
pub(super) fn moment(answer: &Answer) -> Option<u64> {
    let link = answer.chain.first()?;
    (link.until != 0).then_some(link.until.max(link.from))
}

/// What of a window is near the cause, from the first to the last.
pub(super) fn near(answer: &Answer, window: Window) -> Vec<Window> {
    let around = |at: u64, (before, after): (u64, u64)| Window {
        from: at.saturating_sub(before),
        until: at.saturating_add(after),
    };
    let mut near = Vec::new();
    for (number, link) in answer.chain.iter().enumerate().filter(|(_, link)| link.until != 0) {
        if number == 0 {
            near.push(around(link.from, BEGIN));
            near.push(around(link.until, END));
        } else {
            near.push(around(link.until, LINK));
        }
    }
    let mut near: Vec<Window> = near.into_iter().map(|of| of.within(window)).collect();
    near.retain(|of| !of.is_empty());
    near.sort_by_key(|of| of.from);
    near.dedup_by(|next, last| {
        let touch = next.from <= last.until;
        if touch {
            last.until = last.until.max(next.until);
        }
        touch
    });
    near
}

#[cfg(test)]
mod tests {
    use flightrec_analysis::why::Link;

    use super::*;

    #[test]
    fn the_ends_of_the_wait_are_near() {
        let ms = |ms: u64| ms * 1_000_000;
        let link = |from, until| Link { from: ms(from), until: ms(until), ..Link::default() };
        let chain = vec![link(100, 1000), link(990, 1000), Link::default(), link(100, 3000)];
        let answer = Answer { chain, ..Answer::default() };
        let window = Window { from: ms(99), until: ms(2990) };
        let ends: Vec<_> = near(&answer, window)
            .into_iter()
            .map(|of| (of.from / 1_000_000, of.until / 1_000_000))
            .collect();
        assert_eq!(ends, [(99, 120), (800, 1020), (2980, 2990)]);
        assert_eq!(moment(&answer), Some(ms(1000)));
        assert_eq!(moment(&Answer::default()), None);
    }
}
