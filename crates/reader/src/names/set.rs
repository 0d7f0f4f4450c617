//! A set of names for the bits or the values of one number.

use std::sync::LazyLock;

use flightrec_format::architecture::Architecture;

/// A number and its name. Negative 32-bit numbers stand as their 32 bits.
pub(super) type Named = (u64, &'static str);

/// Names of one kind of number: an enumerated field, flags beside it, or both.
///
/// `open`'s flags are both: the access mode is a field of two bits, the rest are flags.
#[derive(Debug)]
pub struct Set {
    /// Bits of the enumerated field; all: there are no flags; none: there is no field.
    mask: u64,
    /// Values of the field.
    values: Vec<Named>,
    /// Names of the small values, by value: most are.
    small: [Option<&'static str>; SMALL],
    /// Flags, those of several bits first, so that they win over their parts.
    flags: Vec<Named>,
    /// Whether the field's name stands after the flags'.
    field_last: bool,
    /// Whether a rest without a name is octal (permissions), not hexadecimal.
    octal: bool,
}

/// Values below this are small.
const SMALL: usize = 32;

/// The names of small values; of two names for one value, the first.
fn small(values: &[Named]) -> [Option<&'static str>; SMALL] {
    let mut small = [None; SMALL];
    for (value, name) in values {
        if let Some(slot) = usize::try_from(*value).ok().and_then(|value| small.get_mut(value)) {
            slot.get_or_insert(*name);
        }
    }
    small
}

/// A set that is made when first used.
pub(super) type LazySet = LazyLock<Set>;

/// A set for each machine, where their numbers differ.
#[derive(Debug)]
pub(super) struct ByArchitecture {
    /// Of x86_64.
    pub(super) x86_64: LazySet,
    /// Of aarch64.
    pub(super) aarch64: LazySet,
}

impl ByArchitecture {
    /// Of a machine.
    pub(super) fn of(&'static self, architecture: Architecture) -> &'static Set {
        match architecture {
            Architecture::X86_64 => &self.x86_64,
            Architecture::Aarch64 => &self.aarch64,
        }
    }
}

/// Names of constants of a crate, by their own spelling: a typing mistake does not compile.
macro_rules! names {
    ($($name:ident),* $(,)?) => {
        [$((libc::$name as u64 & 0xffff_ffff, stringify!($name))),*]
    };
}
pub(crate) use names;

/// All named flags of a `bitflags` type.
macro_rules! flags_of {
    ($flags:ty) => {
        <$flags as bitflags::Flags>::FLAGS
            .iter()
            .map(|f| (f.value().bits() as u64 & 0xffff_ffff, f.name()))
    };
}
pub(crate) use flags_of;

impl Set {
    /// An enumeration.
    pub fn values(values: impl IntoIterator<Item = Named>) -> Self {
        let values: Vec<Named> = values.into_iter().collect();
        Self {
            mask: u64::MAX,
            small: small(&values),
            values,
            flags: Vec::new(),
            field_last: false,
            octal: false,
        }
    }

    /// Flags. One that is 0 names the number without any.
    pub fn flags(flags: impl IntoIterator<Item = Named>) -> Self {
        let (zero, mut flags): (Vec<Named>, Vec<Named>) =
            flags.into_iter().partition(|(bits, _)| *bits == 0);
        // A stable sort: among equals, the order of the headers remains.
        flags.sort_by_key(|(bits, _)| std::cmp::Reverse(bits.count_ones()));
        Self { mask: 0, small: small(&zero), values: zero, flags, field_last: false, octal: false }
    }

    /// An enumerated field of the bits `mask` beside the flags.
    pub(crate) fn with_field(mut self, mask: u64, values: impl IntoIterator<Item = Named>) -> Self {
        self.mask = mask;
        self.values = values.into_iter().collect();
        self.small = small(&self.values);
        self.flags.retain(|(bits, _)| bits & mask == 0);
        self
    }

    /// Writes the field after the flags.
    pub(crate) fn field_last(mut self) -> Self {
        self.field_last = true;
        self
    }

    /// Writes a rest without names in octal: permissions.
    #[must_use]
    pub fn octal(mut self) -> Self {
        self.octal = true;
        self
    }

    /// The name of a value of the field.
    pub fn name(&self, value: u64) -> Option<&'static str> {
        match self.small.get(value as usize) {
            Some(name) => *name,
            None => self.values.iter().find(|(v, _)| *v == value).map(|(_, name)| *name),
        }
    }

    /// Takes `number` apart: gives each name in the order in which it is written, and returns what
    /// has no name.
    #[inline]
    pub fn split(&self, number: u64, mut give: impl FnMut(&'static str)) -> u64 {
        let field = number & self.mask;
        let name = self.name(field).filter(|_| self.mask != 0 || number == 0);
        if !self.field_last
            && let Some(name) = name
        {
            give(name);
        }
        let mut rest = number & !self.mask;
        for (bits, name) in &self.flags {
            if rest == 0 {
                break;
            }
            if rest & bits == *bits {
                rest &= !bits;
                give(name);
            }
        }
        match name {
            Some(name) if self.field_last => give(name),
            Some(_) => {}
            None => rest |= field,
        }
        rest
    }

    /// Whether what has no name is permissions, which are octal.
    pub fn is_octal(&self) -> bool {
        self.octal
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The names, and what is left in hexadecimal.
    pub(in crate::names) fn text(set: &Set, number: u64) -> String {
        let mut parts = Vec::new();
        let rest = set.split(number, |name| parts.push(name.to_owned()));
        if rest != 0 {
            parts.push(format!("{rest:#x}"));
        }
        if parts.is_empty() { "0".to_owned() } else { parts.join("|") }
    }

    #[test]
    fn values_have_names_or_stay_numbers() {
        let set = Set::values([(0, "ZERO"), (3, "THREE")]);
        assert_eq!(text(&set, 0), "ZERO");
        assert_eq!(text(&set, 3), "THREE");
        assert_eq!(text(&set, 20), "0x14");
    }

    #[test]
    fn flags_take_the_longest_and_keep_the_rest() {
        let set = Set::flags([(0, "NONE"), (1, "A"), (2, "B"), (6, "BC")]);
        assert_eq!(text(&set, 0), "NONE");
        assert_eq!(text(&set, 3), "A|B");
        assert_eq!(text(&set, 7), "BC|A");
        assert_eq!(text(&set, 0x12), "B|0x10");
        assert_eq!(text(&set, 0x30), "0x30");
    }

    #[test]
    fn a_field_stands_before_or_after_its_flags() {
        let set = Set::flags([(4, "F")]).with_field(3, [(0, "RD"), (1, "WR")]);
        assert_eq!(text(&set, 0), "RD");
        assert_eq!(text(&set, 5), "WR|F");
        assert_eq!(text(&set, 7), "F|0x3");
        let set = set.field_last();
        assert_eq!(text(&set, 5), "F|WR");
    }
}
