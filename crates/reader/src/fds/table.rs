//! What the descriptors of one process stand for.

use std::sync::Arc;

use flightrec_format::decode::Call;
use rustc_hash::FxHashMap;

/// What one descriptor stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    /// A path as it was opened, or the kernel's name for what is no file. Empty: the path was
    /// left out.
    pub(super) name: Arc<[u8]>,
    /// Whether it is closed when a program is executed; `None`: not known.
    pub(super) cloexec: Option<bool>,
}

/// The descriptors that are known, of one process, or of several that share them.
#[derive(Debug, Clone, Default)]
pub struct FdTable {
    files: FxHashMap<i32, File>,
}

impl FdTable {
    /// What `fd` stands for.
    pub fn name(&self, fd: i32) -> Option<&[u8]> {
        self.files.get(&fd).map(|file| &*file.name).filter(|name| !name.is_empty())
    }

    pub(super) fn get(&self, fd: i32) -> Option<&File> {
        self.files.get(&fd)
    }

    pub(super) fn get_mut(&mut self, fd: i32) -> Option<&mut File> {
        self.files.get_mut(&fd)
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Makes `fd` stand for `file`; for nothing that is known where there is none.
    pub(super) fn set(&mut self, fd: i32, file: Option<File>) {
        match file {
            Some(file) => self.files.insert(fd, file),
            None => self.files.remove(&fd),
        };
    }

    /// Gives what has one name, as the same open file has, another one.
    pub(super) fn rename(&mut self, before: &Arc<[u8]>, name: &Arc<[u8]>) {
        for file in self.files.values_mut().filter(|file| Arc::ptr_eq(&file.name, before)) {
            file.name = name.clone();
        }
    }

    /// Closes what an exec closes; also what it may close, as a name must not be a guess.
    pub(super) fn exec(&mut self) {
        self.files.retain(|_, file| file.cloexec == Some(false));
    }

    /// Closes `first` to `last`.
    pub(super) fn close_range(&mut self, first: u32, last: u32) {
        self.files.retain(|fd, _| !(first..=last).contains(&(*fd as u32)));
    }

    /// Has `first` to `last` closed by the next exec.
    pub(super) fn cloexec_range(&mut self, first: u32, last: u32) {
        for (fd, file) in &mut self.files {
            if (first..=last).contains(&(*fd as u32)) {
                file.cloexec = Some(true);
            }
        }
    }
}

/// What one descriptor stood for.
pub type Named = (i32, Arc<[u8]>);

/// The names of a thread's descriptors at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct FdNames<'a> {
    pub(super) table: Option<&'a FdTable>,
    /// These come first: a descriptor that the call which ends now has closed, or names that were
    /// kept.
    pub(super) first: &'a [Named],
    /// And these next.
    pub(super) more: &'a [Named],
    /// Of an entry and its exit in one: what descriptors stood for when the call returned.
    pub(super) made: Option<&'a [Named]>,
    /// Descriptors that are not here may stand for anything that was opened while events are
    /// missing.
    pub(super) lost: bool,
}

impl<'a> FdNames<'a> {
    /// Names that were kept.
    pub fn kept(names: &'a [Named]) -> Self {
        Self { first: names, ..Self::default() }
    }

    /// What `fd` stands for, where the recording tells.
    pub fn get(&self, fd: i32) -> Option<&'a [u8]> {
        match self.known(fd) {
            Some((_, name)) => Some(&**name).filter(|name| !name.is_empty()),
            None => self.table?.name(fd),
        }
    }

    /// What a descriptor stands for that the call has returned: since then, and not, as
    /// [`Self::get`], when it began.
    pub fn made(&self, fd: i32) -> Option<&'a [u8]> {
        let Some(made) = self.made else { return self.get(fd) };
        let (_, name) = made.iter().find(|(known, _)| *known == fd)?;
        Some(&**name).filter(|name| !name.is_empty())
    }

    /// Whether the path that `fd` stands for was left out, or the call that opened it is missing.
    pub fn is_lost(&self, fd: i32) -> bool {
        let name = self.known(fd).map(|(_, name)| name);
        let name = name.or_else(|| self.table?.get(fd).map(|file| &file.name));
        name.map_or(self.lost && fd >= 0, |name| name.is_empty())
    }

    /// Keeps the names of those that a call may be about: its arguments and what it returned.
    pub fn keep(&self, call: &Call, ret: Option<i64>) -> Kept {
        if self.table.is_none() && self.first.is_empty() && self.more.is_empty() {
            return Kept::default();
        }
        let args = call.args.iter().take(usize::from(call.nargs)).map(|arg| *arg as i32);
        self.keep_ones(args.chain(ret.map(|ret| ret as i32)))
    }

    /// Keeps the names of some.
    pub fn keep_ones(&self, fds: impl IntoIterator<Item = i32>) -> Kept {
        let mut kept = Kept::default();
        for fd in fds {
            let known = self.known(fd).map(|(_, name)| name);
            let name = known.or_else(|| self.table?.get(fd).map(|file| &file.name));
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                kept.add((fd, name.clone()));
            }
        }
        kept
    }

    fn known(&self, fd: i32) -> Option<&'a Named> {
        self.first.iter().chain(self.more).find(|(known, _)| *known == fd)
    }
}

/// Names that are kept. Most calls are about one descriptor at most, which then takes no memory of
/// its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    first: Option<Named>,
    more: Vec<Named>,
    /// Of an entry and its exit in one: those of the exit.
    made: Option<Box<[Named]>>,
}

impl Kept {
    /// The names.
    pub fn names(&self) -> FdNames<'_> {
        FdNames {
            table: None,
            first: self.first.as_slice(),
            more: &self.more,
            made: self.made.as_deref(),
            lost: false,
        }
    }

    /// Adds the names that the call's exit has: arguments have those of before the call, and what it
    /// returned has its name since.
    pub fn end(&mut self, exit: Self) {
        self.made = Some(exit.first.into_iter().chain(exit.more).collect());
    }

    fn add(&mut self, named: Named) {
        if self.first.is_none() {
            self.first = Some(named);
        } else if self.names().known(named.0).is_none() {
            self.more.push(named);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(names: &[(i32, &str)]) -> Kept {
        let mut kept = Kept::default();
        for (fd, name) in names {
            kept.add((*fd, name.as_bytes().into()));
        }
        kept
    }

    #[test]
    fn arguments_are_of_before_the_call_and_results_of_after_it() {
        // dup2(4, 41)
        let (before, after) = (kept(&[(4, "/b"), (41, "/a")]), kept(&[(4, "/b"), (41, "/b")]));
        let mut whole = before.clone();
        whole.end(after.clone());
        assert_eq!(
            (whole.names().get(41), whole.names().made(41)),
            (Some(&b"/a"[..]), Some(&b"/b"[..]))
        );
        assert_eq!(after.names().made(41), Some(&b"/b"[..]), "an exit by itself");
        let mut closed = kept(&[(4, "/b")]);
        closed.end(after);
        assert_eq!((closed.names().get(41), closed.names().made(41)), (None, Some(&b"/b"[..])));
        let mut lost = before;
        lost.end(kept(&[(4, "/b")]));
        assert_eq!(lost.names().made(41), None, "not known is not what was before");
    }
}
