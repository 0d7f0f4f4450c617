//! Another witness: the kernel's own tracer, in an instance that is the test's alone.

use std::fs;
use std::io;
use std::path::PathBuf;

const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// A trace of some events, in the clock of the recorder. Removed on drop.
#[derive(Debug)]
pub struct Ftrace {
    dir: PathBuf,
}

impl Ftrace {
    /// Begins to trace these events (`sched/sched_waking`), with `kib` of memory for each CPU. The
    /// calling thread needs a mounted tracefs ([`crate::Sandbox`]).
    pub fn start(events: &[&str], kib: usize) -> io::Result<Self> {
        let name = format!("flightrec-{}", std::process::id());
        let ftrace = Self { dir: PathBuf::from(INSTANCES).join(name) };
        fs::create_dir(&ftrace.dir)?;
        ftrace.write("trace_clock", "mono")?;
        ftrace.write("buffer_size_kb", &kib.to_string())?;
        for event in events {
            ftrace.write(&format!("events/{event}/enable"), "1")?;
        }
        Ok(ftrace)
    }

    /// Ends the trace, and reads it as text.
    pub fn stop(self) -> io::Result<String> {
        self.write("tracing_on", "0")?;
        fs::read_to_string(self.dir.join("trace"))
    }

    fn write(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.dir.join(file), value)
    }
}

impl Drop for Ftrace {
    fn drop(&mut self) {
        // It holds memory of the kernel; where it is not there, nothing is to be done.
        let _ = fs::remove_dir(&self.dir);
    }
}

/// An event in a trace.
#[derive(Debug, Clone)]
pub struct Traced<'a> {
    /// When, ns of `CLOCK_MONOTONIC`, to the microsecond.
    pub time: u64,
    /// On which CPU.
    pub cpu: u16,
    /// The thread that ran there.
    pub tid: u32,
    /// Its name, without the category.
    pub name: &'a str,
    /// The fields.
    pub rest: &'a str,
}

impl Traced<'_> {
    /// The field `key=…`.
    pub fn field(&self, key: &str) -> Option<&str> {
        let mut words = self.rest.split([' ', '(', ')']);
        words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }
}

/// The events of a trace's text (clock `mono`; `trace_print_context`, kernel/trace/trace_output.c,
/// Linux 6.1): `comm-7  [001] d.s4.  1234.567890: name: fields`.
pub fn traced(trace: &str) -> Vec<Traced<'_>> {
    let one = |line| -> Option<Traced<'_>> {
        let (before, after) = str::split_once(line, " [")?;
        let tid = before.rsplit('-').next()?.trim().parse().ok()?;
        let (cpu, after) = after.split_once(']')?;
        let (head, event) = after.split_once(": ")?;
        let (seconds, micros) = head.rsplit(' ').next()?.split_once('.')?;
        let time =
            seconds.parse::<u64>().ok()? * 1_000_000_000 + micros.parse::<u64>().ok()? * 1000;
        let (name, rest) = event.split_once(": ")?;
        Some(Traced { time, cpu: cpu.parse().ok()?, tid, name, rest })
    };
    trace.lines().filter_map(one).collect()
}
