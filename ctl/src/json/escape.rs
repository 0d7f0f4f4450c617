//! Bytes of unknown origin into JSON strings.
//!
//! One notation for all names, paths and texts: printable characters stand for themselves; every
//! other byte (of control characters, of invalid UTF-8, of characters that change how a terminal
//! shows what is around them) is written as strace does, `\n`, `\33`, `\377`; a `\` has another
//! before it. So even the *decoded* string is printable, and every byte of the name can be had
//! back.

use flightrec_format::unseen::{escape_byte, is_unseen};

use crate::text::plain::{before, plain};

/// Appends `bytes` in that notation, for the inside of a JSON string.
pub(crate) fn name(bytes: &[u8], out: &mut Vec<u8>) {
    write(bytes, b"\\\"", out);
}

/// The same as the string that a reader of the JSON has.
pub(crate) fn decoded(bytes: &[u8]) -> String {
    let mut out = vec![b'"'];
    name(bytes, &mut out);
    out.push(b'"');
    serde_json::from_slice(&out).unwrap_or_default()
}

/// The same in double quotes, those within with a `\` before them: a string in a text.
pub(super) fn quoted(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\\"");
    write(bytes, b"\\\\\\\"", out);
    out.extend_from_slice(b"\\\"");
}

/// `quote` stands for a double quote.
fn write(bytes: &[u8], quote: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    loop {
        let (whole, from) = rest.split_at(plain(rest, []));
        out.extend_from_slice(whole);
        let character = printable(from);
        if character > 0 {
            let (character, after) = from.split_at(character);
            out.extend_from_slice(character);
            rest = after;
            continue;
        }
        let Some((byte, after)) = from.split_first() else { return };
        if *byte == b'"' {
            out.extend_from_slice(quote);
        } else {
            let start = out.len();
            escape_byte(*byte, after.first().is_some_and(u8::is_ascii_digit), out);
            ascii(start, out);
        }
        rest = after;
    }
}

/// Makes what stands after `start`, printable ASCII, fit for the inside of a JSON string.
pub(super) fn ascii(start: usize, out: &mut Vec<u8>) {
    let tail = out.get(start..).unwrap_or_default();
    if before(tail, [b'"', b'\\']) == tail.len() {
        return;
    }
    let tail = tail.to_vec();
    out.truncate(start);
    for byte in tail {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
}

/// The bytes of the printable character beyond ASCII that `bytes` begin with; 0 without one.
fn printable(bytes: &[u8]) -> usize {
    let length = match bytes.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => return 0,
    };
    let text = bytes.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok());
    match text.and_then(|text| text.chars().next()) {
        Some(c) if !is_unseen(c) => length,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        name(bytes, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// As a JSON reader sees it.
    fn decoded(bytes: &[u8]) -> String {
        serde_json::from_str(&format!("\"{}\"", text(bytes))).unwrap()
    }

    /// What the notation means.
    fn unescape(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let mut rest = text.bytes().peekable();
        while let Some(byte) = rest.next() {
            if byte != b'\\' {
                out.push(byte);
                continue;
            }
            match rest.next().unwrap() {
                b'n' => out.push(b'\n'),
                b't' => out.push(b'\t'),
                b'r' => out.push(b'\r'),
                b'v' => out.push(0x0b),
                b'f' => out.push(0x0c),
                digit @ b'0'..=b'7' => {
                    let mut value = u32::from(digit - b'0');
                    for _ in 0..2 {
                        let Some(next) = rest.next_if(|b| (b'0'..=b'7').contains(b)) else { break };
                        value = value * 8 + u32::from(next - b'0');
                    }
                    out.push(u8::try_from(value).unwrap());
                }
                other => out.push(other),
            }
        }
        out
    }

    #[test]
    fn names() {
        assert_eq!(decoded(b"/etc/hosts"), "/etc/hosts");
        assert_eq!(decoded("/tmp/grün 日本 🦀".as_bytes()), "/tmp/grün 日本 🦀");
        assert_eq!(decoded(b"a\"b\\c\n\x1b[2J\x7f"), r#"a"b\\c\n\33[2J\177"#);
        assert_eq!(decoded(b"\xff\xc3\xe6\x97x\x001"), r"\377\303\346\227x\0001");
        assert_eq!(
            decoded("\u{9b}31m\u{202e}x\u{2028}".as_bytes()),
            r"\302\23331m\342\200\256x\342\200\250"
        );
        assert_eq!(decoded(&[0xed, 0xa0, 0x80]), r"\355\240\200", "a surrogate is no character");
        assert_eq!(text(b"\""), r#"\""#);
        let mut out = Vec::new();
        quoted(b"a\"\\", &mut out);
        assert_eq!(out, br#"\"a\\\"\\\\\""#);
    }

    proptest! {
        #[test]
        fn always_printable_and_reversible(bytes: Vec<u8>) {
            let decoded = decoded(&bytes);
            prop_assert!(decoded.chars().all(|c| !is_unseen(c)));
            prop_assert_eq!(unescape(&decoded), bytes);
        }

        #[test]
        fn characters_come_through(written in "\\PC{0,30}") {
            prop_assert_eq!(unescape(&decoded(written.as_bytes())), written.as_bytes());
        }
    }
}
