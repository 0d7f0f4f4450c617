//! What all pages have in common.

use roff::{Roff, bold, roman};

/// After a page's name, in its foot.
pub(crate) const SOURCE: &str = concat!("flightrec ", env!("CARGO_PKG_VERSION"));
/// In place of a date, so that the same source makes the same pages; an empty argument would not be
/// written.
pub(crate) const NO_DATE: &str = " ";
/// The book that the pages are in.
pub(crate) const MANUAL: &str = "flightrec";

/// A section of lines: at an indent of two a term, deeper its explanation; what goes before them is
/// text.
pub(crate) fn section(roff: &mut Roff, heading: &str, lines: &[&str]) {
    roff.control("SH", [heading]);
    for line in lines {
        let text = line.trim_start();
        match line.len() - text.len() {
            _ if text.is_empty() => _ = roff.control("PP", []),
            // `0  fine`: a short term stands before its explanation.
            2 if text.starts_with(|c: char| c.is_ascii_digit()) => {
                let (term, rest) = text.split_once(' ').unwrap_or((text, ""));
                roff.control("TP", ["4"]).text([bold(term)]).text([roman(rest.trim_start())]);
            }
            2 => _ = roff.control("TP", []).text([bold(text)]),
            _ => _ = roff.text([roman(text)]),
        }
    }
}

/// `SEE ALSO`
pub(crate) fn see_also(roff: &mut Roff, pages: &str) {
    section(roff, "SEE ALSO", &[pages]);
}
