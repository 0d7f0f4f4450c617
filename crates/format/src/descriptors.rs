//! What the descriptors of all processes stood for at one moment: a snapshot, taken by the daemon.
//!
//! The recording tells what a descriptor stands for only where it saw it opened; the snapshot tells
//! the rest. It is one document in pages of lane `descriptors` ([`crate::chunks`]), integers as
//! LEB128, its layout in FORMAT.md, section 8. Owners: the daemon writes it, beside the recording,
//! and keeps some older ones in memory; readers never change it. Every process's descriptors stand
//! in one table, and processes that share theirs share the table. Names stand once, however many
//! descriptors have them.
//!
//! A snapshot takes time, and is no atomic view: each descriptor stood for its object at *some*
//! moment between [`Snapshot::begin`] and [`Snapshot::end`].

mod wire;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use thiserror::Error;

use self::wire::{Reader, Writer};
use crate::abi::file::{SOCKET_BYTES, SocketRecord};

/// Version of the document.
const VERSION: u64 = 1;
/// Pages of the map; a snapshot takes at most half of them.
pub const PAGES: usize = 128;
/// Pages that one snapshot may take.
pub const HALF_PAGES: usize = PAGES / 2;
/// Longest document that is read, bytes: far more than fits a map.
pub const DOCUMENT_MAX: usize = 1 << 20;

/// How an object is written: what follows its length.
mod tag {
    pub(super) const NAMED: u64 = 0;
    pub(super) const SOCKET: u64 = 1;
    pub(super) const INET: u64 = 2;
    pub(super) const INET6: u64 = 3;
    pub(super) const UNIX: u64 = 4;
}

/// A snapshot that can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DescriptorsError {
    /// Of another release.
    #[error(
        "descriptor snapshot version {0} is not {VERSION}: use a flightctl of the release that \
         recorded it"
    )]
    Version(u64),
    /// It ends too early, or a number in it is impossible.
    #[error("damaged descriptor snapshot: {0}")]
    Malformed(&'static str),
    /// No writer makes one so long.
    #[error("a descriptor snapshot of {0} bytes: at most {DOCUMENT_MAX} are read")]
    TooLong(usize),
}

/// What descriptors stood for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// When its taking began, ns of `CLOCK_MONOTONIC`.
    pub begin: u64,
    /// When it was complete.
    pub end: u64,
    /// Descriptors for which there was no room.
    pub left_out: u64,
    /// What descriptors stand for, each once.
    pub objects: Vec<Object>,
    /// The tables of descriptors.
    pub tables: Vec<Table>,
    /// Processes whose threads have not all the same table: they are in none.
    pub divided: Vec<u32>,
}

impl Snapshot {
    /// Bytes of memory that it takes, about.
    pub fn weight(&self) -> usize {
        let name =
            |object: &Object| if let Object::Named(name) = object { name.len() + 16 } else { 0 };
        let objects: usize =
            self.objects.iter().map(|object| size_of::<Object>() + name(object)).sum();
        let of_table = |table: &Table| {
            size_of::<Table>() + 4 * table.processes.len() + size_of_val(&*table.files)
        };
        objects + self.tables.iter().map(of_table).sum::<usize>() + size_of_val(&*self.divided)
    }
}

/// The descriptors of one process, or of several that share them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Process ids.
    pub processes: Vec<u32>,
    /// What is open.
    pub files: Vec<Descriptor>,
}

/// One descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// Its number.
    pub fd: u32,
    /// Whether an exec closes it.
    pub cloexec: bool,
    /// Index in [`Snapshot::objects`]; never beyond their end in what [`Snapshot::decode`]
    /// returns.
    pub object: u32,
}

/// What a descriptor stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// A file's path, or the kernel's name for what is no file (`pipe:[4711]`).
    Named(Box<[u8]>),
    /// A socket.
    Socket(Socket),
}

