//! `cargo xtask site`: the documentation as a site, by mdBook, of the Markdown that is in the
//! repository and of references that are made from the programs' own definitions.

mod contents;
mod links;
mod markdown;
mod pages;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::command::{cargo, repository, run as run_command};
use crate::setup::{self, Scope};
use crate::tool;

/// What is installed; it takes minutes to compile, so only this command asks for it.
const MDBOOK: &str = "0.5.4";

/// Without its server, which would triple the time that it takes to compile.
const FEATURES: [&str; 3] = ["--no-default-features", "--features", "search"];

/// Builds the site into a directory, and checks its links.
pub(crate) fn run(output: &Path) -> Result<()> {
    // The references are made by a program that has the daemon's command line.
    setup::run(Scope::Build)?;
    let output = std::path::absolute(output).context("the directory for the site")?;
    let is_ours = !output.exists()
        || output.join("toc.html").exists()
        || fs::read_dir(&output).is_ok_and(|mut entries| entries.next().is_none());
    ensure!(is_ours, "{} is there, and is no site: mdBook would empty it", output.display());
    let mdbook = tool::install("mdbook", MDBOOK, &FEATURES)?;
    let book = source()?;
    let mut command = Command::new(mdbook);
    command.arg("build").arg(&book).arg("--dest-dir").arg(&output);
    let said = command.stdin(Stdio::null()).output().context("can't run mdbook")?;
    let log = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
    ensure!(said.status.success() && is_calm(&log), "mdbook is not content:\n{log}");
    let links = links::check(&output)?;
    println!("made: {} ({links} links are right)", output.join("index.html").display());
    Ok(())
}

/// Whether mdBook's log has neither a warning nor an error.
fn is_calm(log: &str) -> bool {
    !log.split_whitespace().any(|word| matches!(word, "WARN" | "ERROR"))
}

/// Makes the book that mdBook reads, in target/site.
fn source() -> Result<PathBuf> {
    let book = repository().join("target/site");
    let src = book.join("src");
    if src.exists() {
        fs::remove_dir_all(&src).context("target/site/src")?;
    }
    run_command(
        cargo()
            .args(["run", "--quiet", "--locked", "-p", "flightrec-manual", "--", "--markdown"])
            .arg(src.join("reference")),
    )?;
    let made: BTreeSet<String> = fs::read_dir(src.join("reference"))
        .context("target/site/src/reference")?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    pages::copy(&src)?;
    pages::write(&src.join("SUMMARY.md"), &contents::summary(&src, &made)?)?;
    pages::write(&book.join("book.toml"), &configuration())?;
    Ok(book)
}

/// mdBook's configuration. The page for printing, which repeats all others, is left out.
fn configuration() -> String {
    format!(
        "[book]\ntitle = \"flightrec\"\nlanguage = \"en\"\nsrc = \"src\"\n\
         description = \"A flight recorder for the Linux kernel\"\n\n\
         [build]\ncreate-missing = false\n\n\
         [output.html]\ngit-repository-url = \"{}\"\nno-section-label = true\n\n\
         [output.html.print]\nenable = false\n\n\
         [output.html.fold]\nenable = true\nlevel = 0\n",
        env!("CARGO_PKG_REPOSITORY")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_an_error() {
        assert!(is_calm(" INFO Book building has started\n INFO Running the html backend\n"));
        assert!(!is_calm(" INFO Book building has started\n WARN unclosed HTML tag `<a>`\n"));
        assert!(!is_calm("ERROR Rendering failed\n"));
    }
}
