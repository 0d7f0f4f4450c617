//! What runs, and in which functions.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use flightrec_tests::{PATIENCE, Recorder, bin_dir, c_program, left_out, online_cpus, wait_until};
use serde_json::Value;
use tempfile::TempDir;

use crate::json::valid_dump;
use crate::lacking::{btf_without, status};
use crate::support::{dump, run, start};

/// Samples a second that are the default.
const HZ: f64 = 49.0;

/// A copy of the program that spins, in a directory of its own, with a build id of its own: of two
/// binaries that have the same one the recorder names either.
fn spinner(dir: &Path) -> PathBuf {
    // Length of the name and of the id, and the note's kind, NT_GNU_BUILD_ID (elf(5)).
    const NOTE: &[u8] = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
    let program = dir.join("spins");
    // Every function then has a frame, also one that calls nothing.
    let mut bytes = fs::read(c_program("spins", &["-O0"])).expect("the program");
    let note = bytes.windows(NOTE.len()).position(|of| of == NOTE).expect("a build id");
    let id = std::process::id().to_le_bytes();
    bytes[note + NOTE.len()..][..id.len()].copy_from_slice(&id);
    fs::write(&program, bytes).expect("a copy");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("a mode");
    program
}

/// Has it spin for so long on the last CPU, and returns its process id and the samples that are
/// expected of it.
fn spin(program: &Path, what: &str, seconds: &str) -> (u32, f64) {
    let cpu = busy_cpu().to_string();
    let program = program.display().to_string();
    let printed = run(Path::new("/usr/bin/taskset"), &["-c", &cpu, &program, what, seconds]);
    (printed.id("pid"), printed.number::<f64>("cpu_ms") / 1e3 * HZ)
}

fn busy_cpu() -> usize {
    online_cpus().last().copied().expect("a CPU")
}

/// A process that shares its CPU is sampled by chance; with a CPU of its own it is far nearer.
fn assert_near(samples: usize, expected: f64) {
    let off = (samples as f64 - expected).abs() / expected.sqrt();
    eprintln!("{samples} samples of {expected:.1} expected, {off:.1} standard deviations");
    assert!(off < 5.0, "{samples} samples of {expected:.1} expected");
}

/// The clock of a CPU that is busy all the time strikes as often as it should: between the first
/// and the last of these samples, whoever ran.
fn assert_rate(recorder: &Recorder, found: &[Value]) {
    let cpu = busy_cpu().to_string();
    let time = |of: &Value| of["mono_ns"].as_u64().unwrap_or_else(|| panic!("{of}"));
    let (first, last) = (time(&found[0]), time(found.last().expect("samples")));
    let all = recorded(recorder, &["--cpu", &cpu]);
    let strikes = all.iter().filter(|of| (first..=last).contains(&time(of))).count() - 1;
    let rate = strikes as f64 / (last - first) as f64 * 1e9;
    eprintln!("{rate:.2} samples a second of a busy CPU");
    assert!((rate / HZ - 1.0).abs() < 0.05, "{rate}");
}

/// The samples of a process.
fn samples(recorder: &Recorder, pid: u32) -> Vec<Value> {
    recorded(recorder, &["--pid", &pid.to_string()])
}

/// The samples that a filter leaves. What the recorder does is told whatever the filter.
fn recorded(recorder: &Recorder, filter: &[&str]) -> Vec<Value> {
    let mut all = valid_dump(recorder, &[&["--last", "1h", "--event", "sample"], filter].concat());
    all.retain(|of| of["event"] == "sample");
    all
}

/// The functions of one of a sample's stacks.
fn functions<'a>(sample: &'a Value, stack: &str) -> Vec<&'a str> {
    let frames = sample[stack].as_array().into_iter().flatten();
    frames.map(|frame| frame["symbol"].as_str().unwrap_or("?")).collect()
}

