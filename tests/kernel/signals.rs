//! Signals: who sent which to whom, why, and what became of it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use flightrec_tests::{Recorder, c_program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, gettid};
use serde_json::Value;
use tempfile::TempDir;

use crate::json::valid_dump;
use crate::lacking::{btf_without, status};
use crate::support::{Line, dump, run, share_recorder, start};

/// What a recorder holds of signals at one moment, as text and as JSON.
struct Recorded {
    lines: Vec<Line>,
    events: Vec<Value>,
}

impl Recorded {
    fn of(recorder: &Recorder) -> Self {
        let dir = TempDir::new().expect("directory");
        let file = dir.path().join("saved.flight").display().to_string();
        let output = recorder.flightctl(&["save", "--last", "1h", "-o", &file]);
        assert!(output.status.success(), "{output:?}");
        let args = ["--file", &file, "--event", "signal_generate,signal_deliver"];
        Self { lines: dump(recorder, &args), events: valid_dump(recorder, &args) }
    }

    /// The one event of which `is` is true, and its line without the thread.
    #[track_caller]
    fn one(&self, is: impl Fn(&Value) -> bool) -> (&Value, &str) {
        let found: Vec<usize> = (0..self.events.len()).filter(|at| is(&self.events[*at])).collect();
        let [at] = found[..] else { panic!("{} events: {:#?}", found.len(), self.events) };
        (&self.events[at], &self.lines[at].text)
    }

    /// The signal that was sent to a process.
    #[track_caller]
    fn sent(&self, signal: &str, process: u32) -> (&Value, &str) {
        self.one(|event| {
            event["event"] == "signal_generate"
                && event["signal"] == signal
                && event["target_pid"] == process
        })
    }

    /// The signal that a process took.
    #[track_caller]
    fn taken(&self, signal: &str, process: u32) -> (&Value, &str) {
        self.one(|event| {
            event["event"] == "signal_deliver"
                && event["signal"] == signal
                && event["pid"] == process
        })
    }
}

/// Whose event it is: thread, process and name.
fn by(event: &Value) -> (u64, u64, &str) {
    let id = |field: &str| event[field].as_u64().expect("an id");
    (id("tid"), id("pid"), event["comm"].as_str().expect("a name"))
}

