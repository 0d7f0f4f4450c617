//! Requests to disks: held against what the kernel counts itself, on a loop device of the test's
//! own.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flightrec_tests::{Ftrace, Recorder};
use jiff::Timestamp;
use serde_json::Value;
use tempfile::TempDir;

use crate::json::valid_dump;
use crate::lacking::{btf_without, status};
use crate::support::{dump, lost_of_kernel_lane, own, share_recorder, start};

/// The lane's kinds.
const KINDS: &str = "block_insert,block_issue,block_complete";
/// Bytes of a sector.
const SECTOR: u64 = 512;
/// Memory of the tracer for each CPU.
const TRACE_KIB: usize = 16384;

/// A loop device over a file; detached on drop.
pub(crate) struct Loop {
    device: String,
    _dir: TempDir,
}

fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("run");
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
}

impl Loop {
    /// With the I/O scheduler `mq-deadline`, or none.
    pub(crate) fn new(scheduler: &str) -> Self {
        let dir = TempDir::new().expect("directory");
        let file = dir.path().join("image");
        fs::File::create(&file).and_then(|file| file.set_len(64 << 20)).expect("a file");
        let device = output(Command::new("losetup").args(["--find", "--show"]).arg(&file));
        let one = Self { device, _dir: dir };
        fs::write(one.sys().join("queue/scheduler"), scheduler).expect("a scheduler");
        one
    }

    /// Its path.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    /// Its name, as the kernel has it.
    fn name(&self) -> &str {
        self.device.rsplit('/').next().expect("a name")
    }

    fn sys(&self) -> PathBuf {
        Path::new("/sys/block").join(self.name())
    }

    /// What the kernel has counted so far (Documentation/block/stat.rst): reads, sectors read,
    /// writes, sectors written, flushes.
    pub(crate) fn stat(&self) -> [u64; 5] {
        let text = fs::read_to_string(self.sys().join("stat")).expect("counters");
        let fields: Vec<u64> =
            text.split_whitespace().map(|field| field.parse().expect("a number")).collect();
        [0, 2, 4, 6, 15].map(|at| fields[at])
    }

    /// Reads directly from the device, so many blocks of 4 KiB.
    pub(crate) fn read(&self, blocks: u32) {
        let from = format!("if={}", self.device);
        let count = format!("count={blocks}");
        output(Command::new("dd").args([&from, "of=/dev/null", "bs=4k", "iflag=direct", &count]));
    }

    /// Writes so many MiB, and waits until they are on the device.
    pub(crate) fn write(&self, mib: u32) {
        let to = format!("of={}", self.device);
        let count = format!("count={mib}");
        output(Command::new("dd").args(["if=/dev/zero", &to, "bs=1M", &count, "conv=fsync"]));
    }

    /// The events of its requests. `since`: another test may have had a device of its name before.
    fn events(&self, recorder: &Recorder, since: &str) -> Vec<Value> {
        let args = ["--since", since, "--event", KINDS];
        let events = valid_dump(recorder, &args).into_iter();
        events.filter(|event| event["device"] == self.name()).collect()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.device]).status();
    }
}

/// Events of the lane that were refused or skipped, on all devices.
pub(crate) fn lost(recorder: &Recorder) -> u64 {
    lost_of_kernel_lane(&status(recorder), &["block_"])
}

fn of_op<'a>(events: &'a [Value], kind: &str, op: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == kind && event["op"] == op).collect()
}

fn bytes(events: &[&Value]) -> u64 {
    events.iter().map(|event| event["bytes"].as_u64().expect("a number")).sum()
}

/// `block_rq_issue` and so on of one device in a trace of ftrace.
fn traced(trace: &str, name: &str, (major, minor): (u64, u64)) -> u64 {
    let of_device = format!(" {name}: {major},{minor} ");
    trace.lines().filter(|line| line.contains(&of_device)).count() as u64
}

