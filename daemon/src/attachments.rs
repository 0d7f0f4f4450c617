//! The programs of the probes, one row each: what runs a program, which events it records, and
//! whether a kernel may lack it.
//!
//! Loading, pinning, adopting, detaching for the budget, perf events and what `status` says of
//! this kernel all follow from [`ATTACHMENTS`]. The functions here take the rows as an argument, so
//! that a test can add one that no kernel has.

use std::collections::BTreeSet;
use std::fmt;

use flightrec_format::abi::probe::STACK_WALK;
use flightrec_format::meta::{Lacking, SwitchedOff};

use crate::btf::{
    COMPACTION, CONTEXT, DISK, FILES, Group, HANDLER, IO_WAIT, MAPPINGS, RECLAIM, RING, SOCKET,
    SOFTIRQS, STACKS, THREAD_POINTER, THROTTLED, VICTIM,
};
use crate::config::{Record, Sampling, Topic};

/// A tracepoint of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tracepoint {
    /// Its category: the directory in tracefs.
    pub category: &'static str,
    /// Its name in that category.
    pub name: &'static str,
}

/// `category:name`, as `perf list` has it.
impl fmt::Display for Tracepoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.category, self.name)
    }
}

/// In which form a program is attached to a tracepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramForm {
    /// `tp_btf`: cheaper, right up to Linux 6.19.
    TpBtf,
    /// Classic tracepoint: runs with preemption off on any kernel.
    Tracepoint,
}

impl ProgramForm {
    /// Its name in configuration, metadata and status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TpBtf => "tp_btf",
            Self::Tracepoint => "tracepoint",
        }
    }

    /// What a kernel needs. From 7.0 on `tp_btf` programs on `raw_syscalls` are preemptible
    /// (kernel commits f7d327654b88, a46023d5616e) and skip events where they meet.
    pub fn for_kernel(version: (u32, u32)) -> Self {
        if version >= (7, 0) { Self::Tracepoint } else { Self::TpBtf }
    }
}

/// Where in a function a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At its beginning (`fentry`).
    Entry,
    /// When it returns (`fexit`).
    Return,
}

