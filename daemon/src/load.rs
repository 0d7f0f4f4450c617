//! The probes before anything is attached: what of them this kernel can run, what is frozen into
//! them, their maps. [`crate::attach`] does the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use aya::programs::ProgramError;
use aya::{Ebpf, EbpfLoader};
use flightrec_format::abi::page::RING_LANES;
use flightrec_format::abi::pointee::PointeeTable;
use flightrec_format::abi::probe::{CallTable, Machine, Offsets};
use flightrec_format::abi::state::CpuState;
use flightrec_format::architecture::Architecture;
use flightrec_format::live::sys::{self, Cast};
use flightrec_format::meta::Lacking;
use object::{Object, ObjectSection, SectionKind};
use thiserror::Error;

use crate::attachments::{Attachment, Hook, ProgramForm, Tracepoint};
use crate::btf::{Btf, BtfError, read_offsets};
use crate::machine::{self, Code};
use crate::relocation::{self, RelocationValues};
use crate::tracefs::Tracepoints;

/// The programs, compiled by `build.rs`.
pub static PROBES: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/probes"));

/// Identity of what [`PROBES`] do: a checksum of their machine code. A daemon adopts only a
/// recording that the same code makes, so an upgrade that leaves the probes alone keeps the
/// recording.
pub fn probes_id() -> String {
    let mut hash = crc32fast::Hasher::new();
    let mut bytes = 0;
    if let Ok(file) = object::File::parse(PROBES) {
        let code = file.sections().filter(|section| section.kind() == SectionKind::Text);
        for data in code.filter_map(|section| section.data().ok()) {
            hash.update(data);
            bytes += data.len();
        }
    }
    format!("{:08x}-{bytes}", hash.finalize())
}

