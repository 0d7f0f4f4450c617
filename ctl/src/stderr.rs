//! What is said beside the output.

use std::io::{self, Write};

/// A line on standard error. Where that is closed there is nobody to tell.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
