//! The control protocol between `flightctl` and `flightd`, over `RUNTIME_DIR/control.sock`.
//!
//! A frame is its length (`u32`, of what follows), [`VERSION`] (`u16`) and a bincode message, all
//! little-endian. One connection carries any number of requests, each answered in turn. This
//! module is the only place that knows bincode.

use bincode::de::Decoder;
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode, config, impl_borrow_decode};
use thiserror::Error;

use crate::abi::counts::Counts;
use crate::abi::page::RING_LANES;
pub use crate::thread_stack::ThreadStack;
pub use crate::totals::{CpuTotals, Position, Totals};

/// Version of the messages; both sides must have the same.
pub const VERSION: u16 = 1;
/// Name of the socket in the runtime directory.
pub const SOCKET_NAME: &str = "control.sock";
/// Longest frame that the daemon accepts, in bytes.
pub const REQUEST_MAX: usize = 256 << 10;
/// Longest frame that the daemon sends, in bytes.
pub const RESPONSE_MAX: usize = 4 << 20;
/// Most pages in one [`Response::Pages`].
pub const PAGES_MAX: usize = 512;
/// Most stacks in one [`Response::Stacks`].
pub const STACKS_MAX: usize = 4096;
/// Longest mark, in bytes.
pub const MARK_MAX: usize = 255;

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Request {
    /// Answered by [`Response::Status`].
    Status,
    /// Answered by [`Response::Meta`], any number of [`Response::Pages`], then [`Response::End`].
    /// Ring pages that may hold events of the window, oldest first in each ring; all pages of the
    /// task lane, which tells names; all pages of the slot table; and those of the descriptor
    /// snapshots that were taken in the window, of the first after it, and of one that is
    /// taken now if the last is old.
    Pages {
        /// Start of the window, ns of `CLOCK_MONOTONIC`; 0: from the oldest page.
        from: u64,
        /// End of the window (exclusive); `u64::MAX`: until now.
        until: u64,
    },
    /// Writes a line into the recording. Answered by [`Response::Done`].
    Mark {
        /// At most [`MARK_MAX`] bytes; longer ones are refused.
        text: String,
    },
    /// What is new, for a client that follows the recording. Answered by any number of
    /// [`Response::Pages`] (in each ring oldest first), then [`Response::End`]. Where `session`
    /// is not the recording's, by [`Response::Meta`] and [`Response::End`] alone: the client
    /// begins anew with [`Request::Pages`].
    Since {
        /// The recording that the client follows.
        session: u64,
        /// How far it has got, in each ring that it follows.
        after: Vec<Position>,
        /// Most pages of one ring; where there are more, the newest.
        newest: u32,
    },
    /// What recording costs. Answered by [`Response::Account`].
    Budget,
    /// Changes what recording may cost until the configuration is read again; for root and the
    /// daemon's own user. Answered by [`Response::Done`].
    SetBudget {
        /// Millionths of the machine's CPU time; 0: no limit. `None`: stays.
        total: Option<u32>,
        /// Millionths of each CPU; 0: no limit. `None`: stays.
        per_cpu: Option<u32>,
    },
    /// Takes a snapshot of what was until now. Answered by [`Response::Snapshot`] when it is there.
    Snapshot {
        /// How far it reaches back, ns; 0: as the configuration says.
        last: u64,
        /// Why: at most [`MARK_MAX`] bytes.
        reason: String,
    },
    /// Where blocked threads wait at this moment. Answered by [`Response::Meta`], which names the
    /// functions, any number of [`Response::Stacks`], then [`Response::End`].
    Stacks,
    /// Probes functions for a time; for root alone. With the request come, as descriptors, the
    /// file, where the daemon takes points of files ([`Response::Probes`]) and they are no
    /// functions of the kernel; else the perf events of its points, in their order. Answered by
    /// [`Response::Probes`] with the new one.
    AddProbe(Box<NewProbe>),
    /// Answered by [`Response::Probes`].
    Probes,
    /// Ends probes before their time; for root alone. Answered by [`Response::Probes`] with those
    /// that were ended.
    RemoveProbes(ProbeChoice),
    /// Answered by [`Response::FunctionCalls`].
    FunctionCalls,
}

