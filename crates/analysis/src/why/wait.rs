//! A wait of a thread, and what ended it.

use flightrec_format::abi::record::WakeContext;

use super::names::{Names, Told};
use super::story::Story;
use super::track::{CallSpan, Deed, Track};
use crate::reason::{self, Awaited, Class};
use crate::syscalls::CallKind;
use crate::{Interval, State, TaskState};

/// How long before its wakeup what woke a thread may have happened, ns.
const JUST_NS: u64 = 2_000_000;
/// `SIGCHLD` (arch/x86/include/uapi/asm/signal.h).
const SIGCHLD: u32 = 17;
/// `ETIMEDOUT`, `EAGAIN`, `EINTR` (include/uapi/asm-generic).
const ETIMEDOUT: i32 = -110;
pub(super) const EAGAIN: i32 = -11;
const EINTR: i32 = -4;

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Cause {
    /// A thread woke it.
    Thread(u32),
    /// A packet came; this thread was sending at that moment. `sure`: to this very socket.
    Sender { tid: u32, sure: bool },
    /// A signal that this thread sent.
    Signal { tid: u32, signal: u32 },
    /// The time came that the thread itself had asked for.
    Timer,
    /// A disk, or what is between the thread and it.
    Disk,
    /// A packet from the network.
    Network,
    /// Another interrupt.
    Interrupt,
    /// The lock of the address space, of other threads of the process.
    AddressSpace,
    /// It was not seen what.
    Unseen,
    /// Nothing yet: it waits still.
    Lasting,
}

/// A wait.
#[derive(Debug, Clone)]
pub(super) struct Wait<'s> {
    /// When, as far as it is in the stretch that is looked at.
    pub(super) span: Interval,
    pub(super) call: Option<&'s CallSpan>,
    pub(super) kind: CallKind,
    pub(super) told: Option<&'s Told>,
    /// Functions of the kernel, from the innermost out; none where there is no stack.
    pub(super) functions: Vec<String>,
    pub(super) reason: Option<Awaited>,
    pub(super) cause: Cause,
}

