//! Pages as columns of like values, which zstd then makes small.

use flightrec_format::abi::page::PAGE_SIZE;
use flightrec_format::decode::{Page, PageError};
use thiserror::Error;

/// Bytes that are no pages.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ColumnsError {
    /// Cut short.
    #[error("{0} bytes are no whole number of pages")]
    Length(usize),
    /// What came out is no page.
    #[error(transparent)]
    Page(#[from] PageError),
}

/// Appends the encoded pages.
pub fn encode(pages: &[Page], out: &mut Vec<u8>) {
    for page in pages {
        out.extend(page.bytes());
    }
}

/// The pages again: headers and words in use as they were, zero behind.
pub fn decode(bytes: &[u8]) -> Result<Vec<Page>, ColumnsError> {
    if !bytes.len().is_multiple_of(PAGE_SIZE) {
        return Err(ColumnsError::Length(bytes.len()));
    }
    bytes.chunks(PAGE_SIZE).map(|page| Ok(Page::copy_from(page)?)).collect()
}