/// Most functions and marks that are probed at a time.
pub const PROBED_MAX: usize = 1000;
/// Most of them by perf events, which the kernel detaches one after the other, 25 ms each.
pub const PROBED_SINGLY_MAX: usize = 200;
/// Longest time of a probe, ns.
pub const PROBE_LASTS_MAX: u64 = 7 * 24 * 3600 * 1_000_000_000;

/// Functions of a file, or marks in it, to be probed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct NewProbe {
    /// What was asked for, as it was typed.
    pub spec: String,
    /// For how long, ns.
    pub lasts: u64,
    /// As [`crate::meta::Probed::path`].
    pub path: String,
    /// As [`crate::meta::Probed::build_id`].
    pub build_id: String,
    /// The functions: of each the event of its entry is sent, then, where `returns`, that of its
    /// return; unless the file is.
    pub functions: Vec<String>,
    /// Where the file is sent: the byte of it at which each function begins; else empty.
    pub offsets: Vec<u64>,
    /// Whether returns are recorded as well.
    pub returns: bool,
    /// The marks, after the functions: one event each.
    pub marks: Vec<NewMark>,
}

/// A mark in a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct NewMark {
    /// `provider:name`
    pub name: String,
    /// Where the file is sent: the byte of it at which it is; else 0.
    pub offset: u64,
    /// The same of its counter of listeners; 0: it has none.
    pub semaphore: u64,
    /// Where its arguments are, at most [`crate::abi::function::ARGUMENTS`].
    pub operands: Vec<NewOperand>,
}

/// As [`crate::abi::function::Operand`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
#[expect(missing_docs, reason = "the fields have the names of those")]
pub struct NewOperand {
    pub how: u32,
    pub shift: u32,
    pub base: u32,
    pub index: u32,
    pub scale: u32,
    pub offset: i64,
}

/// Which probes.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ProbeChoice {
    /// All.
    All,
    /// The one with this id.
    Id(u32),
    /// Those that were asked for so.
    Spec(String),
}

/// A probe that is attached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct ProbeStatus {
    /// Its id.
    pub id: u32,
    /// What was asked for.
    pub spec: String,
    /// The file.
    pub path: String,
    /// How many functions and marks.
    pub functions: u32,
    /// Since when, ns of `CLOCK_MONOTONIC`.
    pub since: u64,
    /// Until when.
    pub until: u64,
    /// For how long still, ns.
    pub left: u64,
}

/// How often a function was called, or a mark was passed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct FunctionCalls {
    /// Its name.
    pub name: String,
    /// The file.
    pub path: String,
    /// Calls.
    pub calls: u64,
    /// Returns; `None`: they are not counted.
    pub returns: Option<u64>,
    /// From when on it was counted, ns of `CLOCK_MONOTONIC`.
    pub since: u64,
    /// Until when; 0: it still is.
    pub until: u64,
}

/// What the daemon answers.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Response {
    /// The request failed; a sentence that says what to do.
    Error(String),
    /// Done.
    Done,
    /// The state of the recording.
    Status(Box<Status>),
    /// Metadata document (JSON, see [`crate::meta`]) of the recording.
    Meta(String),
    /// Whole pages, one after the other.
    Pages(Vec<u8>),
    /// All pages are through.
    End(Totals),
    /// What recording costs.
    Account(Box<Account>),
    /// The id of a snapshot that was taken.
    Snapshot(String),
    /// Kernel stacks of blocked threads, at most [`STACKS_MAX`].
    Stacks(Vec<ThreadStack>),
    /// Probes; and whether the daemon takes many points of a file at once, with its descriptor.
    Probes(Vec<ProbeStatus>, bool),
    /// Calls of functions, and the present time of `CLOCK_MONOTONIC`, ns.
    FunctionCalls(Vec<FunctionCalls>, u64),
}

