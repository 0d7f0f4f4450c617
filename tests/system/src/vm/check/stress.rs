//! The threads of `tests/system/vm/stress.c`: numbered calls, while others preempt them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The first argument of the calls, as in `stress.c`.
const TAG: u64 = 0x5717;
/// How often each thread must have been preempted, or it was no stress.
const PREEMPTED: usize = 20;

/// Threads that were preempted, and what became of their calls.
#[derive(Debug)]
pub(super) struct Stress {
    threads: Vec<Thread>,
    /// What the probes and the kernel refused.
    refused: String,
}

/// One of them, all of whose calls are recorded.
#[derive(Debug)]
struct Thread {
    cpu: String,
    calls: u64,
    preempted: usize,
}

impl Stress {
    /// For people, a line each.
    pub(super) fn lines(&self) -> Vec<String> {
        let of = |Thread { cpu, calls, preempted }: &Thread| {
            format!(
                "stress: all {calls} calls of a thread on CPU {cpu} that was preempted \
                 {preempted} times"
            )
        };
        self.threads.iter().map(of).chain([self.refused.clone()]).collect()
    }

    /// For the table of kernels.
    pub(super) fn cell(&self) -> String {
        let calls: u64 = self.threads.iter().map(|thread| thread.calls).sum();
        let preempted: usize = self.threads.iter().map(|thread| thread.preempted).sum();
        format!("all {calls}, preempted {preempted} times")
    }

    /// How many threads there were.
    pub(super) fn threads(&self) -> usize {
        self.threads.len()
    }
}

/// Every call of every thread is in the dump, once, in order, with its exit; and the probes refused
/// nothing for another program's sake, nor did the kernel skip one.
pub(super) fn numbered_calls(files: &Path, events: &[Value]) -> Result<Stress> {
    let printed = fs::read_to_string(files.join("stress.txt")).context("the stress was not run")?;
    let mut threads = Vec::new();
    for line in printed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["cpu", cpu, "tid", tid, "calls", calls] = words.as_slice() else { continue };
        let (tid, calls): (u64, u64) = (tid.parse()?, calls.parse()?);
        let of_thread = |event: &&Value| {
            event["tid"].as_u64() == Some(tid) && event["syscall"] == "getpriority"
        };
        let entries = events.iter().filter(of_thread).filter(|event| event["event"] == "sys_enter");
        let numbers: Vec<u64> = entries
            .filter(|entry| entry["args"][0]["value"].as_u64() == Some(TAG))
            .filter_map(|entry| entry["args"][1]["value"].as_u64())
            .collect();
        if let Some((wanted, number)) =
            (1..).zip(&numbers).find(|(wanted, number)| wanted != *number)
        {
            anyhow::bail!("CPU {cpu}: call {number} of thread {tid} stands where {wanted} should");
        }
        ensure!(
            numbers.len() as u64 == calls,
            "CPU {cpu}: {} of {calls} calls of thread {tid}",
            numbers.len()
        );
        let exits =
            events.iter().filter(of_thread).filter(|event| event["event"] == "sys_exit").count();
        ensure!(exits as u64 == calls, "CPU {cpu}: {exits} exits of {calls} calls of thread {tid}");
        // Whether it was in the kernel or on its way out: it would have gone on.
        let switches = events.iter().filter(|event| event["event"] == "switch");
        let preempted = switches
            .filter(|switch| {
                switch["prev_tid"].as_u64() == Some(tid) && switch["prev_state"] == "TASK_RUNNING"
            })
            .count();
        ensure!(
            preempted >= PREEMPTED,
            "CPU {cpu}: thread {tid} was preempted {preempted} times only"
        );
        threads.push(Thread { cpu: (*cpu).to_owned(), calls, preempted });
    }
    ensure!(!threads.is_empty(), "the stress told nothing: {printed}");
    let status = fs::read_to_string(files.join("status.json")).context("no status")?;
    Ok(Stress { threads, refused: refused(&serde_json::from_str(&status)?)? })
}

/// Programs on tracepoints that are preemptible from Linux 7.0 on, so that two may meet on a CPU
/// (docs/design/probes.md): the second one's event is refused as busy or its run is skipped, and
/// counted.
const MAY_MEET: [&str; 4] =
    ["sched_process_fork", "sched_process_exec", "sched_process_exit", "task_rename"];
/// How many of these are taken for what preemption brings.
const MEETINGS: u64 = 20;
/// In which words `lacking` of the status says that the kernel is one of these.
const REAL_TIME: &str = "PREEMPT_RT";

