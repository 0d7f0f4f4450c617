//! Strings of JSON.

/// Appends printable text as a string.
pub(crate) fn string(text: &str, out: &mut String) {
    out.push('"');
    if text.bytes().all(|byte| !matches!(byte, b'"' | b'\\' | b'\n')) {
        out.push_str(text);
        out.push('"');
        return;
    }
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            _ => out.push(character),
        }
    }
    out.push('"');
}
