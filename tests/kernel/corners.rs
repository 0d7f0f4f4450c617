//! The corners of system calls: entries without exit, exits without entry, odd numbers and values.

use flightrec_format::abi::record::{Abi, NR_INVALID, StringStatus};
use flightrec_format::decode::{Body, Event};
use flightrec_tests::{Recorder, Snapshot, c_program};

use crate::support::{Printed, dump, in_both_forms, run, run_to, snapshot, start};

const ENOSYS: i64 = -38;

/// Runs `calls`, and returns what it printed and what was recorded.
fn calls(recorder: &Recorder) -> (Printed, Snapshot) {
    let folder = recorder.sandbox().root().to_str().expect("UTF-8").to_owned();
    let printed = run_to(7, &c_program("calls", &[]), &[&folder]);
    (printed, snapshot(recorder))
}

#[test]
fn arguments_are_right_whatever_their_size() {
    in_both_forms(|recorder| {
        let (printed, snapshot) = calls(recorder);
        let pid = printed.id("pid");
        let only = |name| {
            let calls = snapshot.calls_named(pid, name);
            calls.into_iter().next().unwrap_or_else(|| panic!("no {name}"))
        };
        let getppid = only("getppid");
        assert_eq!((getppid.args(), getppid.ret), (&[][..], Some(printed.number("ppid"))));
        let mmaps = snapshot.calls_named(pid, "mmap");
        let mmap = mmaps.iter().find(|call| call.args()[1] == 12345).expect("mmap");
        assert_eq!(mmap.args(), [0, 12345, 3, 0x22, u64::MAX, 0]);
        assert_eq!(mmap.ret, Some(printed.number("mmap")), "an address of 47 bits");
        let madvise = only("madvise");
        assert_eq!(madvise.args(), [0x8123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, u64::MAX - 1]);
        assert_eq!(madvise.ret, Some(-22));
        assert_eq!((only("close").args(), only("close").ret), (&[u64::MAX - 6][..], Some(-9)));
    });
}

#[test]
fn numbers_that_no_table_has() {
    in_both_forms(|recorder| {
        let (printed, snapshot) = calls(recorder);
        let calls = snapshot.calls(printed.id("pid"));
        let numbered = |nr: u16| {
            calls.iter().filter(move |c| {
                c.enter.is_some_and(|(_, call)| call.nr == nr && call.abi == Abi::Native)
            })
        };
        // Within the table, but free: all six arguments.
        let free: Vec<_> = numbered(400).collect();
        assert_eq!(
            (free.len(), free[0].args(), free[0].ret),
            (1, &[1, 2, 3, 4, 5, 6][..], Some(ENOSYS))
        );
        // Beyond it the number is the only argument.
        let invalid: Vec<_> =
            numbered(NR_INVALID).map(|call| (call.args()[0] as i64, call.ret)).collect();
        assert_eq!(invalid, [(9999, Some(ENOSYS)), (-1, Some(ENOSYS))]);
        // x32 calls are named by the 64-bit table; this kernel may refuse them.
        let x32: Vec<_> =
            calls.iter().filter(|call| call.abi == Abi::X32).map(|call| &*call.name).collect();
        assert_eq!(x32, ["getpid"]);
    });
}

