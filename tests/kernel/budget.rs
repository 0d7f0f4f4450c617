//! The budget: what the probes refuse is counted, call by call; scheduling does not pay for system
//! calls; it holds with no daemon alive; and what is given up for it is said, right, and taken
//! back.

use std::io::{Read, Write};
use std::mem::offset_of;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{DETACHED_SHIFT, Lane, RING_LANES, Refusal};
use flightrec_format::abi::record::{Act, counter, kind};
use flightrec_format::abi::state::{
    Bucket, CpuState, GIVEN_ALL, GIVEN_ARGUMENTS, GIVEN_EXIT_TIMES, GIVEN_SAMPLING, GIVEN_STRINGS,
    GIVEN_SYSCALLS, LIMIT_SYSCALL, REFUSE_SYSCALL,
};
use flightrec_format::control::{self, Request, SOCKET_NAME};
use flightrec_format::decode::{Body, Event};
use flightrec_format::live::{Generation, LiveRings};
use flightrec_format::ring::{LaneStream, Reason};
use flightrec_tests::{
    PATIENCE, Recorder, Snapshot, c_program, monotonic_ns, online_cpus, parse_cpu_list, pin_to_cpu,
    wait_until,
};

use crate::support::{run, snapshot, start};

/// 1 % of a CPU, and no more than 10 ms of it at once.
const LIMITED: &str = "[budget]\ntotal = \"off\"\nper_cpu = \"1%\"\nburst = \"1s\"\n";
/// Far more calls than 1 % of a CPU pays for.
const CALLS: u64 = 1_000_000;

/// A loop of getppid on the last CPU; its process id.
fn hog() -> u32 {
    calls(CALLS, *online_cpus().last().expect("a CPU"))
}

/// So many getppid on this CPU; the id of the process that made them.
fn calls(count: u64, cpu: usize) -> u32 {
    run(&c_program("storm", &[]), &["calls", &cpu.to_string(), &count.to_string()]).id("pid")
}

/// Events of system calls by kind (entry, exit): recorded, and refused by the budget.
fn syscalls(snapshot: &Snapshot) -> ([u64; 2], [u64; 2]) {
    let (mut recorded, mut refused) = ([0; 2], [0; 2]);
    for cpu in &snapshot.totals.cpus {
        for kind in 0..2 {
            recorded[kind] += cpu.events[Lane::Syscall as usize][kind];
            refused[kind] += cpu.throttled[Lane::Syscall as usize][kind];
        }
    }
    (recorded, refused)
}

/// Where stacks are among the kinds of lane `sched`.
const STACKS: usize = counter(kind::STACK);

/// What every throttled recording must hold: totals agree, pages tell of all that is missing, no
/// call is half there.
fn is_sound(recorder: &Recorder, snapshot: &Snapshot) {
    let live = LiveRings::open(
        &Generation::find(&recorder.sandbox().bpffs_dir()).expect("a recording"),
        false,
    );
    let live = live.expect("a recording");
    let mut differing: Vec<(u16, Lane)> = live
        .cpus()
        .into_iter()
        .flat_map(|cpu| [(cpu, Lane::Syscall), (cpu, Lane::Sched)])
        .collect();
    // Counters are read one after the other, and others' calls go on being refused meanwhile: they
    // agree in some reading, and if one of them missed an event, in none.
    wait_until(PATIENCE, || {
        let totals = live.counters();
        differing.retain(|(number, lane)| {
            let cpu = totals.cpus.iter().find(|cpu| cpu.cpu == *number).expect("a CPU with rings");
            let throttled = cpu.refused[*lane as usize][Refusal::Throttled as usize];
            // A stack that was refused is one of these, and its event is recorded.
            let of_kinds = cpu.throttled[*lane as usize].iter().enumerate();
            let of_events = of_kinds.filter(|(kind, _)| *lane != Lane::Sched || *kind != STACKS);
            throttled != of_events.map(|(_, count)| count).sum::<u64>()
        });
        differing.is_empty()
    });
    assert_eq!(differing, [], "refused is not the sum of its kinds");
    for stream in &snapshot.streams {
        assert_eq!(stream.damage().next(), None);
        for gap in stream.gaps() {
            assert_ne!(gap.reason, Reason::Damaged, "{gap:?}");
        }
    }
}

