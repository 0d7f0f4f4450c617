//! What a recording says of the tracepoints that its configuration names: enough to read what they
//! published on any machine.

use serde::{Deserialize, Serialize};

/// A tracepoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tracepoint {
    /// Its number in the recording's events ([`crate::decode::Tracepoint::id`]).
    pub id: u16,
    /// `SUBSYSTEM:NAME`.
    pub name: String,
    /// The condition under which its events are recorded, as configured; empty: always.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub when: String,
    /// Whether its events have the kernel's stack.
    pub stack: bool,
    /// From when on it is recorded, ns of `CLOCK_MONOTONIC`.
    pub since: u64,
    /// Until when it was; 0: it is still.
    pub until: u64,
    /// What it publishes, in the kernel's order.
    pub fields: Vec<Field>,
}

/// A field of a tracepoint, as its `format` in tracefs has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type in C; of one of variable length that of the elements.
    pub ctype: String,
    /// Byte of the published record where it is; of one of variable length, where the word is that
    /// tells where.
    pub at: u16,
    /// Its bytes there.
    pub size: u16,
    /// Whether its numbers have a sign.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub signed: bool,
    /// Where its value is.
    #[serde(skip_serializing_if = "is_here")]
    pub place: Place,
    /// What its value is.
    #[serde(skip_serializing_if = "is_number")]
    pub value: ValueForm,
    /// Bytes of a number, of itself or in an array.
    pub width: u8,
    /// Whether the kernel prints it in hexadecimal.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hex: bool,
    /// Names of its values, or of its bits, as the kernel prints them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<ValueNames>,
}

/// Where a field's value is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Where the field is.
    #[default]
    Here,
    /// Where its word tells, from the record's beginning: `__data_loc`.
    DataLoc,
    /// Where its word tells, from after itself: `__rel_loc`.
    RelLoc,
}

/// What a field's value is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueForm {
    /// A number.
    #[default]
    Number,
    /// A text, up to its first byte of 0.
    Text,
    /// Numbers in a row.
    Array,
    /// Bits in words of the machine: a set of CPUs.
    Bitmask,
}

/// Names that the kernel prints for numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ValueNames {
    /// What is put between names of bits (`__print_flags`); `None`: names of values
    /// (`__print_symbolic`).
    pub between: Option<String>,
    /// The number is shifted to the right by so much first.
    #[serde(skip_serializing_if = "is_zero")]
    pub shift: u32,
    /// And then only these bits of it count.
    #[serde(skip_serializing_if = "is_all")]
    pub mask: Mask,
    /// The names, in the kernel's order.
    pub list: Vec<(u64, String)>,
}

/// Bits that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mask(pub u64);

impl Default for Mask {
    fn default() -> Self {
        Self(u64::MAX)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_here(place: &Place) -> bool {
    *place == Place::Here
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_number(value: &ValueForm) -> bool {
    *value == ValueForm::Number
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(shift: &u32) -> bool {
    *shift == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_all(mask: &Mask) -> bool {
    mask.0 == u64::MAX
}

impl ValueNames {
    /// The names of a number, as the kernel prints them; of flags, those without a name as one
    /// number. `None`: it is a value without a name, or no flag is set.
    pub fn of(&self, number: u64) -> Option<String> {
        use std::fmt::Write as _;
        let number = number.checked_shr(self.shift).unwrap_or(0) & self.mask.0;
        let Some(between) = &self.between else {
            let named = self.list.iter().find(|(value, _)| *value == number);
            return named.map(|(_, name)| name.clone());
        };
        // As `trace_print_flags_seq` (kernel/trace/trace_output.c, Linux 6.18).
        let (mut left, mut out) = (number, String::new());
        for (bits, name) in &self.list {
            if left == 0 {
                break;
            }
            if left & bits != *bits {
                continue;
            }
            if !out.is_empty() {
                out.push_str(between);
            }
            out.push_str(name);
            left &= !bits;
        }
        if left != 0 {
            let between = if out.is_empty() { "" } else { between };
            // Writing to a string can't fail.
            let _ = write!(out, "{between}{left:#x}");
        }
        (!out.is_empty()).then_some(out)
    }
}