#[test]
fn paths_long_and_two_and_hostile() {
    in_both_forms(|recorder| {
        let folder = recorder.sandbox().root().to_str().expect("UTF-8").to_owned();
        let pid = run_to(7, &c_program("calls", &[]), &[&folder]).id("pid");
        let snapshot = snapshot(recorder);
        let openat = snapshot.calls_named(pid, "openat");
        let long: Vec<_> = openat
            .iter()
            .filter_map(|c| c.enter?.1.strings.first())
            .filter(|s| s.bytes.len() > 200)
            .collect();
        let [long] = &long[..] else { panic!("{openat:?}") };
        assert_eq!((long.bytes.len(), long.status, long.index), (255, StringStatus::Ends, 1));
        assert!(long.bytes.starts_with(b"/xxx"));
        let rename = &snapshot.calls_named(pid, "rename")[0];
        let paths: Vec<_> =
            rename.enter.expect("entry").1.strings.iter().map(|s| (s.index, &*s.bytes)).collect();
        let (from, to) = (format!("{folder}/from"), format!("{folder}/to"));
        assert_eq!((paths, rename.ret), (vec![(0, from.as_bytes()), (1, to.as_bytes())], Some(0)));

        let lines = dump(
            recorder,
            &["--last", "1h", "--tid", &pid.to_string(), "--event", "sys_enter,sys_exit"],
        );
        for text in [
            format!(r#"rename("{from}", "{to}") -->"#),
            r#"mkdir("/nonexistent/a\n\33[2J\377\"", 0700) -->"#.to_owned(),
            format!(
                r#"openat(AT_FDCWD, "/{}"..."{}", O_RDONLY) -->"#,
                "x".repeat(126),
                "x".repeat(128)
            ),
            "close(-7) -->".to_owned(),
            "syscall_9999(...) -->".to_owned(),
            "[x32] getpid() -->".to_owned(),
        ] {
            assert!(lines.iter().any(|line| line.text == text), "no {text}");
        }
        assert!(lines.iter().any(|line| line.text.starts_with("close <-- -9 EBADF (")));
    });
}

#[test]
fn a_call_that_slept_tells_its_arguments_again() {
    in_both_forms(|recorder| {
        let (printed, snapshot) = calls(recorder);
        let calls = snapshot.calls_named(printed.id("pid"), "clock_nanosleep");
        let [sleep] = &calls[..] else { panic!("{calls:?}") };
        let ((entered, enter), (left, exit)) =
            (sleep.enter.expect("entry"), sleep.exit.expect("exit"));
        assert!(left - entered >= 30_000_000);
        // CLOCK_MONOTONIC
        assert_eq!((exit.nargs, exit.args, sleep.ret), (4, enter.args, Some(0)));
        assert_eq!(exit.args[0], 1);
    });
}

#[test]
fn a_call_that_slept_a_moment_leaves_its_arguments_to_its_entry() {
    in_both_forms(|recorder| {
        let (printed, snapshot) = calls(recorder);
        let calls = snapshot.calls_named(printed.id("pid"), "nanosleep");
        assert_eq!(calls.len(), 20);
        let mut short = 0;
        for nap in &calls {
            let ((entered, enter), (left, exit)) =
                (nap.enter.expect("entry"), nap.exit.expect("exit"));
            assert!(left - entered >= 500_000 && nap.ret == Some(0) && enter.nargs == 2, "{nap:?}");
            short += usize::from(exit.nargs == 0);
            // Where it was preempted as well.
            assert!(exit.nargs == 0 || (exit.nargs, exit.args) == (2, enter.args), "{nap:?}");
        }
        assert!(short > 0, "{calls:?}");
    });
}

#[test]
fn calls_that_do_not_return_where_they_began() {
    in_both_forms(|recorder| {
        let (printed, snapshot) = calls(recorder);
        let pid = printed.id("pid");
        let exit = &snapshot.calls_named(pid, "exit_group")[0];
        assert_eq!((exit.args(), exit.exit.is_none()), (&[7][..], true));
        assert!(
            snapshot
                .of(pid)
                .any(|e| matches!(&e.body, Body::TaskExit(exit) if exit.code == 7 << 8))
        );
        let sigreturn = &snapshot.calls_named(pid, "rt_sigreturn")[0];
        assert!(sigreturn.enter.is_some());
        // It returns what the interrupted call did: raise's tgkill was done.
        assert_eq!((sigreturn.args(), sigreturn.ret), (&[][..], Some(0)));
    });
}

#[test]
fn seccomp_denies_and_there_is_no_entry() {
    in_both_forms(|recorder| {
        let pid = run(&c_program("seccomp_deny", &[]), &[]).id("pid");
        let snapshot = snapshot(recorder);
        let calls = snapshot.calls_named(pid, "mkdir");
        let [denied] = &calls[..] else { panic!("{calls:?}") };
        assert!(denied.enter.is_none());
        assert_eq!((denied.ret, denied.args().len(), denied.args()[1]), (Some(-1), 2, 0o700));
        let lines =
            dump(recorder, &["--last", "1h", "--tid", &pid.to_string(), "--syscall", "mkdir"]);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(line.text, r#"mkdir("/tmp/flightrec-denied", 0700) <-- -1 EPERM"#);
    });
}

#[test]
fn children_return_from_a_call_that_they_never_entered() {
    in_both_forms(|recorder| {
        let printed = run(&c_program("vfork_clone", &[]), &[]);
        let snapshot = snapshot(recorder);
        let made = snapshot.calls(printed.id("pid"));
        for (key, names) in
            [("vfork", &["vfork"][..]), ("fork", &["clone"]), ("thread", &["clone3", "clone"])]
        {
            let child = printed.id(key);
            let calls = snapshot.calls(child);
            let first = calls.first().unwrap_or_else(|| panic!("{key}: nothing of {child}"));
            assert!(names.contains(&&*first.name), "{key}: {first:?}");
            assert!(first.enter.is_none(), "{key}: {first:?}");
            assert_eq!(first.ret, Some(0), "{key}");
            // The parent's call, of which this is the second return.
            let parents = made
                .iter()
                .find(|call| call.ret == Some(i64::from(child)))
                .expect("the parent's call");
            assert_eq!((&parents.name, parents.args()), (&first.name, first.args()), "{key}");
        }
    });
}

#[test]
fn an_interrupted_call_is_restarted() {
    in_both_forms(|recorder| {
        let printed = run(&c_program("restart", &[]), &[]);
        let (pid, fd) = (printed.id("pid"), printed.number::<u64>("fd"));
        let snapshot = snapshot(recorder);
        let reads = snapshot.calls_named(pid, "read");
        let reads: Vec<_> = reads.iter().filter(|call| call.args()[0] == fd).collect();
        let [interrupted, restarted] = &reads[..] else { panic!("{reads:?}") };
        assert_eq!((interrupted.ret, restarted.ret), (Some(-512), Some(1)));
        assert_eq!(interrupted.args(), restarted.args());
        assert!(interrupted.enter.is_some() && restarted.enter.is_some());
        // Between them the handler ran.
        let names: Vec<_> = snapshot.calls(pid).into_iter().map(|call| call.name).collect();
        let between = names
            .iter()
            .skip_while(|name| *name != "read")
            .skip(1)
            .take_while(|name| *name != "read");
        assert_eq!(between.collect::<Vec<_>>(), ["write", "rt_sigreturn"]);
        let lines =
            dump(recorder, &["--last", "1h", "--tid", &pid.to_string(), "--syscall", "read"]);
        assert!(
            lines.iter().any(|line| line.text.starts_with("read <-- -512 ERESTARTSYS (")),
            "{lines:?}"
        );
    });
}

#[test]
fn a_thread_executes_and_takes_its_leaders_id() {
    in_both_forms(|recorder| {
        let printed = run(&c_program("exec_thread", &[]), &[]);
        let (pid, thread) = (printed.id("pid"), printed.id("thread"));
        let snapshot = snapshot(recorder);
        let bodies = snapshot.events.iter().map(|event| &event.body);
        let execs: Vec<_> = bodies
            .filter_map(|body| match body {
                Body::Exec { exec, file, args } if exec.tgid == pid && exec.old_tid != exec.tid => {
                    Some((exec, file, args))
                }
                _ => None,
            })
            .collect();
        let [(exec, file, args)] = &execs[..] else { panic!("{execs:?}") };
        assert_eq!((exec.old_tid, exec.tid), (thread, pid));
        assert_eq!(&exec.comm[..4], b"exe\0");
        assert_eq!(&*file.as_ref().expect("its file").bytes, b"/proc/self/exe");
        assert_eq!(&*args.as_ref().expect("its arguments").bytes, b"exec_thread\0end\0");
        // Entered under the one id, left under the other.
        let entered = &snapshot.calls_named(thread, "execve")[0];
        assert_eq!(&*entered.enter.expect("its entry").1.strings[0].bytes, b"/proc/self/exe");
        assert!(entered.exit.is_none());
        let left = snapshot.calls_named(pid, "execve").into_iter().next_back().expect("its return");
        assert_eq!((left.ret, left.args().len()), (Some(0), 0));

        let lines = dump(recorder, &["--last", "1h", "--pid", &pid.to_string()]);
        let exec = lines
            .iter()
            .find(|line| line.text.ends_with(&format!("(was thread {thread})")))
            .expect("the exec");
        assert!(
            exec.text.starts_with(r#"(EXEC) "/proc/self/exe" ["exec_thread", "end"]"#),
            "{}",
            exec.text
        );
        let end = lines
            .iter()
            .rfind(|line| line.tid == pid && line.text.starts_with("exit_group"))
            .expect("its end");
        assert_eq!(end.comm, "exe");
    });
}

#[test]
fn a_path_in_a_page_that_was_never_touched() {
    in_both_forms(|recorder| {
        let printed = run(&c_program("cold_path", &[]), &["/etc/hostname"]);
        assert_eq!(printed.number::<i64>("present"), 0, "the premise");
        let (pid, fd) = (printed.id("pid"), printed.number::<i64>("fd"));
        let snapshot = snapshot(recorder);
        let opened = snapshot
            .calls_named(pid, "openat")
            .into_iter()
            .rfind(|call| call.ret == Some(fd))
            .expect("the call");
        let (enter, exit) = (opened.enter.expect("entry").1, opened.exit.expect("exit").1);
        assert_eq!(
            (enter.strings[0].status, enter.strings[0].bytes.len()),
            (StringStatus::Unreadable, 0)
        );
        assert_eq!(
            (exit.strings[0].status, &*exit.strings[0].bytes),
            (StringStatus::Whole, &b"/etc/hostname"[..])
        );
        let lines =
            dump(recorder, &["--last", "1h", "--tid", &pid.to_string(), "--syscall", "openat"]);
        assert!(lines.iter().any(|line| line.text.contains("\"/etc/hostname\"")), "{lines:?}");
    });
}

/// Who runs is mostly known without asking the kernel (`probes-ebpf/src/running.rs`).
#[test]
fn each_call_is_its_own_threads() {
    let each = |recorder: &Recorder| {
        let printed = run(&c_program("churn", &[]), &[]);
        let snapshot = snapshot(recorder);
        let said = |event: &Event| match &event.body {
            Body::Enter(call) if call.nargs == 2 && call.args[0] == 0x7717 => {
                Some((event.tid, call.args[1]))
            }
            _ => None,
        };
        let said: Vec<_> = snapshot.events.iter().filter_map(said).collect();
        assert_eq!(said.len(), printed.number::<usize>("calls"));
        let wrong: Vec<_> = said.iter().filter(|(tid, told)| u64::from(*tid) != *told).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    };
    in_both_forms(each);
    // Nobody then tells who takes another's id.
    each(&start("[record]\ntasks = false"));
}