/// What can go wrong on the way into the kernel.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The kernel's BTF is missing or lacks something.
    #[error(transparent)]
    Btf(#[from] BtfError),
    /// The kernel is too old.
    #[error("this kernel is {release}; flightrec needs Linux 6.1 or later")]
    Kernel {
        /// `uname -r`.
        release: String,
    },
    /// The form that was asked for is not right on this kernel.
    #[error(
        "[kernel] syscall_programs = \"tp_btf\": from Linux 7.0 on such programs are preempted, \
         and this is {release}; use \"auto\" or \"tracepoint\""
    )]
    Form {
        /// `uname -r`.
        release: String,
    },
    /// `sched_switch` has another shape than the programs know.
    #[error(
        "this kernel's sched_switch tracepoint has {found} parameters instead of 5; this release \
         of flightrec does not know that kernel"
    )]
    SwitchShape {
        /// Parameters, the hidden first one included.
        found: usize,
    },
    /// The rights to use BPF are missing, or the kernel has no BPF.
    #[error(
        "the kernel refused BPF: {0}. flightd needs root, or the capabilities CAP_BPF and \
         CAP_PERFMON, and a kernel with CONFIG_BPF_SYSCALL"
    )]
    Refused(io::Error),
    /// aya or the kernel could not create maps or take the object.
    #[error("loading the probes failed")]
    Object(#[source] Box<aya::EbpfError>),
    /// A program was refused; with the verifier's words.
    #[error("program {name} was refused: {}", refusal(source))]
    Program {
        /// Which.
        name: &'static str,
        /// The reason; holds the verifier's log.
        source: Box<ProgramError>,
    },
    /// The kernel does not let a program run at a function.
    #[error("the kernel lets no program run at its function {function}: {source}")]
    Function {
        /// Which.
        function: String,
        /// Why.
        source: io::Error,
    },
    /// The map of the CPUs' states can't be made.
    #[error("no memory in the kernel for the states of {cpus} CPUs: {source}")]
    State {
        /// Possible CPUs.
        cpus: u32,
        /// Why.
        source: io::Error,
    },
    /// The object lacks a part: a broken build.
    #[error("the probes lack `{0}`: this build of flightd is broken")]
    Missing(&'static str),
    /// The kernel keeps perf events, and with them classic tracepoints, for root alone (Debian's
    /// and Ubuntu's kernels know that level, and it is their default; others stop at 2).
    #[error(
        "kernel.perf_event_paranoid is {level}: on this kernel only root can then attach to \
         {tracepoint}; write `kernel.perf_event_paranoid = 2` into \
         /etc/sysctl.d/flightrec.conf, run `sysctl --system`, and start flightd again"
    )]
    Paranoid {
        /// Which.
        tracepoint: Tracepoint,
        /// What the setting is.
        level: i32,
    },
    /// The kernel gives no clock that runs a program.
    #[error("perf events of the CPUs' clocks can't be opened: {source}{}", paranoid_hint(*.level))]
    Clock {
        /// Why.
        source: io::Error,
        /// `kernel.perf_event_paranoid`, where that may be the reason.
        level: Option<i32>,
    },
    /// The offsets of this kernel's members can't be put into the programs.
    #[error("the probes do not fit this kernel: {0}")]
    Members(String),
    /// A tracepoint whose number is not known.
    #[error("the number of the tracepoint {tracepoint} is not known")]
    Tracepoint {
        /// Which.
        tracepoint: Tracepoint,
    },
    /// Attaching or pinning failed.
    #[error("{path}: {source}")]
    Pin {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What helps where only root may open perf events.
fn paranoid_hint(level: Option<i32>) -> String {
    level.map_or_else(String::new, |level| {
        format!("; kernel.perf_event_paranoid is {level}: 2 or less lets flightd open them")
    })
}

/// Why the kernel does not take a program. It refuses one that reads its memory before it looks at
/// it (`bpf_prog_load`, kernel/bpf/syscall.c, Linux 6.1): then there is no log.
fn refusal(error: &ProgramError) -> String {
    match error {
        ProgramError::LoadError { io_error, verifier_log }
            if io_error.raw_os_error() == Some(libc::EPERM)
                && verifier_log.to_string().trim().is_empty() =>
        {
            "flightd needs root, or CAP_PERFMON beside CAP_BPF".to_owned()
        }
        _ => error.to_string(),
    }
}

impl LoadError {
    /// Why an optional program can't be had, in one line: of the verifier's log its verdict alone.
    pub fn reason(&self) -> String {
        let Self::Program { name, source } = self else { return self.to_string() };
        let ProgramError::LoadError { io_error, verifier_log } = &**source else {
            return self.to_string();
        };
        let log = verifier_log.to_string();
        let verdict = verdict(&log).map(|line| format!(": {line}")).unwrap_or_default();
        format!("the verifier refused program {name}{verdict} ({io_error})")
    }
}

/// The line of a verifier's log that says what is wrong: the last one that is no statistics.
fn verdict(log: &str) -> Option<&str> {
    /// Longest that is taken, bytes.
    const MOST: usize = 200;
    let statistics = |line: &&str| {
        ["processed ", "verification time", "stack depth"].iter().any(|of| line.starts_with(of))
    };
    let mut lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.by_ref().filter(|line| !statistics(line)).last()?;
    Some(line.get(..MOST).unwrap_or(line))
}

/// Major and minor number of a kernel release, if it begins with them.
pub fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Everything that is fixed when the probes are loaded.
pub struct Frozen<'a> {
    /// What the recording's pages say ([`flightrec_format::identity`]).
    pub secret: u64,
    /// Random and odd: seeds the probes' hash of process ids.
    pub seed: u32,
    /// From the running kernel's BTF.
    pub offsets: Offsets,
    /// Of the machine.
    pub machine: Machine,
    /// From the same; `None`: this kernel does not take it.
    pub cast: Option<Cast>,
    /// The optional groups that this kernel has, by their globals.
    pub groups: &'a BTreeMap<&'static str, Vec<u32>>,
    /// 64-bit calls.
    pub native: &'a CallTable,
    /// 32-bit calls.
    pub compat: &'a CallTable,
    /// What 64-bit calls' arguments point to.
    pub native_pointees: &'a PointeeTable,
    /// What those of 32-bit calls do.
    pub compat_pointees: &'a PointeeTable,
    /// Possible CPUs.
    pub cpus: u32,
    /// Pages of each lane, all CPUs together.
    pub ring_pages: [u32; RING_LANES],
    /// Pages of the thread table.
    pub slot_pages: u32,
    /// What decides which thread has which place in it: random.
    pub slot_seed: u64,
    /// Keys of the hash that names requests to disks and locks: random.
    pub pseudonym_keys: [u64; 2],
    /// What addresses in stacks are recorded less of: random.
    pub frame_base: u32,
    /// Pages of metadata.
    pub meta_pages: u32,
    /// Pages of the descriptor snapshot.
    pub descriptor_pages: u32,
    /// Pages of the quiet ring, all CPUs together.
    pub quiet_pages: u32,
}

