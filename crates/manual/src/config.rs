//! Manual pages of configuration files, of the comments in `config/*.toml`.

use std::io;

use roff::{Roff, bold, roman};

use crate::page::{MANUAL, NO_DATE, SOURCE, section, see_also};

/// A configuration file.
pub(crate) struct File {
    /// Its name, below `/etc/flightrec`.
    pub(crate) name: &'static str,
    /// Whose it is, in a few words.
    pub(crate) about: &'static str,
    /// The file with every key, its default and its meaning.
    pub(crate) text: &'static str,
    /// An example, and what it is for.
    example: (&'static str, &'static [&'static str]),
    also: &'static str,
}

/// All of them.
pub(crate) const FILES: [File; 2] = [
    File {
        name: "flightd.toml",
        about: "configuration of the flight recorder's daemon",
        text: include_str!("../../../config/flightd.toml"),
        example: (
            "Larger rings for system calls, and access for another group:",
            &[
                "[rings]",
                "syscall = \"64MiB\"",
                "max_total = \"1GiB\"",
                "",
                "[access]",
                "group = \"operators\"",
            ],
        ),
        also: "flightd(8), flightctl(1)",
    },
    File {
        name: "flight-ship.toml",
        about: "configuration of what ships the flight recorder's snapshots and sums",
        text: include_str!("../../../config/flight-ship.toml"),
        example: (
            "To a bucket of a server of one's own, without any strings of programs:",
            &[
                "[ship]",
                "to = \"s3://recordings/prod\"",
                "strings = \"none\"",
                "",
                "[storage]",
                "endpoint = \"https://s3.example.org:9000\"",
            ],
        ),
        also: "flight-ship(8), flightd(8)",
    },
];

/// The page of a file.
pub(crate) fn page(file: &File) -> io::Result<Vec<u8>> {
    let mut roff = Roff::new();
    roff.control("TH", [&*file.name.to_uppercase(), "5", NO_DATE, SOURCE, MANUAL]);
    section(&mut roff, "NAME", &[&format!("{} - {}", file.name, file.about)]);
    section(&mut roff, "SYNOPSIS", &[&format!("/etc/flightrec/{}", file.name)]);
    roff.control("SH", ["DESCRIPTION"]);
    let mut comment: Vec<&str> = Vec::new();
    let mut sections = false;
    for line in file.text.lines() {
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
    let (what, example) = file.example;
    roff.control("SH", ["EXAMPLE"]).text([roman(what)]);
    literal(&mut roff, example);
    see_also(&mut roff, file.also);
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
        for file in &FILES {
            let page = String::from_utf8(page(file).unwrap()).unwrap();
            let mut keys = 0;
            for line in file.text.lines().filter(|line| !line.starts_with('#')) {
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
            assert!(keys > 10, "{} is not read as it is written any more", file.name);
        }
    }
}
