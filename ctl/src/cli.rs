//! The command line, from which help, manual pages and completions are made. [`run`] is the program.

use std::process::ExitCode;

use clap::Parser;
use flightrec_cli::{arguments, note, told};
use flightrec_reader::{memory, observe};
use jiff::Timestamp;

use crate::commands::Command;
use crate::exit::Exit;
use crate::help::Help;
use crate::options::recorder::RecorderArgs;
use crate::output::is_broken_pipe;
use crate::progress::Terminal;
use crate::ssh::{SshArgs, SshError, typed};
use crate::{descriptors, explain, forward, zone};

/// The program as a whole.
const HELP: Help = Help {
    about: env!("CARGO_PKG_DESCRIPTION"),
    examples: &[
        ("flightctl status", "is it recording, since when, what was lost"),
        ("flightctl dump --last 5s", "what the machine did in the last 5 seconds"),
        ("flightctl dump --help", "windows, filters, more examples"),
    ],
    exits: &[Exit::Fine, Exit::Nothing, Exit::Error, Exit::Incomplete],
};

/// What was typed.
#[derive(Debug, Parser)]
#[command(name = "flightctl", version, propagate_version = true)]
#[command(about = HELP.about, long_about = None, after_help = HELP.after())]
pub struct Cli {
    /// Where the recorder is.
    #[command(flatten)]
    pub recorder: RecorderArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The program: does what the process's command line says.
pub fn run() -> ExitCode {
    descriptors::raise_limit();
    observe::listen(&Terminal);
    let Cli { recorder, command } = match arguments("flightctl") {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    if let Some(bytes) = recorder.memory {
        memory::allow(bytes);
    } else if let Some(wrong) = memory::wrong() {
        note(&format!("flightctl: {wrong}"));
        return Exit::Error.into();
    }
    if let Some(host) = &recorder.ssh.ssh {
        return match remote(&recorder.ssh, host, &command) {
            Ok(code) => code.into(),
            Err(error) => {
                note(&format!("flightctl: {error}"));
                Exit::Error.into()
            }
        };
    }
    let explain = recorder.explain.then(explain::begin);
    let now = Timestamp::now().to_zoned(zone::system());
    let remarks = command.remarks(&now);
    let result = command.plan(recorder, &now).and_then(|plan| {
        for line in &remarks {
            note(line);
        }
        plan.run()
    });
    if let Some(explain) = explain {
        note(&explain.line());
    }
    match result {
        Ok(exit) => exit,
        Err(error) if is_broken_pipe(&error) => Exit::Fine,
        Err(error) => {
            note(&format!("flightctl: {}", told(&error)));
            Exit::Error
        }
    }
    .into()
}

/// Runs the command on another host; its exit status.
fn remote(ssh: &SshArgs, host: &str, command: &Command) -> Result<u8, SshError> {
    if let Some(path) = command.file() {
        return Err(SshError::File { path: path.into(), host: host.to_owned() });
    }
    forward::run(ssh, host, &typed::without_ours(std::env::args_os().skip(1))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use jiff::Zoned;

    /// The words of a line up to the first pipe, or the file that its output goes to: in single
    /// quotes a word, else by blanks.
    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (i, part) in line.split('\'').enumerate() {
            if i % 2 == 1 {
                words.push(part.to_owned());
            } else {
                words.extend(part.split_whitespace().map(str::to_owned));
            }
        }
        let end = words.iter().position(|word| word == "|" || word == ">").unwrap_or(words.len());
        words.truncate(end);
        words
    }

    /// The program and each of its commands: the name, and what stands after its options.
    fn helps() -> Vec<(String, String)> {
        let all = Cli::command();
        std::iter::once(&all)
            .chain(all.get_subcommands())
            .map(|one| (one.get_name().to_owned(), one.get_after_help().unwrap().to_string()))
            .collect()
    }

    /// The command lines among them.
    fn examples(help: &str) -> impl Iterator<Item = &str> {
        let (examples, _) = help.split_once("\nExit status:\n").expect("an exit status");
        let lines = examples.lines().filter_map(|line| line.strip_prefix("  "));
        lines.filter(|line| !line.starts_with(' '))
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples_of_its_own() {
        let helps = helps();
        assert!(helps.len() > 10);
        for (name, help) in helps {
            assert!(help.starts_with("Examples:\n  flightctl "), "no examples of {name}");
            assert!(help.contains("\nExit status:\n  0  "), "no exit status of {name}");
            assert!(examples(&help).any(|line| words(line).contains(&name)), "{name}: {help}");
        }
    }

    #[test]
    fn every_example_is_right() {
        for (_, help) in helps() {
            for line in examples(&help) {
                // As the program does: syntax, then sense.
                match Cli::try_parse_from(words(line)) {
                    Ok(cli) => {
                        let plan = cli.command.plan(cli.recorder, &Zoned::now());
                        assert!(plan.is_ok(), "{line}: {:?}", plan.err());
                    }
                    Err(e) => assert!(!e.use_stderr(), "{line}: {e}"),
                }
            }
        }
    }

    #[test]
    fn help_fits_a_terminal() {
        for (_, help) in helps() {
            for line in help.lines() {
                assert!(line.chars().count() <= 80, "{line:?}");
            }
        }
    }
}
