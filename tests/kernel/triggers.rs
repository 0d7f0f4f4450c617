//! Each trigger, by a real cause that the test makes; what it keeps holds that cause.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flightrec_tests::{
    ControlGroup, MemoryGroup, PATIENCE, Recorder, c_program, die_with_parent, online_cpus,
    require_pressure, wait_until,
};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::snapshots::{list, whole};
use crate::support::{Line, run, start};

/// All triggers by name.
const ALL: [&str; 7] =
    ["run_queue", "pressure", "blocked", "core_dump", "oom_kill", "kernel_log", "errors"];

/// A recorder with one trigger on (others would tell of what else happens on the machine),
/// configured so.
pub(crate) fn with(trigger: &str, keys: &str) -> Recorder {
    with_window("500ms", trigger, keys)
}

/// The same; a window reaches so far past its cause.
fn with_window(after: &str, trigger: &str, keys: &str) -> Recorder {
    with_all(after, "100ms", 3600, trigger, keys)
}

/// The same; it looks so often.
fn with_looks(interval: &str, trigger: &str, keys: &str) -> Recorder {
    with_all("500ms", interval, 3600, trigger, keys)
}

/// The same; it takes so many an hour.
fn with_hour(per_hour: u32, trigger: &str) -> Recorder {
    with_all("500ms", "100ms", per_hour, trigger, "enabled = true")
}

fn with_all(after: &str, interval: &str, per_hour: u32, trigger: &str, keys: &str) -> Recorder {
    let off = ALL
        .iter()
        .filter(|name| **name != trigger)
        .map(|name| format!("[triggers.{name}]\nenabled = false\n"));
    let off: String = off.collect();
    start(&format!(
        "[store]\nkeep_free = \"0B\"\n[snapshots]\nbefore = \"4s\"\nafter = \"{after}\"\nper_hour \
         = {per_hour}\n[triggers]\ninterval = \"{interval}\"\n{off}[triggers.{trigger}]\n{keys}"
    ))
}

pub(crate) fn bad_end() -> PathBuf {
    c_program("bad_end", &[])
}

/// The same program by a name that no test beside this one has.
fn bad_end_as(recorder: &Recorder, name: &str) -> PathBuf {
    let copy = recorder.sandbox().root().join(name);
    fs::copy(bad_end(), &copy).expect("a copy");
    copy
}

/// Waits for a snapshot of the cause that `is` says it is.
fn kept(recorder: &Recorder, cause: &str, is: impl Fn(&Value) -> bool) -> Value {
    let mut found = None;
    let came = wait_until(PATIENCE, || {
        found =
            list(recorder).into_iter().find(|snapshot| snapshot["cause"] == cause && is(snapshot));
        found.is_some()
    });
    assert!(came, "no snapshot of {cause}: {:#?}\n{}", list(recorder), recorder.log());
    found.expect("found")
}

fn says(snapshot: &Value, words: &str) -> bool {
    snapshot["reason"].as_str().is_some_and(|reason| reason.contains(words))
}

fn id(snapshot: &Value) -> &str {
    snapshot["id"].as_str().expect("an id")
}

/// A program that runs until it is dropped.
struct Running(Child);

