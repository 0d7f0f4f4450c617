//! Processes that publish for which spans of distributed traces their threads work (OTEP 4947,
//! "Thread Context"): found, and entered into the table by which the probes read it
//! (`format::abi::publisher`).
//!
//! A thread of its own looks at each process: which files it has mapped, and whether one of them
//! has the variable (`variable`). Both it asks programs in the kernel, `walk_mappings` and
//! `peek_memory`, since the daemon has no rights over other users' processes. It may hang where the
//! process does (see [`crate::binaries`]); nobody waits for it.
//!
//! A process is looked at when it is first seen, and again after a second, two, four, up to
//! `LONGEST`, since it may load a library later. That takes a thousandth of a CPU (`FILL`), and
//! `BURST` at the start, so a machine with many processes is gone through little by little. What a
//! file has is remembered, so of another process of the same user with the same files only their
//! list is read. Not of another user's: a process may change what it has mapped, and mount another
//! file system with files of the same names and numbers.
//!
//! The table has few places. Where those of a process are taken, a user who has more of them than
//! its own gives one up.

mod variable;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use flightrec_format::abi::publisher::{
    PEEK_MAX, PUBLISHER_WAYS, Peek, Publisher, Publishers as Table, publisher_place,
};
use flightrec_format::abi::slot::KTHREAD;
use flightrec_format::architecture::Architecture;
use flightrec_format::live::map::ArrayMap;
use flightrec_format::live::{self, sys};
use flightrec_format::slots;
use tracing::{debug, warn};

use self::variable::{Defined, Layout, Memory, Variable};
use crate::attachments::{MAPPING_WALK, MEMORY_PEEK};
use crate::binaries::{self, Files};
use crate::recording::Recording;
use crate::{clock, load};

/// How often it is looked for new processes.
const TICK: Duration = Duration::from_secs(1);
/// CPU time that looking may take of each tick, ns.
const FILL: i64 = 1_000_000;
/// What it may take that it has not taken before, ns.
const BURST: i64 = 100_000_000;
/// Most that it takes of a tick, ns.
const SLICE: i64 = 10_000_000;
/// Pieces of a process's memory that are read each time at most. Most processes take none, as their
/// files are known.
const PEEKS: u32 = 4096;
/// Ticks after which a process is looked at again at the latest.
const LONGEST: u64 = 64;
/// Most files that are remembered.
const FILES_MAX: usize = 4096;

/// Starts the thread, if the recording has what it takes. It ends with the daemon.
pub fn start(recording: &Arc<Recording>) {
    let open = || -> io::Result<Finder> {
        let map = |name| ArrayMap::open(&recording.map_path(name), true);
        let program = |name| sys::obj_get(&recording.programs().join(name));
        Ok(Finder {
            recording: Arc::downgrade(recording),
            asking: Asking {
                walk: program(MAPPING_WALK)?,
                peek: program(MEMORY_PEEK)?,
                peeked: map(load::PEEKED)?,
            },
            entered: Entered { table: map(load::PUBLISHERS)?, processes: BTreeMap::new() },
            processes: HashMap::new(),
            files: HashMap::new(),
            allowed: BURST,
        })
    };
    // Why there are no such programs, the recording's metadata say.
    let Ok(mut finder) = open() else { return };
    finder.entered.clear();
    let run = move || {
        let mut tick = 0;
        while finder.look(tick).is_some() {
            tick += 1;
            thread::sleep(TICK);
        }
    };
    if let Err(e) = thread::Builder::new().name("publishers".into()).spawn(run) {
        warn!("contexts of threads are not recorded: a thread could not be started: {e}");
    }
}

/// When a process is looked at.
#[derive(Debug, Clone, Copy)]
struct Due {
    /// The tick at which it is.
    next: u64,
    /// Ticks from then to the next time.
    pause: u64,
}

/// What a file is known by: the user whose process has it, its path, its inode number, and where its
/// first piece ends.
type FileName = (u64, String, u64, u64);