/// Looks up what the programs need of this kernel, and refuses one that they do not fit.
pub fn examine(btf: &Btf, release: &str) -> Result<(Offsets, Machine), LoadError> {
    let version = kernel_version(release);
    if version.is_some_and(|v| v < (6, 1)) {
        return Err(LoadError::Kernel { release: release.into() });
    }
    // Hidden first parameter, preempt, prev, next, prev_state (the last since Linux 5.18).
    if let Some(found) = btf.func_proto_params("btf_trace_sched_switch")
        && found != 5
    {
        return Err(LoadError::SwitchShape { found });
    }
    Ok((
        read_offsets(btf, Architecture::HERE)?,
        machine::machine(btf, Architecture::HERE, version)?,
    ))
}

/// What of the rows that are wanted this kernel has.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// What is to be loaded, in order.
    pub rows: Vec<Attachment>,
    /// The optional offsets, by their globals.
    pub groups: BTreeMap<&'static str, Vec<u32>>,
    /// What this kernel lacks, as far as its description of itself tells.
    pub lacking: Vec<Lacking>,
}

/// Looks up what optional rows need of this kernel. Required ones are chosen whatever there is:
/// attaching them says what is wrong.
pub fn choose(rows: &[Attachment], btf: &Btf, tracepoints: &Tracepoints) -> Choice {
    let mut choice = Choice::default();
    let mut absent = BTreeMap::new();
    let refinements = || rows.iter().flat_map(|row| row.refined_by);
    let groups = rows.iter().flat_map(|row| row.offsets);
    for group in groups.chain(refinements().map(|of| &of.group)) {
        // Several rows have the same ones, and looking them up takes ms.
        if choice.groups.contains_key(group.global) || absent.contains_key(group.global) {
            continue;
        }
        match (group.read)(btf) {
            Ok(words) => drop(choice.groups.insert(group.global, words)),
            Err(e) => drop(absent.insert(group.global, e.reason())),
        }
    }
    for row in rows {
        let offsets = || row.offsets.iter().find_map(|group| absent.get(group.global).cloned());
        let lacks = || missing(row.hook, btf, tracepoints).or_else(offsets);
        match row.optional.then(lacks).flatten() {
            // What the other lacks is said.
            Some(_) if row.in_place_of.is_some() => {}
            Some(why) => choice.lacking.push(row.lacking(why)),
            None => {
                choice.lacking.retain(|of| row.in_place_of != Some(&of.program));
                choice.rows.push(*row);
            }
        }
    }
    let mut told = BTreeSet::new();
    for of in refinements() {
        if let Some(why) = absent.get(of.group.global)
            && told.insert(of.group.global)
        {
            choice.lacking.push(of.lacking(rows, why.clone()));
        }
    }
    choice
}