impl Story {
    /// Looks at a wait of a thread.
    pub(super) fn wait(&self, tid: u32, span: &Interval, names: &impl Names) -> Wait<'_> {
        let missing = || Wait {
            span: *span,
            call: None,
            kind: CallKind::Other,
            told: None,
            functions: Vec::new(),
            reason: None,
            cause: Cause::Unseen,
        };
        let Some(track) = self.tracks.get(tid) else { return missing() };
        let call = track.call_at(span.from);
        let id = call.map(|call| call.call).or(span.call);
        let kind = id.map_or(CallKind::Other, |id| self.kinds.kind(id));
        let told = call.and_then(|call| self.tracks.told(call.told));
        let stack = track.stack(span.until);
        let functions: Vec<String> = stack
            .map(|row| row.frames.iter().map(|frame| names.kernel(*frame)).collect())
            .unwrap_or_default();
        let mut reason = reason::awaited(&functions);
        let is_contended = || {
            track.deeds.iter().any(|deed| {
                deed.deed == Deed::Contention && deed.from <= span.until && deed.until >= span.from
            })
        };
        if reason.is_none() && kind == CallKind::Memory && is_contended() {
            reason = Some(reason::ADDRESS_SPACE_LOCK);
        }
        let mut wait = Wait { call, kind, told, functions, reason, ..missing() };
        wait.cause = self.cause(tid, track, &wait);
        wait
    }

    fn cause(&self, tid: u32, track: &Track, wait: &Wait<'_>) -> Cause {
        let Wait { span, call, kind, .. } = wait;
        let Some(waker) = span.waker else {
            return if span.until >= self.end { Cause::Lasting } else { Cause::Unseen };
        };
        let is_disk = track.waited_for_io(span.from)
            || wait.reason.is_some_and(|reason| reason.class == Class::Disk);
        if let Some(by) = waker.thread() {
            if by == tid {
                return Cause::Unseen;
            }
            let waker = self.tracks.get(by);
            let is_kernel = waker.is_some_and(|of| !of.is_user && !self.is_worker(by, of, track));
            let does_io = waker.is_some_and(|of| {
                of.within(span.from, span.until).iter().any(|of_waker| {
                    matches!(of_waker.state, State::Blocked(state)
                        if TaskState::of(state.into()) == TaskState::Uninterruptible)
                })
            });
            // A worker that waited for the disk itself is followed; one that only passes on that a
            // request is done is not.
            if is_disk && is_kernel && !does_io {
                return Cause::Disk;
            }
            let signal = self.signal_from(by, track, tid, wait);
            // A child that ends is waited for as such.
            if let Some(signal) = signal.filter(|signal| *signal != SIGCHLD) {
                return Cause::Signal { tid: by, signal };
            }
            let is_same = waker.is_some_and(|of| of.pid == track.pid && track.pid != 0);
            let is_address_space = wait.reason.map(|of| of.class) == Some(Class::AddressSpace)
                || *kind == CallKind::Memory && wait.reason.is_none() && is_same;
            if is_address_space && is_same {
                return Cause::AddressSpace;
            }
            return Cause::Thread(by);
        }
        if *kind == CallKind::Sleep || call.is_some_and(|call| is_timeout(call, *kind)) {
            return Cause::Timer;
        }
        let object = wait.told.and_then(|told| told.object.as_deref());
        if *kind == CallKind::Read && object.is_some_and(is_timer) {
            return Cause::Timer;
        }
        if is_disk {
            return Cause::Disk;
        }
        if waker.context == WakeContext::Softirq
            && let Some(cause) = self.sender(waker.tid, wait)
        {
            return cause;
        }
        let is_socket = object.is_some_and(is_inet);
        match kind {
            CallKind::Receive | CallKind::Connect | CallKind::Accept | CallKind::Send => {
                Cause::Network
            }
            _ if is_socket => Cause::Network,
            // A lock with a timeout that was tried again.
            CallKind::Futex => Cause::Timer,
            _ => Cause::Interrupt,
        }
    }

    /// Whether a thread of the kernel works for a process, as those of io_uring do.
    fn is_worker(&self, tid: u32, waker: &Track, of: &Track) -> bool {
        waker.pid == of.pid && of.pid != 0
            || self.facts.operations.iter().any(|row| row.done_by == tid)
    }

    /// The signal that a thread sent just before it woke another one, whose call it ended.
    fn signal_from(&self, by: u32, track: &Track, tid: u32, wait: &Wait<'_>) -> Option<u32> {
        let until = wait.span.until;
        let is_ended = wait.kind == CallKind::Signal
            || wait.call.and_then(|call| call.ret).is_some_and(|ret| {
                ret == EINTR || ret < 0 && crate::is_restart(ret.saturating_neg())
            });
        if !is_ended {
            return None;
        }
        let first =
            self.facts.signals.partition_point(|row| row.time.saturating_add(JUST_NS) < until);
        let rows = self.facts.signals.get(first..)?.iter();
        rows.take_while(|row| row.time <= until.saturating_add(JUST_NS))
            .find(|row| {
                row.by == by
                    && row.is_by_thread()
                    && (row.target_tid == tid || row.target_pid == track.pid)
            })
            .map(|row| row.signal)
    }

    /// Over loopback a packet arrives in a softirq that runs in the context of the thread that sends
    /// it (`loopback_xmit`, drivers/net/loopback.c; `__local_bh_enable_ip`, kernel/softirq.c). Of a
    /// thread that was in no call on a socket, nothing follows: the softirq only interrupted it.
    fn sender(&self, interrupted: u32, wait: &Wait<'_>) -> Option<Cause> {
        let sender = self.tracks.get(interrupted)?;
        let call = sender.call_at(wait.span.until)?;
        let kind = self.kinds.kind(call.call);
        // Who receives makes room for who sends: the acknowledgement is a packet, too.
        let makes_room = matches!(wait.kind, CallKind::Send | CallKind::Write)
            && matches!(kind, CallKind::Receive | CallKind::Read);
        let sends = makes_room
            || matches!(kind, CallKind::Send | CallKind::Write | CallKind::Connect)
            || ["close", "shutdown", "exit_group"]
                .iter()
                .any(|name| self.kinds.is(call.call, name));
        if !sends {
            return None;
        }
        let own = wait.told.and_then(|told| told.object.as_deref());
        let waits_for_packets = match wait.kind {
            // Who polls may wait for anything; the doubt says so.
            CallKind::Receive
            | CallKind::Send
            | CallKind::Connect
            | CallKind::Accept
            | CallKind::Poll => true,
            _ => own.is_some_and(is_socket),
        };
        if !waits_for_packets {
            return None;
        }
        let theirs = self.tracks.told(call.told).and_then(|told| told.object.as_deref());
        match (own.and_then(ends), theirs.and_then(ends)) {
            (Some((a, b)), Some((c, d))) if (a, b) == (d, c) => {
                Some(Cause::Sender { tid: interrupted, sure: true })
            }
            (Some(_), Some(_)) => None,
            _ => {
                // Only calls of sockets are known to be on one without its name.
                let is_of_socket =
                    matches!(kind, CallKind::Send | CallKind::Receive | CallKind::Connect);
                let is_on_socket = theirs.map_or(is_of_socket, is_socket);
                (own.is_none_or(is_socket) && is_on_socket)
                    .then_some(Cause::Sender { tid: interrupted, sure: false })
            }
        }
    }
}

/// Whether a call says by what it returned that its time was up.
fn is_timeout(call: &CallSpan, kind: CallKind) -> bool {
    match (call.ret, kind) {
        (Some(0), CallKind::Poll | CallKind::Aio) | (Some(ETIMEDOUT), _) => true,
        (Some(EAGAIN), _) => !matches!(kind, CallKind::Other | CallKind::Vfork),
        _ => false,
    }
}

/// The two ends of a connection, of `TCP:[127.0.0.1:80->127.0.0.1:5000]`.
fn ends(name: &str) -> Option<(&str, &str)> {
    let (_, inside) = name.strip_suffix(']')?.split_once(":[")?;
    inside.split_once("->")
}

/// Whether a descriptor stands for a socket, by its name.
pub(super) fn is_socket(name: &str) -> bool {
    let protocol = name.split_once(":[").map(|(protocol, _)| protocol);
    name.starts_with("socket:")
        || protocol.is_some_and(|of| of.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// Whether a descriptor is a timer, by its name.
pub(super) fn is_timer(name: &str) -> bool {
    name == "anon_inode:[timerfd]"
}

/// Whether it is one of the Internet.
fn is_inet(name: &str) -> bool {
    name.starts_with("TCP") || name.starts_with("UDP")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_a_connection() {
        assert_eq!(
            ends("TCP:[127.0.0.1:80->127.0.0.1:5000]"),
            Some(("127.0.0.1:80", "127.0.0.1:5000"))
        );
        assert_eq!((ends("TCP:[77]"), ends("/a->b")), (None, None));
        assert!(is_socket("UNIX-STREAM:[1->2]") && is_socket("socket:AF_INET,SOCK_STREAM"));
        assert!(!is_socket("pipe:[7]") && !is_socket("/srv/a"));
    }
}
