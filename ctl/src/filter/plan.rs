//! A filter as typed, and what can be wrong with it.

use std::sync::Arc;

use thiserror::Error;

use flightrec_analysis::Failures;
use flightrec_format::abi::page::Lane;
use flightrec_format::meta::Meta;
use flightrec_reader::kind::{Kind, Kinds};
use flightrec_reader::window::nanos;

use super::calls::CallNames;
use super::class::Class;
use super::paths::{self, Paths};
use super::spec::FilterSpec;
use super::{Filter, Limits, Names, errors, tracepoints};
use super::{devices, groups};
use crate::suggest::{hint, nearest};

/// A filter as typed; calls and control groups are still names, which only a recording can explain.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FilterPlan {
    pub(super) pids: Vec<u32>,
    pub(super) tids: Vec<u32>,
    pub(super) trees: Vec<u32>,
    pub(super) comms: Vec<String>,
    pub(super) cpus: Vec<u16>,
    pub(super) cgroups: Vec<String>,
    pub(super) units: Vec<String>,
    pub(super) containers: Vec<String>,
    pub(super) pods: Vec<String>,
    pub(super) calls: CallNames,
    pub(super) paths: Vec<String>,
    pub(super) errors: bool,
    pub(super) errnos: Vec<i32>,
    pub(super) slower_than: Option<u64>,
    pub(super) faster_than: Option<u64>,
    pub(super) devices: Vec<String>,
    pub(super) tracepoints: Vec<String>,
    pub(super) traces: Vec<[u8; 16]>,
    pub(super) kinds: Kinds,
}

