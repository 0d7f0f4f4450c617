//! The table of kernels: what each run showed, in a row.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// What a run found.
#[derive(Debug)]
pub(in crate::vm) struct Found {
    /// For people.
    pub(in crate::vm) lines: Vec<String>,
    pub(in crate::vm) row: Row,
}

/// A kernel's row; what was not tried is empty.
#[derive(Debug, Default)]
pub(in crate::vm) struct Row {
    pub(super) kernel: String,
    pub(super) machine: String,
    /// The form of the programs of system calls, or that the kernel is refused.
    pub(super) calls: String,
    /// What is not recorded there.
    pub(super) lacking: Vec<String>,
    /// What was found in its dumps.
    pub(super) panics: String,
    /// What became of the calls of threads that were preempted.
    pub(super) stress: String,
    /// How many contexts of wakeups are as the kernel's own tracer has them.
    pub(super) contexts: String,
}

impl Row {
    /// Of a kernel by its release, on a machine.
    pub(super) fn named(release: &str, machine: &str) -> Self {
        Self { kernel: release.to_owned(), machine: machine.to_owned(), ..Self::default() }
    }

    /// By what the machine left in `out`: its release, and what the recorder says of itself.
    pub(super) fn of(out: &Path, machine: &str) -> Result<Self> {
        let said = super::said(out)?;
        let release = said.iter().find_map(|line| line.split_once(" Linux "));
        let release = release.context("the machine does not name its kernel")?.1;
        let status = fs::read_to_string(out.join("out/status.json")).context("no status")?;
        let status: Value = serde_json::from_str(&status)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let lacking = status["lacking"].as_array().into_iter().flatten();
        Ok(Self {
            calls: text(&status["syscall_programs"]),
            lacking: lacking.map(|row| text(&row["what"])).collect(),
            ..Self::named(release, machine)
        })
    }

    /// Of a dump in several forms, and whether the hook recovered the recording before.
    pub(super) fn panics(events: usize, forms: &[&str], hook: bool) -> String {
        let hook = if hook { " and by the kdump hook" } else { "" };
        let plural = if forms.len() == 1 { "form" } else { "forms" };
        format!("{events} events, the same in {} {plural} of dump{hook}", forms.len())
    }

    /// The rows as a table in Markdown.
    pub(in crate::vm) fn table(rows: &[Self]) -> Vec<String> {
        let mut lines = vec![
            "| Linux | machine | programs of system calls | not recorded there | after a panic | \
             numbered calls of preempted threads | contexts of wakeups as ftrace has them |"
                .to_owned(),
            "| --- |".to_owned() + &" --- |".repeat(6),
        ];
        for row in rows {
            let Self { kernel, machine, calls, lacking, panics, stress, contexts } = row;
            let lacking = lacking.join("; ");
            lines.push(format!(
                "| {kernel} | {machine} | {calls} | {lacking} | {panics} | {stress} | {contexts} |"
            ));
        }
        lines
    }
}
