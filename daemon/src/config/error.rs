//! What can be wrong with a configuration file.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Longest file that is read: a thousand times the shipped one would be a mistake.
const FILE_MAX: u64 = 1 << 20;

/// The configuration can't be used. Each names the file, the line where there is one, and the key.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// It can't be read.
    #[error(
        "{path}: {source}; give the path of a configuration with --config (config/flightd.toml is \
         a complete one)"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not TOML.
    #[error(
        "{path}:{line}: {message}; write strings in quotes, one `key = value` per line, and \
         sections in [brackets]"
    )]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// A key or section that does not exist.
    #[error("{path}:{line}: unknown {what} `{key}`; {advice}")]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// "key" or "section".
        what: &'static str,
        /// The key, with its section.
        key: String,
        /// The nearest right one, or all there are.
        advice: String,
    },
    /// A value of the wrong type, or one that can't be.
    #[error("{path}:{line}: {key}: {message}")]
    Value {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The key, with its section.
        key: String,
        /// What is wrong, and what would be right.
        message: String,
    },
}

/// Reads the file, within bounds.
pub(super) fn read(path: &Path) -> Result<String, ConfigError> {
    let error = |source| ConfigError::Read { path: path.into(), source };
    let mut text = String::new();
    File::open(path).and_then(|f| f.take(FILE_MAX + 1).read_to_string(&mut text)).map_err(error)?;
    if text.len() as u64 > FILE_MAX {
        return Err(error(io::Error::other(
            "longer than 1 MiB, so not a configuration of flightd",
        )));
    }
    Ok(text)
}
