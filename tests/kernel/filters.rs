//! Filters of `flightctl dump`, by what they let through and what they don't.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use flightrec_tests::{
    PATIENCE, Recorder, c_program, numbered_call, online_cpus, pin_to_cpu, wait_until,
};

use crate::support::{Line, dump, run, start};

/// Several dumps look for the same calls, one after the other: on a busy machine they must stay in
/// the rings so long.
const RINGS: &str = "[rings]\nsyscall = \"128MiB\"\nmax_total = \"1GiB\"\nmax_ram_percent = 50";

/// Runs a shell script to its end; its process id.
fn shell(script: &str) -> u32 {
    let mut child =
        Command::new("/bin/sh").arg("-c").arg(script).stdout(Stdio::null()).spawn().expect("sh");
    let pid = child.id();
    assert!(child.wait().expect("wait").success(), "{script}");
    pid
}

/// A dump of the whole recording with these filters.
fn filtered(recorder: &Recorder, filters: &[&str]) -> Vec<Line> {
    dump(recorder, &[&["--all"], filters].concat())
}

/// The texts of a dump's lines, those of other programs left out.
fn texts(recorder: &Recorder, filters: &[&str]) -> Vec<String> {
    filtered(recorder, filters).into_iter().map(|line| line.text).collect()
}

#[test]
fn a_tree_is_a_process_and_its_descendants() {
    let recorder = start(RINGS);
    let pid = shell("/bin/sh -c '/bin/cat /etc/hostname; true'; true");
    let other = shell("/bin/cat /etc/hostname");
    let lines = filtered(&recorder, &["--tree", &pid.to_string(), "--event", "sys_enter,exec"]);
    assert!(lines.iter().any(|line| line.tid == pid) && lines.iter().all(|line| line.tid != other));
    let cat = lines.iter().find(|line| line.comm == "cat").expect("a grandchild");
    assert!(
        cat.tid != pid
            && lines.iter().any(|line| line.comm == "cat" && line.text.contains("/etc/hostname"))
    );
}

#[test]
fn errors_come_with_their_arguments() {
    let recorder = start(RINGS);
    let pid =
        shell("/bin/cat /nonexistent/file 2>/dev/null; /bin/cat /etc/hostname; true").to_string();
    let errors = texts(&recorder, &["--tree", &pid, "--errors"]);
    assert!(
        errors
            .iter()
            .any(|text| text.contains("\"/nonexistent/file\"") && text.contains("<-- -2 ENOENT")),
        "{errors:?}"
    );
    assert!(errors.iter().all(|text| text.contains("<-- -")), "{errors:?}");
    let noent =
        texts(&recorder, &["--tree", &pid, "--errno", "ENOENT", "--path", "/nonexistent/*"]);
    assert!(
        !noent.is_empty()
            && noent
                .iter()
                .all(|text| text.contains("ENOENT") && text.contains("/nonexistent/file"))
    );
}

#[test]
fn paths_are_found_through_descriptors() {
    let recorder = start(RINGS);
    // Opened by the shell, read by its child, as a descriptor of another number.
    let pid = shell("exec 5</etc/hostname; /bin/cat <&5; true").to_string();
    let lines = filtered(&recorder, &["--tree", &pid, "--path", "/etc/host*"]);
    let read = lines
        .iter()
        .find(|line| line.comm == "cat" && line.text.starts_with("read(0</etc/hostname>, "));
    assert!(read.is_some(), "{lines:?}");
    assert!(
        lines.iter().any(|line| line.text.starts_with("openat(AT_FDCWD, \"/etc/hostname\"")),
        "{lines:?}"
    );
    assert!(lines.iter().all(|line| !line.text.contains("/lib/")), "{lines:?}");
    let bare = texts(&recorder, &["--tree", &pid, "--path", "hostname", "--fds", "off"]);
    assert!(bare.iter().any(|text| text.starts_with("read(0, ")), "{bare:?}");
}

#[test]
fn classes_and_slow_calls() {
    let recorder = start(RINGS);
    let pid = shell("/bin/sleep 0.05; true").to_string();
    let slow = filtered(&recorder, &["--tree", &pid, "--slower-than", "40ms"]);
    assert!(
        slow.iter().any(|line| line.comm == "sleep" && line.text.starts_with("clock_nanosleep(")),
        "{slow:?}"
    );
    assert!(slow.iter().all(|line| line.text.contains(" <-- ")), "{slow:?}");
    let begins = |filter: &str| {
        let texts =
            texts(&recorder, &["--tree", &pid, "--syscall", filter, "--event", "sys_enter"]);
        move |name: &str| texts.iter().any(|text| text.starts_with(name))
    };
    let file = begins("%file");
    assert!(file("openat(") && file("execve(") && !file("close(") && !file("brk("));
    let others = begins("!%file,%desc");
    assert!(!others("openat(") && !others("close(") && others("brk("));
}

