//! Which system calls are wanted, by name, number or class, or which are not.

use rustc_hash::FxHashSet;

use flightrec_format::abi::record::Abi;
use flightrec_format::decode::Call;
use flightrec_format::meta::{Argument, Meta, Syscall};

use super::FilterError;
use super::class::Class;
use crate::suggest::{hint, nearest};

/// System calls as typed.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct CallNames {
    names: Vec<String>,
    /// All but these.
    but: bool,
}

impl CallNames {
    /// `!` before the first turns the whole list round, as strace has it.
    pub(super) fn new(typed: Vec<String>) -> Result<Self, FilterError> {
        let but = typed.first().is_some_and(|first| first.starts_with('!'));
        let mut names = Vec::with_capacity(typed.len());
        for name in typed {
            match name.strip_prefix('!') {
                Some(_) if !but => return Err(FilterError::Negation { name }),
                Some(name) => names.push(name.to_owned()),
                None => names.push(name),
            }
        }
        names.retain(|name| !name.is_empty());
        Ok(Self { names, but })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Looks the names up in a recording's own tables.
    pub(super) fn resolve(&self, meta: &Meta) -> Result<Option<CallSet>, FilterError> {
        if self.is_empty() {
            return Ok(None);
        }
        let mut calls = FxHashSet::default();
        for name in &self.names {
            let number = name.parse::<u16>().ok();
            let class = Class::named(name);
            let mut known = false;
            let mut take = |table: &[Syscall], abis: &[Abi], number: Option<u16>| {
                let wanted = |call: &&Syscall| match class {
                    Some(class) => class.has(call, arguments(call, meta)),
                    None => call.name == *name || Some(call.nr) == number,
                };
                for call in table.iter().filter(wanted) {
                    known = true;
                    calls.extend(abis.iter().map(|abi| (*abi, call.nr)));
                }
            };
            take(&meta.native, &[Abi::Native, Abi::X32], number);
            take(&meta.compat, &[Abi::Compat], None); // a number means the machine's own table
            if let Some(number) = number {
                calls.insert((Abi::Native, number));
            } else if !known && class.is_none() {
                let classes = Class::ALL.map(Class::name);
                let names = meta.native.iter().chain(&meta.compat).map(|call| call.name.as_str());
                let bare = name.strip_prefix('%').unwrap_or(name);
                let hint = hint(&nearest(bare, names.chain(classes)));
                return Err(FilterError::Syscall { name: name.clone(), hint });
            }
        }
        Ok(Some(CallSet { calls, but: self.but }))
    }
}

/// A call's arguments; of a 32-bit one without published arguments, those of the call of its name
/// in the machine's own table: for its class they are the same.
pub(super) fn arguments<'m>(call: &'m Syscall, meta: &'m Meta) -> Option<&'m [Argument]> {
    let native = || meta.native.iter().find(|native| native.name == call.name)?.args.as_deref();
    call.args.as_deref().or_else(native)
}

/// A set of system calls.
#[derive(Debug, Clone)]
pub(super) struct CallSet {
    calls: FxHashSet<(Abi, u16)>,
    but: bool,
}

impl CallSet {
    pub(super) fn has(&self, call: &Call) -> bool {
        self.has_number(call.abi, call.nr)
    }

    pub(super) fn has_number(&self, abi: Abi, nr: u16) -> bool {
        self.calls.contains(&(abi, nr)) != self.but
    }
}
