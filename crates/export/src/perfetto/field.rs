//! Numbers of fields, as Perfetto's `protos/perfetto/trace` has them.

pub(super) mod trace {
    pub(in super::super) const PACKET: u64 = 1;
}

pub(super) mod packet {
    pub(in super::super) const FTRACE_EVENTS: u64 = 1;
    pub(in super::super) const PROCESS_TREE: u64 = 2;
    pub(in super::super) const CLOCK_SNAPSHOT: u64 = 6;
    pub(in super::super) const TIMESTAMP: u64 = 8;
    pub(in super::super) const SEQUENCE: u64 = 10;
    pub(in super::super) const TRACK_EVENT: u64 = 11;
    pub(in super::super) const INTERNED: u64 = 12;
    pub(in super::super) const FLAGS: u64 = 13;
    pub(in super::super) const DROPPED: u64 = 42;
    pub(in super::super) const SYSTEM_INFO: u64 = 45;
    pub(in super::super) const COMPRESSED: u64 = 50;
    pub(in super::super) const CLOCK: u64 = 58;
    pub(in super::super) const DEFAULTS: u64 = 59;
    pub(in super::super) const TRACK: u64 = 60;
    pub(in super::super) const PERF_SAMPLE: u64 = 66;

    /// Of `FLAGS`: what was interned before is forgotten; what is interned is needed.
    pub(in super::super) const CLEARED: u64 = 1;
    pub(in super::super) const NEEDED: u64 = 2;
}

pub(super) mod clock {
    pub(in super::super) const CLOCKS: u64 = 1;
    pub(in super::super) const ID: u64 = 1;
    pub(in super::super) const TIME: u64 = 2;
    pub(in super::super) const INCREMENTAL: u64 = 3;

    pub(in super::super) const REALTIME: u64 = 1;
    pub(in super::super) const MONOTONIC: u64 = 3;
    pub(in super::super) const BOOTTIME: u64 = 6;
    /// A clock of a sequence of its own: each time is told by what it is behind the one before.
    pub(in super::super) const DELTA: u64 = 64;
}

pub(super) mod system {
    pub(in super::super) const UTSNAME: u64 = 1;
    pub(in super::super) const NUM_CPUS: u64 = 8;
    pub(in super::super) const MACHINE_NAME: u64 = 17;
    pub(in super::super) const SYSNAME: u64 = 1;
    pub(in super::super) const VERSION: u64 = 2;
    pub(in super::super) const RELEASE: u64 = 3;
    pub(in super::super) const MACHINE: u64 = 4;
}

pub(super) mod bundle {
    pub(in super::super) const CPU: u64 = 1;
    pub(in super::super) const EVENT: u64 = 2;
    pub(in super::super) const LOST_EVENTS: u64 = 3;
    pub(in super::super) const COMPACT: u64 = 4;

    pub(in super::super) const SWITCH_TIME: u64 = 1;
    pub(in super::super) const SWITCH_STATE: u64 = 2;
    pub(in super::super) const SWITCH_NEXT: u64 = 3;
    pub(in super::super) const SWITCH_PRIO: u64 = 4;
    pub(in super::super) const NAMES: u64 = 5;
    pub(in super::super) const SWITCH_NAME: u64 = 6;
    pub(in super::super) const WAKING_TIME: u64 = 7;
    pub(in super::super) const WAKING_PID: u64 = 8;
    pub(in super::super) const WAKING_CPU: u64 = 9;
    pub(in super::super) const WAKING_PRIO: u64 = 10;
    pub(in super::super) const WAKING_NAME: u64 = 11;
    pub(in super::super) const WAKING_FLAGS: u64 = 12;
}

/// Events of ftrace.
pub(super) mod event {
    pub(in super::super) const TIMESTAMP: u64 = 1;
    pub(in super::super) const PID: u64 = 2;
    pub(in super::super) const COMMON_FLAGS: u64 = 5;
    pub(in super::super) const SWITCH: u64 = 4;
    pub(in super::super) const BLOCKED_REASON: u64 = 18;
    pub(in super::super) const WAKING: u64 = 20;
    pub(in super::super) const WAKEUP_NEW: u64 = 114;
    pub(in super::super) const NEWTASK: u64 = 235;
    pub(in super::super) const RENAME: u64 = 236;
    pub(in super::super) const EXEC: u64 = 237;
    pub(in super::super) const EXIT: u64 = 238;
    pub(in super::super) const MIGRATE: u64 = 491;
}

