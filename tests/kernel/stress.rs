//! Preemption, interrupts, timers and thousands of threads: no record torn, hardly any refused.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::decode::Page;
use flightrec_format::live::{Generation, LiveRings};
use flightrec_format::ring::{LaneStream, Reason, Rings};
use flightrec_tests::{c_program, die_with_parent};
use nix::fcntl::posix_fallocate;
use nix::sys::signal::Signal;

use crate::support::{run, snapshot, start};

/// How long the main form of the programs is stressed.
fn seconds() -> u64 {
    std::env::var("FLIGHTREC_STRESS_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(20)
}

/// Threads that are begun, and end, in each round, and least rounds.
const THREADS: u64 = 2000;
const ROUNDS: u64 = 5;

fn stress_ng(seconds: u64) -> Child {
    let mut stress = Command::new("stress-ng");
    stress.args(["--switch", "4", "--timer", "4", "--context", "4", "--quiet", "--timeout"]);
    stress.arg(format!("{seconds}s")).stdin(Stdio::null()).stdout(Stdio::null());
    die_with_parent(&mut stress, Signal::SIGTERM);
    stress
        .spawn()
        .unwrap_or_else(|e| panic!("can't run stress-ng (`cargo xtask setup` installs it): {e}"))
}

/// Reads all rings, decodes every page, and returns the number of pages and events.
fn read(recording: &LiveRings) -> (usize, u64) {
    let mut rings = Rings::new(recording.session());
    let mut pages = 0;
    for cpu in recording.cpus() {
        for lane in Lane::RINGS {
            for bytes in recording.pages(lane, cpu, 0, u64::MAX) {
                let page = Page::copy_from(&bytes)
                    .unwrap_or_else(|e| panic!("lane {}, CPU {cpu}: {e}", lane.name()));
                assert!(rings.add(page));
                pages += 1;
            }
        }
    }
    let streams = rings.finish();
    for stream in &streams {
        let (lane, cpu) = (stream.lane().name(), stream.cpu());
        assert_eq!(stream.damage().next(), None, "lane {lane}, CPU {cpu}");
        let impossible = stream.gaps().into_iter().find(|gap| gap.reason == Reason::Damaged);
        assert_eq!(impossible, None, "lane {lane}, CPU {cpu}");
        let mut last = 0;
        for event in stream.events() {
            assert!(last <= event.time, "lane {lane}, CPU {cpu}: {event:?} after {last}");
            last = event.time;
        }
    }
    (pages, streams.iter().map(|stream: &LaneStream| stream.recorded().iter().sum::<u64>()).sum())
}

fn stress(form: &str, seconds: u64) {
    let recorder = start(&format!(
        "[rings]\nsyscall = \"1MiB\"\nsched = \"1MiB\"\ntask = \
         \"256KiB\"\n[kernel]\nsyscall_programs = \"{form}\""
    ));
    let dir = Generation::find(&recorder.sandbox().bpffs_dir()).expect("a recording");
    let recording = LiveRings::open(&dir, false).expect("a recording");
    let mut stress = stress_ng(seconds);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut rounds, mut pages, mut events) = (0, 0, 0);
    // However slow this machine is: the shares below are of many events.
    while Instant::now() < end || rounds < ROUNDS {
        run(&c_program("threads", &[]), &[&THREADS.to_string(), "1"]);
        let read = read(&recording);
        (rounds, pages, events) = (rounds + 1, pages + read.0, events + read.1);
    }
    assert!(stress.wait().expect("stress-ng").success());
    read(&recording);

    let snapshot = snapshot(&recorder);
    let mut counted = 0;
    for lane in Lane::RINGS {
        let (recorded, refused) = snapshot.counted(lane);
        let busy = refused[Refusal::Busy as usize];
        let lane = lane.name();
        report(&format!("{form}: lane {lane}: {recorded} events recorded, {busy} refused as busy"));
        assert!(busy * 1000 < recorded + busy, "lane {lane}: {busy} of {recorded} refused");
        assert_eq!(refused[Refusal::Throttled as usize], 0);
        counted += recorded;
    }
    let missed: u64 = snapshot.totals.misses.iter().map(|(_, n)| n).sum();
    report(&format!(
        "{form}: {missed} program runs skipped by the kernel; {:?}",
        snapshot.totals.misses
    ));
    assert!(missed * 1000 < counted, "{missed} of {counted} skipped: {:?}", snapshot.totals.misses);
    assert!(counted > 4 * ROUNDS * THREADS, "only {counted} events");
    report(&format!(
        "{form}: {pages} pages with {events} events read in {rounds} rounds while it ran"
    ));
    // Skipped runs and refusals are for the user to see as well.
    let status = recorder.flightctl(&["status"]);
    assert!(status.status.success());
    report(&String::from_utf8_lossy(&status.stdout));
}

/// A line for who reads the test's output; where that is closed, nobody does.
fn report(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[test]
#[ignore = "long: stress"]
fn stress_tp_btf() {
    stress("tp_btf", seconds());
}

#[test]
#[ignore = "long: stress"]
fn stress_tracepoint() {
    stress("tracepoint", seconds().min(10));
}

/// Requests to a disk are done in interrupts, in the middle of events about others: none of these
/// events is refused, and none is out of order. The directory of the tests must be on a disk.
#[test]
fn events_that_meet_in_lane_kernel_are_all_recorded() {
    const BLOCK: usize = 4096;
    const BLOCKS: u64 = 64 << 10;
    let recorder = start("");
    let path = recorder.sandbox().root().join("requests");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(libc::O_DIRECT)
        .open(&path);
    let file = match file {
        Ok(file) => file,
        // A file system in memory.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
            report(&format!("left out: no requests to a disk from {}: {e}", path.display()));
            return;
        }
        Err(e) => panic!("{}: {e}", path.display()),
    };
    posix_fallocate(&file, 0, (BLOCKS * BLOCK as u64) as i64).expect("room on the disk");
    let end = Instant::now() + Duration::from_secs(5);
    let written: u64 = std::thread::scope(|scope| {
        let writers = (1..=8u64).map(|seed| {
            let file = &file;
            scope.spawn(move || {
                let bytes = vec![b'x'; 2 * BLOCK];
                let bytes = &bytes[bytes.as_ptr().align_offset(BLOCK)..][..BLOCK];
                let (mut random, mut written) = (seed, 0);
                while Instant::now() < end {
                    // Knuth's constants for a linear congruential generator (MMIX).
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let at = (random >> 32) % BLOCKS * BLOCK as u64;
                    file.write_all_at(bytes, at).expect("a block");
                    written += 1;
                }
                written
            })
        });
        let writers: Vec<_> = writers.collect();
        writers.into_iter().map(|writer| writer.join().expect("a writer")).sum()
    });

    let dir = Generation::find(&recorder.sandbox().bpffs_dir()).expect("a recording");
    read(&LiveRings::open(&dir, false).expect("a recording"));
    let (recorded, refused) = snapshot(&recorder).counted(Lane::Kernel);
    let busy = refused[Refusal::Busy as usize];
    report(&format!(
        "{written} blocks written: {recorded} events recorded, {busy} refused as busy"
    ));
    assert!(recorded >= 2 * written, "{recorded} events of {written} blocks");
    // Of 1.3 million 1,840 were before there was a place aside, and none since.
    assert!(busy * 100_000 <= recorded, "{busy} refused beside {recorded}");
}
