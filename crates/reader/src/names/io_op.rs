//! Names of what io_uring does.

use flightrec_format::abi::value_names::IO_OPS;

/// What an operation does, by its name ([`IO_OPS`]); `None`: this release does not know it.
pub fn io_op(op: u32) -> Option<&'static str> {
    IO_OPS.iter().find(|(number, _)| *number == u64::from(op)).map(|(_, name)| *name)
}

/// Operations that are about no file: about sockets, or about nothing that a descriptor stands for.
const OF_NO_FILE: [&str; 30] = [
    "nop",
    "sendmsg",
    "recvmsg",
    "timeout",
    "timeout_remove",
    "accept",
    "async_cancel",
    "link_timeout",
    "connect",
    "files_update",
    "madvise",
    "send",
    "recv",
    "provide_buffers",
    "remove_buffers",
    "shutdown",
    "msg_ring",
    "socket",
    "send_zc",
    "sendmsg_zc",
    "waitid",
    "futex_wait",
    "futex_wake",
    "futex_waitv",
    "bind",
    "listen",
    "recv_zc",
    "poll_remove",
    "epoll_wait",
    "pipe",
];

/// Whether an operation may be about a file, by a path or by a descriptor.
pub fn may_be_of_file(op: u32) -> bool {
    io_op(op).is_none_or(|op| !OF_NO_FILE.contains(&op))
}

/// Operations that take paths.
const OF_PATHS: [&str; 10] = [
    "openat",
    "openat2",
    "statx",
    "renameat",
    "unlinkat",
    "mkdirat",
    "symlinkat",
    "linkat",
    "setxattr",
    "getxattr",
];

/// Whether an operation takes a path.
pub fn takes_path(op: u32) -> bool {
    io_op(op).is_some_and(|op| OF_PATHS.contains(&op))
}

#[cfg(test)]
mod tests {
    use super::io_op;

    #[test]
    fn operations_have_names() {
        assert_eq!((io_op(18), io_op(62)), (Some("openat"), Some("pipe")));
        assert_eq!((io_op(200), io_op(u32::MAX)), (None, Some("unknown")));
    }
}
