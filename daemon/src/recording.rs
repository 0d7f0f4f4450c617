//! A recording in the kernel: begun, adopted, steered and ended by the daemon, but not its part.

use std::fs;
use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flightrec_format::abi::file::FileOffsets;
use flightrec_format::abi::page::{
    COPY_MAGIC, HEADER_LEN, LANE_KINDS, Lane, PAGE_SIZE, PageHeader, RING_LANES, Refusal, VERSION,
};
use flightrec_format::abi::probe::Offsets;
use flightrec_format::abi::record::Act;
use flightrec_format::abi::state::{
    BUCKETS, CLOSED, CpuState, ENABLE_ALL, ENABLE_SCHED, ENABLE_STRINGS, ENABLE_SYSCALL, ENABLE_TASK, GIVEN_ALL,
    GIVEN_ARGUMENTS, GIVEN_EXIT_TIMES, GIVEN_SYSCALLS, LaneState, NO_THREAD, entered,
};
use flightrec_format::encode::write_header;
use flightrec_format::live::map::ArrayMap;
use flightrec_format::live::{self, LiveError, publish_meta, write_head};
use flightrec_format::meta::{Meta, MetaError, TaiOffset};
use nix::sys::utsname::uname;
use thiserror::Error;
use tracing::{info, warn};

use crate::bpffs::{self, BpffsError};
use crate::btf::{Btf, BtfError, read_file_offsets};
use crate::budget::buckets::{self, Limit};
use crate::calibrate::Costs;
use crate::cgroups::Groups;
use crate::config::{Budget, Config, Record, Sizing, SizingError, SyscallPrograms, ram_bytes};
use crate::load::{self, Frozen, LoadError, ProgramForm, Wanted};
use crate::note::Notes;
use crate::syscalls::{SyscallTables, call_table};
use crate::tracepoints::{Tracepoints, TracepointsError};
use crate::{calibrate, clock, cpus, tracepoint};

