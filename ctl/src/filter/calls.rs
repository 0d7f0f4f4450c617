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

    /// Whether it names calls that a record of the end alone can't identify.
    pub(super) fn needs_entries(&self) -> bool {
        let is_beyond = |name: &str| Number::of(name).is_some_and(Number::is_beyond);
        let loses = |name: &str| LOSE_NUMBERS.contains(&name);
        let class = |name: &str| Class::named(name) == Some(Class::Signal);
        self.names.iter().any(|name| is_beyond(name) || loses(name) || class(name))
    }

    /// Looks the names up in a recording's own tables.
    pub(super) fn resolve(&self, meta: &Meta) -> Result<Option<CallSet>, FilterError> {
        if self.is_empty() {
            return Ok(None);
        }
        let mut set = CallSet { but: self.but, ..CallSet::default() };
        for name in &self.names {
            if name == UNNUMBERED {
                set.unnumbered = true;
                continue;
            }
            let number = Number::of(name);
            if let Some(Number { number, own: false }) = number {
                // In whichever table has no name for it, as `dump` shows it.
                let nr = u16::try_from(number).ok().filter(|nr| *nr < NR_INVALID);
                let has = |table: &[Syscall]| table.iter().any(|call| Some(call.nr) == nr);
                let tables = [
                    (Abi::Native, has(&meta.native)),
                    (Abi::X32, has(&meta.native)),
                    (Abi::Compat, has(&meta.compat)),
                ];
                let without = tables.into_iter().filter(|(_, named)| !named);
                set.calls.extend(without.filter_map(|(abi, _)| Some((abi, nr?))));
                set.beyond.extend([(Abi::Native, number), (Abi::Compat, number)]);
                continue;
            }
            let class = Class::named(name);
            let own = number.and_then(|of| u16::try_from(of.number).ok());
            let mut known = false;
            let mut take = |table: &[Syscall], abis: &[Abi], number: Option<u16>| {
                let wanted = |call: &&Syscall| match class {
                    Some(class) => class.has(call, arguments(call, meta)),
                    None => call.name == *name || number == Some(call.nr),
                };
                for call in table.iter().filter(wanted) {
                    known = true;
                    set.calls.extend(abis.iter().map(|abi| (*abi, call.nr)));
                    if LOSE_NUMBERS.contains(&&*call.name) {
                        set.loses = abis.first().map(|abi| (*abi, call.nr));
                    }
                }
            };
            take(&meta.native, &[Abi::Native, Abi::X32], own);
            take(&meta.compat, &[Abi::Compat], None); // a number means the machine's own table
            if let Some(number) = number {
                set.calls.extend(own.map(|nr| (Abi::Native, nr)));
                set.beyond.insert((Abi::Native, number.number));
            } else if !known && class.is_none() {
                let classes = Class::ALL.map(Class::name);
                let names = meta.native.iter().chain(&meta.compat).map(|call| call.name.as_str());
                let bare = name.strip_prefix('%').unwrap_or(name);
                let hint = hint(&nearest(bare, names.chain(classes)));
                return Err(FilterError::Syscall { name: name.clone(), hint });
            }
        }
        Ok(Some(set))
    }
}

/// Calls whose ends have no number of their own, so that only their beginnings tell it
/// (`flightrec_reader::pairing`).
const LOSE_NUMBERS: [&str; 2] = ["rt_sigreturn", "sigreturn"];
/// What a call is called whose number is not known, or beyond the recorder's tables in a report
/// ([`flightrec_format::decode::unnamed_call`]).
const UNNUMBERED: &str = "syscall_?";

/// A system call by its number, as typed.
#[derive(Debug, Clone, Copy)]
struct Number {
    number: u64,
    /// In the machine's own table (`600`); else in any that has no name for it (`syscall_600`).
    own: bool,
}

impl Number {
    fn of(name: &str) -> Option<Self> {
        if let Some(number) = name.strip_prefix("syscall_") {
            return Some(Self { number: number.parse::<i64>().ok()? as u64, own: false });
        }
        Some(Self { number: name.parse().ok()?, own: true })
    }

    /// Whether the recorder has no place for it in its tables.
    fn is_beyond(self) -> bool {
        self.number >= CALLS as u64
    }
}

/// A call's arguments; of a 32-bit one without published arguments, those of the call of its name
/// in the machine's own table: for its class they are the same.
pub(super) fn arguments<'m>(call: &'m Syscall, meta: &'m Meta) -> Option<&'m [Argument]> {
    let native = || meta.native.iter().find(|native| native.name == call.name)?.args.as_deref();
    call.args.as_deref().or_else(native)
}

/// A set of system calls.
#[derive(Debug, Clone, Default)]
pub(super) struct CallSet {
    calls: FxHashSet<(Abi, u16)>,
    /// By numbers that may be beyond the recorder's tables: those are the argument of
    /// [`NR_INVALID`].
    beyond: FxHashSet<(Abi, u64)>,
    /// All of [`NR_INVALID`].
    unnumbered: bool,
    /// One of the set whose end has no number.
    loses: Option<(Abi, u16)>,
    but: bool,
}

impl CallSet {
    /// Whether a call is in it; `None`: the call is an end without its number, and may be of this
    /// set or not.
    pub(super) fn has(&self, call: &Call) -> Option<bool> {
        if call.nr != NR_INVALID {
            return Some(self.has_number(call.abi, call.nr));
        }
        let is_named = self.unnumbered
            || match call.args.first() {
                Some(number) if call.nargs > 0 => self.beyond.contains(&(call.abi, *number)),
                _ if self.needs_entries() => return None,
                _ => false,
            };
        Some(is_named != self.but)
    }

    /// Whether a call may be in it, if only its number is known.
    pub(super) fn may_have(&self, call: &Call) -> bool {
        self.has(call).unwrap_or(self.but)
    }

    /// Whether a call of a number may be in it.
    pub(super) fn has_number(&self, abi: Abi, nr: u16) -> bool {
        if nr == NR_INVALID && (self.unnumbered || self.needs_entries()) {
            return true;
        }
        self.calls.contains(&(abi, nr)) != self.but
    }

    /// As [`CallNames::needs_entries`].
    pub(super) fn needs_entries(&self) -> bool {
        self.loses.is_some() || self.beyond.iter().any(|(_, number)| *number >= CALLS as u64)
    }

    /// A call that it has, of an end without a number.
    pub(super) fn assumed(&self, call: &Call) -> Option<Call> {
        let beyond = |abi, number| {
            let mut assumed = Call { abi, nargs: 1, ..call.clone() };
            *assumed.args.first_mut()? = number;
            Some(assumed)
        };
        if self.but {
            let other = |number: &u64| !self.beyond.contains(&(call.abi, *number));
            return beyond(call.abi, (CALLS as u64..u64::MAX).find(other)?);
        }
        if let Some((abi, nr)) = self.loses {
            return Some(Call { abi, nr, ..call.clone() });
        }
        let (abi, number) = self.beyond.iter().find(|(_, number)| *number >= CALLS as u64)?;
        beyond(*abi, *number)
    }
}
