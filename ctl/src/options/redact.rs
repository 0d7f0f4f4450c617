//! What is left out of what is written for others.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use flightrec_export::redact::{Redact, RedactError};
use flightrec_reader::redact::{self, Strings};
use thiserror::Error;

/// Most bytes of a file of expressions; there may be fewer than fit.
const FILE_MAX: u64 = 1 << 20;

/// The same for every command whose output leaves the machine.
#[derive(Debug, Default, Args)]
pub struct RedactArgs {
    /// Which of the strings that programs passed to the kernel are written [default: all].
    #[arg(long, value_name = "WHICH", value_enum, help_heading = "Redaction")]
    pub strings: Option<StringsArg>,
    /// Replace whatever this regular expression matches, in any text, by `***`; may be repeated.
    #[arg(long, value_name = "REGEX", help_heading = "Redaction")]
    pub hide: Vec<String>,
    /// The same for each line of a file: all users of the machine see the arguments of a command.
    #[arg(long, value_name = "FILE", help_heading = "Redaction")]
    pub hide_from: Option<PathBuf>,
}

/// Expressions can't be had.
#[derive(Debug, Error)]
pub(crate) enum PatternsError {
    /// One of them can't be used.
    #[error(transparent)]
    Wrong(#[from] RedactError),
    /// Their file can't be read.
    #[error("can't read the expressions in {}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Which strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StringsArg {
    /// All that are recorded.
    All,
    /// Only names of files: no arguments of programs, texts of marks, fields of tracepoints or
    /// others.
    Paths,
    /// No names of files either. Names of threads, units, devices and functions are written.
    None,
}

/// What is left out.
#[derive(Debug, Clone, Default)]
pub struct RedactPlan {
    /// Which strings are kept.
    pub strings: Strings,
    /// What is hidden in texts.
    pub redact: Redact,
    /// The patterns of that.
    patterns: Vec<String>,
}

impl PartialEq for RedactPlan {
    fn eq(&self, other: &Self) -> bool {
        (self.strings, &self.patterns) == (other.strings, &other.patterns)
    }
}

impl RedactArgs {
    /// What they mean.
    pub(crate) fn plan(self) -> Result<RedactPlan, PatternsError> {
        let strings = match self.strings {
            None | Some(StringsArg::All) => Strings::All,
            Some(StringsArg::Paths) => Strings::Paths,
            Some(StringsArg::None) => Strings::None,
        };
        let mut patterns = self.hide;
        if let Some(path) = self.hide_from {
            let lines = File::open(&path)
                .and_then(|file| io::read_to_string(file.take(FILE_MAX)))
                .map_err(|source| PatternsError::Io { path, source })?;
            patterns.extend(lines.lines().filter(|line| !line.is_empty()).map(str::to_owned));
        }
        Ok(RedactPlan { strings, redact: Redact::new(&patterns)?, patterns })
    }
}

impl RedactPlan {
    /// Begins: to be called before anything is read.
    pub(crate) fn begin(&self) {
        redact::keep(self.strings);
    }
}