/// What runs a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// A tracepoint.
    Tracepoint(Tracepoint, ProgramForm),
    /// A function of the kernel that its BTF describes.
    Function(&'static str, Place),
    /// A BPF iterator over these objects (`bpf_iter_…` in the kernel). It runs once, when all rows
    /// above it are attached.
    Once(&'static str),
    /// A BPF iterator whose link is pinned as a file: it runs when the file is read.
    File(&'static str),
    /// A BPF iterator over these objects, which the daemon runs for one process at a time.
    Process(&'static str),
    /// The clock of each CPU ([`crate::samplers`]).
    Clock,
    /// Functions and marks that somebody asks for, for a time ([`crate::uprobes`]).
    Probe,
    /// The daemon itself, by `BPF_PROG_TEST_RUN`.
    Daemon,
    /// The tracepoints that the configuration names, in the classic form.
    Configured,
}

/// A program of the probes.
#[derive(Debug, Clone, Copy)]
pub struct Attachment {
    /// Its name in the probes.
    pub program: &'static str,
    /// What runs it.
    pub hook: Hook,
    /// What its events are about, whose `[record]` key turns it off; `None`: it is always loaded.
    pub topic: Option<Topic>,
    /// Attached also where the configuration leaves its topic out: other programs need it.
    pub always: bool,
    /// What is missing without it, in words.
    pub what: &'static str,
    /// The kinds of event that it records, as `flightctl dump --event` names them.
    pub kinds: &'static [&'static str],
    /// Whether the recording does without it where this kernel lacks it. What is not optional is
    /// required: flightd then does not start.
    pub optional: bool,
    /// The optional program whose tracepoint has this one's name in older kernels: a kernel has one
    /// of the two.
    pub in_place_of: Option<&'static str>,
    /// The optional offsets that it can't do without ([`crate::btf::Group`]).
    pub offsets: &'static [Group],
    /// Optional offsets that it can do without, and what its events then lack.
    pub refined_by: &'static [Refinement],
}

/// Optional offsets without which a program records less of its events.
#[derive(Debug, Clone, Copy)]
pub struct Refinement {
    /// The offsets.
    pub group: Group,
    /// What the events lack without them, in words.
    pub what: &'static str,
    /// The kinds of these events.
    pub kinds: &'static [&'static str],
}

/// What tells an event that a thread causes from one that an interrupt does.
const CONTEXT_OF_EVENTS: Refinement = Refinement {
    group: CONTEXT,
    what: "context of wakeups, of requests to disks, of waits for locks, of connections and of \
           results of io_uring (an interrupt's looks like the interrupted thread's)",
    kinds: &[
        "waking",
        "wakeup_new",
        "block_insert",
        "block_issue",
        "block_complete",
        "contention",
        "tcp_retransmit",
        "sock_state",
        "io_complete",
    ],
};

/// What tells a wait for I/O from others.
const IO_WAITS: Refinement =
    Refinement { group: IO_WAIT, what: "which waits at switches are for I/O", kinds: &["switch"] };

/// What tells where a thread waited.
const LONG_WAITS: Refinement =
    Refinement { group: STACKS, what: "kernel stacks of long waits", kinds: &["stack"] };

/// All programs, in the order in which they are attached: task life first, so that whoever appears
/// in a later lane is known by then.
pub const ATTACHMENTS: &[Attachment] = &[
    row("note", Hook::Daemon, "marks and recorder events").records(&["mark", "recorder"]),
    tp_btf(Topic::Tasks, "sched", "sched_process_fork", &["fork"], "new threads"),
    tp_btf(Topic::Tasks, "sched", "sched_process_exec", &["exec"], "executed programs"),
    tp_btf(Topic::Tasks, "task", "task_rename", &["rename"], "new names of threads"),
    // It lets a dead daemon's process id go.
    tp_btf(Topic::Tasks, "sched", "sched_process_exit", &["exit"], "ends of threads").always(),
    // It tells system calls that the running thread is another.
    tp_btf(Topic::Sched, "sched", "sched_switch", &["switch", "stack"], "context switches")
        .always()
        .refined_by(&[IO_WAITS, LONG_WAITS]),
    tp_btf(Topic::Sched, "sched", "sched_waking", &["waking"], "wakeups")
        .refined_by(&[CONTEXT_OF_EVENTS]),
    tp_btf(Topic::Sched, "sched", "sched_wakeup_new", &["wakeup_new"], "first wakeups")
        .refined_by(&[CONTEXT_OF_EVENTS]),
    tp_btf(Topic::Sched, "sched", "sched_migrate_task", &["migrate"], "migrations"),
    tp_btf(
        Topic::Signals,
        "signal",
        "signal_generate",
        &["signal_generate"],
        "signals that are sent",
    )
    .optional(&[]),
    tp_btf(
        Topic::Signals,
        "signal",
        "signal_deliver",
        &["signal_deliver"],
        "signals that are taken",
    )
    .optional(&[]),
    disk("block_rq_insert", &["block_insert"], "requests that are queued for disks"),
    disk("block_rq_issue", &["block_issue"], "requests that disks get"),
    disk("block_rq_complete", &["block_complete"], "requests that disks have done"),
    tp_btf(Topic::Memory, "oom", "mark_victim", &["oom_victim"], "victims of the OOM killer")
        .optional(&[VICTIM]),
    // Of each pair the end first: it makes nothing of an end whose beginning was not seen.
    reclaim("mm_vmscan_direct_reclaim_end", "ends of reclaim"),
    reclaim("mm_vmscan_direct_reclaim_begin", "beginnings of reclaim"),
    reclaim("mm_vmscan_memcg_reclaim_end", "ends of reclaim in control groups"),
    reclaim("mm_vmscan_memcg_reclaim_begin", "beginnings of reclaim in control groups"),
    compaction("mm_compaction_end", "ends of compaction"),
    compaction("mm_compaction_begin", "beginnings of compaction"),
    interrupt("irq_handler_exit", "ends of long interrupts").optional(&[HANDLER]),
    interrupt("irq_handler_entry", "beginnings of long interrupts").optional(&[HANDLER]),
    interrupt("softirq_exit", "ends of long softirqs").optional(&[SOFTIRQS]),
    interrupt("softirq_entry", "beginnings of long softirqs").optional(&[SOFTIRQS]),
    lock("contention_end", "ends of long waits for locks"),
    lock("contention_begin", "beginnings of long waits for locks"),
    network("tcp", "tcp_retransmit_skb", &["tcp_retransmit"], "packets that are sent again"),
    network("sock", "inet_sock_set_state", &["sock_state"], "states of connections"),
    throttling("unthrottle_return", Place::Return, "waits of control groups for CPU time")
        .records(&["throttle"]),
    // It tells the other when the wait began.
    throttling(
        "unthrottle_entry",
        Place::Entry,
        "beginnings of waits of control groups for CPU time",
    ),
    ring("io_uring_complete", &["io_complete"], "results of operations of io_uring")
        .refined_by(&[CONTEXT_OF_EVENTS]),
    ring("io_uring_submit_req", &["io_submit"], "operations of io_uring"),
    ring("io_uring_submit_sqe", &["io_submit"], "operations of io_uring")
        .in_place_of("io_uring_submit_req"),
    tp_btf(Topic::Syscalls, "raw_syscalls", "sys_exit", &["sys_exit"], "ends of system calls"),
    tp_btf(Topic::Syscalls, "raw_syscalls", "sys_enter", &["sys_enter"], "system calls"),
    classic(Topic::Syscalls, "raw_syscalls", "sys_exit", &["sys_exit"], "ends of system calls")
        .with_program("sys_exit_classic"),
    classic(Topic::Syscalls, "raw_syscalls", "sys_enter", &["sys_enter"], "system calls")
        .with_program("sys_enter_classic"),
    // After the programs that see threads come and go, so that none falls between.
    row("walk_tasks", Hook::Once("task"), "existing threads"),
    row(FILE_WALK, Hook::File("task_file"), "names of descriptors that were open before")
        .optional(&[FILES]),
    row(STACK_WALK, Hook::File("task"), "kernel stacks of blocked threads, for `flightctl ps`")
        .optional(&[STACKS]),
    row(SYMBOL, Hook::Daemon, "names of functions in kernel stacks").optional(&[]),
    row(MAPPING_WALK, Hook::Process("task_vma"), "names of binaries in samples")
        .optional(&[MAPPINGS]),
    row(MEMORY_PEEK, Hook::Process("task"), "which spans of traces threads work for")
        .about(Topic::ThreadContexts)
        .records(&["thread_context"])
        .optional(&[THREAD_POINTER, MAPPINGS]),
    row(SAMPLE, Hook::Clock, "samples of what runs").records(&["sample"]).optional(&[]),
    row(FUNCTION_ENTRY, Hook::Probe, "functions that are probed")
        .records(&["function"])
        .optional(&[]),
    row(FUNCTION_RETURN, Hook::Probe, "returns of functions that are probed").optional(&[]),
    row(FUNCTION_MARK, Hook::Probe, "marks in programs that are probed").optional(&[]),
    row(TRACEPOINT_PROGRAM, Hook::Configured, "tracepoints that the configuration names")
        .records(&["tracepoint"])
        .optional(&[]),
    // Without these offsets it takes what somebody writes into the log for the kernel's own words.
    row("console", Hook::tp_btf("printk", "console"), "the kernel's log, for triggers")
        .optional(&[]),
];

/// The walk over open files.
pub const FILE_WALK: &str = "walk_files";

/// What names the functions of stacks.
pub const SYMBOL: &str = "symbol";

/// The walk over the files that a process has mapped.
pub const MAPPING_WALK: &str = "walk_mappings";

/// What reads a process's memory, to find where it publishes for which spans its threads work;
/// `sched_switch` reads it there.
pub const MEMORY_PEEK: &str = "peek_memory";

/// What records samples.
pub const SAMPLE: &str = "sample";

/// What records calls of functions that are probed.
pub const FUNCTION_ENTRY: &str = "function_entry";

/// What records their returns.
pub const FUNCTION_RETURN: &str = "function_return";

/// What records marks in programs.
pub const FUNCTION_MARK: &str = "function_mark";

/// What records the tracepoints that the configuration names.
pub const TRACEPOINT_PROGRAM: &str = "tp_configured";

/// A required program that records no events.
const fn row(program: &'static str, hook: Hook, what: &'static str) -> Attachment {
    Attachment {
        program,
        hook,
        topic: None,
        always: false,
        what,
        kinds: &[],
        optional: false,
        in_place_of: None,
        offsets: &[],
        refined_by: &[],
    }
}

/// A required `tp_btf` program that has its tracepoint's name.
pub const fn tp_btf(
    topic: Topic,
    category: &'static str,
    name: &'static str,
    kinds: &'static [&'static str],
    what: &'static str,
) -> Attachment {
    row(name, Hook::tp_btf(category, name), what).about(topic).records(kinds)
}

