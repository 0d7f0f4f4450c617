//! What file descriptors stand for, followed through the stream of events.
//!
//! A descriptor is known from the call that made it: by the path as it was opened (relative to what
//! only its process knows, where it was opened so), or by the kernel's name for what is no file.
//! What was opened before the events begin, came through a pipe(2) or by SCM_RIGHTS, is known from
//! the recording's snapshots (`settle`), from its last change before one on. Others stay numbers.
//! So does everything of a process beyond `FILES_MAX` names in all.

mod io_uring;
mod object;
mod processes;
mod role;
mod settle;
mod table;
#[cfg(test)]
mod tests;
mod users;
mod watch;

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use flightrec_format::abi::kinds::{IoComplete, Kind};
use flightrec_format::abi::pointee::Shape;
use flightrec_format::abi::record::{Act, SHARES_FILES, StringStatus, errno};
use flightrec_format::architecture::Architecture;
use flightrec_format::decode::{Body, Call, Event, Text};
use flightrec_format::descriptors::{Object, Socket};
use flightrec_format::merge::Merge;
use flightrec_format::meta::Meta;
use flightrec_format::ring::LaneStream;

pub use self::object::is_socket;
use self::role::{CLOEXEC, Cloexec, Role, Roles};
pub use self::role::{is_unsure, makes_descriptor};
use self::settle::{Ends, News, Settled};
use self::table::File;
pub use self::table::{FdNames, FdTable, Kept, Named};
pub(crate) use self::users::Users;
use crate::names::set_for;
use crate::open_calls::OpenCalls;
use crate::source::PageSet;
use crate::threads::Threads;
use crate::window::Window;

/// Most names that are kept, of all processes together.
const FILES_MAX: usize = 1 << 18;
/// Most processes and threads that have a table.
const HOLDERS_MAX: usize = 1 << 18;
/// What the name of a socket begins with of which no more is known than its kind.
const SOCKET: &[u8] = b"socket:";
/// Longest name that is put together from a directory's and a path.
const NAME_MAX: usize = 1024;

/// Whether descriptors are shown by what they stand for, and what is read for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Naming {
    /// Numbers only.
    Off,
    /// Descriptors that were opened in the window or in the 2 s before it, or are in the
    /// descriptor snapshots of that time.
    #[default]
    Near,
    /// Descriptors that were opened anywhere in the recording: reads all of it.
    All,
}

/// A call that is on its way.
#[derive(Debug, Clone)]
struct Pending {
    role: Role,
    call: Call,
    closed: Option<Named>,
}

/// A table and how many use it.
#[derive(Debug, Clone, Default)]
struct Shared {
    users: usize,
    table: FdTable,
}

/// Who has a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Holder {
    /// All threads of a process but those that have one of their own.
    Process(u32),
    /// A thread of a process that was created without `CLONE_FILES`, or left its process's table.
    Thread(u32, u32),
}

impl Holder {
    fn process(self) -> u32 {
        match self {
            Self::Process(tgid) | Self::Thread(_, tgid) => tgid,
        }
    }
}

/// The descriptors of all processes at one moment of the stream.
#[derive(Debug, Clone)]
pub struct Fds {
    roles: Roles,
    /// Which table each has.
    keys: FxHashMap<Holder, u64>,
    /// The threads of each process that have one of their own.
    own: FxHashMap<u32, Vec<u32>>,
    tables: FxHashMap<u64, Shared>,
    next_key: u64,
    /// Calls that change descriptors, by thread.
    pending: OpenCalls<Pending>,
    /// Operations of io_uring that do.
    operations: io_uring::Operations,
    /// What the call, or the operation, that ended last closed, and whose it was.
    closed: Option<(u32, [Named; 1])>,
    files: usize,
    /// Processes with another root than the machine's: what their paths begin with is not known.
    rooted: FxHashSet<u32>,
    /// Events were missing, and since then no snapshot has told what was open.
    lost: bool,
    /// Processes that may have descriptors of which nothing is known, and since when: they have
    /// them from one that was in `divided`, or were in it until an exec.
    unknown: FxHashMap<u32, u64>,
    /// Processes of which a snapshot says that their threads have not all the same table, and not
    /// which has which. What was open stays unknown until a snapshot says that they have one.
    divided: FxHashSet<u32>,
    /// What the snapshots tell, as far as its time has not come yet.
    settled: Settled,
    /// Where the recording ends, of which the snapshots are.
    ends: Ends,
}

