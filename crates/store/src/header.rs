//! The first frame of a file: whose it is, and what a reader must know to read it.

use crate::fields::{CRC_LEN, FRAME_HEAD, Fields, checked, frame_len, put_frame};

/// Its first eight bytes.
pub const TAG: [u8; 8] = *b"FLTRECFH";
/// Bytes of its content, checksum included, as this release writes it. Later ones may be longer.
pub const LEN: usize = 96;
/// Most bytes that a reader takes for one.
pub const LEN_MAX: usize = 4096;
/// Features that change the meaning of a file, and that this release knows.
pub const INCOMPATIBLE_KNOWN: u64 = 0;

/// A file's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHeader {
    /// Features that a reader may pass over.
    pub compatible: u64,
    /// Features without which a reader must refuse the file.
    pub incompatible: u64,
    /// `/proc/sys/kernel/random/boot_id`, as bytes.
    pub boot_id: [u8; 16],
    /// Recording session of all its pages.
    pub session: u64,
    /// Its number in the store: later files have greater ones, whatever the clock says.
    pub number: u32,
    /// When it was made, `CLOCK_REALTIME`, ns since 1970.
    pub created_wall: i64,
    /// The same moment, `CLOCK_MONOTONIC`, ns.
    pub created_mono: u64,
    /// All that was recorded before this moment is in earlier files, `CLOCK_MONOTONIC`, ns; 0: not
    /// known. Where the writer had fallen behind, that is long before the file was made.
    pub begins: u64,
}

impl FileHeader {
    /// The header as a frame.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let mut content = Vec::with_capacity(LEN);
        content.extend(TAG);
        content.extend((LEN as u32).to_le_bytes());
        content.extend([0; 4]);
        content.extend(self.compatible.to_le_bytes());
        content.extend(self.incompatible.to_le_bytes());
        content.extend(self.boot_id);
        content.extend(self.session.to_le_bytes());
        content.extend(self.number.to_le_bytes());
        content.extend([0; 4]);
        content.extend(self.created_wall.to_le_bytes());
        content.extend(self.created_mono.to_le_bytes());
        content.extend(self.begins.to_le_bytes());
        content.resize(LEN - CRC_LEN, 0);
        put_frame(&content, out);
    }

    /// The header at the beginning of `bytes`, and the bytes of its frame; `None` where it is
    /// damaged.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let length = frame_len(bytes)? as usize;
        if !(LEN..=LEN_MAX).contains(&length) {
            return None;
        }
        let content = checked(bytes.get(FRAME_HEAD..FRAME_HEAD + length)?)?;
        let mut fields = Fields(content);
        if fields.array()? != TAG || fields.u32()? as usize != length {
            return None;
        }
        fields.skip(4)?;
        let (compatible, incompatible) = (fields.u64()?, fields.u64()?);
        let (boot_id, session, number) = (fields.array()?, fields.u64()?, fields.u32()?);
        fields.skip(4)?;
        let (created_wall, created_mono, begins) =
            (fields.u64()? as i64, fields.u64()?, fields.u64()?);
        let header = Self {
            compatible,
            incompatible,
            boot_id,
            session,
            number,
            created_wall,
            created_mono,
            begins,
        };
        Some((header, FRAME_HEAD + length))
    }
}

/// The bits of features that this release does not know: what it can't know is their names.
pub(crate) fn unknown_features(incompatible: u64) -> Option<String> {
    let unknown = incompatible & !INCOMPATIBLE_KNOWN;
    let bits: Vec<String> =
        (0..64).filter(|bit| unknown >> bit & 1 != 0).map(|bit| bit.to_string()).collect();
    (unknown != 0).then(|| bits.join(", "))
}
