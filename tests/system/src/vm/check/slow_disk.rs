//! Requests to a slow disk (`delay.c`), held against the kernel's counters of it and against the
//! calls that waited for them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The disk.
const DISK: &str = "loop1";
/// How much of the time that the fsyncs were blocked their disk's requests explain at least, in
/// thousandths. (A call takes longer than that: its thread also runs, and waits for a CPU.)
const EXPLAINED: u64 = 990;
/// How many fsyncs there are of it.
const CALLS: usize = 4;
/// Least time of an fsync there, ns: one write, and a flush after it, of 200 ms each.
const SLOW: u64 = 400_000_000;

/// A request's beginning and its end, ns.
type Span = (u64, u64);

/// As many requests as the kernel counts, and they were under way for as long as the calls waited.
pub(super) fn waits(files: &Path) -> Result<Vec<String>> {
    let events = |name: &str| {
        let text = fs::read_to_string(files.join(name)).with_context(|| format!("no {name}"))?;
        super::events(&text)
    };
    let requests: Vec<Value> = events("slow.jsonl")?;
    let done: Vec<&Value> =
        requests.iter().filter(|event| event["event"] == "block_complete").collect();
    let of = |op: &'static str| done.iter().filter(move |event| event["op"] == op);
    // What asks for a flush only is a write without bytes, and counts as well.
    let writes = of("write");
    let bytes: u64 = writes.clone().filter_map(|event| event["bytes"].as_u64()).sum();
    let recorded = [writes.count() as u64, bytes / 512, of("flush").count() as u64];
    let (before, after) = (stat(files, "slow.before")?, stat(files, "slow.after")?);
    let counted = [0, 1, 2].map(|at| after[at] - before[at]);
    ensure!(
        recorded == counted && counted[0] > 0,
        "requests of {DISK}: {recorded:?} recorded (writes, sectors, flushes), {counted:?} counted"
    );
    let mut found = vec![format!(
        "{DISK}: {} writes of {} sectors, {} flushes, as the kernel counts them",
        counted[0], counted[1], counted[2]
    )];
    let waits = fs::read_to_string(files.join("waits.json")).context("no report of waits")?;
    let waits: Value = serde_json::from_str(&waits).context("the report of waits")?;
    let blocked = waits["total"]["total_duration_ns"].as_u64().context("no sum of waits")?;
    let mut explained = 0;
    let spans: Vec<Span> = done.iter().filter_map(|event| span(event)).collect();
    let calls = events("fsync.jsonl")?;
    // The first ones are of another disk (`functions`).
    let calls = calls.last_chunk::<CALLS>().with_context(|| format!("fsync: {calls:?}"))?;
    for call in calls {
        let number = |key: &str| call[key].as_u64().with_context(|| format!("no {key}: {call}"));
        let (end, duration) = (number("mono_ns")?, number("duration_ns")?);
        let busy = under_way_in(&spans, (end - duration, end));
        found.push(format!(
            "fsync of {} us: requests of {DISK} were under way for {} us of it",
            duration / 1000,
            busy / 1000
        ));
        ensure!(duration >= SLOW, "the disk was not slow: {found:?}");
        explained += busy;
    }
    found.push(format!(
        "they were blocked for {} us, and the requests were under way for {} us",
        blocked / 1000,
        explained / 1000
    ));
    ensure!(blocked >= SLOW && explained * 1000 >= blocked * EXPLAINED, "{found:?}");
    let why = fs::read_to_string(files.join("why.txt")).context("no answer of why")?;
    let sentence = why.lines().next().unwrap_or_default();
    ensure!(sentence.contains("fsync") && sentence.contains(DISK), "why: {why}");
    found.push(format!("why: {sentence}"));
    Ok(found)
}

/// What is said of a request that was under way in the panic.
pub(super) fn under_way(in_flight: &str) -> Result<String> {
    let line = in_flight.lines().find(|line| line.contains(DISK) && !line.contains("dd "));
    let line = line.with_context(|| format!("no request of {DISK} is in flight in {in_flight}"))?;
    Ok(format!("in flight: {}", line.split_whitespace().collect::<Vec<_>>().join(" ")))
}

/// From when it was queued, or the driver got it, until it was done.
fn span(event: &Value) -> Option<Span> {
    let end = event["mono_ns"].as_u64()?;
    let service = event["service_ns"].as_u64()?;
    let queue = event["queue_ns"].as_u64().unwrap_or(0);
    Some((end.checked_sub(service)?.checked_sub(queue)?, end))
}

/// How long at least one of these was under way in a window, ns.
fn under_way_in(spans: &[Span], window: Span) -> u64 {
    let cut = spans.iter().map(|span| (span.0.max(window.0), span.1.min(window.1)));
    let mut cut: Vec<Span> = cut.filter(|span| span.0 < span.1).collect();
    cut.sort_unstable();
    let (mut sum, mut reached) = (0, window.0);
    for (from, until) in cut {
        sum += until.saturating_sub(from.max(reached));
        reached = reached.max(until);
    }
    sum
}

/// Writes, sectors written, flushes (Documentation/block/stat.rst).
fn stat(files: &Path, name: &str) -> Result<[u64; 3]> {
    let text = fs::read_to_string(files.join(name)).with_context(|| format!("no {name}"))?;
    let fields: Vec<&str> = text.split_whitespace().collect();
    let field = |at: usize| -> Result<u64> {
        let field = fields.get(at).with_context(|| format!("{name}: no field {at}: {text}"))?;
        field.parse().with_context(|| format!("{name}: {field}"))
    };
    Ok([field(4)?, field(6)?, field(15)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_overlap_count_once() {
        let spans = [(0, 10), (5, 20), (30, 40), (32, 35), (90, 200)];
        assert_eq!(under_way_in(&spans, (2, 100)), 18 + 10 + 10);
        assert_eq!(under_way_in(&[], (2, 100)), 0);
    }
}
