//! The runner of all tests: `cargo xtask test` builds them and starts it.
//!
//! Each test is a process of its own, with a directory for temporary files that must be empty
//! afterwards. Some of those on the running kernel have the machine to themselves, as far as other
//! recorders are concerned ([`catalogue::ALONE`]); all others run side by side. A test that finds
//! that the machine lacks something says so ([`flightrec_tests::left_out`]) and counts as skipped,
//! with the reason.
//! At the end, nothing may be left on the machine ([`machine::Machine`]).

mod catalogue;
mod machine;
mod process;
mod report;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use flightrec_tests::Interrupt;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, killpg};
use nix::sys::stat::{Mode, umask};

use nix::unistd::Pid;

use crate::catalogue::{Catalogue, Test};
use crate::machine::Machine;
use crate::report::Report;

/// How often it is looked whether Ctrl-C was pressed, and what has ended.
const POLL: Duration = Duration::from_millis(100);

/// Run the tests.
///
/// `base`, the layer that runs if none is named, is everything that a change can break. `long` is
/// what takes long by nature: storms, hours of files, campaigns of kills. What needs a machine of
/// its own has commands of its own: cargo xtask vm, service, bare, kubernetes, calm.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask test")]
struct Args {
    /// Run only tests whose names contain one of these [default: all]. A name begins with its
    /// crate.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// The layer to run.
    #[arg(long, value_enum, default_value_t = Layer::Base)]
    layer: Layer,
    /// Skip the tests that need root and BPF.
    #[arg(long)]
    without_kernel: bool,
    /// Print the names of the tests and run none.
    #[arg(long)]
    list: bool,
    /// The tests that were built, a file of JSON.
    #[arg(long, hide = true)]
    tests: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layer {
    /// Everything that a change can break.
    Base,
    /// What takes long by nature.
    Long,
    /// Both.
    All,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all went well.
fn run(args: &Args) -> Result<bool> {
    let mut catalogue = Catalogue::read(&args.tests)?;
    catalogue.select(args);
    if args.list {
        catalogue.tests.iter().for_each(|test| println!("{}", test.full_name()));
        return Ok(true);
    }
    // What a test leaves running becomes a child of this process, so that it is found.
    set_child_subreaper(true)?;
    // New files have the usual mode, whatever the caller has set.
    umask(Mode::S_IWGRP | Mode::S_IWOTH);
    let machine = Machine::look()?;
    let interrupt = Interrupt::defer()?;
    // A short name: paths in it are in what tests record.
    let scratch = tempfile::Builder::new().prefix(machine::SCRATCH).rand_bytes(4).tempdir()?;
    let report = Mutex::new(Report::new(catalogue.tests.len()));
    let tests = std::mem::take(&mut catalogue.tests);
    let (kernel, others): (Vec<Test>, Vec<Test>) =
        tests.into_iter().partition(|test| test.is_of_kernel);
    let (alone, kernel): (Vec<Test>, Vec<Test>) = kernel.into_iter().partition(Test::is_alone);
    let [alone, kernel, others] = [alone, kernel, others].map(Queue::new);
    // The kernel's recorders: one that is alone has it for writing.
    let recorders = RwLock::new(());
    thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, usize::from).max(2);
        let mut running = Vec::new();
        for worker in 0..workers {
            let (report, recorders, scratch) = (&report, &recorders, &scratch);
            // One begins with those that no other worker may take meanwhile.
            let queues =
                if worker == 0 { [&alone, &kernel, &others] } else { [&others, &kernel, &alone] };
            running.push(scope.spawn(move || {
                for test in queues.into_iter().flat_map(Queue::take) {
                    let is_alone = test.is_of_kernel && test.is_alone();
                    let is_beside = test.is_of_kernel && !is_alone;
                    let _alone = is_alone.then(|| recorders.write());
                    let _beside = is_beside.then(|| recorders.read());
                    let outcome = process::run(&test, scratch.path());
                    report.lock().unwrap_or_else(PoisonError::into_inner).add(&test, outcome);
                }
            }));
        }
        while running.iter().any(|worker| !worker.is_finished()) {
            if let Err(e) = interrupt.check() {
                eprintln!("error: {e:#}");
                // Held, so that no other test begins.
                let running = process::running();
                for test in running.iter().copied() {
                    // It may have ended just now.
                    let _ = killpg(Pid::from_raw(test as i32), Signal::SIGKILL);
                    machine::remove_groups(test);
                }
                // What tests have started ends with them.
                let _ = fs::remove_dir_all(scratch.path());
                std::process::exit(1);
            }
            machine::reap();
            thread::sleep(POLL);
        }
    });
    scratch.close()?;
    let report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(report.finish(&machine.left(), &catalogue))
}

/// Tests that wait for their turn.
struct Queue(Mutex<std::vec::IntoIter<Test>>);

impl Queue {
    fn new(tests: Vec<Test>) -> Self {
        Self(Mutex::new(tests.into_iter()))
    }

    /// The tests that nobody else has taken.
    fn take(&self) -> impl Iterator<Item = Test> {
        std::iter::from_fn(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).next())
    }
}
