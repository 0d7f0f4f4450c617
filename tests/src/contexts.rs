//! For which spans threads work, as `programs/contexts.c` says, held against what was recorded.

use std::collections::BTreeMap;

use serde_json::Value;

/// A thread published `span` between two moments, ns of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// Before it changed what it published.
    pub before: u64,
    /// After that.
    pub after: u64,
    /// What it published; 0: nothing.
    pub span: u64,
}

/// What the program printed. By thread, in the order of time.
///
/// # Panics
/// If a line is none of its.
pub fn published(text: &str) -> BTreeMap<u64, Vec<Round>> {
    let mut threads: BTreeMap<u64, Vec<Round>> = BTreeMap::new();
    for line in text.lines().filter(|line| *line != "ready") {
        let numbers: Vec<u64> = line.split(' ').map(|n| n.parse().expect("a number")).collect();
        let [tid, before, after, span] = numbers[..] else { panic!("{line}") };
        threads.entry(tid).or_default().push(Round { before, after, span });
    }
    threads
}

/// Which of the switches away from these threads have the right span: how many, of how many. The
/// others are printed.
///
/// # Panics
/// If a switch has no thread, no time, or a span that is none.
pub fn right(switches: &[Value], threads: &BTreeMap<u64, Vec<Round>>) -> (usize, usize) {
    let (mut right, mut all) = (0, 0);
    for switch in switches {
        let Some(rounds) = threads.get(&switch["tid"].as_u64().expect("a thread")) else {
            continue;
        };
        let time = switch["mono_ns"].as_u64().expect("a time");
        let after = rounds.partition_point(|round| round.before <= time);
        // Before its first round and after its last one it publishes nothing, and then what is
        // none.
        let Some(round) = after.checked_sub(1).map(|at| &rounds[at]) else { continue };
        if after == rounds.len() {
            continue;
        }
        let shown = switch["span_id"].as_str().map(|text| u64::from_str_radix(text, 16));
        let shown = shown.map_or(0, |span| span.expect("hexadecimal"));
        // In the middle of a change it is the one, the other, or none.
        let may_be = if time <= round.after {
            let before = after.checked_sub(2).map_or(0, |at| rounds[at].span);
            vec![before, round.span, 0]
        } else {
            vec![round.span]
        };
        all += 1;
        right += usize::from(may_be.contains(&shown));
        if !may_be.contains(&shown) {
            eprintln!("at {time}: {shown:x}, and not {:x} since {}", round.span, round.after);
        }
    }
    (right, all)
}
