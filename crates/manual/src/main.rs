//! Writes manual pages and shell completions: `flightrec-manual DIR`, by `cargo xtask man`; and
//! the references of the site: `flightrec-manual --markdown DIR`, by `cargo xtask site`.
//!
//! All come from the definitions that parse the command lines, and the pages
//! of configuration files from the comments of `config/*.toml`. A program of its own, so that
//! neither the programs nor xtask carry the generators.

mod command;
mod config;
mod markdown;
mod page;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser};
use clap_complete::Shell;

/// Writes manual pages into DIR/man, and shell completions into DIR/completions.
#[derive(Debug, Parser)]
struct Args {
    /// Write pages of Markdown into DIR instead.
    #[arg(long)]
    markdown: bool,
    /// Directory; made if it is not there.
    dir: PathBuf,
}

fn main() -> Result<()> {
    let Args { markdown, dir } = Args::parse();
    if markdown {
        for (name, page) in markdown::pages()? {
            write(&dir.join(name), page.as_bytes())?;
        }
        return Ok(());
    }
    for (name, page) in pages()? {
        write(&dir.join("man").join(name), &page)?;
    }
    let completions = dir.join("completions");
    fs::create_dir_all(&completions)
        .with_context(|| format!("can't make {}", completions.display()))?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        for mut command in programs() {
            let name = command.get_name().to_owned();
            clap_complete::generate_to(shell, &mut command, &name, &completions)
                .context("completions")?;
        }
    }
    Ok(())
}

/// The command lines of the programs.
fn programs() -> [clap::Command; 3] {
    [
        flightctl::cli::Cli::command(),
        flightd::args::Args::command(),
        flightrec_ship::args::Args::command(),
    ]
}

/// All pages, with their files' names.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let [flightctl, flightd, flight_ship] = programs();
    let mut pages = command::pages(flightctl, "1", "flightd(8)")?;
    pages.extend(command::pages(flightd, "8", "flightctl(1), flightd.toml(5)")?);
    let also = "flightd(8), flightctl(1), flight-ship.toml(5)";
    pages.extend(command::pages(flight_ship, "8", also)?);
    for file in &config::FILES {
        pages.push((format!("{}.5", file.name), config::page(file)?));
    }
    Ok(pages)
}

fn write(file: &Path, content: &[u8]) -> Result<()> {
    let dir = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir).with_context(|| format!("can't make {}", dir.display()))?;
    fs::write(file, content).with_context(|| format!("can't write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn text(name: &str) -> String {
        let pages = pages().unwrap();
        let page = pages
            .into_iter()
            .find(|(file, _)| file == name)
            .unwrap_or_else(|| panic!("no page {name}"));
        String::from_utf8(page.1).unwrap()
    }

    /// Roff's escapes of what is asked for.
    fn roff(text: &str) -> String {
        text.replace('-', r"\-")
    }

    #[test]
    fn every_command_and_option_has_its_place() {
        let mut all = flightctl::cli::Cli::command().disable_help_subcommand(true);
        all.build();
        let overview = text("flightctl.1");
        for command in all.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            assert!(
                overview.contains(&roff(&format!("flightctl-{name}(1)"))),
                "{name} is not in\n{overview}"
            );
            let page = text(&format!("flightctl-{name}.1"));
            for section in [
                "NAME",
                "SYNOPSIS",
                "DESCRIPTION",
                "OPTIONS",
                "EXAMPLES",
                "\"EXIT STATUS\"",
                "\"SEE ALSO\"",
            ] {
                assert!(page.contains(&format!(".SH {section}\n")), "no {section} in\n{page}");
            }
            let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
            for option in shown.filter_map(clap::Arg::get_long) {
                assert!(page.contains(&roff(&format!("--{option}"))), "no --{option} in\n{page}");
            }
        }
        let daemon = text("flightd.8");
        for words in ["--keep-recording", "SIGTERM", "FLIGHTD_LOG", ".SH FILES", "flightd.toml(5)"]
        {
            assert!(daemon.contains(&roff(words)), "no {words} in\n{daemon}");
        }
        let shipper = text("flight-ship.8");
        for words in ["--check", "--once", "FLIGHT_SHIP_LOG", ".SH FILES", "flight-ship.toml(5)"] {
            assert!(shipper.contains(&roff(words)), "no {words} in\n{shipper}");
        }
        assert!(text("flight-ship-status.8").contains(&roff("--json")));
    }

    /// What the two formatters that there are have against a page, if one is installed. Where none
    /// is, the pages are still held to their content above.
    fn complaints(page: &Path) -> Option<String> {
        let linters: [(&str, &[&str]); 2] = [
            ("mandoc", &["-T", "lint", "-W", "warning"]),
            ("groff", &["-man", "-ww", "-z", "-Tutf8"]),
        ];
        let (program, args) = linters.into_iter().find(|(program, _)| {
            Command::new(program).arg("-v").stdin(Stdio::null()).output().is_ok()
        })?;
        let output = Command::new(program).args(args).arg(page).output().expect(program);
        Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }

    #[test]
    fn formatters_have_nothing_against_the_pages() {
        let dir = tempfile::tempdir().unwrap();
        for (name, page) in pages().unwrap() {
            let file = dir.path().join(&name);
            write(&file, &page).unwrap();
            match complaints(&file) {
                Some(complaints) => assert_eq!(complaints, "", "{name}"),
                None => eprintln!("neither mandoc nor groff is installed: {name} is not linted"),
            }
        }
    }

    #[test]
    fn completions_know_commands_and_options() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut out = Vec::new();
            clap_complete::generate(
                shell,
                &mut flightctl::cli::Cli::command(),
                "flightctl",
                &mut out,
            );
            let script = String::from_utf8(out).unwrap();
            for word in ["dump", "metrics", "runtime-dir", "strict"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
}