/// Entries and exits of a process that are decoded, and exits among them that no entry is for.
fn decoded(snapshot: &Snapshot, tid: u32) -> (u64, u64, u64) {
    let (mut enters, mut exits, mut alone, mut open) = (0, 0, 0, false);
    for event in snapshot.of(tid) {
        match event.body {
            Body::Enter(_) => {
                assert!(!open, "the exit of a recorded entry is missing before {event:?}");
                (enters, open) = (enters + 1, true);
            }
            Body::Exit { .. } => {
                alone += u64::from(!open);
                (exits, open) = (exits + 1, false);
            }
            _ => {}
        }
    }
    (enters, exits, alone)
}

#[test]
fn a_hogs_calls_are_recorded_or_counted() {
    let recorder = start(LIMITED);
    let before = syscalls(&snapshot(&recorder));
    let tid = hog();
    let after = snapshot(&recorder);
    is_sound(&recorder, &after);
    let (recorded, refused) = syscalls(&after);
    let more = |kind: usize| (recorded[kind] - before.0[kind], refused[kind] - before.1[kind]);
    let (enters, exits) = (more(0), more(1));
    // Other processes make calls as well, so the sum is at least the hog's; its own are counted
    // below.
    assert!(enters.0 + enters.1 >= CALLS && exits.0 + exits.1 >= CALLS, "{enters:?} {exits:?}");
    assert!(
        enters.1 > CALLS / 2 && exits.1 > CALLS / 2,
        "the limit was not felt: {enters:?} {exits:?}"
    );
    let (decoded_enters, decoded_exits, alone) = decoded(&after, tid);
    assert!(decoded_enters > 0 && decoded_enters < CALLS, "{decoded_enters}");
    // An exit alone is that of a call within which the thread lost its CPU.
    assert!(
        decoded_exits >= decoded_enters && decoded_exits - decoded_enters <= alone,
        "{decoded_exits} exits, {alone} alone"
    );
    // Scheduling has its own allowance, and did not pay, whatever else happens on this CPU.
    let cpu = *online_cpus().last().expect("a CPU");
    let totals = after.totals.cpus.iter().find(|of| usize::from(of.cpu) == cpu).expect("its CPU");
    let sum = |of: &[Counts; RING_LANES]| of[Lane::Sched as usize].total();
    let (switches, throttled) = (sum(&totals.events), sum(&totals.throttled));
    assert!(throttled < switches, "{throttled} beside {switches} scheduling events");
}

/// Alone on its CPU, with nobody else recorded there: to the call.
#[test]
fn decoded_and_refused_are_what_was_called() {
    let recorder = start(LIMITED);
    let cpu = *online_cpus().last().expect("a CPU");
    pin_to_cpu(cpu);
    let dir = Generation::find(&recorder.sandbox().bpffs_dir()).expect("a recording");
    let recording = LiveRings::open(&dir, false).expect("a recording");
    // The counters are read and written on this CPU, in this thread, with no system call between:
    // but for the calls of others that are switched in, which the streams show.
    let count = |at: usize| recording.maps().state.load(cpu, at);
    let events =
        offset_of!(CpuState, lanes) + offset_of!(flightrec_format::abi::state::LaneState, events);
    let throttled = offset_of!(CpuState, throttled);
    let enters = || count(events) + count(throttled);
    let switches = offset_of!(CpuState, lanes)
        + Lane::Sched as usize * size_of::<flightrec_format::abi::state::LaneState>()
        + offset_of!(flightrec_format::abi::state::LaneState, events);
    let mut undisturbed = 0;
    for _ in 0..2000 {
        let (switched, before) = (count(switches), enters());
        for _ in 0..1000 {
            nix::unistd::getppid();
        }
        let (made, same) = (enters() - before, count(switches) == switched);
        if same {
            assert_eq!(made, 1000);
            undisturbed += 1;
        }
    }
    assert!(undisturbed > 0, "this thread was never alone on its CPU for a millisecond");
    assert!(count(throttled) > 500_000, "{} refused", count(throttled));
}

#[test]
fn the_limit_holds_without_a_daemon() {
    let mut recorder = start(LIMITED);
    recorder.kill();
    let (began, before) = (monotonic_ns(), syscalls(&snapshot(&recorder)));
    hog();
    let after = snapshot(&recorder);
    let (recorded, refused) = syscalls(&after);
    assert!(refused[0] - before.1[0] > CALLS / 2, "{} refused", refused[0] - before.1[0]);
    // What was recorded cost no more than what may be spent at once and 1 % of the time.
    let live = LiveRings::open(
        &Generation::find(&recorder.sandbox().bpffs_dir()).expect("a recording"),
        false,
    );
    let budget = live.expect("a recording").budget();
    let spent = (recorded[0] - before.0[0]) * u64::from(budget.call);
    let burst_and_jiffies = 1_100_000_000;
    let cpu =
        (monotonic_ns() - began + burst_and_jiffies) * u64::from(budget.limits[0]) / 1_000_000;
    let most = cpu * after.totals.cpus.len() as u64;
    assert!(
        spent < most,
        "{} entries, {} ns each, are more than {most} ns",
        recorded[0] - before.0[0],
        budget.call
    );
    is_sound(&recorder, &after);
}