impl Encode for Counts {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        self.all().encode(encoder)
    }
}

impl<Context> Decode<Context> for Counts {
    fn decode<D: Decoder<Context = Context>>(decoder: &mut D) -> Result<Self, DecodeError> {
        Ok(Self::first(<[u64; Self::LEN]>::decode(decoder)?))
    }
}

impl_borrow_decode!(Counts);

/// What recording may cost, and what an event costs, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct Budget {
    /// Limits by lane (`syscall`, `sched`), in millionths of a CPU; 0: none.
    pub limits: [u32; 2],
    /// Limit of all, in millionths of the machine's CPU time; 0: none.
    pub total: u32,
    /// A system call with its exit, when nothing is left out; 0: not known.
    pub call: u32,
    /// A string of it, in addition.
    pub string: u32,
    /// A switch, wakeup or migration.
    pub sched: u32,
    /// An event of a request to a disk.
    pub disk: u32,
    /// A system call that is not recorded.
    pub call_floor: u32,
    /// A switch, wakeup or migration that is not recorded.
    pub sched_floor: u32,
    /// An event of a request to a disk that is not recorded.
    pub disk_floor: u32,
    /// What a call costs less without its exit's time.
    pub exit_time: u32,
    /// What a call costs less with its first argument alone.
    pub arguments: u32,
    /// Whether the costs were measured on this machine; else they are assumed.
    pub measured: bool,
    /// Whether the system call programs are detached now, for the total's sake.
    pub detached: bool,
}

/// Times of the account: the last second or so, the last minute, since the daemon began.
pub const SPANS: usize = 3;

/// What recording has cost, as the daemon reckons: events counted × what one costs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Account {
    /// CPU time that the probes may take of each CPU, in millionths; 0: no limit.
    pub per_cpu: u32,
    /// CPU time that recording may take of the machine, the daemon's included, in millionths; 0:
    /// no limit.
    pub total: u32,
    /// Seconds of unspent allowance that may be spent at once.
    pub burst_seconds: u32,
    /// What may be left out, in this order, as the configuration names it.
    pub order: Vec<String>,
    /// Whether system calls may be detached.
    pub may_detach: bool,
    /// What may be spent of the total at once now, ns; below 0: spent in advance.
    pub left: i64,
    /// Time for which system calls were detached since the daemon began, ns.
    pub detached: u64,
    /// Lengths of the spans, ns.
    pub spans: [u64; SPANS],
    /// The daemon's CPU time by span, ns: draining, compressing and writing; all else; answers to
    /// clients, which are no cost of recording.
    pub daemon: [[u64; 3]; SPANS],
    /// By CPU.
    pub cpus: Vec<CpuAccount>,
}

/// The account of one CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct CpuAccount {
    /// CPU number.
    pub cpu: u16,
    /// Steps of the order that are taken.
    pub level: u32,
    /// What the probes may take of it now, in millionths: its part of the total, where that is
    /// less; 0: no limit.
    pub limit: u32,
    /// By span.
    pub spent: [Spent; SPANS],
}

/// CPU time that probes took, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct Spent {
    /// Recording system calls, beyond the floor.
    pub calls: u64,
    /// Recording their strings.
    pub strings: u64,
    /// Recording scheduling, beyond the floor.
    pub sched: u64,
    /// Recording requests to disks, beyond the floor.
    pub disk: u64,
    /// The probe overhead: of every event, recorded or not.
    pub floor: u64,
}

