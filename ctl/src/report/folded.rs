//! Stacks as flame graphs take them: a line for each, its frames from the outermost one in with `;`
//! between them, and after a space its value: microseconds, or samples.

use std::fmt::Write as _;

use flightrec_analysis::groups::Sum;

use super::table::{OTHERS, Value};
use super::{Key, Table, Unit};
use crate::text::printable;

/// The lines. Keys that are no stack are frames of their own, in the order of `--by`; what woke a
/// thread stands inside of all others. The last line is the sum of what has no line, if there is
/// any.
pub fn table(table: &Table) -> Vec<u8> {
    let mut out = String::new();
    for (keys, sum) in &table.ranked.rows {
        let mut frames: Vec<String> = Vec::new();
        let mut waker = None;
        for (key, value) in table.values(keys) {
            let word = match value {
                Value::Number(number) => number.to_string().into_bytes(),
                Value::Word(word) => word.into(),
                Value::Crowded => OTHERS.into(),
                Value::Unknown => b"?".into(),
            };
            match key {
                Key::Stack => frames.extend(word.rsplit(|byte| *byte == b';').map(printable)),
                Key::Waker => waker = Some(frame(&word)),
                _ => frames.push(frame(&word)),
            }
        }
        if let Some(waker) = waker {
            frames.extend(["--".to_owned(), waker]);
        }
        out.push_str(&frames.join(";"));
        // Writing to a string can't fail.
        let _ = writeln!(out, " {}", value(table, sum));
    }
    let others = &table.ranked.others;
    if others.groups != 0 {
        let _ = writeln!(out, "{OTHERS} {}", value(table, &others.sum));
    }
    out.into_bytes()
}

/// Microseconds, or how many.
fn value(table: &Table, sum: &Sum) -> u64 {
    if table.shape.unit == Unit::Ns { sum.values.sum() / 1000 } else { sum.count }
}

/// A word that is one frame.
fn frame(word: &[u8]) -> String {
    printable(word).replace(';', ":")
}
