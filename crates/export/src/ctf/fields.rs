//! The fields of an event in the making.

use flightrec_format::abi::record::Comm;
use flightrec_reader::threads::trim;

use super::Ctf;
use super::classes::Type;
use crate::printable::printable;

/// A value of a field.
#[derive(Debug, Clone)]
pub(super) enum Field {
    Long(i64),
    Unsigned(u64),
    Text(String),
}

impl Ctf {
    pub(super) fn clear(&mut self) {
        self.fields.clear();
        self.data.clear();
    }

    pub(super) fn int(&mut self, name: &str, value: i64) {
        self.fields.push((name.to_owned(), Type::Int));
        self.data.extend_from_slice(&(value as i32).to_le_bytes());
    }

    pub(super) fn long(&mut self, name: &str, value: i64) {
        self.fields.push((name.to_owned(), Type::Long));
        self.data.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn unsigned(&mut self, name: &str, value: u64) {
        self.fields.push((name.to_owned(), Type::Unsigned));
        self.data.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.fields.push((name.to_owned(), Type::Text));
        // Printable text has no NUL.
        self.data.extend_from_slice(value.as_bytes());
        self.data.push(0);
    }

    pub(super) fn comm(&mut self, name: &str, value: &Comm) {
        self.fields.push((name.to_owned(), Type::Comm));
        let text = printable(trim(value));
        let mut bytes = [0; 16];
        let mut end = text.len().min(bytes.len() - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        for (to, from) in bytes.iter_mut().zip(text.as_bytes().iter().take(end)) {
            *to = *from;
        }
        self.data.extend_from_slice(&bytes);
    }

    pub(super) fn field(&mut self, name: &str, value: &Field) {
        match value {
            Field::Long(value) => self.long(name, *value),
            Field::Unsigned(value) => self.unsigned(name, *value),
            Field::Text(value) => self.text(name, value),
        }
    }
}