/// Why there is no recording.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// The directory for pinned objects.
    #[error(transparent)]
    Bpffs(#[from] BpffsError),
    /// The kernel's description of itself.
    #[error(transparent)]
    Btf(#[from] BtfError),
    /// The programs.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The table of system calls.
    #[error(transparent)]
    Tables(#[from] TracepointsError),
    /// The sizes do not fit.
    #[error(transparent)]
    Sizing(#[from] SizingError),
    /// The metadata do not fit into their pages.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// The pinned recording can't be opened.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// Anything else from the system.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What came of it.
        source: io::Error,
    },
}

fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> RecordingError {
    let what = what.into();
    move |source| RecordingError::Io { what, source }
}

// The two switches are one word, so that they change together.
const _: () = assert!(offset_of!(CpuState, enabled) == 0 && offset_of!(CpuState, own_tgid) == 4);

/// Tracepoints of system calls, in the order in which their programs are attached.
const SYSCALL_EVENTS: [&str; 2] = ["sys_exit", "sys_enter"];

/// What attaching the programs on system calls takes.
#[derive(Debug, Clone, Copy)]
struct Detachable {
    form: ProgramForm,
    /// The tracepoints' numbers, as far as they are known.
    numbers: [Option<u32>; 2],
}

/// A recording that runs in the kernel, whoever began it.
#[derive(Debug)]
pub struct Recording {
    dir: PathBuf,
    meta: Mutex<Meta>,
    live: Arc<live::Recording>,
    notes: Notes,
    groups: Groups,
    /// Counts the changes of the metadata.
    changes: AtomicU64,
    /// How the programs on system calls are attached again.
    syscalls: Option<Detachable>,
    /// Held while the word of switches is rewritten.
    switching: Mutex<()>,
    /// Whether it was begun by this daemon.
    begun: bool,
}

impl Recording {
    /// Takes over the recording under `bpffs_dir` if this daemon's own programs make it, in the
    /// shape that the configuration asks for; else begins a new one, and then ends any other. Those that were ended
    /// are handed out with what they hold, for the files.
    pub fn adopt_or_begin(
        config: &Config,
        runtime_dir: &Path,
        bpffs_dir: &Path,
    ) -> Result<(Self, Vec<Ended>), RecordingError> {
        let plan = Plan::new(config, runtime_dir)?;
        let (complete, incomplete) = bpffs::list(bpffs_dir)?;
        for dir in incomplete {
            info!("removing what an interrupted start left: {}", dir.display());
            bpffs::remove(&dir)?;
        }
        let mut adopted = None;
        let mut others = Vec::new();
        for dir in complete {
            if adopted.is_some() {
                others.push(dir);
                continue;
            }
            match Self::adopt(&dir, &plan) {
                Ok(Some(recording)) => adopted = Some(recording),
                Ok(None) => others.push(dir),
                Err(e) => {
                    warn!("{}: a recording that can't be adopted: {e}", dir.display());
                    others.push(dir);
                }
            }
        }
        let mut recording = match adopted {
            Some(recording) => recording,
            None => Self::begin(&plan, bpffs_dir)?,
        };
        let mut ended = Vec::new();
        for dir in others {
            info!("{}: ending a recording of another build or configuration", dir.display());
            match Ended::open(&dir) {
                Ok(other) => ended.push(other),
                Err(e) => info!("what it holds can't be read, and goes with it: {e}"),
            }
            if let Err(e) = bpffs::remove(&dir) {
                warn!("it could not be removed, which the next start tries again: {e}");
            }
        }
        recording.groups = Groups::find(&config.kernel.cgroup2);
        recording.follow_cgroups();
        Ok((recording, ended))
    }

    fn open(dir: &Path) -> Result<Self, RecordingError> {
        let live = live::Recording::open(dir, true)?;
        let document = live.meta()?;
        let notes = Notes::open(dir, document.cpus.clone()).map_err(io("the note program"))?;
        Ok(Self {
            dir: dir.into(),
            meta: Mutex::new(document),
            live: Arc::new(live),
            notes,
            groups: Groups::default(),
            changes: AtomicU64::new(0),
            syscalls: None,
            switching: Mutex::new(()),
            begun: false,
        })
    }

    /// Takes over a running recording, if it is the plan's.
    fn adopt(dir: &Path, plan: &Plan) -> Result<Option<Self>, RecordingError> {
        let mut recording = Self::open(dir)?;
        let theirs = recording.meta().program;
        if theirs != plan.identity {
            info!("the running recording is of another build or shape (theirs: {theirs}, ours: {})", plan.identity);
            return Ok(None);
        }
        recording.syscalls = plan.detachable();
        if recording.live.budget().detached {
            info!("system calls were detached when the daemon before ended");
            recording.act(Act::Attached, "system calls are attached on all CPUs");
            recording.attach().map_err(io("attaching system calls again"))?;
        }
        if !load::is_attached(plan.wanted, dir).map_err(io(dir.display().to_string()))? {
            warn!("{}: programs of the running recording have been detached", dir.display());
            return Ok(None);
        }
        recording.apply(&plan.record);
        recording.update_meta(|meta| {
            meta.set_tai_offset(clock::mono(), clock::tai_offset());
            meta.strings = plan.strings;
            meta.config.clone_from(&plan.config);
        })?;
        recording.act(Act::Adopt, &format!("flightd {} adopted the recording", env!("CARGO_PKG_VERSION")));
        let session = recording.session();
        info!(session = format_args!("{session:016x}"), "adopted the running recording {session:016x}");
        Ok(Some(recording))
    }

    /// Begins a new recording: maps, their content, programs; complete only when all is attached.
    fn begin(plan: &Plan, bpffs_dir: &Path) -> Result<Self, RecordingError> {
        let session = random_session().map_err(io("/dev/urandom"))?;
        let new = bpffs::create(bpffs_dir, session)?;
        let begun = Self::build(plan, session, &new).and_then(|()| {
            let dir = bpffs::complete(bpffs_dir, session)?;
            Self::open(&dir)
        });
        match begun {
            Ok(mut recording) => {
                (recording.syscalls, recording.begun) = (plan.detachable(), true);
                recording.apply(&plan.record);
                buckets::set_limits(recording.state(), &plan.budget);
                let limited = plan.budget.per_cpu.millionths().is_some();
                recording.rewrite(|enabled, own| (enabled | buckets::switches(limited), own));
                recording.act(Act::Start, &format!("flightd {} began recording", env!("CARGO_PKG_VERSION")));
                let bytes = plan.sizing.total;
                info!(
                    session = format_args!("{session:016x}"),
                    bytes, "began recording {session:016x}, in {bytes} bytes of kernel memory"
                );
                Ok(recording)
            }
            Err(e) => {
                for dir in [new, bpffs_dir.join(format!("gen-{session:016x}"))] {
                    if dir.exists()
                        && let Err(e) = bpffs::remove(&dir)
                    {
                        warn!("could not remove what a failed start left: {e}");
                    }
                }
                Err(e)
            }
        }
    }

    fn build(plan: &Plan, session: u64, new: &Path) -> Result<(), RecordingError> {
        let sizing = &plan.sizing;
        let native = call_table(&plan.tables.native);
        let compat = call_table(&plan.tables.compat);
        let cpus = plan.online.len() as u32;
        let frozen = Frozen {
            session,
            offsets: plan.offsets,
            files: plan.files,
            native: &native,
            compat: &compat,
            cpus: plan.possible,
            ring_pages: sizing.ring_pages.map(|pages| pages * cpus),
            slot_pages: sizing.slot_pages,
            meta_pages: sizing.meta_pages,
            descriptor_pages: sizing.descriptor_pages,
        };
        let kernel_btf = aya::Btf::parse_file(&plan.btf, aya::Endianness::default())
            .map_err(|e| io(plan.btf.display().to_string())(io::Error::other(e)))?;
        let mut ebpf = load::load(&frozen, &kernel_btf)?;
        load::pin_maps(&ebpf, &new.join("maps"))?;
        let map = |name: &str| {
            let path = new.join("maps").join(name);
            ArrayMap::open(&path, true).map_err(io(path.display().to_string()))
        };
        prepare_state(&map("state")?, plan);
        prepare_slots(&map("slots")?, session);
        // The costs are those of the programs without a limit: what the limit is charged with.
        let without = calibrate::time();
        load::attach(&mut ebpf, plan.wanted, &plan.tracepoints, &kernel_btf, new)?;
        let state = map("state")?;
        buckets::set_costs(&state, &calibrate::costs(without, &time_attached(&state, plan.enabled)));
        if plan.files.is_some()
            && let Err(e) = load::pin_file_walk(&mut ebpf, &plan.tracepoints, &kernel_btf, new)
        {
            let error = anyhow::Error::new(e);
            warn!("{}: {error:#}", crate::descriptors::WITHOUT);
        }
        if let Err(e) = load::follow_console(&mut ebpf, &plan.tracepoints, &kernel_btf, new) {
            let error = anyhow::Error::new(e);
            warn!("what the kernel logs can't be followed: {error:#}");
        }
        // Last, for the recording is complete from `Meta::started` on: when all is attached.
        publish_meta(&map("meta")?, &plan.meta(session))?;
        Ok(())
    }

    /// Sets the switches that can change while it records.
    fn apply(&self, record: &Record) {
        let own = if record.own { 0 } else { self.notes.own_tgid() };
        self.rewrite(|enabled, _| (enabled & !ENABLE_ALL | switches(record), own));
    }

    /// Applies what can change while it records, and enters the configuration into the metadata. The budget is the
    /// keeper's.
    pub fn reconfigure(&self, config: &Config) {
        self.apply(&config.record);
        let changed = self.update_meta(|meta| {
            meta.strings = config.record.strings;
            meta.config = config.to_toml();
        });
        if let Err(e) = changed {
            warn!("the recording's metadata still tell the configuration before: {e}");
        }
    }

    /// Rewrites the switches of all CPUs: what is enabled, and whose calls are left out.
    fn rewrite(&self, change: impl Fn(u32, u32) -> (u32, u32)) {
        for cpu in 0..self.state().entries() {
            self.rewrite_on(cpu, &change);
        }
    }

    /// The same of one CPU; what the switches were.
    fn rewrite_on(&self, cpu: usize, change: impl Fn(u32, u32) -> (u32, u32)) -> (u32, u32) {
        let _switching = self.switching.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let word = self.state().load(cpu, 0);
        let before = (word as u32, (word >> 32) as u32);
        let (enabled, own) = change(before.0, before.1);
        self.state().write(cpu, 0, &(u64::from(enabled) | u64::from(own) << 32).to_le_bytes());
        before
    }

    /// Sets what a CPU's probes may take, and what they give up (`GIVEN_…` bits).
    pub fn set_limit(&self, cpu: usize, limit: &Limit, burst: u32, costs: &Costs) {
        let limited = limit.share.is_some();
        let switch = || {
            let bits = limit.given | buckets::switches(limited);
            self.rewrite_on(cpu, |enabled, own| (enabled & !(GIVEN_ALL | buckets::switches(true)) | bits, own));
        };
        // No limit is in force while its allowance is not: nothing must be refused for a change.
        if !limited {
            switch();
        }
        buckets::set_call_cost(self.state(), cpu, costs, limit.given);
        buckets::set_limit(self.state(), cpu, limit, burst);
        if limited {
            switch();
        }
    }

    /// Times a system call of this thread, which it pins to a CPU meanwhile: recorded, and left out; ns. `None` where the
    /// recorder's own calls are recorded anyway.
    pub fn time_own_calls(&self, cpu: usize) -> Option<(f64, f64)> {
        let _pinned = calibrate::Pinned::to(cpu).ok()?;
        let (_, own) = self.rewrite_on(cpu, |enabled, own| (enabled, own));
        if own != self.notes.own_tgid() {
            return None;
        }
        let left_out = calibrate::time_call_briefly();
        self.rewrite_on(cpu, |enabled, _| (enabled, 0));
        let recorded = calibrate::time_call_briefly();
        self.rewrite_on(cpu, |enabled, _| (enabled, own));
        Some((recorded, left_out))
    }

    /// Detaches the programs on system calls: none is recorded, counted or paid for until [`Self::attach`]. `false`: there
    /// are none.
    pub fn detach(&self) -> io::Result<bool> {
        if self.syscalls.is_none() {
            return Ok(false);
        }
        self.set_detached(true);
        for event in SYSCALL_EVENTS {
            match fs::remove_file(self.link(event)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        Ok(true)
    }

    /// Attaches them again, where they are not.
    pub fn attach(&self) -> io::Result<()> {
        let Some(syscalls) = &self.syscalls else { return Ok(()) };
        // What was entered when they were detached is not what exits next.
        let at = offset_of!(CpuState, lanes) + Lane::Syscall as usize * size_of::<LaneState>();
        for cpu in 0..self.state().entries() {
            if let Some(entered) = self.state().u32(cpu, at + offset_of!(LaneState, entered)) {
                entered.store(entered::UNKNOWN, Ordering::Release);
            }
        }
        for (event, number) in SYSCALL_EVENTS.into_iter().zip(syscalls.numbers) {
            let link = self.link(event);
            if link.exists() {
                continue;
            }
            let program = live::sys::obj_get(&self.dir.join("progs").join(event))?;
            match syscalls.form {
                ProgramForm::TpBtf => {
                    live::sys::obj_pin(live::sys::attach_tracing(program.as_fd())?.as_fd(), &link)?;
                }
                ProgramForm::Tracepoint => {
                    let number = number.ok_or_else(|| io::Error::other("the tracepoint's number is not known"))?;
                    tracepoint::attach(program.as_fd(), event, number, &link)?;
                }
            }
        }
        self.set_detached(false);
        Ok(())
    }

    fn set_detached(&self, detached: bool) {
        for cpu in 0..self.state().entries() {
            self.state().write(cpu, offset_of!(CpuState, detached), &u64::from(detached).to_le_bytes());
        }
    }

    fn link(&self, event: &str) -> PathBuf {
        self.dir.join("links").join(event)
    }

    /// The probes' state.
    pub fn state(&self) -> &ArrayMap {
        &self.live.maps().state
    }

    /// Whether this daemon began it; else it took it over.
    pub fn is_begun(&self) -> bool {
        self.begun
    }

    /// Leaves it running without a daemon.
    pub fn leave(&self) {
        self.act(Act::Leave, "flightd ended and left the recording running");
        self.rewrite(|enabled, _| (enabled, 0));
    }

    /// Ends it, and removes everything from the kernel, but for the memory of what it has recorded, which is there to be
    /// read ([`Self::live`]) as long as this value lives.
    pub fn end(&self) -> Result<(), RecordingError> {
        // The links go a little later than their pins (`bpf_link_put` leaves it to a worker, kernel/bpf/syscall.c); the
        // switches hold at once.
        self.rewrite(|_, _| (0, self.notes.own_tgid()));
        Ok(bpffs::remove(&self.dir)?)
    }

    /// The recording as readers see it.
    pub fn live(&self) -> &Arc<live::Recording> {
        &self.live
    }

    /// Its metadata.
    pub fn meta(&self) -> Meta {
        self.meta.lock().map_or_else(|e| e.into_inner().clone(), |m| m.clone())
    }

    /// Its session id.
    pub fn session(&self) -> u64 {
        self.meta().session
    }

    /// Kernel memory of rings and tables, bytes.
    pub fn memory(&self) -> u64 {
        self.live.maps().bytes()
    }

    /// Where its programs are pinned.
    pub fn programs(&self) -> PathBuf {
        self.dir.join("progs")
    }

    /// Where one of its maps is pinned.
    pub fn map_path(&self, name: &str) -> PathBuf {
        self.dir.join("maps").join(name)
    }

    /// The file that tells what is open, when it is read; there where the kernel can tell.
    pub fn file_walk(&self) -> PathBuf {
        self.dir.join(load::FILE_WALK)
    }

    /// Records a user's line.
    pub fn mark(&self, text: &str, tid: u32) -> Result<(), String> {
        self.notes.mark(text, tid).map_err(|e| e.to_string())
    }

    /// Records an act of the recorder. That it could not is no reason to stop.
    pub fn act(&self, act: Act, text: &str) {
        if let Err(e) = self.notes.act(act, text) {
            warn!("the recording lacks a note of this: {text}: {e}");
        }
    }

    /// Changes the metadata, in the half of the map that the present document does not use.
    pub fn update_meta(&self, change: impl FnOnce(&mut Meta)) -> Result<(), RecordingError> {
        let mut guard = self.meta.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut document = guard.clone();
        change(&mut document);
        if document == *guard {
            return Ok(());
        }
        self.live.publish_meta(&document)?;
        *guard = document;
        self.changes.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// How often the metadata have changed so far.
    pub fn meta_changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Brings the names of control groups up to date. That it could not is no reason to stop.
    pub fn follow_cgroups(&self) {
        if let Err(e) = self.update_meta(self.groups.refresh()) {
            warn!("the recording's names of control groups could not be refreshed: {e}");
        }
    }

    /// CPUs that run now and have no ring: they came online after the recording began.
    pub fn unrecorded_cpus(&self) -> Vec<u16> {
        let with_rings = self.meta().cpus;
        cpus::online().unwrap_or_default().into_iter().filter(|cpu| !with_rings.contains(cpu)).collect()
    }
}

/// A recording that was ended, with what it holds.
#[derive(Debug)]
pub struct Ended {
    /// Its rings and tables.
    pub live: live::Recording,
    /// Its metadata.
    pub meta: Meta,
}

impl Ended {
    /// Stops the recording in `dir`, and keeps its memory.
    fn open(dir: &Path) -> Result<Self, LiveError> {
        let live = live::Recording::open(dir, true)?;
        let meta = live.meta()?;
        switch(&live, 0, 0);
        Ok(Self { live, meta })
    }
}

/// Sets what a recording's programs record, and whose system calls they leave out.
fn switch(live: &live::Recording, enabled: u32, own_tgid: u32) {
    let word = u64::from(enabled) | u64::from(own_tgid) << 32;
    for cpu in 0..live.maps().state.entries() {
        live.maps().state.write(cpu, 0, &word.to_le_bytes());
    }
}

/// What this daemon, on this machine, with this configuration, would record.
struct Plan {
    sizing: Sizing,
    online: Vec<u16>,
    possible: u32,
    offsets: Offsets,
    tracepoints: Tracepoints,
    files: Option<FileOffsets>,
    tables: SyscallTables,
    wanted: Wanted,
    strings: bool,
    enabled: u32,
    record: Record,
    budget: Budget,
    btf: PathBuf,
    config: String,
    release: String,
    machine: String,
    host: String,
    identity: String,
}

impl Plan {
    fn new(config: &Config, runtime_dir: &Path) -> Result<Self, RecordingError> {
        let online = cpus::online().map_err(io("the list of CPUs"))?;
        let possible = cpus::possible().map_err(io("the list of CPUs"))?;
        let sizing = Sizing::compute(config, online.len() as u32, possible, ram_bytes())?;
        if sizing.shrunk {
            info!(
                bytes = sizing.total,
                "rings are smaller than configured, {} bytes, to stay within max_total and max_ram_percent",
                sizing.total
            );
        }
        let names = uname().map_err(|e| io("uname")(e.into()))?;
        let release = names.release().to_string_lossy().into_owned();
        let btf = Btf::read(&config.kernel.btf)?;
        let offsets = load::examine(&btf, &release)?;
        let files = read_file_offsets(&btf).inspect_err(|e| warn!("{}: {e}", crate::descriptors::WITHOUT)).ok();
        let tracepoints = Tracepoints::find(&config.kernel.tracefs, runtime_dir)?;
        let tables = tracepoints.tables();
        let needed = ProgramForm::for_kernel(load::kernel_version(&release).unwrap_or((7, 0)));
        let form = match config.kernel.syscall_programs {
            SyscallPrograms::TpBtf if needed == ProgramForm::Tracepoint => {
                return Err(LoadError::Form { release }.into());
            }
            SyscallPrograms::TpBtf => ProgramForm::TpBtf,
            SyscallPrograms::Tracepoint => ProgramForm::Tracepoint,
            SyscallPrograms::Auto => needed,
        };
        let record = &config.record;
        let wanted = Wanted { syscalls: record.syscalls.then_some(form), sched: record.sched, tasks: record.tasks };
        let identity =
            format!("{} rings {:?} slots {} {wanted:?}", load::probes_id(), sizing.ring_pages, sizing.slot_pages);
        Ok(Self {
            sizing,
            online,
            possible,
            offsets,
            tracepoints,
            files,
            tables,
            wanted,
            strings: record.strings,
            enabled: switches(record),
            record: record.clone(),
            budget: config.budget.clone(),
            btf: config.kernel.btf.clone(),
            config: config.to_toml(),
            machine: names.machine().to_string_lossy().into_owned(),
            host: names.nodename().to_string_lossy().into_owned(),
            release,
            identity,
        })
    }

    /// How the programs on system calls are attached again.
    fn detachable(&self) -> Option<Detachable> {
        let numbers = SYSCALL_EVENTS.map(|event| self.tracepoints.number(event));
        self.wanted.syscalls.map(|form| Detachable { form, numbers })
    }

    fn meta(&self, session: u64) -> Meta {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Meta {
            session,
            boot_id: boot_id.trim().into(),
            host: self.host.clone(),
            kernel: self.release.clone(),
            machine: self.machine.clone(),
            recorder: env!("CARGO_PKG_VERSION").into(),
            program: self.identity.clone(),
            syscall_programs: self.wanted.syscalls.map_or("none", ProgramForm::name).into(),
            started: clock::mono(),
            tai_offsets: vec![TaiOffset { since: 0, seconds: clock::tai_offset() }],
            cpus: self.online.clone(),
            ring_bytes: self.sizing.ring_bytes(),
            strings: self.strings,
            off: [self.wanted.syscalls.is_none(), !self.wanted.sched, !self.wanted.tasks],
            config: self.config.clone(),
            native: self.tables.native.clone(),
            compat: self.tables.compat.clone(),
            ..Meta::default() // control groups: see `Recording::follow_cgroups`
        }
    }
}

/// The `ENABLE_…` bits of what is to be recorded.
fn switches(record: &Record) -> u32 {
    [
        (record.syscalls, ENABLE_SYSCALL),
        (record.sched, ENABLE_SCHED),
        (record.tasks, ENABLE_TASK),
        (record.strings, ENABLE_STRINGS),
    ]
    .into_iter()
    .filter(|(on, _)| *on)
    .map(|(_, bit)| bit)
    .sum()
}

fn random_session() -> io::Result<u64> {
    let mut bytes = [0; 8];
    io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes).max(1))
}

fn prepare_state(state: &ArrayMap, plan: &Plan) {
    let enabled = plan.enabled;
    for cpu in 0..state.entries() {
        let position = plan.online.iter().position(|online| usize::from(*online) == cpu);
        let lane = |i: usize| LaneState {
            off: CLOSED,
            page: 0,
            ring_base: position.map_or(0, |p| p as u32 * plan.sizing.ring_pages[i]),
            ring_pages: if position.is_some() { plan.sizing.ring_pages[i] } else { 0 },
            seq: 0,
            base: 0,
            busy: 0,
            tid: NO_THREAD,
            entered: 0,
            enter_off: 0,
            enter_time: 0,
            events: [0; 6],
            refused: [0; 3],
        };
        let cpu_state = CpuState {
            enabled,
            own_tgid: 0, // set once the programs can say what it is
            no_ring: [0; RING_LANES],
            slot_collisions: 0,
            limits: [0; BUCKETS],
            measured: 0,
            strings: 0,
            lanes: std::array::from_fn(lane),
            buckets: Default::default(),
            throttled: Default::default(),
            detached: 0,
            full: [0; BUCKETS],
            floor: [0; BUCKETS],
            savings: [0; 2],
            total: 0,
            reserved: 0,
        };
        // SAFETY: plain integers without padding (their sizes are pinned in format::abi::state).
        let bytes = unsafe { std::slice::from_raw_parts((&raw const cpu_state).cast::<u8>(), size_of::<CpuState>()) };
        state.write(cpu, 0, bytes);
    }
}

/// Times events with the probes attached: in full, and with things given up. What that had them count as refused is taken
/// back, since nobody else's event was.
fn time_attached(state: &ArrayMap, enabled: u32) -> calibrate::With {
    let switch = |enabled: u32| {
        for cpu in 0..state.entries() {
            state.write(cpu, 0, &u64::from(enabled).to_le_bytes());
        }
    };
    let call = |given: u32| {
        switch(enabled | given);
        calibrate::Pinned::here().map_or(f64::NAN, |_pinned| calibrate::time_call())
    };
    let full = calibrate::time();
    let (untimed, first_argument) = (call(GIVEN_EXIT_TIMES), call(GIVEN_ARGUMENTS));
    switch(enabled & !ENABLE_SCHED | GIVEN_SYSCALLS);
    let floor = calibrate::time();
    // No page may open while the totals in its header are to be taken back.
    switch(enabled & !ENABLE_SYSCALL);
    take_back(state);
    switch(enabled);
    calibrate::With { full, floor, untimed, first_argument }
}

/// Takes back what was refused while nothing was to be recorded, which counted for nobody; now system calls are off. Calls that
/// were entered before end now, and must not be counted any more: they are as calls whose entry was not seen. A program that
/// runs at this moment on another CPU may still count, so this is done until nothing has come for a while.
fn take_back(state: &ArrayMap) {
    /// Longer than a program takes, also where the machine's own CPUs are shared.
    const WHILE: Duration = Duration::from_millis(2);
    const MOST: usize = 20;
    let lane = offset_of!(CpuState, lanes) + Lane::Syscall as usize * size_of::<LaneState>();
    let refused = lane + offset_of!(LaneState, refused) + Refusal::Throttled as usize * size_of::<u64>();
    let throttled = offset_of!(CpuState, throttled);
    for _ in 0..MOST {
        std::thread::sleep(WHILE);
        let mut came = false;
        for cpu in 0..state.entries() {
            if let Some(entered) = state.u32(cpu, lane + offset_of!(LaneState, entered)) {
                let was =
                    entered.compare_exchange(entered::REFUSED, entered::UNKNOWN, Ordering::AcqRel, Ordering::Relaxed);
                came |= was.is_ok();
            }
            came |= state.load(cpu, refused) != 0 || state.load(cpu, throttled) != 0;
            state.write(cpu, refused, &[0; 8]);
            state.write(cpu, throttled, &[0; size_of::<u64>() * LANE_KINDS]);
        }
        if !came {
            break;
        }
    }
}

/// Gives each page of the thread table its header.
fn prepare_slots(slots: &ArrayMap, session: u64) {
    let now = clock::mono();
    for index in 0..slots.entries() {
        let header = PageHeader {
            magic: COPY_MAGIC,
            session,
            version: VERSION,
            lane: Lane::Slots as u8,
            flags: 0,
            cpu: 0,
            header_len: HEADER_LEN as u16,
            seq: index as u64 + 1,
            base_mono: now,
            base_tai: (now as i64 + clock::wall_offset() + clock::tai_offset() * 1_000_000_000) as u64,
            used: (PAGE_SIZE / 8) as u32,
            reserved: 0,
            events: [0; 6],
            refused: [0; 3],
        };
        write_head(slots, index, &write_header(&header));
    }
}
