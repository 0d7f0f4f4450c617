//! What a new recording is to be: from the configuration and what the machine is.

use std::fs;
use std::path::{Path, PathBuf};

use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::abi::probe::{Machine, Offsets};
use flightrec_format::abi::state::{
    ENABLE_EXEC_ARGS, ENABLE_EXEC_FILE, ENABLE_EXEC_MASK, ENABLE_SAMPLES, ENABLE_STRINGS,
    ENABLE_STRUCTURES, ENABLE_TRACEPOINTS,
};
use flightrec_format::architecture::Architecture;
use flightrec_format::live::sys::Cast;
use flightrec_format::meta::{Lacking, Lanes, Meta, SwitchedOff, TaiOffset};
use nix::sys::utsname::uname;
use tracing::info;

use super::{Detachable, RecordingError, io};
use crate::attachments::{self, Attachment, ProgramForm, Wanted};
use crate::btf::Btf;
use crate::config::{
    Budget, Config, ExecArgs, Long, Record, Sizing, Stacks, SyscallPrograms, Topic, ram_bytes,
};
use crate::load::{Choice, LoadError};
use crate::syscalls::SyscallTables;
use crate::tracefs::Tracepoints;
use crate::{clock, cpus, load, lockdown};

/// From when on something counts as long.
pub(super) struct Thresholds {
    pub(super) stacks: Stacks,
    pub(super) interrupts: Long,
    pub(super) locks: Long,
}

impl Thresholds {
    pub(super) fn of(config: &Config) -> Self {
        let Config { stacks, interrupts, locks, .. } = config.clone();
        Self { stacks, interrupts, locks }
    }
}

/// What this daemon, on this machine, with this configuration, would record.
pub(super) struct Plan {
    pub(super) sizing: Sizing,
    pub(super) online: Vec<u16>,
    pub(super) possible: u32,
    pub(super) offsets: Offsets,
    pub(super) constants: Machine,
    pub(super) cast: Option<Cast>,
    pub(super) tracepoints: Tracepoints,
    pub(super) tables: SyscallTables,
    wanted: Wanted,
    /// The programs that the configuration asks for.
    pub(super) rows: Vec<Attachment>,
    /// What it leaves out.
    switched_off: Vec<SwitchedOff>,
    /// Those of them that this kernel has.
    pub(super) choice: Choice,
    uses_kernel_lane: bool,
    pub(super) strings: bool,
    pub(super) enabled: u32,
    pub(super) record: Record,
    pub(super) thresholds: Thresholds,
    pub(super) budget: Budget,
    pub(super) btf: PathBuf,
    pub(super) config: String,
    pub(super) release: String,
    pub(super) machine: String,
    pub(super) host: String,
    pub(super) identity: String,
}

/// Variable that has the machine's name.
const HOST: &str = "FLIGHTD_HOST";

/// The machine's name: what is given, or else its host name.
fn host(given: Option<String>, name: &str) -> String {
    given.filter(|given| !given.trim().is_empty()).unwrap_or_else(|| name.to_owned())
}

impl Plan {
    pub(super) fn new(
        config: &Config,
        rows: &[Attachment],
        runtime_dir: &Path,
    ) -> Result<Self, RecordingError> {
        lockdown::check(Path::new(lockdown::FILE))?;
        let online = cpus::online().map_err(io("the list of CPUs"))?;
        let possible = cpus::possible().map_err(io("the list of CPUs"))?;
        let sizing = Sizing::compute(config, online.len() as u32, possible, ram_bytes())?;
        if sizing.shrunk {
            info!(
                bytes = sizing.total,
                "rings are smaller than configured, {} bytes, to stay within max_total and \
                 max_ram_percent",
                sizing.total
            );
        }
        let names = uname().map_err(|e| io("uname")(e.into()))?;
        let release = names.release().to_string_lossy().into_owned();
        let btf = Btf::read(&config.kernel.btf)?;
        let (offsets, constants) = load::examine(&btf, &release)?;
        let cast = load::cast(&btf);
        let tracepoints =
            Tracepoints::find(&config.kernel.tracefs, rows, &config.tracepoint, runtime_dir)?;
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
        let wanted = Wanted::new(form, record, &config.sampling);
        let switched_off = attachments::switched_off(rows, &wanted);
        let rows = attachments::wanted(rows, &wanted);
        let choice = load::choose(&rows, &btf, &tracepoints);
        let identity = format!(
            "{} rings {:?} quiet {} slots {} {wanted:?}",
            load::probes_id(),
            sizing.ring_pages,
            sizing.quiet_pages,
            sizing.slot_pages
        );
        Ok(Self {
            sizing,
            online,
            possible,
            offsets,
            constants,
            cast,
            tracepoints,
            tables,
            wanted,
            rows,
            switched_off,
            choice,
            uses_kernel_lane: config.uses_kernel_lane(),
            strings: record.strings,
            enabled: switches(record),
            record: record.clone(),
            thresholds: Thresholds::of(config),
            budget: config.budget.clone(),
            btf: config.kernel.btf.clone(),
            config: config.to_toml(),
            machine: Architecture::HERE.name().to_owned(),
            host: host(std::env::var(HOST).ok(), &names.nodename().to_string_lossy()),
            release,
            identity,
        })
    }

