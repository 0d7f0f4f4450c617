//! What a tracepoint published, taken apart by its description: bytes of a recording into fields.

use crate::abi::record::tracepoint::{COMMON, Hidden, hidden};
use crate::decode::Tracepoint as Event;
use crate::meta::{Field, Meta, Place, Tracepoint, ValueForm};

/// The tracepoints of a recording, by their numbers.
#[derive(Debug, Clone, Default)]
pub struct Tracepoints {
    described: Vec<Tracepoint>,
}

/// A field's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number without a sign.
    Unsigned(u64),
    /// A number with a sign.
    Signed(i64),
    /// An address of the kernel, which the recording does not tell.
    Hidden(Hidden),
    /// A text.
    Text(&'a [u8]),
    /// Numbers in a row, each of so many bytes.
    Array(Vec<Value<'a>>),
    /// Bits, the lowest first.
    Bits(&'a [u8]),
    /// It is not recorded: the record is longer than what is kept of it.
    Missing,
}

impl Tracepoints {
    /// Those that a recording's metadata describe.
    pub fn new(meta: &Meta) -> Self {
        Self { described: meta.tracepoints.clone() }
    }

    /// That of an event; `None`: the recording does not describe it.
    pub fn find(&self, id: u16) -> Option<&Tracepoint> {
        self.described.iter().find(|of| of.id == id)
    }
}

impl Field {
    /// Its value in an event.
    pub fn read<'a>(&self, event: &'a Event) -> Value<'a> {
        self.bytes(&event.bytes).map_or(Value::Missing, |bytes| self.value_of(bytes))
    }

    /// The bytes that are its value, as far as they are recorded; a text that is cut is one.
    fn bytes<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let here = usize::from(self.at).checked_sub(COMMON)?;
        let (at, size) = match self.place {
            Place::Here => (here, usize::from(self.size)),
            Place::DataLoc | Place::RelLoc => {
                let word = record.get(here..here + 4)?.try_into().ok()?;
                let word = u32::from_le_bytes(word);
                let offset = (word & 0xffff) as usize;
                let at = match self.place {
                    Place::RelLoc => here + 4 + offset,
                    _ => offset.checked_sub(COMMON)?,
                };
                (at, (word >> 16) as usize)
            }
        };
        match record.get(at..at + size) {
            None if self.value == ValueForm::Text => record.get(at..).filter(|of| !of.is_empty()),
            found => found,
        }
    }

    fn value_of<'a>(&self, bytes: &'a [u8]) -> Value<'a> {
        match self.value {
            ValueForm::Number => self.number(bytes),
            ValueForm::Text => Value::Text(bytes.split(|of| *of == 0).next().unwrap_or(bytes)),
            ValueForm::Bitmask => Value::Bits(bytes),
            ValueForm::Array => {
                let numbers = bytes.chunks_exact(usize::from(self.width.max(1)));
                Value::Array(numbers.map(|of| self.number(of)).collect())
            }
        }
    }

    fn number<'a>(&self, bytes: &[u8]) -> Value<'a> {
        let mut word = [0; 8];
        let Some(place) = word.get_mut(..bytes.len()).filter(|_| !bytes.is_empty()) else {
            return Value::Missing;
        };
        place.copy_from_slice(bytes);
        let word = u64::from_le_bytes(word);
        if self.signed {
            let shift = 64 - 8 * bytes.len() as u32;
            return Value::Signed((word << shift) as i64 >> shift);
        }
        match hidden(word).filter(|_| bytes.len() == 8) {
            Some(hidden) => Value::Hidden(hidden),
            None => Value::Unsigned(word),
        }
    }
}

