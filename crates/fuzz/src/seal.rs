//! Checksums made right again, so that what is after them is reached.

/// In a block's header: how many pages it holds.
const PAGES: usize = 14;
/// In a block's header: bytes of the frame that follows, and their checksum.
const FRAME: usize = 60;
const FRAME_CRC: usize = 64;
const SKIPPABLE: u32 = 0x184D_2A5E;

/// All checksums of a file, frame by frame (FORMAT.md, section 11).
pub fn file(bytes: &mut [u8]) {
    let _ = frames(bytes, &mut |bytes, begin, end, next| {
        if is_block(bytes, begin) {
            let crc = crc32fast::hash(bytes.get(end..next)?).to_le_bytes();
            bytes.get_mut(begin + FRAME_CRC..begin + FRAME_CRC + 4)?.copy_from_slice(&crc);
        }
        let sealed = end.checked_sub(4).filter(|sealed| *sealed >= begin)?;
        let crc = crc32fast::hash(bytes.get(begin..sealed)?).to_le_bytes();
        bytes.get_mut(sealed..end)?.copy_from_slice(&crc);
        Some(())
    });
}

/// The checksums of a file of sums: of its header, and of each block that is found by its tag
/// (FORMAT.md, section 15).
pub fn sums(bytes: &mut [u8]) {
    const HEADER: usize = 48;
    const BLOCK: usize = 96;
    seal_header(bytes, 8, HEADER);
    let tagged: Vec<usize> = (0..bytes.len().saturating_sub(8))
        .filter(|at| bytes.get(*at..at + 8) == Some(b"FLTRECSB"))
        .collect();
    for begin in tagged {
        let end = begin + BLOCK;
        let length = word(bytes, begin + 68).map_or(0, |length| length as usize);
        if let Some(data) = end.checked_add(length).and_then(|until| bytes.get(end..until)) {
            let crc = crc32fast::hash(data).to_le_bytes();
            if let Some(field) = bytes.get_mut(begin + 72..begin + 76) {
                field.copy_from_slice(&crc);
            }
        }
        seal_header(bytes, begin, BLOCK);
    }
}

/// The checksum at the end of a header.
fn seal_header(bytes: &mut [u8], begin: usize, length: usize) {
    let sealed = begin + length - 4;
    let crc = bytes.get(begin..sealed).map(|content| crc32fast::hash(content).to_le_bytes());
    if let (Some(crc), Some(field)) = (crc, bytes.get_mut(sealed..sealed + 4)) {
        field.copy_from_slice(&crc);
    }
}

/// Says in the headers of a file's blocks of pages, and in its index, that each has so many.
pub fn announce(bytes: &mut [u8], pages: u16) {
    let number = pages.to_le_bytes();
    let _ = frames(bytes, &mut |bytes, begin, end, _| {
        if is_block(bytes, begin) && bytes.get(begin + 12) == Some(&1) {
            bytes.get_mut(begin + PAGES..begin + PAGES + 2)?.copy_from_slice(&number);
        }
        if bytes.get(begin..begin + 8)? == b"FLTRECIX" {
            let entry = word(bytes, begin + 8)? as usize;
            let entries = bytes.get_mut(begin + 24..end - 4)?;
            for entry in
                entries.chunks_exact_mut(entry.max(64)).filter(|entry| entry.get(8) == Some(&1))
            {
                entry.get_mut(10..12)?.copy_from_slice(&number);
            }
        }
        Some(())
    });
}

fn is_block(bytes: &[u8], begin: usize) -> bool {
    bytes.get(begin..begin + 8) == Some(b"FLTRECBK")
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Goes over a file's own frames: where the content of each begins and ends, and where the next
/// frame of ours begins. `None`: the file ends.
fn frames(
    bytes: &mut [u8],
    each: &mut impl FnMut(&mut [u8], usize, usize, usize) -> Option<()>,
) -> Option<()> {
    let mut at = 0;
    while word(bytes, at)? == SKIPPABLE {
        let begin = at + 8;
        let end = begin.checked_add(word(bytes, at + 4)? as usize)?;
        let mut next = end;
        if is_block(bytes, begin) {
            next = end.checked_add(word(bytes, begin + FRAME)? as usize)?;
        }
        bytes.get(..next)?;
        each(bytes, begin, end, next)?;
        at = next;
    }
    Some(())
}