/// The share of samples of which something holds.
fn share(samples: &[Value], holds: impl Fn(&Value) -> bool) -> f64 {
    samples.iter().filter(|sample| holds(sample)).count() as f64 / samples.len() as f64
}

/// Pins of the clocks of a recorder's recording.
fn clocks(recorder: &Recorder) -> Vec<String> {
    let pins = recorder.sandbox().pins().expect("pins");
    let names = pins.iter().filter_map(|pin| Some(pin.file_name()?.to_str()?.to_owned()));
    let mut clocks: Vec<String> = names.filter(|name| name.starts_with("clock-")).collect();
    clocks.sort();
    clocks
}

fn expected_clocks(hz: u32) -> Vec<String> {
    online_cpus().iter().map(|cpu| format!("clock-{hz}-{cpu}")).collect()
}

#[test]
fn the_function_that_spins_has_the_samples() {
    let mut recorder = start("");
    let dir = TempDir::new().expect("directory");
    let program = spinner(dir.path());
    let (in_program, expected) = spin(&program, "program", "3");
    let of_program = samples(&recorder, in_program);
    assert_near(of_program.len(), expected);
    assert_rate(&recorder, &of_program);
    let spins = share(&of_program, |of| {
        let of = functions(of, "user_stack");
        of.first() == Some(&"spin_in_program") && of.get(1) == Some(&"main")
    });
    assert!(spins > 0.95, "{spins}: {of_program:#?}");
    assert!(share(&of_program, |of| of["mode"] == "user") > 0.95);
    let innermost = &of_program[of_program.len() / 2]["user_stack"][0];
    assert_eq!(innermost["binary"], program.display().to_string());
    assert_eq!(innermost["build_id"].as_str().map(str::len), Some(40));

    let (in_kernel, expected) = spin(&program, "kernel", "3");
    let of_kernel = samples(&recorder, in_kernel);
    assert_near(of_kernel.len(), expected);
    assert_rate(&recorder, &of_kernel);
    let is_read = |of: &Value| {
        let (kernel, user) = (functions(of, "kernel_stack"), functions(of, "user_stack"));
        of["mode"] == "kernel"
            && kernel.contains(&"vfs_read")
            // After read(2) of the C library, which has no frame: main is its caller's caller.
            && user.iter().any(|of| ["spin_in_kernel", "main"].contains(of))
    };
    let others: Vec<&Value> = of_kernel.iter().filter(|of| !is_read(of)).collect();
    let reads = share(&of_kernel, is_read);
    assert!(reads > 0.9, "{reads}: {others:#?}");

    // The text has them where they are asked for.
    let args = ["--last", "1h", "--pid", &in_program.to_string()];
    let is_sample = |text: &str| text.starts_with("(SAMPLE) ");
    assert!(!dump(&recorder, &args).iter().any(|line| is_sample(&line.text)));
    let lines = dump(&recorder, &[&args[..], &["--stacks"]].concat());
    let lines: Vec<&str> =
        lines.iter().map(|line| &*line.text).filter(|text| is_sample(text)).collect();
    assert_eq!(lines.len(), of_program.len());
    let line = "(SAMPLE) user spin_in_program [spins] <- main [spins]";
    assert!(lines.iter().any(|text| text.starts_with(line)), "{lines:#?}");

    // A file tells the same, without a recorder.
    let file = dir.path().join("saved.flight").display().to_string();
    let saved = recorder.flightctl(&["save", "--last", "1h", "-o", &file]);
    assert!(saved.status.success(), "{saved:?}");
    let state = recorder.sandbox().state_dir().display().to_string();
    recorder.stop();
    let pid = in_program.to_string();
    // Before its exec it runs other binaries, whose paths the recorder may learn later.
    let args = ["--pid", &pid, "--comm", "spins", "--event", "sample"];
    let of_program: Vec<Value> =
        of_program.into_iter().filter(|sample| sample["comm"] == "spins").collect();
    let from_file = [&["--file", &file], &args[..]].concat();
    assert_eq!(valid_dump(&recorder, &from_file), of_program);
    let drained = [&["--state-dir", &state, "--all"], &args[..]].concat();
    assert_eq!(valid_dump(&recorder, &drained), of_program);

    // Of a file that is another one there are no names, nor of one that is none.
    let shown = || {
        let output = Command::new(bin_dir().join("flightctl"))
            .args([&["dump"], &from_file[..]].concat())
            .output()
            .expect("flightctl");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let replaced: [&dyn Fn(); 4] = [
        &|| fs::rename(&program, dir.path().join("elsewhere")).expect("rename"),
        &|| assert!(fs::copy("/bin/true", &program).expect("copy") > 0),
        &|| {
            let bytes = fs::read(dir.path().join("elsewhere")).expect("read");
            fs::write(&program, &bytes[..bytes.len() / 2]).expect("write");
        },
        &|| {
            fs::remove_file(&program).expect("remove");
            nix::unistd::mkfifo(&program, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        },
    ];
    for (i, replace) in replaced.iter().enumerate() {
        replace();
        let text = shown();
        assert!(text.contains("(SAMPLE) user spins+0x1"), "{i}: {text}");
        assert!(!text.contains("spin_in_program"), "{i}: {text}");
    }
    fs::remove_file(&program).expect("remove");
    fs::rename(dir.path().join("elsewhere"), &program).expect("rename");
    assert!(shown().contains(line));
}

#[test]
fn samples_go_on_without_a_daemon_and_end_with_the_recording() {
    let mut recorder = start("");
    let dir = TempDir::new().expect("directory");
    let program = spinner(dir.path());
    assert_eq!(clocks(&recorder), expected_clocks(49));
    recorder.kill();
    let (pid, expected) = spin(&program, "program", "1");
    recorder.restart();
    assert_near(samples(&recorder, pid).len(), expected);
    assert_eq!(clocks(&recorder), expected_clocks(49), "taken over");
    // What the next daemon is to do, it does.
    recorder.kill();
    recorder.options_mut().config.push_str("[sampling]\nhz = 200\nuser_frames = 1\n");
    recorder.restart();
    assert_eq!(clocks(&recorder), expected_clocks(200));
    let (pid, expected) = spin(&program, "program", "1");
    let found = samples(&recorder, pid);
    assert_near(found.len(), expected / HZ * 200.0);
    // While it is executed, and when it ends, it has no stack of its own.
    for of in found.iter().filter(|of| of["mode"] == "user") {
        assert_eq!((functions(of, "user_stack").len(), &of["user_stack_cut"]), (1, &true.into()));
    }
    let objects = recorder.bpf_objects();
    recorder.stop();
    let gone = || flightrec_tests::bpf_objects_left(&objects).is_empty();
    assert!(wait_until(PATIENCE, gone), "something is left");
}

#[test]
fn none_are_taken_where_they_are_off() {
    let recorder = start("[sampling]\nhz = 0\n");
    let dir = TempDir::new().expect("directory");
    spin(&spinner(dir.path()), "program", "0.5");
    assert_eq!(clocks(&recorder), Vec::<String>::new());
    let status = status(&recorder);
    assert_eq!(status["lanes"]["kernel"]["events"]["sample"], 0);
    assert_eq!(status["switched_off"], serde_json::json!(["sampling.hz"]));
    assert!(!status["recursion_misses"].as_object().expect("programs").contains_key("sample"));
    let output = recorder.flightctl(&["dump", "--last", "1s"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = "# not recorded (off in the configuration): sampling.hz (sample)\n";
    assert_eq!(said.matches(line).count(), 1, "{said}");
}

/// A CPU that is off, and on again in any case.
pub(crate) struct Off(PathBuf);

impl Off {
    /// `None` where it can't be switched off.
    pub(crate) fn new(cpu: usize) -> Option<Self> {
        let switch = PathBuf::from(format!("/sys/devices/system/cpu/cpu{cpu}/online"));
        fs::write(&switch, "0").is_ok().then_some(Self(switch))
    }
}

impl Drop for Off {
    fn drop(&mut self) {
        fs::write(&self.0, "1").expect("the CPU is on again");
    }
}

/// As with each CPU but the first when the machine is suspended.
#[test]
fn samples_go_on_when_a_cpu_was_off_for_a_moment() {
    let recorder = start("");
    let dir = TempDir::new().expect("directory");
    let program = spinner(dir.path());
    let cpu = busy_cpu();
    drop(Off::new(cpu).unwrap_or_else(|| left_out("no CPU that may be switched off")));
    assert!(online_cpus().contains(&cpu));
    // It is looked at the clocks every 5 s.
    let goes_on = || {
        let pid = spin(&program, "program", "0.5").0.to_string();
        // Where no event matches, it fails. Before it is bound to its CPU, it may run on another.
        let cpu = cpu.to_string();
        let args = ["dump", "--last", "1h", "--event", "sample", "--pid", &pid, "--cpu", &cpu];
        recorder.flightctl(&args).status.success()
    };
    assert!(wait_until(PATIENCE, goes_on), "no samples any more");
    assert_eq!(clocks(&recorder), expected_clocks(49));
    let (pid, expected) = spin(&program, "program", "2");
    let found = samples(&recorder, pid);
    assert_near(found.len(), expected);
    assert_rate(&recorder, &found);
}

#[test]
fn what_the_budget_refuses_is_told_and_counted() {
    let recorder = start("[budget]\nper_cpu = \"0.01%\"\nburst = \"1s\"\n");
    let dir = TempDir::new().expect("directory");
    let (pid, expected) = spin(&spinner(dir.path()), "program", "3");
    let found = samples(&recorder, pid);
    // They have their thread all the same.
    assert_near(found.len(), expected);
    let refused = found.iter().filter(|of| of["stack_missing"] == "refused").count();
    assert!(refused > 0, "{found:#?}");
    assert!(found.iter().all(|of| of["user_stack"].is_null() == of["stack_missing"].is_string()));
    let counted = status(&recorder)["lanes"]["kernel"]["throttled"]["sample"].as_u64();
    assert!(counted >= Some(refused as u64), "{counted:?} of {refused}");
}

#[test]
fn a_kernel_that_does_not_tell_files_has_build_ids() {
    let dir = TempDir::new().expect("directory");
    let btf = btf_without(&["vm_file"], dir.path());
    let recorder = start(&format!("[kernel]\nbtf = \"{}\"\n", btf.display()));
    let (pid, _) = spin(&spinner(dir.path()), "program", "0.5");
    let lacking = &status(&recorder)["lacking"][0];
    assert_eq!(lacking["what"], "names of binaries in samples");
    let found = samples(&recorder, pid);
    let frames = || found.iter().flat_map(|of| of["user_stack"].as_array().into_iter().flatten());
    let is_named = |of: &Value| !of["binary"].is_null() || !of["symbol"].is_null();
    assert!(!frames().any(is_named), "{found:#?}");
    // Not each frame has one: the kernel does not wait for a page of the file, nor for the lock of
    // the mappings.
    let mut ids: Vec<&str> = frames().filter_map(|of| of["build_id"].as_str()).collect();
    ids.sort_unstable();
    let most = ids.chunk_by(|a, b| a == b).max_by_key(|same| same.len()).expect("build ids");
    let id = most[0].to_owned();
    let args = ["--last", "1h", "--pid", &pid.to_string(), "--event", "sample"];
    let expected = format!("(SAMPLE) user ?{}+0x", &id[..12]);
    assert!(dump(&recorder, &args).iter().any(|line| line.text.starts_with(&expected)));
}
