//! W3C trace contexts (<https://www.w3.org/TR/trace-context/>): which thread worked for which span
//! of a distributed trace, and when.
//!
//! [`find`] sees a context in the text of a mark; [`Contexts`] keeps who had which one. Where
//! contexts come from makes no difference to it: other sources than marks can feed it as well.

use rustc_hash::FxHashMap;

/// Most stretches that are kept, of all threads.
const STRETCHES_MAX: usize = 65_536;
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

/// A value, and the byte behind it.
fn parse(value: &[u8], behind: Option<&u8>) -> Option<Said> {
    let mut parts = value.split(|byte| *byte == b'-');
    let [version] = digits(parts.next()?)?;
    let trace: [u8; 16] = digits(parts.next()?)?;
    let span: [u8; 8] = digits(parts.next()?)?;
    let [flags] = digits(parts.next()?)?;
    // Later versions may have more fields behind.
    let ends = match behind {
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

/// A stretch of time in which a thread worked for a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The span.
    pub context: TraceContext,
    /// Start, ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// End.
    pub until: u64,
}

/// Which threads worked for which spans.
#[derive(Debug, Clone)]
pub struct Contexts {
    threads: FxHashMap<u32, Vec<Stretch>>,
    /// How long a context lasts that is neither ended nor told again, ns.
    longest: u64,
    stretches: usize,
    /// Contexts for which there was no room.
    left_out: u64,
}

impl Contexts {
    /// None yet. `longest`: how long a context lasts that is neither ended nor told again, ns.
    pub fn new(longest: u64) -> Self {
        Self { threads: FxHashMap::default(), longest, stretches: 0, left_out: 0 }
    }

    /// A thread said something of its context. What each thread said comes in the order of time.
    pub fn take(&mut self, tid: u32, time: u64, said: Said) {
        let end = time.saturating_add(self.longest);
        let last = self.threads.get_mut(&tid).and_then(|all| all.last_mut());
        if let Some(last) = last.filter(|last| last.until > time) {
            if said == Said::Begin(last.context) {
                last.until = end;
                return;
            }
            last.until = time;
        }
        let Said::Begin(context) = said else { return };
        if self.stretches >= STRETCHES_MAX {
            self.left_out += 1;
            return;
        }
        self.stretches += 1;
        self.threads.entry(tid).or_default().push(Stretch { context, from: time, until: end });
    }

    /// A thread ended, so its id may be another one's next.
    pub fn end(&mut self, tid: u32, time: u64) {
        if !self.threads.is_empty() {
            self.take(tid, time, Said::End);
        }
    }

    /// The stretches of a thread, in the order of time.
    pub fn of(&self, tid: u32) -> &[Stretch] {
        self.threads.get(&tid).map_or(&[], Vec::as_slice)
    }

    /// The span that a thread worked for at a moment.
    pub fn at(&self, tid: u32, time: u64) -> Option<TraceContext> {
        let all = self.of(tid);
        let before = all.partition_point(|of| of.from <= time).checked_sub(1)?;
        all.get(before).filter(|of| time < of.until).map(|of| of.context)
    }

    /// The threads that have any.
    pub fn threads(&self) -> impl Iterator<Item = (u32, &[Stretch])> {
        self.threads.iter().map(|(tid, all)| (*tid, all.as_slice()))
    }

    /// Contexts for which there was no room.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALUE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn context(span: u8) -> TraceContext {
        TraceContext { trace: [1; 16], span: [span; 8], flags: 1 }
    }

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

    #[test]
    fn threads_work_for_spans() {
        let mut contexts = Contexts::new(100);
        contexts.take(7, 10, Said::Begin(context(1)));
        // Told again: it lasts from then on.
        contexts.take(7, 80, Said::Begin(context(1)));
        contexts.take(7, 150, Said::Begin(context(2)));
        contexts.take(7, 170, Said::End);
        contexts.take(8, 50, Said::Begin(context(3)));
        contexts.end(9, 60);
        let at = |tid, time| contexts.at(tid, time).map(|of| of.span[0]);
        assert_eq!((at(7, 9), at(7, 10), at(7, 149)), (None, Some(1), Some(1)));
        assert_eq!((at(7, 150), at(7, 169), at(7, 170)), (Some(2), Some(2), None));
        assert_eq!((at(8, 149), at(8, 150), at(9, 70)), (Some(3), None, None));
        assert_eq!(contexts.of(7).len(), 2);
        assert_eq!(contexts.threads().count(), 2);
    }

    #[test]
    fn there_is_room_for_so_many() {
        let mut contexts = Contexts::new(10);
        for n in 0..STRETCHES_MAX as u64 + 5 {
            contexts.take(1, n, Said::Begin(context((n % 2) as u8)));
        }
        assert_eq!(contexts.left_out(), 5);
        assert_eq!(contexts.of(1).len(), STRETCHES_MAX);
        // The last one does not last into what is not known.
        assert_eq!(contexts.at(1, STRETCHES_MAX as u64 + 2), None);
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
