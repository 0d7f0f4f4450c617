//! Names of the binaries that samples have frames in. A frame has its binary's number; which file
//! that is, nobody could tell when the process is gone, or on another machine.
//!
//! The probes enter each binary into a table of the kernel's memory (map `binaries`) by its build
//! id, and as long as it has no name, note in which process it was seen last, and at which address.
//! Here that process is asked again and again which file it has mapped there: by a program in the
//! kernel (`walk_mappings`), since /proc/PID/maps takes rights over the process. A process that has
//! ended before is of no use; another one that runs the binary will be. A thread of its own asks
//! (`walker`). Bounds: as many as the table has places for, and `BYTES_MAX` of the metadata.

mod walker;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use flightrec_format::abi::probe::{BINARIES, Binary as Entry, MAPPING_PATH, Mapping};
use flightrec_format::live::map::ArrayMap;
use flightrec_format::live::sys;
use flightrec_format::meta::{Binary, Meta};

pub(crate) use self::walker::Files;
use self::walker::Walker;
use crate::attachments::MAPPING_WALK;
use crate::load;

/// Most bytes of the metadata that they take.
const BYTES_MAX: usize = 48 << 10;
/// How often processes are asked at once for a new binary.
const ASKED_MAX: u32 = 5;
/// Most bytes of what one process has mapped that are read.
const WALK_MAX: u64 = 4 << 20;

/// What names the binaries of a recording's samples.
#[derive(Debug)]
pub struct Binaries {
    /// `None`: this recording has no such table.
    table: Option<ArrayMap>,
    /// The pinned program that walks over what a process has mapped.
    walk: PathBuf,
    /// Who asks processes, from [`Self::start`] on.
    walker: OnceLock<Walker>,
    /// How often processes were asked at once for a new binary ([`Self::ask`]), by its place.
    asked: Mutex<Asked>,
}

/// How often processes were asked at once for the binaries of some build ids, by their places.
#[derive(Debug, Default)]
struct Asked(BTreeMap<usize, ([u32; 5], u32)>);

impl Asked {
    /// Whether to ask once more for this binary.
    fn once_more(&mut self, place: usize, id: [u32; 5]) -> bool {
        let of = self.0.entry(place).or_insert((id, 0));
        if of.0 != id {
            *of = (id, 0);
        }
        of.1 = of.1.saturating_add(1);
        of.1 <= ASKED_MAX
    }
}

impl Binaries {
    /// Those of the recording in a directory. As yet no process is asked.
    pub fn open(dir: &Path) -> Self {
        Self {
            table: ArrayMap::open(&dir.join("maps").join(load::BINARIES), true).ok(),
            walk: dir.join("progs").join(MAPPING_WALK),
            walker: OnceLock::new(),
            asked: Mutex::default(),
        }
    }

    /// Has processes asked from now on, by a thread that this starts.
    pub fn start(&self) -> io::Result<()> {
        // Why there is no such program, the recording's metadata say.
        let Ok(walk) = sys::obj_get(&self.walk) else { return Ok(()) };
        let walker = Walker::start(move |pid| files(&walk, pid))?;
        // A second one would end here.
        let _ = self.walker.set(walker);
        Ok(())
    }

    /// What is to be entered into a recording's metadata, in the place of what has the same number,
    /// if that takes no more than `room` bytes. It waits for no process.
    /// Without `paths`, no process is asked, and build ids alone are entered.
    pub fn refresh(&self, meta: &Meta, room: usize, paths: bool) -> Vec<Binary> {
        let Some(table) = &self.table else { return Vec::new() };
        let walker = self.walker.get();
        let mut found = walker.map(Walker::found).filter(|_| paths).unwrap_or_default();
        let own = BYTES_MAX.saturating_sub(meta.binaries.iter().map(bytes).sum());
        let mut room = room.min(own);
        let (mut new, mut unnamed) = (Vec::new(), Vec::new());
        for place in 0..BINARIES {
            let Some(entry) = read(table, place) else { continue };
            let number = place as u16 + 1;
            let known = meta.binaries.iter().find(|of| of.number == number);
            let path = found.remove(&place);
            if entry.named == 0 && entry.tgid != 0 && path.is_none() {
                unnamed.push((place, entry));
            }
            if known.is_some() && path.is_none() {
                continue;
            }
            let binary =
                Binary { number, build_id: build_id(&entry), path: path.unwrap_or_default() };
            let more = bytes(&binary).saturating_sub(known.map_or(0, bytes));
            if more <= room {
                room -= more;
                new.push(binary);
            } else {
                // Nor will there be any room.
                self.named(&binary);
            }
        }
        if let Some(walker) = walker.filter(|_| paths) {
            walker.ask(unnamed);
            walker.look();
        }
        new
    }

