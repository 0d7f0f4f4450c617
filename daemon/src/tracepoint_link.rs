//! Attaching a classic tracepoint program by the tracepoint's number.
//!
//! aya looks the number up in tracefs itself, which only root can read; here it comes from whoever
//! could. The link is as `libbpf` makes it: a perf event of the tracepoint, and the program linked
//! to it.
//!
//! Where the kernel keeps perf events for root ([`paranoid`]), root opens them ahead
//! ([`open_perf_fds`], from the unit's `ExecStartPre=`) and systemd, which keeps them meanwhile
//! (its file descriptor store), passes them to the daemon when it starts that.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use flightrec_format::live::sys;
use sd_notify::NotifyState;
use tracing::{info, warn};

use crate::attachments::{ATTACHMENTS, perf_events};
use crate::configured_tracepoints::ConfiguredTracepoint;
use crate::syscalls::{TracefsError, tracepoint_id};

/// `PERF_TYPE_TRACEPOINT`, include/uapi/linux/perf_event.h.
const TYPE_TRACEPOINT: u64 = 2;
/// `PERF_ATTR_SIZE_VER5` (Linux 4.1): `struct perf_event_attr` in bytes. A kernel takes the sizes
/// of all before it.
const ATTR_SIZE: usize = 112;
/// `PERF_FLAG_FD_CLOEXEC`.
const FD_CLOEXEC: libc::c_ulong = 8;
/// `perf_event_attr.disabled`: it does not count by itself. Programs that are linked to its
/// tracepoint run all the same.
const DISABLED: u64 = 1;

/// Attaches `program` to the tracepoint of this name and number, on all CPUs, and pins the link as
/// `link`. `cookie`: what the program learns of it.
///
/// The program hears of every CPU although the event is opened on one: it hangs on the tracepoint,
/// not on the event (`perf_event_set_bpf_prog`, kernel/events/core.c, Linux 6.1).
pub fn attach(
    program: BorrowedFd<'_>,
    name: &str,
    id: u32,
    cookie: u64,
    link: &Path,
) -> io::Result<()> {
    let own;
    let event = match open(id) {
        Ok(event) => {
            own = event;
            own.as_fd()
        }
        Err(e) => *handed_on().get(&title(name)).ok_or(e)?,
    };
    let linked = sys::link_perf_event(program, event, cookie)?;
    sys::obj_pin(linked.as_fd(), link)
}

/// As root, from the `ExecStartPre=` of a daemon's unit that may not open perf events: opens those
/// that it needs, and leaves them with systemd for it. Where the kernel lets it open them itself
/// there is nothing to do.
pub fn open_perf_fds(
    tracefs: &Path,
    tables: &[ConfiguredTracepoint],
) -> Result<(), OpenPerfFdsError> {
    match paranoid() {
        Some(level) if level > 2 => {
            info!("kernel.perf_event_paranoid is {level}: opening perf events for flightd");
        }
        _ => return Ok(()),
    }
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return Err(OpenPerfFdsError::NoSystemd);
    }
    for (tracepoint, row) in perf_events(ATTACHMENTS) {
        let number = match tracepoint_id(tracefs, tracepoint.category, tracepoint.name) {
            Err(TracefsError::NoEvent { .. }) if row.optional => continue,
            other => other?,
        };
        hand_on(tracepoint.name, number)?;
    }
    // That one is not there, or can't be opened, is for the daemon to tell.
    for ConfiguredTracepoint { event, .. } in tables {
        let number = event.split_once(':').map(|(of, name)| tracepoint_id(tracefs, of, name));
        if let Some(Ok(number)) = number
            && let Err(e) = hand_on(event, number)
        {
            warn!("the tracepoint {event}: {e}");
        }
    }
    Ok(())
}

