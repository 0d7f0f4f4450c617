//! One argument of a system call.

use flightrec_format::abi::record::StringStatus;
use flightrec_format::architecture::Architecture;
use flightrec_format::decode::{Call, Text};
use flightrec_reader::fds::{FdNames, is_socket};
use flightrec_reader::names::{
    FILE_TYPE, FcntlArgument, PERSONALITY, Set, fcntl_argument, may_create, protocol, signal,
    socket_option,
};

use super::escape::{escape, quote_text};
use super::ioctl;
use super::names::flags;
use super::number::{Short, decimal, hex, hex_or_zero, mode};
use super::plain::plain;
use super::pointee;

/// How an argument reads. 32-bit kinds look at the lower half only: what a register holds above an
/// `int` is garbage.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// `int`
    Int,
    /// `unsigned int`
    Unsigned,
    /// `long`
    Long,
    /// `unsigned long`, `size_t`
    UnsignedLong,
    /// 32 bits without a meaning known here
    Hex,
    /// 64 bits without a meaning known here
    LongHex,
    /// An address, or the string recorded from it
    Pointer,
    /// A file descriptor
    Descriptor,
    /// A directory's descriptor
    Directory,
    /// A user or group; -1: leave it
    Id,
    /// Permissions
    Mode,
    /// Permissions that count only when the argument before says that a file may be created
    CreateMode,
    /// A signal
    Signal,
    /// Named 32-bit values or flags
    Set(&'static Set),
    /// Named 64-bit values or flags
    LongSet(&'static Set),
    /// The argument of `personality`
    Personality,
    /// The request of `ioctl`
    Request,
    /// The third argument of `fcntl`
    Fcntl,
    /// The third argument of `socket`
    Protocol,
    /// The third argument of `setsockopt`
    SocketOption,
    /// Anything
    Unknown,
}

/// Appends argument `index`; `false` when the call does not take it in this form, nor what
/// stands after it.
pub(crate) fn write(
    kind: Kind,
    machine: Architecture,
    call: &Call,
    index: usize,
    out: &mut Vec<u8>,
) -> bool {
    if pointee::write(machine, call, index, out) {
        return true;
    }
    let value = value(call, index);
    let before = |back: usize| index.checked_sub(back).map_or(0, |at| self::value(call, at));
    match kind {
        Kind::Long => decimal(value as i64, out),
        Kind::UnsignedLong => decimal(value, out),
        Kind::Hex => hex_or_zero(u64::from(value as u32), out),
        Kind::LongHex => hex_or_zero(value, out),
        Kind::Pointer => pointer(call, index, value, out),
        Kind::Directory if value as i32 == libc::AT_FDCWD => out.extend_from_slice(b"AT_FDCWD"),
        Kind::Int | Kind::Descriptor | Kind::Directory => decimal(value as i32, out),
        Kind::Id if value as u32 == u32::MAX => out.extend_from_slice(b"-1"),
        Kind::Unsigned | Kind::Id => decimal(value as u32, out),
        Kind::Mode => flags(&FILE_TYPE, value & u64::from(u16::MAX), out),
        Kind::CreateMode => {
            if !may_create(machine, u64::from(before(1) as u32)) {
                return false;
            }
            mode(value & u64::from(u16::MAX), out);
        }
        Kind::Signal => write_signal(value as u32, out),
        Kind::Set(set) => flags(set, u64::from(value as u32), out),
        Kind::LongSet(set) => flags(set, value, out),
        // What asks only.
        Kind::Personality if value as u32 == u32::MAX => hex(u64::from(u32::MAX), out),
        Kind::Personality => flags(&PERSONALITY, u64::from(value as u32), out),
        Kind::Request => ioctl::write(value as u32, out),
        Kind::Fcntl => match fcntl_argument(machine, before(1)) {
            FcntlArgument::None => return false,
            FcntlArgument::Set(set) => flags(set, u64::from(value as u32), out),
            FcntlArgument::Number => decimal(value as i32, out),
            FcntlArgument::Address => hex_or_zero(value, out),
        },
        Kind::Protocol => write_in(protocol(before(2)), value, out),
        Kind::SocketOption => write_in(socket_option(before(1)), value, out),
        Kind::Unknown => unknown(call, index, value, out),
    }
    true
}

/// As [`fn@write`], and what a descriptor stands for, where that is known.
pub(crate) fn write_named(
    kind: Kind,
    machine: Architecture,
    call: &Call,
    index: usize,
    fds: FdNames<'_>,
    out: &mut Vec<u8>,
) -> bool {
    let written = write(kind, machine, call, index, out);
    name(kind, call, index, fds, out);
    written
}

/// Appends what a descriptor stands for, where it is one and that is known.
pub(crate) fn name(kind: Kind, call: &Call, index: usize, fds: FdNames<'_>, out: &mut Vec<u8>) {
    if matches!(kind, Kind::Descriptor | Kind::Directory) {
        stands_for(fds.get(value(call, index) as i32), out);
    }
}

/// Whether it is known what an argument stands for that is a descriptor.
#[cfg(feature = "export")]
pub(crate) fn has_name(kind: Kind, call: &Call, index: usize, fds: FdNames<'_>) -> bool {
    matches!(kind, Kind::Descriptor | Kind::Directory)
        && fds.get(value(call, index) as i32).is_some()
}

/// Whether [`fn@write`] writes an argument that is this number in decimal, whatever the rest of the
/// call.
pub(crate) fn reads_as(kind: Kind, number: Number) -> bool {
    match kind {
        Kind::Int
        | Kind::Unsigned
        | Kind::Long
        | Kind::UnsignedLong
        | Kind::Descriptor
        | Kind::Id => true,
        Kind::Directory => number != Number::Signed(i64::from(libc::AT_FDCWD)),
        _ => false,
    }
}

/// Appends a descriptor, and what it stands for.
pub(super) fn descriptor(fd: i32, name: Option<&[u8]>, out: &mut Vec<u8>) {
    decimal(fd, out);
    stands_for(name, out);
}

/// `</etc/hosts>`
fn stands_for(name: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(name) = name else { return };
    out.push(b'<');
    let socket = is_socket(name);
    if !socket && plain(name, [b'<', b'>']) == name.len() {
        out.extend_from_slice(name);
        return out.push(b'>');
    }
    // The brackets' own characters as octal, so that the end is where it seems to be.
    for part in name.split_inclusive(|b| matches!(b, b'<' | b'>') || socket && *b == b'"') {
        match part.split_last() {
            // Between the two ends of a connection.
            Some((b'>', before @ [.., b'-'])) if socket => {
                escape(before, out);
                out.push(b'>');
            }
            Some((b'"', before)) if socket => {
                escape(before, out);
                out.push(b'"');
            }
            Some((bracket @ (b'<' | b'>'), before)) => {
                escape(before, out);
                out.extend_from_slice(if *bracket == b'<' { b"\\74" } else { b"\\76" });
            }
            _ => escape(part, out),
        }
    }
    out.push(b'>');
}

fn value(call: &Call, index: usize) -> u64 {
    let value = call.args.get(index).copied().unwrap_or(0);
    match call.abi {
        flightrec_format::abi::record::Abi::Compat => u64::from(value as u32),
        _ => value,
    }
}

/// The number that an argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    Signed(i64),
    Unsigned(u64),
}