/// The same, of requests to disks, which a kernel may lack.
const fn disk(
    name: &'static str,
    kinds: &'static [&'static str],
    what: &'static str,
) -> Attachment {
    tp_btf(Topic::Disk, "block", name, kinds, what)
        .optional(&[DISK])
        .refined_by(&[CONTEXT_OF_EVENTS])
}

/// The same, of reclaim.
const fn reclaim(name: &'static str, what: &'static str) -> Attachment {
    tp_btf(Topic::Memory, "vmscan", name, &["reclaim"], what).optional(&[RECLAIM])
}

/// The same, of compaction.
const fn compaction(name: &'static str, what: &'static str) -> Attachment {
    tp_btf(Topic::Memory, "compaction", name, &["compaction"], what).optional(&[COMPACTION])
}

/// The same, of interrupts.
const fn interrupt(name: &'static str, what: &'static str) -> Attachment {
    tp_btf(Topic::Interrupts, "irq", name, &["interrupt"], what)
}

/// The same, of locks of the kernel.
const fn lock(name: &'static str, what: &'static str) -> Attachment {
    tp_btf(Topic::Locks, "lock", name, &["contention"], what)
        .optional(&[])
        .refined_by(&[CONTEXT_OF_EVENTS])
}

/// The same, of connections.
const fn network(
    category: &'static str,
    name: &'static str,
    kinds: &'static [&'static str],
    what: &'static str,
) -> Attachment {
    tp_btf(Topic::Network, category, name, kinds, what)
        .optional(&[SOCKET])
        .refined_by(&[CONTEXT_OF_EVENTS])
}

