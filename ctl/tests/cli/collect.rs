//! `flightctl collect`: many hosts at once, some of which fail in their own ways.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Recording, flightctl, stderr, stdout};
use crate::ssh::{Hosts, recording};

/// Collects from hosts; what came into `out`.
fn collect(hosts: &Hosts, names: &[&str], args: &[&str]) -> Output {
    let list = hosts.dir().join("list");
    fs::write(&list, names.join("\n")).unwrap();
    let (list, out) = (list.to_str().unwrap(), out(hosts));
    let base = ["collect", "--hosts", list, "-o", &out, "--all"];
    hosts.run(&[&base, args].concat())
}

fn out(hosts: &Hosts) -> String {
    hosts.dir().join("out").to_str().unwrap().to_owned()
}

/// The files in a directory, hidden ones too.
fn files(dir: impl AsRef<Path>) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

#[test]
fn files_of_all_that_answer_and_a_table() {
    let mut hosts = Hosts::new();
    let web = hosts.add("web1", recording(true)).to_str().unwrap().to_owned();
    hosts.add("root@web2", recording(true));
    hosts.add("::1", recording(true));
    let names = ["web1 # a comment", "", "root@web2:22", "[::1]:2222"];
    let fine = collect(&hosts, &names, &["--json"]);
    assert_eq!(fine.status.code(), Some(0), "{}{}", stdout(&fine), stderr(&fine));
    assert_eq!(files(out(&hosts)), ["__1_2222.flight", "root@web2_22.flight", "web1.flight"]);
    let table = json(&fine);
    assert_eq!((&table["asked"], &table["complete"]), (&3.into(), &3.into()), "{table}");
    // The same clock as here; in a loop, known to much less than a second.
    for host in table["hosts"].as_array().unwrap() {
        let (ahead, within) = clock(host);
        assert!(ahead.unsigned_abs() <= within && within < 1_000_000_000, "{host}");
    }
    let first = &table["hosts"][0];
    assert_eq!(first["host"], "web1");
    assert_eq!((&first["answered"], &first["complete"]), (&true.into(), &true.into()));
    assert_eq!((&first["missing_events"], &first["error"]), (&0.into(), &Value::Null));
    assert!(first["until"].as_str().unwrap().starts_with("2026-01-01T00:02:00"), "{first}");
    assert_eq!(first["bytes"], fs::metadata(first["files"][0].as_str().unwrap()).unwrap().len());
    // What came is what the host has.
    let events = |out: &Output| stdout(out).lines().filter(|line| line.contains("write(")).count();
    let there = flightctl(&["--runtime-dir", &web, "dump", "--all"]);
    let here = flightctl(&["dump", first["files"][0].as_str().unwrap()]);
    assert_eq!(stdout(&here), stdout(&there));
    assert_eq!(events(&here), 5000);
    assert!(
        hosts.asked().contains("-o BatchMode=yes -o ControlMaster=no -o ConnectTimeout=60 -- web1"),
        "{}",
        hosts.asked()
    );
    for of_port in ["ConnectTimeout=60 -p 22 -- root@web2 ", "ConnectTimeout=60 -p 2222 -- ::1 "] {
        assert!(hosts.asked().contains(of_port), "{}", hosts.asked());
    }
    // Nothing is replaced unasked, nor asked for then.
    let asked = hosts.asked();
    let again = collect(&hosts, &["web1"], &[]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("web1.flight exists: --force replaces it"), "{again:?}");
    assert_eq!(hosts.asked(), asked);
    let forced = collect(&hosts, &["web1"], &["--force"]);
    assert_eq!(forced.status.code(), Some(0), "{forced:?}");
    assert!(stdout(&forced).ends_with("1 of 1 host answered, 1 with a complete window\n"));
}

