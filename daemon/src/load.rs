//! The probes into the kernel: fill in what is frozen, load, attach, pin.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use aya::programs::links::FdLink;
use aya::programs::{BtfTracePoint, Iter, Program, ProgramError, RawTracePoint, TracePoint};
use aya::{Ebpf, EbpfLoader};
use flightrec_format::abi::file::FileOffsets;
use flightrec_format::abi::probe::{CallTable, Offsets};
use flightrec_format::abi::state::CpuState;
use flightrec_format::live::sys::{self, Cast};
use object::{Object, ObjectSection, SectionKind};
use thiserror::Error;

use crate::btf::{Btf, BtfError, check_registers, read_offsets};
use crate::members::{self, Known};
use crate::tracepoint;
use crate::tracepoints::Tracepoints;

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
    #[error("program {name} was refused: {source}")]
    Program {
        /// Which.
        name: &'static str,
        /// The reason; holds the verifier's log.
        source: Box<ProgramError>,
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
         raw_syscalls:{event}; write `kernel.perf_event_paranoid = 2` into \
         /etc/sysctl.d/flightrec.conf, run `sysctl --system`, and start flightd again"
    )]
    Paranoid {
        /// The tracepoint.
        event: &'static str,
        /// What the setting is.
        level: i32,
    },
    /// The offsets of this kernel's members can't be put into the programs.
    #[error("the probes do not fit this kernel: {0}")]
    Members(String),
    /// A tracepoint whose number is not known.
    #[error("the number of the tracepoint raw_syscalls:{event} is not known")]
    Tracepoint {
        /// Which.
        event: &'static str,
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

/// Which form a program has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramForm {
    /// `tp_btf`: cheaper, right up to Linux 6.19.
    TpBtf,
    /// Classic tracepoint: runs with preemption off on any kernel.
    Tracepoint,
}

impl ProgramForm {
    /// Its name in configuration, metadata and status.
    pub fn name(self) -> &'static str {
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
    /// From the same; `None`: this kernel does not take it.
    pub cast: Option<Cast>,
    /// The same for the walk over open files; `None`: there is none.
    pub files: Option<FileOffsets>,
    /// 64-bit calls.
    pub native: &'a CallTable,
    /// 32-bit calls.
    pub compat: &'a CallTable,
    /// Possible CPUs.
    pub cpus: u32,
    /// Pages of each lane, all CPUs together.
    pub ring_pages: [u32; 3],
    /// Pages of the thread table.
    pub slot_pages: u32,
    /// What decides which thread has which place in it: random.
    pub slot_seed: u64,
    /// Pages of metadata.
    pub meta_pages: u32,
    /// Pages of the descriptor snapshot.
    pub descriptor_pages: u32,
    /// Pages of the quiet ring, all CPUs together.
    pub quiet_pages: u32,
}

