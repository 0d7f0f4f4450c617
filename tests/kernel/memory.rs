//! Memory that runs out: held against the kernel's own tracer, in a control group of the test's
//! own.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use flightrec_tests::{Ftrace, MemoryGroup, c_program, monotonic_ns, traced};
use serde_json::Value;
use tempfile::TempDir;

use crate::json::valid_dump;
use crate::lacking::{btf_without, status};
use crate::support::{dump, lost_of_kernel_lane, start};

const KINDS: &str = "oom_victim,reclaim,compaction";
/// Memory of the tracer for each CPU.
const TRACE_KIB: usize = 16384;
/// The tracepoints at which events of these kinds are recorded, by the kind's name and that of its
/// program.
const ENDS: [(&str, &[&str]); 3] = [
    ("oom_victim", &["mark_victim"]),
    ("reclaim", &["mm_vmscan_direct_reclaim_end", "mm_vmscan_memcg_reclaim_end"]),
    ("compaction", &["mm_compaction_end"]),
];

/// A shell command in the group, to its end.
fn in_group(group: &MemoryGroup, command: &str) -> bool {
    let script = format!("echo $$ > {}/cgroup.procs && {command}", group.dir().display());
    let mut shell = Command::new("/bin/sh");
    let shell = shell.args(["-c", &script]).stdin(Stdio::null()).stderr(Stdio::null());
    shell.status().expect("sh").success()
}

/// Has a group read four times what it may have (written outside of it: what is still to be written
/// can't be freed at once), a member of it killed, and all memory compacted.
fn lack_memory() {
    let group = MemoryGroup::make(32 << 20);
    let dir = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let file = dir.path().join("large").display().to_string();
    fs::write(&file, vec![1; 128 << 20]).expect("a file");
    let advice = format!("dd if={file} of=/dev/null iflag=nocache count=0");
    let out = Command::new("/bin/sh").args(["-c", &format!("sync {file} && {advice}")]).output();
    assert!(out.expect("sh").status.success());
    assert!(in_group(&group, &format!("cat {file} > /dev/null")));
    let bad_end = c_program("bad_end", &[]).display().to_string();
    assert!(!in_group(&group, &format!("exec {bad_end} oom 200")));
    fs::write("/proc/sys/vm/compact_memory", "1").expect("compaction");
}