/// A socket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Socket {
    /// Its inode number, by which /proc/net knows it.
    pub inode: u64,
    /// `AF_…`
    pub family: u16,
    /// `SOCK_…`
    pub kind: u16,
    /// Protocol within the family.
    pub protocol: u16,
    /// What it is bound and connected to.
    pub ends: Ends,
}

impl Socket {
    /// By what the probes say of it; `name`: of `AF_UNIX`, as far as it was read.
    pub fn new(of: &SocketRecord, name: &[u8]) -> Self {
        let v4 = |bytes: [u8; 16], port| {
            let [a, b, c, d, ..] = bytes;
            (Ipv4Addr::new(a, b, c, d), port).into()
        };
        let ends = match i32::from(of.family) {
            libc::AF_INET => Ends::Inet {
                local: v4(of.local, of.local_port),
                remote: v4(of.remote, of.remote_port),
            },
            libc::AF_INET6 => Ends::Inet {
                local: (Ipv6Addr::from(of.local), of.local_port).into(),
                remote: (Ipv6Addr::from(of.remote), of.remote_port).into(),
            },
            // Those that the kernel names itself hold no more than that: `struct sockaddr_un` is
            // 110 bytes long.
            libc::AF_UNIX => Ends::Unix { peer: of.peer.into(), name: unix_name(name).into() },
            _ => Ends::Unknown,
        };
        let SocketRecord { inode, family, kind, protocol, .. } = *of;
        Self { inode: inode.into(), family, kind, protocol, ends }
    }

    /// By the bytes of a [`Shape::Socket`](crate::abi::pointee::Shape::Socket), without its name
    /// where that is not recorded; `None`: they are too few.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (record, name) = bytes.split_first_chunk::<SOCKET_BYTES>()?;
        let record = SocketRecord::from_bytes(record);
        let is_whole = usize::from(record.name) == name.len();
        Some(Self::new(&record, if is_whole { name } else { &[] }))
    }
}

/// A path without what stands after its end; an abstract name, which begins with a NUL, whole.
fn unix_name(name: &[u8]) -> &[u8] {
    match name.iter().position(|b| *b == 0) {
        Some(end) if end > 0 => name.get(..end).unwrap_or_default(),
        _ => name,
    }
}

/// What a socket is bound and connected to, as far as it is known for its family.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ends {
    /// Not known.
    Unknown,
    /// `AF_INET`, `AF_INET6`: both of one kind. Port 0: not bound, or not connected.
    Inet {
        /// Its own address.
        local: SocketAddr,
        /// The other's.
        remote: SocketAddr,
    },
    /// `AF_UNIX`.
    Unix {
        /// Inode number of the other end; 0: none, or it is closed.
        peer: u64,
        /// What it is bound to: a path, or an abstract name, which begins with a NUL. Empty:
        /// nothing.
        name: Box<[u8]>,
    },
}

impl Snapshot {
    /// Its document.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        for n in [
            VERSION,
            self.begin,
            self.end.wrapping_sub(self.begin),
            self.left_out,
            self.objects.len() as u64,
        ] {
            out.number(n);
        }
        for object in &self.objects {
            let mut content = Writer::default();
            object.write(&mut content);
            out.bytes(&content.0);
        }
        out.number(self.tables.len() as u64);
        for table in &self.tables {
            table.write(&mut out);
        }
        out.number(self.divided.len() as u64);
        for process in &self.divided {
            out.number(u64::from(*process));
        }
        out.0
    }

    /// The snapshot of a document. Takes memory in proportion to it: at most 50 bytes for each of
    /// its own.
    pub fn decode(document: &[u8]) -> Result<Self, DescriptorsError> {
        if document.len() > DOCUMENT_MAX {
            return Err(DescriptorsError::TooLong(document.len()));
        }
        let mut from = Reader(document);
        let version = from.number()?;
        if version != VERSION {
            return Err(DescriptorsError::Version(version));
        }
        let begin = from.number()?;
        let end =
            begin.checked_add(from.number()?).ok_or(DescriptorsError::Malformed("its time"))?;
        let left_out = from.number()?;
        let count = from.number()?;
        let mut objects = Vec::new();
        for _ in 0..count {
            objects.push(Object::read(from.bytes()?)?);
        }
        let count = from.number()?;
        let mut tables = Vec::new();
        for _ in 0..count {
            tables.push(Table::read(&mut from, objects.len())?);
        }
        let mut divided = Vec::new();
        for _ in 0..from.number()? {
            divided.push(from.narrow()?);
        }
        // What stands after is of a later release.
        Ok(Self { begin, end, left_out, objects, tables, divided })
    }
}

