//! A kernel that lacks something optional: the rest is recorded, and what is not is told.
//!
//! There is no such kernel here, so it is made up in two ways. The daemon is given a description of
//! the running kernel (`[kernel] btf`) from which names were taken out; and a recording is begun in
//! this process with a table of attachments that has rows which no kernel takes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use flightd::attachments::{ATTACHMENTS, Attachment, tp_btf};
use flightd::btf::Group;
use flightd::config::{Config, Topic};
use flightd::recording::Recording;
use flightrec_tests::{
    Recorder, Sandbox, Snapshot, bin_dir, monotonic_ns, numbered_call, require_kernel,
};
use nix::unistd::gettid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{dump, snapshot, start, without_limit};

fn me() -> u32 {
    gettid().as_raw() as u32
}

/// The running kernel's description of itself, without these names: they are others in it.
pub(crate) fn btf_without(names: &[&str], dir: &Path) -> PathBuf {
    let mut data = fs::read("/sys/kernel/btf/vmlinux").expect("BTF");
    for name in names {
        let whole = [b"\0", name.as_bytes(), b"\0"].concat();
        let at = data.windows(whole.len()).position(|w| w == whole);
        data[at.unwrap_or_else(|| panic!("{name} is not in this kernel's BTF")) + 1] = b'#';
    }
    let path = dir.join("vmlinux");
    fs::write(&path, data).expect("a copy");
    path
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// Without what this machine itself refuses, which the tests of other things need not know.
pub(crate) fn status(recorder: &Recorder) -> Value {
    let mut status = whole_status(recorder);
    if let Some(lacking) = status["lacking"].as_array_mut() {
        lacking.retain(|row| !is_refused(row["why"].as_str().expect("text")));
        if lacking.is_empty() {
            status.as_object_mut().expect("an object").remove("lacking");
        }
    }
    status
}

pub(crate) fn whole_status(recorder: &Recorder) -> Value {
    serde_json::from_str(&text(&recorder.flightctl(&["status", "--json"]))).expect("JSON")
}

/// Whether a machine lacks it for no reason of its kernel's version: it lets nobody run programs at
/// functions.
fn is_refused(why: &str) -> bool {
    let refused = "the verifier refused program unthrottle_";
    why.starts_with(refused) && why.contains("Operation not permitted")
}

/// Names of the links that are pinned.
fn links(bpffs: &Path) -> BTreeSet<String> {
    let dir = flightrec_format::live::Generation::find(bpffs).expect("a recording").join("links");
    let entries = fs::read_dir(dir).expect("links").map(|entry| entry.expect("entry").file_name());
    entries.map(|name| name.into_string().expect("UTF-8")).collect()
}

#[test]
fn the_daemon_records_without_a_tracepoint_and_without_offsets() {
    let dir = TempDir::new().expect("directory");
    let btf = btf_without(&["unix_sock", "btf_trace_console"], dir.path());
    // Connections need the same members, and throttling what a machine may refuse.
    let record = "[record]\nnetwork = false\nthrottling = false\n";
    let mut recorder = start(&format!("{record}[kernel]\nbtf = \"{}\"\n", btf.display()));
    let began = monotonic_ns();
    (0..100).for_each(numbered_call);
    let ended = monotonic_ns();
    let taken = snapshot(&recorder);
    assert_eq!(taken.numbered_calls(me()), (0..100).collect::<Vec<_>>());
    taken.assert_complete(began, ended);
    let links = links(&recorder.sandbox().bpffs_dir());
    assert!(links.contains("sys_enter"), "{links:?}");
    assert!(!links.contains("walk_files") && !links.contains("console"), "{links:?}");

    let lacking = json!([
        {
            "what": "names of descriptors that were open before",
            "why": "this kernel's BTF has no struct unix_sock"
        },
        {
            "what": "the kernel's log, for triggers",
            "why": "this kernel's BTF does not describe the tracepoint printk:console"
        }
    ]);
    assert_eq!(status(&recorder)["lacking"], lacking);
    let said = text(&recorder.flightctl(&["status"]));
    let row = "lacking      not on this kernel: names of descriptors that were open before \
               (this kernel's BTF has no struct unix_sock)\n";
    assert!(said.contains(row), "{said}");
    let metrics = text(&recorder.flightctl(&["metrics"]));
    assert!(metrics.contains("flightrec_lacking{what=\"the kernel's log"), "{metrics}");
    let line = "not on this kernel: the kernel's log, for triggers (this kernel's BTF \
                does not describe the tracepoint printk:console)";
    assert_eq!(recorder.log().matches(line).count(), 1, "{}", recorder.log());
    // They record no events, so no dump of events lacks anything.
    let output = recorder.flightctl(&["dump", "--last", "1s", "--format", "jsonl"]);
    let coverage: Value =
        serde_json::from_str(text(&output).lines().next().expect("a line")).expect("JSON");
    assert!(coverage["complete"].is_boolean() && coverage.get("lacking").is_none(), "{coverage}");

    // The next daemon takes it over as it is.
    recorder.kill();
    recorder.restart();
    assert_eq!(snapshot(&recorder).meta.session, taken.meta.session);
    assert_eq!(status(&recorder)["lacking"], lacking);
    assert_eq!(recorder.log().matches(line).count(), 2, "once a start: {}", recorder.log());
}

/// What is required stays required.
#[test]
fn without_a_required_tracepoint_nothing_starts() {
    let dir = TempDir::new().expect("directory");
    let btf = btf_without(&["btf_trace_sched_waking"], dir.path());
    let config = without_limit(&format!("[kernel]\nbtf = \"{}\"\n", btf.display()));
    require_kernel();
    let options = flightrec_tests::Options { config, ..flightrec_tests::Options::default() };
    let error = format!("{:#}", Recorder::try_start(options).expect_err("it starts"));
    assert!(error.contains("program sched_waking was refused"), "{error}");
}

const NO_OFFSETS: Group = Group {
    global: "NO_OFFSETS",
    read: |btf| Ok(vec![btf.member_offset("task_struct", "no_such_member")?]),
};

/// The table with three optional rows instead of required ones, each lacking in another way: no
/// such tracepoint; a member that no kernel has; a program that asks its tracepoint for an argument
/// which it has not, so that the verifier refuses it.
fn rows() -> Vec<Attachment> {
    let optional = [
        tp_btf(Topic::Sched, "sched", "no_such", &["migrate"], "migrations").optional(&[]),
        tp_btf(Topic::Tasks, "task", "task_rename", &["rename"], "renames").optional(&[NO_OFFSETS]),
        tp_btf(Topic::Sched, "sched", "sched_wakeup_new", &["wakeup_new"], "first wakeups")
            .with_program("sched_migrate_task")
            .optional(&[]),
    ];
    let gone = ["sched_migrate_task", "task_rename", "sched_wakeup_new"];
    let rest = ATTACHMENTS.iter().filter(|row| !gone.contains(&row.program));
    // In the middle, so that those after them are attached, too.
    let (first, last): (Vec<&Attachment>, Vec<&Attachment>) =
        rest.partition(|row| row.topic == Some(Topic::Tasks));
    first.into_iter().chain(&optional).chain(last).copied().collect()
}

/// A recorder in this process.
struct Own {
    sandbox: Sandbox,
    config: Config,
}

impl Own {
    fn new() -> Self {
        require_kernel();
        let sandbox = Sandbox::new().expect("sandbox");
        let text = without_limit("[record]\nown = true\nthrottling = false\n");
        let config = Config::parse(&text, Path::new("flightd.toml"), 1 << 34).expect("good");
        Self { sandbox, config }
    }

    fn record(&self, rows: &[Attachment]) -> anyhow::Result<Recording> {
        let (runtime, bpffs) = (self.sandbox.runtime_dir(), self.sandbox.bpffs_dir());
        let (recording, _) = Recording::adopt_or_begin(&self.config, rows, &runtime, &bpffs)?;
        Ok(recording)
    }

    /// `flightctl` on the pinned rings.
    fn flightctl(&self, args: &[&str]) -> Output {
        let mut command = std::process::Command::new(bin_dir().join("flightctl"));
        command.arg("--bpffs-dir").arg(self.sandbox.bpffs_dir());
        command.args(args).output().expect("flightctl")
    }

    /// The coverage of a dump with these arguments: in words, and as JSON.
    fn coverage(&self, args: &[&str]) -> (Vec<String>, Value) {
        let args = [&["dump", "--last", "1s"], args].concat();
        let lines = text(&self.flightctl(&args));
        let lines = lines.lines().filter_map(|line| line.strip_prefix("# "));
        let json = text(&self.flightctl(&[&args[..], &["--format", "jsonl"]].concat()));
        let json = serde_json::from_str(json.lines().next().expect("a line")).expect("JSON");
        (lines.map(str::to_owned).collect(), json)
    }
}

#[test]
fn what_a_kernel_lacks_is_told_to_who_asks_and_all_else_is_recorded() {
    let own = Own::new();
    let recording = own.record(&rows()).expect("it records all the same");
    let began = monotonic_ns();
    (0..100).for_each(numbered_call);
    // A thread that begins, gets a name and ends: all but the name is recorded.
    let child = std::thread::Builder::new().name("renamed".into()).spawn(me).expect("a thread");
    let child = child.join().expect("it ends");
    let ended = monotonic_ns();
    let taken = Snapshot::take(&own.sandbox.bpffs_dir());
    taken.assert_complete(began, ended);
    assert_eq!(taken.numbered_calls(me()), (0..100).collect::<Vec<_>>());
    assert_ne!(child, me());
    let state: Value =
        serde_json::from_str(&text(&own.flightctl(&["status", "--json"]))).expect("JSON");
    let events = |lane: &str, kind: &str| state["lanes"][lane]["events"][kind].as_u64();
    for (lane, kind) in
        [("sched", "switch"), ("sched", "waking"), ("task", "fork"), ("task", "exit")]
    {
        assert!(events(lane, kind) > Some(0), "{kind}: {state:#}");
    }
    for (lane, kind) in [("sched", "migrate"), ("sched", "wakeup_new"), ("task", "rename")] {
        assert_eq!(events(lane, kind), Some(0), "{kind}");
    }

    let whys = [
        ("migrations", "migrate", "this kernel has no tracepoint sched:no_such"),
        ("renames", "rename", "this kernel's BTF has no task_struct.no_such_member"),
    ];
    let found = &recording.meta().lacking;
    for ((what, kind, why), found) in whys.iter().zip(found) {
        assert_eq!((*what, *why), (&*found.what, &*found.why));
        assert_eq!(found.kinds, [*kind]);
    }
    let refused = found.get(2).expect("the verifier's");
    assert_eq!((refused.what.as_str(), found.len()), ("first wakeups", 3), "{found:?}");
    let verdict = "the verifier refused program sched_migrate_task: ";
    assert!(refused.why.starts_with(verdict) && refused.why.contains("access"), "{refused:?}");
    let links = links(&own.sandbox.bpffs_dir());
    assert!(links.contains("console") && !links.contains("sched_wakeup_new"), "{links:?}");

    assert_eq!(state["lacking"].as_array().map(Vec::len), Some(3), "{state:#}");
    // No program that was refused is left pinned, to be counted as one that runs.
    let counted = state["recursion_misses"].as_object().expect("a count for each program");
    assert!(counted.contains_key("sched_switch") && !counted.contains_key("sched_wakeup_new"));

    let (lines, json) = own.coverage(&["--event", "migrate,switch"]);
    let line = "not recorded on this kernel: migrations (this kernel has no tracepoint \
                sched:no_such)";
    assert_eq!(lines.iter().filter(|found| *found == line).count(), 1, "{lines:?}");
    let want = json!([{ "what": "migrations", "kinds": ["migrate"], "why": whys[0].2 }]);
    assert_eq!(json["lacking"], want);
    let (lines, json) = own.coverage(&[]);
    assert_eq!(json["lacking"].as_array().map(Vec::len), Some(3), "{lines:?}");
    let (lines, json) = own.coverage(&["--event", "switch"]);
    assert!(json.get("lacking").is_none(), "{json}");
    assert!(lines.iter().all(|line| !line.contains("not recorded on this kernel")), "{lines:?}");

    // The next daemon of the same table takes it over, and lacks the same.
    let (session, found) = (recording.session(), found.clone());
    recording.leave();
    drop(recording);
    let again = own.record(&rows()).expect("adopted");
    assert_eq!((again.session(), again.is_begun()), (session, false));
    assert_eq!(again.meta().lacking, found);
    again.end().expect("ended");
}

/// A row whose kinds nobody knows would never be told to who asks.
#[test]
fn the_tables_kinds_are_those_that_are_counted() {
    let recorder = start("");
    let status = status(&recorder);
    let lanes = status["lanes"].as_object().expect("lanes").values();
    let counted: BTreeSet<&str> = lanes
        .flat_map(|lane| lane["events"].as_object().expect("events").keys().map(String::as_str))
        .collect();
    let kinds = ATTACHMENTS.iter().flat_map(|row| row.kinds).copied();
    assert_eq!(counted, kinds.collect());
    assert!(status.get("lacking").is_none(), "this kernel lacks nothing: {status:#}");
    assert!(dump(&recorder, &["--last", "1s"]).len() > 1);
}
