//! Pages of a program and its commands, of the definitions that parse their command lines.

use std::fmt::Write as _;

use clap::{Arg, Command};

use super::text;

/// The program's page, and one for each of its commands; commands of commands are on theirs.
pub(super) fn pages(program: Command) -> Vec<(String, String)> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let name = program.get_name().to_owned();
    let shown = || program.get_subcommands().filter(|command| !command.is_hide_set());
    let mut overview = String::new();
    section(&mut overview, program.clone(), 1);
    if shown().next().is_some() {
        overview.push_str("\n## Commands\n\n");
    }
    let mut pages = Vec::new();
    for command in shown() {
        let file = format!("{name}-{}.md", command.get_name());
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        // Writing to a string can't fail.
        let _ = writeln!(overview, "- [{}]({file}): {}", command.get_name(), text(&about));
        let mut page = String::new();
        section(&mut page, command.clone(), 1);
        for nested in command.get_subcommands().filter(|nested| nested.get_name() != "help") {
            page.push('\n');
            section(&mut page, nested.clone(), 2);
        }
        pages.push((file, page));
    }
    pages.insert(0, (format!("{name}.md"), overview));
    pages
}

/// A command under a heading of that level.
fn section(out: &mut String, mut command: Command, level: usize) {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).replace('-', " ");
    // Of the program flight-ship the hyphen is a part.
    let name = name.replacen("flight ship", "flight-ship", 1);
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string);
    let heading = "#".repeat(level);
    // Writing to a string can't fail.
    let _ = writeln!(out, "{heading} {name}\n\n{}\n", text(&about.unwrap_or_default()));
    let _ = writeln!(out, "```text\n{usage}\n```");
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let mut options = String::new();
    for argument in shown {
        option(&mut options, argument);
    }
    if !options.is_empty() {
        let _ = write!(out, "\n{heading}# Options of `{name}`\n\n{options}");
    }
    let after = command.get_after_long_help().or(command.get_after_help());
    let after = after.map(ToString::to_string).unwrap_or_default();
    if !after.is_empty() {
        let _ = writeln!(out, "\n```text\n{}\n```", after.trim_end());
    }
}

/// An option, an item of a list.
fn option(out: &mut String, argument: &Arg) {
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string);
    // As clap writes it: `-o, --output <FILE>`.
    let names = [
        argument.get_short().map(|short| format!("-{short}")),
        argument.get_long().map(|long| format!("--{long}")),
    ];
    let mut spelled = names.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if argument.get_action().takes_values() || argument.is_positional() {
        let values = argument.get_value_names().unwrap_or_default();
        for value in values {
            if !spelled.is_empty() {
                spelled.push(' ');
            }
            let _ = write!(spelled, "<{value}>");
        }
    }
    let _ = writeln!(out, "- `{spelled}`");
    for paragraph in help.unwrap_or_default().split("\n\n") {
        let _ = writeln!(out, "\n  {}", text(paragraph).replace('\n', "\n  "));
    }
    if argument.get_action().takes_values() {
        let values = argument.get_possible_values();
        let values = values.iter().filter(|value| !value.is_hide_set());
        let values: Vec<_> = values.map(|value| format!("`{}`", value.get_name())).collect();
        if !values.is_empty() {
            let _ = writeln!(out, "\n  Values: {}", values.join(", "));
        }
        let default: Vec<_> =
            argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        if !default.is_empty() {
            let _ = writeln!(out, "\n  Default: `{}`", default.join(" "));
        }
    }
    if let Some(variable) = argument.get_env() {
        let _ = writeln!(out, "\n  Environment: `{}`", variable.to_string_lossy());
    }
    out.push('\n');
}
