//! Finds where in the file an error stands, and what was probably meant.

use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use serde::Serialize;

use crate::ConfigError;

/// The parsed file, with the place of each key.
#[derive(Debug)]
pub struct Document<'a> {
    text: &'a str,
    path: &'a Path,
    entries: Vec<Entry>,
}

/// The sections and keys that there are.
#[derive(Debug, Clone)]
pub struct Keys {
    known: Vec<String>,
}

/// A key of the file.
#[derive(Debug)]
struct Entry {
    /// With its section, by dots.
    key: String,
    /// Where the key stands.
    at: usize,
    /// Where its value stands.
    value: Range<usize>,
    is_table: bool,
}

impl<'a> Document<'a> {
    /// Parses `text`, the content of `path`.
    ///
    /// # Errors
    /// It is not TOML.
    pub fn parse(text: &'a str, path: &'a Path) -> Result<Self, ConfigError> {
        let table = DeTable::parse(text).map_err(|e| ConfigError::Syntax {
            path: path.into(),
            line: line(text, e.span().map_or(0, |s| s.start)),
            message: one_line(e.message()),
        })?;
        let mut entries = Vec::new();
        collect("", table.get_ref(), &mut entries);
        entries.sort_by_key(|e| e.at);
        Ok(Self { text, path, entries })
    }

    /// Every key must be one that there is.
    ///
    /// # Errors
    /// The first that is none, with the nearest right one.
    pub fn check_keys(&self, keys: &Keys) -> Result<(), ConfigError> {
        let known = &keys.known;
        let Some((wrong, key)) = self
            .entries
            .iter()
            .map(|entry| (entry, without_number(&entry.key)))
            .find(|(_, key)| !known.contains(key))
        else {
            return Ok(());
        };
        Err(ConfigError::UnknownKey {
            path: self.path.into(),
            line: line(self.text, wrong.at),
            what: if wrong.is_table { "section" } else { "key" },
            advice: advice(&key, known),
            key,
        })
    }

    /// An error of a value's type or form.
    pub fn typed(&self, error: &toml::de::Error) -> ConfigError {
        let at = error.span().map_or(0, |s| s.start);
        // The innermost value that holds the place: a section's own span may hold it as well.
        let holder = self
            .entries
            .iter()
            .filter(|e| e.value.contains(&at))
            .max_by_key(|e| e.key.matches('.').count());
        let key = holder.map_or_else(|| "configuration".into(), |e| e.key.clone());
        ConfigError::Value {
            path: self.path.into(),
            line: line(self.text, at),
            key,
            message: one_line(error.message()),
        }
    }

    /// An error of a key's value in itself.
    pub fn value(&self, key: &str, message: String) -> ConfigError {
        let at = self.entries.iter().find(|e| e.key == key).map_or(0, |e| e.at);
        ConfigError::Value {
            path: self.path.into(),
            line: line(self.text, at),
            key: key.into(),
            message,
        }
    }
}

/// The keys of a table and of those in it. `before`: its own key with a dot after it.
fn collect(before: &str, table: &DeTable<'_>, entries: &mut Vec<Entry>) {
    for (key, value) in table {
        let name = format!("{before}{}", key.get_ref());
        if let DeValue::Table(inner) = value.get_ref() {
            collect(&format!("{name}."), inner, entries);
        }
        if let (DeValue::Array(tables), true) = (value.get_ref(), before.is_empty()) {
            for (i, of) in tables.iter().enumerate() {
                if let DeValue::Table(inner) = of.get_ref() {
                    let key = format!("{name}[{}]", i + 1);
                    collect(&format!("{key}."), inner, entries);
                    let (at, value) = (of.span().start, of.span());
                    entries.push(Entry { key, at, value, is_table: true });
                }
            }
        }
        let is_table = value.get_ref().is_table();
        entries.push(Entry { key: name, at: key.span().start, value: value.span(), is_table });
    }
}

/// A key without the number of its table: `trace[2].when` is `trace.when`.
fn without_number(key: &str) -> String {
    match key.split_once('[') {
        Some((before, rest)) => {
            format!("{before}{}", rest.split_once(']').map_or("", |(_, after)| after))
        }
        None => key.to_owned(),
    }
}

impl Keys {
    /// All sections and keys of a configuration's defaults: there is no second list.
    pub fn of<C: Serialize>(defaults: &C) -> Self {
        fn collect(before: &str, table: &toml::Table, keys: &mut Vec<String>) {
            for (key, value) in table {
                let name = format!("{before}{key}");
                if let Some(inner) = value.as_table() {
                    collect(&format!("{name}."), inner, keys);
                }
                keys.push(name);
            }
        }
        let mut known = Vec::new();
        collect("", &toml::Table::try_from(defaults).unwrap_or_default(), &mut known);
        known.sort();
        Self { known }
    }

    /// And those of a list of tables, of which the defaults have none.
    #[must_use]
    pub fn and_tables(mut self, name: &str, keys: &[&str]) -> Self {
        self.known.push(name.to_owned());
        self.known.extend(keys.iter().map(|key| format!("{name}.{key}")));
        self.known.sort();
        self
    }
}

/// The right key that is nearest, else what there is to choose from.
fn advice(wrong: &str, known: &[String]) -> String {
    let (section, name) = wrong.rsplit_once('.').unwrap_or(("", wrong));
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    // The right name in the wrong section, or in none.
    if let Some(key) = known.iter().find(|k| k.contains('.') && last(k) == last(wrong)) {
        return key
            .rsplit_once('.')
            .map_or_else(String::new, |(s, n)| format!("`{n}` belongs in section [{s}]"));
    }
    // A key of an unknown section comes up before the section does only without a header of its
    // own.
    let near = known.iter().map(|k| (strsim::damerau_levenshtein(wrong, k), k)).min();
    if let Some((distance, key)) = near
        && distance <= 2.max(name.chars().count() / 3)
    {
        return format!("did you mean `{key}`?");
    }
    let beside = known
        .iter()
        .filter(|k| k.rsplit_once('.').map_or("", |(s, _)| s) == section && !section.is_empty());
    let beside: Vec<_> = beside.map(|k| last(k)).collect();
    if beside.is_empty() {
        let sections: Vec<_> =
            known.iter().filter(|k| !k.contains('.')).map(String::as_str).collect();
        return format!("the sections are: {}", sections.join(", "));
    }
    format!("section [{section}] has: {}", beside.join(", "))
}

/// The number of the line that byte `at` stands in, from 1.
fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|b| *b == b'\n').count()
}

fn one_line(message: &str) -> String {
    message.lines().collect::<Vec<_>>().join(", ")
}