/// Opens a perf event, and leaves it with systemd.
fn hand_on(name: &str, number: u32) -> Result<(), OpenPerfFdsError> {
    let event = open(number).map_err(OpenPerfFdsError::Open)?;
    let title = title(name);
    // Those of an earlier start, first.
    sd_notify::notify(&[NotifyState::FdStoreRemove, NotifyState::FdName(&title)])
        // It would be polled for a hang-up, which an event that nobody maps always tells
        // (perf_poll, kernel/events/core.c, Linux 6.1).
        .and_then(|()| {
            let state = [
                NotifyState::FdStore,
                NotifyState::FdName(&title),
                NotifyState::Custom("FDPOLL=0"),
            ];
            sd_notify::notify_with_fds(&state, &[event.as_fd()])
        })
        .map_err(OpenPerfFdsError::Systemd)
}

/// Why events could not be handed on.
#[derive(Debug, thiserror::Error)]
pub enum OpenPerfFdsError {
    /// Not started by systemd, or by a unit that does not listen.
    #[error(
        "--open-perf-fds leaves perf events with systemd: it is for ExecStartPre=+ of a unit with \
         NotifyAccess=exec and FileDescriptorStoreMax="
    )]
    NoSystemd,
    /// Their numbers are not to be had.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// The kernel refused one.
    #[error("a perf event could not be opened: {0}. --open-perf-fds needs root")]
    Open(io::Error),
    /// Systemd could not be told.
    #[error("systemd could not be told: {0}")]
    Systemd(io::Error),
}

/// What the names begin with by which systemd keeps events.
const TITLE: &str = "flightrec-";

/// The name by which systemd keeps an event; a colon would part it from the next.
fn title(name: &str) -> String {
    format!("{TITLE}{}", name.replace(':', "."))
}

/// Events that systemd passed to this process, by their titles.
fn handed_on() -> &'static BTreeMap<String, BorrowedFd<'static>> {
    static HANDED_ON: OnceLock<BTreeMap<String, BorrowedFd<'static>>> = OnceLock::new();
    HANDED_ON.get_or_init(|| {
        let passed = match sd_notify::listen_fds_with_names() {
            Ok(passed) => passed,
            Err(e) => {
                warn!("the descriptors from systemd can't be read: {e}");
                return BTreeMap::new();
            }
        };
        let passed = passed.filter(|(_, passed)| passed.starts_with(TITLE));
        let events = passed.map(|(fd, passed)| {
            // SAFETY: systemd has opened it for this process, and nothing here closes it.
            (passed, unsafe { BorrowedFd::borrow_raw(fd) })
        });
        events.collect()
    })
}

/// How far the kernel keeps perf events from others than root (`kernel.perf_event_paranoid`,
/// sysctl/kernel.rst), if it says so.
pub fn paranoid() -> Option<i32> {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
}

/// Opens a perf event of a tracepoint, for all processes, on CPU 0.
fn open(id: u32) -> io::Result<OwnedFd> {
    open_perf_event(TYPE_TRACEPOINT, u64::from(id), 0, 0, DISABLED, 0)
}

/// Opens a perf event for all processes on a CPU. `kind` and `config` say what it counts; after
/// `period` of these it strikes, 0: never. `format`: what reading it tells (`read_format`).
pub fn open_perf_event(
    kind: u64,
    config: u64,
    period: u64,
    format: u64,
    flags: u64,
    cpu: u16,
) -> io::Result<OwnedFd> {
    let mut attr = [0u64; ATTR_SIZE / 8];
    attr[0] = kind | (ATTR_SIZE as u64) << 32; // type, size
    attr[1] = config;
    attr[2] = period; // sample_period
    attr[4] = format; // read_format
    attr[5] = flags;
    let (pid, cpu, group) = (-1, i32::from(cpu), -1);
    // SAFETY: `attr` is a live `struct perf_event_attr` of the size that it says, and the call
    // keeps no address.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, attr.as_ptr(), pid, cpu, group, FD_CLOEXEC)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TRACEPOINTS_MAX;

    #[test]
    fn systemd_keeps_as_many_events_as_are_handed_on() {
        let unit = include_str!("../../packaging/systemd/flightd.service");
        let count = perf_events(ATTACHMENTS).count() + TRACEPOINTS_MAX;
        let line = format!("\nFileDescriptorStoreMax={count}\n");
        assert!(unit.contains(&line), "not in flightd.service: {line}");
    }
}
