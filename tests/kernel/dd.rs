//! Every system call of a busy program, exactly: `dd` writes 100,000 times.

use std::process::{Command, Stdio};

use flightrec_tests::{Recorder, monotonic_ns};

use crate::support::{dump, share_recorder, snapshot, start};

const WRITES: usize = 100_000;

/// Its process id, and when it began and ended.
fn dd() -> (u32, u64, u64) {
    let began = monotonic_ns();
    let mut dd = Command::new("dd")
        .args(["if=/dev/zero", "of=/dev/null", "bs=1", &format!("count={WRITES}"), "status=none"])
        .stdin(Stdio::null())
        .spawn()
        .expect("dd");
    let pid = dd.id();
    assert!(dd.wait().expect("dd").success());
    (pid, began, monotonic_ns())
}

/// The same whatever form the programs have.
fn every_write_is_there(recorder: &Recorder) {
    let (pid, began, ended) = dd();
    let snapshot = snapshot(recorder);
    snapshot.assert_complete(began, ended);
    let calls = snapshot.calls(pid);
    let io: Vec<_> = calls.iter().filter(|call| ["read", "write"].contains(&&*call.name)).collect();
    // After the dynamic linker's reads: read and write in turn, entry, exit, entry, exit.
    let first = io.iter().position(|call| call.name == "write").expect("a write") - 1;
    assert_eq!(io.len() - first, 2 * WRITES, "reads and writes");
    let mut time = 0;
    for pair in io[first..].chunks(2) {
        assert_eq!((&*pair[0].name, pair[0].args()[0], pair[0].args()[2]), ("read", 0, 1));
        assert_eq!((&*pair[1].name, pair[1].args()[0], pair[1].args()[2]), ("write", 1, 1));
        for call in pair {
            let (entered, left) = (call.enter.expect("an entry").0, call.exit.expect("an exit").0);
            assert_eq!((call.args().len(), call.ret), (3, Some(1)));
            assert!(time <= entered && entered <= left, "{call:?} after {time}");
            time = left;
        }
    }
    // Whatever else it did has both ends too, but for the exec that began it and the end.
    let whole =
        |call: &&_| matches!(call, flightrec_tests::MadeCall { enter: Some(_), exit: Some(_), .. });
    let odd: Vec<_> = calls.iter().filter(|call| !whole(call)).map(|call| &*call.name).collect();
    assert!(
        odd.iter().all(|name| ["exit_group", "clone3", "vfork", "clone"].contains(name)),
        "{odd:?}"
    );
}

fn dd_is_recorded_whole(recorder: &Recorder) {
    every_write_is_there(recorder);
}

#[test]
fn dd_is_recorded_whole_by_tracepoint_programs() {
    let recorder = start("[kernel]\nsyscall_programs = \"tracepoint\"");
    every_write_is_there(&recorder);
    assert_eq!(snapshot(&recorder).meta.syscall_programs, "tracepoint");
}

fn dd_reads_well(recorder: &Recorder) {
    let (pid, ..) = dd();
    let lines = dump(recorder, &["--last", "1h", "--pid", &pid.to_string(), "--strict"]);
    let writes: Vec<_> = lines.iter().filter(|line| line.text.starts_with("write")).collect();
    assert_eq!(writes.len(), 2 * WRITES);
    for pair in writes.chunks(2) {
        let (enter, exit) = (&pair[0].text, &pair[1].text);
        assert!(
            enter.starts_with("write(1</dev/null>, 0x") && enter.ends_with(", 1) -->"),
            "{enter}"
        );
        assert!(exit.starts_with("write <-- 1 (") && exit.ends_with("s)"), "{exit}");
        assert!(pair.iter().all(|line| line.tid == pid && line.comm == "dd"), "{pair:?}");
    }
    let began = lines.iter().find(|line| line.text.starts_with("(EXEC)")).expect("its exec");
    assert!(began.text.contains(
        r#"["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=100000", "status=none"]"#
    ));
}

share_recorder!(dd_is_recorded_whole, dd_reads_well);
