//! Calls on paths that match a pattern: by a path that they are given, or by a descriptor of one.

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use flightrec_format::abi::kinds::IoSubmit;
use flightrec_format::abi::record::{Abi, StringStatus};
use flightrec_format::abi::value_names::{IO_DIRECT, IO_FIXED_FILE};
use flightrec_format::decode::{Call, CallRecord, Text};
use flightrec_format::meta::{Argument, Meta, Syscall, is_descriptor, is_path};
use flightrec_reader::fds::{FdNames, is_in_root, is_unsure, joined, within};
use flightrec_reader::names::{io_op, may_be_of_file, takes_path};
use flightrec_store::summary::Missing;

use super::calls::arguments;
use super::doubt::lacks_string;
use super::ends::{Ends, plain};
use super::{FilterError, Part};
use crate::text::io_uring::name_of_fd;

/// Compiles patterns. `*` and `?` stay within a directory, `**` goes through any; a pattern without
/// a slash is a file's name in any directory.
pub(super) fn compile(patterns: &[String]) -> Result<GlobSet, FilterError> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let wrong = |e: &globset::Error| FilterError::Path {
            pattern: pattern.clone(),
            reason: e.kind().to_string(),
        };
        set.add(
            GlobBuilder::new(&anywhere(pattern))
                .literal_separator(true)
                .build()
                .map_err(|e| wrong(&e))?,
        );
    }
    set.build().map_err(|e| FilterError::Path {
        pattern: patterns.join(","),
        reason: e.kind().to_string(),
    })
}

/// Names one of which every path has among its components that matches; `None`: of a pattern, no
/// such name is known.
pub(super) fn names(patterns: &[String]) -> Option<Vec<Vec<u8>>> {
    let name = |pattern: &String| {
        // What no path has names what is no file; and alternatives and classes are not looked into.
        if !pattern.contains(['/', '.']) || pattern.contains(['{', '[', '\\']) {
            return None;
        }
        let is_literal =
            |name: &&str| !name.contains(['*', '?']) && !matches!(*name, "" | "." | "..");
        pattern.rsplit('/').find(is_literal).map(|name| name.as_bytes().to_vec())
    };
    patterns.iter().map(name).collect()
}

/// The pattern of a whole path.
fn anywhere(pattern: &str) -> String {
    if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") }
}

/// What the kernel's names of objects that are no files begin with, up to a colon, besides those
/// that have a bracket after it.
const OBJECTS: [&[u8]; 2] = [b"anon_inode", b"socket"];

/// Which arguments of a call are what, bit by bit.
#[derive(Debug, Clone, Copy, Default)]
struct Roles {
    paths: u8,
    descriptors: u8,
    /// What it opens, more than these tell ([`is_unsure`]).
    is_unsure: bool,
}

/// Where the path of a call begins that has a slash first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Root {
    /// In the root of the process.
    Machines,
    /// In the call's directory.
    Directory,
    /// In one of the two.
    Unknown,
}

impl Root {
    fn of(roles: Roles, call: &Call) -> Self {
        if !roles.is_unsure {
            return Self::Machines;
        }
        match is_in_root(call) {
            Some(true) => Self::Directory,
            Some(false) => Self::Machines,
            None => Self::Unknown,
        }
    }
}

/// Patterns, and where each call of a recording has something for them.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    set: GlobSet,
    /// The last parts of the patterns.
    last: GlobSet,
    ends: Ends,
    native: Vec<Roles>,
    compat: Vec<Roles>,
}

impl Paths {
    pub(super) fn new(patterns: &[String], meta: &Meta) -> Result<Option<Self>, FilterError> {
        if patterns.is_empty() {
            return Ok(None);
        }
        let set = compile(patterns)?;
        let last = |pattern: &String| match pattern.rsplit('/').next() {
            // Alternatives may have slashes in them.
            Some(last) if !last.contains(['{', '}', '[', ']', '\\']) => last.to_owned(),
            _ => "*".to_owned(),
        };
        let last = compile(&patterns.iter().map(last).collect::<Vec<_>>())?;
        let ends = Ends::new(patterns.iter().map(|pattern| anywhere(pattern)));
        Ok(Some(Self {
            set,
            last,
            ends,
            native: table(&meta.native, meta),
            compat: table(&meta.compat, meta),
        }))
    }

