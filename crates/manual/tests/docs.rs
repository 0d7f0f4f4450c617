//! The commands of the documentation, held against the programs' own definitions.
//!
//! Every command of README.md and docs/ that calls `flightctl`, `flightd` or `flight-ship`, in a
//! block of shell or in the text, is *parsed* by the definition that parses the program's command
//! line; one of `flightctl` is *planned* as well, which makes sense of times, sizes, filters and
//! which options go together. A wrong command, option or value fails. `tests/kernel` *runs* them
//! (`documentation.rs`).

use std::fmt::Write;
use std::fs;

use clap::Parser;
use clap::error::ErrorKind;
use flightctl::cli::Cli;
use flightrec_tests::documentation::{Line, commands, lines, ours, pages};
use jiff::Zoned;

/// What stands for a value in the documentation, and a value.
const PLACEHOLDERS: [(&str, &str); 8] = [
    ("TIME", "10s"),
    ("N", "1"),
    ("PID", "1"),
    ("ID", "4bf92f3577b34da6a3ce929d0e0e4736"),
    ("SPEC", "/bin/true:main"),
    ("NAME", "calls"),
    ("FORMAT", "perfetto"),
    ("WINDOW", "-20m..-10m"),
];

/// What the program has against the command. `named`: it may lack what it needs.
fn complaint(words: &[String], named: bool) -> Option<String> {
    let with_value = |word: &String| {
        let found = PLACEHOLDERS.iter().find(|(name, _)| name == word);
        found.map_or_else(|| word.clone(), |(_, value)| (*value).to_owned())
    };
    let words: Vec<String> = words.iter().map(with_value).collect();
    let parsed = match &*words[0] {
        "flightctl" => Cli::try_parse_from(&words).map(|cli| {
            cli.command.plan(cli.recorder, &Zoned::now()).err().map(|error| format!("{error:#}"))
        }),
        "flightd" => flightd::args::Args::try_parse_from(&words).map(|_| None),
        _ => flightrec_ship::args::Args::try_parse_from(&words).map(|_| None),
    };
    match parsed {
        Ok(None) => None,
        // Only what is missing can be at fault where it is only named.
        Ok(Some(_)) if named => None,
        Ok(complaint) => complaint,
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => None,
            ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                if named =>
            {
                None
            }
            _ if named && error.to_string().contains("a value is required") => None,
            _ => Some(error.to_string()),
        },
    }
}

/// What is wrong with a page's commands, and how many there are.
fn complaints(page: &str) -> (usize, Vec<String>) {
    let (mut number, mut wrong) = (0, Vec::new());
    for Line { text: line, named } in lines(page) {
        // What is left out stands for anything.
        if line.contains('…') || line.contains("...") {
            continue;
        }
        for words in commands(&line) {
            let Some(words) = ours(&words) else { continue };
            number += 1;
            if let Some(complaint) = complaint(words, named) {
                wrong.push(format!("{line}\n    {}", complaint.trim_end().replace('\n', "\n    ")));
            }
        }
    }
    (number, wrong)
}

#[test]
fn every_command_of_the_documentation_is_right() {
    let (mut all, mut wrong) = (0, String::new());
    for page in pages() {
        let (number, complaints) = complaints(&fs::read_to_string(&page).expect("a page"));
        all += number;
        for complaint in complaints {
            writeln!(wrong, "{}: {complaint}", page.display()).unwrap();
        }
    }
    println!("{all} commands");
    assert!(wrong.is_empty(), "{wrong}");
    assert!(all > 250, "only {all} commands are found");
}

#[test]
fn a_wrong_command_is_found() {
    let page = "Text with `flightctl dmup` and `flightctl probe`, `flightctl top --lsat 1s`.\n\n\
                ```\n$ flightctl dump --last 5s --tidd 7\nflightctl is output\n```\n\n\
                ```\nTZ=UTC flightctl dump --last soon | grep x > y  # flightctl no\n\
                kubectl exec $POD -- flightctl save --last \\\n    3s --nosuch -o - >x.flight\n\
                flightd --check --nosuch && flight-ship statsu\njournalctl -u flightd\n```\n\n\
                ```sql\nflightctl nosuch\n```\n";
    let (number, wrong) = complaints(page);
    assert_eq!(number, 8, "{wrong:#?}");
    let expected = ["dmup", "--lsat", "--tidd", "soon", "--nosuch", "--nosuch", "statsu"];
    assert_eq!(wrong.len(), expected.len(), "{wrong:#?}");
    for (complaint, word) in wrong.iter().zip(expected) {
        assert!(complaint.contains(word), "{complaint}");
    }
}
