//! What the pages of a block tell of the wall clock.

use flightrec_format::decode::Page;

use crate::fields::Fields;

/// Where the wall clock stood while the pages of a block were opened: so a time of day is found
/// without decompressing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// When the latest of the pages was opened, ns of `CLOCK_MONOTONIC`; never 0.
    pub opened: u64,
    /// The least of what `CLOCK_TAI` was ahead of `CLOCK_MONOTONIC` when they were opened, ns.
    pub least: i64,
    /// The greatest.
    pub greatest: i64,
}

impl Clocks {
    /// Bytes that it takes.
    pub(crate) const LEN: usize = 24;

    /// Of a block's pages; `None` where none tells a time.
    pub(crate) fn of(pages: &[Page]) -> Option<Self> {
        let mut all: Option<Self> = None;
        for header in pages.iter().map(Page::header).filter(|header| header.base_mono != 0) {
            let ahead = header.base_tai.wrapping_sub(header.base_mono) as i64;
            let of_page = Self { opened: header.base_mono, least: ahead, greatest: ahead };
            all = Some(all.map_or(of_page, |all| Self {
                opened: all.opened.max(of_page.opened),
                least: all.least.min(ahead),
                greatest: all.greatest.max(ahead),
            }));
        }
        all
    }

    /// Its bytes; 0 where it is not known.
    pub(crate) fn put(clocks: Option<Self>, out: &mut Vec<u8>) {
        let Self { opened, least, greatest } =
            clocks.unwrap_or(Self { opened: 0, least: 0, greatest: 0 });
        for word in [opened, least as u64, greatest as u64] {
            out.extend(word.to_le_bytes());
        }
    }

    /// From its bytes; `None` where they don't tell it.
    pub(crate) fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let (opened, least, greatest) = (fields.u64()?, fields.u64()? as i64, fields.u64()? as i64);
        (opened != 0 && least <= greatest).then_some(Self { opened, least, greatest })
    }
}
