//! The commands of the documentation, held against the programs' own definitions.
//!
//! Every command of README.md and docs/ that calls `flightctl`, `flightd` or `flight-ship`, in a
//! block of shell or in the text, is *parsed* by the definition that parses the program's command
//! line; one of `flightctl` is *planned* as well, which makes sense of times, sizes, filters and
//! which options go together. A wrong command, option or value fails. None is *run* here: the tests
//! of docs/fault-injection.md, docs/sql.md and docs/fleet.md in `tests/kernel` run what those pages
//! have.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use clap::error::ErrorKind;
use flightctl::cli::Cli;
use jiff::Zoned;
use pulldown_cmark::{CodeBlockKind, Event, Tag, TagEnd};

/// The programs of this project.
const PROGRAMS: [&str; 3] = ["flightctl", "flightd", "flight-ship"];
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

/// README.md and all pages of docs/.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    let (mut found, mut folders) = (vec![root.join("README.md")], vec![root.join("docs")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The command lines of a page, and whether each is only named in the text, where it may lack what
/// it needs.
fn lines(page: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut block: Option<String> = None;
    for event in pulldown_cmark::Parser::new_ext(page, pulldown_cmark::Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match &kind {
                    CodeBlockKind::Fenced(language) => language,
                    CodeBlockKind::Indented => "",
                };
                block = matches!(language, "" | "sh" | "console").then(String::new);
            }
            Event::Text(text) => {
                if let Some(block) = &mut block {
                    block.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                let Some(block) = block.take() else { continue };
                let block = block.replace("\\\n", " ");
                // Where there are prompts, all else is output.
                let has_prompts = block.lines().any(|line| line.starts_with("$ "));
                let typed = block.lines().filter_map(|line| match line.strip_prefix("$ ") {
                    None if has_prompts => None,
                    None => Some(line),
                    typed => typed,
                });
                found.extend(typed.map(|line| (line.to_owned(), false)));
            }
            Event::Code(code) => found.push((code.replace('\n', " "), true)),
            _ => {}
        }
    }
    found
}

/// The commands of a line, each its words: quotes are taken off, what is behind `#` or a
/// redirection is left out, and a command in `$(…)` is one of its own.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    let (mut word, mut is_word, mut quote) = (String::new(), false, None);
    let mut chars = line.chars().peekable();
    let end = |all: &mut Vec<Vec<String>>, word: &mut String, is_word: &mut bool| {
        let word = std::mem::take(word);
        if std::mem::take(is_word) {
            all.last_mut().expect("a command").push(word);
        }
    };
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(mark), c) if mark == c => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => (quote, is_word) = (Some(c), true),
            (None, '#') if !is_word => break,
            (None, '>' | '<') => {
                // `2>file` and `>file` or `> file`: the file is no word of the command.
                if !word.bytes().all(|byte| byte.is_ascii_digit()) {
                    end(&mut all, &mut word, &mut is_word);
                }
                (word, is_word) = (String::new(), false);
                while chars.next_if(|c| c.is_whitespace() || matches!(c, '>' | '&')).is_some() {}
                while chars.next_if(|c| !c.is_whitespace() && !"|&;)".contains(*c)).is_some() {}
            }
            (None, '|' | '&' | ';' | '(' | ')') => {
                end(&mut all, &mut word, &mut is_word);
                all.push(Vec::new());
            }
            (None, c) if c.is_whitespace() => end(&mut all, &mut word, &mut is_word),
            (None, c) => {
                word.push(c);
                is_word = true;
            }
        }
    }
    end(&mut all, &mut word, &mut is_word);
    all.retain(|words| !words.is_empty());
    all
}

/// The words from the program on, if the command runs one of ours: by itself, behind variables or
/// `sudo`, or in a container (`… -- flightctl`).
fn ours(words: &[String]) -> Option<&[String]> {
    let at = words.iter().position(|word| PROGRAMS.contains(&&**word))?;
    let before = &words[..at];
    let is_prefix = |word: &String| word == "sudo" || word.contains('=');
    let runs = before.iter().all(is_prefix) || before.last().is_some_and(|word| word == "--");
    runs.then_some(&words[at..])
}

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
    for (line, named) in lines(page) {
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

#[test]
fn words_are_those_of_the_shell() {
    assert_eq!(
        commands("flightctl dump --path '/a b/**' --last 1m 2>err >\"out\" | x && y # z"),
        [vec!["flightctl", "dump", "--path", "/a b/**", "--last", "1m"], vec!["x"], vec!["y"]]
    );
    assert_eq!(
        commands("flightctl save -o - >a.flight; ls"),
        [vec!["flightctl", "save", "-o", "-"], vec!["ls"]]
    );
}
