//! Short texts that are appended by the million.

/// A text that is appended without a call, where it is no longer than `N` bytes.
#[derive(Debug, Clone)]
pub(crate) struct Piece<const N: usize> {
    /// Its beginning, and zeros after it.
    front: [u8; N],
    /// How much of that is it.
    length: usize,
    /// What does not fit.
    rest: Box<[u8]>,
}

impl<const N: usize> Piece<N> {
    pub(crate) fn new(text: &[u8]) -> Self {
        let (fits, rest) = text.split_at(text.len().min(N));
        let mut front = [0; N];
        for (to, from) in front.iter_mut().zip(fits) {
            *to = *from;
        }
        Self { front, length: fits.len(), rest: rest.into() }
    }

    /// Appends it.
    #[inline]
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        // A known number of bytes takes no call; what is too much is taken away.
        let end = out.len() + self.length;
        out.extend_from_slice(&self.front);
        out.truncate(end);
        if !self.rest.is_empty() {
            out.extend_from_slice(&self.rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_of_any_length_is_all_there() {
        let text = b"0123456789abcdef";
        for length in 0..=text.len() {
            let mut out = b"x".to_vec();
            Piece::<8>::new(&text[..length]).write(&mut out);
            out.push(b'y');
            assert_eq!(out, [b"x", &text[..length], b"y"].concat());
        }
    }
}