impl Fds {
    /// Nothing is known yet.
    pub fn new(meta: &Meta) -> Self {
        Self {
            roles: Roles::new(meta),
            keys: FxHashMap::default(),
            own: FxHashMap::default(),
            tables: FxHashMap::default(),
            next_key: 0,
            pending: OpenCalls::default(),
            operations: io_uring::Operations::default(),
            closed: None,
            files: 0,
            rooted: FxHashSet::default(),
            lost: false,
            unknown: FxHashMap::default(),
            divided: FxHashSet::default(),
            settled: Settled::default(),
            ends: Ends::default(),
        }
    }

    /// What a recording's snapshots tell of the time at which its events begin. If nobody wants to
    /// know, nothing is looked for.
    pub fn of(recording: &PageSet, wanted: bool) -> Self {
        let mut fds = Self::new(&recording.meta);
        if wanted {
            fds.settled = Settled::new(recording, None);
            fds.ends = Ends::of(recording);
        }
        fds.advance(0);
        fds
    }

    /// Goes on with what comes next of the same recording: what its snapshots tell of the time
    /// before `from` is known.
    pub fn go_on(&mut self, recording: &PageSet, from: u64) {
        self.settled = Settled::new(recording, Some((&self.ends, from)));
        self.ends = Ends::of(recording);
        while self.settled.next(from.saturating_sub(1)).is_some() {}
    }

    /// Whether what was open is not known, because of what is missing, at any time of a window.
    pub fn is_lost_in(&self, window: Window) -> bool {
        self.settled.is_lost_in(window)
    }

    /// What descriptors stand for after all that a recording holds.
    pub fn at_end(recording: &PageSet) -> Self {
        let (mut fds, mut threads) = (Self::of(recording, true), recording.threads());
        let mut events = Merge::new(recording.streams.iter().map(LaneStream::events));
        let mut spare = Box::default();
        while let Some(event) = events.read(spare) {
            fds.advance(event.time.saturating_sub(1));
            fds.apply(&event, &threads);
            threads.apply(&event);
            spare = event;
        }
        fds.advance(u64::MAX);
        fds
    }

    /// The next event comes, and it is `time` before it: takes in what the snapshots tell of that.
    #[inline]
    pub fn advance(&mut self, time: u64) {
        // The line of the call that closed it is through.
        self.reopen();
        if self.settled.is_due(time) {
            self.settle(time);
        }
    }

    /// Nothing was closed by the call that ended last.
    #[inline]
    fn reopen(&mut self) {
        if self.closed.is_some() {
            self.closed = None;
        }
    }

    #[cold]
    fn settle(&mut self, time: u64) {
        while let Some(news) = self.settled.next(time) {
            match news {
                News::Forget => self.forget_all(),
                News::Known { begin } => {
                    self.lost = false;
                    self.unknown.retain(|_, since| *since >= begin);
                }
                News::Name { process, fd, name, cloexec } => self.learn(process, fd, name, cloexec),
                News::United { process } => {
                    self.divided.remove(&process);
                    self.unite(process, |table| table.len() != 0);
                }
                News::Divided { process } => self.divide(process),
                News::Share { first, other } => {
                    self.share(Holder::Process(first), Holder::Process(other));
                }
            }
        }
    }

    /// No descriptor is known any more; who shares a table with whom still is.
    fn forget_all(&mut self) {
        let is_shared = |key: &u64| self.tables.get(key).is_some_and(|shared| shared.users > 1);
        self.keys.retain(|of, key| matches!(of, Holder::Thread(..)) || is_shared(key));
        let kept: FxHashSet<u64> = self.keys.values().copied().collect();
        self.tables.retain(|key, _| kept.contains(key));
        for shared in self.tables.values_mut() {
            shared.table = FdTable::default();
        }
        self.files = 0;
        self.lost = true;
    }

    /// The threads of a process have tables of their own, and not which has which is known.
    fn divide(&mut self, tgid: u32) {
        self.unite(tgid, |_| true);
        self.forget(Holder::Process(tgid));
        if self.divided.len() < HOLDERS_MAX {
            self.divided.insert(tgid);
        } else {
            self.lost = true;
        }
    }