    /// Whether a call has to do with such a path, `fds` being its process's descriptors.
    pub(super) fn has(&self, call: &Call, fds: FdNames<'_>) -> bool {
        let Some(roles) = self.roles(call.abi, call.nr) else { return false };
        let root = Root::of(roles, call);
        let path = call.strings.iter().any(|text| {
            text.index < 6
                && roles.paths >> text.index & 1 != 0
                && text.status != StringStatus::Unreadable
                && self.ends.may_be(text).unwrap_or_else(|| {
                    let index = usize::from(text.index);
                    let in_directory = |path: &[u8]| self.matches_in(roles, call, index, path, fds);
                    match root {
                        // The path as it was given is none of the machine's.
                        Root::Directory => {
                            within(&text.bytes).is_some_and(|path| in_directory(&path))
                        }
                        Root::Unknown if text.bytes.starts_with(b"/") => false,
                        Root::Machines | Root::Unknown => {
                            self.matches(&text.bytes) || in_directory(&text.bytes)
                        }
                    }
                })
        });
        let recorded = call.args.iter().take(usize::from(call.nargs)).enumerate();
        path || recorded
            .filter(|(index, _)| roles.descriptors >> index & 1 != 0)
            .any(|(_, value)| fds.get(*value as i32).is_some_and(|name| self.matches(name)))
    }

    fn roles(&self, abi: Abi, nr: u16) -> Option<Roles> {
        let table = if abi == Abi::Compat { &self.compat } else { &self.native };
        table.get(usize::from(nr)).copied()
    }

    /// Whether calls of this number may have to do with a path.
    pub(super) fn concerns(&self, abi: Abi, nr: u16) -> bool {
        self.roles(abi, nr).is_some_and(|roles| roles.paths | roles.descriptors != 0)
    }

    /// Whether a call of this number may open what its arguments do not tell.
    pub(super) fn is_unsure(&self, abi: Abi, nr: u16) -> bool {
        self.roles(abi, nr).is_some_and(|roles| roles.is_unsure)
    }

    /// Whether records of a call that lack so much may lack anything that tells what it has to do
    /// with.
    pub(super) fn lacks_of(&self, abi: Abi, nr: u16, missing: Missing) -> bool {
        self.roles(abi, nr).is_some_and(|roles| {
            roles.is_unsure
                || roles.paths & missing.strings != 0
                || roles.descriptors & missing.arguments != 0
        })
    }

    /// Whether a record lacks anything that tells what it has to do with.
    pub(super) fn lacks_parts(&self, record: &CallRecord) -> bool {
        let Some(roles) = self.roles(record.call.abi, record.call.nr) else { return false };
        let nargs = usize::from(record.call.nargs);
        bits(roles.paths)
            .any(|index| lacks_string(record, index) || record.relative >> index & 1 != 0)
            || bits(roles.descriptors).any(|index| index >= nargs)
    }

    /// What is missing of a call that does not match as far as is known.
    pub(super) fn lacks(&self, call: &Call, fds: FdNames<'_>) -> Option<Part> {
        let roles = self.roles(call.abi, call.nr)?;
        let nargs = usize::from(call.nargs);
        for index in bits(roles.paths) {
            let text = call.strings.iter().find(|text| usize::from(text.index) == index);
            let is_read = text.map(|text| text.status != StringStatus::Unreadable);
            match (is_read, call.args.get(index)) {
                (Some(true), _) => {
                    if text.is_some_and(|text| self.may_be(roles, call, text, fds)) {
                        return Some(Part::Directories);
                    }
                }
                (None, _) if index >= nargs => return Some(Part::Arguments),
                (_, Some(0)) if index < nargs => {}
                (None, _) => return Some(Part::Paths),
                (Some(false), _) => return Some(Part::UnreadPaths),
            }
        }
        bits(roles.descriptors).find_map(|index| match call.args.get(index) {
            _ if index >= nargs => Some(Part::Arguments),
            Some(fd) if fds.is_lost(*fd as i32) => Some(Part::Descriptors),
            Some(fd) if fds.get(*fd as i32).is_some_and(|name| self.may_be_named(name)) => {
                Some(Part::Directories)
            }
            _ => None,
        })
    }

    /// Whether an operation of io_uring has to do with such a path; and what it lacks, if that can't
    /// be decided.
    pub(super) fn has_operation(
        &self,
        submit: &IoSubmit,
        paths: &[Text],
        fds: FdNames<'_>,
    ) -> (bool, Option<Part>) {
        let own = name_of_fd(submit, fds);
        let is_read = |text: &&Text| text.status != StringStatus::Unreadable;
        // The directory of a second path is not recorded.
        let directory = |text: &Text| own.filter(|of| text.index == 0 && of.starts_with(b"/"));
        // Whether a directory is the root of its path is not recorded.
        let is_of_root =
            |text: &Text| io_op(submit.op) != Some("openat2") || !text.bytes.starts_with(b"/");
        let has = |text: &Text| {
            let path = &text.bytes;
            self.ends.may_be(text).unwrap_or_else(|| {
                let in_directory = |of| !path.starts_with(b"/") && self.matches(&joined(of, path));
                is_of_root(text) && self.matches(path) || directory(text).is_some_and(in_directory)
            })
        };
        if own.is_some_and(|name| self.matches(name)) || paths.iter().filter(is_read).any(has) {
            return (true, None);
        }
        let is_of_ring = submit.flags & (IO_FIXED_FILE | IO_DIRECT) != 0;
        let is_lost = || is_of_ring || fds.is_lost(submit.fd);
        let lacks = match () {
            () if !may_be_of_file(submit.op) => None,
            () if paths.is_empty() && takes_path(submit.op) => Some(Part::Paths),
            () if !paths.iter().all(|text| is_read(&text)) => Some(Part::UnreadPaths),
            () if paths.iter().any(|text| self.may_be_in(directory(text), text)) => {
                Some(Part::Directories)
            }
            () if paths.iter().any(|text| !is_of_root(text) && self.may_end_in(&text.bytes)) => {
                Some(Part::Directories)
            }
            () if paths.is_empty() && submit.fd >= 0 && is_lost() => Some(Part::Descriptors),
            () => None,
        };
        (false, lacks)
    }

