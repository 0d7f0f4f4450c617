//! For which spans threads work, as their processes publish it (OTEP 4947): read at each switch.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use flightrec_format::abi::publisher::{PUBLISHERS, Publisher, Publishers};
use flightrec_format::abi::record::fold;
use flightrec_format::live::map::ArrayMap;
use flightrec_tests::contexts::{self, Round, right};
use flightrec_tests::{PATIENCE, Recorder, Sandbox, c_dynamic, wait_until};
use serde_json::Value;

use crate::support::{is_event, start};
use crate::unprivileged::{USER, UserSandbox, end};

const ON: &str = "[record]\nthread_contexts = true\n";
const VARIABLE: &str = "-Wl,--export-dynamic-symbol=otel_thread_ctx_v1";
/// Threads of a program, and what each does.
const THREADS: usize = 4;
const ROUNDS: usize = 1500;
/// A dump of what was just recorded.
const WINDOW: [&str; 5] = ["dump", "--last", "60s", "--format", "jsonl"];
/// Within so long a process that publishes is found.
const FOUND: Duration = PATIENCE;

/// What the recorder knows of who publishes.
fn publishers(sandbox: &Sandbox) -> ArrayMap {
    let entries = fs::read_dir(sandbox.bpffs_dir()).expect("pins");
    let is_whole = |dir: &PathBuf| {
        dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with("gen-"))
    };
    let dir = entries.map(|entry| entry.expect("an entry").path()).find(is_whole).expect("pins");
    ArrayMap::open(&dir.join("maps/publishers"), false).expect("the table")
}

/// How a process publishes, if it is in the table.
fn entered(table: &ArrayMap, pid: u32) -> Option<(u32, i64)> {
    let place = |n| {
        let at = offset_of!(Publishers, places) + n * size_of::<Publisher>();
        let head = table.load(0, at);
        let offset = table.load(0, at + offset_of!(Publisher, offset)) as i64;
        (head as u32 == pid).then_some(((head >> 32) as u32, offset))
    };
    (0..PUBLISHERS).find_map(place)
}