impl Table {
    /// Numbers as the difference to the one before, so that most take one byte.
    fn write(&self, out: &mut Writer) {
        out.number(self.processes.len() as u64);
        for process in &self.processes {
            out.number(u64::from(*process));
        }
        out.number(self.files.len() as u64);
        let mut next = 0;
        for file in &self.files {
            out.number(u64::from(file.fd.wrapping_sub(next)));
            out.number(u64::from(file.object) << 1 | u64::from(file.cloexec));
            next = file.fd.wrapping_add(1);
        }
    }

    fn read(from: &mut Reader<'_>, objects: usize) -> Result<Self, DescriptorsError> {
        let mut table = Self::default();
        for _ in 0..from.number()? {
            table.processes.push(from.narrow()?);
        }
        let mut next: u32 = 0;
        for _ in 0..from.number()? {
            let fd = next.wrapping_add(from.narrow()?);
            let object = from.number()?;
            let file = Descriptor { fd, cloexec: object & 1 != 0, object: (object >> 1) as u32 };
            if object >> 1 >= objects as u64 {
                return Err(DescriptorsError::Malformed("a descriptor of no object"));
            }
            table.files.push(file);
            next = fd.wrapping_add(1);
        }
        Ok(table)
    }
}

impl Object {
    fn write(&self, out: &mut Writer) {
        let socket = match self {
            Object::Named(name) => {
                out.number(tag::NAMED);
                out.0.extend_from_slice(name);
                return;
            }
            Object::Socket(socket) => socket,
        };
        out.number(match &socket.ends {
            Ends::Unknown => tag::SOCKET,
            Ends::Inet { local: SocketAddr::V4(_), .. } => tag::INET,
            Ends::Inet { .. } => tag::INET6,
            Ends::Unix { .. } => tag::UNIX,
        });
        out.number(socket.inode);
        for n in [socket.family, socket.kind, socket.protocol] {
            out.number(u64::from(n));
        }
        match &socket.ends {
            Ends::Unknown => {}
            Ends::Inet { local, remote } => {
                out.address(local);
                out.address(remote);
            }
            Ends::Unix { peer, name } => {
                out.number(*peer);
                out.0.extend_from_slice(name);
            }
        }
    }

    fn read(bytes: &[u8]) -> Result<Self, DescriptorsError> {
        let mut from = Reader(bytes);
        let tag = from.number()?;
        if tag == tag::NAMED || tag > tag::UNIX {
            // A kind that is newer than this release has no name that this one could show.
            let name = if tag == tag::NAMED { from.0 } else { &[] };
            return Ok(Object::Named(name.into()));
        }
        let inode = from.number()?;
        let (family, kind, protocol) = (from.narrow()?, from.narrow()?, from.narrow()?);
        let ends = match tag {
            tag::INET => Ends::Inet { local: from.address::<4>()?, remote: from.address::<4>()? },
            tag::INET6 => {
                Ends::Inet { local: from.address::<16>()?, remote: from.address::<16>()? }
            }
            tag::UNIX => Ends::Unix { peer: from.number()?, name: from.0.into() },
            _ => Ends::Unknown,
        };
        Ok(Object::Socket(Socket { inode, family, kind, protocol, ends }))
    }
}

#[cfg(test)]
mod tests;