#[test]
fn requests_are_those_that_the_kernel_counts() {
    for scheduler in ["mq-deadline", "none"] {
        let recorder = start("[rings]\nkernel = \"16MiB\"");
        let disk = Loop::new(scheduler);
        let dev = fs::read_to_string(disk.sys().join("dev")).expect("a number");
        let (major, minor) = dev.trim().split_once(':').expect("two numbers");
        let number = (major.parse().expect("a number"), minor.parse().expect("a number"));
        // Its name comes to the recording with the next look at the devices there are.
        let before = (disk.stat(), lost(&recorder));
        let since = Timestamp::now().to_string();
        let names = ["block_rq_insert", "block_rq_issue", "block_rq_complete"];
        let traces = names.map(|name| format!("block/{name}"));
        let trace = Ftrace::start(&traces.each_ref().map(String::as_str), TRACE_KIB)
            .expect("an instance of ftrace");
        disk.read(500);
        disk.write(8);
        let trace = trace.stop().expect("the trace");
        let counted: Vec<u64> =
            disk.stat().iter().zip(before.0).map(|(now, then)| now - then).collect();
        let events = disk.events(&recorder, &since);
        let lost = lost(&recorder) - before.1;
        let by_device = valid_dump(&recorder, &["--since", &since, "--device", &disk.device]);
        assert_eq!(by_device, events, "all of the disk's, and no others");
        eprintln!("{scheduler}: counted {counted:?}, {} events, {lost} lost", events.len());

        // By the kernel's tracer: each kind, exactly, but for what is reported as lost.
        let mut missing = 0;
        for (name, kind) in names.iter().zip(KINDS.split(',')) {
            let traced = traced(&trace, name, number);
            let recorded = events.iter().filter(|event| event["event"] == kind).count() as u64;
            eprintln!("{name}: {traced} traced, {recorded} recorded");
            assert!(recorded <= traced, "{name}: {traced} traced, {recorded} recorded");
            missing += traced - recorded;
        }
        assert!(missing <= lost, "{missing} missing, {lost} lost");
        if lost == 0 {
            // And by its counters of the device.
            let [reads, writes, flushes] =
                ["read", "write", "flush"].map(|op| of_op(&events, "block_complete", op));
            let recorded = [
                reads.len() as u64,
                bytes(&reads) / SECTOR,
                writes.len() as u64,
                bytes(&writes) / SECTOR,
                flushes.len() as u64,
            ];
            assert_eq!(recorded.to_vec(), counted, "{scheduler}");
        }
        // Of each that is done the rest is known, where nothing is missing. One that asks for
        // nothing but a flush is never issued itself (block/blk-flush.c).
        let done = events.iter().filter(|event| event["event"] == "block_complete");
        let done = done.filter(|event| event["bytes"] != 0 || event["op"] == "flush");
        let known = done.clone().filter(|event| event["service_ns"].is_u64()).count();
        assert!(known as u64 + lost >= done.count() as u64, "{known} known");
        let queued = events.iter().filter(|event| event["event"] == "block_insert").count();
        assert!(scheduler == "none" || queued >= 500, "{queued} queued");
        assert!(events.iter().all(|event| event["error"].is_null() || event["error"] == "none"));
    }
}

