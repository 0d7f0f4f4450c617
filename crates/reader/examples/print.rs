//! Prints the events of files: `cargo run --example print -- saved.flight`

use std::error::Error;
use std::io::{self, Write};

use flightrec_reader::{Body, KnownEvent, Question, Reader};

fn main() -> Result<(), Box<dyn Error>> {
    let mut reader = Reader::files(std::env::args_os().skip(1));
    let mut events = reader.events(Question::ALL)?;
    let mut out = io::stdout().lock();
    for event in &mut events {
        let event = event?;
        let (time, cpu, tid) = (event.wall_ns(), event.cpu(), event.tid());
        let comm = event.comm().escape_ascii();
        writeln!(out, "{time} {cpu:3} {comm} ({tid}): {}", what(&event))?;
    }
    for report in events.coverage() {
        let missing: usize = report.lanes.iter().map(|lane| lane.gaps.len()).sum();
        let length = report.window.until - report.window.from;
        writeln!(out, "{length} ns, complete: {}, gaps: {missing}", report.is_complete())?;
    }
    Ok(())
}

/// What happened, in words.
fn what(event: &KnownEvent) -> String {
    let call = event.call_name().unwrap_or("?");
    let other = event
        .other()
        .map_or_else(String::new, |(tid, comm)| format!("{} ({tid})", comm.escape_ascii()));
    match event.body() {
        Body::Enter(_) => format!("{call}(...)"),
        Body::Exit { ret, .. } => match event.duration() {
            Some(took) => format!("{call} = {ret} after {took:?}"),
            None => format!("{call} = {ret}"),
        },
        Body::Switch { .. } => format!("switches to {other}"),
        Body::Waking { context, .. } if context.is_interrupt() => {
            format!("is interrupted; a {} wakes {other}", context.name())
        }
        Body::Waking { .. } => format!("wakes {other}"),
        body => format!("{:?}", body.kind()),
    }
}
