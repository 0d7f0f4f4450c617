//! Bytes of unknown origin into printable ASCII, as strace does it.
//!
//! Names, paths and marks are chosen by any user of the recorded machine, and are printed on the
//! terminal of its administrator: no byte of theirs may reach it raw.

use flightrec_format::decode::Text;
use flightrec_format::unseen::escape_byte;

use super::plain::plain;

/// Appends `bytes`, escaped.
pub fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    loop {
        let (whole, from) = rest.split_at(plain(rest, []));
        out.extend_from_slice(whole);
        let Some((byte, after)) = from.split_first() else { return };
        escape_byte(*byte, after.first().is_some_and(u8::is_ascii_digit), out);
        rest = after;
    }
}

/// A text, escaped: paths, reasons and settings are as hostile as any name.
pub fn printable(text: impl AsRef<[u8]>) -> String {
    let mut out = Vec::new();
    escape(text.as_ref(), &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Appends `bytes` in double quotes, escaped; `...` after them when they are not all.
pub fn quote(bytes: &[u8], cut: bool, out: &mut Vec<u8>) {
    out.push(b'"');
    escape(bytes, out);
    out.push(b'"');
    if cut {
        out.extend_from_slice(b"...");
    }
}

/// Appends a recorded string in double quotes: `"/a/b"..."c/d"` where its middle is not recorded.
pub(crate) fn quote_text(text: &Text, out: &mut Vec<u8>) {
    let (head, tail) = text.parts();
    quote(head, text.is_cut(), out);
    if let Some(tail) = tail {
        quote(tail, false, out);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        escape(bytes, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// What strace's notation means.
    fn unescape(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut rest = text.iter().copied().peekable();
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
    fn as_strace_writes_them() {
        assert_eq!(text(b"/etc/hosts"), "/etc/hosts");
        assert_eq!(text(b"a\"b\\c\n\t"), r#"a\"b\\c\n\t"#);
        assert_eq!(text(b"\x1b[31m"), r"\33[31m");
        assert_eq!(text(b"\x001"), r"\0001");
        assert_eq!(text(b"\x00x"), r"\0x");
        assert_eq!(text("ü".as_bytes()), r"\303\274");
        let mut out = Vec::new();
        quote(b"x", true, &mut out);
        assert_eq!(out, b"\"x\"...");
    }

    proptest! {
        #[test]
        fn always_printable_and_reversible(bytes: Vec<u8>) {
            let mut out = Vec::new();
            escape(&bytes, &mut out);
            prop_assert!(out.iter().all(|b| (0x20..0x7f).contains(b)));
            prop_assert_eq!(unescape(&out), bytes);
        }
    }
}
