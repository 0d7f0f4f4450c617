//! The client's side of the control socket.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use thiserror::Error;

use flightrec_format::control::{
    self, Account, FrameError, FunctionCalls, NewProbe, ProbeChoice, ProbeStatus, RESPONSE_MAX,
    Request, Response, SOCKET_NAME, Status,
};

/// How long the daemon may take to go on with an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// What can go wrong between us and the daemon.
#[derive(Debug, Error)]
pub enum ControlError {
    /// Nobody listens.
    #[error(
        "flightd is not running (no {SOCKET_NAME} in {}): start it (`systemctl start flightd`, or \
         `flightd` as root), give its directory with --runtime-dir, or read the rings that it left \
         with --bpffs-dir, as root",
        .0.display()
    )]
    NotRunning(PathBuf),
    /// The socket is not for us.
    #[error(
        "no access to {}: join the group flightrec (and log in again), or run as root",
        .0.display()
    )]
    Permission(PathBuf),
    /// Any other failure of the socket.
    #[error("{}: {source}", .path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// The daemon said nothing for `PATIENCE`.
    #[error("flightd does not answer (waited {} s): its log may say why; --bpffs-dir reads the \
             rings without it, as root", PATIENCE.as_secs())]
    Silent,
    /// The connection ended in the middle.
    #[error("flightd closed the connection; its log says why")]
    Closed,
    /// What came is not the protocol.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The daemon refused, with its reason.
    #[error("flightd: {0}")]
    Refused(String),
    /// An answer to another question.
    #[error("flightd sent an unexpected answer: use flightctl and flightd of the same release")]
    Unexpected,
}

/// A connection to the daemon.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    path: PathBuf,
    /// The frame that came last, after its length.
    frame: Vec<u8>,
}

/// What [`Client::receive_in_place`] gives.
#[derive(Debug)]
pub enum Received<'a> {
    /// The pages of a [`Response::Pages`].
    Pages(&'a [u8]),
    /// Any other answer.
    Other(Response),
}

