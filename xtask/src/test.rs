//! `cargo xtask test`: builds all tests at once, and gives them to the runner of
//! `tests/src/bin/test-runner`.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::command::{cargo, repository, run as run_command, shown};
use crate::setup::{self, Scope};

/// The runner's package and name.
const RUNNER: &str = "test-runner";

/// Builds and runs them; `arguments` are the runner's.
pub(crate) fn run(arguments: &[OsString]) -> Result<()> {
    let only_helps = arguments.iter().any(|argument| argument == "--help" || argument == "-h");
    if !only_helps {
        let needs_root = !arguments.iter().any(|argument| argument == "--without-kernel");
        setup::run(if needs_root { Scope::Test } else { Scope::Build })?;
    }
    println!("building the programs and their tests: some minutes, once");
    let built = build()?;
    let runner = built.iter().find(|artifact| artifact.name == RUNNER && !artifact.is_test);
    let runner = runner.context("cargo built no runner")?.executable.clone();
    let tests: Vec<Value> = built
        .iter()
        .filter(|artifact| artifact.is_test)
        .map(|artifact| {
            json!({
                "package": artifact.package,
                "name": artifact.name,
                "directory": artifact.directory,
                "executable": artifact.executable,
            })
        })
        .collect();
    ensure!(!tests.is_empty(), "cargo built no tests");
    let list = repository().join("target/tests.json");
    fs::write(&list, serde_json::to_vec_pretty(&tests)?)
        .with_context(|| list.display().to_string())?;
    run_command(Command::new(runner).arg("--tests").arg(list).args(arguments))
}

/// What cargo built.
struct Artifact {
    package: String,
    name: String,
    directory: PathBuf,
    executable: PathBuf,
    is_test: bool,
}

impl Artifact {
    /// Of a line of cargo's, if it tells of a program.
    fn parse(line: &str) -> Option<Self> {
        let line: Value = serde_json::from_str(line).ok()?;
        let text = |pointer: &str| line.pointer(pointer)?.as_str().map(str::to_owned);
        let directory = PathBuf::from(text("/manifest_path")?).parent()?.to_path_buf();
        Some(Self {
            package: package(&text("/package_id")?)?.to_owned(),
            name: text("/target/name")?,
            directory,
            executable: text("/executable")?.into(),
            is_test: line.pointer("/profile/test")?.as_bool()?,
        })
    }
}

/// A package's name, out of cargo's id of it: `path+file:///a/flightctl#0.1.0` or, where the
/// directory has another name, `path+file:///a/reader#flightrec-reader@0.1.0`.
fn package(id: &str) -> Option<&str> {
    let (path, name) = id.rsplit_once('#')?;
    Some(name.split_once('@').map_or_else(|| path.rsplit('/').next().unwrap_or(path), |of| of.0))
}

/// Builds all programs, examples and tests of the workspace, with one set of features.
fn build() -> Result<Vec<Artifact>> {
    let mut command = cargo();
    command.args(["build", "--workspace", "--locked", "--bins", "--tests", "--examples"]);
    command.args(["--message-format", "json-render-diagnostics"]);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("can't run {}", shown(&command)))?;
    ensure!(output.status.success(), "{} failed ({})", shown(&command), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(Artifact::parse).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_the_name_that_its_manifest_says() {
        assert_eq!(package("path+file:///a/flightctl#0.1.0"), Some("flightctl"));
        assert_eq!(
            package("path+file:///a/reader#flightrec-reader@0.1.0"),
            Some("flightrec-reader")
        );
        assert_eq!(package("flightctl"), None);
    }
}
