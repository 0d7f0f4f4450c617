//! A summary's frame: a tag, the checksum of the block's data, and the fields, one zstd frame where
//! that makes them shorter.

use super::BlockSummary;
use super::code::{decode, encode};
use crate::fields::{CRC_LEN, FRAME_HEAD, Fields, checked, frame_len, put_frame};

/// The first eight bytes of the content.
const TAG: [u8; 8] = *b"FLTRECBS";
/// Bytes of the content before the fields: tag, checksum of the data, bytes of the fields before
/// compression.
const HEAD: usize = 16;
/// Most bytes of the fields.
const FIELDS_MAX: usize = 1 << 20;
/// Most bytes of a frame that are read.
pub const SUMMARY_MAX: usize = FRAME_HEAD + HEAD + FIELDS_MAX + CRC_LEN;
/// Level of zstd.
const LEVEL: i32 = 1;

/// Appends the frame of a block whose data have this checksum; nothing where it would be too long.
pub(crate) fn put(summary: &BlockSummary, data_crc: u32, out: &mut Vec<u8>) {
    let mut fields = Vec::new();
    encode(summary, &mut fields);
    if fields.len() > FIELDS_MAX {
        return;
    }
    let mut content = Vec::with_capacity(HEAD + fields.len());
    content.extend(TAG);
    content.extend(data_crc.to_le_bytes());
    content.extend((fields.len() as u32).to_le_bytes());
    match zstd::bulk::compress(&fields, LEVEL) {
        Ok(short) if short.len() < fields.len() => content.extend(short),
        _ => content.extend(fields),
    }
    put_frame(&content, out);
}

/// What a frame says; `None`: it is damaged, or of another block.
pub(crate) fn parse(frame: &[u8], data_crc: u32) -> Option<BlockSummary> {
    let content = frame.get(FRAME_HEAD..)?;
    if frame_len(frame)? as usize != content.len() {
        return None;
    }
    let mut content = Fields(checked(content)?);
    if content.array()? != TAG || content.u32()? != data_crc {
        return None;
    }
    let length = content.u32()? as usize;
    if length > FIELDS_MAX || content.0.len() > length {
        return None;
    }
    if content.0.len() == length {
        return decode(content.0);
    }
    let fields = zstd::bulk::decompress(content.0, length).ok()?;
    decode(&fields).filter(|_| fields.len() == length)
}

#[cfg(test)]
mod tests {
    use super::super::{CallSummary, Components, CpuEntry, Missing};
    use super::*;

    fn summary() -> BlockSummary {
        let call = |nr, ended, longest| CallSummary {
            call: (0, nr),
            ended,
            errors: if nr == 0 { vec![] } else { vec![2, 11] },
            longest,
            missing: Missing { strings: nr as u8, arguments: 0 },
            unbegun: longest.is_none().then_some(Missing { strings: 1, arguments: 3 }),
        };
        BlockSummary {
            kinds: 3,
            threads: (0..500).map(|n| 7 * n).collect(),
            calls: vec![call(0, 70_000, Some(2048)), call(257, 1, None)],
            cpus: vec![CpuEntry { cpu: 3, idles: true, ends_idle: false }],
            components: Components { vague: true, any: false, bits: vec![1, 2, 3] },
        }
    }

    #[test]
    fn what_was_written_is_read() {
        for of in [summary(), BlockSummary::default()] {
            let mut frame = Vec::new();
            put(&of, 99, &mut frame);
            assert_eq!(parse(&frame, 99), Some(of));
            assert_eq!(parse(&frame, 98), None, "of another block");
        }
    }

    #[test]
    fn what_is_damaged_says_nothing() {
        let mut frame = Vec::new();
        put(&summary(), 99, &mut frame);
        for at in 0..frame.len() {
            assert_eq!(parse(&frame[..at], 99), None, "cut after {at}");
            let mut flipped = frame.clone();
            flipped[at] ^= 1;
            assert_eq!(parse(&flipped, 99), None, "byte {at}");
        }
    }
}
