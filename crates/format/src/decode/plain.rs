//! An event of a plain kind: the fields of its row in the table of kinds.

use crate::abi::kinds::{BODY_MAX, Field, Kind, Unit, Value};

/// The body of an event whose fields the table tells. Typed access: the `read` of the struct that
/// the kind's row makes, on [`Self::bytes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plain {
    kind: Kind,
    /// Those of the fields; 0 after them.
    bytes: [u8; BODY_MAX],
}

impl Plain {
    /// Takes the fields off the front of a record's body. What is after them, a later release
    /// added. `None` where the body is too short, or the kind has no fields.
    pub fn read(kind: Kind, body: &[u8]) -> Option<Self> {
        let length = kind.row().bytes;
        let own = body.get(..length).filter(|own| !own.is_empty())?;
        let mut bytes = [0; BODY_MAX];
        bytes.get_mut(..length)?.copy_from_slice(own);
        Some(Self { kind, bytes })
    }

    /// Its kind.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The bytes of its fields.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.kind.row().bytes).unwrap_or(&self.bytes)
    }

    /// Its fields with their values, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&'static Field, Value)> + '_ {
        let fields = self.kind.row().fields.iter();
        fields.filter_map(|field| Some((field, field.value(self.bytes())?)))
    }

    /// The values of its fields of a unit that are numbers of 32 bits, ids among them.
    pub fn ids(&self, unit: Unit) -> impl Iterator<Item = u32> + '_ {
        self.fields().filter_map(move |(field, value)| match value {
            Value::Unsigned(id) if field.unit == unit => u32::try_from(id).ok(),
            _ => None,
        })
    }

    /// The control group that the event is of; 0: it names none.
    pub fn cgroup(&self) -> u64 {
        let mut groups = self.fields().filter(|(field, _)| field.unit == Unit::Cgroup);
        match groups.next() {
            Some((_, Value::Unsigned(id))) => id,
            _ => 0,
        }
    }

    /// The thread that the event is of, where the event itself names it: the first field in lane
    /// `task`.
    pub fn thread(&self) -> Option<u32> {
        if self.kind.names_thread() { self.ids(Unit::Thread).next() } else { None }
    }
}
