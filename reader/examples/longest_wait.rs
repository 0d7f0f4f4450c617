//! Finds the longest sleep of a thread, and who ended it:
//! `cargo run --example longest_wait -- saved.flight`

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use flightrec_reader::{Body, Question, Reader};

/// A thread that sleeps.
struct Sleep {
    since: u64,
    thread: String,
    call: Option<String>,
    waker: Option<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut calls: HashMap<u32, Option<String>> = HashMap::new();
    let mut sleeps: HashMap<u32, Sleep> = HashMap::new();
    let mut longest: Option<(u64, Sleep)> = None;
    let mut reader = Reader::files(std::env::args_os().skip(1));
    let mut events = reader.events(Question::ALL)?;
    for event in &mut events {
        let event = event?;
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
                    let ns = event.time() - sleep.since;
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
    let Some((ns, Sleep { thread, call, waker, .. })) = longest else {
        println!("nobody slept and was woken in it");
        return Ok(());
    };
    let call = call.as_deref().unwrap_or("no call that was seen to begin");
    println!("{thread} slept {:?} in {call}", Duration::from_nanos(ns));
    println!("woken by {}", waker.as_deref().unwrap_or("a wakeup that was not recorded"));
    println!("the recording is complete: {}", events.is_complete());
    Ok(())
}
