//! Functions and marks that are probed for a time.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use flightrec_tests::{PATIENCE, Recorder, c_program, key_values, wait_until};
use serde_json::Value;
use tempfile::TempDir;

use crate::json::{valid_dump, valid_dump_or_none};
use crate::support::{dump, start};

/// The program whose functions are probed, in a file of the test's own: what is probed is a file,
/// so tests that share one would see each other's calls.
struct Program {
    _dir: TempDir,
    path: PathBuf,
}

impl Program {
    fn new() -> Self {
        let dir = TempDir::new().expect("directory");
        let path = dir.path().join("functions");
        fs::copy(c_program("functions", &[]), &path).expect("a copy");
        Self { _dir: dir, path }
    }

    fn spec(&self, name: &str) -> String {
        format!("{}:{name}", self.path.display())
    }

    fn run(&self, args: &[&str]) -> Output {
        let output = Command::new(&self.path).args(args).stdin(Stdio::null()).output();
        let output = output.expect("the program");
        assert!(output.status.success(), "{args:?}: {output:?}");
        output
    }
}

/// A process that waits, and calls `leaf` when it is told to.
struct Waiting {
    process: Child,
    /// The address of `leaf`: the program is linked to fixed ones.
    leaf: u64,
}

impl Waiting {
    fn new(program: &Path) -> Self {
        let symbols = Command::new("nm").arg(program).output().expect("nm (binutils)");
        let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
        let line = symbols.lines().find(|line| line.ends_with(" leaf")).expect("leaf");
        let leaf = u64::from_str_radix(line.split(' ').next().unwrap(), 16).expect("hex");
        let mut command = Command::new(program);
        command.arg("wait").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the program");
        let mut ready = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut ready).expect("a line");
        assert_eq!(ready, "ready=1\n");
        Self { process, leaf }
    }

    /// Whether the kernel has put a breakpoint at the beginning of `leaf`.
    fn is_probed(&self) -> bool {
        let memory = File::open(format!("/proc/{}/mem", self.process.id())).expect("memory");
        let mut first = [0];
        memory.read_exact_at(&mut first, self.leaf).expect("its code");
        first == [0xcc]
    }

    fn call(&mut self) {
        self.process.stdin.as_mut().unwrap().write_all(b"x").expect("it reads");
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// `flightctl probe add`, which succeeds; what it says.
fn add(recorder: &Recorder, spec: &str, lasts: &str) -> String {
    let output = recorder.flightctl(&["probe", "add", spec, "--for", lasts]);
    assert!(output.status.success(), "{spec}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What `flightctl probe add` says where it fails.
fn refused(recorder: &Recorder, spec: &str) -> String {
    let output = recorder.flightctl(&["probe", "add", spec, "--for", "10s"]);
    assert_eq!(output.status.code(), Some(2), "{spec}: {output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The events of kind `function`, once there are so many.
fn events(recorder: &Recorder, count: usize) -> Vec<Value> {
    let mut found = Vec::new();
    wait_until(PATIENCE, || {
        found = valid_dump_or_none(recorder, &["--last", "1h", "--event", "function"]);
        found.retain(|event| event["event"] == "function");
        found.len() >= count
    });
    found
}

/// `flightctl report functions --probed`, by its JSON.
fn counts(recorder: &Recorder) -> Vec<Value> {
    let output = recorder.flightctl(&["report", "functions", "--probed", "--format", "json"]);
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["functions"].as_array().expect("a list").clone()
}

/// Calls and returns of a function.
fn counted(recorder: &Recorder, name: &str) -> (u64, u64) {
    let all = counts(recorder);
    let of = all.iter().find(|of| of["name"] == name).unwrap_or_else(|| panic!("{name}: {all:?}"));
    (of["calls"].as_u64().expect("calls"), of["returns"].as_u64().unwrap_or(0))
}

#[test]
fn the_graph_of_a_program_with_threads() {
    let (recorder, program) = (start(""), Program::new());
    let said = add(&recorder, &program.spec("{leaf,middle,top}"), "1m");
    assert!(said.contains("probing 3 functions") && said.contains("for 1m"), "{said}");
    program.run(&["graph"]);
    let found = events(&recorder, 32);
    assert_eq!(found.len(), 32, "two threads, twice, four calls: {found:#?}");

    // By thread: depth, function, what happens, first argument or value.
    let threads: std::collections::BTreeSet<u64> =
        found.iter().map(|event| event["tid"].as_u64().expect("tid")).collect();
    assert_eq!(threads.len(), 2, "{threads:?}");
    for (tid, n) in threads.into_iter().zip([7u64, 100]) {
        let told: Vec<String> = found
            .iter()
            .filter(|event| event["tid"] == tid)
            .map(|event| {
                let text = |field: &str| event[field].as_str().expect("text").to_owned();
                format!("{} {} {} {}", event["depth"], text("function"), text("point"), text("a0"))
            })
            .collect();
        let leaf = |b: u64| n * 10 + b;
        let (middle, top) = (leaf(1) + leaf(2), leaf(1) + leaf(2) + 20);
        let round = [
            format!("0 top entry {n:#x}"),
            format!("1 middle entry {n:#x}"),
            format!("2 leaf entry {n:#x}"),
            format!("2 leaf return {:#x}", leaf(1)),
            format!("2 leaf entry {n:#x}"),
            format!("2 leaf return {:#x}", leaf(2)),
            format!("1 middle return {middle:#x}"),
            format!("0 top return {top:#x}"),
        ];
        assert_eq!(told, [round.clone(), round].concat());
    }
    let first = found.iter().find(|event| event["function"] == "top").expect("top");
    let rest: Vec<&str> =
        ["a1", "a2", "a3", "a4", "a5"].map(|of| first[of].as_str().unwrap()).into();
    assert_eq!(rest, ["0x2", "0x3", "0x4", "0x5", "0x6"]);
    assert_eq!(first["path"], program.path.to_str().unwrap());
    assert_eq!(first["build_id"].as_str().map(str::len), Some(40));
    // Who waits in a call waits at least as long as in what it calls.
    let duration = |name: &str| {
        let of = found.iter().find(|e| e["function"] == name && e["point"] == "return");
        of.and_then(|event| event["duration_ns"].as_u64()).expect("a duration")
    };
    assert!(duration("top") > duration("middle") && duration("middle") > duration("leaf"));

    // As a graph, with the system call of `top` in it.
    let pid = first["pid"].to_string();
    let graph = ["dump", "--last", "1h", "--graph", "--event", "function,sys_enter"];
    let output = recorder.flightctl(&[&graph[..], &["--pid", &pid]].concat());
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let column = output.lines().find_map(|line| line.find("top(0x7, ")).expect("top");
    let texts: Vec<&str> = output.lines().filter_map(|line| line.get(column..)).collect();
    let at = texts.iter().position(|text| text.starts_with("top(0x7, ")).expect("top");
    let wanted = [
        "top(0x7, 0x2, 0x3, 0x4, 0x5, 0x6) {",
        "  getppid() -->",
        "  middle(0x7, ",
        "    leaf(0x7, 0x1, ",
        "    } = 0x47 (",
        "    leaf(0x7, 0x2, ",
        "    } = 0x48 (",
        "  } = 0x8f (",
        "} = 0xa3 (",
    ];
    for (text, wanted) in texts[at..].iter().zip(wanted) {
        assert!(text.starts_with(wanted), "{wanted}: {texts:#?}");
    }
    assert!(texts[at + 8].ends_with(") top"), "{texts:#?}");
    // Without it, a line each that says where the function is.
    let lines = dump(&recorder, &["--last", "1h", "--event", "function"]);
    assert_eq!(lines[0].text, "(FUNCTION) top(0x7, 0x2, 0x3, 0x4, 0x5, 0x6) --> [functions]");
    assert!(lines[7].text.starts_with("(FUNCTION) top <-- 0xa3 ("), "{}", lines[7].text);

    // The names are in a saved file as well.
    let file = recorder.sandbox().root().join("saved.flight");
    let path = file.to_str().unwrap();
    assert!(recorder.flightctl(&["save", "--last", "1h", "-o", path]).status.success());
    let output = recorder.flightctl(&["dump", path, "--all", "--event", "function"]);
    let saved = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(saved.matches("(FUNCTION) leaf(").count(), 8, "{saved}");
}

#[test]
#[ignore = "long: a flood"]
fn a_flood_is_counted_exactly_and_other_events_survive() {
    const CALLS: u64 = 1_000_000;
    let (recorder, program) = (start("[budget]\nper_cpu = \"1%\"\n"), Program::new());
    add(&recorder, &program.spec("leaf"), "5m");
    program.run(&["calls", &CALLS.to_string()]);
    assert_eq!(counted(&recorder, "leaf"), (CALLS, CALLS));
    // What happens meanwhile and afterwards is there.
    program.run(&["graph"]);
    assert_eq!(counted(&recorder, "leaf"), (CALLS + 8, CALLS + 8));
    let status = crate::lacking::status(&recorder);
    let refused = status["throttled"].clone();
    let text = serde_json::to_string(&status).unwrap();
    assert!(text.contains("function"), "no call was refused: {refused} {text}");
    let execs = valid_dump(&recorder, &["--last", "1h", "--event", "exec"]);
    let of = execs.iter().filter(|event| event["comm"] == "functions").count();
    assert_eq!(of, 2, "{execs:#?}");
    let output = recorder.flightctl(&["dump", "--last", "1h", "--event", "function"]);
    let recorded = String::from_utf8_lossy(&output.stdout).lines().count() as u64;
    assert!((1..2 * CALLS).contains(&recorded), "{recorded} of {} events", 2 * CALLS);
}

#[test]
fn what_leaves_by_longjmp_does_not_deepen_the_graph() {
    let (recorder, program) = (start(""), Program::new());
    add(&recorder, &program.spec("{jumps,leaf,middle,top}"), "1m");
    program.run(&["jump", "100"]);
    let found = events(&recorder, 108);
    let depth = |name: &str| {
        let of = found.iter().filter(|event| event["function"] == name);
        of.map(|event| event["depth"].as_u64().expect("depth")).max()
    };
    assert_eq!(depth("jumps"), Some(0));
    assert!(depth("top") <= Some(1) && depth("leaf") <= Some(3), "{found:#?}");
    assert_eq!(counted(&recorder, "jumps"), (100, 0));
    assert_eq!(counted(&recorder, "top"), (1, 1));
}

#[test]
fn marks_have_their_arguments_and_listeners() {
    let (recorder, program) = (start(""), Program::new());
    let heard = |output: &Output| key_values(&output.stdout)["listened"].clone();
    assert_eq!(heard(&program.run(&["mark", "3"])), "0");
    add(&recorder, &format!("usdt:{}:tests:pass*", program.path.display()), "1m");
    assert_eq!(heard(&program.run(&["mark", "3"])), "3", "its counter");
    let found = events(&recorder, 3);
    assert_eq!(found.len(), 3, "{found:#?}");
    for (i, event) in found.iter().enumerate() {
        assert_eq!((&event["function"], &event["point"]), (&"tests:passed".into(), &"mark".into()));
        let i = if i == 0 { "0".to_owned() } else { format!("{i:#x}") };
        let minus = "0xfffffffffffffff9";
        let all = ["a0", "a1", "a2", "a3"].map(|of| event[of].as_str().unwrap());
        assert_eq!(all, ["0x2a", minus, &i, minus], "constant, register, register, memory");
        assert_eq!(event["arguments"], 4);
    }
    assert_eq!(counted(&recorder, "tests:passed").0, 3);
    assert!(recorder.flightctl(&["probe", "remove", "1"]).status.success());
    assert_eq!(heard(&program.run(&["mark", "3"])), "0", "its counter is 0 again");
}

#[test]
fn after_its_time_nothing_is_attached() {
    let (mut recorder, program) = (start(""), Program::new());
    let mut waiting = Waiting::new(&program.path);
    assert!(!waiting.is_probed());
    let began = Instant::now();
    // Long enough for what is to happen meanwhile.
    add(&recorder, &program.spec("leaf"), "5s");
    assert!(waiting.is_probed(), "a process that runs already");
    waiting.call();
    wait_until(PATIENCE, || counted(&recorder, "leaf") == (1, 1));
    wait_until(PATIENCE, || !waiting.is_probed());
    let list = recorder.flightctl(&["probe", "list"]);
    assert_eq!(String::from_utf8_lossy(&list.stdout), "nothing is probed\n");
    waiting.call();
    assert_eq!(counted(&recorder, "leaf"), (1, 1));
    // The kernel takes the breakpoint away before it is through.
    wait_until(PATIENCE, || counts(&recorder)[0]["is_probed"] == false);
    let counts = counts(&recorder);
    let seconds = counts[0]["counted_seconds"].as_f64().expect("seconds");
    assert!((5.0..began.elapsed().as_secs_f64()).contains(&seconds), "{seconds}");

    // Removed by its spec, by hand.
    let spec = program.spec("leaf");
    add(&recorder, &spec, "1h");
    assert!(waiting.is_probed());
    assert!(recorder.flightctl(&["probe", "remove", &spec]).status.success());
    assert!(!waiting.is_probed());

    // The daemon is killed: nothing is left, neither with the next one.
    add(&recorder, &spec, "1h");
    assert!(waiting.is_probed());
    recorder.kill();
    wait_until(PATIENCE, || !waiting.is_probed());
    recorder.restart();
    assert!(!waiting.is_probed());
    assert!(counts_are_empty(&recorder), "another daemon");
    // It can probe in the recording that it took over.
    add(&recorder, &spec, "1h");
    waiting.call();
    wait_until(PATIENCE, || counted(&recorder, "leaf") == (1, 1));
    // An orderly end is one for probes, too.
    recorder.stop();
    assert!(!waiting.is_probed());
}

fn counts_are_empty(recorder: &Recorder) -> bool {
    counts(recorder).is_empty()
}

#[test]
fn what_can_t_be_probed_is_told() {
    let (recorder, program) = (start(""), Program::new());
    let told = |spec: &str, wanted: &str| {
        let told = refused(&recorder, spec);
        assert!(told.contains(wanted), "{spec}: {told}");
    };
    told("/nonexistent/program:main", "/nonexistent/program: No such file");
    told("nosuchprogram:main", "no program of $PATH");
    told("/etc/passwd:main", "is no program or library");
    told(&program.spec("leef"), "did you mean leaf");
    told(&format!("usdt:{}:tests:past", program.path.display()), "did you mean tests:passed");
    told(&program.spec("*"), "narrow the pattern");
    told("leaf", "use PATH:NAME");
    // Without its table of symbols, and exporting nothing.
    let stripped = program.path.with_file_name("stripped");
    let strip = Command::new("strip").arg("-o").args([&stripped, &program.path]).status();
    assert!(strip.expect("strip (binutils)").success());
    told(&format!("{}:leaf", stripped.display()), "was stripped, it exports none");
    // One that exports some.
    told("/bin/ls:nosuchfunction", "of its functions only the");
    // Twice.
    add(&recorder, &program.spec("leaf"), "1m");
    told(&program.spec("{leaf,middle}"), "leaf of ");
    // Nothing of a request that failed is left.
    let list = recorder.flightctl(&["probe", "list", "--json"]);
    let list: Value = serde_json::from_slice(&list.stdout).expect("JSON");
    assert_eq!(list["probes"].as_array().map(Vec::len), Some(1), "{list}");
    let removed = recorder.flightctl(&["probe", "remove", "77"]);
    assert!(String::from_utf8_lossy(&removed.stderr).contains("there is no probe 77"));
}

#[test]
fn many_functions_are_detached_at_once() {
    let recorder = start("");
    let said = add(&recorder, "libc.so.6:[bd]*", "10m");
    assert!(said.contains("functions of /"), "{said}");
    assert!(Command::new("/bin/ls").stdout(Stdio::null()).status().expect("ls").success());
    assert!(!events(&recorder, 1).is_empty());
    let began = Instant::now();
    assert!(recorder.flightctl(&["probe", "remove", "--all"]).status.success());
    let took = began.elapsed();
    eprintln!("{said}detached in {took:?}");
    assert!(took < Duration::from_secs(20), "{took:?}");
}
