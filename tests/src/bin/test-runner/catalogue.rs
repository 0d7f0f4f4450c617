//! Which tests there are, and which are to run.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{Args, Layer};

/// The program with the tests of the running kernel.
const KERNEL: &str = "kernel";

/// Its tests, by files or singly, that have no other recorder beside them: they measure what
/// recording costs, switch a CPU off, flood what all recorders share, count what all of the machine
/// does, or list what is in the kernel.
pub(crate) const ALONE: [&str; 27] = [
    "budget",
    "counts",
    "crowd",
    "drill",
    "fairness",
    "flood",
    "given_up",
    "interrupts",
    "quiet",
    "run_queue",
    "samples::samples_go_on_when_a_cpu_was_off_for_a_moment",
    "store::no_call_takes_as_long_as_what_is_missing_in_it",
    "store::what_was_overwritten_is_counted",
    "stress",
    "taken_away",
    "taken_over",
    "top::the_hog_is_at_the_top_and_the_screen_is_restored",
    "top::without_a_terminal",
    "tracepoints",
    "triggers::a_crowd_on_one_cpu",
    "triggers::a_name_is_no_word_of_the_kernel",
    "triggers::a_process_killed_for_want_of_memory",
    "triggers::a_signal_that_dumps_core_and_a_storm_of_it",
    "triggers::crashes_of_one_user_leave_room_for_those_of_others",
    "triggers::pressure_on_memory",
    "why::the_cause_of_every_incident_is_in_the_first_sentence",
    "witness",
];

/// One test.
#[derive(Debug, Clone)]
pub(crate) struct Test {
    /// Its crate, and its program if that is another name.
    pub(crate) program: String,
    /// Its path in the program.
    pub(crate) name: String,
    pub(crate) executable: PathBuf,
    /// Where cargo would start it: the crate's directory.
    pub(crate) directory: PathBuf,
    /// It needs root and the running kernel, by itself.
    pub(crate) is_of_kernel: bool,
    /// It takes long by nature: `#[ignore = "long: …"]`.
    pub(crate) is_long: bool,
}

impl Test {
    /// Of a test of the running kernel: whether it has no other one beside it.
    pub(crate) fn is_alone(&self) -> bool {
        let file = self.name.split("::").next();
        ALONE.iter().any(|of| *of == self.name || Some(*of) == file)
    }

    pub(crate) fn full_name(&self) -> String {
        format!("{} {}", self.program, self.name)
    }
}

/// All tests, and how many are not to run, with the reason.
#[derive(Debug)]
pub(crate) struct Catalogue {
    pub(crate) tests: Vec<Test>,
    pub(crate) unselected: Vec<(usize, &'static str)>,
}

impl Catalogue {
    /// Asks the programs that the file lists for their tests.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let text = fs::read(file).with_context(|| file.display().to_string())?;
        let programs: Vec<Value> = serde_json::from_slice(&text)?;
        let mut tests = Vec::new();
        for program in &programs {
            let text = |key: &str| {
                program[key].as_str().with_context(|| format!("{}: no {key}", file.display()))
            };
            let (package, name) = (text("package")?, text("name")?);
            let executable = PathBuf::from(text("executable")?);
            let directory = PathBuf::from(text("directory")?);
            let is_main = package.replace('-', "_") == name.replace('-', "_");
            let program = if is_main { package.to_owned() } else { format!("{package}::{name}") };
            let long: HashSet<String> = list(&executable, &["--ignored"])?.into_iter().collect();
            for test in list(&executable, &[])? {
                tests.push(Test {
                    program: program.clone(),
                    is_long: long.contains(&test),
                    name: test,
                    executable: executable.clone(),
                    directory: directory.clone(),
                    is_of_kernel: name == KERNEL,
                });
            }
        }
        ensure!(!tests.is_empty(), "{}: no tests", file.display());
        Ok(Self { tests, unselected: Vec::new() })
    }

    /// Keeps what is asked for.
    pub(crate) fn select(&mut self, args: &Args) {
        if !args.names.is_empty() {
            self.tests.retain(|test| args.names.iter().any(|of| test.full_name().contains(of)));
        }
        let mut leave = |why, is_left: &dyn Fn(&Test) -> bool| {
            let before = self.tests.len();
            self.tests.retain(|test| !is_left(test));
            if self.tests.len() < before {
                self.unselected.push((before - self.tests.len(), why));
            }
        };
        if args.without_kernel {
            leave("on the running kernel (--without-kernel)", &|test| test.is_of_kernel);
        }
        match args.layer {
            Layer::Base => {
                leave("that take long by nature (--layer long)", &|test| test.is_long);
            }
            Layer::Long => leave("of the layer base", &|test| !test.is_long),
            Layer::All => {}
        }
    }
}

/// The names of a program's tests.
fn list(program: &Path, arguments: &[&str]) -> Result<Vec<String>> {
    let mut command = Command::new(program);
    command.args(["--list", "--format", "terse"]).args(arguments);
    let output = command.output().with_context(|| program.display().to_string())?;
    ensure!(output.status.success(), "{} --list: {}", program.display(), output.status);
    let text = String::from_utf8(output.stdout).context("names of tests")?;
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}
