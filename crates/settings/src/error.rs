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
        "{path}: {source}; give the path of a configuration with --config ({complete} is a \
         complete one)"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// A file with all keys.
        complete: &'static str,
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

/// Whose configuration it is, in messages.
#[derive(Debug, Clone, Copy)]
pub struct Service {
    /// Its name.
    pub name: &'static str,
    /// A file with all keys, in the repository.
    pub complete: &'static str,
}

/// Reads the file, within bounds.
///
/// # Errors
/// It can't be read, or is longer than a configuration is.
pub fn read(path: &Path, service: Service) -> Result<String, ConfigError> {
    let complete = service.complete;
    let error = |source| ConfigError::Read { path: path.into(), complete, source };
    let mut text = String::new();
    File::open(path).and_then(|f| f.take(FILE_MAX + 1).read_to_string(&mut text)).map_err(error)?;
    if text.len() as u64 > FILE_MAX {
        let what = format!("longer than 1 MiB, so not a configuration of {}", service.name);
        return Err(error(io::Error::other(what)));
    }
    Ok(text)
}
