//! A third witness of what lane `kernel` and signals have: what `perf stat` counts of the same
//! tracepoints, in the same program, is what was recorded and what is reported as lost.
//!
//! Of interrupts, waits for locks, stacks and samples not every one is recorded: their own tests
//! hold them against ftrace. Operations of io_uring are in `rings`.

use std::path::Path;

use flightrec_tests::{MemoryGroup, PerfStat, Recorder, c_program};
use serde_json::Value;

use crate::json::valid_dump;
use crate::lacking::status;
use crate::support::{lost_of_kernel_lane, share_recorder, snapshot, start};

/// A tracepoint, and the kind of event that is recorded there.
type Pair = (&'static str, &'static str);

/// Runs a shell's commands, which tell `pid=` of the one process that counts; holds what was
/// recorded of that against the counts. `programs`: the beginnings of the programs' names.
fn agree(recorder: &Recorder, script: &str, pairs: &[Pair], programs: &[&str]) {
    let tracepoints: Vec<&str> = pairs.iter().map(|(tracepoint, _)| *tracepoint).collect();
    let mut stat = PerfStat::of(&tracepoints);
    let before = lost_of_kernel_lane(&status(recorder), programs);
    let printed = stat.run(Path::new("/bin/sh"), &["-c", script]);
    let lost = lost_of_kernel_lane(&status(recorder), programs) - before;
    let pid: u64 = printed["pid"].parse().expect("a number");
    for (tracepoint, kind) in pairs {
        let events = valid_dump(recorder, &["--last", "1h", "--event", kind]);
        // The counter ends with the process, before its parent is told.
        let is_own = |event: &&Value| event["pid"] == pid && event["signal"] != "SIGCHLD";
        let recorded = events.iter().filter(is_own).count() as u64;
        // What is left open is closed when the process ends, before or after that.
        let is_late = |event: &&Value| {
            is_own(event) && event["old_state"] == "LISTEN" && event["new_state"] == "CLOSE"
        };
        let late = events.iter().filter(is_late).count() as u64;
        let counted = stat.count(tracepoint);
        eprintln!("{tracepoint}: {counted} counted, {recorded} recorded, {lost} lost");
        assert!(counted >= 50, "{tracepoint}: {counted} are no trial");
        assert!(
            recorded <= counted + late && counted <= recorded + lost,
            "{tracepoint}: {counted} counted, {recorded} recorded, {lost} lost"
        );
    }
}

fn signals(recorder: &Recorder) {
    let script = "trap : USR1; i=0; while [ $i -lt 500 ]; do kill -USR1 $$; i=$((i+1)); done; \
                  echo pid=$$";
    let pairs = [
        ("signal:signal_generate", "signal_generate"),
        ("signal:signal_deliver", "signal_deliver"),
    ];
    agree(recorder, script, &pairs, &["signal_"]);
}

fn connections(recorder: &Recorder) {
    let program = c_program("connections", &[]);
    let script = format!("echo pid=$$; exec {} 4 200", program.display());
    let pairs = [("sock:inet_sock_set_state", "sock_state")];
    agree(recorder, &script, &pairs, &["inet_sock_"]);
}

#[test]
fn requests_to_disks() {
    let recorder = start("[rings]\nkernel = \"16MiB\"");
    let dir = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let to = dir.path().join("written").display().to_string();
    let script = format!("echo pid=$$; exec dd if=/dev/zero of={to} bs=4k count=500 oflag=direct");
    agree(&recorder, &script, &[("block:block_rq_issue", "block_issue")], &["block_"]);
}

#[test]
fn memory_of_a_control_group() {
    let recorder = start("[rings]\nkernel = \"16MiB\"");
    let group = MemoryGroup::make(32 << 20);
    let dir = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let file = dir.path().join("large").display().to_string();
    std::fs::write(&file, vec![1; 256 << 20]).expect("a file");
    let script = format!(
        "sync {file}; dd if={file} iflag=nocache count=0 2>/dev/null; \
         echo $$ >{}/cgroup.procs; echo pid=$$; exec cat {file} >/dev/null",
        group.dir().display()
    );
    agree(&recorder, &script, &[("vmscan:mm_vmscan_memcg_reclaim_end", "reclaim")], &["mm_"]);
}

/// What is too short to be recorded is known to the budget all the same.
#[test]
fn short_interrupts_are_counted() {
    let looked = |config: &str| {
        let recorder = start(config);
        let program = c_program("connections", &[]);
        let script = format!("echo pid=$$; exec {} 4 200", program.display());
        PerfStat::of(&["irq:softirq_exit"]).run(Path::new("/bin/sh"), &["-c", &script]);
        snapshot(&recorder).totals.cpus.iter().map(|cpu| cpu.looked).sum::<u64>()
    };
    let without = looked("[record]\ninterrupts = false\nlocks = false\n");
    assert_eq!(without, 0);
    assert!(looked("") > 100);
}

share_recorder!(signals, connections);
