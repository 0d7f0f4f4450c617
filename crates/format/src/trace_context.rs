//! W3C trace contexts (<https://www.w3.org/TR/trace-context/>): for which span of a distributed
//! trace a thread works, as the text of a mark says ([`find`]).

/// How long a context lasts that is neither ended nor said again, ns.
pub const LONGEST_NS: u64 = 60_000_000_000;
/// The field's name, in texts.
const FIELD: &[u8] = b"traceparent";
/// Length of a version 00 value: `00-` and 32 digits, `-` and 16, `-` and 2.
const LENGTH: usize = 55;

/// A span of a distributed trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TraceContext {
    /// The trace.
    pub trace: [u8; 16],
    /// The span of it.
    pub span: [u8; 8],
    /// Its flags.
    pub flags: u8,
}

impl TraceContext {
    /// Whether the caller may have recorded the trace: of others nothing is to be told.
    pub const fn is_sampled(&self) -> bool {
        self.flags & 1 != 0
    }
}

/// What a text says of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// From now on the thread works for this span.
    Begin(TraceContext),
    /// It works for none any more.
    End,
}

/// What a text says of a context; `None`: nothing. A context ends by one whose ids are zero, or by
/// the name `traceparent` without a value that is one.
pub fn find(text: &[u8]) -> Option<Said> {
    let is_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    for (at, window) in text.windows(LENGTH).enumerate() {
        // Part of a longer word is none.
        if window.get(2) != Some(&b'-') || at > 0 && is_word(text.get(at - 1)) {
            continue;
        }
        if let Some(said) = parse(window, text.get(at + LENGTH)) {
            return Some(said);
        }
    }
    let has_name = text.windows(FIELD.len()).any(|window| window.eq_ignore_ascii_case(FIELD));
    has_name.then_some(Said::End)
}

/// The id of a trace, by itself or in a value of `traceparent`; `None`: it is none, or of zeros.
pub fn trace_id(text: &[u8]) -> Option<[u8; 16]> {
    match find(text) {
        Some(Said::Begin(context)) => Some(context.trace),
        _ => digits(&text.to_ascii_lowercase()).filter(|trace| *trace != [0; 16]),
    }
}

/// A value, and the byte after it.
fn parse(value: &[u8], after: Option<&u8>) -> Option<Said> {
    let mut parts = value.split(|byte| *byte == b'-');
    let [version] = digits(parts.next()?)?;
    let trace: [u8; 16] = digits(parts.next()?)?;
    let span: [u8; 8] = digits(parts.next()?)?;
    let [flags] = digits(parts.next()?)?;
    // Later versions may have more fields after.
    let ends = match after {
        Some(b'-') => version != 0,
        Some(byte) => !byte.is_ascii_alphanumeric(),
        None => true,
    };
    if version == 0xff || parts.next().is_some() || !ends {
        return None;
    }
    let is_none = trace == [0; 16] || span == [0; 8];
    Some(if is_none { Said::End } else { Said::Begin(TraceContext { trace, span, flags }) })
}

/// Bytes of small hexadecimal digits, of exactly that length.
fn digits<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALUE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn contexts_in_texts() {
        let Some(Said::Begin(found)) = find(VALUE.as_bytes()) else { panic!("none") };
        assert_eq!(found.trace[..2], [0x4b, 0xf9]);
        assert_eq!((found.span[7], found.flags, found.is_sampled()), (0xb7, 1, true));
        for text in [
            format!("traceparent={VALUE}"),
            format!("traceparent: {VALUE}"),
            format!("Orders:{VALUE}"),
            format!("a-b-c {VALUE} and more"),
            format!("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-{}", "x"),
        ] {
            assert_eq!(find(text.as_bytes()), Some(Said::Begin(found)), "{text}");
        }
        let not_sampled = VALUE.replace("-01", "-00");
        let Some(Said::Begin(found)) = find(not_sampled.as_bytes()) else { panic!("none") };
        assert!(!found.is_sampled());
    }

    #[test]
    fn what_ends_a_context_and_what_says_nothing() {
        let zero = "00-00000000000000000000000000000000-0000000000000000-00";
        for text in [zero, "traceparent=", "Traceparent: none", "traceparent=00-xyz"] {
            assert_eq!(find(text.as_bytes()), Some(Said::End), "{text}");
        }
        for text in [
            String::new(),
            "deploy of 1.2 begins".to_owned(),
            VALUE.to_uppercase(),
            VALUE.replace("00-4", "ff-4"),
            format!("x{VALUE}"),
            format!("{VALUE}0"),
            format!("{VALUE}-00"),
            VALUE[..LENGTH - 1].to_owned(),
        ] {
            assert_eq!(find(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text: Vec<u8>, at in 0_usize..80) {
            let _ = find(&text);
            let mut with = text.clone();
            with.truncate(at);
            with.push(b' ');
            with.extend_from_slice(VALUE.as_bytes());
            prop_assert!(matches!(find(&with), Some(Said::Begin(_))));
        }
    }
}
