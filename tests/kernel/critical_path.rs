//! Perfetto's critical path, by its own SQL on an export, held against the chain of `why`: whom a
//! thread waits for in incidents of known causes.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use flightrec_tests::{Judge, Options, Recorder, require_kernel};
use serde_json::Value;
use tempfile::TempDir;

use crate::export::{perfetto, require_perfetto};
use crate::why::{Incident, SlowDisk, expected};

/// Incidents in which a thread waits for another one.
const BLOCKING: [&str; 27] = [
    "01-lock-convoy",
    "03-pipe-chain",
    "06-fuse",
    "08-rpc-lock",
    "09-tcp-compute",
    "10-cron-lock",
    "13-fifo",
    "14-mmap-lock",
    "16-starved-reader",
    "17-handoff",
    "20-rwlock",
    "33-gil",
    "35-vfork",
    "36-wait-compile",
    "37-flock-fsync",
    "38-stopped-holder",
    "40-inversion",
    "42-full-socket",
    "43-sysv-sem",
    "46-tcp-chain",
    "47-shared-mutex",
    "48-mqueue",
    "56-fanotify",
    "58-syslog",
    "60-pool",
    "62-unix-backlog",
    "63-udp",
];

/// How much before and after an incident is exported, ns: Perfetto knows what a thread does from
/// its first switch in the trace on.
const EXPORTED: i64 = 1_000_000_000;
/// How often an incident happens, at most. Where this machine's kernel hides switches of some
/// threads from BPF, Perfetto takes threads for running that are not, and its path has holes.
const TRIES: u32 = 4;
/// Of all that happened, so many of a hundred must agree without an explanation.
const AGREE_PERCENT: usize = 70;

/// Time on the critical path of a thread, ns, by thread.
const PATH: &str = "
include perfetto module sched.thread_executing_span;
select t.tid, t.name, sum(p.dur) ns from _thread_executing_span_critical_path(
  (select utid from thread where tid = {tid} order by start_ts limit 1),
  (select start_ts from trace_bounds),
  (select end_ts - start_ts from trace_bounds)) p
join thread t using (utid) group by t.tid, t.name order by ns desc";

/// How long it slept, ns, by state, until an interrupt (1) or a thread (0) woke it.
const SLEPT: &str = "
select slept.state, coalesce(woken.irq_context, 0) irq, sum(slept.dur) ns
from thread_state slept join thread_state woken
on woken.utid = slept.utid and woken.ts = slept.ts + slept.dur
join thread t on t.utid = slept.utid
where slept.state in ('S', 'D') and t.tid = {tid} group by 1, 2";

