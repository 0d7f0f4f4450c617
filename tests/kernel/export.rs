//! `flightctl export`: held against the readers of the tools that the formats are for
//! (`tests/judges`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flightrec_tests::{Recorder, c_program};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::start;

/// A recording of work of every kind, saved.
struct Saved {
    recorder: Recorder,
    dir: TempDir,
}

/// What is recorded: files, pipes, processes, disks, signals, sleeps, for some seconds.
const WORK: &str = "
end=$(($(date +%s) + 2))
while [ $(date +%s) -lt $end ]; do
    ls -lR /usr/share/doc/libc* >/dev/null 2>&1
    dd if=/dev/zero of=$1/file bs=4k count=50 conv=fsync 2>/dev/null
    echo x | cat | cat >/dev/null
    sleep 0.02 & kill -TERM $! ; wait
done";

impl Saved {
    fn new() -> Self {
        Self::beside(|| {})
    }

    /// With something else before its end.
    fn beside(more: impl FnOnce()) -> Self {
        let recorder = start("");
        let dir = TempDir::new().expect("directory");
        let work = Command::new("sh")
            .args(["-c", WORK, "sh"])
            .arg(dir.path())
            .stdin(Stdio::null())
            .status()
            .expect("sh");
        assert!(work.success());
        more();
        let mark = recorder.flightctl(&["mark", "end of \u{1b}[2J work"]);
        assert!(mark.status.success(), "{mark:?}");
        let saved = Self { recorder, dir };
        let file = saved.file();
        let args = ["save", "--last", "10s", "-o"].map(str::to_owned);
        let output = saved.recorder.flightctl(&[&args[..], &[file]].concat());
        assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
        saved
    }

    fn file(&self) -> String {
        self.dir.path().join("saved.flight").display().to_string()
    }