    /// A process may have descriptors of which nothing is known.
    fn doubt(&mut self, tgid: u32, since: u64) {
        if self.unknown.len() < HOLDERS_MAX {
            self.unknown.insert(tgid, since);
        } else {
            self.lost = true;
        }
    }

    /// No thread of a process has such a table of its own any more.
    fn unite(&mut self, tgid: u32, is_such: impl Fn(&FdTable) -> bool) {
        for tid in self.own.get(&tgid).cloned().unwrap_or_default() {
            let thread = Holder::Thread(tid, tgid);
            let shared = self.keys.get(&thread).and_then(|key| self.tables.get(key));
            if shared.is_some_and(|shared| is_such(&shared.table)) {
                self.forget(thread);
            }
        }
    }

    /// Who has the table of a thread of a process.
    #[inline]
    fn holder(&self, tid: u32, tgid: u32) -> Holder {
        let thread = Holder::Thread(tid, tgid);
        if !self.own.is_empty() && self.keys.contains_key(&thread) {
            thread
        } else {
            Holder::Process(tgid)
        }
    }

    /// A process's descriptor stands for `name`. How a file was opened says more than where it is,
    /// so that name stays.
    fn learn(&mut self, tgid: u32, fd: i32, name: Arc<[u8]>, cloexec: bool) {
        let process = Holder::Process(tgid);
        let name = match self.file(process, fd) {
            Some(known) if !known.name.is_empty() && is_as_opened(&known.name, &name) => {
                known.name.clone()
            }
            _ => name,
        };
        self.set(process, fd, Some(File { name, cloexec: Some(cloexec) }));
    }

    /// The second has the table of the first from now on, whatever is in it.
    fn share(&mut self, first: Holder, other: Holder) {
        if !self.keys.contains_key(&first) {
            self.give(first, FdTable::default());
        }
        let key = self.keys.get(&first).copied();
        if self.keys.get(&other).copied() == key {
            return;
        }
        self.forget(other);
        if let Some(key) = key.filter(|_| self.keys.len() < HOLDERS_MAX)
            && let Some(shared) = self.tables.get_mut(&key)
        {
            shared.users += 1;
            self.hold(other, key);
        }
    }

    fn hold(&mut self, of: Holder, key: u64) {
        self.keys.insert(of, key);
        if let Holder::Thread(tid, tgid) = of {
            self.own.entry(tgid).or_default().push(tid);
        }
    }

