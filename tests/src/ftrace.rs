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
