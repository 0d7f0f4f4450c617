//! Rows of the table of waits.

use flightrec_analysis::State;
use flightrec_format::decode::Call;

use super::columns::Rows;
use super::people::People;
use super::waits::Wait;
use crate::exporter::Words;

/// Appends the row of a wait. `offset`: what the wall clock is ahead of `CLOCK_MONOTONIC`.
pub(super) fn write_wait(
    wait: &Wait,
    offset: i64,
    people: &People,
    words: Option<&mut (dyn Words + '_)>,
    session: &str,
    rows: &mut Rows,
) {
    let of = &wait.interval;
    let (kind, state) = match of.state {
        State::Runnable => ("cpu", None),
        State::Held => ("held", None),
        State::Stopped(_) => ("stopped", Some(of.state.letter())),
        _ => ("blocked", Some(of.state.letter())),
    };
    let who = people.who(of.tid);
    let waker = of.waker.and_then(|waker| Some((waker.thread()?, waker.context)));
    rows.time((of.from as i64).saturating_add(offset))
        .long(of.ns() as i64)
        .int(i32::from(of.cpu))
        .int(of.tid as i32)
        .int(who.map(|(pid, _)| pid as i32))
        .comm(who.as_ref().map(|(_, comm)| comm))
        .fixed(kind)
        .fixed(state.map(letter_text))
        .bool(wait.io);
    match (of.call, words) {
        (Some(id), Some(words)) => {
            let call = Call { nr: id.nr, abi: id.abi, nargs: 0, args: [0; 6], strings: Vec::new() };
            rows.text(words.call(&call));
        }
        _ => {
            rows.text(None);
        }
    }
    rows.text(wait.function.as_deref()).int(waker.map(|(tid, _)| tid as i32));
    let waker = waker.and_then(|(tid, _)| people.who(tid));
    rows.comm(waker.as_ref().map(|(_, comm)| comm));
    rows.fixed(of.waker.map(|waker| waker.context.name())).bool(wait.has_end).text(session);
}

/// A state's letter as a text.
pub(super) fn letter_text(letter: char) -> &'static str {
    const LETTERS: &str = "?RSDITtPXZKW";
    LETTERS.find(letter).and_then(|at| LETTERS.get(at..=at)).unwrap_or("?")
}