/// Why nothing on this kernel would run a program, if so.
fn missing(hook: Hook, btf: &Btf, tracepoints: &Tracepoints) -> Option<String> {
    match hook {
        Hook::Tracepoint(tracepoint, form) => {
            let published = tracepoints.number(tracepoint).is_some();
            let described = form == ProgramForm::TpBtf && btf.has_tracepoint(tracepoint.name);
            match form {
                ProgramForm::TpBtf if described => None,
                ProgramForm::TpBtf if published => {
                    Some(format!("this kernel's BTF does not describe the tracepoint {tracepoint}"))
                }
                ProgramForm::Tracepoint if published => None,
                _ => Some(format!("this kernel has no tracepoint {tracepoint}")),
            }
        }
        Hook::Function(name, _) => (btf.function(name).is_none())
            .then(|| format!("this kernel's BTF does not describe a function {name}")),
        Hook::Once(objects) | Hook::File(objects) | Hook::Process(objects) => (!btf
            .has_iterator(objects))
        .then(|| format!("this kernel has no BPF iterator {objects}")),
        Hook::Clock | Hook::Probe | Hook::Daemon | Hook::Configured => None,
    }
}

/// How the programs make a pointer of the address of a `task_struct`, if this kernel lets them.
pub fn cast(btf: &Btf) -> Option<Cast> {
    let cast = Cast {
        function: btf.function("bpf_rdonly_cast")?,
        structure: btf.structure("task_struct")?,
    };
    cast.is_taken().then_some(cast)
}

/// A value whose bytes go into the programs' read-only data.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Plain<T: Copy>(T);

// SAFETY: `Offsets` is `repr(C)` of u32s without padding.
unsafe impl aya::Pod for Plain<Offsets> {}

// SAFETY: as above.
unsafe impl aya::Pod for Plain<Machine> {}

/// The programs and maps, before anything is attached.
pub struct Loaded {
    /// All but what follows.
    pub ebpf: Ebpf,
    /// The map `state`, whose address the programs get when they are loaded: it is to be open
    /// until then.
    pub state: OwnedFd,
    /// The programs' file, with what is known of this kernel put in, for [`crate::multi`].
    pub object: Vec<u8>,
}