/// What finds them.
struct Finder {
    /// Whose table of threads has all processes.
    recording: Weak<Recording>,
    asking: Asking,
    entered: Entered,
    processes: HashMap<u32, Due>,
    files: HashMap<FileName, Defined>,
    /// CPU time that it may take now, ns; below 0 after what took more.
    allowed: i64,
}

impl Finder {
    /// Looks at the processes that are due. `None`: the recording has ended.
    fn look(&mut self, tick: u64) -> Option<()> {
        let began = clock::thread_cpu();
        self.allowed = (self.allowed + FILL).min(BURST);
        let most = self.allowed.min(SLICE);
        let spent = || clock::thread_cpu().saturating_sub(began) as i64;
        let alive = processes(self.recording.upgrade()?.live());
        self.processes.retain(|pid, _| alive.contains(pid));
        self.entered.keep(&alive);
        for pid in alive {
            self.processes.entry(pid).or_insert(Due { next: tick, pause: 1 });
        }
        // Those first that are young.
        let due = self.processes.iter().filter(|(_, due)| due.next <= tick);
        let mut due: Vec<(u64, u64, u32)> =
            due.map(|(pid, due)| (due.pause, tick - due.next, *pid)).collect();
        due.sort_unstable();
        for (.., pid) in due {
            if spent() >= most {
                break;
            }
            self.examine(pid);
            if let Some(due) = self.processes.get_mut(&pid) {
                *due = Due { next: tick + due.pause, pause: (due.pause * 2).min(LONGEST) };
            }
        }
        self.allowed -= spent();
        Some(())
    }

    /// Looks at one process, and enters what is found.
    fn examine(&mut self, pid: u32) {
        let files = self.asking.files(pid);
        let Some((mm, user)) = files.first().map(|(mapping, _)| (mapping.mm, mapping.user)) else {
            // A kernel thread, or it has ended.
            return;
        };
        let memory = ProcessMemory { asking: &self.asking, pid, left: Cell::new(PEEKS) };
        let found = find(&memory, &files, &mut self.files);
        self.entered.enter(pid, (mm, user), found);
    }
}

/// The ids of all processes, by the recording's table of threads: the service does not see those
/// of other users in /proc (`ProtectProc=invisible`).
fn processes(live: &live::LiveRings) -> HashSet<u32> {
    let slots = live.slots().flat_map(|page| slots::read(&page).collect::<Vec<_>>());
    slots.filter(|slot| slot.flags & KTHREAD == 0).map(|slot| slot.tgid).collect()
}

