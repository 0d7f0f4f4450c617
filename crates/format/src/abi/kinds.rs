//! The table of kinds: a row for each kind of event, and what follows from its rows.
//!
//! A row says a kind's number, name and form, and the fields of a body of fixed length. From it
//! come the constants in [`number`], [`Kind`], the `#[repr(C)]` struct that the probes fill and
//! readers take apart, the index of its counter, and whatever lists kinds or fields: names for
//! `--event`, status, metrics and coverage, default text and JSON, tables in FORMAT.md, generators
//! of tests. A kind of the form [`Form::Plain`] needs nothing else in user space; one of
//! [`Form::Own`] has a variant of `decode::Body`, a line and an object of its own.
//!
//! Adding a kind: the next free number of its lane, at the end of its lane's rows. See
//! CONTRIBUTING.md. A lane has [`KINDS_MAX`] numbers, and those of lane `kernel` are all taken: a
//! tracepoint more is one of `[[tracepoint]]`, whose events are all of one kind.

use core::mem::{offset_of, size_of};

use super::field::FieldType;
pub use super::field::{Field, Names, Type, Unit, Value};
use super::id::{SpanId, TraceId};
use super::ip::Ip;
use super::page::{Lane, RING_LANES};
use super::record::Comm;
use super::value_names::{
    BLOCK_ERRORS, BLOCK_FLAGS, BLOCK_OPS, COMPACTION_RESULTS, CONTEXTS, IO_FLAGS, IO_OPS,
    LOCK_FLAGS, PROTOCOLS, TCP_STATES,
};

/// Kinds that a lane can have: the low nibble of a kind's number is its index.
pub const KINDS_MAX: usize = 16;

/// What of a kind is derived from its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Everything: the body is the row's fields, and its text and JSON are the default ones.
    Plain,
    /// Its decoding, text and JSON are its own.
    Own,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The number of its records: the high nibble is the lane's plus 1, the low one the index of
    /// its counter.
    pub number: u8,
    /// The name of the number's constant, as FORMAT.md has it.
    pub constant: &'static str,
    /// Its name for people: `--event`, status, metrics, coverage, JSON.
    pub name: &'static str,
    /// What is derived from the row.
    pub form: Form,
    /// What happened, in a sentence.
    pub about: &'static str,
    /// The fields of its body, in order; none where the body is not of fixed fields.
    pub fields: &'static [Field],
    /// Bytes of these.
    pub bytes: usize,
}

