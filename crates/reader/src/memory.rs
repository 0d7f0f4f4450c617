//! How much memory reading may take, whatever the files hold.
//!
//! Pages are most of it: what is read at once is chosen by the number of pages that the blocks'
//! headers tell, and counted as it is decoded ([`pages_max`]). All else that grows with what is
//! read has a limit of its own where it stands.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use flightrec_format::abi::page::{PAGE_SIZE, PageHeader};
use flightrec_format::decode::{Page, Summary};

/// Name of the environment variable that sets another limit, as in `2GiB`.
pub const VARIABLE: &str = "FLIGHTREC_MEMORY";
/// The most memory that a process takes that reads, bytes, unless [`VARIABLE`] or [`allow`] says
/// otherwise.
pub const LIMIT: u64 = 256 << 20;
/// Bytes of memory that a page takes while it is held: itself and its header, what the allocator
/// adds to each, and what it comes to, which stands twice while the rings are put together.
pub const PAGE_WEIGHT: u64 =
    (PAGE_SIZE + size_of::<PageHeader>() + 2 * 16 + 2 * size_of::<(Page, Summary)>()) as u64;

static CHOSEN: OnceLock<u64> = OnceLock::new();
/// Bytes of memory that the pages of live rings take.
static RINGS: AtomicU64 = AtomicU64::new(0);
/// Bytes of memory that are kept for what is made of the events.
static RESERVED: AtomicU64 = AtomicU64::new(0);

/// Sets the limit, bytes, whatever the environment says. It has no effect once the limit was asked
/// for: to be called before anything is read.
pub fn allow(bytes: u64) {
    let _ = CHOSEN.set(bytes);
}

/// So many pages of live rings are held: they are there at once, whatever the limit.
pub fn hold_rings(pages: usize) {
    RINGS.fetch_max((pages as u64).saturating_mul(PAGE_WEIGHT), Ordering::Relaxed);
}

/// So many bytes are kept for what is made of the events: stretches are shorter, so that both have
/// room. To be called before anything is read.
pub fn reserve(bytes: u64) {
    RESERVED.fetch_max(bytes, Ordering::Relaxed);
}

/// Bytes of memory that what is made of events may take, where that grows with them: to be
/// [reserved](reserve) by who makes it.
pub fn beside() -> u64 {
    limit() / 8 * 3
}

/// The most memory that the process takes, bytes: [`limit`], or more where live rings that are
/// larger than half of it are held.
pub fn limit_beside_rings() -> u64 {
    limit().max((limit() / 2).saturating_add(RINGS.load(Ordering::Relaxed)))
}

/// The most memory that a process takes that reads, bytes.
pub fn limit() -> u64 {
    *CHOSEN
        .get_or_init(|| std::env::var(VARIABLE).ok().and_then(|text| parse(&text)).unwrap_or(LIMIT))
}

/// Bytes of memory that the pages of a stretch may take: a window of more is told in stretches.
pub fn stretch() -> u64 {
    let reserved = RESERVED.load(Ordering::Relaxed).min(limit() / 2);
    if cfg!(test) { 256 << 10 } else { (limit() - reserved) / 16 * 3 }
}

/// The same, where so many pages of rings are held meanwhile. Up to half a stretch of them is what
/// is left anyway.
pub fn stretch_beside(pages: usize) -> u64 {
    let held = (pages as u64).saturating_mul(PAGE_WEIGHT);
    (stretch() / 2 * 3).saturating_sub(held).clamp(stretch() / 4, stretch())
}

/// Bytes of memory that pages may take that are held at once: where many belong to one moment, they
/// are more than a stretch.
pub fn pages_max() -> u64 {
    if cfg!(test) { 4 * stretch() } else { limit() / 2 }
}

/// Bytes of memory up to which a stretch is read up to the counters around it, which tell exactly
/// what is missing.
pub fn to_marks_max() -> u64 {
    pages_max() / 2
}

/// Bytes, from `512MiB`, `2G`, `1000000`; `None` where it is none.
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit
        .trim()
        .trim_end_matches(['B', 'b'])
        .trim_end_matches('i')
        .to_ascii_uppercase()
        .as_str()
    {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|bytes| *bytes != 0)
}

/// What is wrong with the limit that the environment sets.
pub fn wrong() -> Option<String> {
    let text = std::env::var(VARIABLE).ok()?;
    parse(&text).is_none().then(|| format!("{VARIABLE}={text}: not a size; use for example 2GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_many_pages_a_stretch_is_shorter() {
        let beside = |bytes: u64| stretch_beside((bytes / PAGE_WEIGHT) as usize);
        let all = stretch();
        assert_eq!((beside(0), beside(all / 2)), (all, all));
        assert!((all / 2..all / 2 + PAGE_WEIGHT).contains(&beside(all)), "{}", beside(all));
        assert_eq!((beside(2 * all), stretch_beside(usize::MAX)), (all / 4, all / 4));
    }

    #[test]
    fn limits_are_sizes() {
        assert_eq!(parse("512MiB"), Some(512 << 20));
        assert_eq!(parse(" 2G "), Some(2 << 30));
        assert_eq!(parse("1000000"), Some(1_000_000));
        for wrong in ["", "0", "much", "5 apples", "99999999999T"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
