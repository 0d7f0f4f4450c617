//! Pages as columns of like values, which zstd then makes small.
//!
//! - At most [`PAGES_MAX`] pages; all state is of one call, so blocks are independent. Memory: what
//!   goes in and comes out, and about 300 KiB of tables; to encode, 500 KiB more.
//! - Lossless for any page, also a damaged one: the header and what is in use come out as they went
//!   in, zeros after.
//! - Decoding takes any bytes, and ends by pages or an error.
//! - What is layout is in FORMAT.md, section 13; a change here is a change there, and a new
//!   version.
//!
//! `page` walks over a page, `item` over what it consists of: a `record` that the probes
//! would write is coded by its lane's model (`call`, `sched`), any other as words (`plain`);
//! `out` is the page that decoding puts together. A model knows what came before (`threads`,
//! `text`) and codes what that does not tell, by a `stream::Stream`: the same walk writes
//! the `column`s, or reads them.

mod call;
mod column;
mod header;
mod item;
mod out;
mod page;
mod plain;
mod record;
mod sched;
mod seen;
mod stream;
mod text;
mod threads;

use flightrec_format::decode::{Page, PageError, Summary};
use flightrec_format::meta::Meta;
use thiserror::Error;

use page::Block;
use seen::Paths;
pub(crate) use seen::{Ends, Open, Sight};
use stream::{Reading, Writing};

/// Most pages that bytes may decode to.
pub const PAGES_MAX: u64 = 4096;

/// Bytes that are no encoded pages.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ColumnsError {
    /// Shorter than its columns.
    #[error("encoded pages are cut short")]
    Cut,
    /// Written by another release.
    #[error(
        "column format version {0} is not known: use a flightctl of the release that recorded it"
    )]
    Version(u8),
    /// Written by another release, or damaged.
    #[error(
        "{0} columns are not those that this release knows: use a flightctl of the release that \
         recorded it"
    )]
    Columns(u64),
    /// More pages than there may be.
    #[error("{0} pages are more than there may be")]
    Pages(u64),
    /// A column ends too early, or holds what no encoder writes.
    #[error("the columns do not fit together")]
    Content,
    /// The columns hold more than the pages take.
    #[error("{0} bytes after the last page")]
    After(usize),
    /// What came out is no page.
    #[error(transparent)]
    Page(#[from] PageError),
}

/// The encoded pages, in pieces that zstd should treat apart: each large column is one.
pub(crate) fn pieces(encoded: &[u8]) -> Vec<&[u8]> {
    column::pieces(encoded)
}

/// Encodes pages, with one set of tables and columns: memory that was fetched once is not fetched
/// again for each block.
pub struct Encoder {
    columns: Writing,
    block: Block,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// Takes no memory but for its tables.
    pub fn new() -> Self {
        let mut block = Block::new();
        block.know(Paths::default());
        Self { columns: Writing::new(), block }
    }

    /// Appends the encoded pages. What was encoded before has no influence. Returns what the pages
    /// come to, as [`Page::summary`] tells it: the walk counts as it goes.
    pub fn encode(&mut self, pages: &[Page], out: &mut Vec<u8>) -> Vec<Summary> {
        self.columns.clear();
        self.block.clear();
        let summaries =
            pages.iter().map(|page| self.block.encode(&mut self.columns, page)).collect();
        column::put(pages.len(), self.columns.finish(), out);
        summaries
    }

    /// What pages come to, as [`Self::encode`] returns it, and nothing else.
    pub(crate) fn see<'p>(&mut self, pages: impl IntoIterator<Item = &'p Page>) -> Vec<Summary> {
        self.block.clear();
        let mut see = |page| {
            self.columns.clear();
            self.block.encode(&mut self.columns, page)
        };
        pages.into_iter().map(&mut see).collect()
    }

    /// Takes from a recording's description which arguments of calls are paths. Until then, any
    /// argument may be one. `None`: no argument is.
    pub(crate) fn know(&mut self, meta: Option<&Meta>) {
        self.block.know(meta.map_or_else(Paths::none, Paths::new));
    }

    /// What was seen in the pages that were encoded or seen last; `None`: not all in them is known.
    /// `open`: the calls that are open before them, and then after them. Only once.
    pub(crate) fn sight(&mut self, open: &mut Open) -> Option<Sight<'_>> {
        self.block.sight(open)
    }
}

/// Appends the encoded pages, as [`Encoder::encode`] does.
pub fn encode(pages: &[Page], out: &mut Vec<u8>) {
    Encoder::new().encode(pages, out);
}

/// Which contents of calls' arguments and of strings are decoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Contents {
    /// All.
    #[default]
    All,
    /// None: zeros stand in their place. All else is as it was, also what a page comes to, unless
    /// it was recorded with arguments that its records have no room for.
    None,
}

/// Decodes pages, with one set of tables.
pub struct Decoder {
    block: Block,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Takes no memory but for its tables.
    pub fn new() -> Self {
        Self { block: Block::new() }
    }

    /// The pages again, at most so many (of more, none is decoded), with what each comes to
    /// ([`Page::summary`]): headers and what is in use as they were, zero after. What was decoded
    /// before has no influence.
    pub fn decode(
        &mut self,
        bytes: &[u8],
        most: u64,
        contents: Contents,
    ) -> Result<Vec<(Page, Summary)>, ColumnsError> {
        match contents {
            Contents::All => self.pages::<true>(bytes, most),
            Contents::None => self.pages::<false>(bytes, most),
        }
    }

    fn pages<const CONTENTS: bool>(
        &mut self,
        bytes: &[u8],
        most: u64,
    ) -> Result<Vec<(Page, Summary)>, ColumnsError> {
        let encoded = column::take(bytes)?;
        if encoded.pages > most {
            return Err(ColumnsError::Pages(encoded.pages));
        }
        self.block.clear();
        let mut columns = Reading::<CONTENTS>::new(&encoded);
        let mut pages = Vec::with_capacity(encoded.pages as usize);
        for _ in 0..encoded.pages {
            pages.push(self.block.decode(&mut columns)?);
        }
        match columns.left() {
            0 => Ok(pages),
            left => Err(ColumnsError::After(left)),
        }
    }
}

/// The pages again, as [`Decoder::decode`] gives them.
pub fn decode(bytes: &[u8]) -> Result<Vec<Page>, ColumnsError> {
    Ok(decode_summed(bytes)?.into_iter().map(|(page, _)| page).collect())
}

/// As [`decode`], with what each page comes to.
pub fn decode_summed(bytes: &[u8]) -> Result<Vec<(Page, Summary)>, ColumnsError> {
    Decoder::new().decode(bytes, PAGES_MAX, Contents::All)
}
