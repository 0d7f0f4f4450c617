//! One zstd frame of several pieces, each in blocks of its own.
//!
//! zstd compresses by blocks of up to 128 KiB, each with its own entropy tables. Where content
//! changes its nature at a known place, ending a block there makes the tables fit better than
//! zstd's own guess. A reader sees an ordinary frame.

use std::io;

use zstd::zstd_safe::{self, CCtx, InBuffer, OutBuffer, ResetDirective};

/// Bytes that a frame of `pieces` pieces and `bytes` bytes takes at most.
pub(crate) fn bound(bytes: usize, pieces: usize) -> usize {
    // A block more for each piece, and the checksum.
    zstd_safe::compress_bound(bytes) + 8 * pieces + 16
}

fn error(code: usize) -> io::Error {
    io::Error::other(zstd_safe::get_error_name(code))
}

/// Compresses `pieces` into `out`; returns the frame's length. What the context is set to holds:
/// level, checksum.
pub(crate) fn compress(
    context: &mut CCtx<'_>,
    pieces: &[&[u8]],
    out: &mut [u8],
) -> io::Result<usize> {
    context.reset(ResetDirective::SessionOnly).map_err(error)?;
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    context.set_pledged_src_size(Some(length as u64)).map_err(error)?;
    let mut output = OutBuffer::around(out);
    for (i, piece) in pieces.iter().enumerate() {
        let mut input = InBuffer::around(piece);
        while input.pos() < piece.len() {
            progress(&mut output, |output| {
                context.compress_stream(output, &mut input).map(|_| input.pos() < piece.len())
            })?;
        }
        if i + 1 < pieces.len() {
            progress(&mut output, |output| context.flush_stream(output).map(|left| left > 0))?;
        }
    }
    progress(&mut output, |output| context.end_stream(output).map(|left| left > 0))?;
    Ok(output.pos())
}

/// Repeats a step until it has nothing left to do.
fn progress(
    output: &mut OutBuffer<'_, [u8]>,
    mut step: impl FnMut(&mut OutBuffer<'_, [u8]>) -> Result<bool, usize>,
) -> io::Result<()> {
    while step(output).map_err(error)? {
        if output.pos() >= output.capacity() {
            return Err(io::Error::other("a block takes more room than was made for it"));
        }
    }
    Ok(())
}
