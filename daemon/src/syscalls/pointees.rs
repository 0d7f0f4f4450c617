//! What else than strings the arguments of each call point to.
//!
//! By the arguments' C types as the kernel's sources have them (include/linux/syscalls.h, Linux
//! 6.18), of the calls that people ask about; what is no row here is recorded as an address.

use flightrec_format::abi::pointee::{Extent, Item, PointeeTable, Shape, pack};
use flightrec_format::abi::probe::CALLS;
use flightrec_format::architecture::Architecture;
use flightrec_format::meta::Syscall;

/// An argument that the program gives.
const fn given(index: u8, shape: Shape, element: u8, extent: Extent) -> Item {
    Item { index, shape, element, extent, told: false }
}

/// An argument where the kernel writes to.
const fn told(index: u8, shape: Shape, element: u8, extent: Extent) -> Item {
    Item { index, shape, element, extent, told: true }
}

/// Whether a 32-bit program's structures are laid out the same.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compat {
    Same,
    Differs,
}

use Compat::{Differs, Same};
use Extent::{
    BeforeCounts, FirstBits, IfFutexWaits, IfLocks, IfPositive, MessageRoom, NextCounts,
    NextCountsNumber, NextPoints, NextPointsNumber, OfArgument, OfResult, One, Returned,
};
use Shape::{
    CloneArgs, CpuSet, DescriptorSet, Descriptors, EpollEvents, FileLock, Int, Iovec, OpenHow,
    PollFds, Rlimit, Room, SignalAction, SignalInfo, SignalSet, Socket, SocketAddress,
    SocketOption, TimerSpec, Timespec, Timespecs, Timevals, WaitStatus,
};

/// An argument where the kernel writes the address of a socket: the room for it, to which the next
/// argument points, and the address.
const fn address_told(index: u8) -> [Item; 2] {
    [given(index + 1, Room, 4, One), told(index, SocketAddress, 1, NextPoints)]
}

const ADDRESS_GIVEN: Item = given(1, SocketAddress, 1, NextCounts);
const ADDRESS_TOLD: [Item; 2] = address_told(1);
/// The socket of the first argument, as it is then: bound, or connected.
const OWN_SOCKET: Item = told(0, Socket, 1, OfArgument);
/// A new socket, and the address of its other end.
const ACCEPTED: [Item; 3] = [ADDRESS_TOLD[0], ADDRESS_TOLD[1], told(0, Socket, 1, OfResult)];
const VECTOR: Item = given(1, Iovec, 16, NextCounts);
const MESSAGE: u8 = 56;

