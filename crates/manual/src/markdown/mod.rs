//! Pages of Markdown for the site: `cargo xtask site` puts them into its directory `reference`.

mod command;
mod config;
mod metrics;
mod schema;

use anyhow::Result;

/// All pages, with their files' names.
pub(crate) fn pages() -> Result<Vec<(String, String)>> {
    let mut pages = Vec::new();
    for program in crate::programs() {
        pages.extend(command::pages(program));
    }
    pages.extend(crate::config::FILES.iter().map(config::page));
    pages.push(metrics::page());
    for schema in schema::ALL {
        pages.push(schema::page(schema)?);
    }
    Ok(pages)
}

/// Text as Markdown that shows it: what stands between backquotes is code already.
fn text(plain: &str) -> String {
    let mut out = String::new();
    for (i, part) in plain.split('`').enumerate() {
        if i % 2 == 1 {
            out.push('`');
            out.push_str(part);
            out.push('`');
            continue;
        }
        for c in part.chars() {
            if matches!(c, '\\' | '*' | '_' | '<' | '>' | '[' | ']' | '#' | '|' | '~' | '&') {
                out.push('\\');
            }
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str) -> String {
        let pages = pages().unwrap();
        pages.into_iter().find(|(file, _)| file == name).unwrap_or_else(|| panic!("no {name}")).1
    }

    #[test]
    fn text_shows_what_it_says() {
        assert_eq!(text("a_b <FILE> `c_d` [x]"), "a\\_b \\<FILE\\> `c_d` \\[x\\]");
    }

    #[test]
    fn every_option_of_every_command_has_its_place() {
        for program in crate::programs() {
            let mut program = program.disable_help_subcommand(true);
            program.build();
            let overview = page(&format!("{}.md", program.get_name()));
            for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
                let name = format!("{}-{}.md", program.get_name(), command.get_name());
                assert!(overview.contains(&format!("]({name})")), "{name} is not in\n{overview}");
                let page = page(&name);
                let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
                for option in shown.filter_map(clap::Arg::get_long) {
                    assert!(page.contains(&format!("--{option}")), "no --{option} in {name}");
                }
            }
        }
    }

    #[test]
    fn keys_metrics_and_fields_are_there() {
        for file in &crate::config::FILES {
            let page = page(&format!("{}.md", file.name));
            for line in file.text.lines().filter(|line| !line.starts_with('#')) {
                assert!(line.is_empty() || page.contains(line), "no {line} in\n{page}");
            }
        }
        let metrics = page("metrics.md");
        for name in ["flightrec_daemon_up", "flightrec_lost_events_total", "flightrec_lacking"] {
            assert!(metrics.contains(&format!("`{name}`")), "no {name} in\n{metrics}");
        }
        let why = page("flightctl-why.schema.md");
        for field in ["`sentence`", "`window.from_ns`", "`chain[]", "*Optional*"] {
            assert!(why.contains(field), "no {field} in\n{why}");
        }
    }
}
