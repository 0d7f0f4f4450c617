//! The threads of `xtask/vm/stress.c`: numbered calls, while others preempt them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The first argument of the calls, as in `stress.c`.
const TAG: u64 = 0x5717;
/// How often each thread must have been preempted, or it was no stress.
const PREEMPTED: usize = 20;

/// Every call of every thread is in the dump, once, in order, with its exit; and the probes refused nothing for another
/// program's sake, nor did the kernel skip one. What was found, for each thread.
pub(super) fn numbered_calls(files: &Path, events: &[Value]) -> Result<Vec<String>> {
    let printed = fs::read_to_string(files.join("stress.txt")).context("the stress was not run")?;
    let mut found = Vec::new();
    for line in printed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["cpu", cpu, "tid", tid, "calls", calls] = words.as_slice() else { continue };
        let (tid, calls): (u64, u64) = (tid.parse()?, calls.parse()?);
        let of_thread = |event: &&Value| event["tid"].as_u64() == Some(tid) && event["syscall"] == "getpriority";
        let entries = events.iter().filter(of_thread).filter(|event| event["event"] == "sys_enter");
        let numbers: Vec<u64> = entries
            .filter(|entry| entry["args"][0]["value"].as_u64() == Some(TAG))
            .filter_map(|entry| entry["args"][1]["value"].as_u64())
            .collect();
        if let Some((wanted, number)) = (1..).zip(&numbers).find(|(wanted, number)| wanted != *number) {
            anyhow::bail!("CPU {cpu}: call {number} of thread {tid} stands where {wanted} should");
        }
        ensure!(numbers.len() as u64 == calls, "CPU {cpu}: {} of {calls} calls of thread {tid}", numbers.len());
        let exits = events.iter().filter(of_thread).filter(|event| event["event"] == "sys_exit").count();
        ensure!(exits as u64 == calls, "CPU {cpu}: {exits} exits of {calls} calls of thread {tid}");
        // Whether it was in the kernel or on its way out: it would have gone on.
        let switches = events.iter().filter(|event| event["event"] == "switch");
        let preempted = switches
            .filter(|switch| switch["prev_tid"].as_u64() == Some(tid) && switch["prev_state"] == "TASK_RUNNING")
            .count();
        ensure!(preempted >= PREEMPTED, "CPU {cpu}: thread {tid} was preempted {preempted} times only");
        found.push(format!("stress: all {calls} calls of a thread on CPU {cpu} that was preempted {preempted} times"));
    }
    ensure!(!found.is_empty(), "the stress told nothing: {printed}");
    let status = fs::read_to_string(files.join("status.json")).context("no status")?;
    found.push(refused(&serde_json::from_str(&status)?)?);
    Ok(found)
}

/// What the probes and the kernel refused, all lanes and programs together.
fn refused(status: &Value) -> Result<String> {
    let sum = |counts: Vec<&Value>| counts.into_iter().filter_map(Value::as_u64).sum::<u64>();
    let skipped = status["skipped_runs"].as_object().context("no skipped runs in the status")?;
    let lanes = status["lanes"].as_object().context("no lanes in the status")?;
    let skipped = sum(skipped.values().collect());
    let busy = sum(lanes.values().map(|lane| &lane["lost"]["busy"]).collect());
    ensure!(
        skipped == 0 && busy == 0,
        "{busy} events refused as busy, {skipped} runs of programs skipped by the kernel"
    );
    Ok("0 events refused as busy, 0 runs of programs skipped by the kernel".to_owned())
}