fn a_call_has_the_requests_that_it_waited_for(recorder: &Recorder) {
    let disk = Loop::new("mq-deadline");
    disk.read(20);
    disk.write(4);
    let [tree, own] = own();
    let of_dd = ["--last", "1h", "--comm", "dd", "--event", "sys_exit", &tree, &own];
    let calls = valid_dump(recorder, &of_dd);
    let of_disk = |call: &&Value| call["disk_requests"].is_u64();
    let lost = lost(recorder);
    let waited = |name: &str| {
        let of_name = calls.iter().filter(of_disk).filter(|call| call["syscall"] == name);
        of_name.collect::<Vec<_>>()
    };
    // What is missing of requests leaves calls without a note, and never with a wrong one.
    assert!(waited("read").len() as u64 + lost >= 20, "{calls:#?}");
    for call in waited("read").into_iter().chain(waited("fsync")) {
        let ns = |field: &str| call[field].as_u64().unwrap_or_else(|| panic!("{field}: {call}"));
        let all = ns("disk_queue_ns") + ns("disk_service_ns");
        assert!(ns("disk_busy_ns") <= ns("duration_ns"), "{call}");
        assert!(ns("disk_busy_ns") <= all && ns("disk_requests") >= 1, "{call}");
    }
    assert!(lost > 0 || waited("fsync").len() == 1, "{calls:#?}");
    let lines = dump(recorder, &of_dd);
    let notes = lines.iter().filter(|line| line.text.contains(") disk: 1 request in "));
    assert!(notes.count() as u64 + lost >= 20, "{lines:#?}");

    // Who asks for the thread finds the ends of its requests, whoever was interrupted by them.
    let tid = &waited("read").first().expect("a read")["tid"];
    let args = ["--last", "1h", "--tid", &tid.to_string(), "--event", "block_complete"];
    let ended = valid_dump(recorder, &args);
    let own = ended.iter().filter(|event| &event["issued_by"] == tid);
    assert!(own.count() as u64 + lost >= 20, "{ended:#?}");
}

/// A page fault is in no call: the wait itself has the requests.
fn a_page_fault_has_the_requests_that_it_waited_for(recorder: &Recorder) {
    let disk = Loop::new("none");
    let script = format!(
        "import mmap, os\n\
         fd = os.open('{}', os.O_RDONLY)\n\
         os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)\n\
         pages = mmap.mmap(fd, 32 << 20, prot=mmap.PROT_READ)\n\
         pages.madvise(mmap.MADV_RANDOM)\n\
         print(os.getpid(), sum(pages[at] for at in range(0, 32 << 20, 1 << 20)))",
        disk.device()
    );
    let printed = output(Command::new("python3").args(["-c", &script]));
    let pid = printed.split(' ').next().expect("an id");
    let tid: u64 = pid.parse().expect("a number");
    let args = ["--last", "1h", "--tid", pid, "--event", "switch,stack,sys_enter,sys_exit"];
    let events = valid_dump(recorder, &args);
    let is_back = |event: &&Value| event["event"] == "switch" && event["next_tid"] == tid;
    let waits: Vec<&Value> =
        events.iter().filter(is_back).filter(|of| of["next_disk_requests"].is_u64()).collect();
    // What is missing of requests leaves waits without a note, and never with a wrong one.
    assert!(waits.len() as u64 + lost(recorder) >= 20, "{waits:#?}");
    let mut in_no_call = 0;
    for wait in &waits {
        let ns = |event: &Value, field: &str| {
            event[field].as_u64().unwrap_or_else(|| panic!("{field}: {event}"))
        };
        let before = |event: &&Value| ns(event, "mono_ns") < ns(wait, "mono_ns");
        let out = events.iter().rev().filter(before);
        let out = out.clone().find(|of| of["event"] == "switch" && of["prev_tid"] == tid);
        let out = out.expect("the switch away from it");
        assert_eq!(out["io_wait"], true, "{out}");
        let waited = ns(wait, "mono_ns") - ns(out, "mono_ns");
        let all = ns(wait, "next_disk_queue_ns") + ns(wait, "next_disk_service_ns");
        assert!(ns(wait, "next_disk_busy_ns") <= waited.min(all), "{wait} of {waited} ns");
        let call = events.iter().rev().filter(before);
        let call = call.clone().find(|of| of["event"] == "sys_enter" || of["event"] == "sys_exit");
        in_no_call += u64::from(call.is_none_or(|call| call["event"] == "sys_exit"));
    }
    assert!(in_no_call + lost(recorder) >= 20, "{in_no_call} of {}", waits.len());
    let lines = dump(recorder, &["--last", "1h", "--tid", pid, "--event", "switch"]);
    assert!(lines.iter().any(|line| line.text.contains(" --> disk: 1 request in ")), "{lines:#?}");
}

