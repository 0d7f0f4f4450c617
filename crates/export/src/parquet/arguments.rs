//! Arguments of system calls as texts. Those of a call that is made again, as in a loop, are made
//! once.

use std::hash::{Hash as _, Hasher as _};

use rustc_hash::FxHasher;

use flightrec_format::decode::Call;
use flightrec_reader::pipeline::EventContext;

use super::columns::Rows;
use crate::decimal;
use crate::exporter::{Value, Words};

/// Arguments of calls that are paths.
const PATHS: [&str; 9] = [
    "filename", "pathname", "path", "oldname", "newname", "dir_name", "name", "new_root", "library",
];

/// What a call is about; a text is empty where there is none.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    /// The first path.
    pub(super) path: String,
    /// The argument `fd`, and what that stands for.
    pub(super) fd: Option<i32>,
    pub(super) file: String,
    /// The others.
    pub(super) others: String,
}

impl Arguments {
    pub(super) fn clear(&mut self) {
        self.path.clear();
        self.fd = None;
        self.file.clear();
        self.others.clear();
    }

    pub(super) fn take(&mut self, key: &str, value: Value<'_>) {
        match value {
            Value::Text(text) if key == "fd" && self.fd.is_none() => {
                // As `3</etc/passwd>`.
                let (number, file) = text.split_once('<').unwrap_or((text, ""));
                self.fd = number.parse().ok();
                if self.fd.is_some() {
                    self.file.push_str(file.strip_suffix('>').unwrap_or(file));
                    return;
                }
            }
            Value::Signed(number) if key == "fd" && self.fd.is_none() => {
                self.fd = i32::try_from(number).ok();
                if self.fd.is_some() {
                    return;
                }
            }
            Value::Text(text) if self.path.is_empty() && PATHS.contains(&key) => {
                self.path.push_str(text);
                return;
            }
            _ => {}
        }
        let others = &mut self.others;
        if !others.is_empty() {
            others.push_str(", ");
        }
        others.push_str(key);
        others.push('=');
        match value {
            Value::Signed(value) => decimal::signed(value, others),
            Value::Unsigned(value) => decimal::unsigned(value, others),
            Value::Text(value) => others.push_str(value),
        }
    }
}

/// Columns of the table of calls.
const PATH: usize = 10;
const FILE: usize = 12;
const OTHERS: usize = 13;

/// What a call is about, with texts that are kept in a group of rows of the table of calls.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct About {
    path: Option<u32>,
    fd: Option<i32>,
    file: Option<u32>,
    others: Option<u32>,
}

impl About {
    fn keep(of: &Arguments, rows: &mut Rows) -> Self {
        Self {
            path: rows.keep(PATH, &of.path),
            fd: of.fd,
            file: rows.keep(FILE, &of.file),
            others: rows.keep(OTHERS, &of.others),
        }
    }

    /// Keeps it in the rows that come next.
    pub(super) fn go_on(&mut self, before: &Rows, rows: &mut Rows) {
        for (column, place) in
            [(PATH, &mut self.path), (FILE, &mut self.file), (OTHERS, &mut self.others)]
        {
            *place = place.and_then(|place| rows.keep(column, before.text_of(column, place)));
        }
    }

    /// Appends it to a row.
    #[inline]
    pub(super) fn write(&self, rows: &mut Rows) {
        rows.kept(self.path).int(self.fd).kept(self.file).kept(self.others);
    }
}

/// Calls whose arguments are kept; a power of two.
const KEPT: usize = 4096;

/// Arguments of the calls that were met last, of those that were met twice.
pub(super) struct Rendered {
    kept: Vec<Slot>,
    /// Groups of rows so far: what is kept in another one is of no use.
    group: u64,
    /// Texts in the making.
    made: Arguments,
}

/// A call, and the last one that had its place.
#[derive(Default)]
struct Slot {
    /// The hash of the last call without arguments that are kept.
    seen: u64,
    /// The hash of the call whose arguments are.
    hash: u64,
    kept: Option<Box<Kept>>,
}