/// Where a process has the variable: in the first of its files that has it, which is the program's
/// own before any library.
fn find(
    memory: &impl Memory,
    files: &Files,
    known: &mut HashMap<FileName, Defined>,
) -> Option<Variable> {
    let layout = Layout::of(Architecture::HERE);
    let mut seen = HashSet::new();
    for (mapping, path) in files {
        // Pieces of a file follow one another; the first one begins with its head. To read memory
        // of devices may have effects.
        let is_device = ["/dev/", "/proc/", "/sys/"].iter().any(|of| path.starts_with(of));
        if is_device || !seen.insert((path, mapping.inode)) {
            continue;
        }
        let length = mapping.end.wrapping_sub(mapping.start);
        let name = (mapping.user, path.clone(), mapping.inode, length);
        let defined = if let Some(defined) = known.get(&name) {
            *defined
        } else {
            // Not all there: it is looked at again.
            let Some(defined) = variable::look_up(memory, layout, mapping.start) else { continue };
            if known.len() >= FILES_MAX {
                known.clear();
            }
            known.insert(name, defined);
            defined
        };
        let found = match defined {
            Defined::No => None,
            Defined::Program(variable) => Some(variable),
            Defined::Library(slot) => variable::resolve(memory, layout, mapping.start, &slot),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// The programs that ask processes.
struct Asking {
    walk: OwnedFd,
    peek: OwnedFd,
    peeked: ArrayMap,
}

impl Asking {
    /// The files that a process has mapped, by address.
    fn files(&self, pid: u32) -> Files {
        binaries::files(&self.walk, pid)
    }

    /// A piece of a process's memory.
    fn peek(&self, pid: u32, address: u64, to: &mut [u8]) -> Option<()> {
        let ask = |at, value: u64| self.peeked.write(0, at, &value.to_le_bytes());
        ask(offset_of!(Peek, found), 0);
        ask(offset_of!(Peek, address), address);
        ask(offset_of!(Peek, length), to.len() as u64);
        let file = sys::iterate_thread(self.peek.as_fd(), pid).ok()?;
        // It writes nothing there: reading runs it.
        let _nothing = fs::File::from(file).read(&mut [0; 8]).ok()?;
        if self.peeked.load(0, offset_of!(Peek, found)) != 1 {
            return None;
        }
        // By whole words.
        let mut words = vec![0; to.len().next_multiple_of(8)];
        self.peeked.read(0, offset_of!(Peek, bytes), &mut words);
        to.copy_from_slice(words.get(..to.len())?);
        Some(())
    }
}

/// Memory of a process.
struct ProcessMemory<'a> {
    asking: &'a Asking,
    pid: u32,
    /// Pieces that may still be read.
    left: Cell<u32>,
}

impl Memory for ProcessMemory<'_> {
    fn read(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut at = address;
        for piece in bytes.chunks_mut(PEEK_MAX) {
            self.left.set(self.left.get().checked_sub(1)?);
            self.asking.peek(self.pid, at, piece)?;
            at = at.checked_add(piece.len() as u64)?;
        }
        Some(bytes)
    }
}

/// A place for a process of a user, and the process that gives it up: a free one, or one of a user
/// who has at least two more of the places that it may be in.
fn place(processes: &BTreeMap<u32, Place>, pid: u32, user: u64) -> Option<(usize, Option<u32>)> {
    let first = publisher_place(pid);
    let mut places = first..first + PUBLISHER_WAYS;
    let taken: Vec<(&u32, &Place)> =
        processes.iter().filter(|(_, of)| places.contains(&of.at)).collect();
    let is_free = |place: &usize| taken.iter().all(|(_, of)| of.at != *place);
    if let Some(place) = places.find(is_free) {
        return Some((place, None));
    }
    let of_user = |user| taken.iter().filter(|(_, of)| of.user == user).count();
    // Of those of a user the one that came last: who was there before stays.
    let (loser, place) = taken.iter().max_by_key(|(pid, of)| (of_user(of.user), **pid))?;
    (of_user(place.user) >= of_user(user) + 2).then_some((place.at, Some(**loser)))
}

/// The table of the probes.
struct Entered {
    table: ArrayMap,
    /// What is in it.
    processes: BTreeMap<u32, Place>,
}

/// A place of the table that is taken.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: usize,
    publisher: Publisher,
    user: u64,
}

impl Entered {
    /// Empties it: a daemon before this one knew other processes.
    fn clear(&mut self) {
        self.table.write(0, 0, &vec![0; size_of::<Table>()]);
        self.processes.clear();
    }

    /// Forgets those that have ended.
    fn keep(&mut self, alive: &HashSet<u32>) {
        let ended: Vec<u32> =
            self.processes.keys().filter(|pid| !alive.contains(pid)).copied().collect();
        for pid in ended {
            self.enter(pid, (0, 0), None);
        }
    }

    /// Enters what was found of a process, which may be nothing.
    fn enter(&mut self, pid: u32, (mm, user): (u64, u64), found: Option<Variable>) {
        let publisher = found.map(|Variable { module, offset }| Publisher {
            tgid: pid,
            module,
            mm,
            offset,
            reserved: 0,
        });
        let before = self.processes.get(&pid).copied();
        if before.map(|of| of.publisher) == publisher {
            return;
        }
        let place = before.map(|of| (of.at, None)).or_else(|| place(&self.processes, pid, user));
        let Some((place, loser)) = place else {
            debug!("no room to record the contexts of process {pid}");
            return;
        };
        if let Some(loser) = loser {
            self.processes.remove(&loser);
        }
        // Not read while it changes.
        self.write(place, &Publisher::default());
        if let Some(publisher) = publisher {
            self.write(place, &publisher);
            self.processes.insert(pid, Place { at: place, publisher, user });
        } else {
            self.processes.remove(&pid);
        }
        self.table.write(0, 0, &(self.processes.len() as u64).to_le_bytes());
    }

