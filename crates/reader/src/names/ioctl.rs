//! Requests of `ioctl`.
//!
//! `ioctl.txt` beside this file is made from what the kernel publishes, by `ioctl.sh`, which says
//! how.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

/// The names, by number.
static NAMES: LazyLock<FxHashMap<u32, &'static str>> = LazyLock::new(|| {
    let named = |line: &'static str| {
        let (number, name) = line.split_once(' ')?;
        Some((u32::from_str_radix(number.trim_start_matches("0x"), 16).ok()?, name))
    };
    include_str!("ioctl.txt").lines().filter_map(named).collect()
});

/// The name of a request: `A or B`, where two drivers have given it different ones.
pub fn request(number: u32) -> Option<&'static str> {
    NAMES.get(&number).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What this release's crates know of them is what the table says.
    #[test]
    fn every_line_is_a_request() {
        let lines = include_str!("ioctl.txt").lines().count();
        assert!(lines > 1_000 && NAMES.len() == lines, "{} of {lines}", NAMES.len());
        for (number, name) in [
            (libc::TCSETSW, "TCSETSW"),
            (libc::TIOCGPTPEER, "TIOCGPTPEER"),
            (libc::FIOCLEX, "FIOCLEX"),
        ] {
            assert_eq!(NAMES.get(&(number as u32)), Some(&name));
        }
    }
}