    /// The names of a thread's descriptors now; its process is `tgid`.
    pub fn names(&self, tid: u32, tgid: u32) -> FdNames<'_> {
        let key = self.keys.get(&self.holder(tid, tgid));
        let table = key.and_then(|key| self.tables.get(key)).map(|shared| &shared.table);
        let closed =
            self.closed.as_ref().filter(|(of, _)| *of == tid).map(|(_, names)| names.as_slice());
        let lost = self.lost || self.unknown.contains_key(&tgid) || self.divided.contains(&tgid);
        FdNames { table, first: closed.unwrap_or_default(), lost, ..FdNames::default() }
    }

    /// Goes past an event. `threads` are as before it.
    ///
    /// A call's own line is to be written before its entry is passed (which closes), and after its
    /// exit (which opens).
    #[inline]
    pub fn apply(&mut self, event: &Event, threads: &Threads) {
        // Most events change nothing.
        match &event.body {
            Body::Switch { .. } | Body::Waking { .. } | Body::Migrate { .. } => {}
            Body::Enter(call) if self.pending.is_empty() && !self.roles.has(call.abi, call.nr) => {
                self.reopen();
            }
            Body::Exit { call, .. } if !self.roles.has(call.abi, call.nr) => self.reopen(),
            _ => self.pass(event, threads),
        }
        if self.settled.is_due(event.time) {
            self.settle(event.time);
        }
    }

    fn pass(&mut self, event: &Event, threads: &Threads) {
        match &event.body {
            Body::Enter(call) => {
                self.closed = None;
                match self.roles.get(call.abi, call.nr) {
                    Some(role) => {
                        let of = self.holder(event.tid, threads.tgid(event.tid, event.time));
                        self.enter(event.tid, of, role, call);
                    }
                    None if self.pending.is_empty() => {}
                    None => drop(self.pending.end(event.tid)),
                }
            }
            Body::Exit { call, ret, .. } => {
                self.closed = None;
                let Some(role) = self.roles.get(call.abi, call.nr) else { return };
                let of = self.holder(event.tid, threads.tgid(event.tid, event.time));
                match self.pending.end(event.tid) {
                    Some(pending) if pending.role == role => {
                        self.closed = pending.closed.map(|named| (event.tid, [named]));
                        self.exit(event.tid, of, role, (&pending.call, call), *ret);
                    }
                    // The entry is not there; its arguments may have come with the exit.
                    _ => self.exit(event.tid, of, role, (call, call), *ret),
                }
            }
            // Any number of calls were not seen.
            Body::Act(act, _) if *act == Act::Attached as u16 => {
                self.pending.clear();
                self.operations.clear();
                self.forget_all();
            }
            Body::IoSubmit { submit, paths } => {
                self.closed = None;
                let of = self.holder(event.tid, threads.tgid(event.tid, event.time));
                self.submitted(of, submit, paths);
            }
            Body::Plain(plain) if plain.kind() == Kind::IoComplete => {
                if let Some(done) = IoComplete::read(plain.bytes()) {
                    self.completed(event.tid, &done);
                }
            }
            Body::Fork(fork) => {
                let from = self.holder(fork.parent_tid, fork.parent_tgid);
                let shares = fork.shares & SHARES_FILES != 0;
                let is_process = fork.tgid != fork.parent_tgid;
                let to = if is_process {
                    Holder::Process(fork.tgid)
                } else {
                    Holder::Thread(fork.tid, fork.tgid)
                };
                // Somebody else had the id before.
                if is_process {
                    self.unite(fork.tgid, |_| true);
                    self.inherit_root(fork.parent_tgid, fork.tgid);
                    self.divided.remove(&fork.tgid);
                    self.unknown.remove(&fork.tgid);
                    if self.divided.contains(&fork.parent_tgid) {
                        // It may share the table of one of them.
                        if shares {
                            self.divide(fork.tgid);
                        } else {
                            self.doubt(fork.tgid, event.time);
                        }
                    } else if self.unknown.contains_key(&fork.parent_tgid) {
                        self.doubt(fork.tgid, event.time);
                    }
                } else {
                    self.forget(to);
                }
                match (shares, from) {
                    // It has its process's.
                    (true, Holder::Process(_)) if !is_process => {}
                    (true, _) => self.share(from, to),
                    (false, _) => self.copy_table(from, to),
                }
            }
            Body::Exec { exec, .. } => {
                if exec.old_tid != exec.tid {
                    self.pending.rename(exec.old_tid, exec.tid);
                }
                if self.divided.remove(&exec.tgid) {
                    self.doubt(exec.tgid, event.time);
                }
                // The process has the table of the thread that goes on, and shares it with none.
                let process = Holder::Process(exec.tgid);
                let thread = self.holder(exec.old_tid, exec.tgid);
                if thread != process {
                    self.share(thread, process);
                }
                self.unite(exec.tgid, |_| true);
                self.unshare(process);
                self.change(process, FdTable::exec);
            }
            Body::TaskExit(exit) => {
                self.pending.end(exit.tid);
                self.forget(Holder::Thread(exit.tid, exit.tgid));
                if exit.left == 0 {
                    self.forget(Holder::Process(exit.tgid));
                    self.unite(exit.tgid, |_| true);
                    self.rooted.remove(&exit.tgid);
                    self.divided.remove(&exit.tgid);
                    self.unknown.remove(&exit.tgid);
                }
            }
            _ => {}
        }
    }

    fn enter(&mut self, tid: u32, of: Holder, role: Role, call: &Call) {
        let mut closed = None;
        let first = arg(call, 0);
        // The kernel frees a number at once, so that another thread may get it before the call
        // ends.
        match role {
            Role::Close if call.nargs > 0 => {
                let fd = first as i32;
                let name = self.file(of, fd).map(|file| file.name.clone());
                if let Some(name) = name {
                    closed = Some((fd, name));
                    self.change(of, |table| table.set(fd, None));
                }
            }
            // A table of its own is made, and changed, if the call succeeds.
            Role::CloseRange
                if call.nargs >= 3 && arg(call, 2) & libc::CLOSE_RANGE_UNSHARE != 0 => {}
            Role::CloseRange if call.nargs >= 3 => self.close_range(of, call),
            // How far it closes was left out.
            Role::CloseRange if call.nargs > 0 => {
                self.change(of, |table| table.close_range(first, u32::MAX));
            }
            _ => {}
        }
        self.pending.begin(tid, call, || Pending { role, call: call.clone(), closed });
    }

    /// `call` has the arguments, `told` what the kernel told when it returned.
    fn exit(&mut self, tid: u32, of: Holder, role: Role, (call, told): (&Call, &Call), ret: i64) {
        // A socket that is not connected yet has an address.
        let is_connecting = role == Role::Address && ret == -i64::from(libc::EINPROGRESS);
        if errno(ret).is_some() && !is_connecting {
            return;
        }
        let made = ret as i32;
        let known = call.nargs > 0;
        let first = arg(call, 0) as i32;
        match role {
            Role::Open { dir, path, cloexec } => {
                let dir = dir.filter(|_| known).map(|index| arg(call, index) as i32);
                let name = match Opening::of(call, cloexec) {
                    Opening::Path => self.opened(of, dir, string(call, path)),
                    Opening::InRoot => string(call, path).and_then(|path| match within(&path) {
                        Some(path) => self.opened(of, dir, Some(path)),
                        None => Some(Arc::from([])),
                    }),
                    Opening::Unnamed => return self.set(of, made, None),
                    Opening::Unknown => Some(Arc::from([])),
                };
                let name = name.or_else(|| given_up(call, path));
                self.set(of, made, name.map(|name| File { name, cloexec: flag(call, cloexec) }));
            }
            Role::Make { name, cloexec } => {
                let file = File { name: name.as_bytes().into(), cloexec: flag(call, cloexec) };
                self.set(of, made, Some(file));
            }
            Role::Foreign { cloexec } => {
                let file = File { name: Arc::from([]), cloexec: flag(call, cloexec) };
                self.set(of, made, Some(file));
            }
            Role::Memfd => {
                let name = string(call, 0).map(|name| [b"/memfd:", name.as_slice()].concat());
                let cloexec = flag(call, Cloexec::Flag(1, libc::MFD_CLOEXEC));
                self.set(of, made, name.map(|name| File { name: name.into(), cloexec }));
            }
            Role::Socket => {
                let name = (call.nargs >= 2).then(|| socket(arg(call, 0), arg(call, 1)));
                let cloexec = flag(call, Cloexec::Flag(1, CLOEXEC));
                self.set(of, made, name.map(|name| File { name, cloexec }));
            }
            Role::Address if known => {
                if let Some(name) = socket_of(told) {
                    self.rename(of, first, &name);
                }
            }
            Role::Accept { cloexec } => {
                // Where the kernel does not tell, it is of the kind that the listening one is.
                let kind = || {
                    let listener = self.file(of, first).filter(|_| known);
                    let is_kind = |of: &Arc<[u8]>| of.starts_with(SOCKET) && !is_socket(of);
                    listener.map(|of| of.name.clone()).filter(is_kind)
                };
                let name = socket_of(told).or_else(kind);
                self.set(of, made, name.map(|name| File { name, cloexec: flag(call, cloexec) }));
            }
            Role::Dup => self.copy(of, known.then_some(first), made, Some(false)),
            Role::Chroot if self.rooted.len() < HOLDERS_MAX => {
                self.rooted.insert(of.process());
            }
            Role::CloseRange
                if call.nargs >= 3 && arg(call, 2) & libc::CLOSE_RANGE_UNSHARE != 0 =>
            {
                let own = self.leave(tid, of);
                self.close_range(own, call);
            }
            Role::Unshare if !known || first & libc::CLONE_FILES != 0 => drop(self.leave(tid, of)),
            // A copy onto itself changes nothing.
            Role::DupTo { cloexec } if !known || first != made => {
                self.copy(of, known.then_some(first), made, flag(call, cloexec));
            }
            Role::Fcntl if call.nargs >= 2 => match arg(call, 1) as i32 {
                libc::F_DUPFD => self.copy(of, Some(first), made, Some(false)),
                libc::F_DUPFD_CLOEXEC => self.copy(of, Some(first), made, Some(true)),
                libc::F_SETFD => {
                    self.set_cloexec(of, first, arg(call, 2) & libc::FD_CLOEXEC as u32 != 0);
                }
                _ => {}
            },
            Role::Ioctl if call.nargs >= 2 => match u64::from(arg(call, 1)) {
                libc::FIOCLEX => self.set_cloexec(of, first, true),
                libc::FIONCLEX => self.set_cloexec(of, first, false),
                _ => {}
            },
            _ => {}
        }
    }

    /// Does what a `close_range` says, whose arguments are known.
    fn close_range(&mut self, of: Holder, call: &Call) {
        let (first, last) = (arg(call, 0), arg(call, 1));
        if arg(call, 2) & libc::CLOSE_RANGE_CLOEXEC != 0 {
            self.change(of, |table| table.cloexec_range(first, last));
        } else {
            self.change(of, |table| table.close_range(first, last));
        }
    }

    /// The name of what is opened by a path that may begin in a directory.
    fn opened(&self, of: Holder, dir: Option<i32>, path: Option<Vec<u8>>) -> Option<Arc<[u8]>> {
        let path = path?;
        if path.first() == Some(&b'/') {
            let is_known = self.rooted.is_empty() || !self.rooted.contains(&of.process());
            return Some(if is_known { path.into() } else { Arc::from([]) });
        }
        // Relative to the working directory, which is not recorded, it stays as it was given.
        let dir = dir.and_then(|fd| self.file(of, fd));
        match dir {
            Some(dir) if !dir.name.is_empty() && dir.name.len() + path.len() < NAME_MAX => {
                Some(joined(&dir.name, &path).into())
            }
            _ => Some(path.into()),
        }
    }

    fn file(&self, of: Holder, fd: i32) -> Option<&File> {
        self.tables.get(self.keys.get(&of)?)?.table.get(fd)
    }

    fn copy(&mut self, of: Holder, from: Option<i32>, to: i32, cloexec: Option<bool>) {
        let name = from.and_then(|fd| self.file(of, fd)).map(|file| file.name.clone());
        self.set(of, to, name.map(|name| File { name, cloexec }));
    }

    fn set_cloexec(&mut self, of: Holder, fd: i32, on: bool) {
        self.change(of, |table| {
            if let Some(file) = table.get_mut(fd) {
                file.cloexec = Some(on);
            }
        });
    }

    fn set(&mut self, of: Holder, fd: i32, file: Option<File>) {
        // What can't be kept is not known, but what the number stood for before is over as well.
        let is_divided = !self.divided.is_empty() && self.divided.contains(&of.process());
        let file = file.filter(|_| self.files < FILES_MAX && !is_divided);
        if file.is_some() && !self.keys.contains_key(&of) {
            self.give(of, FdTable::default());
        }
        self.change(of, |table| table.set(fd, file));
    }

    /// A socket has another name: so have its copies, whoever has them. A name that tells its kind
    /// alone stays true.
    fn rename(&mut self, of: Holder, fd: i32, name: &Arc<[u8]>) {
        let before = self.file(of, fd).cloned();
        let cloexec = before.as_ref().and_then(|file| file.cloexec);
        self.set(of, fd, Some(File { name: name.clone(), cloexec }));
        let Some(File { name: before, .. }) = before else { return };
        let is_kind = before.starts_with(SOCKET) && !is_socket(&before);
        if !is_kind && Arc::strong_count(&before) > 1 {
            self.tables.values_mut().for_each(|shared| shared.table.rename(&before, name));
        }
    }

    /// Changes somebody's table, if there is one.
    fn change(&mut self, of: Holder, change: impl FnOnce(&mut FdTable)) {
        if let Some(shared) = self.keys.get(&of).and_then(|key| self.tables.get_mut(key)) {
            let before = shared.table.len();
            change(&mut shared.table);
            self.files = self.files + shared.table.len() - before;
        }
    }

    /// Gives somebody a table that nobody else has.
    fn give(&mut self, of: Holder, table: FdTable) {
        self.forget(of);
        if self.keys.len() >= HOLDERS_MAX {
            return;
        }
        self.next_key += 1;
        self.files += table.len();
        self.tables.insert(self.next_key, Shared { users: 1, table });
        self.hold(of, self.next_key);
    }

    /// The second has a copy of the table of the first. A thread has one of its own in any case.
    fn copy_table(&mut self, from: Holder, to: Holder) {
        let shared = self.keys.get(&from).and_then(|key| self.tables.get(key));
        let fits = shared.filter(|shared| self.files + shared.table.len() <= FILES_MAX);
        match fits.map(|shared| shared.table.clone()) {
            Some(copy) => self.give(to, copy),
            None if matches!(to, Holder::Thread(..)) => self.give(to, FdTable::default()),
            None => self.forget(to),
        }
    }

    /// From now on a thread shares its table with none: neither with other processes nor with the
    /// threads of its own. Who has it.
    fn leave(&mut self, tid: u32, of: Holder) -> Holder {
        match of {
            Holder::Process(tgid) => {
                let thread = Holder::Thread(tid, tgid);
                self.copy_table(of, thread);
                thread
            }
            Holder::Thread(..) => {
                self.unshare(of);
                of
            }
        }
    }

    /// From now on somebody shares a table with none.
    fn unshare(&mut self, of: Holder) {
        let key = self.keys.get(&of);
        let shared = key.and_then(|key| self.tables.get(key)).filter(|shared| shared.users > 1);
        if let Some(shared) = shared {
            let fits = self.files + shared.table.len() <= FILES_MAX;
            let copy = if fits { shared.table.clone() } else { FdTable::default() };
            self.give(of, copy);
        }
    }

    /// A new process has its creator's root.
    fn inherit_root(&mut self, parent: u32, child: u32) {
        if self.rooted.is_empty() {
            return;
        }
        self.rooted.remove(&child);
        if self.rooted.contains(&parent) {
            if self.rooted.len() < HOLDERS_MAX {
                self.rooted.insert(child);
            } else {
                self.lost = true;
            }
        }
    }

    /// It has no table any more.
    fn forget(&mut self, of: Holder) {
        let Some(key) = self.keys.remove(&of) else { return };
        if let Holder::Thread(tid, tgid) = of
            && let Some(threads) = self.own.get_mut(&tgid)
        {
            threads.retain(|thread| *thread != tid);
            if threads.is_empty() {
                self.own.remove(&tgid);
            }
        }
        let Some(shared) = self.tables.get_mut(&key) else { return };
        shared.users -= 1;
        if shared.users == 0 {
            self.files -= shared.table.len();
            self.tables.remove(&key);
        }
    }
}

