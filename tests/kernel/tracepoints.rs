//! Tracepoints that the configuration names: held against `perf script`'s fields over the same
//! load; conditions, stacks, floods, what the kernel does not have, and what outlives the daemon.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use flightrec_format::abi::page::Lane;
use flightrec_tests::{Options, PATIENCE, Recorder, bin_dir, online_cpus, wait_until};
use serde_json::Value;
use tempfile::TempDir;

use crate::json::valid_dump;
use crate::lacking::status;
use crate::support::{dump, snapshot, start, without_limit};

/// A table for each.
fn tables(events: &[&str]) -> String {
    events.iter().fold(String::new(), |mut out, event| {
        let _ = write!(out, "[[tracepoint]]\nevent = \"{event}\"\n");
        out
    })
}

/// Tracepoints of different shapes: texts and arrays of fixed and of variable length, numbers of
/// all widths with a sign and without, devices, addresses of the kernel's code and data and of the
/// program, flags, names of values.
const SHAPES: [&str; 13] = [
    "sched:sched_process_exec",
    "raw_syscalls:sys_enter",
    "syscalls:sys_enter_openat",
    "writeback:writeback_mark_inode_dirty",
    "kmem:kmalloc",
    "sock:inet_sock_set_state",
    "signal:signal_generate",
    "block:block_bio_queue",
    "task:task_newtask",
    "timer:timer_start",
    "filemap:mm_filemap_add_to_page_cache",
    "ext4:ext4_sync_file_enter",
    "skb:consume_skb",
];

/// What makes each of them happen.
const LOAD: &str = "dd if=/dev/zero of=written bs=64k count=4 conv=fsync status=none
    bash -c 'exec 3<>/dev/tcp/127.0.0.1/1' 2>/dev/null
    (sleep 0.01 & kill -URG $$; wait)
    ls -l / >/dev/null
    sync -f written
    rm written";

/// Prints the fields of each event, a JSON object a line.
const SCRIPT: &str = r#"
import json

def value(of):
    if isinstance(of, (bytes, bytearray)):
        return list(of)
    return of if isinstance(of, (int, str)) else str(of)

def trace_unhandled(name, context, fields, sample=None):
    common = {key: fields.pop(key) for key in list(fields) if key.startswith("common_")}
    print(json.dumps({
        "tracepoint": name.replace("__", ":", 1),
        "tid": common["common_pid"],
        "time": common["common_s"] * 10**9 + common["common_ns"],
        "fields": {key: value(of) for key, of in fields.items()},
    }))
"#;

