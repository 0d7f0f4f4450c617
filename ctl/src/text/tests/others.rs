use flightrec_format::abi::record::{Exec, Fork, Rename, TaskExit, WakeContext};

use super::super::Wake;
use super::*;

fn switch(prev_prio: u8, prev_state: u16, preempted: bool, next: u32, next_prio: u8) -> Body {
    Body::Switch { prev_prio, prev_state, preempted, io_wait: false, next, next_prio }
}

#[test]
fn columns() {
    let mut out = Vec::new();
    let event = Event { time: 0, cpu: 127, tid: 4_194_303, body: switch(120, 1, false, 0, 120) };
    let cx = EventContext { comm: comm(b"a\x1bb"), ..context() };
    renderer().line(&event, &cx, &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "14:03:07.123456 [127] 4194303 a\\33b            a\\33b[n:0] <-- \
         TASK_INTERRUPTIBLE\n14:03:07.123456 [127]       0 swapper/127      swapper/127[n:0] -->\n"
    );
}

#[test]
fn switches() {
    let cx = EventContext { next_comm: comm(b"TP09"), ..context() };
    let first = |body| lines(body, &cx).remove(0);
    assert_eq!(first(switch(115, 1, false, 5, 120)), "mysqld[n:-5] <-- TASK_INTERRUPTIBLE");
    assert_eq!(first(switch(120, 0, true, 5, 120)), "mysqld[n:0] <-- TASK_RUNNING (preempted)");
    // A control group's quota is spent: nobody took the CPU.
    assert_eq!(
        first(switch(120, 0, true, 0, 120)),
        "mysqld[n:0] <-- TASK_RUNNING (gave way to idle)"
    );
    assert_eq!(
        first(switch(120, 0, false, 0, 120)),
        "mysqld[n:0] <-- TASK_RUNNING (gave way to idle)"
    );
    assert_eq!(first(switch(120, 0, false, 5, 120)), "mysqld[n:0] <-- TASK_RUNNING");
    assert_eq!(first(switch(120, 1, false, 0, 120)), "mysqld[n:0] <-- TASK_INTERRUPTIBLE");
    assert_eq!(first(switch(120, 0x402, false, 5, 120)), "mysqld[n:0] <-- TASK_IDLE");
    assert_eq!(first(switch(49, 0x80, false, 5, 120)), "mysqld[r:50] <-- TASK_DEAD");
    assert_eq!(first(switch(255, 2, false, 5, 120)), "mysqld[d] <-- TASK_UNINTERRUPTIBLE");
    assert_eq!(
        lines(switch(120, 1, false, 7777, 139), &cx)[1],
        "14:03:07.123456 [001]    7777 TP09             TP09[n:19] -->"
    );
}

#[test]
fn wakeups_and_migrations() {
    let waking = |new| Body::Waking {
        wakee: 8884,
        prio: 115,
        state: 1,
        cpu: 7,
        new,
        context: WakeContext::Thread,
    };
    let wake = |queued_on, runs_on, qlen| EventContext {
        next_comm: comm(b"TP09"),
        wake: Some(Wake { queued_on, runs_on, qlen }),
        ..context()
    };
    assert_eq!(line(waking(false), &wake(7, 7, Some(0))), "(RUNQ) #7 8884 TP09[n:-5] qlen:0");
    assert_eq!(line(waking(false), &wake(1, 7, None)), "(RUNQ) #1>7 8884 TP09[n:-5] qlen:?");
    assert_eq!(line(waking(true), &wake(3, 3, Some(12))), "(RUNQ new) #3 8884 TP09[n:-5] qlen:12");
    assert_eq!(line(waking(false), &context()), "(RUNQ) #7 8884 ?[n:-5] qlen:?");
    let migrate = Body::Migrate { thread: 8884, prio: 120, from: 1, to: 3 };
    assert_eq!(line(migrate, &wake(0, 0, None)), "(MIGRATE) 8884 TP09[n:0] #1>#3");
}

#[test]
fn forks() {
    let fork = Fork {
        parent_tid: 8883,
        parent_tgid: 8883,
        tid: 9000,
        tgid: 9000,
        start_time: 0,
        cgroup: 1,
        comm: comm(b"mysqld"),
        shares: 0,
    };
    assert_eq!(line(Body::Fork(fork), &context()), "(FORK) -> 9000 mysqld (process 9000)");
    assert_eq!(
        line(Body::Fork(Fork { tgid: 8883, ..fork }), &context()),
        "(FORK) -> 9000 mysqld (thread of 8883)"
    );
}