/// Whether a name by which a descriptor is known is to stay where the kernel calls its file `name`.
fn is_as_opened(known: &[u8], name: &[u8]) -> bool {
    match (known.first(), name.first()) {
        (Some(b'/'), _) => true,
        // A relative path: the kernel's is better, if it is the same file's, under the same name.
        (_, Some(b'/')) => {
            known.rsplit(|b| *b == b'/').next() != name.rsplit(|b| *b == b'/').next()
        }
        _ => false,
    }
}

/// A path in a directory.
pub fn joined(directory: &[u8], path: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if directory.ends_with(b"/") || path.is_empty() { b"" } else { b"/" };
    [directory, slash, path].concat()
}

/// An argument's lower half: descriptors, flags and commands are all 32 bits wide.
fn arg(call: &Call, index: u8) -> u32 {
    call.args.get(usize::from(index)).map_or(0, |value| *value as u32)
}

/// The name of the socket that a call bound, connected or returned; `None`: not recorded.
fn socket_of(told: &Call) -> Option<Arc<[u8]>> {
    let mut pointees = told.strings.iter().filter_map(Text::pointee);
    let (_, _, bytes) = pointees.find(|(shape, ..)| *shape == Shape::Socket)?;
    object::shown(&Object::Socket(Socket::read(bytes)?)).map(|shown| shown.name)
}

