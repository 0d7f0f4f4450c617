//! Numbers and strings as JSON values.

use flightrec_format::abi::record::{Comm, StringStatus};
use flightrec_format::decode::Text;
use flightrec_reader::threads::trim;

use super::escape;
use crate::text::argument::Number;
use crate::text::number::{decimal, hex};

/// The greatest number that every JSON reader takes exactly (2^53: a double's mantissa).
const EXACT: u64 = 1 << 53;

/// A number; one that a double does not hold exactly as a string of hexadecimal digits.
pub(super) fn number(value: Number, out: &mut Vec<u8>) {
    match value {
        Number::Signed(value) if value.unsigned_abs() <= EXACT => decimal(value, out),
        Number::Unsigned(value) if value <= EXACT => decimal(value, out),
        Number::Signed(value) => hex_string(value as u64, out),
        Number::Unsigned(value) => hex_string(value, out),
    }
}

/// Whether [`number`] writes it in decimal.
pub(super) fn is_plain(value: Number) -> bool {
    match value {
        Number::Signed(value) => value.unsigned_abs() <= EXACT,
        Number::Unsigned(value) => value <= EXACT,
    }
}

fn hex_string(value: u64, out: &mut Vec<u8>) {
    out.push(b'"');
    hex(value, out);
    out.push(b'"');
}

/// A name as a string.
pub(super) fn string(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    escape::name(bytes, out);
    out.push(b'"');
}

/// A string of printable ASCII that `write` writes.
pub(super) fn printed(write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    out.push(b'"');
    let start = out.len();
    write(out);
    escape::ascii(start, out);
    out.push(b'"');
}

/// A thread's name; thread 0 is the idle thread of its CPU, whose name nobody records.
pub(super) fn thread(tid: u32, cpu: u16, name: &Comm, out: &mut Vec<u8>) {
    if tid == 0 {
        out.extend_from_slice(b"\"swapper/");
        decimal(cpu, out);
        out.push(b'"');
    } else {
        comm(name, out);
    }
}

/// A recorded name; `null`: it is not known.
pub(super) fn comm(comm: &Comm, out: &mut Vec<u8>) {
    match trim(comm) {
        [] => out.extend_from_slice(b"null"),
        name => string(name, out),
    }
}

/// `"key":"text"`, with `"key_cut":true` after it where it is not all, and `"key_end":"text"`
/// where its end is recorded; `null`: it could not be read.
/// A comma before it.
pub(super) fn text(key: &str, text: Option<&Text>, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
    match text.filter(|text| text.status != StringStatus::Unreadable) {
        Some(text) => {
            let (head, tail) = text.parts();
            string(head, out);
            if text.is_cut() {
                cut(key, out);
            }
            if let Some(tail) = tail {
                out.extend_from_slice(b",\"");
                out.extend_from_slice(key.as_bytes());
                out.extend_from_slice(b"_end\":");
                string(tail, out);
            }
        }
        None => out.extend_from_slice(b"null"),
    }
}

/// `,"key_cut":true`
pub(super) fn cut(key: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"_cut\":true");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(value: Number) -> String {
        let mut out = Vec::new();
        number(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_beyond_a_doubles_are_strings() {
        assert_eq!(json(Number::Signed(-100)), "-100");
        assert_eq!(json(Number::Unsigned(EXACT)), "9007199254740992");
        assert_eq!(json(Number::Unsigned(EXACT + 1)), "\"0x20000000000001\"");
        assert_eq!(json(Number::Signed(-(EXACT as i64))), "-9007199254740992");
        assert_eq!(json(Number::Signed(i64::MIN)), "\"0x8000000000000000\"");
        assert_eq!(json(Number::Unsigned(u64::MAX)), "\"0xffffffffffffffff\"");
    }
}
