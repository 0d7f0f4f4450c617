//! Paths whose end is hidden behind padding, `/./././`: the end is recorded, and found.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use flightrec_format::abi::record::{STRING_HEAD, STRING_TAIL, StringStatus};
use flightrec_format::decode::{Body, Text};
use flightrec_tests::{Recorder, bin_dir, c_program, key_values};

use crate::support::{in_both_forms, snapshot};

fn dump(recorder: &Recorder, since: &str, args: &[&str]) -> Output {
    let mut flightctl = Command::new(bin_dir().join("flightctl"));
    flightctl
        .arg("--runtime-dir")
        .arg(recorder.sandbox().runtime_dir())
        .args(["dump", "--since", since]);
    flightctl.args(args).stdin(Stdio::null()).output().expect("flightctl")
}

/// Its beginning and its end are there.
fn ends_in(text: &Text, end: &str) {
    assert_eq!(
        (text.status, text.bytes.len()),
        (StringStatus::Ends, STRING_HEAD + STRING_TAIL),
        "{text:?}"
    );
    let (head, tail) = text.parts();
    let tail = tail.unwrap_or_default();
    assert!(
        head.starts_with(b"/././") && tail.starts_with(b"/.") && tail.ends_with(end.as_bytes()),
        "{text:?}"
    );
}

#[test]
fn the_end_is_recorded_and_found() {
    // Not too long: the padding is to be seen at both ends.
    let folder = tempfile::Builder::new().prefix("fr").tempdir().expect("folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("mode");
    let secret = folder.path().join("secret");
    // An unprivileged user opens it, and runs it.
    fs::copy("/bin/true", &secret).expect("copy");
    let secret = secret.to_str().expect("text").to_owned();
    in_both_forms(|recorder| {
        let mut program = Command::new("setpriv");
        program.args([
            "--reuid",
            "nobody",
            "--clear-groups",
            "--inh-caps=-all",
            "--bounding-set=-all",
            "--no-new-privs",
        ]);
        let copy = recorder.sandbox().root().join("padded");
        fs::copy(c_program("padded", &[]), &copy).expect("copy");
        let since = jiff::Timestamp::now().to_string();
        let output = program
            .arg("--")
            .arg(&copy)
            .arg(&secret)
            .stdin(Stdio::null())
            .output()
            .expect("setpriv");
        assert!(output.status.success(), "{output:?}");
        let said = key_values(&output.stdout);
        let number =
            |key: &str| said.get(key).and_then(|text| text.parse::<i64>().ok()).unwrap_or(-99);
        assert!(number("fd") > 2, "{said:?}");
        // The premise of the cold one; it is not its file to write to.
        assert_eq!(["present", "present_after", "again"].map(number), [0, 1, -1], "{said:?}");
        let pid = number("pid") as u32;

        let snapshot = snapshot(recorder);
        let mut calls = snapshot.calls_named(pid, "openat");
        calls.retain(|call| {
            call.enter.is_some_and(|(_, call)| call.strings.iter().any(Text::is_cut))
        });
        let of = |ret: i64, flags: u64| {
            let found = calls
                .iter()
                .find(|call| call.ret == Some(ret) && call.args().get(2) == Some(&flags));
            found.unwrap_or_else(|| panic!("no open returned {ret}: {calls:?}"))
        };
        let (plain, cold) =
            (of(number("fd"), 0), of(-13, (libc::O_WRONLY | libc::O_APPEND) as u64));
        ends_in(&plain.enter.expect("entry").1.strings[0], &secret);
        // What could not be read at the entry is read at the exit.
        assert_eq!(cold.enter.expect("entry").1.strings[0].status, StringStatus::Cut);
        ends_in(&cold.exit.expect("exit").1.strings[0], &secret);
        let renames = snapshot.calls_named(pid, "rename");
        let [rename] = &renames[..] else { panic!("{renames:?}") };
        let [from, to] = &rename.enter.expect("entry").1.strings[..] else { panic!("{rename:?}") };
        ends_in(from, &format!("{secret}-old"));
        ends_in(to, &format!("{secret}-moved"));
        let refused = of(-36, 0);
        let text = &refused.enter.expect("entry").1.strings[0];
        assert_eq!(
            (text.status, text.bytes.len()),
            (StringStatus::Cut, 255),
            "ENAMETOOLONG: {text:?}"
        );
        let files: Vec<_> = snapshot
            .of(pid)
            .filter_map(|e| match &e.body {
                Body::Exec { file, .. } => file.clone(),
                _ => None,
            })
            .collect();
        ends_in(files.last().expect("an exec"), &secret);

        let shown = r#"/"..."/."#;
        for pattern in [&*secret, "secret", "**/secret", "/nowhere/**"] {
            let output = dump(
                recorder,
                &since,
                &["--path", pattern, "--syscall", "openat", "--pid", &pid.to_string()],
            );
            let (lines, said) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            let lines: Vec<_> = lines
                .lines()
                .filter(|line| line.contains(shown) && line.contains("secret\""))
                .collect();
            // The entry tells what the exit had of it.
            let (hot, cold) = (
                lines.iter().any(|line| line.contains("O_RDONLY")),
                lines.iter().any(|line| line.contains("O_APPEND")),
            );
            assert!(hot && cold, "{pattern}: {lines:?}");
            assert!(
                said.contains("it is not known whether they match --path"),
                "{pattern}: \
                                                                                 {said}"
            );
        }
        let output = dump(
            recorder,
            &since,
            &["--path", "/etc/other", "--syscall", "openat,rename", "--pid", &pid.to_string()],
        );
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!lines.contains("secret\""), "another path: {lines}");
    });
}
