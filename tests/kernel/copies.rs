//! What a dump of this machine's memory would find beside the rings: nothing. Copies say that they
//! are copies.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::{Child, Stdio};

use flightrec_format::abi::page::{COPY_MAGIC, MAGIC};
use flightrec_format::identity::public_id;
use flightrec_format::live::{Generation, LiveRings};
use flightrec_tests::{PATIENCE, c_program, wait_until};

use crate::support::{run, start};

/// How often pages of a session stand in a process's own memory, by their first bytes.
fn pages_in(pid: u32, magic: u64, session: u64) -> usize {
    found_in(pid, &[magic.to_le_bytes(), session.to_le_bytes()].concat())
}

/// How often bytes stand in a process's own memory, at a word's place.
fn found_in(pid: u32, needle: &[u8]) -> usize {
    let memory = File::open(format!("/proc/{pid}/mem")).expect("its memory");
    let regions = fs::read_to_string(format!("/proc/{pid}/maps")).expect("its map of memory");
    let mut found = 0;
    for region in regions.lines().filter(|region| !region.contains("bpf-map")) {
        let (range, rest) = region.split_once(' ').expect("a range");
        if !rest.starts_with("rw") {
            continue;
        }
        let (begin, end) = range.split_once('-').expect("a range");
        let address = |text: &str| u64::from_str_radix(text, 16).expect("an address");
        let mut at = address(begin);
        let mut bytes = vec![0; 1 << 20];
        while at < address(end) {
            let wanted = bytes.len().min((address(end) - at) as usize);
            // What is not there any more, or is a device's, is read by nobody.
            let read = memory.read_at(&mut bytes[..wanted], at).unwrap_or(0);
            // Words of a page's header are aligned wherever the page stands.
            let words = bytes[..read].windows(needle.len()).step_by(8);
            found += words.filter(|words| words == &needle).count();
            at += wanted as u64;
        }
    }
    found
}

fn follower(recorder: &flightrec_tests::Recorder) -> Child {
    let file = recorder.sandbox().root().join("followed");
    let mut command = recorder.flightctl_command();
    command.args(["follow", "-o"]).arg(&file).stdin(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().expect("flightctl");
    let begun = wait_until(PATIENCE, || fs::metadata(&file).is_ok_and(|file| file.len() > 100_000));
    assert!(begun, "follow has not begun");
    child
}

#[test]
fn no_process_holds_what_looks_like_a_ring() {
    let recorder = start("");
    let dir = Generation::find(&recorder.sandbox().bpffs_dir()).expect("a recording");
    let recording = LiveRings::open(&dir, false).expect("a recording");
    let session = recording.session();
    let mut follower = follower(&recorder);
    run(&c_program("threads", &[]), &["500", "1"]);
    for i in 0..3 {
        assert!(recorder.flightctl(&["dump", "--all", "-o", "/dev/null"]).status.success());
        let file = recorder.sandbox().root().join(format!("{i}.flight"));
        assert!(
            recorder
                .flightctl(&["save", "--all", "-o", file.to_str().expect("a path")])
                .status
                .success()
        );
    }
    for (name, pid) in [("flightd", recorder.pid()), ("flightctl", follower.id())] {
        assert!(
            pages_in(pid, COPY_MAGIC, session) > 0,
            "{name} has copies of pages, and the search finds none"
        );
        assert_eq!(
            pages_in(pid, MAGIC, session),
            0,
            "{name} has what a dump's reader would take for a ring's page"
        );
    }
    // The rings themselves are found by it. What they say there is a secret, which no reader has.
    let meta = &recording.maps().meta;
    let secret = meta.load(0, 8);
    assert_eq!((meta.load(0, 0), public_id(secret)), (MAGIC, session));
    assert_eq!(
        found_in(follower.id(), &secret.to_le_bytes()),
        0,
        "flightctl has the recording's secret"
    );
    assert_eq!(
        pages_in(recorder.pid(), COPY_MAGIC, secret),
        0,
        "flightd hands out the recording's secret"
    );
    follower.kill().and_then(|()| follower.wait()).expect("follow ends");
}