/// Whether an openat2 takes its directory as the root of its path (`RESOLVE_IN_ROOT`); `None`: it is
/// not recorded.
pub fn is_in_root(call: &Call) -> Option<bool> {
    let mut pointees = call.strings.iter().filter_map(Text::pointee);
    let (_, _, how) = pointees.find(|(shape, ..)| *shape == Shape::OpenHow)?;
    let resolve = u64::from_le_bytes(*how.get(16..)?.first_chunk()?);
    Some(resolve & libc::RESOLVE_IN_ROOT != 0)
}

/// A member of 64 bits of a structure that an argument points to; `None`: not recorded.
fn member(call: &Call, index: u8, shape: Shape, at: usize) -> Option<u64> {
    let of_argument = |text: &&Text| text.argument() == usize::from(index);
    let mut pointees = call.strings.iter().filter(of_argument).filter_map(Text::pointee);
    let (_, _, bytes) = pointees.find(|(of, _, _)| *of == shape)?;
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// What the path means that a call is given which opens something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// What it says.
    Path,
    /// The same, with the directory as root (`RESOLVE_IN_ROOT`).
    InRoot,
    /// The directory of a file that has no name (`O_TMPFILE`).
    Unnamed,
    /// Its flags are not recorded.
    Unknown,
}

impl Opening {
    fn of(call: &Call, flags: Cloexec) -> Self {
        /// `__O_TMPFILE`, include/uapi/asm-generic/fcntl.h; `O_TMPFILE` without `O_DIRECTORY`.
        const TMPFILE: u64 = 0o20_000_000;
        let (flags, resolve) = match flags {
            Cloexec::Flag(index, _) if index < call.nargs => (arg(call, index).into(), 0),
            Cloexec::How(index, _) => {
                let of = |at| member(call, index, Shape::OpenHow, at);
                let (Some(flags), Some(resolve)) = (of(0), of(16)) else { return Self::Unknown };
                (flags, resolve)
            }
            Cloexec::Flag(..) => return Self::Unknown,
            Cloexec::Always | Cloexec::Never => (0, 0),
        };
        if flags & TMPFILE != 0 {
            Self::Unnamed
        } else if resolve & libc::RESOLVE_IN_ROOT != 0 {
            Self::InRoot
        } else {
            Self::Path
        }
    }
}