impl Number {
    /// A number that is not negative, and has at most eight digits.
    #[inline]
    pub(crate) fn short(self) -> Option<Short> {
        match self {
            Self::Signed(value) => u64::try_from(value).ok().and_then(Short::new),
            Self::Unsigned(value) => Short::new(value),
        }
    }
}

/// Argument `index` as the number that its type makes of the register; `signed`: an `int`.
pub(crate) fn number(kind: Kind, signed: bool, call: &Call, index: usize) -> Number {
    let value = value(call, index);
    match kind {
        Kind::Long => Number::Signed(value as i64),
        Kind::Unknown if looks_small(value) => number(Kind::Long, signed, call, index),
        Kind::UnsignedLong | Kind::LongHex | Kind::Pointer | Kind::LongSet(_) | Kind::Unknown => {
            Number::Unsigned(value)
        }
        Kind::Int
        | Kind::Descriptor
        | Kind::Directory
        | Kind::Signal
        | Kind::Protocol
        | Kind::SocketOption => Number::Signed(i64::from(value as i32)),
        Kind::Id if value as u32 == u32::MAX => Number::Signed(-1),
        Kind::Hex | Kind::Set(_) if signed => Number::Signed(i64::from(value as i32)),
        Kind::Unsigned
        | Kind::Id
        | Kind::Hex
        | Kind::Personality
        | Kind::Request
        | Kind::Set(_) => Number::Unsigned(u64::from(value as u32)),
        Kind::Mode | Kind::CreateMode => Number::Unsigned(value & u64::from(u16::MAX)),
        Kind::Fcntl => {
            // What kind of argument a command takes is the same on all machines.
            let command = index.checked_sub(1).map_or(0, |at| self::value(call, at));
            match fcntl_argument(Architecture::default(), command) {
                FcntlArgument::Number => Number::Signed(i64::from(value as i32)),
                FcntlArgument::Set(_) => Number::Unsigned(u64::from(value as u32)),
                FcntlArgument::Address | FcntlArgument::None => Number::Unsigned(value),
            }
        }
    }
}

/// The string recorded for argument `index`, if there is one that could be read.
pub(crate) fn recorded_string(call: &Call, index: usize) -> Option<&Text> {
    call.strings
        .iter()
        .find(|text| usize::from(text.index) == index)
        .filter(|text| text.status != StringStatus::Unreadable)
}

fn write_in(set: Option<&Set>, value: u64, out: &mut Vec<u8>) {
    match set.and_then(|set| set.name(u64::from(value as u32))) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => decimal(value as i32, out),
    }
}

/// Appends a signal by name.
pub(crate) fn write_signal(number: u32, out: &mut Vec<u8>) {
    match signal(number) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => decimal(number as i32, out),
    }
}

/// Appends the string recorded for argument `index`, if there is one that could be read.
/// `Some(false)`: it could not.
fn string(call: &Call, index: usize, out: &mut Vec<u8>) -> Option<bool> {
    let text = call.strings.iter().find(|text| usize::from(text.index) == index)?;
    if text.status == StringStatus::Unreadable {
        return Some(false);
    }
    quote_text(text, out);
    Some(true)
}

fn pointer(call: &Call, index: usize, value: u64, out: &mut Vec<u8>) {
    let read = string(call, index, out);
    if read == Some(true) {
        return;
    }
    if value == 0 {
        out.extend_from_slice(b"NULL");
    } else {
        hex(value, out);
        if read == Some(false) {
            out.extend_from_slice(b" /* unreadable */");
        }
    }
}

/// Numbers that look like numbers in decimal, the rest as addresses.
fn unknown(call: &Call, index: usize, value: u64, out: &mut Vec<u8>) {
    if call.strings.iter().any(|text| usize::from(text.index) == index) {
        pointer(call, index, value, out);
    } else if looks_small(value) {
        decimal(value as i64, out);
    } else {
        hex(value, out);
    }
}

fn looks_small(value: u64) -> bool {
    (-4096..0x1_0000).contains(&(value as i64))
}