/// What came of a comparison.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// Both name the same thread.
    Agrees,
    /// They do not, and why.
    Explained(&'static str),
    /// They do not; what they say.
    Differs(String),
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// An incident that has happened.
struct Happened {
    id: &'static str,
    /// Who waited.
    tid: String,
    /// What `why` says.
    answer: Value,
    /// What Perfetto gets.
    trace: PathBuf,
}

/// An incident happens. `Err`: it can't happen here.
fn happen(recorder: &Recorder, id: &'static str, dir: &Path) -> Result<Happened, String> {
    let incident = Incident::happen(&expected(), id, dir)?;
    let tid = incident.truth["tid"].to_string();
    // What has been written is in the rings; names of programs come once a second.
    thread::sleep(Duration::from_millis(1100));
    let answer = incident.why(recorder, &["--tid", &tid]);
    let (trace, since) = (dir.join(format!("trace-{id}")), incident.ns("begin_ns", -EXPORTED));
    let (name, until) = (trace.display().to_string(), incident.ns("end_ns", EXPORTED));
    let window = ["--since", &since, "--until", &until, "-o", &name];
    let export = ["export", "--force", "--format", "perfetto"];
    let output = recorder.flightctl(&[&export[..], &window].concat());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    Ok(Happened { id, tid, answer, trace })
}

impl Happened {
    /// Whether Perfetto and `why` agree on it.
    fn outcome(&self) -> Outcome {
        let queries = [PATH, SLEPT].map(|query| query.replace("{tid}", &self.tid));
        let rows = perfetto(&self.trace, &queries.each_ref().map(String::as_str));
        outcome(&self.answer, &rows[0], &rows[1])
    }
}

/// `path`, `slept`: what Perfetto answers to [`PATH`] and [`SLEPT`].
fn outcome(answer: &Value, path: &[Value], slept: &[Value]) -> Outcome {
    let chain = answer["chain"].as_array().expect("a chain");
    let Some((first, after)) = chain.split_first() else {
        return Outcome::Differs(format!("no chain: {}", answer["sentence"]));
    };
    let waited = number(&first["ns"]);
    let is_after = |row: &Value| after.iter().any(|link| link["thread"]["name"] == row["name"]);
    let on_path: u64 = path.iter().filter(|row| is_after(row)).map(|row| number(&row["ns"])).sum();
    if on_path * 2 > waited {
        return Outcome::Agrees;
    }
    let Some(most) = slept.iter().max_by_key(|row| number(&row["ns"])) else {
        return Outcome::Differs(format!("{}; Perfetto has no sleep", answer["sentence"]));
    };
    // From `sched.thread_executing_span` in Perfetto's library: an interrupt has woken it, so
    // nobody else is to blame (`is_irq`).
    if most["irq"] == 1 {
        return Outcome::Explained("an interrupt woke it");
    }
    // The same (`is_idle_reason_self`): what is before the waker's own last wakeup is blamed on who
    // slept, unless that was in S.
    if most["state"] == "D" {
        return Outcome::Explained("a sleep in D is followed to its waker's last wakeup alone");
    }
    if after.iter().any(|link| link["state"] == "stopped") {
        return Outcome::Explained("Perfetto has no path through a thread that was stopped");
    }
    Outcome::Differs(format!("{}; Perfetto: {path:?}, {slept:?}", answer["sentence"]))
}

#[test]
fn whom_perfetto_says_a_thread_waited_for() {
    Judge::PERFETTO.require();
    require_kernel();
    require_perfetto();
    let dir = TempDir::new().expect("a directory");
    let recorder = Recorder::start(Options::default());
    let _slow = SlowDisk::make(dir.path());
    let happened: Vec<Happened> = BLOCKING
        .into_iter()
        .filter_map(|id| {
            happen(&recorder, id, dir.path()).inspect_err(|why| eprintln!("{id}: {why}")).ok()
        })
        .collect();
    // Perfetto takes seconds to start, whatever the trace: two at a time, while nothing happens
    // that they would disturb.
    let judged: Vec<Outcome> = thread::scope(|scope| {
        let halves = happened.chunks(happened.len().div_ceil(2).max(1)).map(|half| {
            scope.spawn(move || half.iter().map(Happened::outcome).collect::<Vec<_>>())
        });
        let halves: Vec<_> = halves.collect();
        halves.into_iter().flat_map(|half| half.join().expect("a judge")).collect()
    });
    let (mut agree, mut differ) = (0, Vec::new());
    let all = happened.len();
    for (Happened { id, .. }, mut outcome) in happened.into_iter().zip(judged) {
        for _ in 1..TRIES {
            if !matches!(outcome, Outcome::Differs(_)) {
                break;
            }
            eprintln!("{id}: {outcome:?}");
            if let Ok(again) = happen(&recorder, id, dir.path()) {
                outcome = again.outcome();
            }
        }
        eprintln!("{id}: {outcome:?}");
        agree += usize::from(outcome == Outcome::Agrees);
        if matches!(outcome, Outcome::Differs(_)) {
            differ.push(id);
        }
    }
    assert!(all >= 12, "{all} happened");
    assert!(differ.is_empty(), "{differ:?}");
    assert!(agree * 100 >= all * AGREE_PERCENT, "{agree} of {all}");
}