/// A filter that means nothing.
#[derive(Debug, Error)]
pub enum FilterError {
    /// No such kind of event.
    #[error("--event: there is no kind `{name}`{hint} (kinds: {})", Kind::ALL.map(Kind::name).join(", "))]
    Event {
        /// What was typed.
        name: String,
        /// The nearest names.
        hint: String,
    },
    /// No such system call in the recording's tables, nor such a class.
    #[error("--syscall: the recorded kernel has no system call `{name}`{hint} (classes: {})", Class::ALL.map(Class::name).join(", "))]
    Syscall {
        /// What was typed.
        name: String,
        /// The nearest names.
        hint: String,
    },
    /// A `!` in the middle of a list.
    #[error("--syscall: `{name}`: a ! goes before the first name, and applies to the whole list")]
    Negation {
        /// What was typed.
        name: String,
    },
    /// No such error.
    #[error("--errno: there is no error `{name}`{hint}")]
    Errno {
        /// What was typed.
        name: String,
        /// The nearest names.
        hint: String,
    },
    /// Not a pattern of names.
    #[error("--comm: `{name}`: {reason}")]
    Comm {
        /// What was typed.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Two limits that no time is between.
    #[error("--slower-than is not below --faster-than: nothing can match")]
    Durations,
    /// Not a pattern.
    #[error("--path: `{pattern}`: {reason}")]
    Path {
        /// What was typed.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No such disk.
    #[error("--device: the recording knows no disk `{name}`{hint}")]
    Device {
        /// What was typed.
        name: String,
        /// The nearest names, and what else may help.
        hint: String,
    },
    /// No such tracepoint.
    #[error("--event: the recording has no tracepoint `{name}`{hint}")]
    Tracepoint {
        /// What was typed.
        name: String,
        /// The nearest names, and what else may help.
        hint: String,
    },
    /// No such control group.
    #[error("--cgroup: the recording knows no control group `{name}`{hint}")]
    Cgroup {
        /// What was typed.
        name: String,
        /// The nearest names, and what else may help.
        hint: String,
    },
    /// No such container.
    #[error("--container: the recording knows no container `{name}`{hint}")]
    Container {
        /// What was typed.
        name: String,
        /// The nearest names, and what else may help.
        hint: String,
    },
    /// No such pod.
    #[error("--pod: the recording knows no pod `{name}`{hint}")]
    Pod {
        /// What was typed.
        name: String,
        /// The nearest names, and what else may help.
        hint: String,
    },
    /// No such unit.
    #[error("--unit: the recording knows no unit `{name}`{hint}")]
    Unit {
        /// What was typed, completed.
        name: String,
        /// The nearest names, and what else may help.
        hint: String,
    },
}

impl FilterPlan {
    /// With events of this kind as well, of the same threads and CPUs.
    #[must_use]
    pub fn with(self, kind: Kind) -> Self {
        Self { kinds: self.kinds.with(kind), ..self }
    }

    /// Takes the filters as typed.
    pub fn new(spec: FilterSpec) -> Result<Self, FilterError> {
        let FilterSpec { pid, tid, tree, comm, cgroup, unit, container, pod, cpu, .. } = spec;
        let FilterSpec { syscall, path, errors, errno, slower_than, faster_than, .. } = spec;
        let FilterSpec { device, event, .. } = spec;
        Names::new(&comm)?;
        if slower_than.zip(faster_than).is_some_and(|(least, limit)| least >= limit) {
            return Err(FilterError::Durations);
        }
        let calls = CallNames::new(syscall)?;
        paths::compile(&path)?;
        let errnos =
            errno.iter().map(|name| errors::number(name)).collect::<Result<Vec<_>, _>>()?;
        let mut kinds = Kinds::NONE;
        let (mut tracepoints, names): (Vec<String>, Vec<String>) =
            event.iter().cloned().partition(|name| tracepoints::is_one(name));
        if !tracepoints.is_empty() {
            kinds = kinds.with(Kind::Tracepoint);
        }
        if names.iter().any(|name| name == Kind::Tracepoint.name()) {
            // All of them.
            tracepoints.clear();
        }
        for name in &names {
            if name == devices::KINDS {
                kinds = Kind::ALL
                    .into_iter()
                    .filter(|kind| devices::has_device(*kind))
                    .fold(kinds, Kinds::with);
                continue;
            }
            let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == name) else {
                let hint = hint(&nearest(name, Kind::ALL.map(Kind::name)));
                return Err(FilterError::Event { name: name.clone(), hint });
            };
            kinds = kinds.with(kind);
        }
        if event.is_empty() {
            // How a call ended only its end can tell.
            let ends =
                errors || !errnos.is_empty() || slower_than.is_some() || faster_than.is_some();
            kinds = match () {
                () if !device.is_empty() => devices::kinds(),
                () if ends => Kinds::NONE.with(Kind::SysExit),
                () if !calls.is_empty() => Kinds::SYSCALLS,
                () if !path.is_empty() => Kinds::OF_PATHS,
                () => Kinds::ALL,
            };
        }
        Ok(Self {
            pids: pid,
            tids: tid,
            trees: tree,
            comms: comm,
            cpus: cpu,
            cgroups: cgroup,
            units: unit,
            containers: container,
            pods: pod,
            calls,
            paths: path,
            errors,
            errnos,
            slower_than: slower_than.map(nanos),
            faster_than: faster_than.map(nanos),
            devices: device,
            tracepoints,
            traces: Vec::new(),
            kinds,
        })
    }

    /// The same of threads while they work for these distributed traces alone; none: for any.
    #[must_use]
    pub fn of_traces(self, traces: Vec<[u8; 16]>) -> Self {
        Self { traces, ..self }
    }

    /// A filter that wants the events of one thread.
    pub fn thread(tid: u32) -> Self {
        Self { tids: vec![tid], ..Self::all() }
    }

    /// The same of system calls alone.
    #[must_use]
    pub fn of_calls(self) -> Self {
        Self { kinds: self.kinds.and(Kinds::SYSCALLS), ..self }
    }

    /// A filter that wants everything.
    pub fn all() -> Self {
        Self { kinds: Kinds::ALL, ..Self::default() }
    }

    /// Whether it asks what descriptors stand for, which all that was opened before its window
    /// tells.
    pub fn wants_files(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Whether it asks for something that may have been given up of calls that are recorded.
    pub fn can_doubt(&self) -> bool {
        !self.paths.is_empty() || self.is_timed() || self.calls.needs_entries()
    }

    /// Whether it asks how long calls took.
    pub(super) fn is_timed(&self) -> bool {
        self.slower_than.is_some() || self.faster_than.is_some()
    }

    /// Whether it asks for threads by their names.
    pub fn wants_names(&self) -> bool {
        !self.comms.is_empty()
    }

    /// Whether it may want an event, where threads have no names but these.
    pub fn may_want_one<'n>(&self, mut names: impl Iterator<Item = &'n [u8]>) -> bool {
        // What is no pattern has been refused.
        Names::new(&self.comms)
            .map_or(true, |wanted| wanted.is_empty() || names.any(|name| wanted.has(name)))
    }

    /// Whether it wants only kinds of event of the task lane.
    pub fn is_of_tasks(&self) -> bool {
        Kind::ALL.into_iter().all(|kind| !self.kinds.has(kind) || kind.lane() == Lane::Task)
    }

    /// Looks the names up in a recording's own tables.
    pub fn resolve(&self, meta: &Meta) -> Result<Filter, FilterError> {
        Ok(Filter {
            pids: self.pids.iter().copied().collect(),
            tids: self.tids.iter().copied().collect(),
            trees: self.trees.iter().copied().collect(),
            comms: Names::new(&self.comms)?,
            cpus: self.cpus.iter().copied().collect(),
            groups: groups::sets(self, meta)?,
            calls: self.calls.resolve(meta)?,
            paths: Paths::new(&self.paths, meta)?,
            undecided: Arc::default(),
            errors: self.errors,
            errnos: self.errnos.iter().copied().collect(),
            failures: Failures::new(meta),
            slower_than: self.slower_than,
            faster_than: self.faster_than,
            devices: devices::numbers(&self.devices, meta)?,
            tracepoints: tracepoints::numbers(&self.tracepoints, meta)?,
            traces: self.traces.clone(),
            kinds: self.kinds,
            limits: Limits::default(),
        })
    }
}
