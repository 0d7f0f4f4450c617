//! A recording in the kernel: begun, adopted, steered and ended by the daemon, but not its part.

mod configured_tracepoints;
mod description;
mod ended;
mod first;
mod plan;
mod sampling;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::probe::STACK_WALK;
use flightrec_format::abi::record::Act;
use flightrec_format::abi::state::{
    CpuState, ENABLE_ALL, ENABLE_EXEC_ARGS, ENABLE_STRINGS, ENABLE_STRUCTURES, GIVEN_ALL,
    LaneState, entered,
};
use flightrec_format::architecture::Architecture;
use flightrec_format::identity::public_id;
use flightrec_format::live::map::ArrayMap;
use flightrec_format::live::{self, LiveError, publish_meta, sys};
use flightrec_format::meta::{Lacking, Meta, MetaError, WALK_OF_DESCRIPTORS, WALK_OF_THREADS};
use flightrec_format::thread_stack::ThreadStack;
use thiserror::Error;
use tracing::{info, warn};

use crate::attach;
use crate::attachments::{
    Attachment, FILE_WALK, FUNCTION_ENTRY, FUNCTION_MARK, FUNCTION_RETURN, ProgramForm,
};
use crate::binaries::Binaries;
use crate::bpffs::{self, BpffsError};
use crate::btf::BtfError;
use crate::buckets::{self, Limit};
use crate::calibrate::Costs;
use crate::cgroups::Groups;
use crate::config::{Config, Record, SizingError, Topic};
use crate::configured_tracepoints::Published;
use crate::containers::Containers;
use crate::load::{self, Frozen, LoadError};
use crate::lockdown::LockedDown;
use crate::marker::Notes;
use crate::samplers::Samplers;
use crate::symbols::Symbols;
use crate::syscalls::{call_table, pointee_table};
use crate::tracefs::TracepointsError;
use crate::{calibrate, clock, cpus, mask, multi};
use description::room;
pub use ended::Ended;
use ended::say_ended;
use first::{prepare_slots, prepare_state, time_attached};
use plan::{Plan, Thresholds, switches};