    /// Has processes asked that run new binaries without a name: it is called more often than
    /// [`Self::refresh`], since a process may end soon. A binary that has no name after
    /// `ASKED_MAX` times is left to that. It waits for none.
    pub fn ask(&self) {
        let (Some(table), Some(walker)) = (&self.table, self.walker.get()) else { return };
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = (0..BINARIES).filter_map(|place| Some((place, read(table, place)?)));
        let unnamed = entries.filter(|(_, entry)| entry.named == 0 && entry.tgid != 0);
        walker.ask(unnamed.filter(|(place, entry)| asked.once_more(*place, entry.id)).collect());
    }

    /// Has the probes look no more for processes that run it, if its path is known: the metadata
    /// have that.
    pub fn named(&self, binary: &Binary) {
        let place = usize::from(binary.number).checked_sub(1).filter(|_| !binary.path.is_empty());
        if let (Some(table), Some(place)) = (&self.table, place) {
            table.write(place, offset_of!(Entry, named), &1u64.to_le_bytes());
        }
    }
}

/// The files that a process has mapped; none where it is gone, or the kernel does not tell.
pub(crate) fn files(walk: &OwnedFd, pid: u32) -> Files {
    let walked = sys::iterate_process(walk.as_fd(), pid).and_then(|file| {
        let mut text = Vec::new();
        File::from(file).take(WALK_MAX).read_to_end(&mut text)?;
        Ok::<_, io::Error>(text)
    });
    walked.map(|text| parse(&text)).unwrap_or_default()
}

/// An entry of the table, if there is one and nobody writes it.
fn read(table: &ArrayMap, place: usize) -> Option<Entry> {
    let mut bytes = [0; size_of::<Entry>()];
    let version = table.load(place, offset_of!(Entry, version));
    if version == 0 || version % 2 == 1 || !table.read(place, 0, &mut bytes) {
        return None;
    }
    let is_whole = table.load(place, offset_of!(Entry, version)) == version;
    let word = |at: usize| bytes.get(at..at + 8).and_then(|word| word.first_chunk()).copied();
    let word = |at| word(at).map_or(0, u64::from_le_bytes);
    let mut id = [0; 5];
    for (i, part) in id.iter_mut().enumerate() {
        let at = offset_of!(Entry, id) + i * size_of::<u32>();
        *part =
            bytes.get(at..).and_then(|of| of.first_chunk()).map_or(0, |of| u32::from_le_bytes(*of));
    }
    is_whole.then_some(Entry {
        version,
        id,
        tgid: (word(offset_of!(Entry, tgid) - 4) >> 32) as u32,
        address: word(offset_of!(Entry, address)),
        mm: word(offset_of!(Entry, mm)),
        named: word(offset_of!(Entry, named)),
        reserved: 0,
    })
}

fn build_id(entry: &Entry) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16);
    let bytes = entry.id.iter().flat_map(|word| word.to_le_bytes());
    bytes.flat_map(|byte| [byte >> 4, byte & 0xf]).filter_map(digit).collect()
}

/// What it takes in the metadata: brackets, commas, quotes, the number; escapes of the path.
fn bytes(binary: &Binary) -> usize {
    let path: usize = binary.path.bytes().map(|byte| if byte < 0x20 { 6 } else { 2 }).sum();
    14 + binary.build_id.len() + path
}

/// What the walk has told: records, each with its path.
fn parse(mut text: &[u8]) -> Files {
    let mut files = Vec::new();
    while let Some((head, rest)) = text.split_first_chunk::<{ size_of::<Mapping>() }>() {
        let word = |i: usize| head.as_chunks().0.get(i).map_or(0, |word| u64::from_le_bytes(*word));
        let record = Mapping {
            start: word(0),
            end: word(1),
            mm: word(2),
            path: word(3),
            inode: word(4),
            user: word(5),
        };
        let length = (record.path as usize).min(MAPPING_PATH);
        let Some((path, rest)) = rest.split_at_checked(length) else { break };
        files.push((record, String::from_utf8_lossy(path).into_owned()));
        text = rest;
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_without_a_name_is_asked_for_at_once_some_times_only() {
        let mut asked = Asked::default();
        let (one, other) = ([1; 5], [2; 5]);
        let times = |asked: &mut Asked, id| (0..20).filter(|_| asked.once_more(7, id)).count();
        assert_eq!(times(&mut asked, one), ASKED_MAX as usize);
        assert_eq!(times(&mut asked, one), 0);
        assert_eq!(times(&mut asked, other), ASKED_MAX as usize, "another one has its place");
    }
}