    /// How the programs on system calls are attached again, in a recording that lacks some.
    pub(super) fn detachable(&self, lacking: &[Lacking]) -> Vec<Detachable> {
        let is_here = |row: &&Attachment| !row.is_among(lacking);
        let calls = self.rows.iter().filter(|row| row.topic == Some(Topic::Syscalls));
        let detachable = |row: &Attachment| {
            let number = row.tracepoint().and_then(|(of, _)| self.tracepoints.number(of));
            Detachable { row: *row, number }
        };
        calls.filter(is_here).map(detachable).collect()
    }

    pub(super) fn meta(&self, session: u64, lacking: Vec<Lacking>) -> Meta {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Meta {
            session,
            boot_id: boot_id.trim().into(),
            host: self.host.clone(),
            kernel: self.release.clone(),
            machine: self.machine.clone(),
            recorder: env!("CARGO_PKG_VERSION").into(),
            program: self.identity.clone(),
            syscall_programs: if self.record.syscalls { self.wanted.form.name() } else { "none" }
                .into(),
            started: clock::mono(),
            wall_offsets: vec![clock::wall_offset()],
            tai_offsets: vec![TaiOffset { since: 0, seconds: clock::tai_offset() }],
            cpus: self.online.clone(),
            lanes: Lanes::new(
                self.sizing.ring_bytes(),
                Lane::RINGS.map(|lane| {
                    let others = lane == Lane::Kernel && self.uses_kernel_lane;
                    !(self.record.has_any(lane) || others)
                }),
            ),
            quiet_bytes: u64::from(self.sizing.quiet_pages)
                * PAGE_SIZE as u64
                * self.online.len() as u64,
            strings: self.strings,
            switched_off: self.switched_off.clone(),
            lacking,
            config: self.config.clone(),
            native: self.tables.native.clone(),
            compat: self.tables.compat.clone(),
            ..Meta::default() // control groups: see `Recording::follow`
        }
    }
}

/// The `ENABLE_…` bits of what is to be recorded.
pub(super) fn switches(record: &Record) -> u32 {
    let exec_args = if record.strings { record.exec_args } else { ExecArgs::None };
    let topics = Topic::ALL.map(|topic| (record.has(topic), topic.bit()));
    let others = [
        // Its clocks are what is switched, and the links of these.
        (true, ENABLE_SAMPLES),
        (true, ENABLE_TRACEPOINTS),
        (record.strings, ENABLE_STRINGS),
        (record.structures, ENABLE_STRUCTURES),
        (exec_args != ExecArgs::None, ENABLE_EXEC_FILE),
        (exec_args == ExecArgs::All, ENABLE_EXEC_ARGS),
        (!record.mask.is_empty(), ENABLE_EXEC_MASK),
    ];
    topics.into_iter().chain(others).filter(|(on, _)| *on).map(|(_, bit)| bit).sum()
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn the_machines_name_is_the_given_one() {
        let of = |given: Option<&str>| host(given.map(str::to_owned), "flightd-x7k2p");
        assert_eq!((of(Some("node-1")), of(None)), ("node-1".into(), "flightd-x7k2p".into()));
        assert_eq!(of(Some(" ")), "flightd-x7k2p", "as good as none");
    }
}