    /// The process's id is the last that is there, and the first that is not.
    fn write(&self, place: usize, publisher: &Publisher) {
        let at = offset_of!(Table, places) + place * size_of::<Publisher>();
        let Publisher { tgid, module, mm, offset, .. } = *publisher;
        let head = (u64::from(tgid) | u64::from(module) << 32).to_le_bytes();
        let rest = [mm.to_le_bytes(), offset.to_le_bytes()].concat();
        if tgid == 0 {
            self.table.write(0, at, &head);
        }
        self.table.write(0, at + offset_of!(Publisher, mm), &rest);
        self.table.write(0, at, &head);
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::probe::Mapping;

    use super::*;

    /// A process that has no memory.
    struct Nothing;

    impl Memory for Nothing {
        fn read(&self, _: u64, _: usize) -> Option<Vec<u8>> {
            None
        }
    }

    #[test]
    fn what_a_file_has_is_remembered_and_devices_are_not_read() {
        let mapping = Mapping { start: 0x1000, end: 0x2000, mm: 7, path: 4, inode: 9, user: 5 };
        let name = |path: &str| (5, path.to_owned(), 9, 0x1000);
        let here = Variable { module: 0, offset: -8 };
        let mut known = HashMap::from([
            (name("/dev/mem"), Defined::Program(Variable { module: 0, offset: -16 })),
            (name("/none"), Defined::No),
            (name("/bin"), Defined::Program(here)),
        ]);
        let files = |paths: &[&str]| -> Files {
            paths.iter().map(|path| (mapping, (*path).to_owned())).collect()
        };
        let mut look = |paths: &[&str]| find(&Nothing, &files(paths), &mut known);
        assert_eq!(look(&["/dev/mem", "/none", "/new", "/bin"]), Some(here));
        assert_eq!(look(&["/dev/mem", "/none", "/new"]), None);
        assert_eq!(known.len(), 3, "what could not be read is looked at again");
    }

    #[test]
    fn what_one_users_process_has_mapped_is_not_told_of_anothers() {
        let of = |user| {
            let mapping = Mapping { start: 0x1000, end: 0x2000, mm: 7, path: 4, inode: 9, user };
            vec![(mapping, "/lib/a.so".to_owned())]
        };
        let here = Variable { module: 0, offset: -8 };
        let name = (5, "/lib/a.so".to_owned(), 9, 0x1000);
        let mut known = HashMap::from([(name, Defined::Program(here))]);
        assert_eq!(find(&Nothing, &of(5), &mut known), Some(here));
        assert_eq!(find(&Nothing, &of(6), &mut known), None);
    }

    #[test]
    fn no_user_takes_all_places() {
        let mut processes: BTreeMap<u32, Place> = BTreeMap::new();
        let mut ids = (1..).filter(|pid| publisher_place(*pid) == publisher_place(7));
        let mut enter = |user: u64| {
            let pid = ids.next().expect("ids");
            let found = place(&processes, pid, user);
            if let Some((at, loser)) = found {
                loser.map(|loser| processes.remove(&loser));
                let publisher = Publisher { tgid: pid, ..Publisher::default() };
                processes.insert(pid, Place { at, publisher, user });
            }
            let of = |user| processes.values().filter(|of| of.user == user).count();
            (pid, of(1000), of(1001))
        };
        let (first, ..) = enter(1000);
        let storm: Vec<usize> = (0..5).map(|_| enter(1000).1).collect();
        assert_eq!(storm, [2, 3, 4, 4, 4], "there are no more places");
        let others: Vec<(usize, usize)> =
            (0..3).map(|_| enter(1001)).map(|(_, one, other)| (one, other)).collect();
        assert_eq!(others, [(3, 1), (2, 2), (2, 2)]);
        assert!(processes.contains_key(&first), "who was there before stays");
    }
}