/// A loader, and the kernel's types at `btf`. Aya's loader reads those of the running kernel
/// whatever it is given, which takes as long as reading them here: so both at a time.
pub fn loader(btf: &Path) -> (EbpfLoader<'static>, Result<aya::Btf, aya::BtfError>) {
    let parse = || aya::Btf::parse_file(btf, aya::Endianness::default());
    thread::scope(|scope| {
        let parsing = scope.spawn(parse);
        let loader = EbpfLoader::new();
        (loader, parsing.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Creates the maps. Nothing is attached yet.
pub fn load(
    loader: EbpfLoader<'static>,
    frozen: &Frozen<'_>,
    btf: &aya::Btf,
) -> Result<Loaded, LoadError> {
    // For as long as what it is given lives.
    let mut loader: EbpfLoader<'_> = loader;
    let offsets = Plain(frozen.offsets);
    let machine = Plain(frozen.machine);
    let code = Code::here();
    let can_cast = u32::from(frozen.cast.is_some());
    let bytes = size_of::<CpuState>() as u32 * frozen.cpus.max(1);
    let state = sys::map_of_one(STATE, bytes).map_err(|e| match e.raw_os_error() {
        Some(libc::EPERM | libc::ENOSYS) => LoadError::Refused(e),
        _ => LoadError::State { cpus: frozen.cpus, source: e },
    })?;
    let last_cpu = frozen.cpus.saturating_sub(1);
    let known = RelocationValues {
        offsets: frozen.offsets,
        state: state.as_raw_fd(),
        last_cpu,
        cast: frozen.cast,
        order: code.order,
        stack_bytes: code.stack_bytes,
        compat_flag: code.compat_flag,
    };
    let (programs, begin) = relocation::put_in(PROBES, &known).map_err(LoadError::Members)?;
    for (global, words) in frozen.groups {
        loader.override_global(global, words.as_slice(), true);
    }
    loader
        .btf(Some(btf))
        .override_global("SESSION", &frozen.secret, true)
        .override_global("OFFSETS", &offsets, true)
        .override_global("MACHINE", &machine, true)
        .override_global("CAN_CAST", &can_cast, true)
        .override_global("NATIVE_CALLS", frozen.native, true)
        .override_global("COMPAT_CALLS", frozen.compat, true)
        .override_global("NATIVE_POINTEES", frozen.native_pointees, true)
        .override_global("COMPAT_POINTEES", frozen.compat_pointees, true)
        .override_global("SLOT_PAGES", &frozen.slot_pages, true)
        .override_global("SHARE_SEED", &frozen.seed, true)
        .override_global("SLOT_SEED", &frozen.slot_seed, true)
        .override_global("PSEUDONYM_KEYS", &frozen.pseudonym_keys, true)
        .override_global("FRAME_BASE", &frozen.frame_base, true)
        .map_max_entries("rings_syscall", frozen.ring_pages[0])
        .map_max_entries("rings_sched", frozen.ring_pages[1])
        .map_max_entries("rings_task", frozen.ring_pages[2])
        .map_max_entries("rings_kernel", frozen.ring_pages[3])
        .map_max_entries("slots", frozen.slot_pages)
        .map_max_entries("meta", frozen.meta_pages)
        .map_max_entries("descriptors", frozen.descriptor_pages)
        .map_max_entries(TRACEPOINT_COUNTS, frozen.cpus.max(1))
        .map_max_entries("quiet", frozen.quiet_pages.max(1))
        .map_max_entries(FUNCTION_CALLS, frozen.cpus.max(1))
        .load(programs.get(begin..).unwrap_or_default())
        .map(|ebpf| Loaded {
            ebpf,
            state,
            object: programs.get(begin..).unwrap_or_default().to_vec(),
        })
        .map_err(refused_or_broken)
}

/// Tells a kernel that refuses BPF altogether, as the first map shows, from what else can go wrong.
fn refused_or_broken(error: aya::EbpfError) -> LoadError {
    let errno =
        std::iter::successors(Some(&error as &(dyn std::error::Error + 'static)), |e| e.source())
            .find_map(|e| e.downcast_ref::<io::Error>()?.raw_os_error());
    match errno {
        Some(errno @ (libc::EPERM | libc::ENOSYS)) => {
            LoadError::Refused(io::Error::from_raw_os_error(errno))
        }
        _ => LoadError::Object(Box::new(error)),
    }
}

/// Maps that outlive the daemon, by name.
pub const PINNED_MAPS: [&str; 21] = [
    STATE,
    "rings_syscall",
    "rings_sched",
    "rings_task",
    "rings_kernel",
    "meta",
    "slots",
    "descriptors",
    "quiet",
    "note_text",
    EXEC_MASKS,
    KERNEL_LOG,
    FRAMES,
    SYMBOL_TEXT,
    BINARIES,
    FUNCTION_CALLS,
    MARKS,
    TRACEPOINT_PLANS,
    TRACEPOINT_COUNTS,
    PUBLISHERS,
    PEEKED,
];

/// The CPUs' states.
const STATE: &str = "state";
/// By what the arguments of programs are masked ([`crate::mask`]).
pub const EXEC_MASKS: &str = "exec_masks";
/// The frames that stacks have had ([`crate::symbols`]).
pub const FRAMES: &str = "frames";
/// What the program that names them says.
pub const SYMBOL_TEXT: &str = "symbol_text";
/// The binaries that samples have frames in ([`crate::binaries`]).
pub const BINARIES: &str = "binaries";
/// The processes that publish for which spans their threads work ([`crate::publishers`]).
pub const PUBLISHERS: &str = "publishers";
/// What is asked of a process's memory, to find where.
pub const PEEKED: &str = "peeked";
/// How often functions that are probed were called ([`crate::uprobes`]).
pub const FUNCTION_CALLS: &str = "function_calls";
/// Where the arguments of marks that are probed are.
pub const MARKS: &str = "marks";
/// The tracepoints that the configuration names, for the program that records them.
pub const TRACEPOINT_PLANS: &str = "tp_plans";
/// What became of their events.
pub const TRACEPOINT_COUNTS: &str = "tp_counts";
/// The ring buffer of lines that the kernel logs.
pub const KERNEL_LOG: &str = "kernel_log";

/// Pins the maps under `dir`.
pub fn pin_maps(loaded: &Loaded, dir: &Path) -> Result<(), LoadError> {
    for name in PINNED_MAPS {
        let path = dir.join(name);
        if name == STATE {
            sys::obj_pin(loaded.state.as_fd(), &path)
                .map_err(|source| LoadError::Pin { path, source })?;
            continue;
        }
        let map = loaded.ebpf.map(name).ok_or(LoadError::Missing(name))?;
        map.pin(&path).map_err(|e| LoadError::Pin { path, source: io::Error::other(e) })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attachments::{ATTACHMENTS, Place, tp_btf};
    use crate::btf::CONTEXT;
    use crate::btf::Group;
    use crate::btf::tests::with_names;
    use crate::config::Topic;

    const THERE: Group = Group { global: "THERE", read: |_| Ok(vec![1, 2]) };
    const ABSENT: Group =
        Group { global: "ABSENT", read: |btf| Ok(vec![btf.member_offset("s", "member")?]) };

    const fn probe(name: &'static str) -> Attachment {
        tp_btf(Topic::Sched, "sched", name, &["switch"], "something")
    }

    /// A row that the table of a later release may have.
    fn with_hook(hook: Hook) -> Attachment {
        Attachment { hook, ..probe("by_hook").optional(&[]) }
    }

    /// Why each row is lacking; `None`: it is chosen.
    fn why(rows: &[Attachment], btf: &Btf, tracepoints: &Tracepoints) -> Vec<Option<String>> {
        let choice = choose(rows, btf, tracepoints);
        assert_eq!(choice.rows.len() + choice.lacking.len(), rows.len());
        let mut lacking = choice.lacking.iter();
        let mut chosen = choice.rows.iter().map(|row| (row.program, row.hook)).peekable();
        let one = |row: &Attachment| match chosen.next_if(|of| *of == (row.program, row.hook)) {
            Some(_) => None,
            None => lacking.next().map(|of| of.why.clone()),
        };
        rows.iter().map(one).collect()
    }

    #[test]
    fn what_a_kernel_lacks_is_not_loaded_and_the_rest_is() {
        let btf = with_names(&["btf_trace_a", "btf_trace_b"], &["bpf_iter_task"]);
        let tracepoints =
            Tracepoints::with_numbers(&[("sched:published", 7), ("raw_syscalls:classic", 8)]);
        let classic = |name| {
            let tracepoint = Tracepoint { category: "raw_syscalls", name };
            with_hook(Hook::Tracepoint(tracepoint, ProgramForm::Tracepoint))
        };
        let rows = [
            probe("a"),
            probe("b").optional(&[THERE]),
            probe("b").optional(&[THERE, ABSENT]),
            probe("gone").optional(&[]),
            probe("published").optional(&[]),
            probe("required"),
            classic("classic"),
            classic("gone"),
            with_hook(Hook::File("task")),
            with_hook(Hook::File("task_file")),
            with_hook(Hook::Function("gone", Place::Return)),
        ];
        let why = why(&rows, &btf, &tracepoints);
        let told: Vec<Option<&str>> = why.iter().map(Option::as_deref).collect();
        assert_eq!(
            told,
            [
                None,
                None,
                Some("this kernel's BTF has no struct s"),
                Some("this kernel has no tracepoint sched:gone"),
                Some("this kernel's BTF does not describe the tracepoint sched:published"),
                // Required: attaching it says what is wrong.
                None,
                None,
                Some("this kernel has no tracepoint raw_syscalls:gone"),
                None,
                Some("this kernel has no BPF iterator task_file"),
                Some("this kernel's BTF does not describe a function gone"),
            ]
        );
        let choice = choose(&rows, &btf, &tracepoints);
        assert_eq!(choice.groups, [("THERE", vec![1, 2])].into());
        let lacking = &choice.lacking[0];
        assert_eq!((&*lacking.program, &*lacking.what), ("b", "something"));
        assert_eq!(lacking.kinds, ["switch"]);
    }

    #[test]
    fn of_our_own_rows_a_bare_kernel_lacks_the_optional_ones() {
        let choice = choose(ATTACHMENTS, &with_names(&["t"], &[]), &Tracepoints::with_numbers(&[]));
        let lacking: Vec<&str> = choice.lacking.iter().map(|of| &*of.program).collect();
        // What the daemon runs itself, or a clock, a probe or a configured tracepoint does, needs
        // nothing of the kernel that its description tells.
        let is_asked = |row: &&Attachment| {
            !matches!(row.hook, Hook::Daemon | Hook::Clock | Hook::Probe | Hook::Configured)
        };
        let optional = ATTACHMENTS.iter().filter(|row| row.optional).filter(is_asked);
        // Of two names of a tracepoint one is enough.
        let optional = optional.filter(|row| row.in_place_of.is_none());
        let optional = optional.map(|row| row.program);
        // And what refines required ones, once each.
        let refinements = ["IO_WAIT_OFFSETS", "CAN_TAKE_STACKS", "CONTEXT_OFFSETS"];
        assert_eq!(lacking, optional.chain(refinements).collect::<Vec<_>>());
        let context = choice.lacking.last().unwrap();
        let is_of =
            |row: &&Attachment| row.refined_by.iter().any(|of| of.group.global == CONTEXT.global);
        let mut kinds: Vec<&str> =
            ATTACHMENTS.iter().filter(is_of).flat_map(|row| row.kinds).copied().collect();
        // Several programs may make an event.
        kinds.dedup();
        assert_eq!(context.kinds, kinds, "of all its rows");
        assert!(choice.groups.is_empty());
        assert!(choice.rows.iter().any(|row| row.program == "sched_switch"));
    }

    #[test]
    fn a_tracepoint_may_have_an_older_name() {
        let (new, old) = ("io_uring_submit_req", "io_uring_submit_sqe");
        let rows: Vec<Attachment> = ATTACHMENTS
            .iter()
            .filter(|row| [new, old].contains(&row.program))
            .map(|row| Attachment { offsets: &[], ..*row })
            .collect();
        let chosen = |names: &[&str]| {
            let choice = choose(&rows, &with_names(names, &[]), &Tracepoints::with_numbers(&[]));
            let lacking = choice.lacking.len();
            (choice.rows.iter().map(|row| row.program).collect::<Vec<_>>(), lacking)
        };
        assert_eq!(chosen(&["t", "btf_trace_io_uring_submit_req"]), (vec![new], 0));
        assert_eq!(chosen(&["t", "btf_trace_io_uring_submit_sqe"]), (vec![old], 0));
        assert_eq!(chosen(&["t"]), (vec![], 1));
    }

    #[test]
    fn of_a_verifiers_log_its_verdict_is_told() {
        let log = "0: R1=ctx() R10=fp0\nfunc 'sched_waking' doesn't have 2-th argument\n\
                   invalid bpf_context access off=8 size=8\n\
                   processed 3 insns (limit 1000000) max_states_per_insn 0\n\n";
        assert_eq!(verdict(log), Some("invalid bpf_context access off=8 size=8"));
        assert_eq!(verdict("processed 3 insns"), None);
        assert_eq!(verdict(&"x".repeat(5000)).map(str::len), Some(200));
        assert_eq!(LoadError::Missing("x").reason(), LoadError::Missing("x").to_string());
    }
}