#[test]
fn execs() {
    let exec = |args_len| Exec {
        tid: 8883,
        old_tid: 8883,
        tgid: 8883,
        args_len,
        cgroup: 5,
        comm: comm(b"ls"),
    };
    let file = || Some(string(0, StringStatus::Whole, b"/bin/ls"));
    let args = |status, bytes: &[u8]| Some(string(1, status, bytes));
    let body = |exec, args| Body::Exec { exec, file: file(), args };
    let whole = StringStatus::Whole;
    let expected = r#"(EXEC) "/bin/ls" ["ls", "-l", "/"] cgroup:5"#;
    assert_eq!(line(body(exec(8), args(whole, b"ls\0-l\0/")), &context()), expected);
    assert_eq!(line(body(exec(8), args(whole, b"ls\0-l\0/\0")), &context()), expected);
    assert_eq!(
        line(body(exec(4), args(whole, b"ls\0")), &context()),
        r#"(EXEC) "/bin/ls" ["ls", ""] cgroup:5"#
    );
    assert_eq!(
        line(body(exec(100), args(StringStatus::Cut, b"ls\0--col")), &context()),
        r#"(EXEC) "/bin/ls" ["ls", "--col"...] cgroup:5"#
    );
    let hole = [&[b'x'; 256][..], b"yz\0last\0"].concat();
    assert_eq!(
        line(body(exec(900), args(StringStatus::Cut, &hole)), &context()),
        format!(r#"(EXEC) "/bin/ls" ["{}"..., ..."yz", "last"] cgroup:5"#, "x".repeat(256))
    );
    assert_eq!(
        line(body(exec(0), args(whole, b"")), &context()),
        r#"(EXEC) "/bin/ls" [] cgroup:5"#
    );
    assert_eq!(line(body(exec(9), None), &context()), r#"(EXEC) "/bin/ls" [...] cgroup:5"#);
    let other = Body::Exec { exec: Exec { old_tid: 8890, ..exec(0) }, file: None, args: None };
    assert_eq!(line(other, &context()), "(EXEC) ? ls [] cgroup:5 (was thread 8890)");
}

#[test]
fn names_and_ends() {
    let rename = Rename { tid: 8883, tgid: 8883, old: comm(b"mysqld"), new: comm(b"a\"b\n") };
    assert_eq!(line(Body::Rename(rename), &context()), r#"(RENAME) "mysqld" -> "a\"b\n""#);
    let rename = Rename { tid: 9, ..rename };
    assert_eq!(line(Body::Rename(rename), &context()), r#"(RENAME) 9 "mysqld" -> "a\"b\n""#);
    let exit = |code| {
        let exit =
            TaskExit { tid: 8883, tgid: 8883, code, left: 0, start_time: 0, comm: comm(b"mysqld") };
        line(Body::TaskExit(exit), &context())
    };
    assert_eq!(exit(0), "(EXIT) status 0");
    assert_eq!(exit(1 << 8), "(EXIT) status 1");
    assert_eq!(exit(9), "(EXIT) killed by SIGKILL");
    assert_eq!(exit(0x8b), "(EXIT) killed by SIGSEGV (core dumped)");
    assert_eq!(exit(34), "(EXIT) killed by SIGRT_2");
}

#[test]
fn marks_and_acts() {
    let text = |bytes: &[u8]| string(0, StringStatus::Whole, bytes);
    assert_eq!(
        line(Body::Mark(text(b"deploy \x1b]0;x\x07")), &context()),
        r"(MARK) deploy \33]0;x\7"
    );
    assert_eq!(
        line(Body::Act(1, text(b"recording starts")), &context()),
        "(RECORDER) recording starts"
    );
}

#[test]
fn colours_frame_failures_and_nothing_else() {
    let mut renderer = Renderer::new(
        &meta(),
        Options {
            colour: true,
            exit_arguments: false,
            merge: false,
            fds: Naming::Near,
            stacks: true,
            graph: false,
            traces: false,
            time_zone: TimeZone::UTC,
        },
    );
    let mut exit = |ret| {
        let body = Body::Exit { call: call(3, &[], Vec::new()), ret, entered: None };
        let mut out = Vec::new();
        renderer.line(&Event { time: 0, cpu: 1, tid: 8883, body }, &context(), &mut out);
        String::from_utf8(out).unwrap()
    };
    let columns = "\x1b[2m14:03:07.123456 [001]\x1b[0m    8883 mysqld           ";
    assert_eq!(exit(0), format!("{columns}close <-- 0\n"));
    assert_eq!(exit(-9), format!("{columns}\x1b[31mclose <-- -9 EBADF\x1b[0m\n"));
    assert_eq!(exit(-512), format!("{columns}close <-- -512 ERESTARTSYS\n"));
}

#[test]
fn colours_of_long_times_and_of_what_can_not_be_interrupted() {
    let options = Options { colour: true, time_zone: TimeZone::UTC, ..Options::default() };
    let mut renderer = Renderer::new(&meta(), options);
    let mut line = |body, took| {
        let mut out = Vec::new();
        let cx = EventContext { duration_ns: took, ..context() };
        renderer.line(&Event { time: 0, cpu: 1, tid: 8883, body }, &cx, &mut out);
        let text = String::from_utf8(out).unwrap();
        text.lines().next().unwrap().split_once("mysqld           ").unwrap().1.to_owned()
    };
    let exit = |ret| Body::Exit { call: call(3, &[], Vec::new()), ret, entered: None };
    let ms = 1_000_000;
    assert_eq!(line(exit(0), Some(10 * ms)), "close <-- 0 (10 ms)");
    assert_eq!(line(exit(0), Some(11 * ms)), "close <-- 0 (\x1b[33m11 ms\x1b[0m)");
    assert_eq!(
        line(exit(-9), Some(1001 * ms)),
        "\x1b[31mclose <-- -9 EBADF\x1b[0m (\x1b[1;35m1.0 s\x1b[0m)"
    );
    let switch = |prev_state, preempted| Body::Switch {
        prev_prio: 120,
        prev_state,
        preempted,
        io_wait: false,
        next: 0,
        next_prio: 120,
    };
    for (state, preempted, shown) in [
        (1, false, "TASK_INTERRUPTIBLE"),
        (2, false, "\x1b[1;31mTASK_UNINTERRUPTIBLE\x1b[0m"),
        (0x102, false, "\x1b[1;31mTASK_KILLABLE\x1b[0m"),
        (0x402, false, "TASK_IDLE"),
        (2, true, "TASK_UNINTERRUPTIBLE (gave way to idle)"),
    ] {
        assert_eq!(line(switch(state, preempted), None), format!("mysqld[n:0] <-- {shown}"));
    }
}
