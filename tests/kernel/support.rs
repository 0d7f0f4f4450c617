//! What most of these tests do: start a recorder, run a program, look at what was recorded.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use flightrec_format::abi::page::Lane;
use flightrec_format::totals::lane_of;
use flightrec_tests::{Options, Recorder, Snapshot, key_values, require_kernel};
use serde_json::Value;

/// A recorder of the test's own with this configuration, [`without_limit`].
pub(crate) fn start(config: &str) -> Recorder {
    require_kernel();
    Recorder::start(Options { config: without_limit(config), ..Options::default() })
}

/// One test of checks that share a recorder, which each of them takes as it usually is and leaves as
/// it was: a recorder that starts costs half a second, most of it the kernel's verifier.
macro_rules! share_recorder {
    ($($check:ident),+ $(,)?) => {
        #[test]
        fn on_one_recorder() {
            let recorder = crate::support::start("");
            $(
                eprintln!("{}:", stringify!($check)); // shown if it fails
                $check(&recorder);
            )+
        }
    };
}
pub(crate) use share_recorder;

/// The configuration without a budget unless it says so: what a test does must be recorded in full,
/// and all that the machine does beside draws from the same allowance.
pub(crate) fn without_limit(config: &str) -> String {
    let limit = if config.contains("[budget]") {
        ""
    } else {
        "\n[budget]\ntotal = \"off\"\nper_cpu = \"off\"\n"
    };
    format!("{config}{limit}")
}

/// Checks something under each form that the system call programs can have.
pub(crate) fn in_both_forms(check: impl Fn(&Recorder)) {
    for form in ["tp_btf", "tracepoint"] {
        let recorder = start(&format!("[kernel]\nsyscall_programs = \"{form}\""));
        assert_eq!(snapshot(&recorder).meta.syscall_programs, form);
        eprintln!("with {form} programs:"); // shown if the check fails
        check(&recorder);
    }
}

/// Makes a key, and a certificate of one's own for 127.0.0.1, in files of these names.
pub(crate) fn certificate(dir: &Path) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-subj", "/CN=flightrec", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(dir.join("key"))
        .arg("-out")
        .arg(dir.join("certificate"))
        .output()
        .expect("openssl");
    assert!(made.status.success(), "{made:?}");
}

/// Whether a line of `--format jsonl` is an event, and does not tell of the window: its coverage,
/// its gaps, or a step of the wall clock, which may happen at any time.
pub(crate) fn is_event(line: &Value) -> bool {
    line.get("tid").is_some()
}

/// Restricts a question to what this test's processes do: others, and other tests, run programs of
/// the same names.
pub(crate) fn own() -> [String; 2] {
    ["--tree".to_owned(), std::process::id().to_string()]
}

/// All that it holds.
pub(crate) fn snapshot(recorder: &Recorder) -> Snapshot {
    Snapshot::take(&recorder.sandbox().bpffs_dir())
}

/// The nice value that programs inherit which the calling thread starts.
pub(crate) fn nice() -> i32 {
    // SAFETY: no memory is involved; 0 is the calling thread (setpriority(2), "C library/kernel
    // differences").
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// Runs a program to its end, which must be with `code`; what it printed as `key=value`.
pub(crate) fn run_to(code: i32, program: &Path, args: &[&str]) -> Printed {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().expect("run");
    assert_eq!(output.status.code(), Some(code), "{}: {output:?}", program.display());
    Printed(key_values(&output.stdout))
}

/// Runs a program to its successful end.
pub(crate) fn run(program: &Path, args: &[&str]) -> Printed {
    run_to(0, program, args)
}

/// The `key=value` lines of a program.
#[derive(Debug)]
pub(crate) struct Printed(HashMap<String, String>);

impl Printed {
    /// A number that it printed, most often a process's or a thread's id.
    pub(crate) fn id(&self, key: &str) -> u32 {
        self.number(key)
    }

    /// A number of any type.
    pub(crate) fn number<N: std::str::FromStr>(&self, key: &str) -> N {
        let text = self.0.get(key).unwrap_or_else(|| panic!("no {key} in {self:?}"));
        text.parse().unwrap_or_else(|_| panic!("{key}={text}"))
    }
}

/// One event's line of `flightctl dump`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// CPU.
    pub(crate) cpu: u16,
    /// Thread.
    pub(crate) tid: u32,
    /// Its name.
    pub(crate) comm: String,
    /// What happened.
    pub(crate) text: String,
}

/// The lines of a dump; those about coverage, which begin with `#`, are left out.
pub(crate) fn lines(output: &Output) -> Vec<Line> {
    let text = std::str::from_utf8(&output.stdout).expect("a dump is ASCII");
    text.lines().filter(|line| !line.starts_with('#')).map(parse).collect()
}

/// `14:03:07.123456 [001]    8883 mysqld           what happened`
fn parse(line: &str) -> Line {
    let parts = || {
        let (_, rest) = line.split_once(" [")?;
        let (cpu, rest) = rest.split_once("] ")?;
        let (tid, rest) = rest.trim_start().split_once(' ')?;
        let (comm, text) = rest.split_once("  ")?;
        let (cpu, tid) = (cpu.parse().ok()?, tid.parse().ok()?);
        Some(Line { cpu, tid, comm: comm.into(), text: text.trim_start().into() })
    };
    parts().unwrap_or_else(|| panic!("not a line of an event: {line:?}"))
}

/// Whether a dump succeeded, and nothing is missing in its window but events of lane `kernel` that
/// met others there, which any interrupt can make happen: refused by the probes, or their program
/// skipped by the kernel. Tests of that lane's kinds count those.
pub(crate) fn is_whole(output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    let is_loss = |line: &&str| line.starts_with("gap: ") || line.contains("the kernel skipped ");
    let mut losses = said.lines().filter(is_loss).peekable();
    let is_meeting = |loss: &str| match loss.strip_prefix("gap: ") {
        Some(gap) => gap.contains(", lane kernel, ") && gap.ends_with(" busy)"),
        None => loss
            .split_once(" of ")
            .and_then(|(_, program)| program.split(' ').next())
            .is_some_and(|program| lane_of(program) == Some(Lane::Kernel)),
    };
    output.status.success()
        || (output.status.code() == Some(3) && losses.peek().is_some() && losses.all(is_meeting))
}

/// A dump that must be whole.
pub(crate) fn dump(recorder: &Recorder, args: &[&str]) -> Vec<Line> {
    let output = recorder.flightctl(&[&["dump"], args].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(is_whole(&output), "{:?}: {said}", output.status);
    lines(&output)
}

/// Events of lane `kernel` that were refused, and runs of programs that were skipped whose names
/// begin with one of these.
pub(crate) fn lost_of_kernel_lane(status: &Value, programs: &[&str]) -> u64 {
    let refused = status["lanes"]["kernel"]["lost"].as_object().expect("reasons").values();
    let skipped = status["recursion_misses"].as_object().expect("programs").iter();
    let of_these = |name: &str| programs.iter().any(|program| name.starts_with(program));
    let skipped = skipped.filter(|(name, _)| of_these(name)).map(|(_, n)| n);
    refused.chain(skipped).map(|n| n.as_u64().expect("a number")).sum()
}