impl Running {
    fn start(program: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
        Self(die_with_parent(&mut command, Signal::SIGKILL).spawn().expect("started"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A process that ends by SIGSEGV; its id.
fn crash() -> String {
    crash_of("segv")
}

/// The same, in this way.
fn crash_of(how: &str) -> String {
    let output = Command::new(bad_end()).arg(how).stdin(Stdio::null()).output().expect("run");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(libc::SIGSEGV));
    flightrec_tests::key_values(&output.stdout)["pid"].clone()
}

#[test]
fn a_signal_that_dumps_core_and_a_storm_of_it() {
    let recorder = with("core_dump", "enabled = true");
    let pid = crash();
    let snapshot = kept(&recorder, "core_dump", |snapshot| {
        says(snapshot, &format!("bad_end ({pid}) was killed by SIGSEGV"))
    });
    assert_eq!(whole(&recorder, id(&snapshot), &["--event", "exit", "--pid", &pid]).len(), 1);
    first_is(&snapshot, "bad_end", &pid);
    // The same again and again is counted.
    (0..30).for_each(|_| drop(crash()));
    let counted =
        || list(&recorder).iter().map(|snapshot| snapshot["repeats"].as_u64()).collect::<Vec<_>>();
    assert!(
        wait_until(PATIENCE, || counted() == [Some(30)]),
        "{:?}\n{}",
        counted(),
        recorder.log()
    );
    let figures = ["taken", "repeated", "refused", "failed", "pending", "kept"]
        .map(|name| figure(&recorder, name));
    assert_eq!(figures, [1, 30, 0, 0, 0, 1].map(Value::from));
}

/// A process is not its first thread.
#[test]
fn a_worker_that_crashes_when_the_first_thread_has_ended() {
    let recorder = with("core_dump", "enabled = true");
    let pid = crash_of("worker");
    let snapshot = kept(&recorder, "core_dump", |snapshot| {
        says(snapshot, &format!("bad_end ({pid}) was killed by SIGSEGV"))
    });
    let ends = whole(&recorder, id(&snapshot), &["--event", "exit", "--pid", &pid]);
    let killed = |line: &&Line| line.text.contains("SIGSEGV");
    assert_eq!((ends.len(), ends.iter().filter(killed).count()), (2, 1), "{ends:#?}");
    // Another test's program may crash beside it.
    let all = list(&recorder);
    let own = all.iter().filter(|snapshot| says(snapshot, &format!("({pid})"))).count();
    assert_eq!(own, 1, "{all:#?}");
}

/// Crashes of a user who may do nothing else, by names of his choice, and then one of somebody
/// else.
#[test]
fn crashes_of_one_user_leave_room_for_those_of_others() {
    let recorder = with_hour(20, "core_dump");
    let folder = tempfile::tempdir().expect("a directory");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    for i in 0..6 {
        let program = folder.path().join(format!("x{i}\u{1b}[2J\nroot"));
        fs::copy(bad_end(), &program).expect("copied");
        let script = "\"$0\" segv; \"$0\" segv; sleep 0.3";
        let mut command = Command::new("/bin/sh");
        let ended =
            command.args(["-c", script]).arg(&program).uid(54_321).gid(54_321).stdin(Stdio::null());
        ended.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("sh");
    }
    let pid = crash();
    kept(&recorder, "core_dump", |snapshot| {
        says(snapshot, &format!("bad_end ({pid}) was killed by SIGSEGV"))
    });
    let users = list(&recorder).iter().filter(|snapshot| says(snapshot, "x")).count();
    assert_eq!(users, 2, "{:#?}", list(&recorder));
    let named = "were taken ([snapshots] per_hour)";
    assert!(wait_until(PATIENCE, || recorder.log().contains(named)), "{}", recorder.log());
    let log = recorder.log();
    assert!(
        log.contains("no snapshot of \"x2\\33[2J\\nroot") && log.contains("user 54321"),
        "{log}"
    );
    assert!(!log.contains('\u{1b}') && log.lines().all(|line| !line.starts_with("root")), "{log}");
}

#[test]
fn a_thread_that_can_not_be_woken_but_no_parent_by_vfork() {
    let recorder = with("blocked", "longer_than = \"1s\"\n");
    // Longer than the limit by more than the time between two looks.
    let parent = run(&bad_end(), &["vfork", "2500"]).id("pid");
    let mount = tempfile::tempdir_in(recorder.sandbox().root()).expect("a directory");
    let stuck =
        run(&bad_end(), &["fuse", "5000", mount.path().to_str().expect("UTF-8")]).id("child");
    let words = format!("bad_end ({stuck}) has been in uninterruptible sleep for ");
    let snapshot = kept(&recorder, "blocked", |snapshot| says(snapshot, &words));
    let lines =
        whole(&recorder, id(&snapshot), &["--tid", &stuck.to_string(), "--event", "switch"]);
    assert!(lines.iter().any(|line| line.text.contains("<-- TASK_UNINTERRUPTIBLE")), "{lines:#?}");
    first_is(&snapshot, "bad_end", &stuck.to_string());
    let wait = &snapshot["summary"]["waits"][0];
    assert_eq!(
        (wait["thread"]["tid"].to_string(), &wait["call"]),
        (stuck.to_string(), &Value::from("newfstatat"))
    );
    // It still waits, or has its stack recorded since.
    let stack = wait["stack"].as_array().into_iter().flatten();
    let names: Vec<&str> = stack.filter_map(Value::as_str).collect();
    assert!(
        names.contains(&"fuse_simple_request") || names.contains(&"__fuse_simple_request"),
        "{wait:#}"
    );
    let shown = recorder.flightctl(&["snapshots", "show", id(&snapshot)]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("\n               in ") && shown.contains(" <- "), "{shown}");
    let all = list(&recorder);
    assert!(
        all.iter().all(|snapshot| !says(snapshot, &format!("({parent})"))),
        "vfork is no alarm: {all:#?}"
    );
}

/// A figure of `flightctl status --json` about snapshots.
pub(crate) fn figure(recorder: &Recorder, name: &str) -> Value {
    let output = recorder.flightctl(&["status", "--json"]);
    let status: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    status["snapshots"][name].clone()
}

#[test]
fn the_end_of_the_daemon_takes_what_waits_for_its_window() {
    let mut recorder = with_window("5m", "core_dump", "enabled = true");
    let pid = crash();
    let waits = || figure(&recorder, "pending").as_u64() >= Some(1);
    assert!(wait_until(PATIENCE, waits), "{}", recorder.log());
    assert_eq!(list(&recorder), Vec::<Value>::new());
    recorder.stop();
    let all = list(&recorder);
    let [snapshot] = &all[..] else { panic!("{all:#?}\n{}", recorder.log()) };
    assert!(says(snapshot, &format!("bad_end ({pid}) was killed by SIGSEGV")), "{snapshot:#?}");
    let notes = snapshot["summary"]["notes"].to_string();
    assert!(
        notes.contains("flightd was stopped 4m") && notes.contains("before the end of the window"),
        "{notes}"
    );
    let lines = whole(&recorder, id(snapshot), &["--event", "exit", "--pid", &pid]);
    assert_eq!(lines.len(), 1, "{lines:#?}");
}

#[test]
fn a_crowd_on_one_cpu() {
    let recorder = with("run_queue", "longer_than = \"30ms\"\n");
    let cpu = online_cpus().last().expect("a CPU").to_string();
    // In a group of their own: no other wait takes the snapshots that theirs may cause.
    let group = ControlGroup::unified().expect("a control group");
    let hogs = Running::start(&c_program("hogs", &[]), &["12", &cpu, "1000000", "5000"]);
    fs::write(group.dir().join("cgroup.procs"), hogs.0.id().to_string()).expect("the group");
    let of_hogs = |snapshot: &Value| snapshot["subject"] == "hogs";
    let snapshot = kept(&recorder, "run_queue", of_hogs);
    assert!(says(&snapshot, &format!("for CPU {cpu}")), "{snapshot:#?}");
    let number = snapshot["threads"][0].as_u64();
    let tid = number.expect("a thread").to_string();
    // Most often a hog, now and then the thread that sleeps between them.
    let file = format!("/proc/{}/task/{tid}/comm", hogs.0.id());
    let name = fs::read_to_string(&file).expect("a thread of the program");
    drop(hogs);
    assert!(!whole(&recorder, id(&snapshot), &["--event", "switch", "--tid", &tid]).is_empty());
    first_is(&snapshot, name.trim_end(), &tid);
    let waits = snapshot["summary"]["waits"].as_array().expect("waits");
    let queued = waits
        .iter()
        .find(|wait| wait["thread"]["tid"].as_u64() == number && wait["kind"] == "queued");
    assert!(queued.is_some_and(|wait| wait["ns"].as_u64() >= Some(30_000_000)), "{waits:#?}");
    // Thirteen threads share that CPU, so others may have run for longer; but somebody did.
    let ran = snapshot["summary"]["hogs"].as_array().expect("hogs");
    assert!(
        ran.iter().is_sorted_by_key(|hog| std::cmp::Reverse(hog["ns"].as_u64())) && !ran.is_empty(),
        "{ran:#?}"
    );
}

/// The first answer names this thread first.
#[track_caller]
fn first_is(snapshot: &Value, name: &str, tid: &str) {
    let involved = &snapshot["summary"]["involved"][0];
    let first = (&involved["thread"]["name"], involved["thread"]["tid"].to_string());
    assert_eq!(first, (&Value::from(name), tid.to_owned()), "{involved:#}\n{}", snapshot["reason"]);
}

#[test]
fn slow_calls_of_whoever_is_named() {
    let rule = "rules = [{ process = \"named_slow\", calls = [\"read\", \"fsync\"], slower_than = \
                \"300ms\" }]\n";
    let recorder = with("slow_call", rule);
    let program = bad_end_as(&recorder, "named_slow");
    let pid = run(&program, &["read", "1500"]).id("pid").to_string();
    // The answer comes a little after the snapshot.
    let snapshot = kept(&recorder, "slow_call", |snapshot| {
        says(snapshot, &format!("read of named_slow ({pid})"))
            && snapshot["summary"]["why"].is_object()
    });
    let is_logged = || recorder.log().contains("; why: ");
    assert!(wait_until(PATIENCE, is_logged), "{}", recorder.log());
    first_is(&snapshot, "named_slow", &pid);
    // What it was slow for: the call that fired the trigger, in the snapshot and in the log.
    let why = &snapshot["summary"]["why"];
    let sentence = why["sentence"].as_str().unwrap_or_default();
    // 1.5 s, and then until a CPU was free for it.
    let words = format!("`named_slow` ({pid}) waited ");
    let waited = sentence.strip_prefix(&words).and_then(|rest| rest.split_once(" s in read"));
    let waited = waited.and_then(|(seconds, _)| seconds.parse::<f64>().ok());
    assert!(waited.is_some_and(|seconds| seconds >= 1.5), "{:#}", snapshot["summary"]);
    assert_eq!(why["chain"][0]["thread"]["tid"].to_string(), pid);
    assert!(recorder.log().contains(&format!("; why: {words}")), "{}", recorder.log());
    let lines = whole(&recorder, id(&snapshot), &["--tid", &pid, "--syscall", "read"]);
    assert!(lines.iter().any(|line| line.text.starts_with("read(")), "{lines:#?}");
    let all = list(&recorder);
    let own = all.iter().filter(|snapshot| says(snapshot, &format!("({pid})"))).count();
    assert_eq!(own, 1, "its end is no second one: {all:#?}");
}

/// Processes that live for less than the time between two looks, whose names come and go with them.
#[test]
fn slow_calls_of_processes_that_are_gone_when_it_is_looked() {
    let rule = "rules = [{ process = \"soon_gone\", calls = [\"read\"], slower_than = \"300ms\" },
                         { process = \"renamed\", calls = [\"read\"], slower_than = \"300ms\" }]\n";
    let recorder = with_looks("1s", "slow_call", rule);
    let program = bad_end_as(&recorder, "soon_gone");
    let pids: Vec<u32> = (0..12).map(|_| run(&program, &["read", "400"]).id("pid")).collect();
    let found = || figure(&recorder, "taken").as_u64().zip(figure(&recorder, "repeated").as_u64());
    assert!(
        wait_until(PATIENCE, || found() == Some((1, 11))),
        "{:?} of {pids:?}\n{}",
        found(),
        recorder.log()
    );
    // One that took another name before its call.
    let pid = run(&program, &["read", "400", "renamed"]).id("pid").to_string();
    kept(&recorder, "slow_call", |snapshot| says(snapshot, &format!("read of renamed ({pid})")));
    let is_counted = || found() == Some((2, 11));
    assert!(wait_until(PATIENCE, is_counted), "{:?} {:#?}", found(), list(&recorder));
}

#[test]
fn a_process_killed_for_want_of_memory() {
    let recorder = with("oom_kill", "enabled = true");
    let group = MemoryGroup::make(30 << 20);
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec {} oom 200",
        group.dir().display(),
        bad_end().display()
    );
    let mut command = Command::new("/bin/sh");
    let mut victim = command
        .args(["-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("sh");
    let pid = victim.id().to_string();
    assert!(!victim.wait().expect("wait").success());
    let snapshot =
        kept(&recorder, "oom_kill", |snapshot| says(snapshot, &format!("bad_end ({pid})")));
    first_is(&snapshot, "bad_end", &pid);
    let lines = whole(&recorder, id(&snapshot), &["--event", "exit", "--pid", &pid]);
    assert_eq!(lines.len(), 1, "{lines:#?}");
}

#[test]
fn a_line_that_the_kernel_logs() {
    let recorder = with("kernel_log", "lines = [\"segfault at \"]\n");
    // What somebody writes there passes the same place as the kernel's own, and is not.
    let line = format!("flightrec test of process {}: segfault at 0", std::process::id());
    fs::write("/dev/kmsg", format!("<4>{line}\n")).expect("/dev/kmsg");
    let pid = crash();
    let words = format!("the kernel logged: bad_end[{pid}]: segfault at 0");
    let snapshot = kept(&recorder, "kernel_log", |snapshot| says(snapshot, &words));
    let all = list(&recorder);
    let told = |words: &str| all.iter().filter(|snapshot| says(snapshot, words)).count();
    assert_eq!((told(&words), told("flightrec test of process")), (1, 0), "{all:#?}");
    first_is(&snapshot, "bad_end", &pid);
    // What descriptors stand for is known from the recorder's first look on, a little after the
    // window's beginning.
    let lines = whole(&recorder, id(&snapshot), &["--path", "/dev/kmsg", "--syscall", "openat"]);
    assert!(lines.iter().any(|event| event.text.contains("/dev/kmsg")), "{lines:#?}");
}

/// A process that is called like what the kernel says when it is in trouble.
#[test]
fn a_name_is_no_word_of_the_kernel() {
    let recorder = with("kernel_log", "lines = [\"BUG: \", \"drop_caches: 1\"]\n");
    let folder = tempfile::tempdir().expect("a directory");
    let program = folder.path().join("BUG: x");
    fs::copy(bad_end(), &program).expect("copied");
    let ended = Command::new(&program)
        .arg("segv")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .expect("run");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(libc::SIGSEGV));
    // A line after that one.
    fs::write("/proc/sys/vm/drop_caches", "1").expect("drop_caches");
    kept(&recorder, "kernel_log", |snapshot| says(snapshot, "drop_caches: 1"));
    assert_eq!(list(&recorder).len(), 1, "{:#?}", list(&recorder));
}

#[test]
fn pressure_on_the_cpus() {
    require_pressure();
    let recorder = with("pressure", "cpu = \"20%\"\nmemory = \"off\"\nio = \"off\"\n");
    let cpu = online_cpus().last().expect("a CPU").to_string();
    let hogs = Running::start(&c_program("hogs", &[]), &["4", &cpu, "1000000", "5000"]);
    let snapshot =
        kept(&recorder, "pressure", |snapshot| says(snapshot, "some thread waited for a CPU"));
    drop(hogs);
    let summary = &snapshot["summary"];
    // They share one CPU: another thread may have had more of the other one.
    let ran = summary["hogs"].as_array().expect("hogs");
    assert!(ran.iter().any(|of| of["thread"]["name"] == "hog"), "{ran:#?}");
    assert!(ran.iter().is_sorted_by_key(|of| std::cmp::Reverse(of["ns"].as_u64())), "{ran:#?}");
    // Waits for what is short come first. Each hog waits for that CPU many times; other threads that
    // come to it wait as well, and may wait longest.
    let waits = summary["waits"].as_array().expect("waits");
    assert!(!waits.is_empty() && waits.iter().all(|wait| wait["kind"] == "queued"), "{waits:#?}");
    let lines = whole(&recorder, id(&snapshot), &["--comm", "hog", "--event", "switch"]);
    assert!(!lines.is_empty());
}

#[test]
fn pressure_on_memory() {
    require_pressure();
    let recorder = with("pressure", "cpu = \"off\"\nmemory = \"0.2%\"\nio = \"off\"\n");
    let group = MemoryGroup::make(8 << 20);
    // Two that write more than their group may hold, so that each page they touch has to wait for
    // another one to be written.
    let folder = tempfile::tempdir().expect("a directory");
    let script = format!(
        "echo $$ > {}/cgroup.procs; while :; do dd if=/dev/zero of={}/$0 bs=1M count=64 \
         2>/dev/null; done",
        group.dir().display(),
        folder.path().display()
    );
    let writers: Vec<Running> =
        ["a", "b"].map(|name| Running::start(Path::new("/bin/sh"), &["-c", &script, name])).into();
    let snapshot =
        kept(&recorder, "pressure", |snapshot| says(snapshot, "all threads waited for memory"));
    let lines = whole(&recorder, id(&snapshot), &["--comm", "dd", "--event", "switch"]);
    assert!(lines.iter().any(|line| line.text.contains("<-- TASK_UNINTERRUPTIBLE")), "{lines:#?}");
    // Workers of the kernel that hand pages back to a hypervisor wait as well, elsewhere; and the
    // recorder's own thread waits for the disk that the others write to.
    let worker = |wait: &&Value| {
        let others = ["kworker", "flightd-"];
        let name = wait["thread"]["name"].as_str();
        name.is_some_and(|name| others.iter().any(|other| name.starts_with(other)))
    };
    let waits = snapshot["summary"]["waits"].as_array().expect("waits");
    let wait = waits.iter().find(|wait| !worker(wait)).expect("a wait");
    assert_eq!(
        (&wait["thread"]["name"], &wait["kind"]),
        (&"dd".into(), &"blocked".into()),
        "{:#}",
        snapshot["summary"]
    );
    let calls = whole(&recorder, id(&snapshot), &["--comm", "dd", "--syscall", "write"]);
    assert!(!calls.is_empty());
    drop(writers);
}

#[test]
fn calls_that_fail_far_more_than_usual() {
    let recorder = with("errors", "min_rate = 300\nfactor = 3\nlearn = \"10s\"\n");
    // Of a group: in others, calls of other programs fail, such as those by which another recorder
    // that starts measures its costs.
    let group = MemoryGroup::make(64 << 20);
    let script = format!(
        "echo $$ > {}/cgroup.procs; exec {} errno $0",
        group.dir().display(),
        bad_end().display()
    );
    let fail = |calls: u32| run(Path::new("/bin/sh"), &["-c", &script, &calls.to_string()]);
    fail(1);
    let is_it = |snapshot: &Value| says(snapshot, "ENAMETOOLONG");
    let (begun, mut total) = (Instant::now(), 1);
    let came = wait_until(PATIENCE, || {
        // A call now and then is what the unit is known for; well after the time that it takes to
        // know it, a storm. Not more than is drained while the snapshot is awaited: all of it
        // must be there.
        let calls = if begun.elapsed() > Duration::from_secs(13) { 2_000 } else { 1 };
        total += calls;
        fail(calls);
        list(&recorder).iter().any(is_it)
    });
    assert!(came, "after {total} calls: {}", recorder.log());
    let snapshot = kept(&recorder, "errors", is_it);
    assert!(says(&snapshot, " times a second, usually "), "{snapshot:#?}");
    let failures = snapshot["summary"]["failures"].as_array().expect("failures");
    let failure = failures.iter().find(|of| of["error"] == "ENAMETOOLONG").expect("the storm");
    assert_eq!(
        (&failure["call"], &failure["thread"]["name"]),
        (&"openat".into(), &"bad_end".into()),
        "{failures:#?}"
    );
    first_is(&snapshot, "bad_end", &snapshot["threads"][0].to_string());
    assert!(!whole(&recorder, id(&snapshot), &["--errno", "ENAMETOOLONG"]).is_empty());
}
