//! From the kernel's walk over open files to a snapshot.

use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind, Read};
use std::mem;

use flightrec_format::abi::file::{CLOEXEC, FileRecord};
use flightrec_format::descriptors::{Descriptor, Object, Snapshot, Table};

use super::records::{self, NAME_MAX};
use crate::recording::Names;

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;
/// Most descriptors of one process, the lowest first.
const PROCESS_MAX: usize = 1 << 14;
/// Most descriptors in all, and most bytes of names: several times what a snapshot has room for.
const DESCRIPTORS_MAX: usize = 1 << 18;
const NAMES_MAX: usize = 2 << 20;
/// Most processes whose threads have not all the same table.
const DIVIDED_MAX: usize = 4096;

/// Runs the walk by reading its file, and puts together what it tells. The snapshot's times are the
/// caller's to set.
pub(super) fn read(mut file: impl Read, names: Names) -> io::Result<Snapshot> {
    let mut builder = Builder::default();
    let mut buffer = vec![0; PIECE];
    let mut have = 0;
    loop {
        let room = buffer.get_mut(have..).unwrap_or_default();
        match file.read(room) {
            Ok(0) => return Ok(builder.finish()),
            Ok(n) => have += n,
            // It has seen a million processes without a descriptor (`bpf_seq_read`,
            // kernel/bpf/bpf_iter.c, Linux 6.1).
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {
                continue;
            }
            Err(e) => return Err(e),
        }
        let mut left = buffer.get(..have).unwrap_or_default();
        while let Some((record, text, rest)) = records::split(left) {
            builder.add(&record, text, names);
            left = rest;
        }
        // A record is shorter than half a piece, so there is always room for the rest of one.
        let begin = have - left.len();
        have = left.len();
        buffer.copy_within(begin..begin + have, 0);
    }
}

/// Puts a snapshot together. The records of one thread come one after the other; of threads that
/// have their process's leader's table there are none, unless the leader has ended: then there are
/// those of each (`task_seq_get_next`, kernel/bpf/task_iter.c, Linux 6.1).
#[derive(Default)]
struct Builder {
    snapshot: Snapshot,
    numbers: HashMap<Object, u32>,
    name_bytes: usize,
    descriptors: usize,
    /// Tables by the address of the kernel's own.
    by_address: HashMap<u64, usize>,
    /// The address of the first table of each process.
    first: HashMap<u32, u64>,
    /// Processes of which not all threads have the same descriptors: there is no one table.
    divided: HashSet<u32>,
    thread: Option<Thread>,
}

/// The thread at hand, which has the first table of its process.
struct Thread {
    tid: u32,
    tgid: u32,
    address: u64,
    files: Vec<Descriptor>,
}

impl Builder {
    fn add(&mut self, record: &FileRecord, text: &[u8], names: Names) {
        let FileRecord { tid, tgid, files: address, fd, .. } = *record;
        let is_next = |thread: &Thread| (thread.tid, thread.address) != (tid, address);
        if self.thread.as_ref().is_none_or(is_next) {
            self.settle();
            match self.first.get(&tgid) {
                None => drop(self.first.insert(tgid, address)),
                // Another thread with the same ones.
                Some(first) if *first == address => return,
                Some(_) => {
                    self.divided.insert(tgid);
                    return;
                }
            }
        }
        let full = self.descriptors >= DESCRIPTORS_MAX
            || self.thread.as_ref().is_some_and(|thread| thread.files.len() >= PROCESS_MAX);
        let number = if full { None } else { self.number(records::object(record, text, names)) };
        let thread = self.thread.get_or_insert(Thread { tid, tgid, address, files: Vec::new() });
        match number {
            Some(object) => {
                thread.files.push(Descriptor { fd, cloexec: record.flags & CLOEXEC != 0, object });
                self.descriptors += 1;
            }
            None => self.snapshot.left_out += 1,
        }
    }

    /// The number of an object; `None`: there is no room for another one.
    fn number(&mut self, object: Object) -> Option<u32> {
        if let Some(number) = self.numbers.get(&object) {
            return Some(*number);
        }
        let bytes = match &object {
            Object::Named(name) => name.len(),
            Object::Socket(_) => NAME_MAX / 8,
        };
        if self.name_bytes + bytes > NAMES_MAX {
            return None;
        }
        self.name_bytes += bytes;
        let number = self.snapshot.objects.len() as u32;
        self.snapshot.objects.push(object.clone());
        self.numbers.insert(object, number);
        Some(number)
    }

    /// The thread is complete. Its process shares the table of another one at the same address if
    /// it has the same content as well: the address may have been given away in between.
    fn settle(&mut self) {
        let Some(Thread { tgid, address, files, .. }) = self.thread.take() else { return };
        let shared = self.by_address.get(&address).and_then(|at| self.snapshot.tables.get_mut(*at));
        match shared {
            Some(table) if table.files == files => {
                self.descriptors -= files.len();
                table.processes.push(tgid);
            }
            _ => {
                self.by_address.insert(address, self.snapshot.tables.len());
                self.snapshot.tables.push(Table { processes: vec![tgid], files });
            }
        }
    }

    fn finish(mut self) -> Snapshot {
        self.settle();
        let divided = mem::take(&mut self.divided);
        for table in &mut self.snapshot.tables {
            table.processes.retain(|process| !divided.contains(process));
        }
        self.snapshot.tables.retain(|table| !table.processes.is_empty());
        // Of more than there is room for it can't be said what is not known of them.
        self.snapshot.left_out += divided.len().saturating_sub(DIVIDED_MAX) as u64;
        self.snapshot.divided = divided.into_iter().take(DIVIDED_MAX).collect();
        self.snapshot.divided.sort_unstable();
        self.snapshot
    }
}