/// Makes everything that follows from the rows. A row:
///
/// ```text
/// /// What happened, in a sentence.
/// CONSTANT Variant = 0x36 "name" plain Struct {
///     /// What the field means.
///     field: u32, unit;
///     /// A field whose values have names.
///     state: u32, one_of [0 "off", 1 "on"];
/// }
/// ```
///
/// `own` in place of `plain` is a kind whose decoding and output are its own; it may have no
/// struct.
macro_rules! kinds {
    ($(
        $(#[doc = $about:literal])+
        $constant:ident $variant:ident = $number:literal $name:literal $form:ident
        $($body:ident {
            $(
                $(#[doc = $meaning:literal])+
                $field:ident: $type:ty $(, $unit:ident $([$($value:literal $named:literal),+])?)?;
            )+
        })?
    )+) => {
        /// Numbers of event records. The low nibble is the index in a lane's counters.
        pub mod number {
            $(
                $(#[doc = $about])+
                pub const $constant: u8 = $number;
            )+
        }

        /// A kind of event; as a number, that of its records.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Kind {
            $(
                $(#[doc = $about])+
                $variant = $number,
            )+
        }

        /// The rows, in the order of lanes and numbers.
        const ROWS: [Row; Kind::ALL.len()] = [$(
            Row {
                number: $number,
                constant: stringify!($constant),
                name: $name,
                form: kinds!(@form $form),
                about: concat!($($about),+),
                fields: kinds!(@fields $($body { $(
                    $field: $type $(, $unit $([$($value $named),+])?)?; concat!($($meaning),+);
                )+ })?),
                bytes: kinds!(@bytes $($body)?),
            },
        )+];

        impl Kind {
            /// All of them.
            pub const ALL: [Kind; [$($number),+].len()] = [$(Kind::$variant),+];
        }

        $($(
            #[doc = concat!("Body of [`", stringify!($variant), "`](Kind::", stringify!($variant),
                "), after its header word.")]
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[repr(C)]
            pub struct $body {
                $(
                    $(#[doc = $meaning])+
                    pub $field: $type,
                )+
            }

            impl $body {
                /// Takes it off the front of a record's body; `None` where that is too short.
                pub fn read(bytes: &[u8]) -> Option<Self> {
                    Some(Self { $( $field: FieldType::get(bytes, offset_of!(Self, $field))?, )+ })
                }

                /// Its bytes.
                pub fn bytes(&self) -> [u8; size_of::<Self>()] {
                    let mut out = [0; size_of::<Self>()];
                    $( FieldType::put(self.$field, &mut out, offset_of!(Self, $field)); )+
                    out
                }
            }

            // No padding, and a whole number of words: the probes copy it by words.
            const _: () = assert!(
                0 $( + size_of::<$type>() )+ == size_of::<$body>() && size_of::<$body>() % 8 == 0
            );
        )?)+
    };
    (@form plain) => { Form::Plain };
    (@form own) => { Form::Own };
    (@fields) => { &[] };
    (@fields $body:ident { $(
        $field:ident: $type:ty $(, $unit:ident $([$($value:literal $named:literal),+])?)?;
        $meaning:expr;
    )+ }) => {
        &[$( Field {
            name: stringify!($field),
            ty: <$type as FieldType>::TYPE,
            unit: kinds!(@unit $($unit $([$($value $named),+])?)?),
            at: offset_of!($body, $field),
            meaning: $meaning,
        } ),+]
    };
    (@bytes) => { 0 };
    (@bytes $body:ident) => { size_of::<$body>() };
    (@unit) => { Unit::Plain };
    (@unit thread) => { Unit::Thread };
    (@unit process) => { Unit::Process };
    (@unit cgroup) => { Unit::Cgroup };
    (@unit ns) => { Unit::Ns };
    (@unit bytes) => { Unit::Bytes };
    (@unit block_op) => { Unit::OneOf(BLOCK_OPS) };
    (@unit block_flags) => { Unit::Flags(BLOCK_FLAGS) };
    (@unit block_error) => { Unit::OneOf(BLOCK_ERRORS) };
    (@unit lock_flags) => { Unit::Flags(LOCK_FLAGS) };
    (@unit compaction_result) => { Unit::OneOf(COMPACTION_RESULTS) };
    (@unit protocol) => { Unit::OneOf(PROTOCOLS) };
    (@unit tcp_state) => { Unit::OneOf(TCP_STATES) };
    (@unit context) => { Unit::OneOf(CONTEXTS) };
    (@unit io_op) => { Unit::OneOf(IO_OPS) };
    (@unit io_flags) => { Unit::Flags(IO_FLAGS) };
    (@unit ret) => { Unit::Ret };
    (@unit device) => { Unit::Device };
    (@unit hex) => { Unit::Hex };
    (@unit signal) => { Unit::Signal };
    (@unit signal_code) => { Unit::SignalCode };
    (@unit one_of [$($value:literal $name:literal),+]) => { Unit::OneOf(&[$(($value, $name)),+]) };
    (@unit flags [$($value:literal $name:literal),+]) => { Unit::Flags(&[$(($value, $name)),+]) };
    (@unit address [$($value:literal $name:literal),+]) => {
        Unit::Address(&[$(($value, $name)),+])
    };
    (@unit reserved) => { Unit::Reserved };
}

kinds! {
    /// A system call begins.
    ENTER SysEnter = 0x10 "sys_enter" own
    /// A system call ends.
    EXIT SysExit = 0x11 "sys_exit" own

    /// A context switch.
    SWITCH Switch = 0x20 "switch" own
    /// A thread is woken.
    WAKING Waking = 0x21 "waking" own
    /// A new thread becomes runnable.
    WAKEUP_NEW WakeupNew = 0x22 "wakeup_new" own
    /// A thread moves to another CPU.
    MIGRATE Migrate = 0x23 "migrate" own
    /// A thread sends a signal, or the kernel does in its context.
    SIGNAL_GENERATE SignalGenerate = 0x24 "signal_generate" plain SignalGenerate {
        /// The signal.
        signal: u32, signal;
        /// Why it was sent: SI_USER by kill, SI_TKILL by tgkill, SI_QUEUE by sigqueue, else the
        /// kernel's reason.
        code: i32, signal_code;
        /// The thread that it is for; one of the process's, where it is for any of them.
        target_tid: u32, thread;
        /// Its process.
        target_pid: u32, process;
        /// Whether that thread alone may take it, or any of its process.
        scope: u32, one_of [0 "thread", 1 "process"];
        /// What became of it: it waits for the target (`delivered`), the target ignores it, it was
        /// pending already, or too many are pending: it is not sent (`overflow_fail`), or without
        /// its details (`lose_info`).
        result: u32, one_of [
            0 "delivered", 1 "ignored", 2 "already_pending", 3 "overflow_fail", 4 "lose_info"
        ];
        /// Name of the thread.
        target_comm: Comm;
    }
    /// A thread takes a signal.
    SIGNAL_DELIVER SignalDeliver = 0x25 "signal_deliver" plain SignalDeliver {
        /// The signal; SIGKILL also where another one ends the process without a core dump.
        signal: u32, signal;
        /// As of its sending; SI_USER also where the kernel has no details, as of a SIGKILL.
        code: i32, signal_code;
        /// What the thread does: the signal's default action, nothing, or a function of its own.
        handler: u64, address [0 "SIG_DFL", 1 "SIG_IGN"];
        /// `sa_flags` of that action.
        flags: u64, flags [
            0x1 "SA_NOCLDSTOP", 0x2 "SA_NOCLDWAIT", 0x4 "SA_SIGINFO", 0x0400_0000 "SA_RESTORER",
            0x0800_0000 "SA_ONSTACK", 0x1000_0000 "SA_RESTART", 0x4000_0000 "SA_NODEFER",
            0x8000_0000 "SA_RESETHAND"
        ];
    }
    /// A thread runs again after a long wait: in which functions of the kernel it waited.
    STACK Stack = 0x26 "stack" own
    /// A thread is about to be switched out, or ends a slow call, and works for another span of a
    /// distributed trace than when this was last recorded, or for none any more, as its process
    /// publishes it.
    THREAD_CONTEXT ThreadContext = 0x27 "thread_context" plain ThreadContext {
        /// The trace; zeros: the thread works for none.
        trace: TraceId;
        /// The span of it; zeros: none.
        span: SpanId;
        /// Flags of the trace.
        flags: u32, flags [0x1 "sampled", 0x2 "random"];
        /// Reserved.
        reserved: u32, reserved;
    }

    /// A thread is created.
    FORK Fork = 0x30 "fork" own Fork {
        /// The creating thread.
        parent_tid: u32, thread;
        /// Its process.
        parent_tgid: u32, process;
        /// The new thread.
        tid: u32, thread;
        /// Its process.
        tgid: u32, process;
        /// `task_struct.start_time` of the new thread, of `CLOCK_MONOTONIC`.
        start_time: u64, ns;
        /// Control group of the parent.
        cgroup: u64, cgroup;
        /// The new thread's name.
        comm: Comm;
        /// What it has in common with the creating thread: descriptors (`task_struct.files`),
        /// working directory and root (`task_struct.fs`), its name.
        shares: u64, flags [0x1 "files", 0x2 "fs", 0x4 "name"];
    }
    /// A program is executed.
    EXEC Exec = 0x31 "exec" own Exec {
        /// The thread, under its new id.
        tid: u32, thread;
        /// Its id before: another one when it was not the process's leader.
        old_tid: u32, thread;
        /// Its process.
        tgid: u32, process;
        /// Length of the whole argument list, of which the STRINGs may hold less.
        args_len: u32, bytes;
        /// Control group.
        cgroup: u64, cgroup;
        /// The thread's new name.
        comm: Comm;
    }
    /// A thread changes its name.
    RENAME Rename = 0x32 "rename" own Rename {
        /// The thread.
        tid: u32, thread;
        /// Its process.
        tgid: u32, process;
        /// Its name until now.
        old: Comm;
        /// Its name from now on.
        new: Comm;
    }
    /// A thread ends.
    TASK_EXIT Exit = 0x33 "exit" own TaskExit {
        /// The thread.
        tid: u32, thread;
        /// Its process.
        tgid: u32, process;
        /// `task_struct.exit_code`: status << 8, or the signal that killed it (0x80 added: core
        /// dumped).
        code: u32;
        /// Threads of the process that are left (`signal_struct.live`); of those that end at the
        /// same moment each may say 0.
        left: u32;
        /// `task_struct.start_time`, of `CLOCK_MONOTONIC`.
        start_time: u64, ns;
        /// Its name.
        comm: Comm;
    }
    /// A line of text by a user.
    MARK Mark = 0x34 "mark" own
    /// A recorder event: a start, a change of what is recorded.
    ACT Recorder = 0x35 "recorder" own

    /// A request to a disk is queued in its I/O scheduler.
    BLOCK_INSERT BlockInsert = 0x40 "block_insert" plain BlockInsert {
        /// Which of the device's requests, by a keyed hash; another one may have it when this one
        /// is done.
        request: u32, hex;
        /// The device.
        device: u32, device;
        /// Its first sector of 512 bytes on the device; 0 where it has none.
        sector: u64;
        /// Its bytes.
        bytes: u32, bytes;
        /// What is done there.
        op: u32, block_op;
        /// How.
        flags: u32, block_flags;
        /// In what it ran: but for `thread`, the event's thread is the one interrupted.
        context: u32, context;
    }
    /// A request is handed to the disk's driver.
    BLOCK_ISSUE BlockIssue = 0x41 "block_issue" plain BlockIssue {
        /// As of `block_insert`.
        request: u32, hex;
        /// The device.
        device: u32, device;
        /// Its first sector of 512 bytes on the device; 0 where it has none.
        sector: u64;
        /// Its bytes.
        bytes: u32, bytes;
        /// What is done there.
        op: u32, block_op;
        /// How.
        flags: u32, block_flags;
        /// In what it ran: but for `thread`, the event's thread is the one interrupted.
        context: u32, context;
    }
    /// The disk has done a request, or a part of it.
    BLOCK_COMPLETE BlockComplete = 0x42 "block_complete" plain BlockComplete {
        /// As of `block_insert`.
        request: u32, hex;
        /// The device.
        device: u32, device;
        /// The first sector of 512 bytes of what was done; 0 where it has none.
        sector: u64;
        /// The bytes that were done.
        bytes: u32, bytes;
        /// What was done there.
        op: u32, block_op;
        /// How.
        flags: u32, block_flags;
        /// In what it ran: but for `thread`, the event's thread is the one interrupted.
        context: u32, context;
        /// The bytes of the request that are still to be done.
        left: u32, bytes;
        /// What went wrong, if anything, as the kernel tells it to who waits.
        error: u32, block_error;
    }
    /// A process is chosen to be killed, as memory is out. The event's thread is the one that
    /// needed memory.
    OOM_VICTIM OomVictim = 0x43 "oom_victim" plain OomVictim {
        /// The thread that is killed, and its process with it.
        target_tid: u32, thread;
        /// Its process; 0 where the kernel does not tell.
        target_pid: u32, process;
        /// Name of the thread; empty where the kernel does not tell.
        target_comm: Comm;
    }
    /// A thread that needed memory has freed some, or tried to, before it went on.
    RECLAIM Reclaim = 0x44 "reclaim" plain Reclaim {
        /// How long it took.
        duration: u64, ns;
        /// Pages that were freed.
        pages: u64;
        /// What is full: the machine's memory, or what a control group may have.
        limit: u32, one_of [0 "machine", 1 "cgroup"];
        /// Binary logarithm of the pages in a row that it needed.
        order: u32;
    }
    /// A thread has moved pages together, or tried to, so that there are free ones in a row.
    COMPACTION Compaction = 0x45 "compaction" plain Compaction {
        /// How long it took.
        duration: u64, ns;
        /// Binary logarithm of the pages in a row that it needed; -1: as many as there can be.
        order: i32;
        /// Whether it waited for pages that were in use.
        mode: u32, one_of [0 "async", 1 "sync"];
        /// What came of it.
        result: u32, compaction_result;
        /// Reserved.
        reserved: u32, reserved;
    }
    /// An interrupt was handled, which took long. The event's thread is the one interrupted.
    INTERRUPT Interrupt = 0x46 "interrupt" plain Interrupt {
        /// How long it took, with what interrupted it.
        duration: u64, ns;
        /// A device's handler, or a softirq.
        class: u32, one_of [0 "hardirq", 1 "softirq"];
        /// The number of the interrupt, or of the softirq.
        number: u32;
        /// The handler's name, as in /proc/interrupts, up to 15 bytes; the softirq's, as in
        /// /proc/softirqs.
        name: Comm;
    }
    /// A lock of the kernel was waited for, which took long.
    CONTENTION Contention = 0x47 "contention" plain Contention {
        /// How long it took.
        duration: u64, ns;
        /// Which lock, by a keyed hash.
        lock: u32, hex;
        /// How it was waited for: `spin` not asleep, `mutex`, `read` and `write` of a semaphore or
        /// a spin lock that has these, `percpu` of such a semaphore, `rt` of a lock of real time.
        flags: u32, lock_flags;
        /// 0: it was got; else the error for which the wait ended.
        ret: i32;
        /// In what it ran: but for `thread`, the event's thread is the one interrupted.
        context: u32, context;
    }
    /// A packet of a TCP connection is sent again, as its receipt was not confirmed in time.
    TCP_RETRANSMIT TcpRetransmit = 0x48 "tcp_retransmit" plain TcpRetransmit {
        /// Which socket, by a keyed hash; another one may have it when this one is closed. Of a
        /// subflow of MPTCP, the connection's own socket.
        socket: u32, hex;
        /// Its state.
        state: u32, tcp_state;
        /// Its own address.
        local: Ip;
        /// The other end's.
        remote: Ip;
        /// Its own port.
        local_port: u32;
        /// The other end's.
        remote_port: u32;
        /// In what it ran: but for `thread`, the event's thread is the one interrupted.
        context: u32, context;
        /// Reserved.
        reserved: u32, reserved;
    }
    /// A socket changes its state: a connection begins, is there, or ends.
    SOCK_STATE SockState = 0x49 "sock_state" plain SockState {
        /// Which socket, as of `tcp_retransmit`; also a subflow of MPTCP has its own here.
        socket: u32, hex;
        /// Its protocol.
        protocol: u32, protocol;
        /// Its state until now.
        old_state: u32, tcp_state;
        /// Its state from now on.
        new_state: u32, tcp_state;
        /// Its own address.
        local: Ip;
        /// The other end's.
        remote: Ip;
        /// Its own port; 0: none yet.
        local_port: u32;
        /// The other end's; 0: none yet.
        remote_port: u32;
        /// In what it ran: but for `thread`, the event's thread is the one interrupted.
        context: u32, context;
        /// Reserved.
        reserved: u32, reserved;
    }
    /// A CPU's clock has struck: what runs there, and in which functions.
    SAMPLE Sample = 0x4a "sample" own
    /// Threads of a control group may run on a CPU again: they waited there, as the group had used
    /// up its CPU time. The event's thread is the one interrupted.
    THROTTLE Throttle = 0x4b "throttle" plain Throttle {
        /// How long they waited.
        duration: u64, ns;
        /// The group with the limit; 0: it is one of cgroup v1.
        cgroup: u64, cgroup;
        /// In cgroup v1, the inode number of the group's directory; else 0.
        v1_cgroup: u64;
        /// The CPU on which they waited.
        throttled_cpu: u32;
        /// Reserved.
        reserved: u32, reserved;
    }
    /// An operation is handed to the kernel by a ring of io_uring.
    IO_SUBMIT IoSubmit = 0x4c "io_submit" own IoSubmit {
        /// Which ring, by a keyed hash; another one may have it when this one is closed.
        ring: u32, hex;
        /// Which of the kernel's operations, by a keyed hash; another one may have it when this one
        /// is done.
        operation: u32, hex;
        /// What the program calls it: `user_data`.
        user_data: u64, hex;
        /// What is to be done.
        op: u32, io_op;
        /// The descriptor that it is about; with the flag `fixed_file` a place in the ring's own
        /// table of files. Of one that takes a path: the directory. -1: none.
        fd: i32;
        /// How.
        flags: u32, io_flags;
        /// Who hands it over: the thread that calls io_uring_enter, or the kernel's thread that
        /// polls the ring (`IORING_SETUP_SQPOLL`).
        submitter: u32, one_of [0 "thread", 1 "sq_thread"];
    }
    /// An operation of io_uring has a result.
    IO_COMPLETE IoComplete = 0x4d "io_complete" plain IoComplete {
        /// As of `io_submit`.
        ring: u32, hex;
        /// As of `io_submit`; 0: the kernel does not tell, as of results that an operation has
        /// before its last one.
        operation: u32, hex;
        /// As of `io_submit`.
        user_data: u64, hex;
        /// What was done.
        op: u32, io_op;
        /// What came of it, as a system call returns it: below 0 an error.
        result: i32, ret;
        /// What the program is told beside it (`IORING_CQE_F_...`).
        flags: u32, flags [
            0x1 "buffer", 0x2 "more", 0x4 "sock_nonempty", 0x8 "notif", 0x10 "buf_more"
        ];
        /// In what it ran: but for `thread`, the event's thread is the one interrupted.
        context: u32, context;
    }
    /// A function that somebody asked for (`flightctl probe add`) is called or returns, or a mark
    /// in a program is passed.
    FUNCTION Function = 0x4e "function" plain Function {
        /// Which, by its number in the recording's metadata.
        probe: u32;
        /// What happens to it.
        point: u32, one_of [0 "entry", 1 "return", 2 "mark"];
        /// The lower half of the stack pointer, by which a return finds its entry.
        stack: u32, hex;
        /// How many of the following there are.
        arguments: u32;
        /// The first argument; at the return the value.
        a0: u64, hex;
        /// The second argument.
        a1: u64, hex;
        /// The third argument.
        a2: u64, hex;
        /// The fourth argument.
        a3: u64, hex;
        /// The fifth argument.
        a4: u64, hex;
        /// The sixth argument.
        a5: u64, hex;
    }
    /// A tracepoint that the configuration names was passed.
    TRACEPOINT Tracepoint = 0x4f "tracepoint" own
}

impl Kind {
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Its row.
    pub const fn row(self) -> &'static Row {
        const TABLE: &[Row; Kind::COUNT] = &ROWS;
        &TABLE[self.place()]
    }

    /// Its place in [`Self::ALL`].
    pub const fn place(self) -> usize {
        PLACES[self as usize] as usize
    }

    /// The kind with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match PLACES[number as usize] {
            NO_PLACE => None,
            place => Some(Self::ALL[place as usize]),
        }
    }

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The ring lane whose pages hold it.
    pub const fn lane(self) -> Lane {
        Lane::RINGS[lane_of(self as u8)]
    }

    /// The kind that a lane counts at an index of its header's totals.
    pub const fn counted(lane: Lane, index: usize) -> Option<Self> {
        if index >= KINDS_MAX { None } else { Self::from_number(number_of(lane, index)) }
    }

    /// Whether its body names its thread, in the first field: in lane `task`. Elsewhere a THREAD
    /// record does.
    pub const fn names_thread(self) -> bool {
        lane_of(self as u8) == Lane::Task as usize && !self.row().fields.is_empty()
    }

    /// Whether everything about it follows from its row.
    pub const fn is_plain(self) -> bool {
        matches!(self.row().form, Form::Plain)
    }
}