/// A path in a directory that is its root, from there; `None`: it may lead up, where it stays in
/// that root.
pub fn within(path: &[u8]) -> Option<Vec<u8>> {
    let leads_up = path.split(|byte| *byte == b'/').any(|part| part == b"..");
    let start = path.iter().take_while(|byte| **byte == b'/').count();
    (!leads_up).then(|| path.get(start..).unwrap_or_default().to_vec())
}

fn flag(call: &Call, cloexec: Cloexec) -> Option<bool> {
    match cloexec {
        Cloexec::How(index, bit) => {
            member(call, index, Shape::OpenHow, 0).map(|flags| flags & u64::from(bit) != 0)
        }
        Cloexec::Flag(index, bit) if index < call.nargs => Some(arg(call, index) & bit != 0),
        Cloexec::Flag(..) => None,
        Cloexec::Always => Some(true),
        Cloexec::Never => Some(false),
    }
}

/// The name of what a call has opened by a path that was not recorded: [`FdNames::is_lost`].
fn given_up(call: &Call, path: u8) -> Option<Arc<[u8]>> {
    let index = usize::from(path);
    let is_given = index >= usize::from(call.nargs) || call.args.get(index) != Some(&0);
    let is_read = call.strings.iter().any(|text| text.index == path);
    (is_given && !is_read).then(|| Arc::from([]))
}

