//! Bytes of unknown origin as printable text.
//!
//! The notation of `flightctl dump --format jsonl`: printable characters stand for themselves;
//! every other byte (of control characters, of invalid UTF-8, of characters that change how what is
//! around them looks) is three octal digits after a `\`; a `\` has another before it. Every byte
//! can be had back.

use std::borrow::Cow;

use flightrec_format::unseen::is_unseen;

/// `bytes` in that notation.
pub fn printable(bytes: &[u8]) -> Cow<'_, str> {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'\\';
    // Many bytes at once: paths are looked at by the million.
    let all_plain = |block: &[u8]| block.iter().fold(true, |all, byte| all & is_plain(byte));
    if bytes.chunks(32).all(all_plain)
        && let Ok(text) = std::str::from_utf8(bytes)
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '\\' {
                out.push_str("\\\\");
            } else if is_unseen(character) {
                let mut buffer = [0; 4];
                octal(character.encode_utf8(&mut buffer).as_bytes(), &mut out);
            } else {
                out.push(character);
            }
        }
        octal(chunk.invalid(), &mut out);
    }
    Cow::Owned(out)
}

fn octal(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        out.push('\\');
        for shift in [6, 3, 0] {
            out.push(char::from(b'0' + (byte >> shift & 7)));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_not_printable_is_octal() {
        assert_eq!(printable(b"/etc/hosts"), "/etc/hosts");
        assert_eq!(printable("grün 日本".as_bytes()), "grün 日本");
        assert_eq!(printable(b"a\\b\n\xff"), "a\\\\b\\012\\377");
        assert_eq!(printable("\u{202e}x".as_bytes()), "\\342\\200\\256x");
    }

    proptest! {
        #[test]
        fn any_bytes_come_out_printable_and_can_be_had_back(bytes: Vec<u8>) {
            let text = printable(&bytes);
            prop_assert!(text.chars().all(|c| !is_unseen(c)));
            let (mut back, mut rest) = (Vec::new(), text.as_bytes());
            while let Some((first, after)) = rest.split_first() {
                let (byte, used) = match (first, after) {
                    (b'\\', [b'\\', ..]) => (b'\\', 2),
                    (b'\\', [a, b, c, ..]) => {
                        let digit = |d: &u8| u32::from(d - b'0');
                        (u8::try_from(digit(a) * 64 + digit(b) * 8 + digit(c)).unwrap(), 4)
                    }
                    _ => (*first, 1),
                };
                back.push(byte);
                rest = &rest[used..];
            }
            prop_assert_eq!(back, bytes);
        }
    }
}
