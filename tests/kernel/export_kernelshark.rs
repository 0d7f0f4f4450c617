//! `flightctl export --format trace.dat` in KernelShark: what its library loads, and that its
//! window opens.

use flightrec_tests::Judge;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::export::{Counts, Saved, counts, kind, missing};

fn judge(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn kernelshark_has_the_same_events() {
    Judge::KERNELSHARK.require();
    check(&Saved::new(), 0);
    // Most of what was refused.
    check(&Saved::with_gaps(), 10_000);
}

/// `least`: so many events are missing at least.
fn check(saved: &Saved, least: u64) {
    let trace = saved.export("trace.dat", &[]);
    let entries = judge("../target/judges/kernelshark/entries");
    let output = Command::new(entries).arg(&trace).output();
    let output = output.expect("tests/judges/kernelshark/setup.sh installs it");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let mut theirs = Counts::new();
    let mut dropped: BTreeMap<u64, u64> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let mut next = || words.next().expect("three words");
        let (cpu, tid, name) = (next(), next(), next());
        if tid == "missed" {
            let n: u64 = name.parse().expect("a number");
            *dropped.entry(cpu.parse().expect("a CPU")).or_default() += n;
            continue;
        }
        let name = name.split_once('/').expect("system/event").1;
        if !["gap", "coverage"].contains(&kind(name)) {
            let key = (tid.parse().expect("a thread"), kind(name).to_owned());
            *theirs.entry(key).or_default() += 1;
        }
    }
    assert_eq!(theirs, counts(&saved.events()));
    let ours = missing(&saved.lines());
    assert!(ours.values().sum::<u64>() >= least, "{ours:?}");
    for (cpu, n) in ours.iter().filter(|(_, n)| **n > 0) {
        assert_eq!(dropped.get(cpu), Some(n), "CPU {cpu}: {ours:?}");
    }
    let picture = trace.with_extension("png");
    let output =
        Command::new(judge("judges/kernelshark/picture.sh")).arg(&trace).arg(&picture).output();
    let output = output.expect("the judge");
    assert!(output.status.success(), "{output:?}");
}
