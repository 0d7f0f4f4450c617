//! The commands of README.md and docs/.

use std::path::PathBuf;
use std::{fs, io};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::process::repository;

/// The programs of this project.
const PROGRAMS: [&str; 3] = ["flightctl", "flightd", "flight-ship"];

/// A line of a page that may be a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The line, as a shell would read it: its continuations are part of it.
    pub text: String,
    /// It is only named in the text, where it may lack what it needs.
    pub named: bool,
}

/// README.md and all pages of docs/.
///
/// # Panics
/// If they can't be listed.
pub fn pages() -> Vec<PathBuf> {
    let root = repository();
    let (mut found, mut folders) = (vec![root.join("README.md")], vec![root.join("docs")]);
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        for entry in entries.unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.path();
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

/// The lines of a page's blocks of shell, and what is set as code in its text.
pub fn lines(page: &str) -> Vec<Line> {
    let mut found = Vec::new();
    let mut block: Option<String> = None;
    for event in Parser::new_ext(page, Options::ENABLE_TABLES) {
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
                let block = block.replace("\\\n", " ").replace("&&\n", "&& ");
                // Where there are prompts, all else is output.
                let has_prompts = block.lines().any(|line| line.starts_with("$ "));
                let typed = block.lines().filter_map(|line| match line.strip_prefix("$ ") {
                    None if has_prompts => None,
                    None => Some(line),
                    typed => typed,
                });
                found.extend(typed.map(|line| Line { text: line.to_owned(), named: false }));
            }
            Event::Code(code) => found.push(Line { text: code.replace('\n', " "), named: true }),
            _ => {}
        }
    }
    found
}

/// The commands of a line, each its words: quotes are taken off, what is after `#` or a
/// redirection is left out, and a command in `$(…)` is one of its own.
pub fn commands(line: &str) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    let (mut word, mut is_word, mut quote) = (String::new(), false, None);
    let mut chars = line.chars().peekable();
    let end = |all: &mut Vec<Vec<String>>, word: &mut String, is_word: &mut bool| {
        let word = std::mem::take(word);
        if std::mem::take(is_word) {
            all.last_mut().into_iter().for_each(|words| words.push(word.clone()));
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

/// The words from the program on, if the command runs one of ours: by itself, after variables or
/// `sudo`, or in a container (`… -- flightctl`).
pub fn ours(words: &[String]) -> Option<&[String]> {
    let at = words.iter().position(|word| PROGRAMS.contains(&&**word))?;
    let before = &words[..at];
    let is_prefix = |word: &String| word == "sudo" || word.contains('=');
    let runs = before.iter().all(is_prefix) || before.last().is_some_and(|word| word == "--");
    runs.then_some(&words[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