    /// Whether a path that does not match might do so, were it known what it is relative to. (Of one
    /// that ends in `.` or `..` it is not asked what that is called.)
    fn may_be(&self, roles: Roles, call: &Call, text: &Text, fds: FdNames<'_>) -> bool {
        let directory = usize::from(text.index)
            .checked_sub(1)
            .filter(|at| roles.descriptors >> at & 1 != 0)
            .and_then(|at| fds.get(*call.args.get(at)? as i32))
            .filter(|name| name.starts_with(b"/"));
        let (head, _) = text.parts();
        match Root::of(roles, call) {
            Root::Machines => self.may_be_in(directory, text),
            // `..` stays in that root: where it leads is not known.
            Root::Directory => {
                within(head).is_none_or(|path| directory.is_none() && self.may_end_in(&path))
            }
            Root::Unknown => {
                self.may_be_in(directory, text) || head.starts_with(b"/") && self.may_end_in(head)
            }
        }
    }

    /// Whether what a descriptor stands for, which does not match, might do so, were it known what
    /// its path is relative to.
    fn may_be_named(&self, name: &[u8]) -> bool {
        let is_object = name.iter().position(|byte| *byte == b':').is_some_and(|at| {
            let (kind, rest) = name.split_at(at);
            let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
            kind.iter().all(is_word) && (rest.starts_with(b":[") || OBJECTS.contains(&kind))
        });
        !name.starts_with(b"/") && !is_object && self.may_end_in(name)
    }

    /// Whether the last name of a path is that of a pattern.
    fn may_end_in(&self, path: &[u8]) -> bool {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        self.last.is_match_candidate(&Candidate::new(OsStr::from_bytes(name)))
    }

    /// The same of a path in a directory, if that is known.
    fn may_be_in(&self, directory: Option<&[u8]>, text: &Text) -> bool {
        let (head, tail) = text.parts();
        if head.first().is_none_or(|first| *first == b'/') {
            return false;
        }
        directory.is_none() && self.may_end_in(tail.unwrap_or(head))
    }

    /// Whether a path matches that is relative to the directory in the argument before it.
    fn matches_in(
        &self,
        roles: Roles,
        call: &Call,
        index: usize,
        path: &[u8],
        fds: FdNames<'_>,
    ) -> bool {
        let Some(before) = index.checked_sub(1).filter(|at| roles.descriptors >> at & 1 != 0)
        else {
            return false;
        };
        let directory = call.args.get(before).and_then(|fd| fds.get(*fd as i32));
        directory.is_some_and(|directory| {
            !path.starts_with(b"/") && self.matches(&joined(directory, path))
        })
    }

    /// Whether a whole path does, as it stands or without what leads nowhere.
    pub(super) fn matches(&self, path: &[u8]) -> bool {
        let is =
            |path: &[u8]| self.set.is_match_candidate(&Candidate::new(OsStr::from_bytes(path)));
        is(path) || plain(path).is_some_and(|path| is(&path))
    }
}

/// The numbers of the bits that are set.
fn bits(set: u8) -> impl Iterator<Item = usize> {
    (0..6).filter(move |index| set >> index & 1 != 0)
}

fn table(calls: &[Syscall], meta: &Meta) -> Vec<Roles> {
    let mut table = Vec::new();
    for call in calls {
        let at = usize::from(call.nr);
        if table.len() <= at {
            table.resize(at + 1, Roles::default());
        }
        let args = arguments(call, meta).unwrap_or_default();
        let all = |is: &dyn Fn(&Argument) -> bool| {
            args.iter().take(6).enumerate().fold(0, |bits, (i, arg)| bits | u8::from(is(arg)) << i)
        };
        if let Some(roles) = table.get_mut(at) {
            *roles = Roles {
                paths: all(&|arg| is_path(&call.name, arg)),
                descriptors: all(&|arg| is_descriptor(&call.name, arg)),
                is_unsure: is_unsure(&call.name),
            };
        }
    }
    table
}