/// The same, of io_uring.
const fn ring(
    name: &'static str,
    kinds: &'static [&'static str],
    what: &'static str,
) -> Attachment {
    tp_btf(Topic::IoUring, "io_uring", name, kinds, what).optional(&[RING])
}

/// An optional program on the function that lets a control group run again on a CPU.
const fn throttling(program: &'static str, place: Place, what: &'static str) -> Attachment {
    row(program, Hook::Function("unthrottle_cfs_rq", place), what)
        .about(Topic::Throttling)
        .optional(&[THROTTLED])
}

/// A required program in the classic form.
const fn classic(
    topic: Topic,
    category: &'static str,
    name: &'static str,
    kinds: &'static [&'static str],
    what: &'static str,
) -> Attachment {
    let hook = Hook::Tracepoint(Tracepoint { category, name }, ProgramForm::Tracepoint);
    row(name, hook, what).about(topic).records(kinds)
}

impl Hook {
    const fn tp_btf(category: &'static str, name: &'static str) -> Self {
        Self::Tracepoint(Tracepoint { category, name }, ProgramForm::TpBtf)
    }
}

impl Attachment {
    /// The key of this topic turns it off.
    const fn about(self, topic: Topic) -> Self {
        Self { topic: Some(topic), ..self }
    }

    /// It records events of these kinds.
    const fn records(self, kinds: &'static [&'static str]) -> Self {
        Self { kinds, ..self }
    }

    /// The same of a program that has another name than its tracepoint.
    #[must_use]
    pub const fn with_program(self, program: &'static str) -> Self {
        Self { program, ..self }
    }

    /// Attached also where the configuration leaves its topic out.
    const fn always(self) -> Self {
        Self { always: true, ..self }
    }

    /// A kernel may lack it, and these offsets.
    #[must_use]
    pub const fn optional(self, offsets: &'static [Group]) -> Self {
        Self { optional: true, offsets, ..self }
    }

    /// Its tracepoint is what older kernels have in the place of this program's.
    const fn in_place_of(self, program: &'static str) -> Self {
        Self { in_place_of: Some(program), ..self }
    }

    /// Its events have more where the kernel has these offsets.
    const fn refined_by(self, refined_by: &'static [Refinement]) -> Self {
        Self { refined_by, ..self }
    }

    /// Its tracepoint, and in which form it is attached there.
    pub const fn tracepoint(&self) -> Option<(Tracepoint, ProgramForm)> {
        match self.hook {
            Hook::Tracepoint(tracepoint, form) => Some((tracepoint, form)),
            _ => None,
        }
    }

    /// The name of its pins: its tracepoint's, in either form, else its own.
    pub const fn pin(&self) -> &'static str {
        match self.hook {
            Hook::Tracepoint(tracepoint, _) => tracepoint.name,
            _ => self.program,
        }
    }

    /// Whether a link keeps it attached, which is pinned.
    pub const fn has_link(&self) -> bool {
        matches!(self.hook, Hook::Tracepoint(..) | Hook::Function(..) | Hook::File(_))
    }

    /// Whether a recording's metadata say that its kernel lacks it.
    pub fn is_among(&self, lacking: &[Lacking]) -> bool {
        lacking.iter().any(|of| of.program == self.program)
    }

    /// What the metadata say where this kernel lacks it.
    pub fn lacking(&self, why: String) -> Lacking {
        Lacking {
            program: self.program.into(),
            what: self.what.into(),
            kinds: self.kinds.iter().map(|kind| (*kind).into()).collect(),
            why,
        }
    }
}

