//! Pages of configuration files, of the comments in `config/*.toml`.

use std::fmt::Write as _;

use super::text;
use crate::config::File;

/// The page of a file: a heading for each section, the keys with their defaults as code.
pub(super) fn page(file: &File) -> (String, String) {
    let mut out = format!("# {}\n\n{}\n", file.name, text(file.about));
    let mut comment: Vec<&str> = Vec::new();
    for line in file.text.lines() {
        if let Some(words) = line.strip_prefix('#') {
            comment.push(words.strip_prefix(' ').unwrap_or(words));
            continue;
        }
        if line.starts_with('[') {
            let _ = writeln!(out, "\n## `{line}`");
        } else if line.contains(" = ") {
            let _ = writeln!(out, "\n```toml\n{line}\n```");
        } else if !line.is_empty() {
            // A line of a value that has several.
            let _ = writeln!(out, "\n```toml\n{line}\n```");
        }
        prose(&mut out, &std::mem::take(&mut comment));
    }
    prose(&mut out, &comment);
    (format!("{}.md", file.name), out)
}

/// A comment: paragraphs, and tables, whose lines are indented.
fn prose(out: &mut String, comment: &[&str]) {
    let is_table = |line: &&str| line.starts_with("  ");
    for chunk in comment.chunk_by(|a, b| is_table(a) == is_table(b)) {
        // Writing to a string can't fail.
        let _ = if chunk.iter().any(is_table) {
            writeln!(out, "\n```text\n{}\n```", chunk.join("\n"))
        } else {
            writeln!(out, "\n{}", text(&chunk.join("\n")))
        };
    }
}
