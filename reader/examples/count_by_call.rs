//! Counts system calls by name, with failures and time:
//! `cargo run --example count_by_call -- saved.flight`

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use flightrec_reader::{Question, Reader};

#[derive(Default)]
struct Sum {
    calls: u64,
    failures: u64,
    time: Duration,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut sums: HashMap<String, Sum> = HashMap::new();
    let mut reader = Reader::files(std::env::args_os().skip(1));
    for event in reader.events(Question::ALL)? {
        let event = event?;
        // An exit has the call's result and its duration.
        let (Some(name), Some(result)) = (event.call_name(), event.result()) else { continue };
        let sum = sums.entry(name.to_owned()).or_default();
        sum.calls += 1;
        sum.failures += u64::from((-4095..0).contains(&result));
        sum.time += event.duration().unwrap_or_default();
    }
    let mut sums: Vec<(String, Sum)> = sums.into_iter().collect();
    sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.time));
    println!("{:>10} {:>10} {:>14}  call", "calls", "failures", "time");
    for (name, Sum { calls, failures, time }) in sums {
        println!("{calls:>10} {failures:>10} {time:>14?}  {name}");
    }
    Ok(())
}
