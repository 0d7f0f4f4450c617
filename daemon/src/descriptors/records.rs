//! The records of the walk over open files, out of any pieces of its output.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use flightrec_format::abi::file::{FileRecord, SOCKET, TEXT_MAX, UNNAMED};
use flightrec_format::descriptors::{Ends, Object, Socket};

use crate::recording::Names;

/// Bytes of a record without its text.
const HEAD: usize = size_of::<FileRecord>();
/// Longest name that is kept; of a longer one, the beginning.
pub(super) const NAME_MAX: usize = 1024;

/// The first record in `bytes` with its text, and what is left behind it; `None`: it is not there
/// whole.
pub(super) fn split(bytes: &[u8]) -> Option<(FileRecord, &[u8], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
    let record = parse(head);
    let (text, rest) = rest.split_at_checked((record.text as usize).min(TEXT_MAX))?;
    Some((record, text, rest))
}

/// A record's members, whatever they hold.
fn parse(head: &[u8; HEAD]) -> FileRecord {
    let (words, _) = head.as_chunks::<8>();
    let w = |i: usize| words.get(i).map_or(0, |b| u64::from_le_bytes(*b));
    let bytes = |i: usize| {
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().zip(words.iter().skip(i).flatten()) {
            *to = *from;
        }
        bytes
    };
    FileRecord {
        text: w(0) as u32,
        flags: (w(0) >> 32) as u32,
        tgid: w(1) as u32,
        tid: (w(1) >> 32) as u32,
        files: w(2),
        inode: w(3),
        fd: w(4) as u32,
        family: (w(4) >> 32) as u16,
        kind: (w(4) >> 48) as u16,
        protocol: w(5) as u16,
        reserved: (w(5) >> 16) as u16,
        local_port: (w(5) >> 32) as u16,
        remote_port: (w(5) >> 48) as u16,
        local: bytes(6),
        remote: bytes(8),
        peer: w(10),
    }
}

/// What a record's descriptor stands for; an empty name where the kernel could not say, or it is
/// not to be recorded.
pub(super) fn object(record: &FileRecord, text: &[u8], names: Names) -> Object {
    if record.flags & SOCKET == 0 {
        // A name such as `pipe:[4711]` is the kernel's own and holds no text of a program.
        let is_path = text.first() == Some(&b'/');
        let name = match text.get(..NAME_MAX) {
            _ if record.flags & UNNAMED != 0 || is_path && !names.paths => Vec::new(),
            Some(beginning) if text.len() > NAME_MAX => [beginning, b"..."].concat(),
            _ => text.to_vec(),
        };
        return Object::Named(name.into());
    }
    let ends = match i32::from(record.family) {
        _ if !names.addresses => Ends::Unknown,
        libc::AF_INET => Ends::Inet {
            local: v4(&record.local, record.local_port),
            remote: v4(&record.remote, record.remote_port),
        },
        libc::AF_INET6 => Ends::Inet {
            local: (Ipv6Addr::from(record.local), record.local_port).into(),
            remote: (Ipv6Addr::from(record.remote), record.remote_port).into(),
        },
        // Those that the kernel names itself hold no more than that: `struct sockaddr_un` is 110
        // bytes long.
        libc::AF_UNIX => {
            let name = if names.paths { unix_name(text) } else { &[] };
            Ends::Unix { peer: record.peer, name: name.into() }
        }
        _ => Ends::Unknown,
    };
    let FileRecord { inode, family, kind, protocol, .. } = *record;
    Object::Socket(Socket { inode, family, kind, protocol, ends })
}

fn v4(bytes: &[u8; 16], port: u16) -> SocketAddr {
    let [a, b, c, d, ..] = *bytes;
    (Ipv4Addr::new(a, b, c, d), port).into()
}

/// A path without what stands behind its end; an abstract name, which begins with a NUL, whole.
fn unix_name(text: &[u8]) -> &[u8] {
    match text.iter().position(|b| *b == 0) {
        Some(end) if end > 0 => text.get(..end).unwrap_or_default(),
        _ => text,
    }
}