#[test]
fn how_much_is_missing_is_what_the_host_says_itself() {
    let mut hosts = Hosts::new();
    let db = hosts.add("db", recording(false)).to_str().unwrap().to_owned();
    let output = collect(&hosts, &["db"], &["--json"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let table = json(&output);
    let host = &table["hosts"][0];
    assert_eq!((&host["answered"], &host["complete"]), (&true.into(), &false.into()));
    let there = flightctl(&["--runtime-dir", &db, "dump", "--all", "--format", "jsonl"]);
    let text = stdout(&there);
    let coverage: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let lost = |gap: &Value| gap["missing"].as_u64();
    let gaps = coverage["gaps"].as_array().unwrap();
    assert!(!gaps.is_empty(), "{coverage}");
    let lost: u64 = gaps.iter().filter_map(lost).sum();
    assert!(host["missing_events"].as_u64() > Some(0) && host["missing_events"] == lost, "{host}");
    let text = stdout(&collect(&hosts, &["db"], &["--force"]));
    assert!(text.contains("INCOMPLETE") && text.contains(&lost.to_string()), "{text}");
}

/// By how much a host's clock is ahead, and how well that is known, ns.
fn clock(host: &Value) -> (i64, u64) {
    let ahead = host["clock_ahead_ns"].as_i64();
    (ahead.unwrap_or_else(|| panic!("{host}")), host["clock_ahead_within_ns"].as_u64().unwrap())
}

/// A host that answers what the time is by another clock: what is between is what `clocks` says.
#[test]
fn a_wrong_clock_is_told_with_the_window() {
    const WRONG: i64 = -300_000_000_000;
    let mut hosts = Hosts::new();
    hosts.add("web1", recording(true));
    let text = format!(
        "#!/usr/bin/env python3\nimport os, struct, sys, time\n\
         while os.read(0, 1) == b'?':\n    \
         now = time.time_ns() + {WRONG}\n    \
         os.write(1, struct.pack('<I8sq', 16, b'\\0\\0clock\\0', now))\n\
         words = [word for word in sys.argv if word != '--clock']\n\
         os.execv({real:?}, words)\n",
        real = env!("CARGO_BIN_EXE_flightctl")
    );
    let program = hosts.program("remote", &text);
    let list = hosts.dir().join("list");
    fs::write(&list, "web1\n").unwrap();
    let asked = |args: &[&str]| {
        let mut command = hosts.command(&["collect", "--hosts", list.to_str().unwrap()]);
        command.args(["--force", "-o", &out(&hosts)]).args(args);
        command.env("FLIGHTCTL_REMOTE", &program).output().unwrap()
    };
    let output = asked(&["--last", "2s", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (ahead, within) = clock(&json(&output)["hosts"][0]);
    assert!(ahead.abs_diff(WRONG) <= within && within < 1_000_000_000, "{ahead} {within}");
    let text = stdout(&asked(&["--last", "2s"]));
    assert!(text.contains("  5m 0s behind  ") || text.contains("  4m 59s behind  "), "{text}");
    assert!(text.contains("behind this machine's: the times in its files differ"), "{text}");
    // Times of day mean that clock, so what came is of another time.
    let of_day = asked(&["--since", "2026-01-01T00:01:58Z", "--until", "2026-01-01T00:01:59Z"]);
    assert_eq!(of_day.status.code(), Some(3), "{of_day:?}");
    let text = stdout(&of_day);
    assert!(text.contains("web1  complete") && text.contains("not of the time that"), "{text}");
}

#[test]
fn who_does_not_answer_is_told_with_the_reason_and_leaves_no_file() {
    let mut hosts = Hosts::new();
    hosts.add("web1", recording(true));
    for name in ["slow", "chatty", "cut", "refuses", "endless"] {
        hosts.add(name, Recording::new());
    }
    let real = env!("CARGO_BIN_EXE_flightctl");
    let text = format!(
        "#!/bin/sh\ncase $(basename $FLIGHTREC_RUNTIME_DIR) in\n\
         slow) sleep 600;;\n\
         chatty) echo Welcome to this host, make yourself at home;;\n\
         cut) FLIGHTREC_RUNTIME_DIR=$here/hosts/web1 {real} \"$@\" | stdbuf -o0 head -c 5000\n\
         echo 'Connection to cut closed by remote host.' >&2; exit 255;;\n\
         refuses) echo one >&2; echo 'flightctl: access denied' >&2; exit 2;;\n\
         endless) while printf '\\000\\000\\020\\000'; do head -c 1048576 /dev/zero; done;;\n\
         *) exec {real} \"$@\";;\nesac\n"
    );
    let program = hosts.program("remote", &text);
    let list = hosts.dir().join("list");
    let names = ["web1", "slow", "chatty", "cut", "refuses", "endless", "down", "bare"];
    fs::write(&list, names.join("\n")).unwrap();
    let begun = Instant::now();
    let output = hosts
        .command(&["collect", "--hosts", list.to_str().unwrap(), "-o", &out(&hosts), "--all"])
        .args(["--json", "--timeout", "3s", "--max-size", "8MiB"])
        .env("FLIGHTCTL_REMOTE", program)
        .output()
        .unwrap();
    assert!(begun.elapsed() < Duration::from_mins(1));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(files(out(&hosts)), ["web1.flight"]);
    let table = json(&output);
    let why = |name: &str| {
        let rows = table["hosts"].as_array().unwrap();
        let row = rows.iter().find(|row| row["host"] == name).unwrap();
        row["error"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(why("web1"), "");
    assert_eq!(why("slow"), "no answer within 3.0 s (--timeout)");
    assert!(why("chatty").starts_with("what came is no recording"), "{}", why("chatty"));
    assert_eq!(why("cut"), "Connection to cut closed by remote host.");
    assert_eq!(why("refuses"), "flightctl: access denied");
    assert!(why("endless").starts_with("more than 8 MiB came"), "{}", why("endless"));
    assert_eq!(why("down"), "ssh: connect to host down port 22: No route to host");
    assert!(why("bare").starts_with("bare has no "), "{}", why("bare"));
    assert_eq!(table["answered"], 1);
}

#[test]
fn no_more_are_asked_at_a_time_than_told() {
    let mut hosts = Hosts::new();
    let names: Vec<String> = (0..8).map(|n| format!("web{n}")).collect();
    for name in &names {
        hosts.add(name, Recording::new());
    }
    let text = "#!/bin/sh\necho + >>\"$here/log\"\nsleep 0.2\necho - >>\"$here/log\"\nexit 1\n";
    let program = hosts.program("remote", text);
    let list = hosts.dir().join("list");
    fs::write(&list, names.join("\n")).unwrap();
    let output = hosts
        .command(&["collect", "--hosts", list.to_str().unwrap(), "-o", &out(&hosts)])
        .args(["--parallel", "3"])
        .env("FLIGHTCTL_REMOTE", program)
        .output()
        .unwrap();
    // Nothing was recorded: all have answered, none has a window.
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let log = fs::read_to_string(hosts.dir().join("log")).unwrap();
    let (mut now, mut most) = (0, 0);
    for line in log.lines() {
        now += if line == "+" { 1 } else { -1 };
        most = most.max(now);
    }
    assert_eq!((now, most), (0, 3), "{log}");
}

#[test]
fn an_interrupted_one_leaves_nothing_behind() {
    let mut hosts = Hosts::new();
    hosts.add("web1", Recording::new());
    hosts.add("web2", Recording::new());
    let text = "#!/bin/sh\nprintf '\\004\\000\\000\\000abcd'\necho $$ >\"$here/pid\"\nsleep 600\n";
    let program = hosts.program("remote", text);
    let list = hosts.dir().join("list");
    fs::write(&list, "web1\nweb2\n").unwrap();
    let child = hosts
        .command(&["collect", "--hosts", list.to_str().unwrap(), "-o", &out(&hosts)])
        .args(["--parallel", "1", "--json"])
        .env("FLIGHTCTL_REMOTE", program)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let is_there = || {
        hosts.dir().join("pid").exists()
            && Path::new(&out(&hosts)).is_dir()
            && !files(out(&hosts)).is_empty()
    };
    while !is_there() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }
    let id = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let table = json(&output);
    assert_eq!(table["hosts"][0]["error"], "collect was interrupted");
    assert_eq!(table["hosts"][1]["error"], "not asked: collect was interrupted");
    assert_eq!(files(out(&hosts)), [""; 0]);
    let pid = fs::read_to_string(hosts.dir().join("pid")).unwrap();
    let running = Path::new("/proc").join(pid.trim());
    let begun = Instant::now();
    while running.exists() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{} goes on", running.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}
