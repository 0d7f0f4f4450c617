//! Ends a command before it takes more memory than it may ([`memory::limit`]): what nobody thought
//! of, after the limits of all that grows with what is read.

use std::fs;
use std::sync::Once;
use std::thread;
use std::time::Duration;

use flightrec_format::abi::page::PAGE_SIZE;
use flightrec_reader::memory;

use crate::exit::Exit;
use flightrec_cli::note;
use flightrec_format::human::bytes;

/// Below this nothing can be read; what is asked for is then held as far as it goes.
const LEAST: u64 = 64 << 20;
/// How often [`watch`] looks; the process may grow by some MiB meanwhile, for which [`SLACK`] is
/// kept.
const INTERVAL: Duration = Duration::from_millis(10);
const SLACK: u64 = 24 << 20;

/// Ends the process, by an error that says what to do, before it takes more than
/// [`memory::limit_beside_rings`]. To be called by who reads files.
pub fn watch() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let most = || memory::limit_beside_rings().max(LEAST).saturating_sub(SLACK);
        // Where no thread can be had, the other limits hold alone.
        let _ = thread::Builder::new().name("memory".into()).spawn(move || {
            while resident().is_none_or(|taken| taken < most()) {
                thread::sleep(INTERVAL);
            }
            note(&format!(
                "flightctl: this needs more than the {} of memory that a command may use: \
                     select less time with --since and --until; or the file is damaged (check it \
                     with flightctl verify); --memory 2GiB allows more",
                bytes(memory::limit_beside_rings())
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
    fn what_is_resident_is_known() {
        assert!(resident().unwrap() > 1 << 20);
    }
}