fn perf(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new("perf");
    let output = command.args(args).current_dir(dir).stdin(Stdio::null()).output();
    let output = output.expect("`cargo xtask setup` installs perf");
    assert!(output.status.success(), "perf {args:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// An event as either tells it.
type Key = (String, u64);

/// By tracepoint and thread, in the order of time.
fn by_thread(events: impl IntoIterator<Item = Value>) -> BTreeMap<Key, Vec<Value>> {
    let mut out = BTreeMap::<Key, Vec<Value>>::new();
    for event in events {
        let name = event["tracepoint"].as_str().unwrap_or_else(|| panic!("no name: {event}"));
        let name = name.to_owned();
        out.entry((name, event["tid"].as_u64().expect("a thread"))).or_default().push(event);
    }
    out
}

/// What ours and perf's have in common that an address stands for.
#[derive(Clone, Default)]
struct Addresses {
    /// What stands for it, by the address.
    hidden: HashMap<u64, String>,
    /// Where functions begin.
    functions: HashMap<String, u64>,
}

impl Addresses {
    /// Whether an object stands for an address: always the same for the same one, in a function
    /// that does not move.
    fn stands_for(&mut self, ours: &Value, address: u64) -> bool {
        let shown = ours.to_string();
        let is_same = *self.hidden.entry(address).or_insert_with(|| shown.clone()) == shown;
        let (Some(symbol), Some(offset)) = (ours["symbol"].as_str(), ours["offset"].as_u64())
        else {
            return is_same && (ours["address_hash"].is_u64() || ours["frame"].is_u64());
        };
        let begin = *self.functions.entry(symbol.into()).or_insert(address - offset);
        is_same && begin == address - offset
    }

    /// What is known of addresses after an event whose fields are all equal; else the first that
    /// is not.
    fn after(&self, ours: &Value, perf: &Value) -> Result<Self, String> {
        let mut after = self.clone();
        for (name, value) in ours["fields"].as_object().expect("fields") {
            let of_perf = &perf["fields"][name];
            if !after.is_equal(value, of_perf) {
                return Err(format!("field {name}: {value} is not {of_perf}"));
            }
        }
        Ok(after)
    }

    fn is_equal(&mut self, ours: &Value, perf: &Value) -> bool {
        match (ours, perf) {
            (Value::Object(_), _) => {
                perf.as_u64().is_some_and(|address| self.stands_for(ours, address))
            }
            // perf has the bytes.
            (Value::Array(ours), Value::Array(bytes)) => {
                let width = bytes.len() / ours.len().max(1);
                let bytes: Vec<u8> =
                    bytes.iter().map(|of| of.as_u64().expect("a byte") as u8).collect();
                ours.iter().zip(bytes.chunks_exact(width.max(1))).all(|(of, bytes)| {
                    let mut word = [0; 8];
                    word[..bytes.len()].copy_from_slice(bytes);
                    self.is_equal(of, &u64::from_le_bytes(word).into())
                })
            }
            (Value::String(text), Value::String(perf)) => text == perf,
            // Of a text with anything after its end perf has the bytes.
            (Value::String(text), Value::Array(bytes)) => {
                let bytes = bytes.iter().map(|of| of.as_u64().expect("a byte") as u8);
                bytes.take_while(|byte| *byte != 0).eq(text.bytes())
            }
            // What no double holds, and what perf has without its sign.
            (ours, perf) => {
                let number = |of: &Value| match of {
                    Value::String(hex) => u64::from_str_radix(hex.strip_prefix("0x")?, 16).ok(),
                    of => of.as_u64().or_else(|| Some(of.as_i64()? as u64)),
                };
                let (Some(ours), Some(perf)) = (number(ours), number(perf)) else { return false };
                [8, 16, 32, 64].iter().any(|bits| {
                    let is_negative = (ours as i64) < 0;
                    let mask = u64::MAX >> (64 - bits);
                    ours == perf || is_negative && ours & mask == perf
                })
            }
        }
    }
}

#[test]
fn fields_are_those_of_perf_script() {
    let recorder = start(&tables(&SHAPES));
    let dir = TempDir::new_in("/var/tmp").expect("directory");
    fs::write(dir.path().join("fields.py"), SCRIPT).expect("script");
    let mut record = vec!["record", "-q", "-k", "CLOCK_MONOTONIC", "-m", "8M", "-o", "p.data"];
    record.extend(SHAPES.iter().flat_map(|event| ["-e", *event]));
    record.extend(["--", "bash", "-c", LOAD]);
    perf(dir.path(), &record);
    let printed = perf(dir.path(), &["script", "-i", "p.data", "-s", "fields.py"]);
    let of_perf = printed.lines().filter(|line| line.starts_with('{'));
    let of_perf = by_thread(of_perf.map(|line| serde_json::from_str(line).expect(line)));
    let ours = valid_dump(&recorder, &["--last", "1h", "--event", "tracepoint"]);
    let ours = by_thread(ours);
    let report = status(&recorder);
    // A program that another interrupts is run no second time: such events are missing.
    let skipped = report["recursion_misses"]["tp_configured"].as_u64().expect("a number");
    // Two that meet in the lane, or come faster than the budget allows, are refused and counted.
    let refused: u64 = snapshot(&recorder).counted(Lane::Kernel).1.iter().sum();
    let (mut compared, mut shapes, mut addresses) = (0, BTreeSet::new(), Addresses::default());
    let (mut missing, mut difference) = (0, None);
    for (key, perfs) in &of_perf {
        let mut all = ours.get(key).map_or(&[][..], Vec::as_slice);
        for perf in perfs {
            let when = |of: &Value, name: &str| of[name].as_u64().expect("a time");
            let time = when(perf, "time");
            // Ours is attached first, and reads the clock first. Nothing of the thread comes
            // between the two, however long an interrupt takes there.
            let after = all.partition_point(|of| when(of, "mono_ns") <= time);
            let (until, later) = all.split_at(after);
            let found = until.last().map(|of| addresses.after(of, perf));
            if let Some(Ok(after)) = found {
                addresses = after;
                all = later;
                compared += perf["fields"].as_object().map_or(0, serde_json::Map::len);
                continue;
            }
            missing += 1;
            let reason = found.and_then(Result::err);
            difference.get_or_insert_with(|| {
                let around = |all: &[Value], name: &str| {
                    let near = all.iter().filter(|of| when(of, name).abs_diff(time) < 1_000_000);
                    let line = |of: &Value| format!("{} {}", when(of, name), of["fields"]);
                    near.map(line).collect::<Vec<_>>().join("\n")
                };
                let all = ours.get(key).map_or(&[][..], Vec::as_slice);
                format!(
                    "{key:?} at {time}: {reason:?}\nours:\n{}\nperf's:\n{}",
                    around(all, "mono_ns"),
                    around(perfs, "time")
                )
            });
        }
        shapes.insert(key.0.clone());
    }
    let difference = difference.unwrap_or_default();
    let told = format!("{missing} events missing, {skipped} runs skipped, {refused} refused");
    assert!(missing <= skipped + refused, "{told}, the first: {difference}");
    eprintln!("{told}");
    eprintln!("{compared} fields of {} tracepoints are equal", shapes.len());
    assert_eq!(shapes, SHAPES.iter().map(|name| (*name).to_owned()).collect());
    names_are_those_of_perf(dir.path(), &ours);
    addresses_are_hidden(&ours);
}

/// The kernel's names of flags and values, as perf prints them: `gfp_flags=GFP_KERNEL|__GFP_ZERO`.
fn names_are_those_of_perf(dir: &Path, ours: &BTreeMap<Key, Vec<Value>>) {
    let printed = perf(dir, &["script", "-i", "p.data", "-F", "tid,event,trace"]);
    let mut of_perf = BTreeMap::<String, BTreeSet<String>>::new();
    for line in printed.lines() {
        for word in line.split([' ', ',']) {
            if let Some((name, value)) = word.split_once('=') {
                of_perf.entry(name.into()).or_default().insert(value.into());
            }
        }
    }
    let mut compared = BTreeSet::new();
    for event in ours.values().flatten() {
        for (name, value) in event["names"].as_object().into_iter().flatten() {
            let value = value.as_str().expect("text");
            let Some(perfs) = of_perf.get(name) else { continue };
            // What other threads do perf has not seen.
            if perfs.contains(value) {
                compared.insert((name.clone(), value.to_owned()));
            }
        }
    }
    for (name, value) in [("gfp_flags", "GFP_KERNEL"), ("newstate", "TCP_SYN_SENT")] {
        let pair = (name.to_owned(), value.to_owned());
        assert!(compared.contains(&pair), "{pair:?} is not among {compared:?}\n{of_perf:?}");
    }
    eprintln!("{} names are equal", compared.len());
}

/// No number without a sign is an address of the kernel.
fn addresses_are_hidden(ours: &BTreeMap<Key, Vec<Value>>) {
    let of = |name: &str, field: &str| -> Vec<Value> {
        let of_name = ours.iter().filter(|((of, _), _)| of == name);
        of_name.flat_map(|(_, all)| all).map(|event| event["fields"][field].clone()).collect()
    };
    assert!(of("kmem:kmalloc", "ptr").iter().all(|of| of["address_hash"].is_u64()));
    let sites = of("kmem:kmalloc", "call_site");
    let named = sites.iter().filter(|of| of["symbol"].is_string()).count();
    assert!(named > 0 && named * 10 > sites.len() * 9, "{named} of {}: {sites:#?}", sites.len());
    assert!(of("skb:consume_skb", "location").iter().all(Value::is_object));
    assert!(of("timer:timer_start", "function").iter().any(|of| of["symbol"].is_string()));
}

/// The exit of a program, by its process.
fn run_dd(dir: &Path, sync: &str) -> u32 {
    let path = dir.join("file").display().to_string();
    let mut dd = Command::new("dd");
    dd.args(["if=/dev/zero", &format!("of={path}"), "bs=4k", "count=1", "status=none"]);
    let mut child = dd.arg(format!("conv={sync}")).spawn().expect("dd");
    let pid = child.id();
    assert!(child.wait().expect("dd").success());
    pid
}

/// Events of a process.
fn of_process(recorder: &Recorder, event: &str, pid: u32) -> Vec<Value> {
    // Its end as well, so that there is something in any case.
    let kinds = format!("{event},exit");
    let all = valid_dump(recorder, &["--last", "1h", "--event", &kinds, "--pid", &pid.to_string()]);
    all.into_iter().filter(|of| of["event"] == "tracepoint").collect()
}

#[test]
fn a_condition_leaves_out_what_it_does_not_hold_for() {
    let config = "[[tracepoint]]
        event = \"ext4:ext4_sync_file_enter\"
        when = \"datasync == 1 && (ino < 1 || parent > 0)\"
        [[tracepoint]]
        event = \"task:task_newtask\"
        when = \"comm == 'condition'\"
        [[tracepoint]]
        event = \"sched:sched_process_exec\"
        when = \"filename != '/usr/bin/true' && pid & 0xffffffff\"
        [[tracepoint]]
        event = \"raw_syscalls:sys_exit\"
        when = \"id == 39 && ret < 0\"";
    let recorder = start(config);
    let dir = TempDir::new_in("/var/tmp").expect("directory");
    let (whole, data) = (run_dd(dir.path(), "fsync"), run_dd(dir.path(), "fdatasync"));
    assert_eq!(of_process(&recorder, "ext4:ext4_sync_file_enter", whole).len(), 0);
    let [event] = &of_process(&recorder, "ext4:ext4_sync_file_enter", data)[..] else {
        panic!("one fdatasync")
    };
    assert_eq!(event["fields"]["datasync"], 1);
    for program in ["/usr/bin/true", "/usr/bin/false"] {
        let _ = Command::new(program).status().expect(program);
    }
    let executed = valid_dump(&recorder, &["--last", "1h", "--event", "sched:*"]);
    let executed: Vec<&str> =
        executed.iter().filter_map(|of| of["fields"]["filename"].as_str()).collect();
    assert!(executed.contains(&"/usr/bin/false"), "{executed:?}");
    assert!(!executed.contains(&"/usr/bin/true"), "{executed:?}");
    let named = std::thread::Builder::new().name("condition".into()).spawn(|| {
        std::thread::spawn(|| {}).join().expect("a thread");
    });
    named.expect("a thread").join().expect("a thread");
    let threads = valid_dump(&recorder, &["--last", "1h", "--event", "task:task_newtask"]);
    assert!(!threads.is_empty() && threads.iter().all(|of| of["fields"]["comm"] == "condition"));
    let report = status(&recorder);
    let of = |name: &str| {
        let all = report["tracepoints"].as_array().expect("tracepoints");
        all.iter().find(|of| of["name"] == name).unwrap_or_else(|| panic!("{report:#}")).clone()
    };
    let calls = of("raw_syscalls:sys_exit");
    assert_eq!(calls["recorded"], 0);
    assert!(calls["left_out"].as_u64() > Some(100), "{calls}");
    assert!(of("ext4:ext4_sync_file_enter")["left_out"].as_u64() >= Some(1));
}

#[test]
fn the_kernels_stack_is_recorded_and_read_from_a_file() {
    let config = "[[tracepoint]]
        event = \"ext4:ext4_sync_file_enter\"
        stack = true";
    let mut recorder = start(config);
    let dir = TempDir::new_in("/var/tmp").expect("directory");
    let pid = run_dd(dir.path(), "fsync");
    let found = of_process(&recorder, "tracepoint", pid);
    let [event] = &found[..] else { panic!("one fsync: {found:#?}") };
    assert_eq!((&event["context"], &event["fields"]["datasync"]), (&"thread".into(), &0.into()));
    let stack = event["stack"].as_array().expect("a stack");
    let symbols: Vec<&str> = stack.iter().filter_map(|of| of["symbol"].as_str()).collect();
    assert_eq!(symbols.first(), Some(&"ext4_sync_file"), "{symbols:?}");
    assert!(symbols.contains(&"do_syscall_64"), "{symbols:?}");
    let args = ["--last", "1h", "--pid", &pid.to_string(), "--event", "ext4:ext4_sync_file_enter"];
    let lines = dump(&recorder, &args);
    let text = &lines[0].text;
    assert!(text.starts_with("(TRACEPOINT) ext4:ext4_sync_file_enter dev="), "{text}");
    assert!(text.contains(" datasync=0 | ext4_sync_file <- "), "{text}");

    // Files tell the same, without a recorder.
    let file = dir.path().join("saved.flight").display().to_string();
    let saved = recorder.flightctl(&["save", "--last", "1h", "-o", &file]);
    assert!(saved.status.success(), "{saved:?}");
    let state = recorder.sandbox().state_dir().display().to_string();
    recorder.stop();
    let args = ["--pid", &pid.to_string(), "--event", "ext4:ext4_sync_file_enter"];
    for from in [&["--file", &file][..], &["--state-dir", &state, "--all"]] {
        assert_eq!(valid_dump(&recorder, &[from, &args[..]].concat()), found);
    }
    let unknown = recorder.flightctl(&["dump", "--file", &file, "--event", "ext4:ext4_sync_file"]);
    let error = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(error.contains("did you mean ext4:ext4_sync_file_enter?"), "{error}");
}

/// Pins of the links of configured tracepoints.
fn pins(recorder: &Recorder) -> BTreeSet<String> {
    let pins = recorder.sandbox().pins().expect("pins");
    let names = pins.iter().filter_map(|pin| Some(pin.file_name()?.to_str()?.to_owned()));
    names.filter(|name| name.starts_with("tracepoint-")).collect()
}

#[test]
fn tracepoints_go_on_without_a_daemon_and_change_while_it_records() {
    let sync = "[[tracepoint]]\nevent = \"ext4:ext4_sync_file_enter\"\n";
    let mut recorder = start(sync);
    let dir = TempDir::new_in("/var/tmp").expect("directory");
    let event = "ext4:ext4_sync_file_enter";
    assert_eq!(pins(&recorder), ["tracepoint-0".to_owned()].into());
    recorder.kill();
    let alone = run_dd(dir.path(), "fsync");
    recorder.restart();
    assert_eq!(of_process(&recorder, event, alone).len(), 1, "recorded without a daemon");
    assert_eq!(pins(&recorder), ["tracepoint-0".to_owned()].into(), "taken over");
    let log = recorder.log();
    assert_eq!(log.matches("recording the tracepoint").count(), 1, "by the first alone: {log}");
    // What the next daemon is to do, it does.
    recorder.kill();
    let config = format!("{sync}when = \"datasync == 1\"\n{}", tables(&["task:task_newtask"]));
    recorder.options_mut().config = without_limit(&config);
    recorder.restart();
    let (whole, data) = (run_dd(dir.path(), "fsync"), run_dd(dir.path(), "fdatasync"));
    assert_eq!(of_process(&recorder, event, whole).len(), 0);
    assert_eq!(of_process(&recorder, event, data).len(), 1);
    assert_eq!(of_process(&recorder, event, alone).len(), 1, "still described");
    let two = ["tracepoint-1".to_owned(), "tracepoint-2".to_owned()];
    assert_eq!(pins(&recorder), two.into());
    // And while it runs, when it is told to read the configuration again.
    let path = recorder.sandbox().root().join("flightd.toml");
    let changed = tables(&["sched:sched_process_exec", "sched:sched_process_exce"]);
    fs::write(&path, without_limit(&changed)).expect("configuration");
    let pid = nix::unistd::Pid::from_raw(recorder.pid() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).expect("SIGHUP");
    let is_read =
        wait_until(PATIENCE, || recorder.log().contains("these keys have changed: trace"));
    assert!(is_read, "{}", recorder.log());
    let third = ["tracepoint-3".to_owned()].into();
    assert!(wait_until(PATIENCE, || pins(&recorder) == third), "{:?}", pins(&recorder));
    let last = run_dd(dir.path(), "fdatasync");
    assert_eq!(of_process(&recorder, event, last).len(), 0, "no longer");
    assert_eq!(of_process(&recorder, "sched:sched_process_exec", last).len(), 1);
    let why = "this kernel has no tracepoint sched:sched_process_exce; did you mean \
               sched:sched_process_exec";
    let lacking = status(&recorder)["lacking"].clone();
    assert!(lacking[0]["why"].as_str().is_some_and(|of| of.starts_with(why)), "{lacking}");
    let objects = recorder.bpf_objects();
    recorder.stop();
    assert!(flightrec_tests::bpf_objects_left(&objects).is_empty());
}

/// What the kernel does not have is an error where the configuration is checked, and at a start
/// what the recording lacks.
#[test]
fn what_the_kernel_does_not_have_is_told() {
    let cases = [
        ("sched:sched_swich", None, "event", "did you mean sched:sched_switch"),
        (
            "sched:sched_switch",
            Some("prev_state > 0 && prio == 1"),
            "when",
            "it has no field `prio`; its fields are: prev_comm, prev_pid, prev_prio, prev_state,",
        ),
        ("ftrace:function", None, "", "the kernel attaches no BPF program to it"),
    ];
    let tables = cases.iter().fold(String::new(), |mut out, (event, when, ..)| {
        let _ = writeln!(out, "[[tracepoint]]\nevent = \"{event}\"");
        if let Some(when) = when {
            let _ = writeln!(out, "when = \"{when}\"");
        }
        out
    });
    let recorder = start(&tables);
    let lacking = status(&recorder)["lacking"].clone();
    let output = recorder.flightctl(&["dump", "--last", "1s", "--event", "tracepoint"]);
    let coverage = String::from_utf8_lossy(&output.stderr).into_owned();
    for (i, (event, _, key, why)) in cases.iter().enumerate() {
        assert_eq!(lacking[i]["what"], format!("the tracepoint {event}"), "{lacking}");
        assert!(lacking[i]["why"].as_str().is_some_and(|of| of.contains(why)), "{lacking}");
        let told = coverage.split("not recorded on this kernel: ").nth(1).unwrap_or_default();
        assert!(told.contains(&format!("the tracepoint {event} (")), "{coverage}");
        assert!(recorder.log().contains(&format!("the tracepoint {event} (")), "{event}");
        if !key.is_empty() {
            let dir = TempDir::new().expect("directory");
            let path = dir.path().join("f.toml");
            let table = tables.split("[[tracepoint]]").nth(i + 1).expect("a table");
            fs::write(&path, format!("[[tracepoint]]{table}")).expect("configuration");
            let mut check = Command::new(bin_dir().join("flightd"));
            let checked = check.arg("--check").arg("--config").arg(&path).output();
            let checked = checked.expect("flightd");
            let error = String::from_utf8_lossy(&checked.stderr).into_owned();
            let line = if *key == "event" { 2 } else { 3 };
            let place = format!("{}:{line}: tracepoint[1].{key}: ", path.display());
            assert!(!checked.status.success(), "{checked:?}");
            assert!(error.contains(&place) && error.contains(why), "{error}");
        }
    }
}

/// A tracepoint that fires faster than the budget: refusals are counted, and quiet processes are
/// recorded all the same.
#[test]
fn a_flood_is_refused_and_counted() {
    let config = format!(
        "{}[budget]\ntotal = \"off\"\nper_cpu = \"1%\"\n",
        tables(&["raw_syscalls:sys_enter", "task:task_newtask"])
    );
    let recorder = Recorder::start(Options { config, ..Options::default() });
    let cpu = online_cpus().last().copied().expect("a CPU").to_string();
    let flood = Command::new("timeout")
        .args(["3", "taskset", "-c", &cpu, "dd", "if=/dev/zero", "of=/dev/null", "bs=1"])
        .stderr(Stdio::null())
        .status();
    assert!(flood.expect("timeout").code() == Some(124));
    let report = status(&recorder);
    let of = |name: &str, key: &str| {
        let all = report["tracepoints"].as_array().expect("tracepoints");
        let of = all.iter().find(|of| of["name"] == name).expect("a tracepoint");
        of[key].as_u64().expect("a number")
    };
    let (recorded, refused) =
        (of("raw_syscalls:sys_enter", "recorded"), of("raw_syscalls:sys_enter", "refused"));
    eprintln!("{recorded} recorded, {refused} refused");
    assert!(refused > recorded && recorded > 100, "{report:#}");
    let lane = &report["lanes"]["kernel"];
    assert!(lane["lost"]["throttled"].as_u64() >= Some(refused / 2), "{lane:#}");
    let child = Command::new("true").spawn().expect("true").id();
    let made = valid_dump(&recorder, &["--last", "1h", "--event", "task:task_newtask"]);
    assert!(made.iter().any(|of| of["fields"]["pid"] == child), "{child}");
}

/// Every event is recorded or reported: those that perf counts.
#[test]
fn every_event_is_recorded_or_reported() {
    let recorder = start(&tables(&["task:task_newtask", "ext4:ext4_sync_file_enter"]));
    let dir = TempDir::new_in("/var/tmp").expect("directory");
    let counted = |report: &Value, name: &str| {
        let all = report["tracepoints"].as_array().expect("tracepoints");
        let of = all.iter().find(|of| of["name"] == name).expect("a tracepoint");
        let sum = |key: &str| of[key].as_u64().expect("a number");
        sum("recorded") + sum("refused")
    };
    let events = "task:task_newtask,ext4:ext4_sync_file_enter";
    let load = "echo $$; for i in $(seq 200); do /bin/true; done; for i in $(seq 50); do dd if=/dev/zero \
                of=f bs=4k count=1 conv=fsync status=none; done";
    let mut command = Command::new("perf");
    command.args(["stat", "-x", ",", "-e", events, "--", "bash", "-c", load]);
    let output = command.current_dir(dir.path()).output().expect("perf");
    // Others on this machine have a bash as well.
    let shell = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    for name in ["task:task_newtask", "ext4:ext4_sync_file_enter"] {
        let line = printed.lines().find(|line| line.contains(name)).expect(&printed);
        let perfs: u64 = line.split(',').next().expect("a number").parse().expect(line);
        let of_load =
            valid_dump(&recorder, &["--last", "1h", "--event", name, "--tree", &shell]).len();
        eprintln!("{name}: perf {perfs}, ours {of_load}");
        assert_eq!(of_load as u64, perfs, "{name}: {printed}");
        assert!(counted(&status(&recorder), name) >= perfs);
    }
}
