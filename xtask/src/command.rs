//! Running other programs.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

/// Compiles and links C for aarch64.
pub const CROSS_GCC: &str = "aarch64-linux-gnu-gcc";
/// Makes them smaller.
pub const CROSS_STRIP: &str = "aarch64-linux-gnu-strip";

/// Names another checkout of the same commit, for which this program then works in the place of its
/// own.
pub const REPOSITORY: &str = "FLIGHTREC_REPOSITORY";

/// The repository.
pub fn repository() -> PathBuf {
    if let Some(other) = std::env::var_os(REPOSITORY) {
        return other.into();
    }
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

/// Where the tools are that `cargo install` builds for this repository.
pub fn tools() -> PathBuf {
    repository().join("target/tools")
}

/// `cargo`, in the repository: the one that runs this program.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(repository());
    command
}

/// Runs a command, its output going where ours goes.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("can't run {}", shown(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", shown(command));
    }
    Ok(())
}

/// Runs a command and returns what it printed; its errors go where ours go.
pub fn read(command: &mut Command) -> Result<String> {
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
pub fn probe(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Has a linter look at a package: fails if it finds an error; where it is not installed, that is
/// said. `what`: for whom it looks.
pub fn lint(what: &str, linter: &mut Command) -> Result<()> {
    if probe(Command::new(linter.get_program()).arg("--version")).is_none() {
        let name = linter.get_program().display();
        println!("{what}: left out: the package was not looked at by {name}, which is not there");
        return Ok(());
    }
    run(linter)
}

/// Says what went wrong, if anything did; the program's exit code.
pub fn end(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // Not by `Result` from main, which prints a backtrace where RUST_BACKTRACE is set:
            // these are messages for people.
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// The command as it would be typed.
pub fn shown(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args());
    let mut line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    line.insert(0, '`');
    line.push('`');
    line
}