/// Looks up what the programs need of this kernel, and refuses one that they do not fit.
pub fn examine(btf: &Btf, release: &str) -> Result<Offsets, LoadError> {
    if kernel_version(release).is_some_and(|v| v < (6, 1)) {
        return Err(LoadError::Kernel { release: release.into() });
    }
    // Hidden first parameter, preempt, prev, next, prev_state (the last since Linux 5.18).
    if let Some(found) = btf.func_proto_params("btf_trace_sched_switch")
        && found != 5
    {
        return Err(LoadError::SwitchShape { found });
    }
    check_registers(btf)?;
    Ok(read_offsets(btf)?)
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
// SAFETY: so is `FileOffsets`.
unsafe impl aya::Pod for Plain<FileOffsets> {}

/// The programs and maps, before anything is attached.
pub struct Loaded {
    /// All but what follows.
    pub ebpf: Ebpf,
    /// The map `state`, whose address the programs get when they are loaded: it is to be open
    /// until then.
    pub state: OwnedFd,
}

/// Creates the maps. Nothing is attached yet.
pub fn load(frozen: &Frozen<'_>, btf: &aya::Btf) -> Result<Loaded, LoadError> {
    let offsets = Plain(frozen.offsets);
    let bytes = size_of::<CpuState>() as u32 * frozen.cpus.max(1);
    let state = sys::map_of_one(STATE, bytes).map_err(|e| match e.raw_os_error() {
        Some(libc::EPERM | libc::ENOSYS) => LoadError::Refused(e),
        _ => LoadError::State { cpus: frozen.cpus, source: e },
    })?;
    let last_cpu = frozen.cpus.saturating_sub(1);
    let known =
        Known { offsets: frozen.offsets, state: state.as_raw_fd(), last_cpu, cast: frozen.cast };
    let (programs, begin) = members::put_in(PROBES, &known).map_err(LoadError::Members)?;
    let files = frozen.files.map(Plain);
    let mut loader = EbpfLoader::new();
    if let Some(files) = &files {
        loader.override_global("FILE_OFFSETS", files, true);
    }
    loader
        .btf(Some(btf))
        .override_global("SESSION", &frozen.secret, true)
        .override_global("OFFSETS", &offsets, true)
        .override_global("NATIVE_CALLS", frozen.native, true)
        .override_global("COMPAT_CALLS", frozen.compat, true)
        .override_global("SLOT_PAGES", &frozen.slot_pages, true)
        .override_global("SHARE_SEED", &frozen.seed, true)
        .override_global("SLOT_SEED", &frozen.slot_seed, true)
        .map_max_entries("rings_syscall", frozen.ring_pages[0])
        .map_max_entries("rings_sched", frozen.ring_pages[1])
        .map_max_entries("rings_task", frozen.ring_pages[2])
        .map_max_entries("slots", frozen.slot_pages)
        .map_max_entries("meta", frozen.meta_pages)
        .map_max_entries("descriptors", frozen.descriptor_pages)
        .map_max_entries("quiet", frozen.quiet_pages.max(1))
        .load(programs.get(begin..).unwrap_or_default())
        .map(|ebpf| Loaded { ebpf, state })
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
pub const PINNED_MAPS: [&str; 11] = [
    STATE,
    "rings_syscall",
    "rings_sched",
    "rings_task",
    "meta",
    "slots",
    "descriptors",
    "quiet",
    "note_text",
    EXEC_MASKS,
    KERNEL_LOG,
];

/// The CPUs' states.
const STATE: &str = "state";
/// By what the arguments of programs are masked ([`crate::mask`]).
pub const EXEC_MASKS: &str = "exec_masks";
/// The ring buffer of lines that the kernel logs.
pub const KERNEL_LOG: &str = "kernel_log";
/// The program that fills it, and its tracepoint. Not every kernel has that.
const CONSOLE: &str = "console";

/// Under which name in a generation's directory the walk over open files is pinned: a file that
/// runs it when it is read. Not every kernel has it.
pub const FILE_WALK: &str = "links/walk_files";

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

/// Which groups of programs are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// System calls, in this form.
    pub syscalls: Option<ProgramForm>,
    /// Scheduling.
    pub sched: bool,
    /// Task life.
    pub tasks: bool,
}

/// One program and the tracepoint that it is attached to; it is pinned under the tracepoint's name.
struct Attachment {
    program: &'static str,
    tracepoint: &'static str,
    form: ProgramForm,
}

/// What is attached for what is wanted, in order: task life first, so that whoever appears in a
/// later lane is known by then.
fn attachments(wanted: Wanted) -> Vec<Attachment> {
    let tp_btf = |name| Attachment { program: name, tracepoint: name, form: ProgramForm::TpBtf };
    let mut list = Vec::new();
    if wanted.tasks {
        list.extend(["sched_process_fork", "sched_process_exec", "task_rename"].map(tp_btf));
    }
    // Always: the one tells system calls that the running thread is another, the other lets a dead
    // daemon's process id go. Both look at the switches that are for their records.
    list.extend(["sched_process_exit", "sched_switch"].map(tp_btf));
    if wanted.sched {
        list.extend(["sched_waking", "sched_wakeup_new", "sched_migrate_task"].map(tp_btf));
    }
    match wanted.syscalls {
        Some(ProgramForm::TpBtf) => list.extend(["sys_exit", "sys_enter"].map(tp_btf)),
        Some(form @ ProgramForm::Tracepoint) => list.extend(
            [("sys_exit_classic", "sys_exit"), ("sys_enter_classic", "sys_enter")]
                .map(|(program, tracepoint)| Attachment { program, tracepoint, form }),
        ),
        None => {}
    }
    list
}

/// Whether all that is wanted is still attached under the generation's directory.
pub fn is_attached(wanted: Wanted, dir: &Path) -> io::Result<bool> {
    let expected: BTreeSet<String> =
        attachments(wanted).iter().map(|a| a.tracepoint.into()).collect();
    let pinned: io::Result<BTreeSet<String>> = fs::read_dir(dir.join("links"))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect();
    let mut pinned = pinned?;
    // The one that records goes on without.
    pinned.retain(|name| !FILE_WALK.ends_with(name.as_str()) && name != CONSOLE);
    Ok(pinned == expected)
}

/// Loads, attaches and pins the programs. Then walks the threads that exist, so that none falls
/// between.
pub fn attach(
    ebpf: &mut Ebpf,
    wanted: Wanted,
    tracepoints: &Tracepoints,
    btf: &aya::Btf,
    dir: &Path,
) -> Result<(), LoadError> {
    let mut attacher = Attacher { ebpf, tracepoints, btf, dir };
    attacher.load_note()?;
    for attachment in attachments(wanted) {
        match attachment.form {
            ProgramForm::TpBtf => attacher.tp_btf(attachment.program)?,
            ProgramForm::Tracepoint => {
                attacher.tracepoint(attachment.program, attachment.tracepoint)?;
            }
        }
    }
    attacher.walk_tasks()
}

/// Loads and pins the walk over open files. A kernel that does not take it is recorded without.
pub fn pin_file_walk(
    ebpf: &mut Ebpf,
    tracepoints: &Tracepoints,
    btf: &aya::Btf,
    dir: &Path,
) -> Result<(), LoadError> {
    Attacher { ebpf, tracepoints, btf, dir }.pin_file_walk()
}

/// Attaches the program that hands on what the kernel logs. A kernel that does not take it is
/// recorded without.
pub fn follow_console(
    ebpf: &mut Ebpf,
    tracepoints: &Tracepoints,
    btf: &aya::Btf,
    dir: &Path,
) -> Result<(), LoadError> {
    Attacher { ebpf, tracepoints, btf, dir }.tp_btf(CONSOLE)
}

struct Attacher<'a> {
    ebpf: &'a mut Ebpf,
    tracepoints: &'a Tracepoints,
    btf: &'a aya::Btf,
    dir: &'a Path,
}

