//! `[[tracepoint]]`: tracepoints that are recorded beside the kinds of event that there are.

use crate::configured_tracepoints::{Condition, ConfiguredTracepoint};

/// Most tracepoints that are recorded at a time.
pub const TRACEPOINTS_MAX: usize = 32;
/// Longest name, bytes.
const NAME_MAX: usize = 128;

/// The keys of a table.
pub(super) const KEYS: [&str; 3] = ["event", "when", "stack"];

/// What is wrong with the tables whatever the kernel is: the key, and what would be right.
pub(super) fn check(tables: &[ConfiguredTracepoint]) -> Result<(), (String, String)> {
    if tables.len() > TRACEPOINTS_MAX {
        let message = format!("{} tables are more than {TRACEPOINTS_MAX}", tables.len());
        return Err((key(TRACEPOINTS_MAX, ""), message));
    }
    for (i, table) in tables.iter().enumerate() {
        let is_word = |of: &str| {
            let is_of_word = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
            !of.is_empty() && of.chars().all(is_of_word)
        };
        let name = table.event.split_once(':').filter(|_| table.event.len() <= NAME_MAX);
        if !name.is_some_and(|(subsystem, name)| is_word(subsystem) && is_word(name)) {
            let what =
                "is not a tracepoint: write SUBSYSTEM:NAME, like \"ext4:ext4_sync_file_exit\"";
            let (at, message) = if table.event.is_empty() {
                (key(i, ""), "it has no `event`: write SUBSYSTEM:NAME".to_owned())
            } else {
                (key(i, "event"), format!("{:?} {what}", table.event))
            };
            return Err((at, message));
        }
        if tables.iter().take(i).any(|before| before.event == table.event) {
            let message = format!("{} has a table already; join conditions by ||", table.event);
            return Err((key(i, "event"), message));
        }
        if let Some(when) = &table.when {
            Condition::parse(when).map_err(|message| (key(i, "when"), message))?;
        }
    }
    Ok(())
}

/// The name of a table's key, as errors have it; the first table is number 0 here.
pub fn key(table: usize, key: &str) -> String {
    let dot = if key.is_empty() { "" } else { "." };
    format!("tracepoint[{}]{dot}{key}", table + 1)
}
