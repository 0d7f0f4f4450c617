//! Names of threads: as they are, or as patterns.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};
use rustc_hash::FxHashSet;

use super::FilterError;

/// What makes a pattern of a name.
const META: [char; 4] = ['*', '?', '[', '{'];

/// Names that are wanted; none wants all.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// A name that looks like a pattern is itself as well.
    exact: FxHashSet<Box<[u8]>>,
    patterns: Option<GlobSet>,
}

/// Whether a name is a pattern.
pub(super) fn is_pattern(name: &str) -> bool {
    name.contains(META)
}

/// Longest name of a thread (`TASK_COMM_LEN` less the NUL), bytes.
const COMM_MAX: usize = 15;

/// A thread's name, or a pattern. A longer name would never match anything.
pub fn comm(text: &str) -> Result<String, String> {
    if is_pattern(text) {
        return Ok(text.to_owned());
    }
    match text.get(..COMM_MAX) {
        Some(whole) if whole.len() < text.len() => {
            Err(format!("the kernel cuts thread names to {COMM_MAX} bytes: use '{whole}'"))
        }
        _ => Ok(text.to_owned()),
    }
}

impl Names {
    /// Compiles what was typed. `*` is any text, `?` a byte, `[a-z]` one of these.
    pub fn new(typed: &[String]) -> Result<Self, FilterError> {
        let wrong = |name: &str, e: &globset::Error| FilterError::Comm {
            name: name.to_owned(),
            reason: e.kind().to_string(),
        };
        let mut set = GlobSetBuilder::new();
        for name in typed.iter().filter(|name| is_pattern(name)) {
            match GlobBuilder::new(name).build() {
                Ok(glob) => drop(set.add(glob)),
                // A bracket without its other half is no pattern; a name may have one.
                Err(e) if matches!(e.kind(), globset::ErrorKind::UnclosedClass) => {}
                Err(e) => return Err(wrong(name, &e)),
            }
        }
        let set = set.build().map_err(|e| wrong(&typed.join(","), &e))?;
        Ok(Self {
            exact: typed.iter().map(|name| name.as_bytes().into()).collect(),
            patterns: (!set.is_empty()).then_some(set),
        })
    }

    /// Whether any name will do.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty()
    }

    /// Whether a name is one of them.
    pub fn has(&self, name: &[u8]) -> bool {
        let like = |set: &GlobSet| set.is_match_candidate(&Candidate::new(OsStr::from_bytes(name)));
        self.exact.contains(name) || self.patterns.as_ref().is_some_and(like)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_too_long_to_be_are_told_their_short_form() {
        assert_eq!(comm("0123456789abcde").as_deref(), Ok("0123456789abcde"));
        assert!(comm("0123456789abcdef*").is_ok());
        assert!(comm("0123456789abcdef").is_err_and(|e| e.ends_with("'0123456789abcde'")));
    }
}