/// Calls by name.
const ROWS: &[(&str, Compat, &[Item])] = &[
    // Sockets.
    ("connect", Same, &[ADDRESS_GIVEN, OWN_SOCKET]),
    ("bind", Same, &[ADDRESS_GIVEN, OWN_SOCKET]),
    ("accept", Same, &ACCEPTED),
    ("accept4", Same, &ACCEPTED),
    ("getsockname", Same, &ADDRESS_TOLD),
    ("getpeername", Same, &ADDRESS_TOLD),
    ("sendto", Same, &[given(4, SocketAddress, 1, NextCounts)]),
    ("recvfrom", Same, &address_told(4)),
    ("sendmsg", Differs, &[given(1, Shape::Message, MESSAGE, Extent::Message)]),
    (
        "recvmsg",
        Differs,
        &[
            given(1, Shape::MessageRoom, 4, MessageRoom),
            told(1, Shape::Message, MESSAGE, Extent::Message),
        ],
    ),
    ("recvmmsg", Differs, &[given(4, Timespec, 16, One)]),
    ("recvmmsg_time64", Same, &[given(4, Timespec, 16, One)]),
    ("socketpair", Same, &[told(3, Descriptors, 8, One)]),
    ("setsockopt", Same, &[given(3, SocketOption, 1, NextCountsNumber)]),
    ("getsockopt", Same, &[told(3, SocketOption, 1, NextPointsNumber), told(4, Int, 4, One)]),
    // Waits for descriptors.
    ("poll", Same, &[given(0, PollFds, 8, NextCounts), told(0, PollFds, 8, NextCounts)]),
    (
        "ppoll",
        Differs,
        &[
            given(0, PollFds, 8, NextCounts),
            told(0, PollFds, 8, NextCounts),
            given(2, Timespec, 16, One),
        ],
    ),
    (
        "select",
        Differs,
        &[
            given(1, DescriptorSet, 8, FirstBits),
            given(2, DescriptorSet, 8, FirstBits),
            given(4, Timevals, 16, One),
        ],
    ),
    (
        "pselect6",
        Differs,
        &[
            given(1, DescriptorSet, 8, FirstBits),
            given(2, DescriptorSet, 8, FirstBits),
            given(4, Timespec, 16, One),
        ],
    ),
    ("epoll_ctl", Same, &[given(3, EpollEvents, 12, One)]),
    ("epoll_wait", Same, &[told(1, EpollEvents, 12, Returned)]),
    ("epoll_pwait", Same, &[told(1, EpollEvents, 12, Returned)]),
    ("epoll_pwait2", Same, &[told(1, EpollEvents, 12, Returned), given(3, Timespec, 16, One)]),
    // Times.
    ("nanosleep", Differs, &[given(0, Timespec, 16, One)]),
    ("clock_nanosleep", Differs, &[given(2, Timespec, 16, One)]),
    ("clock_nanosleep_time64", Same, &[given(2, Timespec, 16, One)]),
    ("clock_settime", Differs, &[given(1, Timespec, 16, One)]),
    ("clock_gettime", Differs, &[told(1, Timespec, 16, One)]),
    ("clock_getres", Differs, &[told(1, Timespec, 16, One)]),
    ("settimeofday", Differs, &[given(0, Timevals, 16, One)]),
    ("utimensat", Differs, &[given(2, Timespecs, 32, One)]),
    ("utimes", Differs, &[given(1, Timevals, 32, One)]),
    ("futimesat", Differs, &[given(2, Timevals, 32, One)]),
    ("setitimer", Differs, &[given(1, Timevals, 32, One), told(2, Timevals, 32, One)]),
    ("getitimer", Differs, &[told(1, Timevals, 32, One)]),
    ("timer_settime", Differs, &[given(2, TimerSpec, 32, One), told(3, TimerSpec, 32, One)]),
    ("timer_gettime", Differs, &[told(1, TimerSpec, 32, One)]),
    ("timerfd_settime", Differs, &[given(2, TimerSpec, 32, One), told(3, TimerSpec, 32, One)]),
    ("timerfd_gettime", Differs, &[told(1, TimerSpec, 32, One)]),
    ("sched_rr_get_interval", Differs, &[told(1, Timespec, 16, One)]),
    ("futex", Differs, &[given(3, Timespec, 16, IfFutexWaits)]),
    ("futex_time64", Same, &[given(3, Timespec, 16, IfFutexWaits)]),
    ("futex_waitv", Same, &[given(3, Timespec, 16, One)]),
    ("futex_wait", Same, &[given(4, Timespec, 16, One)]),
    ("semtimedop", Differs, &[given(3, Timespec, 16, One)]),
    ("mq_timedsend", Differs, &[given(4, Timespec, 16, One)]),
    ("mq_timedreceive", Differs, &[given(4, Timespec, 16, One)]),
    ("io_getevents", Differs, &[given(4, Timespec, 16, One)]),
    ("io_pgetevents", Differs, &[given(4, Timespec, 16, One)]),
    // Buffers.
    ("readv", Differs, &[VECTOR]),
    ("writev", Differs, &[VECTOR]),
    ("preadv", Differs, &[VECTOR]),
    ("pwritev", Differs, &[VECTOR]),
    ("preadv2", Differs, &[VECTOR]),
    ("pwritev2", Differs, &[VECTOR]),
    ("vmsplice", Differs, &[VECTOR]),
    (
        "process_vm_readv",
        Differs,
        &[given(1, Iovec, 16, NextCounts), given(3, Iovec, 16, NextCounts)],
    ),
    (
        "process_vm_writev",
        Differs,
        &[given(1, Iovec, 16, NextCounts), given(3, Iovec, 16, NextCounts)],
    ),
    // Files.
    ("openat2", Same, &[given(2, OpenHow, 1, NextCounts)]),
    ("fcntl", Differs, &[given(2, FileLock, 32, IfLocks)]),
    ("pipe", Same, &[told(0, Descriptors, 8, One)]),
    ("pipe2", Same, &[told(0, Descriptors, 8, One)]),
    ("sendfile", Differs, &[given(2, Shape::Offset, 8, One)]),
    ("splice", Same, &[given(1, Shape::Offset, 8, One), given(3, Shape::Offset, 8, One)]),
    ("copy_file_range", Same, &[given(1, Shape::Offset, 8, One), given(3, Shape::Offset, 8, One)]),
    // Processes.
    ("clone3", Same, &[given(0, CloneArgs, 1, NextCounts)]),
    ("wait4", Same, &[told(1, WaitStatus, 4, IfPositive)]),
    ("waitpid", Same, &[told(1, WaitStatus, 4, IfPositive)]),
    ("waitid", Differs, &[told(2, SignalInfo, 32, One)]),
    ("setrlimit", Differs, &[given(1, Rlimit, 16, One)]),
    ("getrlimit", Differs, &[told(1, Rlimit, 16, One)]),
    ("prlimit64", Same, &[given(2, Rlimit, 16, One), told(3, Rlimit, 16, One)]),
    ("sched_setaffinity", Differs, &[given(2, CpuSet, 1, BeforeCounts)]),
    ("sched_getaffinity", Differs, &[told(2, CpuSet, 1, Returned)]),
    ("sched_setparam", Same, &[given(1, Int, 4, One)]),
    ("sched_getparam", Same, &[told(1, Int, 4, One)]),
    ("sched_setscheduler", Same, &[given(2, Int, 4, One)]),
    // Signals.
    ("rt_sigaction", Differs, &[given(1, SignalAction, 32, One), told(2, SignalAction, 32, One)]),
    ("rt_sigprocmask", Same, &[given(1, SignalSet, 8, One), told(2, SignalSet, 8, One)]),
    ("rt_sigsuspend", Same, &[given(0, SignalSet, 8, One)]),
    ("rt_sigpending", Same, &[told(0, SignalSet, 8, One)]),
    (
        "rt_sigtimedwait",
        Differs,
        &[
            given(0, SignalSet, 8, One),
            told(1, SignalInfo, 32, IfPositive),
            given(2, Timespec, 16, One),
        ],
    ),
    ("signalfd", Same, &[given(1, SignalSet, 8, One)]),
    ("signalfd4", Same, &[given(1, SignalSet, 8, One)]),
];

/// What a call's arguments point to.
fn row(call: &str, compat: bool) -> Option<&'static [Item]> {
    let (_, layout, items) = ROWS.iter().find(|(name, ..)| *name == call)?;
    (!compat || *layout == Same).then_some(*items)
}

/// Whether anything but strings is read of a call of this name; `compat`: of a 32-bit program's.
pub(super) fn has_pointees(call: &str, compat: bool) -> bool {
    row(call, compat).is_some()
}

/// Items with the sizes that structures have on a machine.
fn of_architecture(items: &[Item], architecture: Architecture) -> Vec<Item> {
    let of = |item: &Item| match item.shape {
        EpollEvents => Item { element: architecture.epoll_event(), ..*item },
        _ => *item,
    };
    items.iter().map(of).collect()
}

/// The table that is frozen into the probes.
pub fn pointee_table(
    calls: &[Syscall],
    compat: bool,
    architecture: Architecture,
) -> Box<PointeeTable> {
    let mut table = Box::new([0; CALLS]);
    for call in calls {
        if let Some(entry) = table.get_mut(usize::from(call.nr)) {
            let items = row(&call.name, compat).unwrap_or_default();
            *entry = pack(&of_architecture(items, architecture));
        }
    }
    table
}
