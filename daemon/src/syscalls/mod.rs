//! The machine's tables of system calls: numbers and names from the crate `syscalls`, which has
//! them from the kernel's sources, arguments as the running kernel publishes them in tracefs.
//!
//! The kernel publishes an event by the name of the function that serves a call, and only for its
//! own (64-bit) table. `names` says which event a call has; [`mod@format`] reads it; `table` and
//! `pointees` make the numbers that are frozen into the probes.

mod format;
mod names;
mod pointees;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use flightrec_format::abi::probe::CALLS;
use flightrec_format::architecture::Architecture;
use flightrec_format::meta::{Argument, Syscall};
use syscalls::{aarch64, arm, x86, x86_64};
use thiserror::Error;
use tracing::warn;

pub(crate) use format::read_bounded;
pub use pointees::pointee_table;
pub use table::call_table;

/// Tracefs can't be read.
#[derive(Debug, Error)]
pub enum TracefsError {
    /// Nothing is mounted there.
    #[error(
        "{tracefs}: no tracefs is mounted there. Mount it: `mount -t tracefs nodev {tracefs}`, or \
         say where it is in [kernel] tracefs"
    )]
    NotMounted {
        /// Where it was looked for.
        tracefs: PathBuf,
    },
    /// It is there, but not for us.
    #[error("{path}: {source}; tracefs is root's: start flightd as root")]
    Denied {
        /// What was refused.
        path: PathBuf,
        /// How.
        source: io::Error,
    },
    /// The kernel lacks a tracepoint.
    #[error(
        "{tracefs}: this kernel has no tracepoint {event}; flightd needs a kernel built with \
         CONFIG_FTRACE"
    )]
    NoEvent {
        /// Where it was looked for.
        tracefs: PathBuf,
        /// `subsystem:event`.
        event: String,
    },
    /// Reading failed otherwise, or what was read makes no sense.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Both tables of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyscallTables {
    /// The 64-bit table; x32 calls below 512 use it as well, where there are any.
    pub native: Vec<Syscall>,
    /// The 32-bit table.
    pub compat: Vec<Syscall>,
    /// The kernel publishes no arguments at all (it lacks `CONFIG_FTRACE_SYSCALLS`): six are
    /// recorded of every call, and no strings.
    pub unpublished: bool,
}

impl SyscallTables {
    /// Joins the tables with what the kernel publishes under `tracefs`.
    pub fn read(tracefs: &Path, architecture: Architecture) -> Result<Self, TracefsError> {
        let events = read_events(tracefs)?;
        let unpublished = events.is_none();
        if unpublished {
            warn!(
                "this kernel does not publish the arguments of system calls \
                 (CONFIG_FTRACE_SYSCALLS is off): six are recorded of every call, and no strings"
            );
        }
        let events = events.unwrap_or_default();
        let native = numbers().filter_map(|nr| {
            let name = native_name(architecture, nr)?;
            Some(Syscall {
                nr,
                name: name.into(),
                args: names::native_events(name).find_map(|event| events.get(event)).cloned(),
            })
        });
        let compat = numbers().filter_map(|nr| {
            let name = compat_name(architecture, nr)?;
            let event = names::compat_event(name);
            Some(Syscall {
                nr,
                name: name.into(),
                args: event.and_then(|e| events.get(e)).cloned(),
            })
        });
        Ok(Self { native: native.collect(), compat: compat.collect(), unpublished })
    }
}

/// The name of a 64-bit call.
fn native_name(architecture: Architecture, nr: u16) -> Option<&'static str> {
    let nr = usize::from(nr);
    let name = match architecture {
        Architecture::X86_64 => x86_64::Sysno::new(nr)?.name(),
        Architecture::Aarch64 => aarch64::Sysno::new(nr)?.name(),
    };
    Some(architecture.call_name(name))
}

/// The name of a 32-bit call.
fn compat_name(architecture: Architecture, nr: u16) -> Option<&'static str> {
    let nr = usize::from(nr);
    match architecture {
        Architecture::X86_64 => x86::Sysno::new(nr).map(|call| call.name()),
        Architecture::Aarch64 => arm::Sysno::new(nr).map(|call| call.name()),
    }
}

/// Every number that the probes' tables have room for.
fn numbers() -> impl Iterator<Item = u16> {
    0..CALLS as u16
}

/// The id by which a tracepoint is attached to.
pub fn tracepoint_id(tracefs: &Path, subsystem: &str, event: &str) -> Result<u32, TracefsError> {
    let path = events_dir(tracefs)?.join(subsystem).join(event).join("id");
    let text = match read_bounded(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(TracefsError::NoEvent {
                tracefs: tracefs.into(),
                event: format!("{subsystem}:{event}"),
            });
        }
        other => other.map_err(|e| failed(&path, e))?,
    };
    let id = text
        .trim()
        .parse()
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, format!("not a number: {e}")));
    id.map_err(|e| failed(&path, e))
}

/// `TRACEFS/events`, if it is there to be read.
pub(crate) fn events_dir(tracefs: &Path) -> Result<PathBuf, TracefsError> {
    let dir = tracefs.join("events");
    match dir.read_dir() {
        Ok(_) => Ok(dir),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(TracefsError::NotMounted { tracefs: tracefs.into() })
        }
        Err(e) => Err(failed(&dir, e)),
    }
}

/// All published formats of system call entries, by the event's name without `sys_enter_`;
/// `None` where the kernel publishes none.
fn read_events(tracefs: &Path) -> Result<Option<HashMap<String, Vec<Argument>>>, TracefsError> {
    let dir = events_dir(tracefs)?.join("syscalls");
    let entries = match dir.read_dir() {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(&dir, e)),
    };
    let mut events = HashMap::new();
    for entry in entries {
        let entry = entry.map_err(|e| failed(&dir, e))?;
        let name = entry.file_name();
        let Some(name) = name.to_str().and_then(|n| n.strip_prefix("sys_enter_")) else { continue };
        let path = entry.path().join("format");
        let text = read_bounded(&path).map_err(|e| failed(&path, e))?;
        if let Some(args) = format::arguments(&text) {
            events.insert(name.to_owned(), args);
        } else {
            // Six arguments are then recorded, which is never wrong.
            warn!(
                "{}: not understood, so the arguments of {name} stay without names",
                path.display()
            );
        }
    }
    Ok(Some(events))
}

fn failed(path: &Path, source: io::Error) -> TracefsError {
    let path = path.into();
    match source.kind() {
        io::ErrorKind::PermissionDenied => TracefsError::Denied { path, source },
        _ => TracefsError::Read { path, source },
    }
}
