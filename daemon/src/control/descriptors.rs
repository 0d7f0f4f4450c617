//! Descriptors that come with a request (`SCM_RIGHTS`, unix(7)).

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use flightrec_format::control::PROBED_MAX;
use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::UnixStream;

/// Most that are taken with a request: the perf events of as many functions as can be probed.
const MOST: usize = 2 * PROBED_MAX;
/// Most that the kernel passes at once (`SCM_MAX_FD`, include/net/scm.h).
const AT_ONCE: usize = 253;

/// What reads requests, and keeps the descriptors that come with them.
#[derive(Debug)]
pub(super) struct Received {
    /// Whether any are taken; else they are closed unseen by the kernel.
    wanted: bool,
    all: Vec<OwnedFd>,
}

impl Received {
    /// None yet.
    pub(super) fn new(wanted: bool) -> Self {
        Self { wanted, all: Vec::new() }
    }

    /// Those that came so far, in order.
    pub(super) fn take(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.all)
    }

    /// Reads what is there; how much.
    pub(super) async fn read(
        &mut self,
        stream: &mut UnixStream,
        buf: &mut [u8],
    ) -> io::Result<usize> {
        if !self.wanted {
            return stream.read(buf).await;
        }
        let all = &mut self.all;
        let fd = stream.as_raw_fd();
        stream.async_io(Interest::READABLE, || receive(fd, buf, all)).await
    }

    /// Reads until `buf` is full, or the other side has no more; how much.
    pub(super) async fn fill(
        &mut self,
        stream: &mut UnixStream,
        buf: &mut [u8],
    ) -> io::Result<usize> {
        let mut at = 0;
        while let Some(rest) = buf.get_mut(at..).filter(|rest| !rest.is_empty()) {
            match self.read(stream, rest).await? {
                0 => break,
                n => at += n,
            }
        }
        Ok(at)
    }
}

/// Reads once. What is more than may come is an error, and closed.
fn receive(socket: RawFd, buf: &mut [u8], all: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut control = cmsg_space!([RawFd; AT_ONCE]);
    let mut parts = [IoSliceMut::new(buf)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<()>(socket, &mut parts, Some(&mut control), flags)?;
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = part {
            // SAFETY: the kernel has just made these for this process, and nothing else has them.
            all.extend(fds.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    if message.flags.contains(MsgFlags::MSG_CTRUNC) || all.len() > MOST {
        all.clear();
        return Err(io::Error::other(
            "descriptors that came with the request could not be taken: raise the limit of open \
             files (LimitNOFILE=)",
        ));
    }
    Ok(message.bytes)
}
