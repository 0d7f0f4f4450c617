//! The records of the walk over open files, out of any pieces of its output.

use flightrec_format::abi::file::{FileRecord, SOCKET, SocketRecord, TEXT_MAX, UNNAMED};
use flightrec_format::descriptors::{Ends, Object, Socket};

use crate::recording::Names;

/// Bytes of a record without its text.
const HEAD: usize = size_of::<FileRecord>();
/// Longest name that is kept; of a longer one, the beginning.
pub(super) const NAME_MAX: usize = 1024;

/// The first record in `bytes` with its text, and what is left after it; `None`: it is not there
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
    FileRecord {
        text: w(0) as u32,
        flags: (w(0) >> 32) as u32,
        tgid: w(1) as u32,
        tid: (w(1) >> 32) as u32,
        files: w(2),
        inode: w(3),
        fd: w(4) as u32,
        socket: head.last_chunk().map(SocketRecord::from_bytes).unwrap_or_default(),
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
    let mut socket = Socket::new(&record.socket, text);
    if !names.addresses {
        socket.ends = Ends::Unknown;
    }
    if let Ends::Unix { name, .. } = &mut socket.ends
        && !names.paths
    {
        *name = Box::default();
    }
    Object::Socket(socket)
}
