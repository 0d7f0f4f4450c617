//! The recording outlives its daemon, and ends when it is told to.

use std::thread::sleep;
use std::time::{Duration, Instant};

use flightrec_format::abi::record::Act;
use flightrec_format::decode::Body;
use flightrec_tests::{Recorder, Snapshot, bpf_objects_left, monotonic_ns, numbered_call};
use nix::unistd::gettid;

use crate::support::{dump, lines, snapshot, start, without_limit};

fn me() -> u32 {
    gettid().as_raw() as u32
}

fn acts(snapshot: &Snapshot) -> Vec<u16> {
    let act = |body: &Body| if let Body::Act(act, _) = body { Some(*act) } else { None };
    snapshot.events.iter().filter_map(|event| act(&event.body)).collect()
}

/// Names of the generations that are pinned.
fn generations(recorder: &Recorder) -> Vec<String> {
    let entries = std::fs::read_dir(recorder.sandbox().bpffs_dir()).expect("bpffs");
    let entries = entries.map(|entry| entry.expect("entry"));
    // A kernel with CONFIG_BPF_PRELOAD pins files of its own beside.
    let folders = entries.filter(|entry| entry.file_type().expect("type").is_dir());
    folders.map(|entry| entry.file_name().into_string().expect("name")).collect()
}

#[test]
fn three_seconds_without_a_daemon() {
    // Room for what everybody does in the seconds that the rings hold here.
    let mut recorder = start("[rings]\nsyscall = \"64MiB\"\nsched = \"32MiB\"\n");
    numbered_call(0);
    let (began, session) = (monotonic_ns(), snapshot(&recorder).meta.session);
    numbered_call(1);
    recorder.kill();
    let (end, mut n) = (Instant::now() + Duration::from_secs(3), 2);
    while Instant::now() < end {
        numbered_call(n);
        n += 1;
        sleep(Duration::from_millis(1));
    }
    recorder.restart();
    numbered_call(n);
    let ended = monotonic_ns();

    let snapshot = snapshot(&recorder);
    assert_eq!(snapshot.meta.session, session, "adopted");
    assert_eq!(snapshot.numbered_calls(me()), (0..=n).collect::<Vec<_>>());
    assert!(n > 100, "{n} calls in three seconds");
    snapshot.assert_complete(began, ended);
    assert_eq!(acts(&snapshot), [Act::Start as u16, Act::Adopt as u16]);
    assert_eq!(generations(&recorder), [format!("gen-{session:016x}")]);

    let tid = me().to_string();
    let all = dump(
        &recorder,
        &["--all", "--strict", "--tid", &tid, "--syscall", "getpgid", "--event", "sys_enter"],
    );
    assert_eq!(all.len() as u32, n + 1);
    assert_eq!(all[0].text, "getpgid(5000000) -->");
}

#[test]
fn the_dead_daemons_id_is_nobodys() {
    let mut recorder = start("");
    let before = snapshot(&recorder).counted(flightrec_format::abi::page::Lane::Syscall).1[2];
    assert!(before > 0, "the daemon's calls are counted");
    recorder.kill();
    let dead = snapshot(&recorder).counted(flightrec_format::abi::page::Lane::Syscall).1[2];
    numbered_call(0);
    sleep(Duration::from_millis(200));
    let later = snapshot(&recorder).counted(flightrec_format::abi::page::Lane::Syscall).1[2];
    assert_eq!(dead, later, "nobody's calls are left out any more");
}

#[test]
fn without_a_daemon_the_pinned_rings_are_read() {
    let mut recorder = start("");
    recorder.kill();
    numbered_call(7);
    let bpffs = recorder.sandbox().bpffs_dir();
    let (bpffs, tid) = (bpffs.to_str().expect("UTF-8"), me().to_string());
    let args = ["--bpffs-dir", bpffs, "dump", "--all", "--tid", &tid, "--syscall", "getpgid"];
    let output = recorder.flightctl(&args);
    assert!(output.status.success(), "{output:?}");
    let texts: Vec<_> = lines(&output).into_iter().map(|line| line.text).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert_eq!(texts[0], "getpgid(5000007) -->");
    assert!(texts[1].starts_with("getpgid <-- -3 ESRCH ("), "{texts:?}");
}

#[test]
fn kept_on_request() {
    let mut recorder = start("");
    recorder.options_mut().args.push("--keep-recording".into());
    recorder.restart();
    let session = snapshot(&recorder).meta.session;
    recorder.stop();
    numbered_call(0);
    assert_eq!(generations(&recorder), [format!("gen-{session:016x}")]);
    recorder.options_mut().args.clear();
    recorder.restart();
    let kept = snapshot(&recorder);
    assert_eq!((kept.meta.session, kept.numbered_calls(me())), (session, vec![0]));
    kept.assert_complete(kept.meta.started, kept.copied);
    assert_eq!(acts(&kept), [Act::Start as u16, Act::Leave as u16, Act::Adopt as u16]);
}

#[test]
fn another_configuration_is_another_recording() {
    let mut recorder = start("");
    let (old, objects) = (snapshot(&recorder).meta.session, recorder.bpf_objects());
    recorder.kill();
    recorder.options_mut().config = without_limit("[rings]\nsyscall = \"1MiB\"\n");
    recorder.restart();
    numbered_call(0);
    let new = snapshot(&recorder);
    assert_ne!(new.meta.session, old);
    assert_eq!(new.meta.lanes.ring_bytes()[0], 1 << 20);
    assert_eq!(new.numbered_calls(me()), [0]);
    assert_eq!(generations(&recorder), [format!("gen-{:016x}", new.meta.session)]);
    assert_eq!(bpf_objects_left(&objects), [], "of the old recording");
}

#[test]
fn a_clean_end_leaves_nothing() {
    for form in ["tp_btf", "tracepoint"] {
        let mut recorder = start(&format!("[kernel]\nsyscall_programs = \"{form}\""));
        let objects = recorder.bpf_objects();
        assert!(objects.len() > 20, "{objects:?}");
        recorder.stop();
        assert_eq!(generations(&recorder), Vec::<String>::new());
        assert_eq!(bpf_objects_left(&objects), []);
        assert!(!recorder.sandbox().runtime_dir().join("control.sock").exists());
    }
}

#[test]
fn what_an_interrupted_start_left_is_removed() {
    let mut recorder = start("");
    recorder.kill();
    let left = recorder.sandbox().bpffs_dir().join("new-0123456789abcdef");
    std::fs::create_dir_all(left.join("maps")).expect("mkdir");
    recorder.restart();
    assert!(!left.exists());
}
