//! Kernel stacks of threads that are blocked at this moment, as the probes' walk tells them.

use std::io::{self, ErrorKind, Read};

use crate::abi::record::stack::FRAMES_MAX;

/// Where a blocked thread waits.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "control", derive(bincode::Encode, bincode::Decode))]
pub struct ThreadStack {
    /// Thread id.
    pub tid: u32,
    /// From the innermost function out, as [`crate::abi::record::stack::frame`] makes them; at most
    /// [`FRAMES_MAX`], so where there are as many there may be more.
    pub frames: Vec<u32>,
}

/// Bytes of a record before its frames: thread id and number of frames.
const HEAD: usize = 2 * size_of::<u32>();
/// Bytes that are read at once; many records.
const PIECE: usize = 64 << 10;

impl ThreadStack {
    /// Runs the walk by reading its file, and calls `each` with every stack.
    ///
    /// # Errors
    /// The kernel's, and [`ErrorKind::InvalidData`] where a record has more frames than any.
    pub fn walk(mut file: impl Read, mut each: impl FnMut(Self)) -> io::Result<()> {
        let mut buffer = vec![0; PIECE];
        let mut have = 0;
        loop {
            match file.read(buffer.get_mut(have..).unwrap_or_default()) {
                Ok(0) => return Ok(()),
                Ok(n) => have += n,
                // It has seen a million threads that run (`bpf_seq_read`, kernel/bpf/bpf_iter.c,
                // Linux 6.1).
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {
                    continue;
                }
                Err(e) => return Err(e),
            }
            let mut left = buffer.get(..have).unwrap_or_default();
            while let Some((stack, rest)) = split(left)? {
                each(stack);
                left = rest;
            }
            let begin = have - left.len();
            have = left.len();
            buffer.copy_within(begin..begin + have, 0);
        }
    }
}

/// The first record, and what follows; `None`: it is not complete.
fn split(bytes: &[u8]) -> io::Result<Option<(ThreadStack, &[u8])>> {
    let Some((tid, rest)) = bytes.split_first_chunk() else { return Ok(None) };
    let Some((count, rest)) = rest.split_first_chunk() else { return Ok(None) };
    let count = u32::from_ne_bytes(*count) as usize;
    if count > FRAMES_MAX {
        let told = format!("the kernel tells of a stack of {count} functions");
        return Err(io::Error::new(ErrorKind::InvalidData, told));
    }
    let Some((frames, rest)) = rest.split_at_checked(count * size_of::<u32>()) else {
        return Ok(None);
    };
    let (words, _) = frames.as_chunks();
    let frames = words.iter().map(|word| u32::from_ne_bytes(*word)).collect();
    Ok(Some((ThreadStack { tid: u32::from_ne_bytes(*tid), frames }, rest)))
}

const _: () = assert!(HEAD + FRAMES_MAX * size_of::<u32>() < PIECE);

#[cfg(test)]
mod tests {
    use super::*;

    fn record(tid: u32, frames: &[u32]) -> Vec<u8> {
        let words = [tid, frames.len() as u32].into_iter().chain(frames.iter().copied());
        words.flat_map(u32::to_ne_bytes).collect()
    }

    /// Gives at most so many bytes at once.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let most = self.1.min(to.len());
            self.0.read(&mut to[..most])
        }
    }

    #[test]
    fn records_may_come_in_pieces() {
        let stacks: Vec<ThreadStack> = (0..2000)
            .map(|i| ThreadStack { tid: i, frames: (0..i % (FRAMES_MAX as u32 + 1)).collect() })
            .collect();
        let bytes: Vec<u8> = stacks.iter().flat_map(|of| record(of.tid, &of.frames)).collect();
        for most in [1, 7, 1000, usize::MAX] {
            let mut found = Vec::new();
            ThreadStack::walk(Slow(&bytes, most), |stack| found.push(stack)).unwrap();
            assert!(found == stacks, "{most}");
        }
    }

    #[test]
    fn a_record_of_too_many_frames_is_an_error() {
        let bytes = record(7, &[1; FRAMES_MAX + 1]);
        let error = ThreadStack::walk(bytes.as_slice(), |_| ()).unwrap_err();
        assert_eq!(error.to_string(), "the kernel tells of a stack of 33 functions");
    }
}