impl Refinement {
    /// What the metadata say where this kernel lacks it; `rows`: all whose events lack it then.
    pub fn lacking<'a>(
        &self,
        rows: impl IntoIterator<Item = &'a Attachment>,
        why: String,
    ) -> Lacking {
        let is_of = |row: &&Attachment| {
            row.refined_by.iter().any(|of| of.group.global == self.group.global)
        };
        let of_rows = rows.into_iter().filter(is_of).flat_map(|row| row.kinds);
        let mut kinds: Vec<&str> = Vec::new();
        for kind in of_rows.filter(|kind| self.kinds.contains(kind)) {
            // Several programs may make an event.
            if !kinds.contains(kind) {
                kinds.push(kind);
            }
        }
        Lacking {
            program: self.group.global.into(),
            what: self.what.into(),
            kinds: kinds.into_iter().map(str::to_owned).collect(),
            why,
        }
    }
}

/// What the configuration wants recorded.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// In which form the programs on system calls are attached.
    pub form: ProgramForm,
    /// About what there are to be events.
    pub topics: BTreeSet<Topic>,
    /// Whether there are to be samples of what runs.
    pub samples: bool,
}

impl Wanted {
    /// As the keys of `[record]` and `[sampling]` say.
    pub fn new(form: ProgramForm, record: &Record, sampling: &Sampling) -> Self {
        let topics = Topic::ALL.into_iter().filter(|topic| record.has(*topic)).collect();
        Self { form, topics, samples: sampling.hz > 0 }
    }

    /// Everything.
    pub fn all(form: ProgramForm) -> Self {
        Self { form, topics: Topic::ALL.into(), samples: true }
    }
}

/// The rows that are wanted, in order. A tracepoint that has rows in both forms gets that of the
/// form that is wanted of system calls.
pub fn wanted(rows: &[Attachment], wanted: &Wanted) -> Vec<Attachment> {
    let is_wanted = |row: &&Attachment| {
        let has_topic = row.topic.is_none_or(|topic| wanted.topics.contains(&topic));
        let has_use = match row.program {
            SAMPLE => wanted.samples,
            MAPPING_WALK => wanted.samples || wanted.topics.contains(&Topic::ThreadContexts),
            _ => true,
        };
        row.always || has_topic && has_use
    };
    let has_form = |row: &&Attachment| {
        let Some((tracepoint, form)) = row.tracepoint() else { return true };
        let other = |other: (Tracepoint, ProgramForm)| other.0 == tracepoint && other.1 != form;
        !rows.iter().filter_map(Attachment::tracepoint).any(other) || wanted.form == form
    };
    rows.iter().filter(is_wanted).filter(has_form).copied().collect()
}

