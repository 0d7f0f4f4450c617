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

/// Puts a snapshot together. The records of one process come one after the other.
#[derive(Default)]
struct Builder {
    snapshot: Snapshot,
    numbers: HashMap<Object, u32>,
    name_bytes: usize,
    descriptors: usize,
    /// Tables by the address of the kernel's own.
    by_address: HashMap<u64, usize>,
    /// Processes of which not all threads have the same descriptors: there is no one table.
    divided: HashSet<u32>,
    process: Option<Process>,
}

/// The process at hand.
struct Process {
    tgid: u32,
    address: u64,
    files: Vec<Descriptor>,
}

impl Builder {
    fn add(&mut self, record: &FileRecord, text: &[u8], names: Names) {
        if record.tid != record.tgid {
            self.divided.insert(record.tgid);
            return;
        }
        let FileRecord { tgid, files: address, fd, .. } = *record;
        if self
            .process
            .as_ref()
            .is_none_or(|process| process.tgid != tgid || process.address != address)
        {
            self.settle();
        }
        let full = self.descriptors >= DESCRIPTORS_MAX
            || self.process.as_ref().is_some_and(|process| process.files.len() >= PROCESS_MAX);
        let number = if full { None } else { self.number(records::object(record, text, names)) };
        let process = self.process.get_or_insert(Process { tgid, address, files: Vec::new() });
        match number {
            Some(object) => {
                process.files.push(Descriptor { fd, cloexec: record.flags & CLOEXEC != 0, object });
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

    /// The process is complete. It shares the table of another one at the same address if it has
    /// the same content as well: the address may have been given away in between.
    fn settle(&mut self) {
        let Some(Process { tgid, address, files }) = self.process.take() else { return };
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
        self.snapshot
    }
}
