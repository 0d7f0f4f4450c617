//! A snapshot as it is shown.

use std::path::Path;

use anyhow::Result;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::Value;

use flightrec_store::snapshot::{About, Summary, Thread};
use flightrec_store::snapshots::{self, Entry, Repeats};

use flightrec_cli::note;
use flightrec_reader::source::names;
use flightrec_reader::source::snapshots::SnapshotError;

/// A snapshot as it is shown.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    pub(super) id: String,
    pub(super) path: String,
    /// Its page for browsers; null: it has none.
    pub(super) page: Option<String>,
    pub(super) bytes: u64,
    /// How often its cause came again, and when it was last.
    pub(super) repeats: u64,
    pub(super) last_repeat: Option<Timestamp>,
    /// When its cause was.
    pub(super) time: Option<Timestamp>,
    /// It was asked for by its file.
    #[serde(skip)]
    pub(super) by_file: bool,
    #[serde(flatten, serialize_with = "with_units")]
    pub(super) about: About,
}

/// What a snapshot's file says of it, under the names that JSON has: with their units, and without
/// the wall time, which [`Shown::time`] is.
fn with_units<S: Serializer>(about: &About, serializer: S) -> Result<S::Ok, S::Error> {
    let mut about = serde_json::to_value(about).map_err(serde::ser::Error::custom)?;
    if let Some(fields) = about.as_object_mut() {
        fields.remove("wall");
    }
    rename(&mut about);
    about.serialize(serializer)
}

/// Gives fields their units, at any depth.
fn rename(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, mut value) in std::mem::take(fields) {
                rename(&mut value);
                let unit = UNITS.iter().find(|(field, _)| *field == name);
                fields.insert(unit.map_or(name, |(_, with)| (*with).to_owned()), value);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(rename),
        _ => {}
    }
}

/// Fields of a snapshot's file, with the names that JSON has for them.
const UNITS: [(&str, &str); 10] = [
    ("time", "mono_ns"),
    ("from", "from_mono_ns"),
    ("until", "until_mono_ns"),
    ("held_from", "held_from_mono_ns"),
    ("stretches", "stretches_mono_ns"),
    ("since", "since_mono_ns"),
    ("ran", "ran_ns"),
    ("queued", "queued_ns"),
    ("held", "held_ns"),
    ("blocked", "blocked_ns"),
];

/// The list for programs.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    pub(super) snapshots: &'a [Shown],
}

/// All that can be read, newest first; the others are named.
pub(super) fn all(dir: &Path) -> Result<Vec<Shown>> {
    let mut shown = Vec::new();
    for entry in snapshots::list(dir).map_err(SnapshotError::from)? {
        match snapshots::about(&entry.path) {
            Ok(Some(about)) => shown.push(Shown::new(&entry, about)),
            Ok(None) => note(&format!("left out: {}", SnapshotError::Silent(entry.path))),
            // Deleted meanwhile, or damaged.
            Err(error) => note(&format!("left out: {error}")),
        }
    }
    Ok(shown)
}

impl Shown {
    pub(super) fn new(entry: &Entry, about: About) -> Self {
        let Repeats { count, last } = snapshots::repeats(&entry.path);
        Self {
            id: entry.id.clone(),
            path: entry.path.to_string_lossy().into_owned(),
            page: Some(snapshots::page(&entry.path))
                .filter(|page| page.is_file())
                .map(|page| page.to_string_lossy().into_owned()),
            bytes: entry.bytes,
            repeats: count,
            last_repeat: (count != 0).then(|| moment(last)).flatten(),
            time: moment(about.wall),
            by_file: false,
            about,
        }
    }

    /// Looks up in the file whom the recorder did not know when it made the first answer: who died
    /// between.
    pub(super) fn name_threads(&mut self) {
        let About { until, summary, .. } = &mut self.about;
        let mut unknown: Vec<&mut Thread> =
            threads(summary).filter(|thread| thread.tgid == 0).collect();
        unknown.retain(|thread| thread.tid != 0);
        if unknown.is_empty() {
            return;
        }
        // Without the file's names they stay as they are.
        let Ok(names) = names::at(Path::new(&self.path), *until) else { return };
        for thread in unknown {
            let name = names.comm(thread.tid, 0, *until);
            if !name.is_empty() {
                thread.name = String::from_utf8_lossy(name).into_owned();
                thread.tgid = names.tgid(thread.tid, *until);
            }
        }
    }
}

/// All threads that a first answer names.
fn threads(summary: &mut Summary) -> impl Iterator<Item = &mut Thread> {
    let Summary { involved, waits, hogs, failures, .. } = summary;
    let involved = involved.iter_mut().map(|involved| &mut involved.thread);
    let waits =
        waits.iter_mut().flat_map(|wait| std::iter::once(&mut wait.thread).chain(&mut wait.waker));
    let hogs = hogs.iter_mut().map(|hog| &mut hog.thread);
    involved.chain(waits).chain(hogs).chain(failures.iter_mut().map(|failure| &mut failure.thread))
}

pub(super) fn moment(wall: i64) -> Option<Timestamp> {
    Timestamp::from_nanosecond(i128::from(wall)).ok()
}
