//! System calls of other tables than the machine's own: 32-bit programs, `int 0x80`, x32.

use std::process::{Command, Stdio};

use flightrec_format::abi::record::Abi;
use flightrec_tests::{c_program, key_values};

use crate::support::{dump, in_both_forms, run, snapshot};

#[test]
fn a_32_bit_program() {
    in_both_forms(|recorder| {
        let child = Command::new(c_program("compat32", &["-m32", "-nostdlib"]))
            .stdout(Stdio::piped())
            .spawn()
            .expect("run");
        let pid = child.id();
        let output = child.wait_with_output().expect("wait");
        assert_eq!(key_values(&output.stdout)["pid"], pid.to_string());

        let snapshot = snapshot(recorder);
        let calls: Vec<_> =
            snapshot.calls(pid).into_iter().filter(|call| call.abi == Abi::Compat).collect();
        let names: Vec<_> =
            calls.iter().map(|call| &*call.name).filter(|name| *name != "execve").collect();
        assert_eq!(names, ["getpid", "openat", "write", "write", "exit_group"]);
        let of = |name| calls.iter().find(|call| call.name == name).expect("recorded");
        assert_eq!((of("getpid").args(), of("getpid").ret), (&[][..], Some(i64::from(pid))));
        assert_eq!((of("openat").args().len(), of("openat").args()[0] as i32), (4, -100));
        // The program's constants may be in a page that nobody has touched yet.
        assert_eq!(&*of("openat").string(1).expect("a path").bytes, b"/etc/hostname");
        assert_eq!(
            (of("write").args()[0], of("write").args()[2], of("write").ret),
            (1, 0, Some(0))
        );
        assert!(of("exit_group").exit.is_none());

        let lines = dump(recorder, &["--last", "1h", "--pid", &pid.to_string()]);
        let said = |begin: &str| lines.iter().any(|line| line.text.starts_with(begin));
        assert!(said("[32-bit] getpid() -->") && said("[32-bit] exit_group(0) -->"), "{lines:?}");
        assert!(said("[32-bit] openat(AT_FDCWD, \"/etc/hostname\", O_RDONLY)"), "{lines:?}");
        // By name it is found in either table.
        let found =
            dump(recorder, &["--last", "1h", "--pid", &pid.to_string(), "--syscall", "getpid"]);
        assert_eq!(found.len(), 2, "{found:?}");
    });
}

#[test]
fn a_32_bit_call_of_a_64_bit_program() {
    in_both_forms(|recorder| {
        let pid = run(&c_program("int80", &[]), &[]).id("pid");
        let snapshot = snapshot(recorder);
        let compat: Vec<_> =
            snapshot.calls(pid).into_iter().filter(|call| call.abi == Abi::Compat).collect();
        let [call] = &compat[..] else { panic!("{compat:?}") };
        assert_eq!((&*call.name, call.args(), call.ret), ("getpid", &[][..], Some(i64::from(pid))));
        assert!(call.enter.is_some());
        // The 64-bit table has writev there, which it did not call.
        assert!(snapshot.calls_named(pid, "writev").iter().all(|call| call.abi == Abi::Compat));
        assert!(!snapshot.calls_named(pid, "getpid").is_empty());
    });
}
