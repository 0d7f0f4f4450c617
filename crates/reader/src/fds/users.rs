//! The system calls that take or return a descriptor: most have nothing to do with them.

use flightrec_format::abi::record::Abi;

use super::makes_descriptor;
use flightrec_format::meta::{is_descriptor, is_directory};

use crate::names::{Call, Calls};

/// The system calls that take or return a descriptor, by table and number.
#[derive(Debug, Clone)]
pub(crate) struct Users {
    native: Box<[bool]>,
    compat: Box<[bool]>,
}

impl Users {
    /// Of a recording.
    pub(crate) fn new(calls: &Calls<'_>) -> Self {
        let table = |abi| {
            let uses = |call: &Option<Call<'_>>| call.as_ref().is_some_and(uses);
            calls.table(abi).iter().map(uses).collect()
        };
        Self { native: table(Abi::Native), compat: table(Abi::Compat) }
    }

    /// Whether this call does.
    #[inline]
    pub(crate) fn has(&self, abi: Abi, nr: u16) -> bool {
        let table = match abi {
            Abi::Native | Abi::X32 => &self.native,
            Abi::Compat => &self.compat,
        };
        table.get(usize::from(nr)).copied().unwrap_or(false)
    }
}

fn uses(call: &Call<'_>) -> bool {
    makes_descriptor(call.name)
        || call.arguments.into_iter().flatten().take(ARGUMENTS).any(|argument| {
            is_descriptor(call.name, argument) || is_directory(call.name, &argument.name)
        })
}

/// Arguments of a call.
const ARGUMENTS: usize = 6;
