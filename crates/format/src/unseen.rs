//! Characters that a terminal or a log would obey, or would not show.
//!
//! Names, paths and texts are chosen by any user of the recorded machine, or by whoever wrote the
//! file that is read. None of these characters of theirs reaches a terminal, a log, or a sentence.

/// Whether a character ends a line, moves the cursor, begins an escape sequence, is not seen, or
/// turns the direction of what follows.
pub fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// A text for people, on one line: the bytes of each such character are escaped
/// ([`escape_byte`]): `\33`, `\342\200\256`. All else stands for itself, also `\`.
pub fn visible(text: impl AsRef<str>) -> String {
    let text = text.as_ref();
    let mut out = Vec::with_capacity(text.len() + 16);
    for (at, c) in text.char_indices() {
        let after = at + c.len_utf8();
        let bytes = text.as_bytes().get(at..after).unwrap_or_default();
        if is_unseen(c) {
            let digit_follows = text.as_bytes().get(after).is_some_and(u8::is_ascii_digit);
            for byte in bytes {
                escape_byte(*byte, digit_follows, &mut out);
            }
        } else {
            out.extend_from_slice(bytes);
        }
    }
    String::from_utf8(out).unwrap_or_default()
}

/// Appends a byte that does not stand for itself, as strace does: `\n`, `\33`. Octal is as short as
/// what follows allows.
pub fn escape_byte(byte: u8, digit_follows: bool, out: &mut Vec<u8>) {
    let letter = match byte {
        b'\n' => b'n',
        b'\t' => b't',
        b'\r' => b'r',
        0x0b => b'v',
        0x0c => b'f',
        b'"' | b'\\' => byte,
        _ => {
            out.push(b'\\');
            if byte >= 0o100 || digit_follows {
                out.push(b'0' + (byte >> 6));
            }
            if byte >= 0o10 || digit_follows {
                out.push(b'0' + (byte >> 3 & 7));
            }
            out.push(b'0' + (byte & 7));
            return;
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_octal() {
        assert_eq!(visible("/srv/grün\\x"), "/srv/grün\\x");
        assert_eq!(visible("a\u{1b}[2J\nb\u{202e}"), "a\\33[2J\\nb\\342\\200\\256");
        assert_eq!(visible("\u{9b}1m"), "\\302\\2331m", "C1 controls begin sequences, too");
    }
}
