//! The filters as they are typed.

use std::time::Duration;

use clap::Args;
use flightrec_reader::kind::Kind;

use super::names::comm;
use crate::value::{id, stretch};

/// Which events are wanted, as typed, for every command that shows events; what is empty wants
/// all.
#[derive(Debug, Clone, Default, Args)]
#[command(
    next_help_heading = "Filters (separate values by commas; an event must match all filters)"
)]
pub struct FilterSpec {
    /// Events of these processes (all of their threads).
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = id)]
    pub pid: Vec<u32>,
    /// Events of these threads. A switch belongs to both threads, a wakeup to waker and wakee.
    #[arg(long, value_name = "TID", value_delimiter = ',', value_parser = id)]
    pub tid: Vec<u32>,
    /// Events of these processes and of all of their descendants.
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = id)]
    pub tree: Vec<u32>,
    /// Events of threads with these names. A pattern such as `kworker/*` must match the whole name.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = comm)]
    pub comm: Vec<String>,
    /// Events of these control groups (v2) and of all groups below them: /system.slice, or an id.
    #[arg(long, value_name = "PATH|ID", value_delimiter = ',')]
    pub cgroup: Vec<String>,
    /// Events of these systemd units: nginx.service, or nginx for short.
    #[arg(long, value_name = "UNIT", value_delimiter = ',')]
    pub unit: Vec<String>,
    /// Events of these containers and of what is inside them: by id (4 or more digits) or by name.
    #[arg(long, value_name = "ID|NAME", value_delimiter = ',')]
    pub container: Vec<String>,
    /// Events of these pods of Kubernetes: by name, NAMESPACE/NAME, or uid.
    #[arg(long, value_name = "NAME|UID", value_delimiter = ',')]
    pub pod: Vec<String>,
    /// Events on these CPUs.
    #[arg(long, value_name = "CPU", value_delimiter = ',')]
    pub cpu: Vec<u16>,
    /// These system calls, by name, number or class: file, network, process, signal, memory, desc
    /// (as in strace, with or without %). A ! before the first means all calls except these.
    ///
    /// This and the following filters select system calls only (--path: operations of io_uring as
    /// well), unless --event names other kinds.
    #[arg(long, value_name = "CALL", value_delimiter = ',')]
    pub syscall: Vec<String>,
    /// System calls and operations of io_uring on matching files: by a path argument, or by a
    /// descriptor whose path is known (see --fds). `*` does not match across directories, `**` does; a pattern without a slash
    /// matches a file name. If a path is too long to be recorded completely, its end decides
    /// whether it may match; the number of such calls is reported.
    #[arg(long, value_name = "GLOB")]
    pub path: Vec<String>,
    /// System calls that failed: only their returns, with the arguments.
    #[arg(long)]
    pub errors: bool,
    /// System calls that failed with these errors: ENOENT, EAGAIN, also ERESTARTSYS.
    #[arg(long, value_name = "ERROR", value_delimiter = ',')]
    pub errno: Vec<String>,
    /// System calls that took at least this long, for example `1ms`: only their returns, with the
    /// arguments.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub slower_than: Option<Duration>,
    /// System calls that took less than this: only their returns. With --slower-than: between the
    /// two.
    #[arg(long, value_name = "TIME", value_parser = stretch)]
    pub faster_than: Option<Duration>,
    /// Requests to these disks, by name or number: vda, or 254:0. Partitions are not distinguished:
    /// name the whole disk. This selects requests only, unless --event names other kinds.
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
    pub device: Vec<String>,
    /// Events of these kinds.
    #[arg(long, value_name = "KIND", value_delimiter = ',', help = event_help())]
    pub event: Vec<String>,
}

/// What `--event` takes.
fn event_help() -> String {
    format!(
        "Events of these kinds: {}; block: all kinds of disk requests. Configured tracepoints \
         also by their names: ext4:ext4_sync_file_exit, ext4:*",
        Kind::ALL.map(Kind::name).join(", ")
    )
}
