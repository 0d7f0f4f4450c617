//! What is left out of what is written for others.

use clap::{Args, ValueEnum};
use flightrec_export::redact::{Redact, RedactError};
use flightrec_reader::redact::{self, Strings};

/// The same for every command whose output leaves the machine.
#[derive(Debug, Default, Args)]
pub struct RedactArgs {
    /// Which of the strings that programs passed to the kernel are written [default: all].
    #[arg(long, value_name = "WHICH", value_enum, help_heading = "Redaction")]
    pub strings: Option<StringsArg>,
    /// Replace whatever this regular expression matches, in any text, by `***`; may be repeated.
    #[arg(long, value_name = "REGEX", help_heading = "Redaction")]
    pub hide: Vec<String>,
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
    pub(crate) fn plan(self) -> Result<RedactPlan, RedactError> {
        let strings = match self.strings {
            None | Some(StringsArg::All) => Strings::All,
            Some(StringsArg::Paths) => Strings::Paths,
            Some(StringsArg::None) => Strings::None,
        };
        Ok(RedactPlan { strings, redact: Redact::new(&self.hide)?, patterns: self.hide })
    }
}

impl RedactPlan {
    /// Begins: to be called before anything is read.
    pub(crate) fn begin(&self) {
        redact::keep(self.strings);
    }
}