#[test]
fn the_next_daemon_keeps_it() {
    let mut recorder = start(LIMITED);
    hog();
    recorder.kill();
    let costs = of_state(&recorder);
    recorder.restart();
    let ([before, held @ ..], [rate, now @ ..]) = (costs, of_state(&recorder));
    assert_eq!(now, held, "limits and costs are those of the recording");
    // What refused calls take of the allowance changes with them.
    assert!(rate >= before, "{rate} ns a jiffy, {before} before");
    let output = recorder.flightctl(&["status"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("0.6 % of each CPU for system calls, 0.4 % for scheduling"), "{said}");
    assert!(said.contains("events refused by the budget (sys_enter "), "{said}");
}

/// Rate, depth and costs of the bucket for system calls of the CPU that [`hog`] uses.
fn of_state(recorder: &Recorder) -> [u64; 3] {
    let dir = Generation::find(&recorder.sandbox().bpffs_dir()).expect("a recording");
    let recording = LiveRings::open(&dir, false).expect("a recording");
    let cpu = *online_cpus().last().expect("a CPU");
    let at = |field: usize| recording.maps().state.load(cpu, offset_of!(CpuState, buckets) + field);
    [at(offset_of!(Bucket, rate)), at(offset_of!(Bucket, depth)), at(offset_of!(Bucket, cost))]
}

#[test]
fn coverage_says_what_was_refused() {
    let recorder = start(LIMITED);
    hog();
    let output = recorder.flightctl(&["dump", "--all", "--strict", "-o", "/dev/null"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    for words in ["INCOMPLETE", "events refused", "throttled", "events refused by the budget"] {
        assert!(said.contains(words), "no {words:?} in:\n{said}");
    }
}

/// A burst within a quiet time is recorded in full, by default.
#[test]
fn a_burst_is_recorded_in_full() {
    let recorder = start("[budget]\ntotal = \"off\"\nper_cpu = \"5%\"\n");
    let before = monotonic_ns();
    let tid = calls(30_000, *online_cpus().last().expect("a CPU"));
    let snapshot = snapshot(&recorder);
    snapshot.assert_complete(before, monotonic_ns().min(snapshot.copied));
    assert!(snapshot.calls_named(tid, "getppid").len() >= 30_000);
}

/// The word of switches on a CPU.
fn switches(recorder: &Recorder, cpu: usize) -> u32 {
    let dir = Generation::find(&recorder.sandbox().bpffs_dir()).expect("a recording");
    LiveRings::open(&dir, false)
        .expect("a recording")
        .maps()
        .state
        .load(cpu, offset_of!(CpuState, enabled)) as u32
}

/// The recorder's own lines in a dump.
fn acts(recorder: &Recorder) -> String {
    String::from_utf8_lossy(&recorder.flightctl(&["dump", "--all", "--event", "recorder"]).stdout)
        .into_owned()
}

/// A getppid loop without end, until it is dropped.
struct Hog(std::process::Child);

impl Hog {
    fn start(cpu: usize) -> Self {
        let mut command = std::process::Command::new(c_program("storm", &[]));
        command.args(["calls", &cpu.to_string()]);
        Self(
            flightrec_tests::die_with_parent(&mut command, nix::sys::signal::Signal::SIGKILL)
                .spawn()
                .expect("hog"),
        )
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Whether a line tells this of a CPU, by itself or together with others, where something else has
/// kept these as busy.
fn tells(said: &str, cpu: usize, what: &str) -> bool {
    let cpus = |line: &str| {
        let (_, line) = line.split_once("(RECORDER) CPU")?;
        let cpus = line.strip_suffix(what)?.strip_suffix(": ")?;
        parse_cpu_list(cpus.trim_start_matches('s').trim())
    };
    said.lines().filter_map(cpus).any(|cpus| cpus.contains(&cpu))
}

#[test]
#[ignore = "long: steps of 5 s"]
fn a_cpu_gives_up_in_order_says_so_and_takes_it_back() {
    let order = [GIVEN_STRINGS, GIVEN_EXIT_TIMES, GIVEN_ARGUMENTS, GIVEN_SAMPLING, GIVEN_SYSCALLS];
    let all = "degrade_order = [\"no_strings\", \"untimed_exits\", \"fewer_arguments\", \"sampling\", \
         \"quiet_only\"]\n";
    let mut recorder = start(&format!("{LIMITED}{all}"));
    let cpu = *online_cpus().last().expect("a CPU");
    let hog = Hog::start(cpu);
    let given = |recorder: &Recorder| switches(recorder, cpu) & GIVEN_ALL;
    assert!(
        wait_until(PATIENCE, || given(&recorder) & GIVEN_SYSCALLS != 0),
        "{:#x}",
        given(&recorder)
    );
    assert_eq!(given(&recorder), order.iter().fold(0, |all, bit| all | bit));
    let said = acts(&recorder);
    assert!(
        tells(
            &said,
            cpu,
            "level 5: no_strings, untimed_exits, fewer_arguments, sampling, quiet_only"
        ),
        "{said}"
    );
    let status: serde_json::Value =
        serde_json::from_slice(&recorder.flightctl(&["status", "--json"]).stdout).expect("JSON");
    assert_eq!(status["level"], "quiet_only");
    // A daemon that dies leaves it as it is, and the next one goes on from there.
    recorder.kill();
    assert_eq!(given(&recorder) & GIVEN_SYSCALLS, GIVEN_SYSCALLS);
    recorder.restart();
    assert_eq!(given(&recorder) & GIVEN_SYSCALLS, GIVEN_SYSCALLS);
    drop(hog);
    // Whatever else runs on this CPU fits now.
    assert!(recorder.flightctl(&["budget", "set", "--per-cpu", "90%"]).status.success());
    assert!(wait_until(PATIENCE, || given(&recorder) == 0), "{:#x}", given(&recorder));
    let said = acts(&recorder);
    assert!(tells(&said, cpu, "level 0: everything is recorded"), "{said}");
    is_sound(&recorder, &snapshot(&recorder));
}

/// What is given up shows in what is recorded, and what is recorded is right.
#[test]
fn what_a_step_leaves() {
    let recorder = start("");
    let dir = Generation::find(&recorder.sandbox().bpffs_dir()).expect("a recording");
    let recording = LiveRings::open(&dir, true).expect("a recording");
    let cpu = *online_cpus().last().expect("a CPU");
    let word = recording.maps().state.load(cpu, 0);
    // By hand: without a limit the keeper has nothing to say.
    let set =
        |given: u32| recording.maps().state.write(cpu, 0, &(word | u64::from(given)).to_le_bytes());
    pin_to_cpu(cpu);
    let tid = nix::unistd::gettid().as_raw() as u32;
    let open = |name: &std::ffi::CStr| {
        // SAFETY: a string with its NUL; there is no such file.
        assert_eq!(unsafe { libc::openat(libc::AT_FDCWD, name.as_ptr(), libc::O_RDONLY, 0) }, -1);
    };
    let names =
        [c"/flightrec-0", c"/flightrec-1", c"/flightrec-2", c"/flightrec-3", c"/flightrec-4"];
    let steps = [0, GIVEN_STRINGS, GIVEN_EXIT_TIMES, GIVEN_ARGUMENTS, REFUSE_SYSCALL];
    let before = monotonic_ns();
    for (name, given) in names.iter().zip(steps) {
        set(given);
        for _ in 0..20 {
            open(name);
        }
    }
    set(0);
    let after = monotonic_ns();
    let snapshot = snapshot(&recorder);
    // This thread opens files before and after that, too.
    let mut calls = snapshot.calls_named(tid, "openat");
    calls.retain(|call| call.enter.is_some_and(|(at, _)| (before..after).contains(&at)));
    // The last step refused all of its calls, entry and exit.
    assert_eq!(calls.len(), 80);
    assert!(
        snapshot.totals.cpus[cpu].throttled[Lane::Syscall as usize]
            .iter()
            .take(2)
            .all(|n| *n >= 20)
    );
    for (i, call) in calls.iter().enumerate() {
        assert_eq!(call.string(1).is_some(), i / 20 != 1, "strings of call {i}");
        assert_eq!(call.args().len(), if i / 20 == 3 { 1 } else { 4 }, "arguments of call {i}");
        assert_eq!(call.ret, Some(-i64::from(libc::ENOENT)), "result of call {i}");
    }
    // A call that was not interrupted is not timed; one that was is, by its exit's own record.
    let is_untimed = |call: &&flightrec_tests::MadeCall<'_>| {
        call.enter.map(|(at, _)| at) == call.exit.map(|(at, _)| at)
    };
    let untimed = |calls: &[flightrec_tests::MadeCall<'_>]| calls.iter().filter(is_untimed).count();
    assert_eq!(untimed(&calls[..40]), 0);
    assert!(untimed(&calls[40..60]) >= 15, "{}", untimed(&calls[40..60]));
}

#[test]
fn system_calls_are_detached_and_attached_again() {
    detaches_and_attaches("tp_btf");
}

#[test]
#[ignore = "long: as its neighbour, by other programs"]
fn classic_programs_are_detached_and_attached_again() {
    detaches_and_attaches("tracepoint");
}

const DETACHED: &str = "system calls are detached on all CPUs";
const ATTACHED: &str = "system calls are attached on all CPUs";

fn detaches_and_attaches(form: &str) {
    let budget = "[budget]\ntotal = \"0.5%\"\nper_cpu = \"off\"\nburst = \"1s\"\n";
    let mut recorder = start(&format!("{budget}[kernel]\nsyscall_programs = \"{form}\"\n"));
    let hogs: Vec<Hog> = online_cpus().into_iter().map(Hog::start).collect();
    let links = || {
        let dir =
            Generation::find(&recorder.sandbox().bpffs_dir()).expect("a recording").join("links");
        ["sys_enter", "sys_exit"].map(|link| dir.join(link).exists())
    };
    assert!(wait_until(PATIENCE, || links() == [false; 2]), "never detached");
    // They are attached for a tenth of a second, which a look now and then misses.
    let detached_twice = || {
        let said = acts(&recorder);
        said.matches(DETACHED).count() >= 2 && said.contains(ATTACHED)
    };
    assert!(wait_until(PATIENCE, detached_twice), "never attached and detached again");
    // A daemon that dies meanwhile leaves it so; the next one attaches, and the recording goes on.
    let session = snapshot(&recorder).meta.session;
    recorder.kill();
    drop(hogs);
    recorder.restart();
    let links = || {
        let dir =
            Generation::find(&recorder.sandbox().bpffs_dir()).expect("a recording").join("links");
        ["sys_enter", "sys_exit"].map(|link| dir.join(link).exists())
    };
    assert!(wait_until(PATIENCE, || links() == [true; 2]), "not attached by the next daemon");
    // They stay attached, whatever else this machine does.
    assert!(recorder.flightctl(&["budget", "set", "off"]).status.success());
    let refuses = || switches(&recorder, 0) & (LIMIT_SYSCALL | GIVEN_ALL) != 0;
    assert!(
        wait_until(PATIENCE, || links() == [true; 2] && !refuses()),
        "limited without a budget"
    );
    let tid = calls(100, 0);
    let after = snapshot(&recorder);
    assert_eq!(after.meta.session, session);
    assert_eq!(after.calls_named(tid, "getppid").len(), 100);
    headers_tell_it_too(&recorder);
    let said = acts(&recorder);
    for words in [DETACHED, ATTACHED] {
        assert!(said.contains(words), "no {words:?} in\n{said}");
    }
    let output = recorder.flightctl(&["dump", "--all", "--strict", "-o", "/dev/null"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("system calls were detached on all CPUs for "), "{said}");
}

/// Readers keep flightd busy. Calls cost what the total allows without them: nothing is given up
/// for readers.
#[test]
#[ignore = "long: minutes of load"]
fn nothing_is_given_up_for_readers() {
    let recorder = start("[budget]\ntotal = \"off\"\nper_cpu = \"off\"\nburst = \"1s\"\n");
    let account = || -> serde_json::Value {
        serde_json::from_slice(&recorder.flightctl(&["budget", "--json"]).stdout).expect("JSON")
    };
    let now = |json: &serde_json::Value, part: &str| {
        json["spent"]["now"][part].as_f64().unwrap_or_default()
    };
    let _hog = Hog::start(online_cpus().into_iter().next().expect("a CPU"));
    let second = Duration::from_secs(1);
    let costs = (0..5).map(|_| {
        std::thread::sleep(second);
        now(&account(), "all_percent")
    });
    let total = (costs.fold(0.0, f64::max) * 1.25).min(90.0);
    assert!(recorder.flightctl(&["budget", "set", &format!("{total:.1}%")]).status.success());
    std::thread::sleep(2 * second);
    let given =
        |json: &serde_json::Value| json["level"] != "full" || json["detached_seconds"] != 0.0;
    assert!(!given(&account()), "given up with no reader: {}", account());

    let (mut most, begun) = (0.0f64, std::time::Instant::now());
    let socket = recorder.sandbox().runtime_dir().join(SOCKET_NAME);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut stream = UnixStream::connect(&socket).expect("flightd");
                let everything = control::encode(&Request::Pages { from: 0, until: u64::MAX })
                    .expect("a request");
                stream.write_all(&everything.repeat(1000)).expect("asked");
                let mut buffer = vec![0; 1 << 20];
                while begun.elapsed() < 8 * second {
                    assert!(stream.read(&mut buffer).expect("an answer") > 0);
                }
            });
        }
        while begun.elapsed() < 8 * second {
            let account = account();
            most = most.max(now(&account, "readers_percent"));
            assert!(!given(&account), "given up for readers, of {total} %: {account}");
            std::thread::sleep(second / 5);
        }
    });
    assert!(most > 10.0, "readers cost {most} %, too little to tell");
}

/// For how long system calls were detached stands in headers of pages as in the recorder's own
/// lines, which may be lost: once the daemon has counted that time, which it does every 250 ms where
/// it gets a CPU, and a page was opened after that.
fn headers_tell_it_too(recorder: &Recorder) {
    let mut told = (0, 0, 0);
    let agree = wait_until(PATIENCE, || {
        run(&c_program("pingpong", &[]), &["2000", "4", "0", "0"]);
        told = detached(&snapshot(recorder));
        let (times, by_lines, by_headers) = told;
        by_lines.abs_diff(by_headers) < 500_000_000 + 100_000_000 * times
    });
    assert!(agree, "{} times, {} ns by lines, {} by headers", told.0, told.1, told.2);
}

/// How often system calls were detached, and for how long, ns: by lines, and by headers.
fn detached(snapshot: &Snapshot) -> (u64, u64, u64) {
    let act = |wanted: Act| {
        let is =
            move |event: &&Event| matches!(event.body, Body::Act(act, _) if act == wanted as u16);
        snapshot.events.iter().filter(is).map(|event| event.time).collect::<Vec<u64>>()
    };
    let (detached, attached) = (act(Act::Detached), act(Act::Attached));
    // They may be detached again by now; attaching that is tried again, by the next daemon too, has
    // a line of its own.
    let until =
        |from: &u64| attached.iter().find(|until| *until > from).unwrap_or(&snapshot.copied);
    let by_lines: u64 = detached.iter().map(|from| until(from).saturating_sub(*from)).sum();
    let pages = snapshot.streams.iter().flat_map(LaneStream::pages);
    let by_headers = pages
        .map(|page| u64::from(page.header().detached) << DETACHED_SHIFT)
        .max()
        .expect("a page");
    (detached.len() as u64, by_lines, by_headers)
}

#[test]
fn the_budget_is_told_and_set_at_run_time() {
    let recorder = start("");
    let account = |recorder: &Recorder| -> serde_json::Value {
        serde_json::from_slice(&recorder.flightctl(&["budget", "--json"]).stdout).expect("JSON")
    };
    assert!(account(&recorder)["budget"]["total_percent"].is_null());
    let output = recorder.flightctl(&["budget", "set", "7%", "--per-cpu", "3%"]);
    assert!(output.status.success(), "{output:?}");
    let cpu = *online_cpus().last().expect("a CPU");
    let limited = || switches(&recorder, cpu) & LIMIT_SYSCALL != 0;
    assert!(wait_until(PATIENCE, || account(&recorder)["per_cpu_percent"] == 3.0 && limited()));
    let told = account(&recorder);
    assert_eq!(told["budget"]["total_percent"], 7.0);
    assert!(told["cpus"][0]["limit_percent"].as_f64().is_some_and(|limit| limit <= 3.0), "{told}");
    let spent = |json: &serde_json::Value| {
        json["spent"]["start"]["overhead_percent"].as_f64().unwrap_or_default()
    };
    calls(100_000, cpu);
    assert!(wait_until(PATIENCE, || spent(&account(&recorder)) > 0.0));
    let output = recorder.flightctl(&["budget", "set", "off", "--per-cpu", "off"]);
    assert!(output.status.success() && wait_until(PATIENCE, || !limited()), "{output:?}");
}