#[test]
fn the_kernels_own_tracer_has_the_same() {
    let recorder = start("[rings]\nkernel = \"16MiB\"");
    let names = [
        "oom/mark_victim",
        "vmscan/mm_vmscan_direct_reclaim_end",
        "vmscan/mm_vmscan_memcg_reclaim_end",
        "compaction/mm_compaction_end",
    ];
    let before = lost_of_kernel_lane(&status(&recorder), &["mm_", "mark_"]);
    let trace = Ftrace::start(&names, TRACE_KIB).expect("an instance of ftrace");
    let began = monotonic_ns();
    lack_memory();
    let ended = monotonic_ns();
    let text = trace.stop().expect("the trace");
    let traced: Vec<_> = traced(&text);
    let traced = traced.iter().filter(|event| (began..ended).contains(&event.time));
    let args = ["--last", "1h", "--event", KINDS];
    let recorded = valid_dump(&recorder, &args);
    let recorded: Vec<&Value> = recorded
        .iter()
        .filter(|event| (began..ended).contains(&event["mono_ns"].as_u64().expect("a time")))
        .collect();
    let lost = lost_of_kernel_lane(&status(&recorder), &["mm_", "mark_"]) - before;
    for (kind, tracepoints) in ENDS {
        let seen = traced.clone().filter(|event| tracepoints.contains(&event.name)).count() as u64;
        let here = recorded.iter().filter(|event| event["event"] == kind).count() as u64;
        eprintln!("{kind}: {seen} traced, {here} recorded, {lost} lost of the lane");
        assert!(seen > 0, "{kind}: nothing happened");
        assert!(here <= seen && seen <= here + lost, "{kind}: {seen} traced, {here} recorded");
    }
    // What the tracer says of each, in order: by thread, as the clocks are read one after the
    // other.
    let pages = |tid: u32| -> Vec<u64> {
        let of_thread = traced.clone().filter(|event| event.tid == tid);
        of_thread.filter_map(|event| event.field("nr_reclaimed")?.parse().ok()).collect()
    };
    let reclaims = || recorded.iter().filter(|event| event["event"] == "reclaim");
    let busiest = reclaims().next().expect("a reclaim")["tid"].as_u64().expect("a thread") as u32;
    let here: Vec<u64> = reclaims()
        .filter(|event| event["tid"] == busiest)
        .map(|event| event["pages"].as_u64().expect("pages"))
        .collect();
    assert!(lost > 0 || here == pages(busiest), "{here:?} {:?}", pages(busiest));
    assert!(reclaims().all(|event| event["limit"] == "cgroup" || event["limit"] == "machine"));
    assert!(reclaims().any(|event| event["limit"] == "cgroup"));
    for event in reclaims() {
        let duration = event["duration"].as_u64().expect("ns");
        assert!(duration > 0 && duration < ended - began, "{event}");
    }
    let of_kind = |kind: &str| recorded.iter().find(|event| event["event"] == kind).expect("one");
    let victim = of_kind("oom_victim");
    assert_eq!(victim["target_comm"], "bad_end", "{victim}");
    // The kernel compacts on its own account as well.
    let asked = |of: &&&Value| of["order"] == -1 && of["mode"] == "sync";
    let mut compactions = recorded.iter().filter(|event| event["event"] == "compaction");
    assert!(compactions.any(|of| asked(&of)), "{recorded:#?}");

    // Who asks for the victim finds it, whoever was the one that needed memory.
    let pid = victim["target_tid"].to_string();
    let lines = dump(&recorder, &["--last", "1h", "--tid", &pid, "--event", "oom_victim"]);
    let [line] = &lines[..] else { panic!("{lines:#?}") };
    let said = format!("(OOM_VICTIM) target_tid={pid} target_pid={pid} target_comm=\"bad_end\"");
    assert_eq!(line.text, said);
}

#[test]
fn it_is_left_out_where_the_configuration_says_so() {
    let recorder = start("[record]\nmemory = false");
    // Of a group alone: to compact all memory takes half a minute on a large machine.
    let group = MemoryGroup::make(16 << 20);
    let bad_end = c_program("bad_end", &[]).display().to_string();
    assert!(!in_group(&group, &format!("exec {bad_end} oom 100")));
    let status = status(&recorder);
    assert_eq!(status["switched_off"], serde_json::json!(["memory"]));
    for kind in KINDS.split(',') {
        assert_eq!(status["lanes"]["kernel"]["events"][kind], 0, "{status:#}");
    }
    let programs = status["recursion_misses"].as_object().expect("programs");
    assert!(!programs.keys().any(|name| name.starts_with("mm_") || name == "mark_victim"));
    assert!(programs.contains_key("block_rq_issue"), "{programs:?}");
}

#[test]
fn a_kernel_without_the_tracepoints_records_all_else() {
    let dir = TempDir::new().expect("directory");
    let without = ["btf_trace_mark_victim", "compact_control"];
    let btf = btf_without(&without, Path::new(dir.path()));
    let recorder = start(&format!("[kernel]\nbtf = \"{}\"\n", btf.display()));
    let status = status(&recorder);
    let lacking = status["lacking"].as_array().expect("a list");
    let whats: Vec<&str> = lacking.iter().map(|row| row["what"].as_str().expect("text")).collect();
    let all = ["victims of the OOM killer", "ends of compaction", "beginnings of compaction"];
    assert_eq!(whats, all);
    let programs = status["recursion_misses"].as_object().expect("programs");
    assert!(programs.contains_key("mm_vmscan_memcg_reclaim_end"), "{programs:?}");
}
