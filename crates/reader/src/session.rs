//! The recording that an event is of.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use flightrec_format::abi::record::Abi;
use flightrec_format::containers::{Container, Containers};
use flightrec_format::decode::unnamed_call;
use flightrec_format::failure::Failures;
use flightrec_format::meta::Meta;
use flightrec_format::symbols::Symbols;

use crate::boots::{self, BootId};
use crate::names::{Calls, NUMBERS};

/// What all events of one recording share: the machine's description and its tables of names.
///
/// A recording begins when flightd attaches its probes, and ends with the boot or when it is
/// replaced.
pub struct Session {
    meta: Meta,
    boot: BootId,
    native: Vec<Option<Box<str>>>,
    compat: Vec<Option<Box<str>>>,
    failures: Failures,
    symbols: Symbols,
    containers: Containers,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Meta { session, host, kernel, .. } = &self.meta;
        let boot = boots::id_text(&self.boot);
        write!(f, "Session {session:016x} of {host}, {kernel}, boot {boot}")
    }
}

impl Session {
    /// Of a recording.
    pub fn new(meta: &Meta) -> Self {
        let calls = Calls::new(meta);
        let names = |abi| {
            let mut names: Vec<Option<Box<str>>> =
                calls.table(abi).iter().map(|call| call.map(|call| call.name.into())).collect();
            names.truncate(NUMBERS);
            names
        };
        let (native, compat) = (names(Abi::Native), names(Abi::Compat));
        let (boot, failures) = (boots::of_meta(meta), Failures::new(meta));
        let (symbols, containers) = (Symbols::new(meta), Containers::new(meta));
        Self { meta: meta.clone(), boot, native, compat, failures, symbols, containers }
    }

    /// The recording's description of itself: host, kernel, CPUs, configuration, tables.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The boot that it is of, as `/proc/sys/kernel/random/boot_id` told it.
    pub fn boot(&self) -> BootId {
        self.boot
    }

    /// Name of a system call.
    pub fn call_name(&self, abi: Abi, nr: u16) -> Option<&str> {
        let table = match abi {
            Abi::Native | Abi::X32 => &self.native,
            Abi::Compat => &self.compat,
        };
        table.get(usize::from(nr))?.as_deref()
    }

    /// Name of a system call, or [what one without a name is called](unnamed_call).
    pub fn call_label(&self, abi: Abi, nr: u16) -> Cow<'_, str> {
        self.call_name(abi, nr).map_or_else(|| unnamed_call(nr), Cow::from)
    }

    /// Which return values of its calls are errors.
    pub fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Names of the functions in its stacks ([`flightrec_format::decode::Stack::frames`]).
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Path of a control group by its id (its inode number in cgroup v2); `None`: the recording has
    /// no name of it.
    pub fn cgroup(&self, id: u64) -> Option<&str> {
        let groups: &BTreeMap<u64, String> = &self.meta.cgroups;
        groups.get(&id).map(String::as_str)
    }

    /// The container, or the pod, that a control group is in; `None`: it is in neither, or the
    /// recording has no name of the group.
    pub fn container(&self, cgroup: u64) -> Option<&Container> {
        self.containers.get(cgroup)
    }
}
