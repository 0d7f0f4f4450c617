//! What is wrong in a file, and what it costs.

use std::fmt;

use crate::block::BlockHeader;

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The file's header can't be read; what it says is taken from the blocks.
    Header,
    /// A block's header can't be read; what it says is taken from the index.
    BlockHeader,
    /// Bytes that are no block.
    Bytes,
    /// The file ends within a block.
    Cut,
    /// A block's data are not what was written.
    Checksum,
    /// A block's data are what was written, but can't be decoded.
    Content(String),
    /// The index or the trailer can't be read; the blocks' own headers are used instead.
    Index,
    /// What a block's summary says is damaged, or not so; the block itself is used instead.
    Summary,
    /// The system can't read the file there.
    Io(String),
    /// More blocks than a file may have.
    TooMany,
}

/// Something wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins.
    pub offset: u64,
    /// How many bytes can't be used.
    pub bytes: u64,
    /// What it is.
    pub what: What,
    /// The block that is lost by it, where its header can be read: it tells kind, lane, time and
    /// events.
    pub block: Option<Box<BlockHeader>>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, bytes, what, block } = self;
        match what {
            What::Header => {
                write!(f, "at {offset}: the file's header is damaged; nothing is lost by it")?;
            }
            What::BlockHeader => {
                write!(f, "at {offset}: a block's header is damaged; nothing is lost by it")?;
            }
            What::Bytes => {
                write!(f, "at {offset}: {bytes} bytes are damaged; what they held is lost")?;
            }
            What::Cut => write!(
                f,
                "at {offset}: the file ends within a block, {bytes} bytes of which are there"
            )?,
            What::Checksum => {
                write!(f, "at {offset}: {bytes} bytes of data are damaged (wrong checksum)")?;
            }
            What::Content(why) => {
                write!(f, "at {offset}: a block of {bytes} bytes can't be decoded: {why}")?;
            }
            What::Index => write!(f, "at {offset}: the index is damaged; nothing is lost by it")?,
            What::Summary => {
                write!(f, "at {offset}: the summary of a block is damaged; nothing is lost by it")?;
            }
            What::Io(why) => write!(f, "at {offset}: {bytes} bytes can't be read: {why}")?,
            What::TooMany => write!(
                f,
                "at {offset}: more blocks than a file may have; {bytes} bytes are left out"
            )?,
        }
        let Some(block) = block else { return Ok(()) };
        write!(f, "; lost: ")?;
        match block.lane {
            Some(lane) => write!(f, "{} events of lane {}", block.events, lane.name()),
            None => write!(f, "the {}", block.kind.name()),
        }
    }
}
