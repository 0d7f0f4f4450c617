//! flightd.toml(5), of the comments in `config/flightd.toml`.

use std::io;

use roff::{Roff, bold, roman};

use crate::page::{MANUAL, NO_DATE, SOURCE, section, see_also};

/// The file with every key, its default and its meaning.
const CONFIG: &str = include_str!("../../config/flightd.toml");

/// The page.
pub(crate) fn page() -> io::Result<Vec<u8>> {
    let mut roff = Roff::new();
    roff.control("TH", ["FLIGHTD.TOML", "5", NO_DATE, SOURCE, MANUAL]);
    section(&mut roff, "NAME", &["flightd.toml - configuration of the flight recorder's daemon"]);
    section(&mut roff, "SYNOPSIS", &["/etc/flightrec/flightd.toml"]);
    roff.control("SH", ["DESCRIPTION"]);
    let mut comment: Vec<&str> = Vec::new();
    let mut sections = false;
    for line in CONFIG.lines() {
        if let Some(text) = line.strip_prefix('#') {
            comment.push(text.strip_prefix(' ').unwrap_or(text));
        } else if line.starts_with('[') {
            if !sections {
                roff.control("SH", ["SECTIONS AND KEYS"]);
                roff.text([roman("Each key is shown with its default.")]);
                sections = true;
            }
            roff.control("SS", [line]);
            prose(&mut roff, "PP", &std::mem::take(&mut comment));
        } else if let Some((key, value)) = line.split_once(" = ") {
            roff.control("TP", []).text([bold(key), roman(" = "), roman(value)]);
            prose(&mut roff, "IP", &std::mem::take(&mut comment));
        } else {
            prose(&mut roff, "PP", &std::mem::take(&mut comment));
        }
    }
    let example = [
        "[rings]",
        "syscall = \"64MiB\"",
        "max_total = \"1GiB\"",
        "",
        "[access]",
        "group = \"operators\"",
    ];
    roff.control("SH", ["EXAMPLE"])
        .text([roman("Larger rings for system calls, and access for another group:")]);
    literal(&mut roff, &example);
    see_also(&mut roff, "flightd(8), flightctl(1)");
    let mut out = Vec::new();
    roff.to_writer(&mut out)?;
    Ok(out)
}

/// A comment: paragraphs, each begun by that macro, and tables, whose lines are indented.
fn prose(roff: &mut Roff, paragraph: &str, comment: &[&str]) {
    let is_table = |line: &&str| line.starts_with("  ");
    for chunk in comment.chunk_by(|a, b| is_table(a) == is_table(b)) {
        if chunk.iter().any(is_table) {
            literal(roff, chunk);
        } else {
            for line in chunk {
                if line.is_empty() {
                    roff.control(paragraph, [])
                } else {
                    roff.text([roman(*line)])
                };
            }
        }
    }
    if !comment.is_empty() {
        // What follows is a paragraph of its own.
        roff.control("PP", []);
    }
}

/// Lines as they are.
fn literal(roff: &mut Roff, lines: &[&str]) {
    roff.control("PP", []).control("nf", []).control("RS", ["4"]);
    for line in lines {
        roff.text([roman(*line)]);
    }
    roff.control("RE", []).control("fi", []);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_and_key_is_there() {
        let page = String::from_utf8(page().unwrap()).unwrap();
        let mut keys = 0;
        for line in CONFIG.lines().filter(|line| !line.starts_with('#')) {
            if line.starts_with('[') {
                assert!(page.contains(&format!(".SS {line}\n")), "{line}");
            } else if let Some((key, _)) = line.split_once(" = ") {
                assert!(
                    page.contains(&format!("\\fB{}\\fR = ", key.replace('-', "\\-"))),
                    "no {key} in\n{page}"
                );
                keys += 1;
            }
        }
        assert!(keys > 10, "the file is not read as it is written any more");
    }
}
