//! Which system calls are wanted, by name, number or class, or which are not.

use rustc_hash::FxHashSet;

use flightrec_format::abi::probe::CALLS;
use flightrec_format::abi::record::{Abi, NR_INVALID};
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

    /// Whether there are calls of which the end alone does not tell whether they are wanted.
    pub(super) fn needs_entries(&self) -> bool {
        self.names.iter().any(|name| beyond(name).is_some())
    }

    /// Looks the names up in a recording's own tables.
    pub(super) fn resolve(&self, meta: &Meta) -> Result<Option<CallSet>, FilterError> {
        if self.is_empty() {
            return Ok(None);
        }
        let mut calls = FxHashSet::default();
        let beyond = self.names.iter().filter_map(|name| beyond(name)).collect();
        for name in &self.names {
            if let Some(number) = unnamed(name) {
                // In whichever table has no name for it, as `dump` shows it.
                let nr = u16::try_from(number).ok().filter(|nr| *nr < NR_INVALID);
                let has = |table: &[Syscall]| table.iter().any(|call| Some(call.nr) == nr);
                let tables = [
                    (Abi::Native, has(&meta.native)),
                    (Abi::X32, has(&meta.native)),
                    (Abi::Compat, has(&meta.compat)),
                ];
                let without = tables.into_iter().filter(|(_, named)| !named);
                calls.extend(without.filter_map(|(abi, _)| Some((abi, nr?))));
                continue;
            }
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
        Ok(Some(CallSet { calls, beyond, but: self.but }))
    }
}

/// The number in `syscall_N`, as calls without a name are shown.
fn unnamed(name: &str) -> Option<i64> {
    name.strip_prefix("syscall_")?.parse().ok()
}

/// The number of a call that the recorder has no place for in its tables.
fn beyond(name: &str) -> Option<u64> {
    let number = unnamed(name).or_else(|| name.parse::<u16>().ok().map(i64::from))?;
    Some(number as u64).filter(|number| *number >= CALLS as u64)
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
    /// Numbers beyond the recorder's tables: they are the argument of [`NR_INVALID`].
    beyond: FxHashSet<u64>,
    but: bool,
}

impl CallSet {
    /// Whether a call is in it; `None`: its number is not known, and may be one of these.
    pub(super) fn has(&self, call: &Call) -> Option<bool> {
        if call.nr != NR_INVALID {
            return Some(self.has_number(call.abi, call.nr));
        }
        let is_named = match call.args.first() {
            Some(number) if call.nargs > 0 => self.beyond.contains(number),
            _ if !self.beyond.is_empty() => return None,
            _ => false,
        };
        Some(is_named != self.but)
    }

    /// Whether a call of a number may be in it.
    pub(super) fn has_number(&self, abi: Abi, nr: u16) -> bool {
        if nr == NR_INVALID && !self.beyond.is_empty() {
            return true;
        }
        self.calls.contains(&(abi, nr)) != self.but
    }

    /// As [`CallNames::needs_entries`].
    pub(super) fn needs_entries(&self) -> bool {
        !self.beyond.is_empty()
    }

    /// A call that it has, of one whose number is not known.
    pub(super) fn assumed(&self, call: &Call) -> Option<Call> {
        let number = if self.but {
            (CALLS as u64..u64::MAX).find(|number| !self.beyond.contains(number))?
        } else {
            *self.beyond.iter().next()?
        };
        let mut assumed = call.clone();
        *assumed.args.first_mut()? = number;
        Some(Call { nargs: 1, ..assumed })
    }
}
