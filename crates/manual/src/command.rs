//! Pages of a program and its commands.

use std::io;

use clap_mangen::Man;
use roff::Roff;

use crate::page::{MANUAL, NO_DATE, SOURCE, section, see_also};

/// The program's page, and one for each of its commands, and of theirs.
pub(crate) fn pages(
    command: clap::Command,
    number: &str,
    also: &str,
) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let name = command.get_name().to_owned();
    let mut pages = Vec::new();
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let also = format!("{name}({number}), {also}");
        pages.push(page(sub.clone(), number, &also)?);
        for nested in sub.get_subcommands().filter(|nested| nested.get_name() != "help") {
            pages.push(page(nested.clone(), number, &also)?);
        }
    }
    pages.insert(0, page(command, number, also)?);
    Ok(pages)
}

fn page(mut command: clap::Command, number: &str, also: &str) -> io::Result<(String, Vec<u8>)> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let has_commands = command.has_subcommands();
    // Without it, clap_mangen lists every option here again.
    let usage = command.render_usage().to_string();
    let command = command.override_usage(usage.trim_start_matches("Usage: ").to_owned());
    let man = Man::new(command)
        .section(number)
        .date(NO_DATE)
        .source(SOURCE)
        .manual(MANUAL)
        .title(name.to_uppercase());
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    if has_commands {
        man.render_subcommands_section(&mut out)?;
    }
    let mut rest = Roff::new();
    // clap_mangen would make one section EXTRA of it.
    for paragraph in after.split("\n\n") {
        let mut lines = paragraph.lines();
        if let Some(heading) = lines.next().and_then(|line| line.strip_suffix(':')) {
            section(&mut rest, &heading.to_uppercase(), &lines.collect::<Vec<_>>());
        }
    }
    see_also(&mut rest, also);
    rest.to_writer(&mut out)?;
    Ok((format!("{name}.{number}"), out))
}
