//! An event as a reader of the library gets it: by itself, with all that is known of it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use flightrec_format::containers::Container;
use flightrec_format::decode::{Body, Call, Event};

use crate::pipeline::{EventContext, Shown, Wake};
use crate::session::Session;
use crate::threads::trim;

/// An event with what the recording tells about it.
///
/// It borrows nothing, and holds a copy of the event with its strings: keep what is needed of it
/// rather than all events of a long window.
#[derive(Debug, Clone)]
pub struct KnownEvent {
    shown: Shown,
    session: Arc<Session>,
}

impl KnownEvent {
    /// With the recording that it is of.
    pub(crate) fn new(shown: Shown, session: Arc<Session>) -> Self {
        Self { shown, session }
    }

    /// The event itself: its time (`CLOCK_MONOTONIC`, ns), its CPU, its thread, and what happened.
    pub fn event(&self) -> &Event {
        &self.shown.event
    }

    /// What happened: [`Event::body`].
    pub fn body(&self) -> &Body {
        &self.shown.event.body
    }

    /// What the recording tells about it, as plain fields.
    pub fn known(&self) -> EventContext<'_> {
        self.shown.known()
    }

    /// The recording that it is of: its machine, its boot, its tables of names.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// ns of `CLOCK_MONOTONIC`. It goes on over steps of the wall clock, and begins anew with each
    /// boot ([`Session::boot`]).
    pub fn time(&self) -> u64 {
        self.shown.event.time
    }

    /// Time of day, UNIX time in ns, as the machine's clock showed it.
    pub fn wall_ns(&self) -> i64 {
        self.shown.known.wall_ns
    }

    /// Time of day, as the machine's clock showed it.
    pub fn wall(&self) -> SystemTime {
        let ns = self.wall_ns();
        let since = Duration::from_nanos(ns.unsigned_abs());
        if ns < 0 { SystemTime::UNIX_EPOCH - since } else { SystemTime::UNIX_EPOCH + since }
    }

    /// CPU that it happened on.
    pub fn cpu(&self) -> u16 {
        self.shown.event.cpu
    }

    /// Thread that did it, in the initial PID namespace; 0: the CPU's idle thread. Of a
    /// wakeup out of an interrupt it is the thread that was interrupted.
    pub fn tid(&self) -> u32 {
        self.shown.event.tid
    }

    /// The thread's process; the thread's own id where it is not known.
    pub fn pid(&self) -> u32 {
        self.shown.known.pid
    }

    /// Name of the thread at that time, any bytes without NUL; empty where it is not known.
    pub fn comm(&self) -> &[u8] {
        trim(&self.shown.known.comm)
    }

    /// The other thread of a scheduling event: the next of a switch, the wakee of a wakeup, the
    /// thread that migrates. Its id and its name, empty where it is not known.
    pub fn other(&self) -> Option<(u32, &[u8])> {
        let tid = match *self.body() {
            Body::Switch { next, .. } => next,
            Body::Waking { wakee, .. } => wakee,
            Body::Migrate { thread, .. } => thread,
            _ => return None,
        };
        Some((tid, trim(&self.shown.known.next_comm)))
    }

    /// Of a wakeup: the CPU whose run queue the wakee was put on, the CPU where it ran, and how
    /// many threads it found waiting there.
    pub fn wake(&self) -> Option<Wake> {
        self.shown.known.wake
    }

    /// Path of the thread's control group (cgroup v2), as in `/system.slice/nginx.service`; `None`
    /// where it is not known, or the recording has no name of it.
    pub fn cgroup(&self) -> Option<&str> {
        self.session.cgroup(self.shown.known.cgroup)
    }

    /// The systemd unit of the thread ([`crate::unit`]): `nginx.service`; of another manager than the
    /// system's, `user@1000.service/app.slice/nginx.service`. `None` as for [`Self::cgroup`], and
    /// where it is in no unit.
    pub fn unit(&self) -> Option<&str> {
        crate::unit(self.cgroup()?)
    }

    /// The container of the thread, or the pod: its id, and what it is called as far as the node's
    /// runtime wrote that down. `None` as for [`Self::cgroup`], and where it is in neither.
    pub fn container(&self) -> Option<&Container> {
        self.session.container(self.shown.known.cgroup)
    }

    /// The system call that begins or ends.
    pub fn call(&self) -> Option<&Call> {
        match self.body() {
            Body::Enter(call) | Body::Exit { call, .. } => Some(call),
            _ => None,
        }
    }

    /// Name of the system call, as in `openat`; `None` for what is no call, and for numbers that
    /// the recorded kernel has no name of.
    pub fn call_name(&self) -> Option<&str> {
        let call = self.call()?;
        self.session.call_name(call.abi, call.nr)
    }

    /// Of a call that ends: its return value, as the kernel gives it (failures are -errno, but see
    /// [`Self::failure`]).
    pub fn result(&self) -> Option<i64> {
        match self.body() {
            Body::Exit { ret, .. } => Some(*ret),
            _ => None,
        }
    }

    /// Of a call that ends: the error with which it failed, as a positive number; `None`: it did
    /// not. A call that the kernel interrupts and goes on with has not failed, and what `sigreturn`
    /// returns is never an error.
    pub fn failure(&self) -> Option<i32> {
        let Call { abi, nr, .. } = *self.call()?;
        self.session.failures().failure(abi, nr, self.result()?)
    }

    /// Of a call that ends: how long it took; `None` where its beginning is not known, or its time
    /// was not recorded.
    pub fn duration(&self) -> Option<Duration> {
        self.shown.known.duration_ns.map(Duration::from_nanos)
    }

    /// Of a call that ends and began before the events that were read: how long it took at least.
    /// `None` where its duration is known ([`Self::duration`]), or nothing is.
    pub fn duration_at_least(&self) -> Option<Duration> {
        self.shown.known.at_least_ns.map(Duration::from_nanos)
    }

    /// Of a call: what one of its descriptors stood for when the event happened, as in `/etc/hosts`
    /// or `TCP:[10.0.0.1:443->10.0.0.9:50000]`, any bytes; `None` where it is not known, and for
    /// descriptors that are no arguments of the call. Of a call that is one event, when it began.
    pub fn descriptor(&self, fd: i32) -> Option<&[u8]> {
        self.shown.names.names().get(fd)
    }

    /// The same of a descriptor that the call has returned: what it stands for since.
    pub fn returned_descriptor(&self, fd: i32) -> Option<&[u8]> {
        self.shown.names.names().made(fd)
    }
}