/// The number of the kind that a lane counts at an index below [`KINDS_MAX`].
pub const fn number_of(lane: Lane, index: usize) -> u8 {
    (lane as u8 + 1) << 4 | index as u8 & 0xf
}

/// How many kinds a ring lane has.
pub const fn kinds_of(lane: Lane) -> usize {
    let mut count = 0;
    let mut place = 0;
    while place < Kind::COUNT {
        count += (lane_of(ROWS[place].number) == lane as usize) as usize;
        place += 1;
    }
    count
}

/// Kinds of the lane that has the most.
pub const LANE_KINDS: usize = {
    let mut most = 0;
    let mut lane = 0;
    while lane < RING_LANES {
        let kinds = kinds_of(Lane::RINGS[lane]);
        most = if kinds > most { kinds } else { most };
        lane += 1;
    }
    most
};

/// Bytes of the longest body of fixed fields.
pub const BODY_MAX: usize = {
    let mut most = 0;
    let mut place = 0;
    while place < Kind::COUNT {
        let bytes = ROWS[place].bytes;
        most = if bytes > most { bytes } else { most };
        place += 1;
    }
    most
};

/// The index of a kind's ring lane.
const fn lane_of(number: u8) -> usize {
    (number >> 4) as usize - 1
}

/// In [`PLACES`]: there is no such kind.
const NO_PLACE: u8 = u8::MAX;

/// The place of each number in the table.
const PLACES: &[u8; 256] = &{
    let mut places = [NO_PLACE; 256];
    let mut place = 0;
    while place < Kind::COUNT {
        places[ROWS[place].number as usize] = place as u8;
        place += 1;
    }
    places
};

// The rows are in order, each lane's numbers without a gap from 0, and within what a lane can
// count. A plain kind has fields; in lane `task`, where events name their thread themselves, every
// body begins with it.
const _: () = {
    let mut place = 0;
    while place < Kind::COUNT {
        let row = ROWS[place];
        let (lane, index) = (lane_of(row.number), (row.number & 0xf) as usize);
        assert!(lane < RING_LANES && index < KINDS_MAX);
        if place > 0 {
            let last = ROWS[place - 1].number;
            let next = lane_of(last) == lane && row.number == last + 1;
            assert!(next || lane_of(last) < lane && index == 0);
        }
        assert!(matches!(row.form, Form::Own) || !row.fields.is_empty());
        if lane == Lane::Task as usize && !row.fields.is_empty() {
            assert!(matches!(row.fields[0].unit, Unit::Thread));
            assert!(matches!(row.fields[0].ty, Type::U32));
        }
        place += 1;
    }
};
