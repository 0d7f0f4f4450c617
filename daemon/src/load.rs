//! The probes into the kernel: fill in what is frozen, load, attach, pin.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use aya::programs::links::FdLink;
use aya::programs::{BtfTracePoint, Iter, Program, ProgramError, RawTracePoint, TracePoint};
use aya::{Ebpf, EbpfLoader};
use flightrec_format::abi::probe::{CallTable, Offsets};
use thiserror::Error;

use crate::btf::{Btf, BtfError, read_offsets};

/// The programs, compiled by `build.rs`.
pub static PROBES: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/probes"));

/// Identity of [`PROBES`]: a daemon adopts only a recording that its own programs make.
pub fn probes_id() -> String {
    format!("{}-{:08x}-{}", env!("CARGO_PKG_VERSION"), crc32fast::hash(PROBES), PROBES.len())
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
    /// `sched_switch` has another shape than the programs know.
    #[error(
        "this kernel's sched_switch tracepoint has {found} parameters instead of 5; this release of flightrec does not know that kernel"
    )]
    SwitchShape {
        /// Parameters, the hidden first one included.
        found: usize,
    },
    /// The rights to use BPF are missing, or the kernel has no BPF.
    #[error(
        "the kernel refused BPF: {0}. flightd needs root, or the capabilities CAP_BPF and CAP_PERFMON, and a kernel with CONFIG_BPF_SYSCALL"
    )]
    Refused(io::Error),
    /// aya or the kernel could not create maps or take the object.
    #[error("loading the probes failed: {0}")]
    Object(Box<aya::EbpfError>),
    /// A program was refused; with the verifier's words.
    #[error("program {name} was refused: {source}")]
    Program {
        /// Which.
        name: &'static str,
        /// The reason; holds the verifier's log.
        source: Box<ProgramError>,
    },
    /// The object lacks a part: a broken build.
    #[error("the probes lack `{0}`: this build of flightd is broken")]
    Missing(&'static str),
    /// Pinning failed.
    #[error("{path}: {source}")]
    Pin {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Which form the system call programs have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyscallForm {
    /// `tp_btf`: cheaper, right up to Linux 6.19.
    TpBtf,
    /// Classic tracepoint: runs with preemption off on any kernel.
    Tracepoint,
}

impl SyscallForm {
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
    /// Session id.
    pub session: u64,
    /// From the running kernel's BTF.
    pub offsets: Offsets,
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
    /// Pages of metadata.
    pub meta_pages: u32,
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
    Ok(read_offsets(btf)?)
}

/// A value whose bytes go into the programs' read-only data.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Plain<T: Copy>(T);

// SAFETY: used for `Offsets` only, which is `repr(C)` of u32s without padding.
unsafe impl aya::Pod for Plain<Offsets> {}

/// Creates the maps. Nothing is attached yet.
pub fn load(frozen: &Frozen<'_>, btf: &aya::Btf) -> Result<Ebpf, LoadError> {
    let offsets = Plain(frozen.offsets);
    EbpfLoader::new()
        .btf(Some(btf))
        .override_global("SESSION", &frozen.session, true)
        .override_global("OFFSETS", &offsets, true)
        .override_global("NATIVE_CALLS", frozen.native, true)
        .override_global("COMPAT_CALLS", frozen.compat, true)
        .override_global("SLOT_PAGES", &frozen.slot_pages, true)
        .map_max_entries("state", frozen.cpus)
        .map_max_entries("rings_syscall", frozen.ring_pages[0])
        .map_max_entries("rings_sched", frozen.ring_pages[1])
        .map_max_entries("rings_task", frozen.ring_pages[2])
        .map_max_entries("slots", frozen.slot_pages)
        .map_max_entries("meta", frozen.meta_pages)
        .load(PROBES)
        .map_err(|e| LoadError::Object(Box::new(e)))
}

/// Maps that outlive the daemon, by name.
pub const PINNED_MAPS: [&str; 7] =
    ["state", "rings_syscall", "rings_sched", "rings_task", "meta", "slots", "note_text"];

/// Pins the maps under `dir`.
pub fn pin_maps(ebpf: &Ebpf, dir: &Path) -> Result<(), LoadError> {
    for name in PINNED_MAPS {
        let path = dir.join(name);
        let map = ebpf.map(name).ok_or(LoadError::Missing(name))?;
        map.pin(&path).map_err(|e| LoadError::Pin { path, source: io::Error::other(e) })?;
    }
    Ok(())
}

/// Which groups of programs are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// System calls, in this form.
    pub syscalls: Option<SyscallForm>,
    /// Scheduling.
    pub sched: bool,
    /// Task life.
    pub tasks: bool,
}

/// Loads, attaches and pins the programs, task life first: whoever appears in a later lane is
/// known by then. Then walks the threads that exist, so that none falls between.
pub fn attach(ebpf: &mut Ebpf, wanted: Wanted, btf: &aya::Btf, dir: &Path) -> Result<(), LoadError> {
    let mut attacher = Attacher { ebpf, btf, dir };
    attacher.load_note()?;
    if wanted.tasks {
        for name in ["sched_process_fork", "sched_process_exec", "task_rename", "sched_process_exit"] {
            attacher.tp_btf(name)?;
        }
    }
    if wanted.sched || wanted.tasks {
        attacher.tp_btf("sched_switch")?;
    }
    if wanted.sched {
        for name in ["sched_waking", "sched_wakeup_new", "sched_migrate_task"] {
            attacher.tp_btf(name)?;
        }
    }
    match wanted.syscalls {
        Some(SyscallForm::TpBtf) => {
            attacher.tp_btf("sys_exit")?;
            attacher.tp_btf("sys_enter")?;
        }
        Some(SyscallForm::Tracepoint) => {
            attacher.tracepoint("sys_exit_classic", "sys_exit")?;
            attacher.tracepoint("sys_enter_classic", "sys_enter")?;
        }
        None => {}
    }
    attacher.walk_tasks()
}

struct Attacher<'a> {
    ebpf: &'a mut Ebpf,
    btf: &'a aya::Btf,
    dir: &'a Path,
}

