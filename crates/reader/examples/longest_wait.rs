//! Finds the longest sleep of a thread, and who ended it:
//! `cargo run --example longest_wait -- saved.flight`

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use flightrec_reader::{Body, Events, Question, Reader, SourceError};

/// A thread that sleeps.
pub(crate) struct Sleep {
    since: u64,
    thread: String,
    pub(crate) call: Option<String>,
    pub(crate) waker: Option<String>,
}

/// The longest sleep, with its length in ns, of which both ends are among the events.
pub(crate) fn longest(events: &mut Events) -> Result<Option<(u64, Sleep)>, SourceError> {
    let mut calls: HashMap<u32, Option<String>> = HashMap::new();
    let mut sleeps: HashMap<u32, Sleep> = HashMap::new();
    let mut longest: Option<(u64, Sleep)> = None;
    let mut recording = None;
    for event in events {
        let event = event?;
        // Nobody knows what happened between two recordings, and with a boot times begin anew.
        let session = event.session().meta().session;
        if recording.replace(session) != Some(session) {
            calls.clear();
            sleeps.clear();
        }
        let thread = format!("{} ({})", event.comm().escape_ascii(), event.tid());
        match *event.body() {
            Body::Enter(_) => {
                calls.insert(event.tid(), event.call_name().map(str::to_owned));
            }
            Body::Exit { .. } => {
                calls.remove(&event.tid());
            }
            Body::Switch { prev_state, preempted, next, .. } => {
                if prev_state != 0 && !preempted && event.tid() != 0 {
                    let call = calls.get(&event.tid()).cloned().flatten();
                    let sleep = Sleep { since: event.time(), thread, call, waker: None };
                    sleeps.insert(event.tid(), sleep);
                }
                if let Some(sleep) = sleeps.remove(&next) {
                    let ns = event.time().saturating_sub(sleep.since);
                    if longest.as_ref().is_none_or(|(most, _)| ns > *most) {
                        longest = Some((ns, sleep));
                    }
                }
            }
            Body::Waking { wakee, context, .. } => {
                if let Some(sleep) = sleeps.get_mut(&wakee) {
                    let by_interrupt = format!("an interrupt ({})", context.name());
                    sleep.waker = Some(if context.is_interrupt() { by_interrupt } else { thread });
                }
            }
            _ => {}
        }
    }
    Ok(longest)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut reader = Reader::files(std::env::args_os().skip(1));
    let mut events = reader.events(Question::ALL)?;
    let Some((ns, Sleep { thread, call, waker, .. })) = longest(&mut events)? else {
        println!("no thread slept and was woken");
        return Ok(());
    };
    let call = call.as_deref().unwrap_or("no call that was seen to begin");
    println!("{thread} slept {:?} in {call}", Duration::from_nanos(ns));
    println!("woken by {}", waker.as_deref().unwrap_or("a wakeup that was not recorded"));
    println!("the recording is complete: {}", events.is_complete());
    Ok(())
}