/// The state of the recording.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Status {
    /// Version of `flightd`.
    pub version: String,
    /// Session id of the recording.
    pub session: u64,
    /// Daemon's process id.
    pub pid: u32,
    /// When the recording began, ns of `CLOCK_MONOTONIC`.
    pub recording_since: u64,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC` now, ns.
    pub wall_offset: i64,
    /// When this daemon began, ns of `CLOCK_MONOTONIC`.
    pub daemon_since: u64,
    /// CPU time that this daemon has used, ns.
    pub daemon_cpu: u64,
    /// Form of the system call programs: `tp_btf` or `tracepoint`.
    pub syscall_programs: String,
    /// Kernel memory of rings and tables, bytes.
    pub memory: u64,
    /// By lane ([`crate::abi::page::Lane::RINGS`]): bytes of one CPU's ring.
    pub ring_bytes: [u64; RING_LANES],
    /// By lane: the history that every recorded CPU's ring holds, ns (the least over CPUs that
    /// wrapped; since the start where none has).
    pub held: [u64; RING_LANES],
    /// Counters.
    pub totals: Totals,
    /// Whether strings of system calls are recorded.
    pub strings: bool,
    /// Threads in the thread table.
    pub threads: u32,
    /// The budget.
    pub budget: Budget,
    /// The files.
    pub store: StoreStatus,
    /// The sums of minutes.
    pub sums: SumsStatus,
    /// Snapshots of what descriptors stand for.
    pub descriptors: DescriptorStatus,
    /// Windows that were kept because something happened.
    pub snapshots: SnapshotStatus,
    /// What is wrong with the recording's pins, if anything is.
    pub unpinned: Option<Unpinned>,
    /// What the configuration leaves out: keys of `[record]`.
    pub switched_off: Vec<String>,
    /// What this kernel lacks of what is optional, and why ([`crate::meta::Lacking`]).
    pub lacking: Vec<(String, String)>,
    /// Tracepoints that the configuration names, and what became of their events.
    pub tracepoints: Vec<TracepointStatus>,
}

/// Sums of minutes. Counters count from the daemon's start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct SumsStatus {
    /// Whether any are made.
    pub enabled: bool,
    /// Whether the daemon knows already what there is.
    pub looked: bool,
    /// Why they can't be made now.
    pub failed: Option<String>,
    /// Up to when events of this recording are added up, ns of `CLOCK_MONOTONIC`; 0: not yet.
    pub added: u64,
    /// Up to when its sums are in files; 0: none are yet.
    pub written: u64,
    /// Files of sums of all recordings.
    pub files: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Events that were added up.
    pub events: u64,
    /// Time of which the events were deleted before they were added up, ns.
    pub unsummed: u64,
    /// Whether more CPU time than usual is taken, as events that are not added up would be deleted
    /// soon.
    pub hurries: bool,
    /// CPU time of making sums, ns; a part of [`Status::daemon_cpu`].
    pub cpu: u64,
}

/// A tracepoint that the configuration names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct TracepointStatus {
    /// `SUBSYSTEM:NAME`.
    pub name: String,
    /// The condition under which its events are recorded; empty: always.
    pub when: String,
    /// Events that were recorded.
    pub recorded: u64,
    /// Events that the budget refused, or that came while another program was writing.
    pub refused: u64,
    /// Events for which the condition did not hold.
    pub left_out: u64,
}

/// The recording's pins are not where they should be.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Unpinned {
    /// What is wrong.
    pub reason: String,
    /// Whether events are counted nevertheless: then the recording goes on, and ends with the
    /// daemon.
    pub records: bool,
}

/// How the writing of files goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub enum StoreState {
    /// The configuration has none.
    #[default]
    Off,
    /// Written, or nothing to write.
    Writing,
    /// They can't be written; the rings hold what they can, and it is tried again and again.
    Failed {
        /// Since when, ns of `CLOCK_MONOTONIC`.
        since: u64,
        /// Why, and what to do.
        reason: String,
    },
}

/// The keys of `[store]` for which files are deleted; `keep_free` also where the disk is full.
pub const DELETED_FOR: [&str; 3] = ["max_total", "keep_free", "max_age"];

/// The files that the recording is drained into. Counters count from the daemon's start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct StoreStatus {
    /// How it goes.
    pub state: StoreState,
    /// The state directory.
    pub directory: String,
    /// The file that is being written.
    pub file: Option<String>,
    /// Files of all boots; `None`: not known, as the directory can't be read, or has not been yet.
    pub files: Option<u64>,
    /// Bytes that they take.
    pub bytes: u64,
    /// When the oldest of them began, ns since 1970.
    pub oldest: Option<i64>,
    /// Until when everything recorded is in the files, but for what was lost; ns of
    /// `CLOCK_MONOTONIC`. 0: nothing yet.
    pub drained: u64,
    /// The same, of what the disk has confirmed.
    pub synced: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes a second that are written: over the last half minute or so.
    pub rate: u64,
    /// Events written, by lane, each once.
    pub written_events: [u64; RING_LANES],
    /// Events that the rings had overwritten before they were written, by lane.
    pub lost_events: [u64; RING_LANES],
    /// Files deleted, and their bytes, by the limit that was to be kept ([`DELETED_FOR`]).
    pub deleted: [(u64, u64); 3],
    /// Times that writing failed.
    pub failures: u64,
    /// CPU time of draining, encoding and writing, ns; a part of [`Status::daemon_cpu`].
    pub cpu: u64,
}

/// How it stands with the snapshots of what descriptors stand for ([`crate::descriptors`]).
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct DescriptorStatus {
    /// Whether this kernel can be asked what is open.
    pub available: bool,
    /// When the last one was complete, ns of `CLOCK_MONOTONIC`; 0: there is none.
    pub taken: u64,
    /// CPU time that it took, ns.
    pub cost: u64,
    /// Processes in it.
    pub processes: u32,
    /// Descriptors in it.
    pub descriptors: u32,
    /// Descriptors for which it had no room.
    pub left_out: u64,
    /// Snapshots in the daemon's memory.
    pub kept: u32,
}

/// How it stands with the windows that are kept because something happened. Counters count from the
/// daemon's start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct SnapshotStatus {
    /// Whether any are taken.
    pub enabled: bool,
    /// Those that wait for their windows to pass, or are being made.
    pub pending: u32,
    /// Taken.
    pub taken: u64,
    /// Causes that came again and were counted beside the snapshot that there was.
    pub repeated: u64,
    /// Refused: there were too many.
    pub refused: u64,
    /// Those that could not be made.
    pub failed: u64,
    /// Kept in the directory, of all boots.
    pub kept: u32,
    /// Bytes that these take.
    pub bytes: u64,
    /// The last one that was taken.
    pub last: Option<LastSnapshot>,
}

/// The last window that was kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct LastSnapshot {
    /// Its id, as `flightctl snapshots` lists it.
    pub id: String,
    /// When its cause happened, ns of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// Its cause in a sentence.
    pub reason: String,
}

/// A frame that can't be taken.
#[derive(Debug, Error)]
pub enum FrameError {
    /// The other side speaks another version.
    #[error(
        "control protocol version {found} is not {VERSION}: use flightctl and flightd of the same \
         release"
    )]
    Version {
        /// What it speaks.
        found: u16,
    },
    /// Longer than the limit.
    #[error("a frame of {length} bytes exceeds the limit of {limit}")]
    TooLong {
        /// Announced.
        length: usize,
        /// Allowed.
        limit: usize,
    },
    /// Not a message of this protocol.
    #[error("malformed message: {0}")]
    Malformed(String),
}

/// Encodes a message as a whole frame.
pub fn encode<M: Encode>(message: &M) -> Result<Vec<u8>, FrameError> {
    let body = bincode::encode_to_vec(message, config::standard())
        .map_err(|e| FrameError::Malformed(e.to_string()))?;
    let mut out = Vec::with_capacity(6 + body.len());
    out.extend_from_slice(&((body.len() + 2) as u32).to_le_bytes());
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&body);
    Ok(out)
}

/// The number of [`Response::Pages`] among the responses, as bincode writes it.
const PAGES: u32 = 4;

/// What stands before the pages of a [`Response::Pages`] frame of so many bytes of pages: so that
/// they need not be copied into a message first.
pub fn pages_head(bytes: usize) -> Result<Vec<u8>, FrameError> {
    let head = bincode::encode_to_vec((PAGES, bytes as u64), config::standard());
    let head = head.map_err(|e| FrameError::Malformed(e.to_string()))?;
    let length = 2 + head.len() + bytes;
    if length > RESPONSE_MAX {
        return Err(FrameError::TooLong { length, limit: RESPONSE_MAX });
    }
    Ok([&(length as u32).to_le_bytes(), VERSION.to_le_bytes().as_slice(), &head].concat())
}

/// The pages of a [`Response::Pages`] in place, given what stands after a frame's length; `None`
/// for any other message, right or wrong, which is for [`decode`].
pub fn pages(frame: &[u8]) -> Option<&[u8]> {
    let (version, body) = frame.split_first_chunk::<2>()?;
    let decoded = bincode::borrow_decode_from_slice::<(u32, &[u8]), _>(body, config::standard());
    let ((kind, pages), used) = decoded.ok()?;
    (*version == VERSION.to_le_bytes() && kind == PAGES && used == body.len()).then_some(pages)
}

/// The length that a frame's first four bytes announce, if it is within `limit` and holds a
/// version.
pub fn length(prefix: [u8; 4], limit: usize) -> Result<usize, FrameError> {
    let length = u32::from_le_bytes(prefix) as usize;
    if length > limit {
        return Err(FrameError::TooLong { length, limit });
    }
    if length < 2 {
        return Err(FrameError::Malformed(format!("a frame of {length} bytes")));
    }
    Ok(length)
}

/// Decodes what stands after a frame's length. Takes no more memory than a few times the frame.
pub fn decode<M: Decode<()>>(frame: &[u8]) -> Result<M, FrameError> {
    let Some((version, body)) = frame.split_first_chunk::<2>() else {
        return Err(FrameError::Malformed("no version".into()));
    };
    let found = u16::from_le_bytes(*version);
    if found != VERSION {
        return Err(FrameError::Version { found });
    }
    let config = config::standard().with_limit::<{ RESPONSE_MAX * 2 }>();
    match bincode::decode_from_slice(body, config) {
        Ok((message, used)) if used == body.len() => Ok(message),
        Ok((_, used)) => {
            Err(FrameError::Malformed(format!("{} bytes after the message", body.len() - used)))
        }
        Err(e) => Err(FrameError::Malformed(e.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_in_place_are_the_message() {
        for pages in
            [vec![], vec![7; 3], vec![9; 300], (0..PAGES_MAX * 4096).map(|i| i as u8).collect()]
        {
            let message = encode(&Response::Pages(pages.clone())).unwrap();
            assert_eq!([pages_head(pages.len()).unwrap(), pages.clone()].concat(), message);
            assert_eq!(super::pages(&message[4..]), Some(pages.as_slice()));
            assert_eq!(super::pages(&message[4..message.len() - 1]), None);
            assert_eq!(super::pages(&[&message[4..], &[0]].concat()), None);
        }
        for other in [Response::Done, Response::Meta("x".into()), Response::End(Totals::default())]
        {
            assert_eq!(pages(&encode(&other).unwrap()[4..]), None);
        }
        let mut other = encode(&Response::Pages(vec![1])).unwrap();
        other[4] += 1;
        assert_eq!(pages(&other[4..]), None, "another version");
        assert!(pages_head(RESPONSE_MAX).is_err());
    }
}