/// What the configuration leaves out, as the metadata have it: not what is left out unless it says
/// otherwise, which nobody misses.
pub fn switched_off(rows: &[Attachment], wanted: &Wanted) -> Vec<SwitchedOff> {
    let is_off = |topic: &Topic| topic.is_usual() && !wanted.topics.contains(topic);
    let off = Topic::ALL.into_iter().filter(is_off);
    let told = |topic: Topic| {
        let of_topic = rows.iter().filter(|row| row.topic == Some(topic));
        let kinds: BTreeSet<&str> = of_topic.flat_map(|row| row.kinds).copied().collect();
        SwitchedOff {
            key: topic.key().into(),
            kinds: kinds.into_iter().map(str::to_owned).collect(),
        }
    };
    let samples = SwitchedOff { key: "sampling.hz".into(), kinds: vec!["sample".into()] };
    off.map(told).chain((!wanted.samples).then_some(samples)).collect()
}

/// Tracepoints that classic programs are attached to, by perf events.
pub fn perf_events(rows: &[Attachment]) -> impl Iterator<Item = (Tracepoint, &Attachment)> {
    rows.iter().filter_map(|row| match row.tracepoint()? {
        (tracepoint, ProgramForm::Tracepoint) => Some((tracepoint, row)),
        (_, ProgramForm::TpBtf) => None,
    })
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::kinds::Kind;
    use flightrec_format::abi::page::Lane;
    use flightrec_format::totals::lane_of;
    use object::{Object, ObjectSymbol, SymbolKind};

    use super::*;
    use crate::load::PROBES;

    fn programs(wanted: &Wanted) -> Vec<&'static str> {
        super::wanted(ATTACHMENTS, wanted).iter().map(|row| row.program).collect()
    }

    fn none_but(topics: &[Topic]) -> Wanted {
        let topics = topics.iter().copied().collect();
        Wanted { form: ProgramForm::TpBtf, topics, samples: true }
    }

    #[test]
    fn every_program_of_the_probes_has_a_row() {
        let file = object::File::parse(PROBES).unwrap();
        let is_program = |name: &str| {
            let section = file.symbol_by_name(name).and_then(|s| s.section_index());
            let section = section.and_then(|index| file.section_by_index(index).ok());
            section.is_some_and(|s| object::ObjectSection::name(&s).is_ok_and(|n| n != ".text"))
        };
        let functions = file.symbols().filter(|s| s.kind() == SymbolKind::Text && s.is_global());
        let found: BTreeSet<&str> =
            functions.filter_map(|s| s.name().ok()).filter(|name| is_program(name)).collect();
        let rows: BTreeSet<&str> = ATTACHMENTS.iter().map(|row| row.program).collect();
        assert_eq!(found, rows);
        assert_eq!(rows.len(), ATTACHMENTS.len(), "each once");
    }

    #[test]
    fn a_skipped_run_counts_in_the_lane_of_its_events() {
        for row in ATTACHMENTS {
            let kind = |name: &&str| Kind::ALL.into_iter().find(|of| of.name() == *name);
            let lanes = row.kinds.iter().map(|name| kind(name).expect("a kind").lane());
            let lanes: Vec<Lane> = lanes.collect();
            let is_right = match lane_of(row.pin()) {
                // The beginning of a wait records nothing itself.
                Some(lane) => lanes.iter().all(|of| *of == lane),
                None => row.always || !row.has_link() || lanes.iter().all(|of| *of == Lane::Task),
            };
            assert!(is_right, "{}: {lanes:?}", row.program);
        }
    }

    #[test]
    fn pins_of_what_is_wanted_have_names_of_their_own() {
        for form in [ProgramForm::TpBtf, ProgramForm::Tracepoint] {
            let rows = wanted(ATTACHMENTS, &Wanted::all(form));
            let pins: BTreeSet<&str> = rows.iter().map(Attachment::pin).collect();
            assert_eq!(pins.len(), rows.len(), "{rows:?}");
            // A BPF file system takes no names with a dot (`bpf_lookup`, kernel/bpf/inode.c).
            assert!(pins.iter().all(|pin| !pin.contains('.')));
        }
    }

    #[test]
    fn topics_that_are_off_keep_what_others_need() {
        let of_form =
            |row: &&Attachment| !matches!(row.tracepoint(), Some((_, ProgramForm::Tracepoint)));
        let all: Vec<&str> = ATTACHMENTS.iter().filter(of_form).map(|row| row.program).collect();
        assert_eq!(programs(&Wanted::all(ProgramForm::TpBtf)), all);
        assert!(all.contains(&"sys_enter") && all.contains(&"task_rename"));
        let least = [
            "note",
            "sched_process_exit",
            "sched_switch",
            "walk_tasks",
            "walk_files",
            "walk_stacks",
            "symbol",
            "walk_mappings",
            "sample",
            "function_entry",
            "function_return",
            "function_mark",
            "tp_configured",
            "console",
        ];
        assert_eq!(programs(&none_but(&[])), least);
        let without = Wanted { samples: false, ..none_but(&[]) };
        let least: Vec<&str> =
            least.into_iter().filter(|of| !["walk_mappings", "sample"].contains(of)).collect();
        assert_eq!(programs(&without), least);
        let off = switched_off(ATTACHMENTS, &without);
        assert_eq!(
            off.len(),
            Topic::ALL.len(),
            "contexts are off anyway, and samples are no topic"
        );
        let off = off.last().expect("samples");
        assert_eq!((&*off.key, &*off.kinds), ("sampling.hz", &["sample".to_owned()][..]));
    }

    /// Each topic has programs, and turns off those alone.
    #[test]
    fn a_topic_that_is_off_is_told_with_its_kinds() {
        let always = programs(&none_but(&[]));
        let mut kinds = BTreeSet::new();
        for topic in Topic::ALL {
            let mut wanted = Wanted::all(ProgramForm::TpBtf);
            wanted.topics.remove(&topic);
            let off = switched_off(ATTACHMENTS, &wanted);
            let told: Vec<_> = off.iter().map(|off| &*off.key).collect();
            assert_eq!(told, topic.is_usual().then(|| topic.key()).as_slice());
            for kind in off.iter().flat_map(|off| &off.kinds) {
                assert!(kinds.insert(kind.clone()), "{kind}");
                let kind = Kind::ALL.into_iter().find(|of| of.name() == kind).expect("a kind");
                assert_eq!(kind.lane(), topic.lane());
            }
            let rest = programs(&wanted);
            for row in ATTACHMENTS.iter().filter(|row| row.topic == Some(topic)) {
                assert_eq!(rest.contains(&row.program), always.contains(&row.program));
            }
        }
        // The recorder's own words are recorded always; samples have a key of their own,
        // tracepoints that are configured their tables, functions are probed on request, and contexts
        // are off unless they are asked for.
        assert_eq!(kinds.len(), Kind::COUNT - 6, "{kinds:?}");
    }

    #[test]
    fn system_calls_are_attached_in_the_form_that_is_wanted() {
        let of = |form| {
            let wanted = Wanted { form, ..none_but(&[Topic::Syscalls]) };
            let rows = super::wanted(ATTACHMENTS, &wanted);
            let calls = rows.iter().filter(|row| row.topic == Some(Topic::Syscalls));
            calls.map(|row| (row.program, row.pin())).collect::<Vec<_>>()
        };
        assert_eq!(of(ProgramForm::TpBtf), [("sys_exit", "sys_exit"), ("sys_enter", "sys_enter")]);
        assert_eq!(
            of(ProgramForm::Tracepoint),
            [("sys_exit_classic", "sys_exit"), ("sys_enter_classic", "sys_enter")]
        );
        let classic: Vec<String> = perf_events(ATTACHMENTS).map(|(t, _)| t.to_string()).collect();
        assert_eq!(classic, ["raw_syscalls:sys_exit", "raw_syscalls:sys_enter"]);
    }
}
