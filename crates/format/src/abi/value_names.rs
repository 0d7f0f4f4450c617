//! Values of fields that have names, where the names are the kernel's.

use super::field::Names;

/// What is done on a disk: `enum req_op`, include/linux/blk_types.h, as far as Linux 6.1 and 6.18
/// have the same numbers. (Those of zones differ.)
pub const BLOCK_OPS: Names = &[
    (0, "read"),
    (1, "write"),
    (2, "flush"),
    (3, "discard"),
    (5, "secure_erase"),
    (9, "write_zeroes"),
    (34, "drv_in"),
    (35, "drv_out"),
];

/// How it is done: `enum req_flag_bits`, include/linux/blk_types.h, as far as Linux 6.1 and 6.18
/// have the same bits.
pub const BLOCK_FLAGS: Names = &[
    (1 << 8, "failfast_dev"),
    (1 << 9, "failfast_transport"),
    (1 << 10, "failfast_driver"),
    (1 << 11, "sync"),
    (1 << 12, "meta"),
    (1 << 13, "prio"),
    (1 << 14, "nomerge"),
    (1 << 15, "idle"),
    (1 << 16, "integrity"),
    (1 << 17, "fua"),
    (1 << 18, "preflush"),
    (1 << 19, "rahead"),
    (1 << 20, "background"),
    (1 << 21, "nowait"),
];

/// What went wrong: the numbers of `blk_status_t` (include/linux/blk_types.h), with what the kernel
/// tells who waits (`blk_errors`, block/blk-core.c), as far as Linux 6.1 and 6.18 have the same.
pub const BLOCK_ERRORS: Names = &[
    (0, "none"),
    (1, "EOPNOTSUPP"),
    (2, "ETIMEDOUT"),
    (3, "ENOSPC"),
    (4, "ENOLINK"),
    (5, "EREMOTEIO"),
    (6, "EBADE"),
    (7, "ENODATA"),
    (8, "EILSEQ"),
    (9, "ENOMEM"),
    (10, "EIO"),
    (11, "EREMCHG"),
    (12, "EAGAIN"),
    (13, "EBUSY"),
];

/// What io_uring does: `enum io_uring_op`, include/uapi/linux/io_uring.h, Linux 6.18.
pub const IO_OPS: Names = &[
    (0, "nop"),
    (1, "readv"),
    (2, "writev"),
    (3, "fsync"),
    (4, "read_fixed"),
    (5, "write_fixed"),
    (6, "poll_add"),
    (7, "poll_remove"),
    (8, "sync_file_range"),
    (9, "sendmsg"),
    (10, "recvmsg"),
    (11, "timeout"),
    (12, "timeout_remove"),
    (13, "accept"),
    (14, "async_cancel"),
    (15, "link_timeout"),
    (16, "connect"),
    (17, "fallocate"),
    (18, "openat"),
    (19, "close"),
    (20, "files_update"),
    (21, "statx"),
    (22, "read"),
    (23, "write"),
    (24, "fadvise"),
    (25, "madvise"),
    (26, "send"),
    (27, "recv"),
    (28, "openat2"),
    (29, "epoll_ctl"),
    (30, "splice"),
    (31, "provide_buffers"),
    (32, "remove_buffers"),
    (33, "tee"),
    (34, "shutdown"),
    (35, "renameat"),
    (36, "unlinkat"),
    (37, "mkdirat"),
    (38, "symlinkat"),
    (39, "linkat"),
    (40, "msg_ring"),
    (41, "fsetxattr"),
    (42, "setxattr"),
    (43, "fgetxattr"),
    (44, "getxattr"),
    (45, "socket"),
    (46, "uring_cmd"),
    (47, "send_zc"),
    (48, "sendmsg_zc"),
    (49, "read_multishot"),
    (50, "waitid"),
    (51, "futex_wait"),
    (52, "futex_wake"),
    (53, "futex_waitv"),
    (54, "fixed_fd_install"),
    (55, "ftruncate"),
    (56, "bind"),
    (57, "listen"),
    (58, "recv_zc"),
    (59, "epoll_wait"),
    (60, "readv_fixed"),
    (61, "writev_fixed"),
    (62, "pipe"),
    // The kernel does not tell.
    (0xffff_ffff, "unknown"),
];

/// How io_uring does it: `IOSQE_…`, include/uapi/linux/io_uring.h, Linux 6.18, and one of our own.
pub const IO_FLAGS: Names = &[
    (IO_FIXED_FILE as u64, "fixed_file"),
    (1 << 1, "drain"),
    (1 << 2, "link"),
    (1 << 3, "hardlink"),
    (1 << 4, "async"),
    (1 << 5, "buffer_select"),
    (IO_SKIPS_SUCCESS as u64, "cqe_skip_success"),
    // What it opens or closes is in the ring's own table of files, and no descriptor.
    (IO_DIRECT as u64, "direct"),
];

/// In [`IO_FLAGS`]: the descriptor is a place in the ring's own table of files.
pub const IO_FIXED_FILE: u32 = 1 << 0;
/// In [`IO_FLAGS`]: there is no result of one that succeeds.
pub const IO_SKIPS_SUCCESS: u32 = 1 << 6;
/// In [`IO_FLAGS`]: `file_index` is set.
pub const IO_DIRECT: u32 = 1 << 31;

/// How a lock is waited for: `LCB_F_…`, include/trace/events/lock.h, Linux 6.1 and 6.18.
pub const LOCK_FLAGS: Names = &[
    (1 << 0, "spin"),
    (1 << 1, "read"),
    (1 << 2, "write"),
    (1 << 3, "rt"),
    (1 << 4, "percpu"),
    (1 << 5, "mutex"),
];

/// What came of compaction: `enum compact_result`, include/linux/compaction.h, Linux 6.1 and 6.18.
pub const COMPACTION_RESULTS: Names = &[
    (0, "not_suitable_zone"),
    (1, "skipped"),
    (2, "deferred"),
    (3, "no_suitable_page"),
    (4, "continue"),
    (5, "complete"),
    (6, "partial_skipped"),
    (7, "contended"),
    (8, "success"),
];

/// What a CPU did ([`WakeContext`](super::record::WakeContext)).
pub const CONTEXTS: Names =
    &[(0, "unknown"), (1, "thread"), (2, "softirq"), (3, "hardirq"), (4, "nmi")];

/// Protocols of sockets that have a state: `IPPROTO_…`, include/uapi/linux/in.h.
pub const PROTOCOLS: Names = &[
    (6, "tcp"),
    (33, "dccp"),
    (132, "sctp"),
    (262, "mptcp"),
    (MPTCP_SUBFLOW as u64, "mptcp_subflow"),
];

/// In [`PROTOCOLS`]: TCP, as a part of an MPTCP connection, which has a socket and events of its own.
pub const MPTCP_SUBFLOW: u32 = 1 << 16 | 6;

/// States of a socket: include/net/tcp_states.h, Linux 6.1 and 6.18.
pub const TCP_STATES: Names = &[
    (1, "ESTABLISHED"),
    (2, "SYN_SENT"),
    (3, "SYN_RECV"),
    (4, "FIN_WAIT1"),
    (5, "FIN_WAIT2"),
    (6, "TIME_WAIT"),
    (7, "CLOSE"),
    (8, "CLOSE_WAIT"),
    (9, "LAST_ACK"),
    (10, "LISTEN"),
    (11, "CLOSING"),
    (12, "NEW_SYN_RECV"),
    (13, "BOUND_INACTIVE"),
];