/// Each request is handed on by its own events: nothing of the kernel's memory is told.
fn a_request_has_no_address(recorder: &Recorder) {
    let disk = Loop::new("none");
    let since = Timestamp::now().to_string();
    disk.read(50);
    let events = disk.events(recorder, &since);
    let issued = of_op(&events, "block_issue", "read");
    assert!(!issued.is_empty(), "{events:#?}");
    for event in issued {
        let request = event["request"].as_str().expect("text").trim_start_matches("0x");
        assert!(request.len() <= 8, "{event}");
    }
    let lines = dump(recorder, &["--last", "1h", "--event", "block_issue"]);
    let of_disk = "(BLOCK_ISSUE) request=0x";
    let named = format!(" device={} sector=", disk.name());
    assert!(
        lines.iter().any(|line| line.text.starts_with(of_disk) && line.text.contains(&named)),
        "{lines:#?}"
    );
}

#[test]
fn they_are_left_out_where_the_configuration_says_so() {
    // The lane has samples as well.
    let recorder = start("[record]\ndisk = false\n[sampling]\nhz = 0");
    let disk = Loop::new("none");
    disk.read(10);
    let status = status(&recorder);
    assert_eq!(status["lanes"]["kernel"]["events"]["block_issue"], 0, "{status:#}");
    let programs = status["recursion_misses"].as_object().expect("programs");
    assert!(!programs.keys().any(|name| name.starts_with("block_")), "{programs:?}");
    let output = recorder.flightctl(&["dump", "--last", "1s"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = "# not recorded (off in the configuration): disk (block_complete, \
                block_insert, block_issue); sampling.hz (sample)";
    assert_eq!(said.matches(line).count(), 1, "{said}");
}

/// The kernel names some of its threads before they are born.
fn who_creates_threads_of_the_kernel_keeps_its_name(recorder: &Recorder) {
    let disk = Loop::new("none");
    output(Command::new("mkfs.ext4").args(["-q", disk.device()]));
    let dir = TempDir::new().expect("directory");
    // The journal of each ext4 has a thread.
    output(Command::new("mount").arg(disk.device()).arg(dir.path()));
    output(Command::new("umount").arg(dir.path()));
    let args = ["--last", "1h", "--tid", "2"];
    let births = valid_dump(recorder, &[&args[..], &["--event", "fork"]].concat());
    let is_of_journal = |birth: &Value| {
        birth["child_comm"].as_str().is_some_and(|name| name.starts_with("jbd2/loop"))
    };
    assert!(births.iter().any(is_of_journal), "{births:#?}");
    let mut lines = dump(recorder, &args);
    lines.retain(|line| line.tid == 2);
    assert!(lines.iter().all(|line| line.comm == "kthreadd"), "{lines:#?}");
}

#[test]
fn a_kernel_without_the_tracepoints_records_all_else() {
    let dir = TempDir::new().expect("directory");
    let btf = btf_without(&["btf_trace_block_rq_insert", "gendisk"], dir.path());
    let recorder = start(&format!("[kernel]\nbtf = \"{}\"\n", btf.display()));
    let disk = Loop::new("none");
    disk.read(10);
    let status = status(&recorder);
    let lacking = status["lacking"].as_array().expect("a list");
    let whats: BTreeSet<&str> =
        lacking.iter().map(|row| row["what"].as_str().expect("text")).collect();
    let all = [
        "requests that are queued for disks",
        "requests that disks get",
        "requests that disks have done",
    ];
    assert_eq!(whats, BTreeSet::from(all));
    assert!(status["lanes"]["sched"]["events"]["switch"].as_u64() > Some(0), "{status:#}");
    let output = recorder.flightctl(&["dump", "--last", "1s", "--event", "block_issue"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = "# not recorded on this kernel: requests that disks get (this kernel's BTF has no \
                struct gendisk)";
    assert_eq!(said.matches(line).count(), 1, "{said}");
}

share_recorder!(
    a_call_has_the_requests_that_it_waited_for,
    a_page_fault_has_the_requests_that_it_waited_for,
    a_request_has_no_address,
    who_creates_threads_of_the_kernel_keeps_its_name
);
