//! What a program did through rings of io_uring (tests/programs/rings.c).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// What it does in each of its ways, in order, with the path that it gives and what comes of it:
/// below 0 an error.
const DEEDS: [(&str, Option<&str>, Option<i64>); 8] = [
    ("openat", Some("/tmp/by-ring"), None),
    ("write", None, Some(5)),
    ("fsync", None, Some(0)),
    ("statx", Some("/tmp/by-ring"), Some(0)),
    ("openat", Some("no/such/file"), Some(-2)),
    ("renameat", Some("/tmp/by-ring"), Some(0)),
    ("close", None, Some(0)),
    ("unlinkat", Some("/tmp/renamed-by-ring"), Some(0)),
];

/// All of it is there, with paths, results and what is joined to them.
pub(super) fn are_seen(files: &Path) -> Result<String> {
    let dump = fs::read_to_string(files.join("rings.jsonl")).context("no dump of rings")?;
    let events = super::events(&dump)?;
    let of = |kind: &str| -> Vec<&Value> {
        events.iter().filter(|event| event["event"] == kind).collect()
    };
    let (submitted, done) = (of("io_submit"), of("io_complete"));
    let expected = 3 * DEEDS.len();
    // Where one was refused, as another program was writing, nothing near it is joined either.
    let coverage: Value = serde_json::from_str(dump.lines().next().unwrap_or_default())?;
    let refused = coverage["refused"]["busy"]["kernel"].as_u64().unwrap_or(0);
    if refused > 0 {
        let recorded = submitted.len() + done.len();
        ensure!(
            recorded as u64 + refused >= 2 * expected as u64,
            "{recorded} events of rings and {refused} refused, of {}",
            2 * expected
        );
        let paths = submitted.iter().filter(|event| event["path"] == "/tmp/by-ring").count();
        ensure!(paths as u64 + refused >= 9, "{paths} operations have the file's path");
        return Ok(format!(
            "rings: {recorded} of {} events, {paths} with the file's path, {refused} refused",
            2 * expected
        ));
    }
    ensure!(
        (submitted.len(), done.len()) == (expected, expected),
        "{} operations were handed over and {} done, of {expected}",
        submitted.len(),
        done.len()
    );
    let deeds = DEEDS.iter().cycle();
    for ((submit, done), (op, path, result)) in submitted.iter().zip(&done).zip(deeds) {
        let has_path = path.is_none_or(|path| submit["path"] == path);
        let has_result = result.is_none_or(|result| done["result"] == result);
        let is_joined = submit["operation"] == done["operation"]
            && done["submitted_by"] == submit["tid"]
            && done["duration_ns"].is_u64();
        ensure!(
            submit["op"] == *op && done["op"] == *op && has_path && has_result && is_joined,
            "{op}: {submit} {done}"
        );
    }
    let polled = submitted.iter().filter(|event| event["submitter"] == "sq_thread").count();
    ensure!(polled == DEEDS.len(), "{polled} were handed over by a polling thread");
    let named = done.iter().filter(|event| event["file"] == "/tmp/by-ring").count();
    // Opened, written, synced, closed; in two ways a descriptor.
    ensure!(named == 8, "{named} results have the file's name");
    Ok(format!("rings: {expected} operations with their paths and results, {polled} polled"))
}
