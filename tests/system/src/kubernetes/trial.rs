//! What the recorder does in a pod.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::node::{ID, NAMES, Node};
use super::pod::{NODE, Pod};
use super::spec::Spec;

/// What came of a trial, in the order in which it matters.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Why it did not start.
    refused: Option<String>,
    /// What it records of the other container's system calls and switches, by its id.
    calls: usize,
    switches: usize,
    /// Samples of anything.
    samples: usize,
    /// The other container's name, its pod, namespace and image, as far as they are known.
    names: [bool; 4],
    /// Threads that it knows, and processes whose open files it knows: of those that this machine
    /// has, so many.
    threads: (u64, u64),
    files: (u64, u64),
    /// The host that it says it is of.
    host: String,
    /// Whether paths and names of arguments are shown.
    has_arguments: bool,
    /// Its own system calls, which it should leave out.
    own: usize,
    /// Whether the recording ended with it, and is in files.
    has_files: bool,
    /// What it said in passing.
    warnings: Vec<String>,
}

impl Outcome {
    /// The first thing that does not work.
    pub(super) fn failure(&self) -> Option<String> {
        let Self { refused, calls, switches, samples, names, has_arguments, own, .. } = self;
        if let Some(refused) = refused {
            return Some(format!("does not start: {refused}"));
        }
        let said = self.warnings.first().map(|of| format!(": {of}")).unwrap_or_default();
        if *calls == 0 || *switches == 0 {
            return Some(format!("the other container is not known by its id{said}"));
        }
        let missing: Vec<&str> = ["container", "pod", "namespace", "image"]
            .into_iter()
            .zip(names)
            .filter_map(|(what, is_known)| (!is_known).then_some(what))
            .collect();
        if !missing.is_empty() {
            return Some(format!("names are missing: {}{said}", missing.join(", ")));
        }
        let [(threads, all), (files, processes)] = [self.threads, self.files];
        if threads * 5 < all * 3 || files * 5 < processes * 3 {
            return Some(format!(
                "what was there before is not known: {threads} of {all} threads by their names, \
                 {files} of {processes} processes by their open files"
            ));
        }
        if self.host != NODE {
            return Some(format!("the recording is of {}, not of the node", self.host));
        }
        if !has_arguments {
            return Some(format!("calls have no names of arguments{said}"));
        }
        if *samples == 0 {
            return Some(format!("no samples{said}"));
        }
        if *own != 0 {
            return Some(format!("records {own} system calls of its own"));
        }
        (!self.has_files).then(|| format!("nothing is kept in files{said}"))
    }

    /// What works, in words.
    pub(super) fn told(&self) -> String {
        format!(
            "{} system calls and {} switches of the other container, named by container, pod, \
             namespace and image; {} threads by name, {} processes by their open files; {} samples; \
             none of its own calls; files kept",
            self.calls, self.switches, self.threads.0, self.files.0, self.samples
        )
    }
}

/// Runs the recorder, and the other container beside it.
pub(super) fn run(node: &Node, spec: &Spec) -> Result<Outcome> {
    let files = node.host("var/lib/flightrec");
    fs::remove_dir_all(&files)?;
    fs::create_dir_all(&files)?;
    let pod = match Pod::start(node, spec)? {
        Ok(pod) => pod,
        Err(refused) => return Ok(Outcome { refused: Some(refused), ..Outcome::default() }),
    };
    node.beside_somebody(|| {
        // Its names are there a moment after somebody asks.
        std::thread::sleep(Duration::from_millis(500));
        dump(&pod, &["--last=1s"])?;
        std::thread::sleep(Duration::from_millis(500));
        Ok(())
    })?;
    let mut outcome = Outcome::default();
    let lines = dump(&pod, &["--all", "--container", ID])?;
    let of = |kind: &str| lines.iter().filter(|line| line["event"] == kind).count();
    (outcome.calls, outcome.switches) = (of("sys_exit"), of("switch"));
    let is = |field: &str, name: &str| lines.iter().any(|line| line[field] == name);
    let [name, pod_name, namespace, image] = NAMES;
    outcome.names = [
        is("container_name", name),
        is("pod", pod_name),
        is("namespace", namespace),
        is("image", image),
    ];
    let covered = pod.flightctl(&["dump", "--format=jsonl", "--last=1ms"])?.stdout;
    let covered = String::from_utf8_lossy(&covered).lines().next().map(serde_json::from_str);
    let covered: Value = covered.context("flightctl dump printed nothing")??;
    covered["recording"]["host"].as_str().unwrap_or_default().clone_into(&mut outcome.host);
    let status = pod.flightctl(&["status", "--json"])?.stdout;
    let status: Value = serde_json::from_slice(&status).context("flightctl status")?;
    let (threads, processes) = present();
    outcome.threads = (status["threads"].as_u64().unwrap_or_default(), threads);
    outcome.files = (status["descriptors"]["processes"].as_u64().unwrap_or_default(), processes);
    let mut arguments = lines.iter().filter_map(|line| line["args"].as_array()).flatten();
    outcome.has_arguments = arguments.any(|argument| argument["name"] == "fd");
    outcome.samples = dump(&pod, &["--all", "--event", "sample"])?.len();
    // At its very beginning it is not known yet.
    let own = ["--last=1s", "--event", "sys_enter,sys_exit", "--comm", "flightd,flightd-*"];
    outcome.own = dump(&pod, &own)?.len();
    let log = pod.log()?;
    outcome.warnings = log
        .lines()
        .filter(|line| line.contains(" WARN ") || line.contains("no cgroup2"))
        .filter(|line| !line.contains("not on this kernel"))
        .map(|line| line.split_once("Z ").map_or(line, |(_, line)| line).trim().to_owned())
        .collect();
    pod.stop()?;
    let kept = fs::read_dir(&files).context("the recording's files")?.flatten();
    outcome.has_files = kept.map(|of| of.path()).any(|of| of.is_dir() && !is_empty(&of));
    Ok(outcome)
}

/// Threads of this machine, and processes that have files open.
fn present() -> (u64, u64) {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let count = |of: PathBuf| fs::read_dir(of).into_iter().flatten().count() as u64;
    processes.fold((0, 0), |(threads, processes), of| {
        let has_files = count(of.path().join("fd")) > 0;
        (threads + count(of.path().join("task")), processes + u64::from(has_files))
    })
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

/// Events of the recording.
fn dump(pod: &Pod<'_>, filter: &[&str]) -> Result<Vec<Value>> {
    let output = pod.flightctl(&[&["dump", "--format=jsonl"], filter].concat())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(lines.filter(|line| line["event"] != "coverage" && line["event"] != "gap").collect())
}