pub(super) mod process {
    pub(in super::super) const PROCESSES: u64 = 1;
    pub(in super::super) const THREADS: u64 = 2;
    pub(in super::super) const PID: u64 = 1;
    pub(in super::super) const PPID: u64 = 2;
    pub(in super::super) const CMDLINE: u64 = 3;
    pub(in super::super) const TID: u64 = 1;
    pub(in super::super) const NAME: u64 = 2;
    pub(in super::super) const TGID: u64 = 3;
}

pub(super) mod track {
    pub(in super::super) const UUID: u64 = 1;
    pub(in super::super) const NAME: u64 = 2;
    pub(in super::super) const PROCESS: u64 = 3;
    pub(in super::super) const THREAD: u64 = 4;
    pub(in super::super) const PARENT: u64 = 5;
    pub(in super::super) const THREAD_PID: u64 = 1;
    pub(in super::super) const THREAD_TID: u64 = 2;
    pub(in super::super) const PROCESS_PID: u64 = 1;
    pub(in super::super) const PROCESS_LABELS: u64 = 8;
}

pub(super) mod slice {
    pub(in super::super) const CATEGORY: u64 = 3;
    pub(in super::super) const ANNOTATION: u64 = 4;
    pub(in super::super) const TYPE: u64 = 9;
    pub(in super::super) const NAME: u64 = 10;
    pub(in super::super) const TRACK: u64 = 11;
    /// Of a sequence that interns nothing.
    pub(in super::super) const CATEGORY_TEXT: u64 = 22;
    pub(in super::super) const NAME_TEXT: u64 = 23;

    pub(in super::super) const BEGIN: u64 = 1;
    pub(in super::super) const END: u64 = 2;
    pub(in super::super) const INSTANT: u64 = 3;

    pub(in super::super) const KEY: u64 = 1;
    pub(in super::super) const KEY_TEXT: u64 = 10;
    pub(in super::super) const UNSIGNED: u64 = 3;
    pub(in super::super) const SIGNED: u64 = 4;
    pub(in super::super) const STRING: u64 = 6;
}

pub(super) mod interned {
    pub(in super::super) const CATEGORIES: u64 = 1;
    pub(in super::super) const EVENT_NAMES: u64 = 2;
    pub(in super::super) const ANNOTATION_NAMES: u64 = 3;
    pub(in super::super) const FUNCTIONS: u64 = 5;
    pub(in super::super) const FRAMES: u64 = 6;
    pub(in super::super) const CALLSTACKS: u64 = 7;
    pub(in super::super) const BUILD_IDS: u64 = 16;
    pub(in super::super) const PATHS: u64 = 17;
    pub(in super::super) const MAPPINGS: u64 = 19;
    pub(in super::super) const KERNEL_SYMBOLS: u64 = 26;

    pub(in super::super) const IID: u64 = 1;
    pub(in super::super) const TEXT: u64 = 2;
    pub(in super::super) const FRAME_FUNCTION: u64 = 2;
    pub(in super::super) const FRAME_MAPPING: u64 = 3;
    pub(in super::super) const STACK_FRAMES: u64 = 2;
    pub(in super::super) const MAPPING_BUILD_ID: u64 = 2;
    pub(in super::super) const MAPPING_PATH: u64 = 7;
}

pub(super) mod sample {
    pub(in super::super) const CPU: u64 = 1;
    pub(in super::super) const PID: u64 = 2;
    pub(in super::super) const TID: u64 = 3;
    pub(in super::super) const CALLSTACK: u64 = 4;
    pub(in super::super) const MODE: u64 = 5;

    pub(in super::super) const KERNEL: u64 = 1;
    pub(in super::super) const USER: u64 = 2;

    pub(in super::super) const DEFAULTS: u64 = 12;
    pub(in super::super) const TIMEBASE: u64 = 1;
    pub(in super::super) const NAME: u64 = 10;
}