fn refused(name: &'static str) -> impl Fn(ProgramError) -> LoadError {
    move |e| LoadError::Program { name, source: Box::new(e) }
}

fn pin<E: Into<Box<dyn std::error::Error + Send + Sync>>>(path: PathBuf) -> impl FnOnce(E) -> LoadError {
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
        let (prog, link) = self.paths(event);
        let program: &mut TracePoint = self.program(name)?.try_into().map_err(refused(name))?;
        program.load().map_err(refused(name))?;
        program.pin(&prog).map_err(pin(prog))?;
        let id = program.attach("raw_syscalls", event).map_err(refused(name))?;
        let owned = program.take_link(id).map_err(refused(name))?;
        let fd: FdLink = owned.try_into().map_err(pin(link.clone()))?;
        fd.pin(&link).map_err(pin(link))?;
        Ok(())
    }

    fn load_note(&mut self) -> Result<(), LoadError> {
        let (prog, _) = self.paths("note");
        let program: &mut RawTracePoint = self.program("note")?.try_into().map_err(refused("note"))?;
        program.load().map_err(refused("note"))?;
        program.pin(&prog).map_err(pin(prog))
    }

    fn walk_tasks(&mut self) -> Result<(), LoadError> {
        let btf = self.btf;
        let program: &mut Iter = self.program("walk_tasks")?.try_into().map_err(refused("walk_tasks"))?;
        program.load("task", btf).map_err(refused("walk_tasks"))?;
        let id = program.attach().map_err(refused("walk_tasks"))?;
        let link = program.take_link(id).map_err(refused("walk_tasks"))?;
        let walked = link.into_file().map_err(|e| io::Error::other(e.to_string())).and_then(|mut file| {
            // Reading runs the program once for each thread; it prints nothing.
            io::copy(&mut file, &mut io::sink())
        });
        walked.map(drop).map_err(|source| LoadError::Pin { path: "the walk over existing threads".into(), source })
    }
}

/// Names of the objects pinned under `dir`.
pub fn pinned(dir: &Path) -> io::Result<BTreeSet<String>> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}
