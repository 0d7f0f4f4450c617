//! Names of containers and pods: a control group's path has ids, and what stands for them only the
//! node's runtime knows, as long as the container is there.
//!
//! The runtime's own files are read (`sources`), below a root that the configuration names: no
//! socket is asked, and no network. That is done by a thread of its own (`reader`), so nobody waits
//! for a disk. What it has found goes into the recording's metadata, by control group. Bounds:
//! `ASKED_MAX` containers at a time, `TRIES` times each, `BYTES_MAX` of the metadata, and those of
//! each file in `sources`.

mod files;
mod kubelet;
mod reader;
mod sources;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use flightrec_format::containers::{Runtime, identity};
use flightrec_format::meta::{ContainerNames, Meta};

use self::reader::Reader;

/// Most bytes of the metadata that names take.
pub const BYTES_MAX: usize = 64 << 10;
/// Most containers that are looked for at a time.
const ASKED_MAX: usize = 64;
/// How often a container is looked for that has no name yet.
const TRIES: u32 = 6;

/// A container that has no name yet.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    /// The control group under which its names are kept.
    group: u64,
    runtime: Runtime,
    id: String,
    pod_uid: String,
}

/// What names the containers of a recording.
#[derive(Debug, Default)]
pub struct Containers {
    /// From [`Self::start`] on.
    reader: OnceLock<Reader>,
    /// How often each container without a name was looked for, by its id or its pod's.
    tries: Mutex<HashMap<String, u32>>,
}

impl Containers {
    /// Has files below `root` read from now on, by a thread that this starts.
    ///
    /// # Errors
    /// The thread can't be started.
    pub fn start(&self, root: &Path) -> io::Result<()> {
        let reader = Reader::start(root)?;
        // A second one would end here.
        let _ = self.reader.set(reader);
        Ok(())
    }

    /// Has names looked for of the containers that have none. It waits for nothing.
    pub fn ask(&self, meta: &Meta) {
        let Some(reader) = self.reader.get() else { return };
        let wanted = wanted(meta);
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        tries.retain(|id, _| wanted.iter().any(|of| key(of) == id));
        let asked: Vec<Wanted> = wanted
            .into_iter()
            .filter(|of| tries.get(key(of)).is_none_or(|tries| *tries < TRIES))
            .take(ASKED_MAX)
            .collect();
        let keys: Vec<String> = asked.iter().map(|of| key(of).to_owned()).collect();
        if reader.ask(asked) {
            for key in keys {
                *tries.entry(key).or_default() += 1;
            }
        }
    }

    /// Waits until what was asked for has been looked for, at most so long.
    pub fn wait(&self, limit: Duration) {
        if let Some(reader) = self.reader.get() {
            reader.wait(limit);
        }
    }

    /// Names that were found, by control group, for [`enter`].
    pub fn found(&self) -> Vec<(u64, ContainerNames)> {
        self.reader.get().map(Reader::found).unwrap_or_default()
    }
}

/// Enters names into a recording's metadata as far as there is room, and takes those out whose
/// groups are gone from it.
pub fn enter(meta: &mut Meta, found: Vec<(u64, ContainerNames)>) {
    for (group, names) in found {
        meta.containers.insert(group, names);
    }
    let Meta { containers, cgroups, .. } = meta;
    containers.retain(|group, _| cgroups.contains_key(group));
    // Ids grow, so those that came last are kept.
    let mut room = BYTES_MAX;
    let first = containers.iter().rev().find_map(|(group, names)| {
        let Some(left) = room.checked_sub(taken(names)) else { return Some(*group) };
        room = left;
        None
    });
    if let Some(first) = first {
        containers.retain(|group, _| *group > first);
    }
}

/// What the names in a recording's metadata take of [`BYTES_MAX`].
pub fn bytes(meta: &Meta) -> usize {
    meta.containers.values().map(taken).sum()
}

/// What names take in JSON: an id, brackets, quotes, commas; control characters as six.
fn taken(names: &ContainerNames) -> usize {
    let ContainerNames { name, pod, namespace, image } = names;
    let escaped = |b: u8| if b < 0x20 { 6 } else { 1 + usize::from(matches!(b, b'"' | b'\\')) };
    let texts = [name, pod, namespace, image];
    38 + texts.iter().flat_map(|text| text.bytes()).map(escaped).sum::<usize>()
}

/// What a container is known by here.
fn key(of: &Wanted) -> &str {
    if of.id.is_empty() { &of.pod_uid } else { &of.id }
}

/// Containers and pods without a name, each by the group whose path is the shortest; the youngest
/// first.
fn wanted(meta: &Meta) -> Vec<Wanted> {
    let mut groups: HashMap<String, (usize, Wanted)> = HashMap::new();
    let mut named: Vec<String> = Vec::new();
    for (group, path) in &meta.cgroups {
        let Some(identity) = identity(path) else { continue };
        let (runtime, id) = identity.container.unwrap_or((Runtime::Unknown, "".into()));
        // Those have a name for an id. Of what users make below their own managers, the node's
        // runtimes know nothing, whatever it is called.
        let is_users = id.contains('/') || identity.pod_uid.contains('/');
        if is_users || matches!(runtime, Runtime::Lxc | Runtime::Nspawn) {
            continue;
        }
        let wanted =
            Wanted { group: *group, runtime, id: id.into_owned(), pod_uid: identity.pod_uid };
        let key = key(&wanted).to_owned();
        // What has a pod and no name may get one: files come one after the other.
        if meta.containers.get(group).is_some_and(|names| !names.name.is_empty()) {
            named.push(key);
            continue;
        }
        let is_shorter = groups.get(&key).is_none_or(|(length, _)| path.len() < *length);
        if is_shorter {
            groups.insert(key, (path.len(), wanted));
        }
    }
    for key in named {
        groups.remove(&key);
    }
    let mut wanted: Vec<Wanted> = groups.into_values().map(|(_, wanted)| wanted).collect();
    wanted.sort_unstable_by_key(|of| std::cmp::Reverse(of.group));
    wanted
}

#[cfg(test)]
mod tests;