/// A string argument; `...` after it where it was cut.
fn string(call: &Call, index: u8) -> Option<Vec<u8>> {
    path(call.strings.iter().find(|text| text.index == index)?)
}

/// The same of what is recorded of a path.
fn path(text: &Text) -> Option<Vec<u8>> {
    match text.status {
        StringStatus::Whole => Some(text.bytes.to_vec()),
        StringStatus::Cut | StringStatus::Ends => {
            let (head, tail) = text.parts();
            Some([head, b"...", tail.unwrap_or_default()].concat())
        }
        StringStatus::Unreadable => None,
    }
}

/// `socket:AF_INET,SOCK_STREAM`: the kernel's own name has a number that is not recorded. (These
/// names are the same on all machines.)
fn socket(family: u32, kind: u32) -> Arc<[u8]> {
    let mut name = SOCKET.to_vec();
    for (argument, value) in [("family", family), ("type", kind & 0xf)] {
        if name.len() > SOCKET.len() {
            name.push(b',');
        }
        match set_for(Architecture::default(), "socket", argument)
            .and_then(|set| set.name(u64::from(value)))
        {
            Some(known) => name.extend_from_slice(known.as_bytes()),
            None if value == 0 => name.push(b'0'),
            None => name.extend_from_slice(format!("{value:#x}").as_bytes()),
        }
    }
    name.into()
}
