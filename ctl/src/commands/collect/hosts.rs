//! The list of hosts.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::ssh;

/// Most bytes of a list: 16 MiB are a quarter of a million names.
const LIST_MAX: u64 = 16 << 20;
/// Most bytes of a name: that of its file has more.
const NAME_MAX: usize = 200;

/// A host to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    /// As ssh takes it.
    pub(super) name: String,
    /// The name of its file, without the extension.
    pub(super) stem: String,
}

/// A list that is none.
#[derive(Debug, Error)]
pub(super) enum HostsError {
    /// It can't be read.
    #[error("can't read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nothing is in it.
    #[error("{} names no host: write a name on each line", .0.display())]
    None(PathBuf),
    /// It is too long.
    #[error("{} is longer than 16 MiB", .0.display())]
    Long(PathBuf),
    /// A line is no name.
    #[error(
        "{}:{line}: {name:?} is no name of a host: one a line, without blanks, not with a dash in \
         front, of at most {NAME_MAX} bytes",
        .path.display()
    )]
    Name {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What it says.
        name: String,
    },
    /// It has a colon, and no port after that.
    #[error(
        "{}:{line}: {name:?} has no port after its colon: write HOST:PORT, or [ADDRESS]:PORT of \
         IPv6",
        .path.display()
    )]
    Port {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What it says.
        name: String,
    },
    /// Two hosts would have one file.
    #[error("{}: lines {first} and {second} would both be saved as {stem}.flight", .path.display())]
    Twice {
        /// The file.
        path: PathBuf,
        /// The first line, from 1.
        first: usize,
        /// The second.
        second: usize,
        /// The name that both would have.
        stem: String,
    },
}

/// Reads a list; `-`: standard input.
pub(super) fn read(path: &Path) -> Result<Vec<Host>, HostsError> {
    let failed = |source| HostsError::Read { path: path.into(), source };
    let mut text = String::new();
    let read = if path == Path::new("-") {
        io::stdin().take(LIST_MAX + 1).read_to_string(&mut text)
    } else {
        File::open(path).and_then(|file| file.take(LIST_MAX + 1).read_to_string(&mut text))
    };
    if read.map_err(failed)? as u64 > LIST_MAX {
        return Err(HostsError::Long(path.into()));
    }
    parse(&text, path)
}

/// A name a line; empty lines and what follows `#` are left out.
fn parse(text: &str, path: &Path) -> Result<Vec<Host>, HostsError> {
    let mut hosts = Vec::new();
    let mut seen = HashMap::new();
    for (line, content) in (1..).zip(text.lines()) {
        let name = content.split_once('#').map_or(content, |(name, _)| name).trim();
        if name.is_empty() {
            continue;
        }
        let odd = |c: char| c.is_whitespace() || c.is_control();
        if name.starts_with('-') || name.contains(odd) || name.len() > NAME_MAX {
            return Err(HostsError::Name { path: path.into(), line, name: name.to_owned() });
        }
        if ssh::host::parse(name).is_none() {
            return Err(HostsError::Port { path: path.into(), line, name: name.to_owned() });
        }
        let stem = stem(name);
        if let Some(first) = seen.insert(stem.clone(), line) {
            return Err(HostsError::Twice { path: path.into(), first, second: line, stem });
        }
        hosts.push(Host { name: name.to_owned(), stem });
    }
    if hosts.is_empty() { Err(HostsError::None(path.into())) } else { Ok(hosts) }
}

/// The name of a host as one of a file, in every file system and shell.
fn stem(name: &str) -> String {
    let name = name.strip_prefix("ssh://").unwrap_or(name).replace(['[', ']'], "");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-@.".contains(c);
    let stem: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    // Neither hidden nor an option.
    if stem.starts_with(['.', '-']) { format!("_{stem}") } else { stem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<(String, String)>, String> {
        let hosts = parse(text, Path::new("list")).map_err(|e| e.to_string())?;
        Ok(hosts.into_iter().map(|host| (host.name, host.stem)).collect())
    }

    #[test]
    fn a_name_a_line() {
        let pair = |name: &str, stem: &str| (name.to_owned(), stem.to_owned());
        assert_eq!(
            names(
                "# all of them\nweb1\n\n  root@web2 # slow\nssh://a@db:2222\n../x\nb:22\n[::1]:22\n"
            ),
            Ok(vec![
                pair("web1", "web1"),
                pair("root@web2", "root@web2"),
                pair("ssh://a@db:2222", "a@db_2222"),
                pair("../x", "_.._x"),
                pair("b:22", "b_22"),
                pair("[::1]:22", "__1_22"),
            ])
        );
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for (text, part) in [
            ("", "names no host"),
            ("web1\n-oProxyCommand=id\n", "list:2: \"-oProxyCommand=id\" is no name"),
            ("two words", "list:1:"),
            ("a\u{1b}[2J", "list:1:"),
            (&"x".repeat(201), "list:1:"),
            ("web1\nweb2:ssh", "list:2: \"web2:ssh\" has no port"),
            ("a:1\nb\na_1\n", "lines 1 and 3 would both be saved as a_1.flight"),
        ] {
            let error = names(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
