//! Colour, where it is wanted.

/// A time longer than this is worth a look, ns: most calls take less than a thousandth of it.
const LONG_NS: u64 = 10_000_000;
/// One longer than this is worth another.
const VERY_LONG_NS: u64 = 1_000_000_000;

/// Marks stretches of a line with terminal colours, or leaves them alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    /// What is always there and rarely looked at.
    pub(super) fn dim(self, out: &mut Vec<u8>) {
        self.put(b"\x1b[2m", out);
    }

    /// A failure.
    pub(super) fn failure(self, out: &mut Vec<u8>) {
        self.put(b"\x1b[31m", out);
    }

    /// A thread that waits, and can't be interrupted.
    pub(crate) fn stuck(self, out: &mut Vec<u8>) {
        self.put(b"\x1b[1;31m", out);
    }

    /// Appends a time by `write`, in a colour if it is long.
    #[inline]
    pub(crate) fn time(self, ns: u64, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.0 || ns <= LONG_NS {
            return write(out);
        }
        self.put(if ns > VERY_LONG_NS { b"\x1b[1;35m" } else { b"\x1b[33m" }, out);
        write(out);
        self.end(out);
    }

    /// What a person or the recorder itself put there.
    pub(super) fn mark(self, out: &mut Vec<u8>) {
        self.put(b"\x1b[1;36m", out);
    }

    /// The end of a stretch.
    pub(crate) fn end(self, out: &mut Vec<u8>) {
        self.put(b"\x1b[0m", out);
    }

    fn put(self, code: &[u8], out: &mut Vec<u8>) {
        if self.0 {
            out.extend_from_slice(code);
        }
    }
}