    /// Exports it, with these arguments.
    fn export(&self, format: &str, args: &[&str]) -> PathBuf {
        let out = self.dir.path().join(format!("out.{format}"));
        let name = out.display().to_string();
        let file = self.file();
        let all = ["export", &file, "--force", "--format", format, "-o", &name];
        let output = self.recorder.flightctl(&[&all[..], args].concat());
        assert!(output.status.success(), "{output:?}");
        let left: Vec<_> = fs::read_dir(self.dir.path())
            .expect("directory")
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().contains(".part-"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        out
    }

    /// Its events, but what is none: coverage, gaps, steps of the clock.
    fn events(&self) -> Vec<Value> {
        let output = self.recorder.flightctl(&["dump", &self.file(), "--format", "jsonl"]);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let all = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        all.filter(|event: &Value| {
            !["coverage", "gap", "clock_set"].contains(&event["event"].as_str().expect("a kind"))
        })
        .collect()
    }
}

/// Events by thread and kind.
type Counts = BTreeMap<(u64, String), u64>;

fn counts(events: &[Value]) -> Counts {
    let mut counts = Counts::new();
    for event in events {
        let kind = event["event"].as_str().expect("a kind").to_owned();
        *counts.entry((event["tid"].as_u64().expect("a thread"), kind)).or_default() += 1;
    }
    counts
}

/// Switches that are not of the thread that the switch before them on their CPU was to.
fn torn(events: &[Value]) -> u64 {
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    let mut count = 0;
    for event in events.iter().filter(|event| event["event"] == "switch") {
        let number = |key: &str| event[key].as_u64().expect("a number");
        let next = last.insert(number("cpu"), number("next_tid"));
        count += u64::from(next.is_some_and(|next| next != number("tid")));
    }
    count
}

/// What Perfetto answers, a list of rows for each query.
pub(crate) fn perfetto(trace: &Path, queries: &[&str]) -> Vec<Vec<Value>> {
    let judge = Path::new(env!("CARGO_MANIFEST_DIR")).join("judges/perfetto/run.sh");
    let output = Command::new(judge)
        .arg(trace)
        .args(queries)
        .stdin(Stdio::null())
        .output()
        .expect("the judge");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows: Vec<_> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let installed = "tests/judges/perfetto/setup.sh installs what it needs";
    assert_eq!(rows.len(), queries.len(), "{installed}: {output:?}");
    rows
}

/// Events by thread and kind, as Perfetto has them.
const COUNTS: &str = "
with slices as (
  select s.category, s.arg_set_id, coalesce(t.tid, extract_arg(s.arg_set_id, 'debug.tid')) tid
  from slice s left join thread_track tt on s.track_id = tt.id left join thread t using (utid)
), events as (
  select tid, category kind from slices where category not in ('call', 'gap', 'coverage')
  union all
  select tid, 'sys_enter' from slices
  where category = 'call' and extract_arg(arg_set_id, 'debug.entry') is null
  union all
  select tid, 'sys_exit' from slices
  where category = 'call' and extract_arg(arg_set_id, 'debug.ret') is not null
  union all
  select tid, case e.name when 'sched_migrate_task' then 'migrate' else substr(e.name, 7) end
  from ftrace_event e join thread using (utid) where e.name in
  ('sched_switch', 'sched_waking', 'sched_wakeup_new', 'sched_migrate_task')
  union all
  select tid, 'sample' from perf_sample join thread using (utid)
)
select tid, kind, count(*) n from events group by 1, 2";

#[test]
fn perfetto_has_the_same_events() {
    let saved = Saved::new();
    let trace = saved.export("perfetto", &[]);
    let events = saved.events();
    let torn = torn(&events);
    let rows = perfetto(
        &trace,
        &[
            "select name, value from stats where value > 0 and severity in ('error', 'data_loss')",
            COUNTS,
            "include perfetto module sched.thread_executing_span; select count(*) n from \
             _thread_executing_span_critical_path((select utid from thread where name = 'dd' \
             limit 1), (select start_ts from trace_bounds), (select end_ts - start_ts from \
             trace_bounds))",
            "select count(*) n from thread_state where blocked_function is not null and io_wait = 1",
            "select count(*) n from thread_state where irq_context = 1",
            "select cmdline from process where cmdline like 'dd if=/dev/zero of=%'",
            "select (select count(*) from slice where category = 'gap') gaps, abs(clock_value - \
             cast(strftime('%s', 'now') as int) * 1000000000) off from clock_snapshot where \
             clock_name = 'REALTIME' limit 1",
            "select display_value from slice join args using (arg_set_id) where category = \
             'call' and slice.name = 'openat' and key = 'debug.filename' and display_value like \
             '/usr/share/doc%' limit 1",
        ],
    );
    for stat in &rows[0] {
        // Switches that the recording lacks, and gaps.
        let is_known = match stat["name"].as_str().expect("a name") {
            "mismatched_sched_switch_tids" => stat["value"] == torn,
            name => name.contains("data_loss") || name.contains("packet_loss"),
        };
        assert!(is_known, "{stat}, {torn} torn");
    }
    let theirs: Counts = rows[1]
        .iter()
        .map(|row| {
            let number = |key: &str| row[key].as_u64().expect("a number");
            ((number("tid"), row["kind"].as_str().expect("a kind").to_owned()), number("n"))
        })
        .collect();
    let ours = counts(&events);
    assert!(ours.len() > 100, "{}", ours.len());
    for (key, n) in &ours {
        assert_eq!(theirs.get(key), Some(n), "{key:?}");
    }
    assert_eq!(theirs.len(), ours.len());
    let n = |at: usize| rows[at][0]["n"].as_u64().expect("a number");
    assert!(n(2) > 10, "a critical path");
    assert!(n(3) > 0, "waits for I/O with their functions");
    assert!(n(4) > 0, "wakeups out of interrupts");
    assert!(!rows[5].is_empty(), "the arguments of a program");
    assert!(rows[6][0]["off"].as_u64().expect("a time") < 600_000_000_000, "{:?}", rows[6]);
    assert!(!rows[7].is_empty(), "a path");
}

/// A switch or a wakeup takes at most 8 bytes, a call with arguments at most 25.
#[test]
fn perfettos_traces_are_small() {
    // So many that names of threads and the like, which are there once, do not count.
    let saved = Saved::beside(|| {
        let status = Command::new(c_program("pingpong", &[])).args(["5000", "4"]).status();
        assert!(status.expect("pingpong").success());
    });
    let events = saved.events();
    let of = |kinds: &str| {
        let n = events.iter().filter(|e| kinds.split(',').any(|kind| e["event"] == kind)).count();
        let trace = saved.export("perfetto", &["--event", kinds]);
        let bytes = fs::metadata(trace).expect("a file").len();
        eprintln!("{kinds}: {bytes} bytes, {n} events");
        (bytes, n as u64)
    };
    let (bytes, n) = of("switch,waking,wakeup_new,migrate");
    assert!(bytes <= 8 * n, "{bytes} bytes for {n} events of the scheduler");
    let (bytes, n) = of("sys_enter,sys_exit");
    assert!(bytes <= 25 * (n / 2), "{bytes} bytes for {} calls", n / 2);
}

#[test]
fn a_half_written_export_is_not_left() {
    let saved = Saved::new();
    let out = saved.dir.path().join("there");
    fs::write(&out, "mine").expect("a file");
    let (file, name) = (saved.file(), out.display().to_string());
    let all = ["export", &file, "--format", "perfetto", "-o", &name];
    let output = saved.recorder.flightctl(&all);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--force"), "{output:?}");
    assert_eq!(fs::read(&out).expect("a file"), b"mine");
    // A full disk.
    let output =
        saved.recorder.flightctl(&["export", &file, "--format", "perfetto", "-o", "/dev/full"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // A reader that has seen enough.
    let mut command = saved.recorder.flightctl_command();
    command.args(["export", &file, "--format", "perfetto", "-o", "-"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("run");
    drop(child.stdout.take());
    assert!(child.wait().expect("its end").success());
}