/// Why there is no recording.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// The directory for pinned objects.
    #[error(transparent)]
    Bpffs(#[from] BpffsError),
    /// The kernel lets no program read its memory.
    #[error(transparent)]
    LockedDown(#[from] LockedDown),
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

/// The programs that may have many points at once.
const FUNCTIONS: [&str; 3] = [FUNCTION_ENTRY, FUNCTION_RETURN, FUNCTION_MARK];

// The two switches are one word, so that they change together.
const _: () = assert!(offset_of!(CpuState, enabled) == 0 && offset_of!(CpuState, own_tgid) == 4);

/// What attaching a program on system calls again takes.
#[derive(Debug, Clone, Copy)]
struct Detachable {
    row: Attachment,
    /// Its tracepoint's number, where that is known.
    number: Option<u32>,
}

/// Which names may be recorded of what processes have open and run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// Paths (`[record] strings`).
    pub paths: bool,
    /// Addresses of sockets (`[record] structures` or `network`).
    pub addresses: bool,
}

impl Names {
    /// All.
    pub const ALL: Self = Self { paths: true, addresses: true };
}

/// A recording that runs in the kernel, whoever began it.
#[derive(Debug)]
pub struct Recording {
    dir: PathBuf,
    meta: Mutex<Arc<Meta>>,
    live: Arc<live::LiveRings>,
    notes: Notes,
    groups: Groups,
    containers: Containers,
    symbols: Symbols,
    binaries: Binaries,
    /// Samples a second that are wanted.
    hz: AtomicU32,
    /// What makes them.
    samplers: Mutex<Samplers>,
    /// Held while tracepoints are attached that the configuration names.
    tracing: Mutex<()>,
    /// Where tracefs is mounted.
    tracefs: PathBuf,
    /// What root has looked up there of these tracepoints, for a daemon that may not.
    published: BTreeMap<String, Result<Published, String>>,
    /// Bytes of the metadata that are left for names of functions and binaries.
    room: AtomicUsize,
    /// Counts the changes of the metadata.
    changes: AtomicU64,
    /// Held while names are looked up; the failure to enter them that was told last.
    following: Mutex<Option<String>>,
    /// How the programs on system calls are attached again; empty: there are none.
    syscalls: Vec<Detachable>,
    /// Held while the word of switches is rewritten.
    switching: Mutex<()>,
    /// Whether it was begun by this daemon.
    begun: bool,
}

impl Recording {
    /// Takes over the recording under `bpffs_dir` if this daemon's own programs make it, in the
    /// shape that the configuration asks for; else begins a new one, and then ends any other. Those
    /// that were ended are handed out with what they hold, for the files. `rows`: the programs
    /// ([`crate::attachments::ATTACHMENTS`]).
    pub fn adopt_or_begin(
        config: &Config,
        rows: &[Attachment],
        runtime_dir: &Path,
        bpffs_dir: &Path,
    ) -> Result<(Self, Vec<Ended>), RecordingError> {
        let plan = Plan::new(config, rows, runtime_dir)?;
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
                Err(e) => info!("its events can't be read, and are lost: {e}"),
            }
            if let Err(e) = bpffs::remove(&dir) {
                warn!("it could not be removed; the next start tries again: {e}");
            }
        }
        recording.tell_of_namespace()?;
        for Lacking { what, why, .. } in &recording.meta().lacking {
            warn!(lacking = what, "not on this kernel: {what} ({why})");
        }
        recording.groups = Groups::find(&config.kernel.cgroup2);
        recording.set_sampling(&config.sampling);
        recording.tracefs.clone_from(&config.kernel.tracefs);
        recording.published = plan.tracepoints.published().clone();
        recording.set_tracepoints(&config.tracepoint);
        recording.follow();
        Ok((recording, ended))
    }

    fn open(dir: &Path) -> Result<Self, RecordingError> {
        let live = live::LiveRings::open(dir, true)?;
        let document = live.meta()?;
        let notes = Notes::open(dir, document.cpus.clone()).map_err(io("the note program"))?;
        let room = AtomicUsize::new(room(&document, live.meta_half()));
        Ok(Self {
            dir: dir.into(),
            meta: Mutex::new(Arc::new(document)),
            live: Arc::new(live),
            notes,
            groups: Groups::default(),
            containers: Containers::default(),
            symbols: Symbols::open(dir),
            binaries: Binaries::open(dir),
            hz: AtomicU32::new(0),
            samplers: Mutex::default(),
            tracing: Mutex::default(),
            tracefs: PathBuf::new(),
            published: BTreeMap::new(),
            room,
            changes: AtomicU64::new(0),
            following: Mutex::default(),
            syscalls: Vec::new(),
            switching: Mutex::new(()),
            begun: false,
        })
    }

    /// Takes over a running recording, if it is the plan's.
    fn adopt(dir: &Path, plan: &Plan) -> Result<Option<Self>, RecordingError> {
        let mut recording = Self::open(dir)?;
        let meta = recording.meta();
        let theirs = &meta.program;
        if *theirs != plan.identity {
            info!(
                "the running recording has another build or layout (theirs: {theirs}, ours: {})",
                plan.identity
            );
            return Ok(None);
        }
        recording.syscalls = plan.detachable(&meta.lacking);
        if recording.live.budget().detached {
            info!("system calls were detached when the previous daemon ended");
            recording.act(Act::Attached, "system calls are attached on all CPUs");
            recording.attach().map_err(io("attaching system calls again"))?;
        }
        let gone = attach::gone(&plan.rows, &meta.lacking, dir);
        let Some(gone) = gone.map_err(io(dir.display().to_string()))? else {
            warn!("{}: programs of the running recording have been detached", dir.display());
            return Ok(None);
        };
        recording.apply(&plan.record);
        set_thresholds(recording.state(), &plan.thresholds);
        recording.update_meta(|meta| {
            meta.set_tai_offset(clock::mono(), clock::tai_offset());
            meta.set_wall_offset(clock::wall_offset());
            meta.strings = plan.strings;
            meta.config.clone_from(&plan.config);
            meta.lacking.extend(gone);
        })?;
        recording.act(
            Act::Adopt,
            &format!("flightd {} adopted the recording", env!("CARGO_PKG_VERSION")),
        );
        let session = recording.session();
        info!(
            session = format_args!("{session:016x}"),
            "adopted the running recording {session:016x}"
        );
        Ok(Some(recording))
    }

    /// Enters into the metadata that walks do not see all threads. That over threads was made when
    /// the recording began; that over descriptors is made by each daemon.
    fn tell_of_namespace(&self) -> Result<(), RecordingError> {
        let rows = [
            (WALK_OF_THREADS, "names and processes of threads of other PID namespaces from before"),
            (
                WALK_OF_DESCRIPTORS,
                "names of descriptors that processes of other PID namespaces had open before",
            ),
        ];
        let lacking = rows.map(|(program, what)| Lacking {
            program: program.into(),
            what: what.into(),
            kinds: Vec::new(),
            why: "flightd is in a PID namespace of its own: run it in the machine's (hostPID)"
                .into(),
        });
        let is_of_now = |of: &Lacking| {
            of.program == WALK_OF_DESCRIPTORS || self.begun && of.program == WALK_OF_THREADS
        };
        self.update_meta(|meta| {
            meta.lacking.retain(|of| !is_of_now(of));
            if !self.sees_all_threads() {
                meta.lacking.extend(lacking.into_iter().filter(is_of_now));
            }
        })
    }

    /// Begins a new recording: maps, their content, programs; complete only when all is attached.
    fn begin(plan: &Plan, bpffs_dir: &Path) -> Result<Self, RecordingError> {
        let secret = random().map_err(io("/dev/urandom"))?;
        let session = public_id(secret);
        let new = bpffs::create(bpffs_dir, session)?;
        let begun = Self::build(plan, secret, &new).and_then(|()| {
            let dir = bpffs::complete(bpffs_dir, session)?;
            Self::open(&dir)
        });
        match begun {
            Ok(mut recording) => {
                recording.syscalls = plan.detachable(&recording.meta().lacking);
                recording.begun = true;
                recording.apply(&plan.record);
                buckets::set_limits(recording.state(), &plan.budget);
                let limited = plan.budget.per_cpu.millionths().is_some();
                recording.rewrite(|enabled, own| (enabled | buckets::switches(limited), own));
                recording.act(
                    Act::Start,
                    &format!("flightd {} began recording", env!("CARGO_PKG_VERSION")),
                );
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

    /// `secret`: what the pages in the kernel's memory say, and nothing else does.
    fn build(plan: &Plan, secret: u64, new: &Path) -> Result<(), RecordingError> {
        let sizing = &plan.sizing;
        let tables = &plan.tables;
        let native = call_table(&tables.native, false);
        let compat = call_table(&tables.compat, true);
        let native_pointees = pointee_table(&tables.native, false, Architecture::HERE);
        let compat_pointees = pointee_table(&tables.compat, true, Architecture::HERE);
        let cpus = plan.online.len() as u32;
        let frozen = Frozen {
            secret,
            seed: random().map_err(io("/dev/urandom"))? as u32 | 1,
            offsets: plan.offsets,
            machine: plan.constants,
            cast: plan.cast,
            groups: &plan.choice.groups,
            native: &native,
            compat: &compat,
            native_pointees: &native_pointees,
            compat_pointees: &compat_pointees,
            cpus: plan.possible,
            ring_pages: sizing.ring_pages.map(|pages| pages * cpus),
            slot_pages: sizing.slot_pages,
            slot_seed: random().map_err(io("/dev/urandom"))?,
            pseudonym_keys: [
                random().map_err(io("/dev/urandom"))?,
                random().map_err(io("/dev/urandom"))?,
            ],
            frame_base: random().map_err(io("/dev/urandom"))? as u32,
            meta_pages: sizing.meta_pages,
            descriptor_pages: sizing.descriptor_pages,
            quiet_pages: sizing.quiet_pages * cpus,
        };
        let (loader, kernel_btf) = load::loader(&plan.btf);
        let kernel_btf =
            kernel_btf.map_err(|e| io(plan.btf.display().to_string())(io::Error::other(e)))?;
        let mut loaded = load::load(loader, &frozen, &kernel_btf)?;
        load::pin_maps(&loaded, &new.join("maps"))?;
        let map = |name: &str| {
            let path = new.join("maps").join(name);
            ArrayMap::open(&path, true).map_err(io(path.display().to_string()))
        };
        let state = map("state")?.in_values(size_of::<CpuState>());
        prepare_state(&state, plan);
        prepare_slots(&map("slots")?, secret);
        // The costs are those of the programs without a limit: what the limit is charged with.
        let without = calibrate::time(None);
        let ebpf = &mut loaded.ebpf;
        let mut lacking = plan.choice.lacking.clone();
        let rows = &plan.choice.rows;
        lacking.extend(attach::attach(ebpf, rows, &plan.tracepoints, &kernel_btf, new)?);
        multi::load(&loaded.object, &loaded.ebpf, &FUNCTIONS, new);
        let (costs, clock) =
            calibrate::costs(without, &time_attached(&state, plan.enabled, without.as_ref()));
        buckets::set_costs(&state, &costs, clock);
        set_thresholds(&state, &plan.thresholds);
        // Last, for the recording is complete from `Meta::started` on: when all is attached.
        publish_meta(&map("meta")?, &plan.meta(public_id(secret), lacking), secret)?;
        Ok(())
    }

    /// Sets the switches that can change while it records.
    fn apply(&self, record: &Record) {
        let own = if record.own { 0 } else { self.notes.own_tgid() };
        if !record.mask.is_empty() && !self.mask(&record.mask) {
            // What can't be masked is left out.
            warn!("arguments of programs can't be masked, and are not recorded");
            let without = switches(record) & !ENABLE_EXEC_ARGS;
            return self.rewrite(|enabled, _| (enabled & !ENABLE_ALL | without, own));
        }
        self.rewrite(|enabled, _| (enabled & !ENABLE_ALL | switches(record), own));
    }

    /// Puts into force which arguments of programs are masked; `false`: it can't be. Meanwhile none
    /// are recorded.
    fn mask(&self, patterns: &[String]) -> bool {
        /// Longer than a program takes that still looks at the table as it was.
        const WHILE: Duration = Duration::from_millis(2);
        let Ok(table) = mask::compile(patterns) else { return false };
        let Ok(map) = ArrayMap::open(&self.map_path(load::EXEC_MASKS), true) else { return false };
        let mut present = vec![0; table.len()];
        if map.read(0, 0, &mut present) && present == table {
            return true;
        }
        self.rewrite(|enabled, own| (enabled & !ENABLE_EXEC_ARGS, own));
        std::thread::sleep(WHILE);
        map.write(0, 0, &table)
    }

    /// Applies what can change while it records, and enters the configuration into the metadata.
    /// The budget is the keeper's.
    pub fn reconfigure(&self, config: &Config) {
        self.apply(&config.record);
        set_thresholds(self.state(), &Thresholds::of(config));
        self.set_sampling(&config.sampling);
        self.set_tracepoints(&config.tracepoint);
        let changed = self.update_meta(|meta| {
            meta.strings = config.record.strings;
            meta.config = config.to_toml();
        });
        if let Err(e) = changed {
            warn!("the recording's metadata still have the previous configuration: {e}");
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
        let _switching = self.switching.lock().unwrap_or_else(PoisonError::into_inner);
        let word = self.state().load(cpu, 0);
        let before = (word as u32, (word >> 32) as u32);
        let (enabled, own) = change(before.0, before.1);
        self.state().write(cpu, 0, &(u64::from(enabled) | u64::from(own) << 32).to_le_bytes());
        before
    }

    /// Sets what a CPU's probes may take, and what they leave out (`GIVEN_…` bits).
    pub fn set_limit(&self, cpu: usize, limit: &Limit, burst: u32, costs: &Costs) {
        let limited = limit.share.is_some();
        let switch = || {
            let bits = limit.given | buckets::switches(limited);
            self.rewrite_on(cpu, |enabled, own| {
                (enabled & !(GIVEN_ALL | buckets::switches(true)) | bits, own)
            });
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

    /// Whether the walks over all threads see those of other PID namespaces: they see what their
    /// reader does (`task_seq_get_next`, kernel/bpf/task_iter.c, Linux 6.18).
    pub fn sees_all_threads(&self) -> bool {
        sys::is_in_first_pid_namespace() != Some(false)
    }

    /// Times a system call of this thread, which it pins to a CPU meanwhile. `None` where the
    /// recorder's own calls are recorded anyway.
    pub fn time_own_calls(&self, cpu: usize) -> Option<calibrate::Own> {
        let _pinned = calibrate::Pinned::to(cpu).ok()?;
        let (_, own) = self.rewrite_on(cpu, |enabled, own| (enabled, own));
        if own != self.notes.own_tgid() {
            return None;
        }
        let clock = calibrate::time_clock();
        let left_out = calibrate::time_call_briefly();
        self.rewrite_on(cpu, |enabled, _| (enabled, 0));
        let recorded = calibrate::time_call_briefly();
        self.rewrite_on(cpu, |enabled, _| (enabled, own));
        Some(calibrate::Own { recorded, left_out, clock })
    }

    /// Whether the recorder's own calls are recorded as well.
    pub fn records_own(&self) -> bool {
        self.state().load(0, 0) >> 32 == 0
    }

    /// Whether attaching them again, or the clock of a CPU that comes back, opens perf events.
    pub fn needs_perf_events(&self) -> bool {
        let form = |of: &Detachable| of.row.tracepoint().map(|(_, form)| form);
        self.syscalls.iter().any(|of| form(of) == Some(ProgramForm::Tracepoint))
            || self.hz.load(Ordering::Relaxed) != 0
            || self.meta().tracepoints.iter().any(|of| of.until == 0)
    }

    /// Detaches the programs on system calls: none is recorded, counted or paid for until
    /// [`Self::attach`]. `false`: there are none.
    pub fn detach(&self) -> io::Result<bool> {
        if self.syscalls.is_empty() {
            return Ok(false);
        }
        self.set_detached(true);
        self.syscalls.iter().try_for_each(|of| attach::detach(&of.row, &self.dir))?;
        Ok(true)
    }

    /// Attaches them again, where they are not.
    pub fn attach(&self) -> io::Result<()> {
        if self.syscalls.is_empty() {
            return Ok(());
        }
        // What was entered when they were detached is not what exits next.
        let at = offset_of!(CpuState, lanes) + Lane::Syscall as usize * size_of::<LaneState>();
        for cpu in 0..self.state().entries() {
            if let Some(entered) = self.state().u32(cpu, at + offset_of!(LaneState, entered)) {
                entered.store(entered::UNKNOWN, Ordering::Release);
            }
        }
        for Detachable { row, number } in &self.syscalls {
            attach::attach_again(row, *number, &self.dir)?;
        }
        self.set_detached(false);
        Ok(())
    }

    /// Notes that system calls are detached, or no longer, and for how long they were until now.
    fn set_detached(&self, detached: bool) {
        self.count_detached();
        let moment = if detached { clock::mono() } else { 0 };
        for cpu in 0..self.state().entries() {
            self.state().write(cpu, offset_of!(CpuState, detached), &moment.to_le_bytes());
        }
    }

    /// Counts the time for which they have been detached until now, if they are, so that headers of
    /// pages tell it.
    pub fn count_detached(&self) {
        let (since, time) = (offset_of!(CpuState, detached), offset_of!(CpuState, detached_time));
        let now = clock::mono();
        let counted = self.state().load(0, since);
        if counted == 0 {
            return;
        }
        let all = self.state().load(0, time).saturating_add(now.saturating_sub(counted));
        for cpu in 0..self.state().entries() {
            self.state().write(cpu, time, &all.to_le_bytes());
            self.state().write(cpu, since, &now.to_le_bytes());
        }
    }

    /// The probes' state.
    pub fn state(&self) -> &ArrayMap {
        &self.live.maps().state
    }

    /// Which names may be recorded of what processes have open and run, as the switches are now.
    pub fn names(&self) -> Names {
        let enabled = self.state().load(0, 0) as u32;
        let has = |bits: u32| enabled & bits != 0;
        Names {
            paths: has(ENABLE_STRINGS),
            addresses: has(ENABLE_STRUCTURES | Topic::Network.bit()),
        }
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

    /// Ends it, and removes everything from the kernel, but for the memory of what it has recorded,
    /// which is there to be read ([`Self::live`]) as long as this value lives.
    pub fn end(&self) -> Result<(), RecordingError> {
        // The links go a little later than their pins (`bpf_link_put` leaves it to a worker,
        // kernel/bpf/syscall.c); the switches hold at once.
        self.rewrite(|_, _| (0, self.notes.own_tgid()));
        let mut meta = Meta::clone(&self.meta());
        if let Err(e) = say_ended(&self.live, &mut meta) {
            warn!("the recording could not be marked as ended in its metadata: {e}");
        }
        Ok(bpffs::remove(&self.dir)?)
    }

    /// The recording as readers see it.
    pub fn live(&self) -> &Arc<live::LiveRings> {
        &self.live
    }

    /// Its metadata.
    pub fn meta(&self) -> Arc<Meta> {
        self.meta.lock().map_or_else(|e| e.into_inner().clone(), |m| m.clone())
    }

    /// Its public session id.
    pub fn session(&self) -> u64 {
        self.meta().session
    }

    /// Kernel memory of rings and tables, bytes.
    pub fn memory(&self) -> u64 {
        self.live.maps().bytes()
    }

    /// Where it is pinned.
    pub fn dir(&self) -> &Path {
        &self.dir
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
        self.dir.join("links").join(FILE_WALK)
    }

    /// Where blocked threads wait at this moment. [`io::ErrorKind::NotFound`]: the kernel can't
    /// tell.
    pub fn blocked_stacks(&self) -> io::Result<Vec<ThreadStack>> {
        let file = fs::File::open(self.dir.join("links").join(STACK_WALK))?;
        let mut stacks = Vec::new();
        ThreadStack::walk(file, |stack| stacks.push(stack))?;
        Ok(stacks)
    }

    /// Records a user's line.
    pub fn mark(&self, text: &str, tid: u32) -> Result<(), String> {
        self.notes.mark(text, tid).map_err(|e| e.to_string())
    }

    /// Records an act of the recorder. That it could not is no reason to stop.
    pub fn act(&self, act: Act, text: &str) {
        if let Err(e) = self.notes.act(act, text) {
            warn!("this could not be noted in the recording: {text}: {e}");
        }
    }

    /// CPUs that run now and have no ring: they came online after the recording began.
    pub fn unrecorded_cpus(&self) -> Vec<u16> {
        let meta = self.meta();
        cpus::online()
            .unwrap_or_default()
            .into_iter()
            .filter(|cpu| !meta.cpus.contains(cpu))
            .collect()
    }
}

/// Sets what is long enough to be recorded, and how many frames a stack has.
fn set_thresholds(state: &ArrayMap, thresholds: &Thresholds) {
    let Thresholds { stacks, interrupts, locks } = thresholds;
    let words = [
        (offset_of!(CpuState, frames), u64::from(stacks.kernel_frames)),
        (offset_of!(CpuState, long_wait), stacks.long_wait()),
        (offset_of!(CpuState, long_interrupt), interrupts.ns()),
        (offset_of!(CpuState, long_lock), locks.ns()),
    ];
    for cpu in 0..state.entries() {
        for (at, word) in words {
            state.write(cpu, at, &word.to_le_bytes());
        }
    }
}

/// Sets what a recording's programs record, and whose system calls they leave out.
fn switch(live: &live::LiveRings, enabled: u32, own_tgid: u32) {
    let word = u64::from(enabled) | u64::from(own_tgid) << 32;
    for cpu in 0..live.maps().state.entries() {
        live.maps().state.write(cpu, 0, &word.to_le_bytes());
    }
}

/// A number that nobody can know: what the pages of a new recording say in the kernel's memory
/// ([`flightrec_format::identity`]), or where threads stand in its table. Never 0.
fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes).max(1))
}
