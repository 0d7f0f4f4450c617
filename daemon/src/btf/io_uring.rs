//! Where the arguments of io_uring's operations are.

use flightrec_format::abi::probe::{ABSENT, OpOffsets, RING_OPS, RingOffsets};
use flightrec_format::abi::value_names::IO_OPS;

use super::offsets::parameters;
use super::{Btf, BtfError};

/// Operations that are about an open file, whose descriptor the kernel keeps for all of them in the
/// same place until they begin (`needs_file` of `io_issue_defs`, io_uring/opdef.c, Linux 6.18).
const OF_FILES: [&str; 35] = [
    "readv",
    "writev",
    "fsync",
    "read_fixed",
    "write_fixed",
    "poll_add",
    "sync_file_range",
    "sendmsg",
    "recvmsg",
    "accept",
    "connect",
    "fallocate",
    "read",
    "write",
    "fadvise",
    "send",
    "recv",
    "splice",
    "tee",
    "shutdown",
    "msg_ring",
    "fsetxattr",
    "fgetxattr",
    "uring_cmd",
    "send_zc",
    "sendmsg_zc",
    "read_multishot",
    "fixed_fd_install",
    "ftruncate",
    "bind",
    "listen",
    "recv_zc",
    "epoll_wait",
    "readv_fixed",
    "writev_fixed",
];

/// What an operation keeps in the structure that is its own.
struct Own {
    op: &'static str,
    structure: &'static str,
    fd: Option<&'static str>,
    slot: Option<&'static str>,
    paths: &'static [&'static str],
}

/// A row of [`OWN`].
const fn own(
    op: &'static str,
    structure: &'static str,
    fd: Option<&'static str>,
    slot: Option<&'static str>,
    paths: &'static [&'static str],
) -> Own {
    Own { op, structure, fd, slot, paths }
}

const SLOT: Option<&str> = Some("file_slot");
const DIR: Option<&str> = Some("dfd");
const OLD_DIR: Option<&str> = Some("old_dfd");

/// Operations that keep more (io_uring/openclose.c, statx.c, fs.c, net.c, xattr.c, Linux 6.1 and
/// 6.18; the structures are there as soon as `prep` is done, which is before the tracepoint).
const OWN: [Own; 14] = [
    own("openat", "io_open", DIR, SLOT, &["filename"]),
    own("openat2", "io_open", DIR, SLOT, &["filename"]),
    own("close", "io_close", Some("fd"), SLOT, &[]),
    own("accept", "io_accept", None, SLOT, &[]),
    own("socket", "io_socket", None, SLOT, &[]),
    own("statx", "io_statx", DIR, None, &["filename"]),
    own("unlinkat", "io_unlink", DIR, None, &["filename"]),
    own("renameat", "io_rename", OLD_DIR, None, &["oldpath", "newpath"]),
    own("mkdirat", "io_mkdir", DIR, None, &["filename"]),
    own("linkat", "io_link", OLD_DIR, None, &["oldpath", "newpath"]),
    own("symlinkat", "io_link", None, None, &["oldpath", "newpath"]),
    own("setxattr", "io_xattr", None, None, &["filename"]),
    own("getxattr", "io_xattr", None, None, &["filename"]),
    own("epoll_ctl", "io_epoll", Some("epfd"), None, &[]),
];

const NONE: OpOffsets = OpOffsets { fd: ABSENT, slot: ABSENT, paths: [ABSENT; 2] };

/// What the programs on io_uring read. A kernel may lack what single operations keep.
pub(super) fn read_offsets(btf: &Btf) -> Result<RingOffsets, BtfError> {
    let request = |member| btf.member_offset("io_kiocb", member);
    let command = request("cmd")?;
    let descriptor = request("cqe.fd")?;
    let in_command = |structure, member| {
        btf.member_offset(structure, member).map_or(ABSENT, |at| at.saturating_add(command))
    };
    let mut ops = [NONE; RING_OPS];
    for (number, name) in IO_OPS {
        let Some(of) = usize::try_from(*number).ok().and_then(|at| ops.get_mut(at)) else {
            continue;
        };
        if OF_FILES.contains(name) {
            of.fd = descriptor;
        }
        for own in OWN.iter().filter(|own| own.op == *name) {
            if let Some(member) = own.fd {
                of.fd = in_command(own.structure, member);
            }
            if let Some(member) = own.slot {
                of.slot = in_command(own.structure, member);
            }
            for (at, member) in of.paths.iter_mut().zip(own.paths) {
                *at = in_command(own.structure, member);
            }
        }
    }
    Ok(RingOffsets {
        ctx: request("ctx")?,
        opcode: request("opcode")?,
        flags: request("flags")?,
        user_data: request("cqe.user_data")?,
        setup: btf.member_offset("io_ring_ctx", "flags")?,
        name: btf.member_offset("filename", "name")?,
        has_cqe: u32::from(parameters(btf, "io_uring_complete", &[3, 7])? == 3),
        reserved: 0,
        ops,
    })
}
