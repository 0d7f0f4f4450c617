//! Running other programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// What compiles and links C for aarch64, and makes programs for it smaller.
pub(crate) const CROSS_GCC: &str = "aarch64-linux-gnu-gcc";
pub(crate) const CROSS_STRIP: &str = "aarch64-linux-gnu-strip";

/// Names another checkout of the same commit, for which this program then works in the place of its
/// own.
pub(crate) const REPOSITORY: &str = "FLIGHTREC_REPOSITORY";

/// The repository.
pub(crate) fn repository() -> PathBuf {
    if let Some(other) = std::env::var_os(REPOSITORY) {
        return other.into();
    }
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

/// Where the tools are that `cargo install` builds for this repository.
pub(crate) fn tools() -> PathBuf {
    repository().join("target/tools")
}

/// `cargo`, in the repository: the one that runs this program.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(repository());
    command
}

/// Runs a command, its output going where ours goes.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("can't run {}", shown(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", shown(command));
    }
    Ok(())
}

/// Runs a command and returns what it printed; its errors go where ours go.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("can't run {}", shown(command)))?;
    if !output.status.success() {
        bail!("{} failed ({})", shown(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What a command prints, if it can be run and succeeds: for asking what there is.
pub(crate) fn probe(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Has a linter look at a package: fails if it finds an error; where it is not installed, that is
/// said. `what`: for whom it looks.
pub(crate) fn lint(what: &str, linter: &mut Command) -> Result<()> {
    if probe(Command::new(linter.get_program()).arg("--version")).is_none() {
        let name = linter.get_program().display();
        println!("{what}: left out: the package was not looked at by {name}, which is not there");
        return Ok(());
    }
    run(linter)
}

/// The command as it would be typed.
pub(crate) fn shown(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args());
    let mut line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    line.insert(0, '`');
    line.push('`');
    line
}
