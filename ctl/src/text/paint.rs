//! Colour, where it is wanted.

/// Marks stretches of a line with terminal colours, or leaves them alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint(pub(super) bool);

impl Paint {
    /// What is always there and rarely looked at.
    pub(super) fn dim(self, out: &mut Vec<u8>) {
        self.put(b"\x1b[2m", out);
    }

    /// A failure.
    pub(super) fn failure(self, out: &mut Vec<u8>) {
        self.put(b"\x1b[31m", out);
    }

    /// What a person or the recorder itself put there.
    pub(super) fn mark(self, out: &mut Vec<u8>) {
        self.put(b"\x1b[1;36m", out);
    }

    /// The end of a stretch.
    pub(super) fn end(self, out: &mut Vec<u8>) {
        self.put(b"\x1b[0m", out);
    }

    fn put(self, code: &[u8], out: &mut Vec<u8>) {
        if self.0 {
            out.extend_from_slice(code);
        }
    }
}
