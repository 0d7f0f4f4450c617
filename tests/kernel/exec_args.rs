//! What is recorded of the arguments of programs, as told, and no more.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use flightrec_format::abi::page::Lane;
use flightrec_format::live::{Generation, LiveRings};
use flightrec_tests::Recorder;

use crate::support::start;

const SECRET: &str = "hunter2-4711-horse";

/// Runs a program that does nothing, with these arguments.
fn run(name: &str, args: &[&str]) -> u32 {
    let mut command = Command::new("/bin/true");
    let mut child = command.arg0(name).args(args).stdin(Stdio::null()).spawn().expect("true");
    assert!(child.wait().expect("its end").success());
    child.id()
}

/// The line of its execution.
fn exec_of(recorder: &Recorder, pid: u32) -> String {
    let out = recorder.flightctl(&["dump", "--all", "--event", "exec", "--pid", &pid.to_string()]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let line = text.lines().find(|line| line.contains("(EXEC)"));
    line.unwrap_or_else(|| panic!("no exec: {text}")).to_owned()
}

/// Whether these bytes stand in any page of the rings, as they are in the kernel.
fn in_rings(recorder: &Recorder, bytes: &str) -> bool {
    let dir = Generation::find(&recorder.sandbox().bpffs_dir()).expect("a recording");
    let recording = LiveRings::open(&dir, false).expect("a recording");
    Lane::RINGS.into_iter().any(|lane| {
        let map = &recording.maps().rings[lane as usize];
        (0..map.entries()).any(|index| {
            let mut page = [0; 4096];
            assert!(map.read(index, 0, &mut page));
            page.windows(bytes.len()).any(|window| window == bytes.as_bytes())
        })
    })
}

#[test]
fn without_strings_there_are_no_arguments() {
    let recorder = start("[record]\nstrings = false");
    let pid = run("true", &["--password=hunter2-4711-horse", "other"]);
    let line = exec_of(&recorder, pid);
    assert!(line.contains("(EXEC) ? true [...]"), "{line}");
    assert!(!in_rings(&recorder, SECRET), "a password is in the rings");
}

#[test]
fn arguments_are_recorded_as_told() {
    for (told, expected) in [
        ("all", r#"(EXEC) "/bin/true" ["true", "--password=hunter2-4711-horse", "other"]"#),
        ("program", r#"(EXEC) "/bin/true" [...]"#),
        ("none", "(EXEC) ? true [...]"),
    ] {
        let recorder = start(&format!("[record]\nexec_args = \"{told}\""));
        let pid = run("true", &["--password=hunter2-4711-horse", "other"]);
        let line = exec_of(&recorder, pid);
        assert!(line.contains(expected), "{told}: {line}");
        assert_eq!(in_rings(&recorder, SECRET), told == "all", "{told}");
    }
}

#[test]
fn what_patterns_name_is_masked_where_it_is_recorded() {
    let recorder = start(
        r#"[record]
mask = ["--password=*", "*--token *", "*_KEY=*"]"#,
    );
    let args = [
        "--password=hunter2-4711-horse",
        "--token",
        SECRET,
        "A_KEY=hunter2-4711-horse",
        "--user=me",
        "last",
    ];
    let pid = run("true", &args);
    let line = exec_of(&recorder, pid);
    let stars = "*".repeat(SECRET.len());
    let expected = format!(
        r#"["true", "--password={stars}", "--token", "{stars}", "A_KEY={stars}", "--user=me", "last"]"#
    );
    assert!(line.contains(&expected), "{line}");
    // What is given to a shell is one argument.
    let line = exec_of(&recorder, run("sh", &["-c", "mysql --token hunter2-4711-horse"]));
    assert!(line.contains(&format!(r#"["sh", "-c", "mysql --token {stars}"]"#)), "{line}");
    // Not in the kernel either.
    assert!(!in_rings(&recorder, SECRET), "a password is in the rings");
    // What could be in the part of a list that is not looked at is not recorded.
    let long = "x".repeat(3000);
    let pid = run(&long, &["--password=hunter2-4711-horse"]);
    assert!(!exec_of(&recorder, pid).contains("hunter2"));
    assert!(!in_rings(&recorder, SECRET), "a password is in the rings");
}

#[test]
fn a_long_first_argument_hides_nothing_behind_it() {
    let recorder = start("");
    let long = "x".repeat(3000);
    let pid = run(&long, &["--remove-everything", "/"]);
    let line = exec_of(&recorder, pid);
    assert!(line.contains(r#"xxx"..., ..."xxx"#), "{line}");
    assert!(line.contains(r#""--remove-everything", "/"] cgroup"#), "{line}");
    let out = recorder.flightctl(&[
        "dump",
        "--all",
        "--event",
        "exec",
        "--pid",
        &pid.to_string(),
        "--format",
        "jsonl",
    ]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let line = text.lines().find(|line| line.contains("\"exec\"")).expect("the exec");
    let json: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let end: Vec<&str> = json["argv_end"]
        .as_array()
        .expect("its end")
        .iter()
        .filter_map(|arg| arg.as_str())
        .collect();
    assert_eq!(end[1..], ["--remove-everything", "/"], "{json}");
    // One that fits in both is whole.
    let pid = run(&"y".repeat(300), &["last"]);
    let line = exec_of(&recorder, pid);
    assert!(line.contains(&format!("[\"{}\", \"last\"]", "y".repeat(300))), "{line}");
}
