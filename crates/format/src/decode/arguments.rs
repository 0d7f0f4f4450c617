//! The arguments of a program that is executed, and strings of which the middle is not recorded.

use std::borrow::Cow;

use super::event::Text;
use crate::abi::record::{STRING_MAX, StringStatus};

/// What stands for bytes that are not recorded.
const MISSING: &[u8] = b"...";

impl Text {
    /// Its bytes, with `...` where some are not recorded: a beginning and an end that are put
    /// together are a string that never was.
    pub fn marked(&self) -> Cow<'_, [u8]> {
        match self.parts() {
            (head, Some(tail)) => [head, MISSING, tail].concat().into(),
            (head, None) if self.is_cut() => [head, MISSING].concat().into(),
            (head, None) => head.into(),
        }
    }

    /// Of an argument list of `whole` bytes, the arguments, and whether the last of them is cut, or
    /// more are missing; then those at its end, of which the first may be the end of an argument.
    pub fn arguments(
        &self,
        whole: usize,
    ) -> (impl Iterator<Item = &[u8]>, bool, Option<impl Iterator<Item = &[u8]>>) {
        // The last argument's NUL may stand there or be taken away already.
        let complete = self.bytes.len() >= whole;
        let (begin, end) = match self.bytes.split_at_checked(STRING_MAX) {
            Some((begin, end)) if !complete && !end.is_empty() => (begin, Some(end)),
            _ => (&*self.bytes, None),
        };
        let end = end.map(|end| end.strip_suffix(b"\0").unwrap_or(end).split(|byte| *byte == 0));
        let bytes = match begin.split_last() {
            Some((0, before)) if complete => before,
            _ => begin,
        };
        let cut = self.status == StringStatus::Cut || self.bytes.len() + 1 < whole;
        let list = (whole > 0 || !bytes.is_empty()).then(|| bytes.split(|byte| *byte == 0));
        (list.into_iter().flatten(), cut, end)
    }

    /// The same as one list, with `...` where bytes are not recorded; none if nothing is.
    pub fn argument_words(&self, whole: usize) -> Vec<Vec<u8>> {
        if self.status == StringStatus::Unreadable {
            return Vec::new();
        }
        let (list, cut, end) = self.arguments(whole);
        let mut words: Vec<Vec<u8>> = list.map(<[u8]>::to_vec).collect();
        if let Some(last) = words.last_mut().filter(|_| cut) {
            last.extend_from_slice(MISSING);
        }
        for (index, argument) in end.into_iter().flatten().enumerate() {
            let missing = if index == 0 { MISSING } else { &[] };
            words.push([missing, argument].concat());
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::record::STRING_HEAD;

    fn text(status: StringStatus, bytes: &[u8]) -> Text {
        Text { index: 0, status, bytes: bytes.into() }
    }

    #[test]
    fn what_is_not_recorded_is_marked() {
        assert_eq!(*text(StringStatus::Whole, b"/a").marked(), *b"/a");
        assert_eq!(*text(StringStatus::Cut, b"/a").marked(), *b"/a...");
        let ends = [[b'h'; STRING_HEAD].as_slice(), b"tail"].concat();
        let marked = [[b'h'; STRING_HEAD].as_slice(), b"...tail"].concat();
        assert_eq!(*text(StringStatus::Ends, &ends).marked(), *marked);
    }

    #[test]
    fn arguments_that_never_were_are_not_made() {
        let words = |bytes: &[u8], whole| text(StringStatus::Whole, bytes).argument_words(whole);
        assert_eq!(words(b"ls\0-l\0", 6), [b"ls", b"-l"]);
        assert_eq!(words(b"", 0), [b""; 0]);
        let first = [b"cp\0".as_slice(), &[b'a'; STRING_MAX - 3]].concat();
        let list = [&first, b"zz\0to\0".as_slice()].concat();
        let cut = [[b'a'; STRING_MAX - 3].as_slice(), b"..."].concat();
        assert_eq!(words(&list, 1000), [b"cp".as_slice(), &cut, b"...zz", b"to"]);
        assert_eq!(words(&list, list.len()).len(), 3, "all of it");
        let unreadable = text(StringStatus::Unreadable, b"").argument_words(9);
        assert!(unreadable.is_empty());
    }
}
