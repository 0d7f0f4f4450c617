//! Arguments of system calls as texts. Those of a call that is made again, as in a loop, are made
//! once.

use std::fmt::Write as _;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use rustc_hash::FxHasher;

use flightrec_format::decode::Call;
use flightrec_reader::pipeline::EventContext;

use super::columns::Rows;
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
    /// No other arguments have it; in 64 bits.
    serial: u128,
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
        // Writing to a text does not fail.
        let _ = match value {
            Value::Signed(value) => write!(others, "{value}"),
            Value::Unsigned(value) => write!(others, "{value}"),
            Value::Text(value) => {
                others.push_str(value);
                Ok(())
            }
        };
    }

    pub(super) fn write(&self, rows: &mut Rows) {
        let column = |text: &str, rows: &mut Rows| {
            if text.is_empty() {
                rows.text(None);
            } else {
                rows.keyed(self.serial, || text.into());
            }
        };
        column(&self.path, rows);
        rows.int(self.fd);
        column(&self.file, rows);
        column(&self.others, rows);
    }
}

/// Calls whose arguments are kept.
const KEPT: usize = 1024;
/// Arguments that are kept to be used again.
const SPARE: usize = 64;

/// Arguments of the calls that were met last, of those that were met twice.
pub(super) struct Rendered {
    kept: Vec<Slot>,
    next: u128,
    /// To be used again.
    spare: Vec<Arc<Arguments>>,
}

/// A call, and the last one that had its place.
#[derive(Default)]
struct Slot {
    /// The hash of the last call without arguments that are kept.
    seen: u64,
    kept: Option<Kept>,
}

struct Kept {
    call: Call,
    /// What its arguments stand for, as far as they may be descriptors: each with its number before
    /// it.
    names: Vec<u8>,
    about: Arc<Arguments>,
}

impl Default for Rendered {
    fn default() -> Self {
        let kept = std::iter::repeat_with(Slot::default).take(KEPT).collect();
        Self { kept, next: 0, spare: Vec::new() }
    }
}

impl Kept {
    /// Whether its arguments are those of this call.
    #[inline]
    fn is_of(&self, call: &Call, known: &EventContext<'_>) -> bool {
        if self.call != *call {
            return false;
        }
        let mut rest = &*self.names;
        let mut is_same = |(fd, name): (i32, &[u8])| {
            let behind = rest.strip_prefix(&fd.to_le_bytes()[..]);
            let behind = behind.and_then(|rest| rest.strip_prefix(name));
            behind.and_then(|rest| rest.strip_prefix(b"\0")).map(|behind| rest = behind)
        };
        named(call, known).all(|named| is_same(named).is_some()) && rest.is_empty()
    }
}

/// What a call's arguments stand for, as far as they may be descriptors.
#[inline]
fn named<'a>(call: &Call, known: &EventContext<'a>) -> impl Iterator<Item = (i32, &'a [u8])> {
    let fds = known.fds;
    let args = call.args.iter().take(usize::from(call.nargs));
    args.filter_map(move |arg| Some((*arg as i32, fds.get(*arg as i32)?)))
}

impl Rendered {
    /// Forgets all: another recording may have other words.
    pub(super) fn forget(&mut self) {
        self.kept.iter_mut().for_each(|slot| *slot = Slot::default());
    }

    /// Takes back what [`Self::get`] gave: its room is used again.
    #[inline]
    pub(super) fn give_back(&mut self, mut about: Arc<Arguments>) {
        if self.spare.len() < SPARE && Arc::get_mut(&mut about).is_some() {
            self.spare.push(about);
        }
    }

    /// The arguments of a call.
    pub(super) fn get(
        &mut self,
        call: &Call,
        known: &EventContext<'_>,
        words: &mut dyn Words,
    ) -> Arc<Arguments> {
        let mut hasher = FxHasher::default();
        (call.nr, call.args).hash(&mut hasher);
        for text in &call.strings {
            hasher.write(&text.bytes);
        }
        let hash = hasher.finish();
        let at = (hash >> 20) as usize % KEPT;
        let Some(Slot { seen, kept }) = self.kept.get_mut(at) else { return Arc::default() };
        if let Some(kept) = kept
            && kept.is_of(call, known)
        {
            return kept.about.clone();
        }
        let mut about = self.spare.pop().unwrap_or_default();
        if let Some(about) = Arc::get_mut(&mut about) {
            about.clear();
            self.next += 1;
            about.serial = self.next;
            words.arguments(call, known, &mut |key, value| about.take(key, value));
        }
        // Most calls that are met once are not met again: they are not worth a copy.
        if std::mem::replace(seen, hash) == hash {
            let mut names = kept.take().map_or_else(Vec::new, |kept| kept.names);
            names.clear();
            for (fd, name) in named(call, known) {
                names.extend_from_slice(&fd.to_le_bytes());
                names.extend_from_slice(name);
                names.push(0);
            }
            *kept = Some(Kept { call: call.clone(), names, about: about.clone() });
        }
        about
    }
}
