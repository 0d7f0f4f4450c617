//! The tables and their columns.
//!
//! Types are those that every reader of Parquet has: no unsigned numbers, and times as microseconds
//! (`ts`) with the nanoseconds beside them (`ts_ns`), as Spark refuses times in nanoseconds. What
//! exists stays as it is; a later release may add columns at a table's end, and tables.

/// What stands in a column of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text {
    /// Words and numbers of this program, and of the kernel's interfaces.
    Own,
    /// What anybody chose may stand there.
    Any,
    /// A JSON object with such texts.
    Json,
}

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Each event.
    Events,
    /// Each system call, with its result.
    Calls,
    /// Each stretch of time that a thread waited.
    Waits,
    /// Each request to a disk that was done, or a part of one.
    BlockIo,
    /// Each thread.
    Threads,
    /// Each process.
    Processes,
    /// Windows, gaps, and what else is missing.
    Coverage,
    /// Each recording.
    Recordings,
    /// What minutes come to, from the recorder's sums.
    Sums,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Events,
        Self::Calls,
        Self::Waits,
        Self::BlockIo,
        Self::Threads,
        Self::Processes,
        Self::Coverage,
        Self::Recordings,
        Self::Sums,
    ];

    /// Its name; that of its file is this and `.parquet`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Calls => "calls",
            Self::Waits => "waits",
            Self::BlockIo => "block_io",
            Self::Threads => "threads",
            Self::Processes => "processes",
            Self::Coverage => "coverage",
            Self::Recordings => "recordings",
            Self::Sums => "sums",
        }
    }

    /// Its columns, as Parquet writes them down.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Events => {
                "message events {
                    required int64 ts (TIMESTAMP(MICROS,true)); required int64 ts_ns;
                    required int32 cpu; required int32 tid; required int32 pid;
                    required binary comm (STRING); required binary kind (STRING);
                    optional binary name (STRING); optional int64 dur_ns; optional int64 ret;
                    optional int32 other_tid; optional binary other_comm (STRING);
                    optional int32 other_cpu; optional int32 prio;
                    optional int32 other_prio; optional binary state (STRING);
                    optional binary stack (STRING); optional binary fields (STRING);
                    required binary session (STRING);
                    optional binary trace_id (STRING); optional binary span_id (STRING);
                }"
            }
            Self::Calls => {
                "message calls {
                    required int64 ts (TIMESTAMP(MICROS,true)); required int64 ts_ns;
                    required int32 cpu; required int32 tid; required int32 pid;
                    required binary comm (STRING); required binary name (STRING);
                    optional int64 dur_ns; optional int64 ret; optional binary error (STRING);
                    optional binary path (STRING); optional int32 fd; optional binary file (STRING);
                    optional binary args (STRING); required boolean has_entry;
                    required boolean has_exit; required binary session (STRING);
                    optional binary trace_id (STRING); optional binary span_id (STRING);
                }"
            }
            Self::Waits => {
                "message waits {
                    required int64 ts (TIMESTAMP(MICROS,true)); required int64 ts_ns;
                    required int64 dur_ns; required int32 cpu; required int32 tid;
                    optional int32 pid; optional binary comm (STRING);
                    required binary kind (STRING); optional binary state (STRING);
                    required boolean io_wait; optional binary call (STRING);
                    optional binary function (STRING); optional int32 waker_tid;
                    optional binary waker_comm (STRING); optional binary waker_context (STRING);
                    required boolean has_end; required binary session (STRING);
                }"
            }
            Self::BlockIo => {
                "message block_io {
                    required int64 ts (TIMESTAMP(MICROS,true)); required int64 ts_ns;
                    required int32 cpu; required binary device (STRING);
                    required binary op (STRING); required int64 sector; required int64 bytes;
                    required int64 bytes_left; optional int64 queue_ns; optional int64 service_ns;
                    optional int32 tid; optional int32 pid; optional binary comm (STRING);
                    optional binary flags (STRING); optional binary error (STRING);
                    required binary session (STRING);
                }"
            }
            Self::Threads => {
                "message threads {
                    required int32 tid; required int32 pid; optional binary comm (STRING);
                    optional int64 started_ns; optional int64 ended_ns; optional int32 exit_code;
                    optional int32 exit_signal;
                    optional int64 first_ns; optional int64 last_ns; required int64 events;
                    required binary session (STRING);
                    optional binary container (STRING);
                    optional binary container_name (STRING); optional binary pod (STRING);
                    optional binary pod_uid (STRING); optional binary namespace (STRING);
                    optional binary image (STRING);
                }"
            }
            Self::Processes => {
                "message processes {
                    required int32 pid; optional int32 ppid; optional binary comm (STRING);
                    optional binary file (STRING); optional binary args (STRING);
                    optional binary unit (STRING); optional binary cgroup (STRING);
                    optional int64 started_ns; optional int64 ended_ns; optional int32 exit_code;
                    optional int32 exit_signal;
                    required binary session (STRING);
                    optional binary container (STRING);
                    optional binary container_name (STRING); optional binary pod (STRING);
                    optional binary pod_uid (STRING); optional binary namespace (STRING);
                    optional binary image (STRING);
                }"
            }
            Self::Coverage => {
                "message coverage {
                    required int64 ts (TIMESTAMP(MICROS,true)); required int64 ts_ns;
                    required int64 until_ns; required binary what (STRING);
                    required boolean complete; optional binary lane (STRING); optional int32 cpu;
                    optional binary kind (STRING); optional binary reason (STRING);
                    optional int64 missing; required binary session (STRING);
                }"
            }
            Self::Recordings => {
                "message recordings {
                    required binary session (STRING); required binary boot_id (STRING);
                    required binary host (STRING); required binary kernel (STRING);
                    required binary machine (STRING); required binary recorder (STRING);
                    required int32 cpus; required int64 started_ns;
                    required int64 wall_minus_mono_ns;
                }"
            }
            Self::Sums => {
                "message sums {
                    required int64 ts (TIMESTAMP(MICROS,true)); required int64 ts_ns;
                    required int64 until_ns; required binary what (STRING);
                    required boolean complete;
                    optional binary unit (STRING); optional binary call (STRING);
                    optional binary error (STRING); optional binary op (STRING);
                    optional binary reason (STRING); optional binary device (STRING);
                    optional int32 cpu;
                    optional int64 count; optional int64 sum; optional int64 max;
                    optional int64 errors; optional int64 bytes;
                    optional int64 read_bytes; optional int64 written_bytes;
                    optional int64 running_ns; optional int64 held_ns;
                    optional int64 queue_ns; optional int64 queued; optional int64 untimed;
                    optional binary histogram (STRING);
                    optional int64 missing; required binary session (STRING);
                }"
            }
        }
    }

    /// What the texts of a column are. What is not known to be this program's own may be anybody's.
    pub(super) fn text(self, column: &str) -> Text {
        match (self, column) {
            (Self::Calls, "name")
            | (
                _,
                "kind" | "error" | "state" | "what" | "lane" | "op" | "session" | "boot_id"
                | "call" | "waker_context" | "histogram" | "trace_id" | "span_id",
            ) => Text::Own,
            (_, "fields") => Text::Json,
            _ => Text::Any,
        }
    }

    /// Columns of numbers that grow from row to row, or hardly repeat.
    pub(super) const fn deltas(self) -> &'static [&'static str] {
        match self {
            Self::Threads | Self::Processes | Self::Recordings => &[],
            Self::Coverage | Self::Sums => &["ts", "ts_ns", "until_ns"],
            _ => &["ts", "ts_ns"],
        }
    }

    /// Whether each row has a thread with its process and its name, in columns `tid`, `pid` and
    /// `comm` one after the other.
    pub(super) const fn has_who(self) -> bool {
        matches!(self, Self::Events | Self::Calls)
    }

    /// Whether rows, which are made when what they tell of ends, are written in the order of its
    /// beginning.
    pub(super) const fn by_beginning(self) -> bool {
        matches!(self, Self::Calls | Self::Waits)
    }
}
