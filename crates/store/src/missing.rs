//! What is missing of a call's record.

use flightrec_format::abi::record::StringStatus;
use flightrec_format::decode::Call;

/// What records of a call lack, a bit for each argument.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Missing {
    /// It is a path, of which no string could be read; it is no null pointer, or is missing itself.
    pub strings: u8,
    /// It is missing itself.
    pub arguments: u8,
}

impl Missing {
    pub(crate) const NONE: Self = Self { strings: 0, arguments: 0 };
    pub(crate) const ALL: Self = Self { strings: u8::MAX, arguments: u8::MAX };

    /// Of one record, if each of its arguments is a path.
    pub fn of(call: &Call) -> Self {
        let nargs = usize::from(call.nargs);
        let mut missing = Self::default();
        for (index, value) in call.args.iter().enumerate() {
            let is_given = index < nargs;
            let has_string = || {
                call.strings.iter().any(|text| {
                    text.is_string()
                        && usize::from(text.index) == index
                        && text.status != StringStatus::Unreadable
                })
            };
            missing.arguments |= u8::from(!is_given) << index;
            missing.strings |= u8::from((!is_given || *value != 0) && !has_string()) << index;
        }
        missing
    }

    /// Whether it is said of all that another one says is missing.
    pub(crate) fn holds(self, other: Self) -> bool {
        self.strings & other.strings == other.strings
            && self.arguments & other.arguments == other.arguments
    }

    /// What either of two lacks.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { strings: self.strings | other.strings, arguments: self.arguments | other.arguments }
    }
}
