//! What the help of a command says beside its options: what it does, examples, exit status. Manual
//! pages have the same.

use std::fmt::Write as _;

use crate::exit::Exit;

/// What is said of a command.
#[derive(Debug)]
pub struct Help {
    /// What it does, without a full stop.
    pub about: &'static str,
    /// At least one command line of it, each with what it does.
    pub examples: &'static [(&'static str, &'static str)],
    /// How it may end.
    pub exits: &'static [Exit],
}

impl Help {
    /// Examples and exit status, which stand after the options.
    pub fn after(&self) -> String {
        let mut text = String::from("Examples:\n");
        for (line, says) in self.examples {
            // Writing to a string can't fail.
            let _ = writeln!(text, "  {line}\n        {says}");
        }
        text.push_str("\nExit status:");
        for exit in self.exits {
            let _ = write!(text, "\n  {}  {}", exit.code(), exit.describe());
        }
        text
    }
}
