//! A third witness: the kernel's counters of tracepoints, read by `perf stat`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::process::die_with_parent;
use crate::programs::key_values;

/// Counts of some tracepoints (`io_uring:io_uring_complete`), in one program and all threads and
/// processes that it makes. The calling thread needs a mounted tracefs ([`crate::Sandbox`]).
#[derive(Debug)]
pub struct PerfStat {
    events: Vec<String>,
    counts: HashMap<String, u64>,
}

impl PerfStat {
    /// Of these.
    pub fn of(events: &[&str]) -> Self {
        let events = events.iter().map(|event| (*event).to_owned()).collect();
        Self { events, counts: HashMap::new() }
    }

    /// Runs a program to its successful end, and counts; what it printed as `key=value`.
    ///
    /// # Panics
    /// `perf` is not there or fails, or the program does.
    pub fn run(&mut self, program: &Path, args: &[&str]) -> HashMap<String, String> {
        let dir = TempDir::new().expect("a directory");
        let counts = dir.path().join("counts");
        let mut command = Command::new("perf");
        command.args(["stat", "-x,", "-o"]).arg(&counts).args(["-e", &self.events.join(",")]);
        command.arg("--").arg(program).args(args).stdin(Stdio::null());
        let output = die_with_parent(&mut command, Signal::SIGKILL).output();
        let output =
            output.unwrap_or_else(|e| panic!("perf: {e}; `cargo xtask setup` installs it"));
        assert!(output.status.success(), "{}: {output:?}", program.display());
        self.read(&counts);
        key_values(&output.stdout)
    }

    /// `COUNT,,EVENT,…`
    fn read(&mut self, counts: &PathBuf) {
        let text = fs::read_to_string(counts).expect("counts");
        for line in text.lines() {
            let mut columns = line.split(',');
            if let (Some(count), Some(event)) = (columns.next(), columns.nth(1))
                && let Ok(count) = count.parse()
            {
                self.counts.insert(event.to_owned(), count);
            }
        }
    }

    /// How often one of them was met.
    ///
    /// # Panics
    /// It was not counted.
    pub fn count(&self, event: &str) -> u64 {
        let count = self.counts.get(event).copied();
        count.unwrap_or_else(|| panic!("{event} was not counted: {:?}", self.counts))
    }
}
