//! What can be wrong with a dump.

use std::io;

use thiserror::Error;

/// What a dump of another machine has no recording of.
pub(crate) const MACHINES: &str = "flightrec records on x86_64 and aarch64 alone";

/// A file that is no dump, or one that can't be read.
#[derive(Debug, Error)]
pub enum VmcoreError {
    /// The file can't be opened or read.
    #[error("can't read it: {0}")]
    Io(#[from] io::Error),
    /// A pipe, a socket, a directory: nothing that can be read at any place.
    #[error("{0}: name a file or a block device (copy a dump from a pipe to a file first)")]
    NotAFile(&'static str),
    /// No bytes at all.
    #[error("the file is empty: the dump was never written")]
    Empty,
    /// Something that is known, and is not read.
    #[error("{what}: {remedy}")]
    Unsupported {
        /// What it is.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Its own headers make no sense.
    #[error(
        "damaged {form}: {reason}; take the dump again, or copy it again from where it was written"
    )]
    Damaged {
        /// What the file is.
        form: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// More of something than a dump has.
    #[error("more than {limit} {what}: {remedy}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// Most that are taken.
        limit: usize,
        /// What to do.
        remedy: &'static str,
    },
}

impl VmcoreError {
    pub(crate) fn unsupported(what: impl Into<String>, remedy: &'static str) -> Self {
        Self::Unsupported { what: what.into(), remedy }
    }

    pub(crate) fn damaged(form: &'static str, reason: impl Into<String>) -> Self {
        Self::Damaged { form, reason: reason.into() }
    }
}
