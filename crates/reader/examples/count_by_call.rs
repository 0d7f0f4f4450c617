//! Counts system calls by name, with failures and time:
//! `cargo run --example count_by_call -- saved.flight`

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use flightrec_reader::{Question, Reader, SourceError};

#[derive(Default)]
pub(crate) struct Sum {
    pub(crate) calls: u64,
    pub(crate) failures: u64,
    time: Duration,
}

/// Adds up all calls of a recording that end in it.
pub(crate) fn sums(mut reader: Reader) -> Result<HashMap<String, Sum>, SourceError> {
    let mut sums: HashMap<String, Sum> = HashMap::new();
    for event in reader.events(Question::ALL)? {
        let event = event?;
        // An exit has the call's result and its duration.
        let (Some(name), Some(_)) = (event.call_name(), event.result()) else { continue };
        let sum = sums.entry(name.to_owned()).or_default();
        sum.calls += 1;
        sum.failures += u64::from(event.failure().is_some());
        sum.time += event.duration().unwrap_or_default();
    }
    Ok(sums)
}

fn main() -> Result<(), Box<dyn Error>> {
    let sums = sums(Reader::files(std::env::args_os().skip(1)))?;
    let mut sums: Vec<(String, Sum)> = sums.into_iter().collect();
    sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.time));
    println!("{:>10} {:>10} {:>14}  call", "calls", "failures", "time");
    for (name, Sum { calls, failures, time }) in sums {
        println!("{calls:>10} {failures:>10} {time:>14?}  {name}");
    }
    Ok(())
}
