//! A report as CSV (RFC 4180, but with `\n` after each line): a head, then a row for each group;
//! all figures in plain numbers.

use super::Table;
use super::table::{OTHERS, Value, figures};
use crate::json::escape::decoded;

/// The table; the others are the last row, with `(others)` for each key.
pub fn table(table: &Table) -> Vec<u8> {
    let mut out = Vec::new();
    let empty = flightrec_analysis::groups::Sum::default();
    let heads = table.by.iter().map(|key| key.name().to_owned());
    let figure_heads = figures(table.shape, &empty).into_iter().map(|(name, _)| name);
    line(heads.chain(figure_heads).map(String::into_bytes), &mut out);
    for (keys, sum) in &table.ranked.rows {
        let values = table.values(keys).map(|(_, value)| match value {
            Value::Number(number) => number.to_string().into_bytes(),
            Value::Word(word) => no_formula(decoded(word)).into_bytes(),
            Value::Crowded => OTHERS.into(),
            Value::Unknown => Vec::new(),
        });
        let figures = figures(table.shape, sum).into_iter().map(|(_, value)| number(value));
        line(values.chain(figures), &mut out);
    }
    if table.ranked.others.groups != 0 {
        let keys = table.by.iter().map(|_| OTHERS.into());
        let figures = figures(table.shape, &table.ranked.others.sum).into_iter();
        line(keys.chain(figures.map(|(_, value)| number(value))), &mut out);
    }
    out
}

/// A word as no spreadsheet takes it for a formula.
fn no_formula(word: String) -> String {
    if word.starts_with(['=', '+', '-', '@']) { format!("'{word}") } else { word }
}

fn number(value: Option<u64>) -> Vec<u8> {
    value.map(|value| value.to_string().into_bytes()).unwrap_or_default()
}

fn line(fields: impl Iterator<Item = Vec<u8>>, out: &mut Vec<u8>) {
    for (at, field) in fields.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        if field.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
            out.push(b'"');
            for byte in field {
                if byte == b'"' {
                    out.push(b'"');
                }
                out.push(byte);
            }
            out.push(b'"');
        } else {
            out.extend_from_slice(&field);
        }
    }
    out.push(b'\n');
}
