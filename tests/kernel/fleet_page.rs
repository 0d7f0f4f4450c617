//! What docs/fleet.md has for others to take: rules of retention for storages, units for systemd.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use flightrec_tests::{Judge, bin_dir, require_program};
use tempfile::TempDir;

const PAGE: &str = include_str!("../../docs/fleet.md");
/// The storages, as the judge calls them, in the order of their rules in the page.
const STORAGES: [&str; 3] = ["s3", "gs", "az"];

/// What the storage's own SDK says of rules.
fn judged(storage: &str, rules: &str) -> Output {
    let judge = Path::new(env!("CARGO_MANIFEST_DIR")).join("judges/lifecycle/check.sh");
    let mut child = Command::new(judge)
        .arg(storage)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the judge");
    // One that is not installed reads nothing.
    let _ = child.stdin.take().expect("its input").write_all(rules.as_bytes());
    child.wait_with_output().expect("an answer")
}

#[test]
fn rules_of_retention_are_such_as_the_storages_take() {
    Judge::SDKS.require();
    let blocks = PAGE.split("```json\n").skip(1);
    let rules: Vec<&str> = blocks.map(|block| block.split("```").next().expect("text")).collect();
    assert_eq!(rules.len(), STORAGES.len());
    for (storage, rules) in STORAGES.into_iter().zip(rules) {
        let taken = judged(storage, rules);
        let installed = "tests/judges/lifecycle/setup.sh installs what it needs";
        assert!(taken.status.success(), "{storage}: {installed}: {taken:?}");
        let text = String::from_utf8_lossy(&taken.stdout);
        assert!(text.trim().parse::<u32>().is_ok_and(|n| n >= 3), "{storage}: {taken:?}");
        // Another name of a number of days is none.
        let wrong = rules.replace("\"Days\"", "\"Day\"").replace("\"age\"", "\"days\"");
        let wrong = wrong.replace("daysAfterModificationGreaterThan", "daysAfterModification");
        assert!(wrong != rules && !judged(storage, &wrong).status.success(), "{storage}: {wrong}");
    }
}

/// Files of units in a block of the page: each after a comment with its path.
fn units() -> Vec<(String, String)> {
    let block = PAGE.split("```\n# /etc/systemd/system/").nth(1).expect("units");
    let block = block.split("\n```").next().expect("their end");
    let units = block.split("\n# /etc/systemd/system/");
    units
        .map(|unit| {
            let (name, text) = unit.split_once('\n').expect("lines");
            (name.to_owned(), format!("{text}\n"))
        })
        .collect()
}

/// What systemd itself says of them.
fn verified(units: &[(String, String)]) -> Output {
    let dir = TempDir::new().expect("a directory");
    let mut command = Command::new("systemd-analyze");
    command.arg("verify");
    for (name, text) in units {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("written");
        command.arg(path);
    }
    command.output().expect("systemd-analyze")
}

/// Wrong keys are no errors to systemd, but it says so.
fn is_fine(output: &Output) -> bool {
    output.status.success() && output.stderr.is_empty()
}

#[test]
fn systemd_takes_the_timer() {
    require_program("systemd-analyze", "systemd");
    let program = bin_dir().join("flight-ship");
    let installed = format!("ExecStart={}", program.display());
    let mut units = units();
    let names: Vec<&str> = units.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["flight-ship-compact.service", "flight-ship-compact.timer"]);
    for (_, text) in &mut units {
        *text = text.replace("ExecStart=/usr/bin/flight-ship", &installed);
    }
    assert!(units[0].1.contains(&format!("{installed} compact ")), "{units:?}");
    let taken = verified(&units);
    assert!(is_fine(&taken), "{taken:?}");
    for (right, wrong) in [("OnCalendar=hourly", "OnCalendar=hurly"), ("[Timer]", "[Time]")] {
        let mut units = units.clone();
        units[1].1 = units[1].1.replace(right, wrong);
        assert!(!is_fine(&verified(&units)), "{wrong}");
    }
}
