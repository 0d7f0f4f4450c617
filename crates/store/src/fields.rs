//! Little-endian integers one after the other: the headers' fields.

/// Takes fields from the front of a slice; `None` where it is too short.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[b]| b)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn skip(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (skipped, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(skipped)
    }

    /// An integer in groups of 7 bits, the lowest first, bit 7 set in all but the last.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = u64::from(self.u8()?);
            value |= (byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

/// Appends an integer as [`Fields::varint`] reads it.
pub(crate) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Magic number of a zstd skippable frame (RFC 8878, section 3.1.2: 0x184D2A50 to 0x184D2A5F are
/// free to use).
pub(crate) const SKIPPABLE: u32 = 0x184D_2A5E;
/// Bytes of a skippable frame before its content: magic, length.
pub(crate) const FRAME_HEAD: usize = 8;
/// Bytes of the checksum that ends the content of each of our skippable frames.
pub(crate) const CRC_LEN: usize = 4;

/// Appends content, which its CRC-32 is to end, as a skippable frame.
pub(crate) fn put_frame(content: &[u8], out: &mut Vec<u8>) {
    out.extend(SKIPPABLE.to_le_bytes());
    out.extend(((content.len() + CRC_LEN) as u32).to_le_bytes());
    out.extend(content);
    out.extend(crc32fast::hash(content).to_le_bytes());
}

/// The length of the content of a skippable frame that begins with these bytes, if it is one.
pub(crate) fn frame_len(head: &[u8]) -> Option<u32> {
    let mut fields = Fields(head);
    (fields.u32()? == SKIPPABLE).then(|| fields.u32())?
}

/// The content of a frame without its checksum, if that is right.
pub(crate) fn checked(content: &[u8]) -> Option<&[u8]> {
    let (content, crc) = content.split_last_chunk::<CRC_LEN>()?;
    (crc32fast::hash(content) == u32::from_le_bytes(*crc)).then_some(content)
}