impl Client {
    /// Connects to the daemon of a runtime directory.
    ///
    /// # Errors
    /// There is no daemon ([`ControlError::NotRunning`]), or its socket may not be used.
    pub fn connect(runtime_dir: &Path) -> Result<Self, ControlError> {
        let path = runtime_dir.join(SOCKET_NAME);
        let stream = UnixStream::connect(&path).map_err(|e| match e.kind() {
            // A socket on which nobody listens is what a dead daemon leaves.
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ControlError::NotRunning(runtime_dir.into())
            }
            io::ErrorKind::PermissionDenied => ControlError::Permission(path.clone()),
            _ => ControlError::Socket { path: path.clone(), source: e },
        })?;
        let client = Self { stream, path, frame: Vec::new() };
        client.stream.set_read_timeout(Some(PATIENCE)).map_err(|e| client.failed(e))?;
        client.stream.set_write_timeout(Some(PATIENCE)).map_err(|e| client.failed(e))?;
        Ok(client)
    }

    /// Asks; the answers are for [`Self::receive`].
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn send(&mut self, request: &Request) -> Result<(), ControlError> {
        let frame = control::encode(request)?;
        match self.stream.write_all(&frame) {
            // A daemon that refuses us has said so before it hung up.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(|e| self.failed(e)),
        }
    }

    /// The next answer. A refusal is an error.
    ///
    /// # Errors
    /// The daemon refuses ([`ControlError::Refused`]), is gone, or answers with what is no answer.
    pub fn receive(&mut self) -> Result<Response, ControlError> {
        self.next_frame()?;
        self.decoded()
    }

    /// The same, with pages where they came to lie.
    ///
    /// # Errors
    /// As of [`Self::receive`].
    pub fn receive_in_place(&mut self) -> Result<Received<'_>, ControlError> {
        self.next_frame()?;
        if let Some(pages) = control::pages(&self.frame) {
            return Ok(Received::Pages(pages));
        }
        self.decoded().map(Received::Other)
    }

    /// Reads the next frame.
    fn next_frame(&mut self) -> Result<(), ControlError> {
        let mut prefix = [0; 4];
        self.stream.read_exact(&mut prefix).map_err(|e| self.failed(e))?;
        self.frame.resize(control::length(prefix, RESPONSE_MAX)?, 0);
        self.stream.read_exact(&mut self.frame).map_err(|e| self.failed(e))
    }

    /// The frame as an answer.
    fn decoded(&self) -> Result<Response, ControlError> {
        match control::decode(&self.frame)? {
            Response::Error(reason) => Err(ControlError::Refused(reason)),
            response => Ok(response),
        }
    }

    /// The state of the recording.
    ///
    /// # Errors
    /// As of [`Self::receive`].
    pub fn status(&mut self) -> Result<Status, ControlError> {
        self.send(&Request::Status)?;
        match self.receive()? {
            Response::Status(status) => Ok(*status),
            _ => Err(ControlError::Unexpected),
        }
    }

    /// What recording costs.
    ///
    /// # Errors
    /// As of [`Self::receive`].
    pub fn account(&mut self) -> Result<Account, ControlError> {
        self.send(&Request::Budget)?;
        match self.receive()? {
            Response::Account(account) => Ok(*account),
            _ => Err(ControlError::Unexpected),
        }
    }

    /// Changes what recording may cost, in millionths; 0: no limit.
    ///
    /// # Errors
    /// As of [`Self::receive`]; the daemon refuses who is not root, nor its own user.
    pub fn set_budget(
        &mut self,
        total: Option<u32>,
        per_cpu: Option<u32>,
    ) -> Result<(), ControlError> {
        self.send(&Request::SetBudget { total, per_cpu })?;
        match self.receive()? {
            Response::Done => Ok(()),
            _ => Err(ControlError::Unexpected),
        }
    }

    /// Probes functions for a time, with their file or the perf events of their points
    /// ([`Request::AddProbe`]).
    ///
    /// # Errors
    /// As of [`Self::receive`]; the daemon refuses who is not root, and what can't be probed.
    pub fn add_probe(
        &mut self,
        new: NewProbe,
        events: &[OwnedFd],
    ) -> Result<Vec<ProbeStatus>, ControlError> {
        let frame = control::encode(&Request::AddProbe(Box::new(new)))?;
        let sent = send_with(&self.stream, &frame, events);
        match sent {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
            other => other.map_err(|e| self.failed(e))?,
        }
        Ok(self.received_probes()?.0)
    }

    /// What is probed; and whether the daemon takes a file instead of perf events.
    ///
    /// # Errors
    /// As of [`Self::receive`].
    pub fn probes(&mut self) -> Result<(Vec<ProbeStatus>, bool), ControlError> {
        self.send(&Request::Probes)?;
        self.received_probes()
    }

    /// Ends probes; those that were.
    ///
    /// # Errors
    /// As of [`Self::receive`]; the daemon refuses who is not root, and knows no such probe.
    pub fn remove_probes(&mut self, choice: ProbeChoice) -> Result<Vec<ProbeStatus>, ControlError> {
        self.send(&Request::RemoveProbes(choice))?;
        Ok(self.received_probes()?.0)
    }

    fn received_probes(&mut self) -> Result<(Vec<ProbeStatus>, bool), ControlError> {
        match self.receive()? {
            Response::Probes(probes, takes_files) => Ok((probes, takes_files)),
            _ => Err(ControlError::Unexpected),
        }
    }

    /// How often functions that are probed, or were, were called; and the present time of
    /// `CLOCK_MONOTONIC`, ns.
    ///
    /// # Errors
    /// As of [`Self::receive`].
    pub fn function_calls(&mut self) -> Result<(Vec<FunctionCalls>, u64), ControlError> {
        self.send(&Request::FunctionCalls)?;
        match self.receive()? {
            Response::FunctionCalls(calls, now) => Ok((calls, now)),
            _ => Err(ControlError::Unexpected),
        }
    }

    /// Writes a line into the recording.
    ///
    /// # Errors
    /// As of [`Self::receive`]; the daemon refuses a line that is too long.
    pub fn mark(&mut self, text: String) -> Result<(), ControlError> {
        self.send(&Request::Mark { text })?;
        match self.receive()? {
            Response::Done => Ok(()),
            _ => Err(ControlError::Unexpected),
        }
    }

    /// Has a snapshot taken that reaches so many ns back (0: as the daemon's configuration says);
    /// its id.
    ///
    /// # Errors
    /// As of [`Self::receive`]; the daemon refuses where a limit of snapshots is reached.
    pub fn snapshot(&mut self, last: u64, reason: String) -> Result<String, ControlError> {
        self.send(&Request::Snapshot { last, reason })?;
        match self.receive()? {
            Response::Snapshot(id) => Ok(id),
            _ => Err(ControlError::Unexpected),
        }
    }

    fn failed(&self, e: io::Error) -> ControlError {
        match e.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => ControlError::Closed,
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ControlError::Silent,
            _ => ControlError::Socket { path: self.path.clone(), source: e },
        }
    }
}

/// Sends a frame and descriptors. The kernel passes so many at once, with a byte at least
/// (`SCM_MAX_FD`, include/net/scm.h); the rest of the frame goes with the last of them.
fn send_with(stream: &UnixStream, frame: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
    const AT_ONCE: usize = 250;
    let mut rest = frame;
    for fds in descriptors.chunks(AT_ONCE) {
        let fds: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let (first, others) = rest.split_at_checked(1).ok_or(io::ErrorKind::InvalidInput)?;
        let (part, flags) = ([IoSlice::new(first)], MsgFlags::MSG_NOSIGNAL);
        let control = [ControlMessage::ScmRights(&fds)];
        sendmsg::<()>(stream.as_raw_fd(), &part, &control, flags, None)?;
        rest = others;
    }
    let mut stream = stream;
    stream.write_all(rest)
}
