//! What a reader sees: one event, whole, with its thread and its time.

use std::borrow::Cow;

use super::plain::Plain;
use crate::abi::kinds::{IoSubmit, Kind};
use crate::abi::pointee::{self, Shape};
use crate::abi::record::sample::UserFrame;
use crate::abi::record::{
    Abi, Exec, Fork, NR_INVALID, Rename, STRING_HEAD, StringStatus, TaskExit, WakeContext, stack,
};

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// ns of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// CPU that it happened on.
    pub cpu: u16,
    /// Thread that did it (the one running on that CPU; 0: its idle thread).
    pub tid: u32,
    /// What happened.
    pub body: Body,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A system call begins.
    Enter(Call),
    /// A system call ends.
    Exit {
        /// The call; arguments only where the record carried them.
        call: Call,
        /// Its return value.
        ret: i64,
        /// When it began, where the record tells (it folded into its entry).
        entered: Option<u64>,
    },
    /// `tid` stops running, `next` starts.
    Switch {
        /// Priority of `tid` (0-99 real time, 100-139 nice -20 to 19, 255 deadline).
        prev_prio: u8,
        /// `task_struct.__state` of `tid`; 0: it would go on.
        prev_state: u16,
        /// Whether it was preempted.
        preempted: bool,
        /// Whether it waits for I/O (`task_struct.in_iowait`): its CPU counts as waiting for I/O
        /// meanwhile, where it idles.
        io_wait: bool,
        /// Thread that runs now.
        next: u32,
        /// Its priority.
        next_prio: u8,
    },
    /// `tid` wakes `wakee`.
    Waking {
        /// Thread being woken.
        wakee: u32,
        /// Its priority.
        prio: u8,
        /// State that it slept in; 0 for a new thread.
        state: u16,
        /// CPU that it last ran on; a migration after this event tells the new one.
        cpu: u16,
        /// Its first wakeup.
        new: bool,
        /// What the CPU was doing: unless it ran a thread, `tid` is only whom an interrupt hit.
        context: WakeContext,
    },
    /// `thread` moves from one CPU's run queue to another's.
    Migrate {
        /// Thread that moves.
        thread: u32,
        /// Its priority.
        prio: u8,
        /// CPU that it leaves.
        from: u16,
        /// CPU that it goes to.
        to: u16,
    },
    /// `tid` runs again after a long wait: where in the kernel it waited.
    Stack(Stack),
    /// `tid` runs when the clock of its CPU strikes: in which functions.
    Sample(Sample),
    /// `tid` hands an operation to the kernel by a ring of io_uring.
    IoSubmit {
        /// The operation.
        submit: IoSubmit,
        /// The paths that it takes, as far as they are recorded: [`Text::index`] tells which.
        paths: Vec<Text>,
    },
    /// A tracepoint that the configuration names was passed.
    Tracepoint(Tracepoint),
    /// A thread was created.
    Fork(Fork),
    /// A program was executed.
    Exec {
        /// Ids and name.
        exec: Exec,
        /// File.
        file: Option<Text>,
        /// Arguments, each ended by NUL. Of a list that is cut, what is after the first
        /// [`STRING_MAX`](crate::abi::record::STRING_MAX) bytes is its end.
        args: Option<Text>,
    },
    /// A thread changed its name.
    Rename(Rename),
    /// A thread ended.
    TaskExit(TaskExit),
    /// A line of text by a user.
    Mark(Text),
    /// An act of the recorder: [`crate::abi::record::Act`] as a number, and a sentence.
    Act(u16, Text),
    /// An event of a kind about which everything follows from its row in the table.
    Plain(Plain),
}

impl Default for Event {
    /// A place for an event ([`super::Decoder::read`]): a switch that never was.
    fn default() -> Self {
        let body = Body::Switch {
            prev_prio: 0,
            prev_state: 0,
            preempted: false,
            io_wait: false,
            next: 0,
            next_prio: 0,
        };
        Self { time: 0, cpu: 0, tid: 0, body }
    }
}

impl Body {
    /// Its kind.
    #[inline]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Enter(_) => Kind::SysEnter,
            Self::Exit { .. } => Kind::SysExit,
            Self::Switch { .. } => Kind::Switch,
            Self::Waking { new: false, .. } => Kind::Waking,
            Self::Waking { new: true, .. } => Kind::WakeupNew,
            Self::Migrate { .. } => Kind::Migrate,
            Self::Stack(_) => Kind::Stack,
            Self::Sample(_) => Kind::Sample,
            Self::IoSubmit { .. } => Kind::IoSubmit,
            Self::Tracepoint(_) => Kind::Tracepoint,
            Self::Fork(_) => Kind::Fork,
            Self::Exec { .. } => Kind::Exec,
            Self::Rename(_) => Kind::Rename,
            Self::TaskExit(_) => Kind::Exit,
            Self::Mark(_) => Kind::Mark,
            Self::Act(..) => Kind::Recorder,
            Self::Plain(plain) => plain.kind(),
        }
    }

    /// What a call has allocated for its strings, empty, to be used again.
    #[inline]
    pub(super) fn take_strings(&mut self) -> Vec<Text> {
        match self {
            Self::Enter(call) | Self::Exit { call, .. } => {
                let mut strings = std::mem::take(&mut call.strings);
                strings.clear();
                strings
            }
            _ => Vec::new(),
        }
    }
}

