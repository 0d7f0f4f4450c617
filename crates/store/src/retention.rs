//! Which files are to be deleted: the oldest, over all boots, never the one being written.

use std::path::Path;
use std::time::Duration;

use crate::dir::FileInfo;
use crate::limits::Limits;

/// What is there, and what is about to be.
#[derive(Debug, Clone, Copy)]
pub struct Held<'a> {
    /// All files, oldest first; the one being written with its present size.
    pub files: &'a [FileInfo],
    /// The file being written.
    pub writing: Option<&'a Path>,
    /// Bytes that are about to be written.
    pub incoming: u64,
    /// Bytes free on the file system.
    pub free: u64,
}

/// What is to be done before the bytes are written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Which of the files are to be deleted, in this order.
    pub delete: Vec<usize>,
    /// How many of them, the first, go for [`Limits::max_total`]; the others for
    /// [`Limits::keep_free`].
    pub for_total: usize,
    /// The limit that would be broken nevertheless.
    pub short: Option<Short>,
}

/// A limit that can't be kept: there is nothing left to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Short {
    /// [`Limits::max_total`].
    Total,
    /// [`Limits::keep_free`]: so many bytes are free after all deleting.
    Free(u64),
}

/// Makes room for what comes.
pub fn plan(limits: &Limits, held: &Held<'_>) -> Plan {
    let mut plan = Plan::default();
    let mut total =
        held.files.iter().fold(held.incoming, |sum, file| sum.saturating_add(file.bytes));
    let mut free = held.free;
    let needed = limits.keep_free.saturating_add(held.incoming);
    // Whoever fills the disk gets what is deleted, and fills it again: he must not come at all of
    // the history so.
    let floor = floor(limits, held.files);
    for (i, file) in held.files.iter().enumerate() {
        let too_much = total > limits.max_total;
        if !too_much && (free >= needed || i >= floor) {
            break;
        }
        if held.writing == Some(&file.path) {
            continue;
        }
        plan.delete.push(i);
        plan.for_total += usize::from(too_much);
        total -= file.bytes.min(total);
        free = free.saturating_add(file.bytes);
    }
    if total > limits.max_total {
        plan.short = Some(Short::Total);
    } else if free < needed {
        plan.short = Some(Short::Free(free));
    }
    plan
}

/// The first of the newest files that stay however little is free: [`Limits::keep_at_least`], and
/// one in any case.
fn floor(limits: &Limits, files: &[FileInfo]) -> usize {
    let mut kept = 0u64;
    let stays = |(_, file): &(usize, &FileInfo)| {
        let stays = kept < limits.keep_at_least;
        kept = kept.saturating_add(file.bytes);
        stays
    };
    let by_bytes = files.iter().enumerate().rev().take_while(stays).map(|(i, _)| i).last();
    by_bytes.unwrap_or(files.len()).min(files.len().saturating_sub(1))
}

/// Which of the files are older than they may be. `age`: since a file's last content; `None` where
/// that is not known.
pub fn expired(
    limits: &Limits,
    files: &[FileInfo],
    writing: Option<&Path>,
    age: impl Fn(usize) -> Option<Duration>,
) -> Vec<usize> {
    let Some(limit) = limits.max_age else { return Vec::new() };
    // Oldest first, and no further than the first that may stay: history has no holes.
    let old = |(i, file): &(usize, &FileInfo)| {
        writing != Some(&file.path) && age(*i).is_some_and(|age| age > limit)
    };
    files.iter().enumerate().take_while(old).map(|(i, _)| i).collect()
}