fn refused(name: &'static str) -> impl Fn(ProgramError) -> LoadError {
    move |e| LoadError::Program { name, source: Box::new(e) }
}

fn pin<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    path: PathBuf,
) -> impl FnOnce(E) -> LoadError {
    move |e| LoadError::Pin { path, source: io::Error::other(e) }
}

impl Attacher<'_> {
    fn program(&mut self, name: &'static str) -> Result<&mut Program, LoadError> {
        self.ebpf.program_mut(name).ok_or(LoadError::Missing(name))
    }

    fn paths(&self, name: &str) -> (PathBuf, PathBuf) {
        (self.dir.join("progs").join(name), self.dir.join("links").join(name))
    }

    fn tp_btf(&mut self, name: &'static str) -> Result<(), LoadError> {
        let ((prog, link), btf) = (self.paths(name), self.btf);
        let program: &mut BtfTracePoint = self.program(name)?.try_into().map_err(refused(name))?;
        program.load(name, btf).map_err(refused(name))?;
        program.pin(&prog).map_err(pin(prog))?;
        let id = program.attach().map_err(refused(name))?;
        let fd: FdLink = program.take_link(id).map_err(refused(name))?.into();
        fd.pin(&link).map_err(pin(link))?;
        Ok(())
    }

    fn tracepoint(&mut self, name: &'static str, event: &'static str) -> Result<(), LoadError> {
        let ((prog, link), number) = (self.paths(event), self.tracepoints.number(event));
        let program: &mut TracePoint = self.program(name)?.try_into().map_err(refused(name))?;
        program.load().map_err(refused(name))?;
        program.pin(&prog).map_err(pin(prog))?;
        let number = number.ok_or(LoadError::Tracepoint { event })?;
        let fd = program.fd().map_err(refused(name))?;
        tracepoint::attach(fd.as_fd(), event, number, &link).map_err(
            |e| match tracepoint::paranoid() {
                Some(level) if level > 2 && e.kind() == io::ErrorKind::PermissionDenied => {
                    LoadError::Paranoid { event, level }
                }
                _ => pin(link)(e),
            },
        )
    }

    fn load_note(&mut self) -> Result<(), LoadError> {
        let (prog, _) = self.paths("note");
        let program: &mut RawTracePoint =
            self.program("note")?.try_into().map_err(refused("note"))?;
        program.load().map_err(refused("note"))?;
        program.pin(&prog).map_err(pin(prog))
    }

    fn walk_tasks(&mut self) -> Result<(), LoadError> {
        let btf = self.btf;
        let program: &mut Iter =
            self.program("walk_tasks")?.try_into().map_err(refused("walk_tasks"))?;
        program.load("task", btf).map_err(refused("walk_tasks"))?;
        let id = program.attach().map_err(refused("walk_tasks"))?;
        let link = program.take_link(id).map_err(refused("walk_tasks"))?;
        let walked =
            link.into_file().map_err(|e| io::Error::other(e.to_string())).and_then(|mut file| {
                // Reading runs the program once for each thread; it prints nothing.
                io::copy(&mut file, &mut io::sink())
            });
        walked.map(drop).map_err(|source| LoadError::Pin {
            path: "the walk over existing threads".into(),
            source,
        })
    }

    fn pin_file_walk(&mut self) -> Result<(), LoadError> {
        let (btf, path) = (self.btf, self.dir.join(FILE_WALK));
        let program: &mut Iter =
            self.program("walk_files")?.try_into().map_err(refused("walk_files"))?;
        program.load("task_file", btf).map_err(refused("walk_files"))?;
        let id = program.attach().map_err(refused("walk_files"))?;
        let link: FdLink = program
            .take_link(id)
            .map_err(refused("walk_files"))?
            .try_into()
            .map_err(pin(path.clone()))?;
        link.pin(&path).map_err(pin(path))?;
        Ok(())
    }
}