/// Where in the kernel a thread waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// For how long it slept, ns, the time until it got a CPU included; `None`: since before the
    /// recording.
    pub slept: Option<u64>,
    /// What became of the stack.
    pub status: stack::Status,
    /// There may be more frames than were recorded.
    pub cut: bool,
    /// Return addresses, from the innermost one out, as numbers that [`crate::meta::Meta::symbols`]
    /// gives names ([`crate::symbols::Symbols`]).
    pub frames: Box<[u32]>,
}

/// What runs on a CPU at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The program itself; else the kernel.
    pub user_mode: bool,
    /// What became of the frames.
    pub status: stack::Status,
    /// There may be more frames of the kernel than were recorded.
    pub kernel_cut: bool,
    /// There may be more frames of the program than were recorded.
    pub user_cut: bool,
    /// Frames of the kernel, from the innermost one out, as of [`Stack::frames`]; the first one is
    /// one byte after where the instruction that ran begins.
    pub kernel: Box<[u32]>,
    /// Frames of the program, from the innermost one out: the first one is of the instruction that
    /// ran, or that the program called the kernel before.
    pub user: Box<[UserFrame]>,
}

/// What a tracepoint published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracepoint {
    /// Which one, as [`crate::meta::Meta::tracepoints`] describes it.
    pub id: u16,
    /// In what it ran: but for a thread, the event's thread is the one interrupted.
    pub context: WakeContext,
    /// The published record after its first [`COMMON`](crate::abi::record::tracepoint::COMMON)
    /// bytes, with addresses of the kernel hidden.
    pub bytes: Box<[u8]>,
    /// There was more of it.
    pub cut: bool,
    /// The kernel's stack, where it was asked for.
    pub stack: Option<KernelStack>,
}

/// A stack of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelStack {
    /// What became of it.
    pub status: stack::Status,
    /// There may be more frames than were recorded.
    pub cut: bool,
    /// Return addresses, as of [`Stack::frames`].
    pub frames: Box<[u32]>,
}

/// A system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its number; [`crate::abi::record::NR_INVALID`]: it is the first argument.
    pub nr: u16,
    /// Whose number.
    pub abi: Abi,
    /// How many of `args` were recorded.
    pub nargs: u8,
    /// The arguments.
    pub args: [u64; 6],
    /// Strings and structures that arguments point to; [`Text::index`] tells which.
    pub strings: Vec<Text>,
}

/// What a system call without a name is called: `syscall_600`, by its number; `syscall_?` for
/// [`NR_INVALID`], whose number is the call's first argument.
pub fn unnamed_call(nr: u16) -> Cow<'static, str> {
    if nr == NR_INVALID { "syscall_?".into() } else { format!("syscall_{nr}").into() }
}

/// A string of an event, or what else an argument of a system call points to
/// ([`Text::pointee`]): any bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Which argument; [`pointee::INDEX`] more: what it points to that is no string.
    pub index: u8,
    /// How it came out.
    pub status: StringStatus,
    /// Its bytes, without the ending NUL; of [`StringStatus::Ends`] its beginning and its end, one
    /// after the other.
    pub bytes: Box<[u8]>,
}

impl Text {
    /// What is recorded from the beginning on, and, where the middle is not, of the end.
    pub fn parts(&self) -> (&[u8], Option<&[u8]>) {
        match self.bytes.split_at_checked(STRING_HEAD) {
            Some((head, tail)) if self.status == StringStatus::Ends => (head, Some(tail)),
            _ => (&self.bytes, None),
        }
    }

    /// Which argument it belongs to.
    pub const fn argument(&self) -> usize {
        (self.index & (pointee::INDEX - 1)) as usize
    }

    /// Whether it is a string.
    pub const fn is_string(&self) -> bool {
        self.index < pointee::INDEX
    }

    /// What an argument points to that is no string: its shape, whether the kernel told it when the
    /// call returned, and its bytes. `None`: it is a string, or of a shape of a later release.
    pub fn pointee(&self) -> Option<(Shape, bool, &[u8])> {
        let (head, bytes) = self.bytes.split_first_chunk::<{ pointee::HEAD }>()?;
        let (shape, told) = pointee::unpack(u32::from_le_bytes(*head));
        (!self.is_string()).then_some(())?;
        Some((shape?, told, bytes))
    }

    /// Whether the two are the same thing, read at different times.
    pub fn is_as(&self, other: &Self) -> bool {
        let head = |text: &Self| text.bytes.first_chunk::<{ pointee::HEAD }>().copied();
        self.index == other.index && (self.is_string() || head(self) == head(other))
    }

    /// Whether bytes of it are not recorded.
    pub fn is_cut(&self) -> bool {
        matches!(self.status, StringStatus::Cut | StringStatus::Ends)
    }
}
