//! What system calls are to the model, by their names in the recording.

use rustc_hash::FxHashMap;

use flightrec_format::abi::record::Abi;
use flightrec_format::decode::unnamed_call;
use flightrec_format::meta::Meta;

use crate::CallId;
use crate::syscalls::{CallKind, kind};

/// The calls of a recording.
#[derive(Debug, Clone, Default)]
pub(super) struct Kinds {
    calls: FxHashMap<(Abi, u16), (Box<str>, CallKind)>,
}

impl Kinds {
    pub(super) fn new(meta: &Meta) -> Self {
        let tables =
            [(Abi::Native, &meta.native), (Abi::X32, &meta.native), (Abi::Compat, &meta.compat)];
        let of = |(abi, table): (Abi, &Vec<flightrec_format::meta::Syscall>)| {
            let one = move |call: &flightrec_format::meta::Syscall| {
                ((abi, call.nr), (printable(&call.name), kind(&call.name)))
            };
            table.iter().map(one).collect::<Vec<_>>()
        };
        Self { calls: tables.into_iter().flat_map(of).collect() }
    }

    pub(super) fn kind(&self, call: CallId) -> CallKind {
        self.calls.get(&(call.abi, call.nr)).map_or(CallKind::Other, |(_, kind)| *kind)
    }

    pub(super) fn name(&self, call: CallId) -> String {
        match self.calls.get(&(call.abi, call.nr)) {
            Some((name, _)) => name.to_string(),
            None => unnamed_call(call.nr).into_owned(),
        }
    }

    /// Whether a call has this name.
    pub(super) fn is(&self, call: CallId, name: &str) -> bool {
        self.calls.get(&(call.abi, call.nr)).is_some_and(|(known, _)| **known == *name)
    }
}

/// Names are identifiers; anything else in one is no letter of it.
fn printable(name: &str) -> Box<str> {
    name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(64).collect()
}
