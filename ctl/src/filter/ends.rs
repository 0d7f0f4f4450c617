//! Paths of which the end is recorded, and not the middle: whether a pattern may be theirs.
//!
//! What is hidden may be anything, `/../../` included, so that the beginning tells nothing of where
//! the path leads: the names after the first slash of the end are all that is known.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};

use flightrec_format::abi::record::StringStatus;
use flightrec_format::decode::Text;

/// Most patterns that the alternatives in braces come to.
const ALTERNATIVES_MAX: usize = 64;

/// What patterns match from any slash of theirs on, and from any `**`.
#[derive(Debug, Clone)]
pub(super) struct Ends {
    set: GlobSet,
    /// A pattern is not looked into: whatever is not known may be its.
    any: bool,
}

impl Ends {
    /// Of patterns that begin with a slash, or with `**`.
    pub(super) fn new(patterns: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut set = GlobSetBuilder::new();
        let mut any = false;
        for pattern in patterns {
            let Some(alternatives) = alternatives(pattern.as_ref()) else {
                any = true;
                continue;
            };
            for pattern in &alternatives {
                // A class with a slash in it can't be parted.
                any |= pattern.contains(['[', '\\']);
                let starts = pattern
                    .match_indices(['/', '*'])
                    .map(|(at, _)| pattern.get(at..).unwrap_or_default());
                for rest in starts.filter(|rest| rest.starts_with('/') || rest.starts_with("**")) {
                    match GlobBuilder::new(rest).literal_separator(true).build() {
                        Ok(glob) => drop(set.add(glob)),
                        Err(_) => any = true,
                    }
                }
            }
        }
        let set = set.build().unwrap_or_else(|_| {
            any = true;
            GlobSet::empty()
        });
        Self { set, any }
    }

    /// Whether a path of which not all is recorded may match; `None`: all is.
    pub(super) fn may_be(&self, path: &Text) -> Option<bool> {
        match path.status {
            StringStatus::Whole | StringStatus::Unreadable => None,
            // Where it ends is not known.
            StringStatus::Cut => Some(true),
            StringStatus::Ends => Some(path.parts().1.is_none_or(|end| self.may_match(end))),
        }
    }

    /// Whether a path with this end may match.
    fn may_match(&self, end: &[u8]) -> bool {
        let Some(known) = known(end) else { return true };
        self.any || self.set.is_match_candidate(&Candidate::new(OsStr::from_bytes(&known)))
    }
}

/// The names that the path surely ends in, each after a slash; `None`: not one is known.
fn known(end: &[u8]) -> Option<Vec<u8>> {
    let mut names: Vec<&[u8]> = Vec::new();
    // The first may be the end of a name.
    for name in end.split(|byte| *byte == b'/').skip(1) {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    let all: Vec<u8> = names.iter().flat_map(|name| [b"/", *name].concat()).collect();
    (!all.is_empty()).then_some(all)
}

/// A path without what leads nowhere: `//`, `/./`, and `x/..`, as if no name were a link. `None`:
/// it has none of these.
pub(super) fn plain(path: &[u8]) -> Option<Vec<u8>> {
    if !path.windows(2).any(|two| two == b"//" || two == b"/.") {
        return None;
    }
    let is_absolute = path.starts_with(b"/");
    let mut names: Vec<&[u8]> = Vec::new();
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." if names.last().is_some_and(|last| *last != b"..") => drop(names.pop()),
            b".." if is_absolute => {}
            name => names.push(name),
        }
    }
    let joined = names.join(&b'/');
    Some(if is_absolute { [b"/", &*joined].concat() } else { joined })
}

/// A pattern with the alternatives in its braces written out; `None`: there are too many, or they
/// are in disorder.
fn alternatives(pattern: &str) -> Option<Vec<String>> {
    let mut open = vec![pattern.to_owned()];
    let mut done = Vec::new();
    while let Some(pattern) = open.pop() {
        let Some(end) = pattern.find('}') else {
            if pattern.contains('{') {
                return None;
            }
            done.push(pattern);
            continue;
        };
        // The innermost: nothing is nested in it.
        let begin = pattern.get(..end)?.rfind('{')?;
        for part in pattern.get(begin + 1..end)?.split(',') {
            open.push([pattern.get(..begin)?, part, pattern.get(end + 1..)?].concat());
        }
        if open.len() + done.len() > ALTERNATIVES_MAX {
            return None;
        }
    }
    Some(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(pattern: &str, end: &str) -> bool {
        Ends::new([pattern]).may_match(end.as_bytes())
    }

    #[test]
    fn what_is_hidden_may_be_anything() {
        assert!(
            may("**/secret", "/././secret")
                && may("*/secret", "./secret")
                && may("/etc/secret", "/./secret")
        );
        assert!(may("/etc/**", "/./secret") && may("/**", "x/y") && may("/etc/*/x*", "/abc/xyz"));
        assert!(
            !may("/etc/secret", "/./secrets")
                && !may("**/secret", "x/secret/y")
                && !may("/etc/a/secret", "/b/secret")
        );
        assert!(
            may("/etc/{a,b/{c,d}}/x", "/d/x")
                && !may("/etc/{a,b/{c,d}}/x", "/b/x")
                && !may("/{a,b}", "/x/c")
        );
        // Of a name that is cut, and where only what leads nowhere is known, nothing is known.
        assert!(
            may("/etc/secret", "etc") && may("/etc/secret", "/./.././") && may("/etc/secret", "")
        );
        // What is not looked into may be.
        assert!(may("/etc/[a/b]x", "/y/z") && may(&"{a,b}".repeat(7), "/q"));
    }

    #[test]
    fn a_path_without_what_leads_nowhere() {
        for (path, wanted) in [
            ("/etc/hosts", None),
            ("/etc/./hosts", Some("/etc/hosts")),
            ("//etc///hosts", Some("/etc/hosts")),
            ("/tmp/x/../../etc/hosts", Some("/etc/hosts")),
            ("/../etc/..", Some("/")),
            ("a/./b", Some("a/b")),
            ("a/../../b", Some("../b")),
            ("/a/.hidden", Some("/a/.hidden")),
        ] {
            assert_eq!(plain(path.as_bytes()).as_deref(), wanted.map(str::as_bytes), "{path}");
        }
    }
}
