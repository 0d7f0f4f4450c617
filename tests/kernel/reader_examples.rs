//! The examples of the library `flightrec-reader`, over a file that was saved.

use std::path::PathBuf;
use std::process::Command;

use flightrec_tests::c_program;
use tempfile::TempDir;

use crate::support::{dump, run, start};

/// Beside this program: cargo builds the examples with the tests.
fn example(name: &str) -> Command {
    let mut path: PathBuf = std::env::current_exe().expect("this program");
    path.pop();
    path.pop();
    path.push("examples");
    path.push(name);
    assert!(path.is_file(), "no {}: `cargo build -p flightrec-reader --examples`", path.display());
    Command::new(path)
}

fn output(name: &str, file: &str) -> String {
    let output = example(name).arg(file).output().expect("run");
    assert!(output.status.success(), "{name}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn they_tell_what_flightctl_tells() {
    let recorder = start("");
    let sleeper = run(&c_program("hogs", &[]), &["1", "0", "5", "50000"]).id("sleeper");
    let dir = TempDir::new().expect("directory");
    let file = dir.path().join("saved.flight").display().to_string();
    let saved = recorder.flightctl(&["save", "--last", "1h", "-o", &file]);
    assert!(saved.status.success(), "{saved:?}");

    // A switch is two lines of text, and one event.
    let of_file = ["--file", &file, "--all"];
    let switches = dump(&recorder, &[&of_file[..], &["--event", "switch"]].concat()).len();
    let lines = dump(&recorder, &of_file).len() - switches / 2;
    // Stacks and samples are not in the text, where they are not asked for.
    let stacks =
        [&["dump", "--format", "jsonl"], &of_file[..], &["--event", "stack,sample"]].concat();
    let stacks = recorder.flightctl(&stacks).stdout;
    let stacks = String::from_utf8_lossy(&stacks).matches("\"event\":\"s").count();
    assert!(stacks > 0, "of the sleeper at least");
    let printed = output("print", &file);
    let events = printed.lines().filter(|line| !line.contains(", complete: ")).count();
    assert_eq!(
        events,
        lines + stacks,
        "{}",
        printed.lines().take(3).collect::<Vec<_>>().join("\n")
    );
    assert!(printed.contains("a hardirq wakes"), "of a sleep's timer");

    let counted = output("count_by_call", &file);
    assert!(counted.contains("clock_nanosleep"), "{counted}");
    let longest = output("longest_wait", &file);
    assert!(longest.contains("woken by"), "of {sleeper} or another: {longest}");
}
