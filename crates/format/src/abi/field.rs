//! Fields of records' bodies: their types, their units, and how a value is read from a body.

use super::id::{SpanId, TraceId};
use super::ip::Ip;
use super::record::Comm;

/// The type of a field in a record's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Unsigned, 4 bytes.
    U32,
    /// Unsigned, 8 bytes.
    U64,
    /// Signed, 4 bytes.
    I32,
    /// Signed, 8 bytes.
    I64,
    /// A thread's name, 16 bytes, NUL padded.
    Name,
    /// An address of IPv4 or IPv6, 16 bytes ([`Ip`]).
    Ip,
    /// The id of a trace, 16 bytes ([`TraceId`]).
    TraceId,
    /// The id of a span, 8 bytes ([`SpanId`]).
    SpanId,
}

impl Type {
    /// Its name in FORMAT.md.
    pub const fn name(self) -> &'static str {
        match self {
            Type::U32 => "u32",
            Type::U64 => "u64",
            Type::I32 => "i32",
            Type::I64 => "i64",
            Type::Name => "name",
            Type::Ip => "ip",
            Type::TraceId => "trace id",
            Type::SpanId => "span id",
        }
    }
}

/// What a field's value counts or names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number, or a name.
    Plain,
    /// A thread's id: the event is one of this thread, too.
    Thread,
    /// A process's id: the event is one of this process, too.
    Process,
    /// The id of a v2 control group.
    Cgroup,
    /// Nanoseconds.
    Ns,
    /// Bytes.
    Bytes,
    /// A signal's number.
    Signal,
    /// A block device, as `dev_t` inside the kernel: its major number in the upper 12 bits, its
    /// minor one in the lower 20.
    Device,
    /// A number that is shown in hexadecimal.
    Hex,
    /// What came of a deed, as a system call returns it: from -4095 to -1 an error.
    Ret,
    /// `si_code`: why the signal of this event was sent.
    SignalCode,
    /// One of the values that have names.
    OneOf(Names),
    /// Bits that have names.
    Flags(Names),
    /// An address, or one of the values that have names.
    Address(Names),
    /// Always 0; not shown.
    Reserved,
}

/// Values of a field, and their names. A value without one stays a number.
pub type Names = &'static [(u64, &'static str)];

impl Unit {
    /// Its name in FORMAT.md; empty for a plain number, and where only its values have names.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Plain | Unit::Hex | Unit::Ret | Unit::OneOf(_) | Unit::Flags(_) => "",
            Unit::Thread => "thread id",
            Unit::Process => "process id",
            Unit::Cgroup => "control group id",
            Unit::Ns => "ns",
            Unit::Bytes => "bytes",
            Unit::Signal => "signal",
            Unit::Device => "device",
            Unit::SignalCode => "si_code",
            Unit::Address(_) => "address",
            Unit::Reserved => "0",
        }
    }

    /// Names of single values.
    pub const fn names(self) -> Names {
        match self {
            Unit::OneOf(names) | Unit::Flags(names) | Unit::Address(names) => names,
            _ => &[],
        }
    }

    /// Whether text and JSON give the value by a name, so that in JSON it is a string.
    pub const fn is_named(self) -> bool {
        matches!(
            self,
            Unit::Signal
                | Unit::SignalCode
                | Unit::Device
                | Unit::Hex
                | Unit::OneOf(_)
                | Unit::Flags(_)
                | Unit::Address(_)
        )
    }
}

/// A field of a body of fixed length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in the struct, in text and in JSON.
    pub name: &'static str,
    /// Its type.
    pub ty: Type,
    /// Its unit.
    pub unit: Unit,
    /// Byte of the body at which it begins.
    pub at: usize,
    /// What it means.
    pub meaning: &'static str,
}

/// A value that a field's type holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of [`Type::U32`] and [`Type::U64`].
    Unsigned(u64),
    /// Of [`Type::I32`] and [`Type::I64`].
    Signed(i64),
    /// Of [`Type::Name`].
    Name(Comm),
    /// Of [`Type::Ip`].
    Ip(Ip),
    /// Of [`Type::TraceId`].
    TraceId(TraceId),
    /// Of [`Type::SpanId`].
    SpanId(SpanId),
}

/// A Rust type that a field may have.
pub(super) trait FieldType: Sized {
    const TYPE: Type;
    /// Takes the value at a byte; `None` where it is not all there.
    fn get(bytes: &[u8], at: usize) -> Option<Self>;
    /// Puts the value there.
    fn put(self, bytes: &mut [u8], at: usize);
}

macro_rules! field_type {
    ($($type:ty = $name:ident),+) => {$(
        impl FieldType for $type {
            const TYPE: Type = Type::$name;

            fn get(bytes: &[u8], at: usize) -> Option<Self> {
                bytes.get(at..)?.first_chunk().map(|bytes| Self::from_le_bytes(*bytes))
            }

            fn put(self, bytes: &mut [u8], at: usize) {
                if let Some(to) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
                    *to = self.to_le_bytes();
                }
            }
        }
    )+};
}

field_type!(u32 = U32, u64 = U64, i32 = I32, i64 = I64);

impl FieldType for Comm {
    const TYPE: Type = Type::Name;

    fn get(bytes: &[u8], at: usize) -> Option<Self> {
        bytes.get(at..)?.first_chunk().copied()
    }

    fn put(self, bytes: &mut [u8], at: usize) {
        if let Some(to) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
            *to = self;
        }
    }
}

impl FieldType for Ip {
    const TYPE: Type = Type::Ip;

    fn get(bytes: &[u8], at: usize) -> Option<Self> {
        Comm::get(bytes, at).map(Self)
    }

    fn put(self, bytes: &mut [u8], at: usize) {
        self.0.put(bytes, at);
    }
}

impl FieldType for TraceId {
    const TYPE: Type = Type::TraceId;

    fn get(bytes: &[u8], at: usize) -> Option<Self> {
        Comm::get(bytes, at).map(Self)
    }

    fn put(self, bytes: &mut [u8], at: usize) {
        self.0.put(bytes, at);
    }
}

impl FieldType for SpanId {
    const TYPE: Type = Type::SpanId;

    fn get(bytes: &[u8], at: usize) -> Option<Self> {
        bytes.get(at..)?.first_chunk().copied().map(Self)
    }

    fn put(self, bytes: &mut [u8], at: usize) {
        if let Some(to) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
            *to = self.0;
        }
    }
}

impl Field {
    /// Its value in a body; `None` where the body is too short.
    pub fn value(&self, body: &[u8]) -> Option<Value> {
        let at = self.at;
        Some(match self.ty {
            Type::U32 => Value::Unsigned(u64::from(u32::get(body, at)?)),
            Type::U64 => Value::Unsigned(u64::get(body, at)?),
            Type::I32 => Value::Signed(i64::from(i32::get(body, at)?)),
            Type::I64 => Value::Signed(i64::get(body, at)?),
            Type::Name => Value::Name(Comm::get(body, at)?),
            Type::Ip => Value::Ip(Ip::get(body, at)?),
            Type::TraceId => Value::TraceId(TraceId::get(body, at)?),
            Type::SpanId => Value::SpanId(SpanId::get(body, at)?),
        })
    }
}
