//! The files: whatever happens to the daemon, every event that the probes counted is in them, or in
//! a gap of known size.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flightrec_format::abi::page::Lane;
use flightrec_format::live::{Generation, LiveRings};
use flightrec_format::ring::{Gap, Reason, Rings, Scope};
use flightrec_tests::{
    Files, PATIENCE, Recorder, c_program, die_with_parent, numbered_call, online_cpus, pin_to_cpu,
    wait_until,
};
use jiff::Timestamp;
use nix::sys::signal::Signal;
use nix::unistd::{Group, User, gettid};
use serde_json::Value;

use crate::files::drained;
use crate::json::valid_dump;
use crate::support::{snapshot, start, without_limit};
use crate::unprivileged::USER;

/// Files that roll every few seconds, and are written at once.
pub(crate) const BUSY: &str = "[store]\nkeep_free = \"0B\"\nfile_size = \"1MiB\"\nfile_age = \
                               \"2s\"\nflush_interval = \"200ms\"\nsync_interval = \"500ms\"\n";

/// How long the daemon is killed again and again; the issue asks for ten minutes.
fn seconds() -> u64 {
    std::env::var("FLIGHTREC_STORE_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(12)
}

/// The maps of the recording, kept beyond its end.
pub(crate) fn maps(recorder: &Recorder) -> LiveRings {
    let dir = Generation::find(&recorder.sandbox().bpffs_dir()).expect("a recording");
    LiveRings::open(&dir, false).expect("a recording")
}

/// The store's part of `flightctl status --json`.
pub(crate) fn store(recorder: &Recorder) -> Value {
    let output = recorder.flightctl(&["status", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let mut state: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    state["store"].take()
}

/// Waits until the store is in a state.
pub(crate) fn wait_for(
    recorder: &Recorder,
    what: &str,
    condition: impl Fn(&Value) -> bool,
) -> Value {
    let mut last = Value::Null;
    let came = wait_until(PATIENCE, || {
        last = store(recorder);
        condition(&last)
    });
    assert!(came, "{what}: {last:#}\n{}", recorder.log());
    last
}

pub(crate) fn is(state: &str) -> impl Fn(&Value) -> bool + '_ {
    move |store| store["state"] == state
}

pub(crate) fn read(recorder: &Recorder) -> Files {
    Files::read(&recorder.sandbox().state_dir(), |_| {})
}

/// What is missing of the whole recording, by lane, where the files and the counters are held
/// against each other.
pub(crate) fn missing(files: &Files, recording: &LiveRings) -> [u64; 4] {
    let mut missing = [0; 4];
    for cpu in recording.counters().cpus.iter().filter(|cpu| cpu.recorded) {
        for lane in Lane::RINGS {
            let tally = files.tally(recording.session(), lane, cpu.cpu);
            let counted = cpu.events[lane as usize];
            assert_eq!(
                tally.end,
                counted,
                "CPU {}, lane {}: up to the last event",
                cpu.cpu,
                lane.name()
            );
            for (kind, counted) in counted.iter().enumerate() {
                assert_eq!(tally.present[kind] + tally.missing[kind], *counted, "{tally:?}");
            }
            missing[lane as usize] += tally.missing.iter().sum::<u64>();
        }
    }
    missing
}

/// A bit of everything, on all CPUs, until it is dropped.
pub(crate) struct Load(Vec<Child>);

impl Load {
    pub(crate) fn start(programs: &[&[&str]]) -> Self {
        let spawn = |words: &&[&str]| {
            let mut command = Command::new(words[0]);
            command
                .args(&words[1..])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            die_with_parent(&mut command, Signal::SIGKILL)
                .spawn()
                .unwrap_or_else(|e| panic!("{}: {e}", words[0]))
        };
        Self(programs.iter().map(spawn).collect())
    }

    /// Wakeups, new processes and threads, paths; not more than files can take for ten minutes.
    pub(crate) fn mixed() -> Self {
        let (pingpong, threads) = (c_program("pingpong", &[]), c_program("threads", &[]));
        let threads =
            format!("while :; do {} 20 1; /bin/ls / ; sleep 0.02; done", threads.display());
        let find = "while :; do find /usr/share -maxdepth 2 -newer /etc/passwd; sleep 0.1; done";
        let pingpong = format!("while :; do {} 200 2; sleep 0.02; done", pingpong.display());
        Self::start(&[
            &["/bin/sh", "-c", &pingpong],
            &["/bin/sh", "-c", &threads],
            &["/bin/sh", "-c", find],
        ])
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// For `FLIGHTREC_STORE_SECONDS`: mixed load, files that roll every two seconds, a daemon that is
/// killed at random moments.
#[test]
#[ignore = "long: a campaign of kills"]
fn everything_that_was_counted_is_in_the_files_through_every_death() {
    let mut recorder = start(BUSY);
    let session = snapshot(&recorder).meta.session;
    let recording = maps(&recorder);
    let load = Load::mixed();
    let (mut random, mut deaths, mut calls) = (0x2545_f491_4f6c_dd1d_u64, 0, 0);
    let end = Instant::now() + Duration::from_secs(seconds());
    while Instant::now() < end {
        // xorshift64: any moment of a file's life, from its first block to its end.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let until = Instant::now() + Duration::from_millis(random % 3000);
        while Instant::now() < until {
            numbered_call(calls);
            calls += 1;
            std::thread::sleep(Duration::from_millis(5));
        }
        recorder.kill();
        deaths += 1;
        recorder.restart();
    }
    drop(load);
    recorder.stop();
    assert_eq!(recording.session(), session);

    let mut rings = Rings::new(session);
    let long = seconds() > 60; // then only the counts: the pages would not fit into memory
    let files = Files::read(&recorder.sandbox().state_dir(), |page| {
        if !long {
            assert!(rings.add(page.clone()));
        }
    });
    let totals = recording.counters();
    let counted: u64 = totals.cpus.iter().flat_map(|cpu| cpu.events.iter().flatten()).sum();
    let missing = missing(&files, &recording);
    eprintln!(
        "{deaths} deaths, {} files, {} of them closed, {counted} events counted, {missing:?} \
         overwritten",
        files.paths.len(),
        files.complete
    );
    assert_eq!(files.sessions, [session]);
    assert!(files.paths.len() > deaths, "{} files, {deaths} deaths", files.paths.len());
    assert!(deaths >= 3 && counted > 20_000 * seconds(), "{deaths} deaths, {counted} events");
    // On a machine that others flood, the rings of a dead daemon may be overwritten; it is then
    // known how much. A block that a kill cut off is all that may be hurt.
    assert!(files.damage.len() <= deaths, "{:#?}", files.damage);
    // The product's own reading comes to the same: nothing twice, nothing missing.
    let told = numbered(&recorder);
    assert!(told.is_sorted_by(|a, b| a < b), "no call twice, in order");
    assert!(
        missing[0] > 0 || told == (0..calls).collect::<Vec<_>>(),
        "every call: {} of {calls}",
        told.len()
    );
    if long {
        return;
    }
    let streams = rings.finish();
    let mut told = [0; 4];
    for stream in &streams {
        let scope = Scope { until: u64::MAX, totals: Some(&totals), ..Scope::default() };
        let coverage = stream.coverage(&scope);
        let impossible = [Reason::Damaged, Reason::Newer];
        assert!(
            !coverage.gaps.iter().any(|gap| impossible.contains(&gap.reason)),
            "{:#?}",
            coverage.gaps
        );
        let lost: u64 = coverage.gaps.iter().filter_map(Gap::missing).sum();
        told[stream.lane() as usize] += lost;
        let cpu = totals.cpus.iter().find(|cpu| cpu.cpu == stream.cpu()).expect("a CPU");
        let counted: u64 = cpu.events[stream.lane() as usize].iter().sum();
        assert_eq!(
            stream.recorded().iter().sum::<u64>() + lost,
            counted,
            "lane {}",
            stream.lane().name()
        );
    }
    assert_eq!(told, missing, "every gap is told");
}

/// The numbered calls of this thread, in the order in which `flightctl dump` shows them out of the
/// files.
fn numbered(recorder: &Recorder) -> Vec<u32> {
    let (dir, me) = (recorder.sandbox().state_dir(), gettid().to_string());
    let mut dump = recorder.flightctl_command();
    dump.args([
        "dump",
        "--all",
        "--format",
        "jsonl",
        "--event",
        "sys_enter",
        "--syscall",
        "getpgid",
        "--tid",
        &me,
    ]);
    let output = dump.arg("--store").arg(dir).output().expect("flightctl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let events = lines.map(|line| serde_json::from_slice::<Value>(line).expect("JSON"));
    let numbers = events.filter_map(|event| event["args"][0]["value"].as_u64());
    numbers
        .map(|number| {
            u32::try_from(number).ok().and_then(|n| n.checked_sub(5_000_000)).expect("a number")
        })
        .collect()
}

#[test]
fn a_clean_end_and_a_kept_recording_leave_no_hole() {
    let mut recorder = start(BUSY);
    let recording = maps(&recorder);
    recorder.options_mut().args.push("--keep-recording".into());
    recorder.restart(); // which ended the first recording
    let kept = maps(&recorder);
    assert_ne!(recording.session(), kept.session());
    numbered_call(1);
    recorder.stop();
    numbered_call(2);
    recorder.options_mut().args.clear();
    recorder.restart();
    numbered_call(3);
    recorder.stop();

    let files = read(&recorder);
    assert_eq!(files.sessions, [recording.session(), kept.session()]);
    for session in [&recording, &kept] {
        assert_eq!(missing(&files, session), [0; 4]);
    }
    assert_eq!(
        (files.complete, &files.damage),
        (files.paths.len(), &Vec::new()),
        "every file was closed"
    );
}

#[test]
fn what_a_replaced_recording_held_is_not_lost() {
    // Room for what the machine does, other tests included, while there is no daemon.
    let rings = |syscall| {
        format!(
            "[rings]\nsyscall = \"{syscall}\"\nsched = \"64MiB\"\nmax_total = \"1GiB\"\n\
             max_ram_percent = 50\n{BUSY}"
        )
    };
    let mut recorder = start(&rings("64MiB"));
    let old = maps(&recorder);
    recorder.kill();
    for n in 0..1000 {
        numbered_call(n);
    }
    recorder.options_mut().config = without_limit(&rings("32MiB"));
    recorder.restart();
    let new = maps(&recorder);
    assert_ne!(old.session(), new.session());
    recorder.stop();
    let files = read(&recorder);
    assert_eq!(files.sessions, [old.session(), new.session()]);
    for session in [&old, &new] {
        assert_eq!(missing(&files, session), [0; 4]);
    }
}

/// Rings that are too small for what happens: the files lack what was overwritten, and everybody
/// says how much.
#[test]
fn what_was_overwritten_is_counted() {
    let small = "[rings]\nsyscall = \"64KiB\"\nsched = \"64KiB\"\ntask = \"64KiB\"\n";
    let mut recorder = start(&format!("{small}{BUSY}"));
    let recording = maps(&recorder);
    let load = Load::start(&[&["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=1000000"]]);
    let lost = wait_for(&recorder, "events are lost", |store| {
        store["lost_events"]["syscall"].as_u64() > Some(100_000)
    });
    drop(load);
    // After a round without a flood both know the same.
    let before = store(&recorder)["written_events"]["syscall"].as_u64();
    wait_for(&recorder, "a further round", |store| {
        store["written_events"]["syscall"].as_u64() > before
    });
    let said = store(&recorder)["lost_events"].clone();
    recorder.stop();
    let files = read(&recorder);
    let missing = missing(&files, &recording);
    assert!(
        missing[0] >= lost["lost_events"]["syscall"].as_u64().expect("a number"),
        "{missing:?}, {said}"
    );
    assert!(said["syscall"].as_u64().expect("a number") <= missing[0], "{missing:?}, {said}");
    // What is missing stands in gaps that are told with the same count.
    let mut rings = Rings::new(recording.session());
    Files::read(&recorder.sandbox().state_dir(), |page| assert!(rings.add(page.clone())));
    let mut told = [0; 4];
    for stream in rings.finish() {
        let scope = Scope { until: u64::MAX, ..Scope::default() };
        let gaps = stream.coverage(&scope).gaps;
        told[stream.lane() as usize] += gaps.iter().filter_map(Gap::missing).sum::<u64>();
    }
    assert_eq!(told, missing);
}

/// A `cat` that waits for its input, and since when; `None`: that it waits was lost.
fn waiting_cat(recorder: &Recorder) -> Option<(Child, Instant)> {
    let mut cat =
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat");
    let stat = format!("/proc/{}/stat", cat.id());
    let sleeps = || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S "));
    assert!(wait_until(PATIENCE, sleeps), "it does not wait for its input");
    let asleep = Instant::now();
    // What is missing begins after the last event before it: not at the beginning of that wait.
    for cpu in online_cpus() {
        let others = move || {
            pin_to_cpu(cpu);
            (0..100).for_each(numbered_call);
        };
        std::thread::spawn(others).join().expect("calls");
    }
    drained(recorder);
    let tid = cat.id().to_string();
    let events = ["--event", "sys_enter,sys_exit", "--syscall", "read", "--tid", &tid, "--all"];
    let dump = recorder.flightctl(&[&["dump", "--format", "jsonl"], &events[..]].concat());
    let is_entered = String::from_utf8_lossy(&dump.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .rfind(|event| event["event"] != "coverage")
        .is_some_and(|event| event["event"] == "sys_enter");
    if !is_entered {
        cat.kill().and_then(|()| cat.wait()).expect("cat");
    }
    is_entered.then_some((cat, asleep))
}

/// An exit after a loss may be of another call than the entry before it: then no duration is told,
/// unless the thread did not run meanwhile.
#[test]
fn no_call_takes_as_long_as_what_is_missing_in_it() {
    let mut recorder = start(&format!("[rings]\nsyscall = \"64KiB\"\nsched = \"32MiB\"\n{BUSY}"));
    // What the recorder measured at its start has gone through these rings.
    drained(&recorder);
    // Others make calls as well: in rings as small as these, the beginning of its wait may be lost.
    let (mut cat, asleep) = (0..20)
        .find_map(|_| waiting_cat(&recorder))
        .expect("the beginning of a wait is in the files");
    let dd: &[&str] = &["dd", "if=/dev/zero", "of=/dev/null", "bs=1"];
    let load = Load::start(&vec![dd; online_cpus().len()]);
    // Each of these sleeps has an entry and an exit that are recorded apart.
    let moment = || Timestamp::now().to_string();
    let (since, mut longest) = (moment(), Duration::ZERO);
    let are_lost = || store(&recorder)["lost_events"]["syscall"].as_u64() > Some(1_000_000);
    let mut looked = Instant::now();
    while looked.elapsed() < Duration::from_millis(500) || !are_lost() {
        let begun = Instant::now();
        std::thread::sleep(Duration::from_millis(1));
        longest = longest.max(begun.elapsed());
        if looked.elapsed() > Duration::from_secs(1) {
            looked = Instant::now();
        }
    }
    let until = moment();
    drop(load);
    let slept = asleep.elapsed();
    drop(cat.stdin.take());
    assert!(cat.wait().expect("wait").success());
    recorder.stop();
    let durations = |tid: u32, call: &str, window: &[&str]| -> Vec<Duration> {
        let args = ["--event", "sys_exit", "--syscall", call, "--tid", &tid.to_string()];
        let exits = valid_dump(&recorder, &[&args[..], window].concat()).into_iter();
        exits.filter_map(|exit| exit["duration_ns"].as_u64()).map(Duration::from_nanos).collect()
    };
    let window = ["--since", &since, "--until", &until];
    let shown = durations(gettid().as_raw() as u32, "clock_nanosleep", &window);
    let is_right = |took: &Duration| *took <= longest;
    assert!(shown.iter().all(is_right), "{longest:?} {shown:?}");
    let read = durations(cat.id(), "read", &["--all"]).into_iter().max();
    assert!(read >= Some(slept), "{read:?}, asleep for {slept:?}");
}

#[test]
fn files_are_for_the_group_and_nobody_else() {
    // One that every machine has, under this name or that.
    let user = User::from_name(USER).expect("users").expect("nobody");
    let group = Group::from_gid(user.gid).expect("groups").expect("its group");
    let mut recorder = start(&format!("{BUSY}[access]\ngroup = {:?}\n", group.name));
    wait_for(&recorder, "a file", |store| store["file"].is_string());
    recorder.stop();
    let wanted = group.gid.as_raw();
    let files = read(&recorder);
    assert!(!files.paths.is_empty());
    for path in &files.paths {
        for (path, mode) in
            [(path.as_path(), 0o640), (path.parent().expect("a boot's directory"), 0o750)]
        {
            let metadata = std::fs::metadata(path).expect("it is there");
            assert_eq!(
                (metadata.permissions().mode() & 0o777, metadata.gid()),
                (mode, wanted),
                "{}",
                path.display()
            );
        }
    }
}

#[test]
fn no_files_where_none_are_wanted() {
    let mut recorder = start("[store]\nenabled = false\n");
    numbered_call(1);
    assert_eq!(store(&recorder)["state"], "off");
    assert!(Files::read(&recorder.sandbox().state_dir(), |_| {}).paths.is_empty());
    recorder.stop();
}

/// A daemon ends as soon as it is told to, also where it has just much to write.
#[test]
fn the_last_events_are_written_at_the_end() {
    let mut recorder =
        start("[store]\nkeep_free = \"0B\"\nflush_interval = \"10m\"\nsync_interval = \"1h\"\n");
    let recording = maps(&recorder);
    numbered_call(1);
    recorder.stop();
    let files = read(&recorder);
    assert_eq!((files.paths.len(), files.complete), (1, 1));
    assert_eq!(missing(&files, &recording), [0; 4]);
}