/// A program that publishes, and waits to be told to go on.
struct Published {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Published {
    fn start(program: &Path, arguments: &[&str]) -> Self {
        let numbers = [THREADS.to_string(), ROUNDS.to_string()];
        let mut command = Command::new(program);
        command.args(numbers).args(arguments);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("run");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Self { child, output }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has it work. By thread: what it published, in the order of time.
    fn finish(mut self) -> BTreeMap<u64, Vec<Round>> {
        self.child.stdin.take().expect("its input").write_all(b"go\n").expect("it reads");
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("text");
        assert!(self.child.wait().expect("its end").success());
        contexts::published(&text)
    }
}

/// The events of a dump.
fn dump(recorder: &Recorder, args: &[&str]) -> Vec<Value> {
    events(&recorder.flightctl(&[&WINDOW, args].concat()))
}

/// What a dump of [`WINDOW`] has.
fn events(output: &Output) -> Vec<Value> {
    // 1: none.
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{:?}", output.status);
    let text = str::from_utf8(&output.stdout).expect("text");
    let objects = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    objects.filter(is_event).collect()
}

/// Has a program publish, and holds what was recorded against it. Returns how the process was
/// entered.
fn check(recorder: &Recorder, program: &Path, arguments: &[&str]) -> (u32, i64) {
    let published = Published::start(program, arguments);
    let (pid, table) = (published.pid(), publishers(recorder.sandbox()));
    let name = format!("{} {arguments:?}", program.display());
    assert!(
        wait_until(FOUND, || entered(&table, pid).is_some()),
        "{name} was not found\n{}",
        recorder.log()
    );
    let how = entered(&table, pid).expect("it is there");
    let threads = published.finish();
    assert_eq!(threads.len(), THREADS);
    let text = pid.to_string();
    let switches = dump(recorder, &["--event", "switch", "--traces", "--pid", &text]);
    let (right, all) = right(&switches, &threads);
    eprintln!("{name}: module {}, offset {}: {right} of {all} switches are right", how.0, how.1);
    assert!(all > THREADS * ROUNDS / 2, "{all} switches");
    assert!(right * 1000 >= all * 999, "{right} of {all} are right");
    // The one trace, and nothing of what the threads publish at last that is none.
    let contexts = dump(recorder, &["--event", "thread_context", "--pid", &text]);
    assert!(contexts.len() > THREADS * ROUNDS / 2, "{}", contexts.len());
    for context in &contexts {
        let (trace, span) = (&context["trace"], context["span"].as_str().expect("a span"));
        let is_none = span == "0".repeat(16);
        let expected = if is_none { "0".repeat(32) } else { "ab".repeat(16) };
        assert_eq!(trace, &expected, "{context}");
        assert_eq!(context["flags"], if is_none { "0" } else { "sampled" }, "{context}");
    }
    assert!(wait_until(FOUND, || entered(&table, pid).is_none()), "it has ended");
    how
}

#[test]
fn a_program_of_its_own_variable() {
    let recorder = start(ON);
    for flags in [["-pie", "-fPIE"], ["-no-pie", "-fno-pie"]] {
        let flags = [&["-DOWN", "-mtls-dialect=gnu2", VARIABLE][..], &flags].concat();
        let (module, offset) = check(&recorder, &c_dynamic("contexts", &flags), &[]);
        assert!(module == 0 && offset < 0, "{module} {offset}");
    }
}

/// As the service runs: without rights over another user's process, and without a sight of it.
#[test]
fn another_users_program_by_the_service() {
    let place = UserSandbox::new(ON);
    place.as_root(&["--prepare", USER]);
    let daemon = place.daemon_that_sees_no_others();
    let published = Published::start(Path::new(env!("CARGO_BIN_EXE_publish-contexts")), &[]);
    let (pid, table) = (published.pid(), publishers(&place.sandbox));
    assert!(wait_until(FOUND, || entered(&table, pid).is_some()), "it was not found");
    let threads = published.finish();
    let text = pid.to_string();
    let of_it = ["--event", "switch", "--traces", "--pid", &text];
    let switches = events(&place.flightctl(&[&WINDOW[..], &of_it].concat()));
    let (right, all) = right(&switches, &threads);
    assert!(all > THREADS * ROUNDS / 2, "{all} switches");
    assert!(right * 1000 >= all * 999, "{right} of {all} are right");
    end(daemon);
    place.as_root(&["--remove"]);
}

#[test]
fn a_program_in_rust() {
    let recorder = start(ON);
    let program = Path::new(env!("CARGO_BIN_EXE_publish-contexts"));
    let (module, offset) = check(&recorder, program, &[]);
    assert!(module == 0 && offset < 0, "{module} {offset}");
}

/// Libraries: linked or loaded, in the static part of thread-local storage or in a part of their
/// own, by each way of finding the variable.
#[test]
fn a_variable_of_a_library() {
    let recorder = start(ON);
    let library = |flags: &[&str]| {
        let flags = [&["-shared", "-fPIC"], flags].concat();
        c_dynamic("contexts_variable", &flags).display().to_string()
    };
    let loads = c_dynamic("contexts", &[]);
    let linked = library(&["-mtls-dialect=gnu2"]);
    let links = c_dynamic("contexts", &["-DLINKED", &linked]);
    assert_eq!(check(&recorder, &links, &[]).0, 0);
    assert_eq!(check(&recorder, &loads, &[&linked]).0, 0, "there is room in the static part");
    let fixed = library(&["-ftls-model=initial-exec"]);
    assert_eq!(check(&recorder, &loads, &[&fixed]).0, 0);
    for dialect in ["-mtls-dialect=gnu2", "-mtls-dialect=gnu"] {
        let large = library(&[dialect, "-DPADDING=100000"]);
        assert_ne!(check(&recorder, &loads, &[&large]).0, 0, "{dialect}");
    }
}

/// A call that takes long and never sleeps: its end has the span of the moment, not that of the
/// thread's last switch. Calls that take no time cost a publisher nothing: nothing is read there.
#[test]
fn a_slow_call_without_a_switch() {
    const ROUNDS: usize = 200;
    /// What is published for a call that takes no time.
    const QUICK: u64 = 1 << 63;
    let recorder = start(ON);
    let program = c_dynamic("contexts", &["-DOWN", "-fPIE", "-pie", VARIABLE]);
    let mut command = Command::new(program);
    command.args(["1", &ROUNDS.to_string()]).env("SLOW", "1");
    let published = Published::spawn(command);
    let (pid, table) = (published.pid(), publishers(recorder.sandbox()));
    assert!(wait_until(FOUND, || entered(&table, pid).is_some()), "{}", recorder.log());
    let threads = published.finish();
    let (&tid, rounds) = threads.iter().next().expect("a thread");
    let text = tid.to_string();
    let of_it = |kind: &str| {
        let events = dump(&recorder, &["--event", kind, "--traces", "--tid", &text]);
        events.into_iter().map(|event| (event["mono_ns"].as_u64().expect("a time"), event))
    };
    let number = |event: &Value, key: &str| event[key].as_u64();
    let span = |event: &Value, key: &str| {
        event[key].as_str().map_or(0, |text| u64::from_str_radix(text, 16).expect("hexadecimal"))
    };
    let switches: Vec<u64> = of_it("switch").map(|(time, _)| time).collect();
    let (mut right, mut all) = (0, 0);
    for (time, exit) in of_it("sys_exit").filter(|(_, exit)| exit["syscall"] == "read") {
        let Some(took) = number(&exit, "duration_ns").filter(|took| *took >= fold::LIMIT_NS) else {
            continue;
        };
        let began = time - took;
        let after = rounds.partition_point(|round| round.after <= began);
        let Some(round) = after.checked_sub(1).map(|at| &rounds[at]) else { continue };
        if switches.iter().any(|at| (round.before..=time).contains(at)) {
            continue;
        }
        all += 1;
        right += usize::from(span(&exit, "span_id") == round.span);
    }
    let contexts: Vec<u64> = of_it("thread_context").map(|(_, of)| span(&of, "span")).collect();
    let quick = contexts.iter().filter(|span| **span & QUICK != 0).count();
    eprintln!(
        "{right} of {all} slow calls without a switch are right; {} switches, {} contexts, {quick} \
         of quick calls",
        switches.len(),
        contexts.len()
    );
    assert!(all > ROUNDS / 4, "{all} calls");
    assert_eq!(right, all);
    assert!(quick <= switches.len(), "{quick} contexts of quick calls");
}

#[test]
fn what_publishes_nothing_is_not_read() {
    let recorder = start(ON);
    let program = c_dynamic("contexts", &["-DOWN"]);
    // Its variable is no dynamic symbol.
    let published = Published::start(&program, &[]);
    // One that is found tells that the other was looked at, too.
    let found =
        Published::start(&c_dynamic("contexts", &["-DOWN", "-fPIE", "-pie", VARIABLE]), &[]);
    let table = publishers(recorder.sandbox());
    assert!(wait_until(FOUND, || entered(&table, found.pid()).is_some()), "{}", recorder.log());
    assert_eq!(entered(&table, published.pid()), None);
    let pid = published.pid().to_string();
    let threads = published.finish();
    found.finish();
    assert!(dump(&recorder, &["--event", "thread_context", "--pid", &pid]).is_empty());
    let mut switches = dump(&recorder, &["--event", "switch", "--traces", "--pid", &pid]);
    // A switch from the other one's thread to one of its own has the other's span.
    switches.retain(|of| of["pid"].as_u64().map(|pid| pid.to_string()) == Some(pid.clone()));
    assert!(switches.len() > THREADS * ROUNDS / 4, "{}", switches.len());
    assert!(switches.iter().all(|of| of.get("span_id").is_none()), "{switches:#?}");
    drop(threads);
}

/// Before it publishes and afterwards the process is another program.
#[test]
fn a_process_is_the_program_that_it_runs() {
    let recorder = start(ON);
    let program = c_dynamic("contexts", &["-DOWN", "-fPIE", "-pie", VARIABLE]);
    let mut shell = Command::new("sh")
        .args(["-c", &format!("read line; exec {} 1 1", program.display())])
        .env("THEN", "sleep")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("sh");
    let (pid, table) = (shell.id(), publishers(recorder.sandbox()));
    let mut input = shell.stdin.take().expect("its input");
    // Others are found meanwhile, so it was looked at as well.
    let other = Published::start(&program, &[]);
    assert!(wait_until(FOUND, || entered(&table, other.pid()).is_some()), "{}", recorder.log());
    assert_eq!(entered(&table, pid), None);
    input.write_all(b"go\n").expect("it reads");
    assert!(wait_until(FOUND, || entered(&table, pid).is_some()), "{}", recorder.log());
    input.write_all(b"go\n").expect("it reads");
    assert!(wait_until(2 * FOUND, || entered(&table, pid).is_none()), "{}", recorder.log());
    assert!(shell.try_wait().expect("a state").is_none(), "it is still there");
    shell.kill().expect("it is ours");
    shell.wait().expect("its end");
    other.finish();
}

#[test]
fn nothing_is_read_unless_it_is_asked_for() {
    let recorder = start("");
    let program = c_dynamic("contexts", &["-DOWN", "-fPIE", "-pie", VARIABLE]);
    let published = Published::start(&program, &[]);
    let pid = published.pid().to_string();
    published.finish();
    assert!(dump(&recorder, &["--event", "thread_context"]).is_empty());
    let switches = dump(&recorder, &["--event", "switch", "--traces", "--pid", &pid]);
    assert!(switches.iter().all(|of| of.get("span_id").is_none()) && !switches.is_empty());
}
