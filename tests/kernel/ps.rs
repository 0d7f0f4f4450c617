//! `flightctl ps`: who is blocked, since when, in which call.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flightrec_tests::{PATIENCE, Recorder, c_program, wait_until};
use nix::sys::resource::{Resource, getrlimit};

use crate::support::{in_both_forms, share_recorder, start};

/// What ps prints, line by line, and its exit code.
fn ps(recorder: &Recorder, args: &[&str]) -> (Vec<String>, Option<i32>) {
    let output = recorder.flightctl(&[&["ps"], args].concat());
    let text = String::from_utf8(output.stdout).expect("ASCII");
    (text.lines().map(str::to_owned).collect(), output.status.code())
}

/// A `cat` that waits for input that does not come yet.
fn waiting() -> Child {
    Command::new("/bin/cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat")
}

/// Lets it go.
fn release(mut cat: Child) {
    drop(cat.stdin.take());
    assert!(cat.wait().expect("wait").success());
}

#[test]
fn a_blocked_thread_its_call_and_its_time() {
    let recorder = start("");
    let begun = Instant::now();
    let mut cat = waiting();
    let tid = cat.id().to_string();
    let blocked = || {
        let (lines, code) = ps(&recorder, &["--tid", &tid]);
        (code == Some(0))
            .then(|| lines.last().cloned().unwrap_or_default())
            .filter(|line| line.contains(" read(0<pipe:["))
    };
    let mut line = None;
    // What is looked at is the line that was waited for.
    let waits = wait_until(PATIENCE, || {
        line = blocked();
        line.is_some()
    });
    assert!(waits, "cat never waits");
    let line = line.unwrap_or_default();
    assert!(
        line.contains(&format!(" {tid}  cat "))
            && line.contains(" S      read(0<pipe:[")
            && !line.trim_start().starts_with('>'),
        "{line}"
    );
    // What it is given it reads, and then it waits anew.
    std::thread::sleep(Duration::from_millis(300));
    let json = |args: &[&str]| -> serde_json::Value {
        let output = recorder.flightctl(&[&["ps", "--json"], args].concat());
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let time =
        |json: &serde_json::Value| json["threads"][0]["blocked_ns"].as_u64().expect("a thread");
    let long = time(&json(&["--tid", &tid]));
    assert!(long >= 300_000_000 && u128::from(long) <= begun.elapsed().as_nanos(), "{long}");
    cat.stdin.as_mut().expect("piped").write_all(b"x").expect("written");
    assert!(wait_until(PATIENCE, || json(&["--tid", &tid])["threads"][0]["blocked_ns"].as_u64()
        < Some(long)));
    release(cat);
    assert_eq!(ps(&recorder, &["--tid", &tid]), (vec![], Some(1)), "it is no more");
}

/// Asked at the moment, so that it needs no event of the wait.
#[test]
fn where_in_the_kernel_a_thread_waits() {
    let cat = waiting();
    let mut recorder = start("[stacks]\nenabled = false\n");
    let tid = cat.id().to_string();
    let json = |recorder: &Recorder, args: &[&str]| -> serde_json::Value {
        let args = [&["ps", "--json", "--tid", &tid], args].concat();
        serde_json::from_slice(&recorder.flightctl(&args).stdout).expect("JSON")
    };
    let functions = |thread: &serde_json::Value| -> Vec<String> {
        let frames = thread["stack"].as_array().into_iter().flatten();
        frames.map(|of| of["symbol"].as_str().unwrap_or("?").to_owned()).collect()
    };
    let own = &json(&recorder, &["--stack"])["threads"][0];
    assert!(functions(own).iter().any(|of| of.ends_with("pipe_read")), "{own}");
    assert_eq!(json(&recorder, &[])["threads"][0].get("stack"), None);
    let (lines, code) = ps(&recorder, &["--stack", "--tid", &tid]);
    assert_eq!((lines.len(), code), (3, Some(0)), "{lines:?}");
    assert!(lines[2].contains("pipe_read <- vfs_read <- "), "{lines:?}");

    // Whoever else is blocked has a stack, too, unless it ran meanwhile.
    let all = recorder.flightctl(&["ps", "--json", "--all", "--stack"]);
    let all: serde_json::Value = serde_json::from_slice(&all.stdout).expect("JSON");
    let all = all["threads"].as_array().expect("threads");
    let with = all.iter().filter(|thread| !functions(thread).is_empty()).count();
    assert!(with * 10 > all.len() * 9, "{with} of {}", all.len());
    let named = |thread: &&serde_json::Value| !functions(thread).contains(&"?".to_owned());
    assert_eq!(all.iter().filter(named).count(), all.len(), "{all:#?}");

    // Without a daemon, too; of functions, those are known that were looked up before.
    recorder.kill();
    let bpffs = recorder.sandbox().bpffs_dir().display().to_string();
    let own = &json(&recorder, &["--stack", "--bpffs-dir", &bpffs])["threads"][0];
    assert!(functions(own).iter().any(|of| of.ends_with("pipe_read")), "{own}");
    release(cat);
}

/// However soon one asks again: what descriptors stand for is looked at anew less often than that.
#[test]
fn a_descriptor_keeps_its_name_from_look_to_look() {
    // The more there are, the longer looking takes, and the longer it is until the next look.
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    let open = || File::open("/dev/null").expect("opened");
    let many: Vec<File> = (0..soft.saturating_sub(500).min(15_000)).map(|_| open()).collect();
    let recorder = start("");
    let cat = waiting();
    let tid = cat.id().to_string();
    let looks = || {
        let (lines, code) = ps(&recorder, &["--tid", &tid]);
        (code, lines.last().cloned().unwrap_or_default())
    };
    let named =
        |(code, line): &(Option<i32>, String)| *code == Some(0) && line.contains(" read(0<pipe:[");
    assert!(wait_until(PATIENCE, || named(&looks())), "cat never waits");
    // Several at a time, so that one is asked for shortly after another.
    let without: Vec<_> = std::thread::scope(|scope| {
        let asking = [(); 3].map(|()| scope.spawn(|| (0..15).map(|_| looks()).collect::<Vec<_>>()));
        asking
            .into_iter()
            .flat_map(|asking| asking.join().expect("asked"))
            .filter(|look| !named(look))
            .collect()
    });
    assert!(without.is_empty(), "{} of 45 looks lack it: {:?}", without.len(), without.first());
    release(cat);
    drop(many);
}

#[test]
fn what_blocked_threads_were_given_few_many_and_wide() {
    in_both_forms(|recorder| {
        let mut program = Command::new(c_program("waits", &[]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let lines = BufReader::new(program.stdout.take().expect("piped")).lines();
        let said: HashMap<String, u64> = lines
            .map(|line| {
                let line = line.expect("read");
                let (name, value) = line.split_once('=').expect("NAME=VALUE");
                (name.to_owned(), value.parse().expect("a number"))
            })
            .take(4)
            .collect();
        let args = |name: &str| -> Option<(String, Vec<String>)> {
            let output = recorder.flightctl(&["ps", "--json", "--tid", &said[name].to_string()]);
            let json: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
            let call = &json["threads"][0]["call"];
            let args = call["args"]
                .as_array()?
                .iter()
                .map(|arg| arg.as_str().expect("hexadecimal").to_owned())
                .collect();
            Some((call["text"].as_str()?.to_owned(), args))
        };
        // Each may still be in the call before.
        let waits = |name: &str, call: &str, n: usize| {
            args(name).is_some_and(|(text, args)| text.starts_with(call) && args.len() == n)
        };
        assert!(wait_until(PATIENCE, || waits("pause", "pause(", 0)
            && waits("read", "read(", 3)
            && waits("futex", "futex(", 6)));
        let ((pause, none), (read, three), (futex, six)) =
            (args("pause").expect("it"), args("read").expect("it"), args("futex").expect("it"));
        assert!(pause.starts_with("pause(") && none.is_empty(), "{pause} {none:?}");
        assert!(
            read.starts_with("read(") && three.len() == 3 && three[2] == "0xfa0",
            "{read} {three:?}"
        );
        let word = format!("{:#x}", said["word"]);
        let expected = [&*word, "0x80", "0x0", "0x0", "0xfedcba9876543210", "0x8123456789abcdef"];
        assert!(futex.starts_with("futex(") && six == expected, "{futex} {six:?}");
        drop(program.stdin.take());
        assert!(program.wait().expect("wait").success());
    });
}

#[test]
fn blocked_since_before_the_recording() {
    let cat = waiting();
    let tid = cat.id().to_string();
    std::thread::sleep(Duration::from_millis(200));
    let recorder = start("");
    // What its descriptor stands for is found out after the start.
    let mut line = String::new();
    let named = wait_until(PATIENCE, || {
        line = ps(&recorder, &["--tid", &tid]).0.pop().expect("in the table");
        line.contains(" read(0<pipe:[")
    });
    assert!(named && line.trim_start().starts_with("> "), "{line}");
    release(cat);
    assert!(wait_until(PATIENCE, || ps(&recorder, &["--tid", &tid]).1 == Some(1)));
}

fn idle_kernel_threads_only_when_asked_for(recorder: &Recorder) {
    let (few, _) = ps(recorder, &[]);
    let (all, _) = ps(recorder, &["--all"]);
    let kernel = |lines: &[String]| lines.iter().filter(|line| line.contains("the kernel")).count();
    assert!(
        all.iter().any(|line| line.contains("[kthreadd]")) && kernel(&all) > kernel(&few),
        "{all:?}"
    );
    assert!(few.iter().all(|line| !line.contains("[kthreadd]")), "{few:?}");
    let (idle, _) = ps(recorder, &["--state", "I"]);
    assert!(
        idle.len() > 1 && idle.iter().skip(1).all(|line| line.contains(" I      the kernel")),
        "{idle:?}"
    );
}

fn wrong_states_are_told_with_the_right_ones(recorder: &Recorder) {
    let output = recorder.flightctl(&["ps", "--state", "Y"]);
    let says = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && says.contains("D uninterruptible"), "{says}");
}

share_recorder!(idle_kernel_threads_only_when_asked_for, wrong_states_are_told_with_the_right_ones);