/// What the probes and the kernel refused, all lanes and programs together: nothing, but where
/// programs may meet.
fn refused(status: &Value) -> Result<String> {
    // The same kernels have system calls recorded by programs of the other form
    // (`daemon/src/load.rs`).
    let preemptible = status["syscall_programs"] == "tracepoint";
    // There, signals are sent and taken with interrupts on, so that an interrupt's wakeup may come
    // in the middle of their programs.
    let mut lacking = status["lacking"].as_array().into_iter().flatten();
    let real_time =
        lacking.any(|row| row["why"].as_str().is_some_and(|why| why.contains(REAL_TIME)));
    let may_meet = |lane: &str| lane == "task" || real_time && lane == "sched";
    let skipped =
        status["recursion_misses"].as_object().context("no recursion misses in the status")?;
    let lanes = status["lanes"].as_object().context("no lanes in the status")?;
    let skipped = skipped.iter().map(|(program, n)| (n, MAY_MEET.contains(&program.as_str())));
    // A sample may come in the middle of a request to a disk, on any kernel.
    let of_kernel = lanes.get("kernel").and_then(|of| of["lost"]["busy"].as_u64()).unwrap_or(0);
    ensure!(of_kernel <= MEETINGS, "lane kernel: {of_kernel} events refused as busy");
    let others = lanes.iter().filter(|(lane, _)| *lane != "kernel");
    let busy = others.map(|(lane, of)| (&of["lost"]["busy"], may_meet(lane)));
    let sum = |counts: Vec<(&Value, bool)>, meet: bool| {
        counts
            .into_iter()
            .filter(|count| count.1 == meet)
            .filter_map(|count| count.0.as_u64())
            .sum::<u64>()
    };
    let (skipped, busy): (Vec<_>, Vec<_>) = (skipped.collect(), busy.collect());
    let of = |meet| (sum(busy.clone(), meet), sum(skipped.clone(), meet));
    let told = |(busy, skipped)| {
        format!("{busy} events refused as busy, {skipped} runs of programs skipped by the kernel")
    };
    ensure!(of(false) == (0, 0), "{}", told(of(false)));
    let (busy, skipped) = of(true);
    ensure!(
        busy + skipped <= if preemptible || real_time { MEETINGS } else { 0 },
        "where programs may meet: {}",
        told((busy, skipped))
    );
    Ok(format!(
        "{}; where programs may meet: {}; lane kernel: {of_kernel} refused as busy",
        told((0, 0)),
        told((busy, skipped))
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn programs_meet_where_the_kernel_lets_them_alone() {
        let of = |why: &str, form: &str, lane: &str, busy: u64, program: &str, skipped: u64| {
            let none = json!({"lost": {"busy": 0}});
            let mut status = json!({"syscall_programs": form, "recursion_misses": {"sys_enter": 0},
                "lanes": {"syscall": none, "sched": none, "task": none, "kernel": none},
                "lacking": [{"what": "ends of long softirqs", "why": why}]});
            status["lanes"][lane]["lost"]["busy"] = busy.into();
            status["recursion_misses"][program] = skipped.into();
            refused(&status)
        };
        let status = |form: &str, lane: &str, busy: u64, program: &str, skipped: u64| {
            of("it has no such tracepoint", form, lane, busy, program, skipped)
        };
        let rt = "this kernel is PREEMPT_RT: threads run softirqs";
        assert!(of(rt, "tp_btf", "sched", 1, "sched_switch", 0).unwrap().contains("1 events"));
        assert!(of(rt, "tp_btf", "sched", 21, "sched_switch", 0).is_err());
        assert!(of(rt, "tp_btf", "syscall", 1, "sched_switch", 0).is_err());
        assert!(of(rt, "tp_btf", "sched", 0, "sched_switch", 1).is_err());
        assert!(status("tp_btf", "sched", 1, "sched_switch", 0).is_err());
        assert!(status("tp_btf", "task", 0, "sched_switch", 0).is_ok());
        assert!(
            status("tracepoint", "task", 2, "sched_process_exec", 1)
                .unwrap()
                .contains("where programs may meet: 2 events")
        );
        assert!(status("tp_btf", "task", 2, "sched_process_exec", 1).is_err());
        assert!(status("tracepoint", "task", 20, "sched_process_exec", 1).is_err());
        assert!(status("tracepoint", "sched", 1, "sched_process_exec", 0).is_err());
        assert!(status("tracepoint", "task", 0, "sched_switch", 1).is_err());
        assert!(status("tp_btf", "kernel", 20, "sched_switch", 0).is_ok());
        assert!(status("tp_btf", "kernel", 21, "sched_switch", 0).is_err());
    }
}