#[test]
fn control_groups_by_path_id_and_unit() {
    let recorder = start(RINGS);
    let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new).into_iter();
    let root = root
        .rev()
        .find(|dir| dir.join("cgroup.controllers").exists())
        .expect("a cgroup2 file system");
    let slice = root.join(format!("flightrec{}.slice", std::process::id()));
    let unit = slice.join("web.service");
    fs::create_dir_all(&unit).expect("a control group");
    // It moves itself, and then is what it executes.
    let procs = unit.join("cgroup.procs");
    let pid = shell(&format!("echo $$ > {} && exec /bin/cat /etc/hostname", procs.display()));
    let outside = shell("exec /bin/cat /etc/hostname");
    let id = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&unit).expect("stat")).to_string();
    let path = slice.strip_prefix(root).expect("below").display().to_string();
    for filter in [["--unit", "web"], ["--cgroup", &path], ["--cgroup", &id]] {
        let lines = filtered(&recorder, &filter);
        assert!(lines.iter().any(|line| line.tid == pid && line.comm == "cat"), "{filter:?}");
        assert!(lines.iter().all(|line| line.tid != outside), "{filter:?}");
    }
    // Gone, but still known.
    fs::remove_dir(&unit).and_then(|()| fs::remove_dir(&slice)).expect("removed");
    assert!(!filtered(&recorder, &["--unit", "web.service"]).is_empty());
    let wrong = recorder.flightctl(&["dump", "--unit", "wbe"]);
    assert!(
        String::from_utf8_lossy(&wrong.stderr).contains("did you mean web.service"),
        "{wrong:?}"
    );
}

/// A call that began long before what is read for the window is as slow as it is known to be.
#[test]
fn a_long_call_is_found_where_its_beginning_is_not_read() {
    let recorder = start(RINGS);
    let mut sleep = Command::new("/bin/sleep").arg("6").spawn().expect("sleep");
    let tid = sleep.id().to_string();
    let stat = format!("/proc/{tid}/stat");
    let sleeps = || fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S "));
    assert!(wait_until(PATIENCE, sleeps), "it does not sleep");
    // On a quiet machine the page with its entry would be read as well.
    for cpu in online_cpus() {
        let fill = move || {
            pin_to_cpu(cpu);
            (0..5000).for_each(numbered_call);
        };
        std::thread::spawn(fill).join().expect("a page is filled");
    }
    assert!(sleep.wait().expect("wait").success());
    // The same window for each question, however long the answers take.
    let until = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock");
    let since = until.saturating_sub(Duration::from_secs(2)).as_nanos().to_string();
    let until = until.as_nanos().to_string();
    let ask = |args: &[&str]| {
        let common = ["dump", "--since", &since, "--until", &until, "--strict", "--tid", &tid];
        let output = recorder.flightctl(&[&common[..], args].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // From 4 s before the end on all is there.
    let (status, text) = ask(&["--slower-than", "2s"]);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(lines.len() == 1 && lines[0].contains("clock_nanosleep("), "{text}");
    let known = lines[0].split_once(" <-- 0 (>= ").and_then(|(_, rest)| rest.split_once(" s)"));
    let known: f64 = known.unwrap_or_else(|| panic!("{text}")).0.parse().expect("seconds");
    assert_eq!(status, Some(0), "{text}");
    // It took 6 s. What the process does else is done within 2 s, and known.
    let between = format!("{}ms", ((known + 6.0) * 500.0).round());
    let (status, text) = ask(&["--slower-than", &between]);
    assert!(status == Some(3) && text.contains(": 1 event that the filter can't decide"), "{text}");
    assert!(text.contains("the beginnings of their calls are not in the recording"), "{text}");

    // A new process knows all its calls, and those that a filter refuses begin nowhere.
    let denied = c_program("seccomp_deny", &[]);
    let pid = run(&denied, &[]).id("pid").to_string();
    let args = ["dump", "--last", "1h", "--strict", "--pid", &pid, "--slower-than", "1s"];
    let output = recorder.flightctl(&args);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
}
