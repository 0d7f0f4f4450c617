//! Perfetto's `thread_state` of an export, held against `flightctl report`: how long threads ran,
//! waited for a CPU, and slept.

use flightrec_tests::Judge;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::export::{Saved, perfetto};

/// Of these times a thousandth may differ.
const MAY_DIFFER: u64 = 1000;

/// Running, waiting for a CPU, sleeping: ns.
type Times = [u64; 3];

/// A thread that was born and died in the window, so that Perfetto knows all that it did.
#[derive(Default)]
struct Life {
    forked: Option<u64>,
    queued: Option<u64>,
    died: bool,
    /// A switch from or to it is missing, or one for which it waited.
    torn: bool,
    /// Something woke it before it had gone to sleep. It waits for a CPU then; Perfetto, which goes
    /// by the state that the switch has, says that it sleeps.
    woken_early: bool,
}

fn number(event: &Value, key: &str) -> u64 {
    event[key].as_u64().unwrap_or_else(|| panic!("no number {key}: {event}"))
}

fn lives(events: &[Value]) -> BTreeMap<u64, Life> {
    let mut lives: BTreeMap<u64, Life> = BTreeMap::new();
    let mut runs: BTreeMap<u64, u64> = BTreeMap::new();
    for event in events {
        let time = || number(event, "mono_ns");
        match event["event"].as_str().expect("a kind") {
            "fork" => lives.entry(number(event, "child_tid")).or_default().forked = Some(time()),
            "wakeup_new" => {
                lives.entry(number(event, "wakee_tid")).or_default().queued = Some(time());
            }
            "waking" => {
                let wakee = number(event, "wakee_tid");
                if runs.values().any(|runs| *runs == wakee) {
                    lives.entry(wakee).or_default().woken_early = true;
                }
            }
            "exit" => lives.entry(number(event, "tid")).or_default().died = true,
            "switch" => {
                let (prev, next) = (number(event, "tid"), number(event, "next_tid"));
                let ran = runs.insert(number(event, "cpu"), next);
                // Whoever waited meanwhile for this CPU, as the next one did.
                if let Some(ran) = ran.filter(|ran| *ran != prev) {
                    for torn in [ran, prev, next] {
                        lives.entry(torn).or_default().torn = true;
                    }
                }
            }
            _ => {}
        }
    }
    lives
}

#[test]
fn perfetto_has_the_same_times() {
    Judge::PERFETTO.require();
    let saved = Saved::new();
    let trace = saved.export("perfetto", &[]);
    let states = "select tid, state, sum(dur) ns from thread_state join thread using (utid) where \
                  dur > 0 group by 1, 2";
    let mut theirs: BTreeMap<u64, Times> = BTreeMap::new();
    for row in &perfetto(&trace, &[states])[0] {
        let times = theirs.entry(number(row, "tid")).or_default();
        match row["state"].as_str().expect("a state") {
            "Running" => times[0] += number(row, "ns"),
            "R" | "R+" => times[1] += number(row, "ns"),
            "X" | "Z" => {}
            _ => times[2] += number(row, "ns"),
        }
    }
    let report = |name: &str, by: &str| -> Vec<Value> {
        let file = saved.file();
        let args = ["report", name, &file, "--by", by, "--top", "1000000", "--format", "json"];
        let output = saved.recorder.flightctl(&args);
        let mut report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        serde_json::from_value(report["rows"].take()).expect("rows")
    };
    let mut ours: BTreeMap<u64, Times> = BTreeMap::new();
    for row in report("runq", "tid") {
        let times = ours.entry(number(&row, "tid")).or_default();
        times[0] += number(&row, "running_ns");
        times[1] += number(&row, "total_delay_ns") + number(&row, "held_ns");
    }
    for row in report("offcpu", "tid,reason") {
        if row["reason"] != "waits for a CPU" {
            ours.entry(number(&row, "tid")).or_default()[2] += number(&row, "total_duration_ns");
        }
    }
    let (mut compared, mut left_out) = (0, BTreeSet::new());
    let mut sums = [Times::default(); 2];
    for (tid, life) in lives(&saved.events()) {
        let (Some(forked), Some(queued), true) = (life.forked, life.queued, life.died) else {
            continue;
        };
        if life.torn || life.woken_early {
            left_out.insert(tid);
            continue;
        }
        compared += 1;
        let ours = ours.get(&tid).copied().unwrap_or_default();
        let mut theirs = theirs.get(&tid).copied().unwrap_or_default();
        // Perfetto has a thread wait from its birth on, not from when it is first queued.
        theirs[1] -= queued - forked;
        for (at, what) in ["runs", "waits for a CPU", "sleeps"].into_iter().enumerate() {
            let may_differ = ours[at] / MAY_DIFFER;
            let differs = ours[at].abs_diff(theirs[at]);
            assert!(differs <= may_differ, "{tid} {what}: {} ns, {} ns", ours[at], theirs[at]);
            sums[0][at] += ours[at];
            sums[1][at] += theirs[at];
        }
    }
    eprintln!("{compared} threads, {} left out; ours, theirs: {sums:?}", left_out.len());
    assert!(compared > 100, "{compared} threads");
    assert!(left_out.len() * 4 < compared, "{left_out:?} of {compared}");
}