fn who_sent_which_signal_to_whom(recorder: &Recorder) {
    // `kill -9` by a shell.
    let mut victim = Command::new("sleep").arg("60").spawn().expect("sleep");
    let victim_pid = victim.id();
    let mut killer =
        Command::new("sh").args(["-c", &format!("kill -9 {victim_pid}")]).spawn().expect("sh");
    let killer_pid = killer.id();
    assert!(killer.wait().expect("wait").success());
    victim.wait().expect("wait");
    // A fault.
    let output = Command::new(c_program("bad_end", &[])).arg("segv").output().expect("run");
    let faulty = String::from_utf8(output.stdout).expect("UTF-8");
    let faulty: u32 =
        faulty.trim().strip_prefix("pid=").expect("its pid").parse().expect("a number");
    // A timer's SIGALRM; `timeout` then ends its child by SIGTERM.
    let mut timed = Command::new("timeout")
        .args(["--foreground", "1", "sleep", "60"])
        .spawn()
        .expect("timeout");
    let timed_pid = timed.id();
    assert_eq!(timed.wait().expect("wait").code(), Some(124));
    // One with a handler, from this process.
    let mut trap = Command::new("sh")
        .args(["-c", "trap 'exit 7' USR1; echo ready; read line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh");
    let trap_pid = trap.id();
    let mut ready = String::new();
    BufReader::new(trap.stdout.as_mut().expect("a pipe")).read_line(&mut ready).expect("a line");
    kill(Pid::from_raw(trap_pid as i32), Signal::SIGUSR1).expect("sent");
    assert_eq!(trap.wait().expect("wait").code(), Some(7));

    let recorded = Recorded::of(recorder);
    assert_eq!(recorded.lines.len(), recorded.events.len());

    let (event, line) = recorded.sent("SIGKILL", victim_pid);
    assert_eq!(by(event), (killer_pid.into(), killer_pid.into(), "sh"));
    assert_eq!(event["target_tid"], victim_pid);
    let expected = format!(
        "(SIGNAL_GENERATE) signal=SIGKILL code=SI_USER target_tid={victim_pid} \
         target_pid={victim_pid} scope=process result=delivered target_comm=\"sleep\""
    );
    assert_eq!(line, expected);
    let (event, line) = recorded.taken("SIGKILL", victim_pid);
    assert_eq!(by(event).2, "sleep");
    assert_eq!(line, "(SIGNAL_DELIVER) signal=SIGKILL code=SI_USER handler=SIG_DFL flags=0");

    let (event, line) = recorded.sent("SIGSEGV", faulty);
    assert_eq!(by(event), (faulty.into(), faulty.into(), "bad_end"));
    assert_eq!((&event["code"], &event["scope"]), (&"SEGV_MAPERR".into(), &"thread".into()));
    assert!(line.contains("signal=SIGSEGV code=SEGV_MAPERR target_tid="), "{line}");
    assert_eq!(recorded.taken("SIGSEGV", faulty).0["code"], "SEGV_MAPERR");

    let (event, line) = recorded.sent("SIGALRM", timed_pid);
    assert_eq!((&event["code"], &event["target_comm"]), (&"SI_TIMER".into(), &"timeout".into()));
    assert!(line.contains("signal=SIGALRM code=SI_TIMER target_tid="), "{line}");
    let (event, _) = recorded.taken("SIGALRM", timed_pid);
    assert_eq!((by(event).2, &event["code"]), ("timeout", &"SI_TIMER".into()));
    let (event, _) = recorded.one(|event| {
        event["event"] == "signal_generate"
            && event["signal"] == "SIGTERM"
            && event["pid"] == timed_pid
    });
    assert_eq!((&event["code"], &event["target_comm"]), (&"SI_USER".into(), &"sleep".into()));

    let (event, _) = recorded.sent("SIGUSR1", trap_pid);
    let (me, pid) = (gettid().as_raw() as u64, std::process::id());
    assert_eq!((by(event).0, by(event).1), (me, pid.into()));
    assert_eq!((&event["code"], &event["target_comm"]), (&"SI_USER".into(), &"sh".into()));
    let (event, line) = recorded.taken("SIGUSR1", trap_pid);
    assert!(event["handler"].as_str().expect("text").starts_with("0x"), "{event}");
    assert!(event["flags"].as_str().expect("text").contains("SA_RESTORER"), "{event}");
    assert!(line.starts_with("(SIGNAL_DELIVER) signal=SIGUSR1 code=SI_USER handler=0x"), "{line}");

    // Who asks for the target, or for the sender, finds it.
    for process in [victim_pid, killer_pid] {
        let args = ["--last", "1h", "--pid", &process.to_string(), "--event", "signal_generate"];
        let lines = dump(recorder, &args);
        let found = lines.iter().filter(|line| line.text.contains("signal=SIGKILL"));
        assert_eq!(found.count(), 1, "{lines:#?}");
    }
}

/// Signals that are ignored, and those that are pending already.
fn what_became_of_a_signal(recorder: &Recorder) {
    let program = "trap '' USR1; trap : USR2; kill -USR1 $$; kill -STOP $$; exit 3";
    let mut shell = Command::new("sh").args(["-c", program]).spawn().expect("sh");
    let pid = Pid::from_raw(shell.id() as i32);
    let stopped = nix::sys::wait::waitpid(pid, Some(nix::sys::wait::WaitPidFlag::WUNTRACED));
    assert!(matches!(stopped, Ok(nix::sys::wait::WaitStatus::Stopped(..))), "{stopped:?}");
    for signal in [Signal::SIGUSR2, Signal::SIGUSR2, Signal::SIGCONT] {
        kill(pid, signal).expect("sent");
    }
    assert_eq!(shell.wait().expect("wait").code(), Some(3));
    let recorded = Recorded::of(recorder);
    let results = |signal: &str| -> Vec<&str> {
        let sent = recorded.events.iter().filter(|event| {
            event["event"] == "signal_generate"
                && event["signal"] == signal
                && event["target_pid"] == shell.id()
        });
        sent.map(|event| event["result"].as_str().expect("text")).collect()
    };
    assert_eq!(results("SIGUSR1"), ["ignored"]);
    assert_eq!(results("SIGUSR2"), ["delivered", "already_pending"]);
}

#[test]
fn a_kernel_without_the_tracepoints_records_all_else() {
    let dir = TempDir::new().expect("directory");
    let names = ["btf_trace_signal_generate", "btf_trace_signal_deliver"];
    let btf = btf_without(&names, dir.path());
    let recorder = start(&format!("[kernel]\nbtf = \"{}\"\n", btf.display()));
    run(&c_program("pingpong", &[]), &["500", "4"]);
    let status = status(&recorder);
    let lacking = status["lacking"].as_array().expect("a list");
    let whats: BTreeSet<&str> =
        lacking.iter().map(|row| row["what"].as_str().expect("text")).collect();
    assert_eq!(whats, BTreeSet::from(["signals that are sent", "signals that are taken"]));
    let events = &status["lanes"]["sched"]["events"];
    assert!(events["switch"].as_u64() > Some(100), "{status:#}");
    assert_eq!(events["signal_generate"].as_u64(), Some(0), "{status:#}");
    let args = ["dump", "--last", "1s", "--event", "signal_generate"];
    let output = recorder.flightctl(&args);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = "# not recorded on this kernel: signals that are sent (this kernel's BTF does not \
                describe the tracepoint signal:signal_generate)";
    assert_eq!(said.matches(line).count(), 1, "{said}");
}

/// Each topic of a lane by itself: what shares the ring is recorded, and what is off is told.
#[test]
fn they_are_left_out_where_the_configuration_says_so() {
    for (off, on) in [("signals", "sched"), ("sched", "signals")] {
        let recorder = start(&format!("[record]\n{off} = false"));
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("kill");
        child.wait().expect("its end");
        let status = status(&recorder);
        assert_eq!(status["switched_off"], serde_json::json!([off]), "{status:#}");
        let kinds = |topic| match topic {
            "signals" => ["signal_generate", "signal_deliver"],
            _ => ["switch", "waking"],
        };
        let events = &status["lanes"]["sched"]["events"];
        assert!(kinds(off).iter().all(|kind| events[*kind] == 0), "{off} is off: {events}");
        assert!(kinds(on).iter().all(|kind| events[*kind] != 0), "{on} is on: {events}");
        // What other programs need stays attached.
        let programs = status["recursion_misses"].as_object().expect("programs");
        assert!(programs.contains_key("sched_switch"));
        assert_eq!(programs.contains_key("signal_deliver"), on == "signals");
        assert_eq!(programs.contains_key("sched_waking"), on == "sched");
        let output = recorder.flightctl(&["dump", "--last", "1s"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = format!("# not recorded (off in the configuration): {off} (");
        assert_eq!(said.matches(&line).count(), 1, "{said}");
    }
}

share_recorder!(who_sent_which_signal_to_whom, what_became_of_a_signal);