impl Value<'_> {
    /// The number by which names are found.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Unsigned(number) => Some(*number),
            Self::Signed(number) => Some(*number as u64),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::abi::record::WakeContext;
    use crate::abi::record::tracepoint::{CODE, DATA};
    use crate::meta::ValueNames;

    fn event(bytes: &[u8]) -> Event {
        let context = WakeContext::Thread;
        Event { id: 1, context, bytes: bytes.into(), cut: false, stack: None }
    }

    fn field(at: u16, size: u16, value: ValueForm, width: u8) -> Field {
        Field { at, size, value, width, ..Field::default() }
    }

    #[test]
    fn numbers_have_their_width_and_sign() {
        let bytes = event(&[0xff, 0x80, 0xfe, 0xff, 0xff, 0xff, 1, 2]);
        let read = |at, size: u16, signed| {
            let number = Field { signed, ..field(at, size, ValueForm::Number, size as u8) };
            number.read(&bytes)
        };
        assert_eq!(read(8, 1, false), Value::Unsigned(255));
        assert_eq!(read(8, 1, true), Value::Signed(-1));
        assert_eq!(read(10, 4, true), Value::Signed(-2));
        assert_eq!(read(10, 4, false), Value::Unsigned(0xffff_fffe));
        assert_eq!(read(14, 2, false), Value::Unsigned(0x201));
        assert_eq!(read(14, 4, false), Value::Missing, "after the end");
        assert_eq!(read(0, 4, false), Value::Missing, "of the common fields nothing is recorded");
    }

    #[test]
    fn addresses_are_hidden() {
        for (upper, expected) in [(CODE, Hidden::Code(7)), (DATA, Hidden::Data(7))] {
            let bytes = event(&(u64::from(upper) << 32 | 7).to_le_bytes());
            let read = field(8, 8, ValueForm::Number, 8).read(&bytes);
            assert_eq!(read, Value::Hidden(expected));
            let signed = Field { signed: true, ..field(8, 8, ValueForm::Number, 8) };
            assert!(matches!(signed.read(&bytes), Value::Signed(_)));
        }
    }

    #[test]
    fn parts_of_variable_length_are_where_their_words_tell() {
        let mut bytes = vec![0; 8];
        bytes[..4].copy_from_slice(&(16u32 | 6 << 16).to_le_bytes());
        bytes[4..].copy_from_slice(&(6u32 | 4 << 16).to_le_bytes());
        bytes.extend_from_slice(b"text\0x\x01\0\x02\0");
        let text = Field { place: Place::DataLoc, ..field(8, 4, ValueForm::Text, 1) };
        assert_eq!(text.read(&event(&bytes)), Value::Text(b"text"));
        let array = Field { place: Place::RelLoc, ..field(12, 4, ValueForm::Array, 2) };
        let numbers = vec![Value::Unsigned(1), Value::Unsigned(2)];
        assert_eq!(array.read(&event(&bytes)), Value::Array(numbers));
        bytes.truncate(10);
        assert_eq!(text.read(&event(&bytes)), Value::Text(b"te"), "what there is of it");
        assert_eq!(array.read(&event(&bytes)), Value::Missing);
    }

    #[test]
    fn names_are_as_the_kernel_prints_them() {
        let names = |between: Option<&str>, list: &[(u64, &str)]| ValueNames {
            between: between.map(Into::into),
            list: list.iter().map(|(value, name)| (*value, (*name).into())).collect(),
            ..ValueNames::default()
        };
        let flags = names(Some("|"), &[(3, "BOTH"), (1, "ONE"), (2, "TWO"), (0, "NONE")]);
        let of = |number| flags.of(number);
        assert_eq!([of(3), of(1), of(0)], [Some("BOTH".into()), Some("ONE".into()), None]);
        assert_eq!([of(0x12), of(0x10)], [Some("TWO|NONE|0x10".into()), Some("NONE|0x10".into())]);
        assert_eq!(names(Some("|"), &[(1, "A")]).of(0x10), Some("0x10".into()));
        let values = names(None, &[(0, "READ"), (1, "WRITE")]);
        assert_eq!([values.of(1), values.of(2)], [Some("WRITE".into()), None]);
        let part = ValueNames { shift: 4, mask: crate::meta::Mask(1), ..values };
        assert_eq!([part.of(0x30), part.of(0xe0)], [Some("WRITE".into()), Some("READ".into())]);
    }

    proptest! {
        #[test]
        fn any_description_reads_any_bytes(
            bytes in prop::collection::vec(any::<u8>(), 0..64),
            at: u16, size in 0..80u16, width: u8, signed: bool, place in 0..3, value in 0..4,
        ) {
            let place = [Place::Here, Place::DataLoc, Place::RelLoc][place as usize];
            let forms =
                [ValueForm::Number, ValueForm::Text, ValueForm::Array, ValueForm::Bitmask];
            let form = forms[value as usize];
            let field = Field { signed, place, ..field(at % 80, size, form, width) };
            field.read(&event(&bytes));
        }
    }
}
