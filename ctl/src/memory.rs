//! How much memory a command may take, whatever the files that it reads hold.
//!
//! Pages are most of it: what is read at once is chosen by the number of pages that the blocks'
//! headers tell, and counted as it is decoded ([`pages_max`]). All else that grows with what is
//! read has a limit of its own where it stands. [`watch`] is for what nobody thought of: it ends
//! the process before it takes more than [`limit`].

use std::fs;
use std::sync::{Once, OnceLock};
use std::thread;
use std::time::Duration;

use flightrec_format::abi::page::PAGE_SIZE;
use flightrec_format::decode::{Page, Summary};

use crate::exit::Exit;
use crate::human::bytes;
use crate::output::note;

/// Name of the environment variable that sets another limit, as in `2GiB`.
pub const VARIABLE: &str = "FLIGHTREC_MEMORY";
/// The most memory that a command takes, bytes, unless [`VARIABLE`] says otherwise.
const LIMIT: u64 = 512 << 20;
/// Below this nothing can be read; what is asked for is then held as far as it goes.
const LEAST: u64 = 64 << 20;
/// How often [`watch`] looks; the process may grow by some MiB meanwhile, for which [`SLACK`] is
/// kept.
const INTERVAL: Duration = Duration::from_millis(10);
const SLACK: u64 = 24 << 20;
/// Bytes of memory that a page takes while it is held: itself, what the allocator adds, its header
/// and what it comes to, which stand twice while the rings are put together.
pub const PAGE_WEIGHT: u64 = (PAGE_SIZE + 16 + 2 * size_of::<(Page, Summary)>()) as u64;

/// The most memory that a command takes, bytes.
pub fn limit() -> u64 {
    static CHOSEN: OnceLock<u64> = OnceLock::new();
    *CHOSEN
        .get_or_init(|| std::env::var(VARIABLE).ok().and_then(|text| parse(&text)).unwrap_or(LIMIT))
}

/// Bytes of memory that the pages of a stretch may take: a window of more is told in stretches.
pub fn stretch() -> u64 {
    if cfg!(test) { 256 << 10 } else { limit() / 8 * 3 }
}

/// Bytes of memory that pages may take that are held at once: where many belong to one moment, they
/// are more than a stretch.
pub fn pages_max() -> u64 {
    if cfg!(test) { 4 * stretch() } else { limit() / 2 }
}

/// `512MiB`, `2G`, `1000000`.
fn parse(text: &str) -> Option<u64> {
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

/// Ends the process, by an error that says what to do, before it takes more than [`limit`]. To be
/// called by who reads files.
pub fn watch() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let most = limit().max(LEAST).saturating_sub(SLACK);
        // Where no thread can be had, the other limits hold alone.
        let _ =
            thread::Builder::new().name("memory".into()).stack_size(64 << 10).spawn(move || {
                while resident().is_none_or(|taken| taken < most) {
                    thread::sleep(INTERVAL);
                }
                note(&format!(
                    "flightctl: this needs more than the {} of memory that a command may use: \
                     select less time with --since and --until; or the file is damaged (check it \
                     with flightctl verify); {VARIABLE}=2GiB in the environment allows more",
                    bytes(limit())
                ));
                std::process::exit(Exit::Error.code().into());
            });
    });
}

/// Bytes that the process has in memory.
fn resident() -> Option<u64> {
    let pages =
        fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse::<u64>().ok()?;
    Some(pages.saturating_mul(PAGE_SIZE as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_sizes() {
        assert_eq!(parse("512MiB"), Some(512 << 20));
        assert_eq!(parse(" 2G "), Some(2 << 30));
        assert_eq!(parse("1000000"), Some(1_000_000));
        for wrong in ["", "0", "much", "5 apples", "99999999999T"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_resident_is_known() {
        assert!(resident().unwrap() > 1 << 20);
    }
}
