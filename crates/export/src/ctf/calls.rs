//! System calls: the arguments that each has, and those of one that begins.

use flightrec_format::abi::record::Abi;
use flightrec_format::decode::Call;
use flightrec_format::meta::{Meta, Syscall};

use super::Ctf;
use crate::printable::printable;

impl Ctf {
    /// Learns the names of arguments.
    pub(super) fn learn(&mut self, meta: &Meta) {
        let mut learn = |abi: Abi, calls: &[Syscall]| {
            for call in calls {
                let Some(arguments) = &call.args else { continue };
                let each = arguments.iter();
                let each = each.map(|of| (of.name.clone(), of.ctype.contains("char *")));
                self.arguments.insert((abi, call.nr), each.collect());
            }
        };
        learn(Abi::Native, &meta.native);
        learn(Abi::Compat, &meta.compat);
    }

    /// The beginning of a call: its arguments.
    pub(super) fn enter(&mut self, call: &Call) {
        let names = self.arguments.remove(&(call.abi, call.nr));
        self.clear();
        let recorded = usize::from(call.nargs).min(call.args.len());
        let count = names.as_ref().map_or(recorded, Vec::len).min(call.args.len());
        for index in 0..count {
            let known = names.as_ref().and_then(|names| names.get(index));
            let text = call.strings.iter().find(|text| usize::from(text.index) == index);
            let number = call.args.get(index).filter(|_| index < recorded);
            let other = format!("arg{index}");
            let name = known.map_or(other.as_str(), |(name, _)| name);
            match (text, number) {
                (Some(text), _) => {
                    let (head, tail) = text.parts();
                    let mut path = printable(head).into_owned();
                    if tail.is_some() || text.is_cut() {
                        path.push_str("...");
                    }
                    path.push_str(&printable(tail.unwrap_or_default()));
                    self.text(name, &path);
                }
                // A path that is not recorded.
                (None, _) if known.is_some_and(|(_, is_text)| *is_text) => self.text(name, ""),
                (None, Some(number)) => self.long(name, *number as i64),
                // Readers expect all fields of a call.
                (None, None) => self.long(name, 0),
            }
        }
        if recorded < count {
            self.int("flightrec_recorded", recorded as i64);
            self.bare += 1;
        }
        if let Some(names) = names {
            self.arguments.insert((call.abi, call.nr), names);
        }
    }
}
