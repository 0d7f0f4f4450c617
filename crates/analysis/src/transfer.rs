//! Which calls, and which operations of io_uring, move bytes; their result is how many.

use flightrec_format::abi::value_names::IO_OPS;

/// Whether a call reads or writes, and by which of its arguments it says of what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moves {
    /// It reads, from the descriptor of this argument.
    pub reads: Option<u8>,
    /// It writes, to the descriptor of this argument.
    pub writes: Option<u8>,
}

/// What a call moves, by its name.
pub fn moves(call: &str) -> Moves {
    let (reads, writes) = match call {
        "read" | "pread64" | "readv" | "preadv" | "preadv2" | "recvfrom" | "recvmsg" | "recv"
        | "mq_timedreceive" | "getdents" | "getdents64" => (Some(0), None),
        "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" | "sendto" | "sendmsg"
        | "send" | "vmsplice" => (None, Some(0)),
        "sendfile" | "sendfile64" => (Some(1), Some(0)),
        "splice" | "copy_file_range" => (Some(0), Some(2)),
        "tee" => (Some(0), Some(1)),
        _ => (None, None),
    };
    Moves { reads, writes }
}

/// Whether an operation of io_uring, by its number, writes, or reads; `None`: it moves no bytes.
pub fn is_write(op: u32) -> Option<bool> {
    let named = IO_OPS.iter().find(|(number, _)| *number == u64::from(op));
    match named.map(|(_, name)| *name) {
        Some(
            "readv" | "read" | "read_fixed" | "readv_fixed" | "recv" | "recvmsg" | "read_multishot",
        ) => Some(false),
        Some(
            "writev" | "write" | "write_fixed" | "writev_fixed" | "send" | "sendmsg" | "send_zc"
            | "sendmsg_zc",
        ) => Some(true),
        _ => None,
    }
}