struct Kept {
    call: Call,
    /// What its arguments stand for, as far as they may be descriptors: each with its number before
    /// it.
    names: Vec<u8>,
    about: About,
    group: u64,
}

impl Default for Rendered {
    fn default() -> Self {
        let kept = std::iter::repeat_with(Slot::default).take(KEPT).collect();
        Self { kept, group: 0, made: Arguments::default() }
    }
}

impl Kept {
    /// Whether its arguments are those of this call.
    #[inline]
    fn is_of(&self, call: &Call, descriptors: u8, known: &EventContext<'_>) -> bool {
        if self.call != *call {
            return false;
        }
        let mut rest = &*self.names;
        let mut is_same = |(fd, name): (i32, &[u8])| {
            let after = rest.strip_prefix(&fd.to_le_bytes()[..]);
            let after = after.and_then(|rest| rest.strip_prefix(name));
            after.and_then(|rest| rest.strip_prefix(b"\0")).map(|after| rest = after)
        };
        named(call, descriptors, known).all(|named| is_same(named).is_some()) && rest.is_empty()
    }
}

/// What a call's arguments stand for, as far as they may be descriptors.
#[inline]
fn named<'a>(
    call: &Call,
    descriptors: u8,
    known: &EventContext<'a>,
) -> impl Iterator<Item = (i32, &'a [u8])> {
    let fds = known.fds;
    let args = call.args.iter().take(usize::from(call.nargs)).enumerate();
    let args = args.filter(move |(index, _)| descriptors >> index & 1 != 0);
    args.filter_map(move |(_, arg)| Some((*arg as i32, fds.get(*arg as i32)?)))
}

impl Rendered {
    /// Forgets all: another recording may have other words, and another group of rows has no texts.
    pub(super) fn forget(&mut self) {
        self.group += 1;
    }

    /// The arguments of a call. `descriptors`: which of them stand for files, a bit for each.
    pub(super) fn get(
        &mut self,
        (call, descriptors): (&Call, u8),
        known: &EventContext<'_>,
        words: &mut dyn Words,
        rows: &mut Rows,
    ) -> About {
        if call.nargs == 0 && call.strings.is_empty() {
            return About::default();
        }
        let mut hasher = FxHasher::default();
        (call.nr, call.args).hash(&mut hasher);
        for text in &call.strings {
            hasher.write(&text.bytes);
        }
        let hash = hasher.finish();
        let at = (hash >> 20) as usize % KEPT;
        let Self { kept, group, made } = self;
        let Some(Slot { seen, hash: kept_hash, kept }) = kept.get_mut(at) else {
            return About::default();
        };
        if *kept_hash == hash
            && let Some(kept) = kept
            && kept.group == *group
            && kept.is_of(call, descriptors, known)
        {
            return kept.about;
        }
        made.clear();
        words.arguments(call, known, &mut |key, value| made.take(key, value));
        let about = About::keep(made, rows);
        // Most calls that are met once are not met again: they are not worth a copy.
        if std::mem::replace(seen, hash) == hash {
            let kept = kept.get_or_insert_with(|| {
                let (call, names) = (call.clone(), Vec::new());
                Box::new(Kept { call, names, about, group: *group })
            });
            kept.call.clone_from(call);
            kept.names.clear();
            for (fd, name) in named(call, descriptors, known) {
                kept.names.extend_from_slice(&fd.to_le_bytes());
                kept.names.extend_from_slice(name);
                kept.names.push(0);
            }
            (kept.about, kept.group) = (about, *group);
            *kept_hash = hash;
        }
        about
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::Table;
    use super::*;

    #[test]
    fn columns_are_those_of_the_table() {
        let columns: Vec<&str> = Table::Calls
            .message()
            .split([';', '{'])
            .skip(1)
            .filter_map(|field| field.split_whitespace().nth(2))
            .collect();
        let texts = [PATH, FILE, OTHERS].map(|column| columns[column]);
        assert_eq!(texts, ["path", "file", "args"]);
    }
}
