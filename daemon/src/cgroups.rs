//! Names of control groups: what the events have is ids, and a reader on another machine, or
//! tomorrow, can't ask.
//!
//! An id is the inode number of the group's directory in the cgroup2 file system. Groups come and
//! go, so the tree is walked again and again; those that are gone stay named as long as there is
//! room, as events of theirs are still in the rings. Bounds: `GROUPS_MAX` groups, `PATH_MAX`
//! bytes a path, `BYTES_MAX` in all, of the quarter of a megabyte that the metadata can take.
//! What is nearest to the root comes first.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use flightrec_format::meta::Meta;
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use tracing::{info, warn};

/// Most groups that are named.
const GROUPS_MAX: usize = 4096;
/// Longest path that is kept; a longer one is left out.
const PATH_MAX: usize = 256;
/// Most bytes of the metadata that names take.
pub const BYTES_MAX: usize = 96 << 10;

/// The control groups of this machine.
#[derive(Debug, Default)]
pub struct Groups {
    root: Option<PathBuf>,
}

/// Names by id, with the room that they take.
#[derive(Debug, Default)]
struct Names {
    map: BTreeMap<u64, String>,
    bytes: usize,
    cut: bool,
}

impl Groups {
    /// Finds the cgroup2 file system, at the configured place or in `unified` below it.
    pub fn find(configured: &Path) -> Self {
        let places = [configured.to_path_buf(), configured.join("unified")];
        let root = places.into_iter().find(|dir| is_cgroup2(dir));
        if root.is_none() {
            info!(
                "no cgroup2 file system is mounted on {0} or {0}/unified: control groups have ids \
                 but no names ([kernel] cgroup2)",
                configured.display()
            );
        }
        Self { root }
    }

    /// Brings the names in a recording's metadata up to date, `walked` being [`walk`]'s
    /// result.
    fn update(meta: &mut Meta, walked: Names) {
        let mut names = walked;
        if names.cut && !meta.cgroups_cut {
            warn!(
                "there are more control groups than the recording can name ({} are named)",
                names.map.len()
            );
        }
        meta.cgroups_cut |= names.cut;
        // Ids grow, so the greatest are those that went last.
        for (id, path) in meta.cgroups.iter().rev() {
            if !names.map.contains_key(id) && !names.add(*id, path) {
                break;
            }
        }
        meta.cgroups = names.map;
    }

    /// The change that brings a recording's metadata up to date, which are these now; `None` where
    /// they are.
    pub fn refresh(&self, meta: &Meta) -> Option<impl FnOnce(&mut Meta) + use<>> {
        let walked = walk(self.root.as_deref()?);
        let is_named = |(id, path)| meta.cgroups.get(id) == Some(path);
        let is_known = walked.map.iter().all(is_named) && (meta.cgroups_cut || !walked.cut);
        (!is_known).then_some(move |meta: &mut Meta| Self::update(meta, walked))
    }
}

impl Names {
    /// `false`: there is no room any more.
    fn add(&mut self, id: u64, path: &str) -> bool {
        let bytes = taken(path);
        if self.map.len() >= GROUPS_MAX || self.bytes + bytes > BYTES_MAX {
            return false;
        }
        self.bytes += bytes;
        self.map.insert(id, path.to_owned());
        true
    }
}

/// What a name takes in JSON: quotes, colon, comma, an id; control characters as six.
fn taken(path: &str) -> usize {
    let escaped = |b: u8| if b < 0x20 { 6 } else { 1 + usize::from(matches!(b, b'"' | b'\\')) };
    26 + path.bytes().map(escaped).sum::<usize>()
}

/// What the names in a recording's metadata take of [`BYTES_MAX`].
pub fn bytes(meta: &Meta) -> usize {
    meta.cgroups.values().map(|path| taken(path)).sum()
}

/// All groups, level by level. One that goes away meanwhile is left out.
fn walk(root: &Path) -> Names {
    use std::os::unix::fs::MetadataExt;

    let mut names = Names::default();
    if let Ok(meta) = fs::metadata(root) {
        names.add(meta.ino(), "/");
    }
    let mut level = VecDeque::from([(root.to_path_buf(), String::new())]);
    while let Some((dir, path)) = level.pop_front() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let below = format!("{path}/{}", entry.file_name().to_string_lossy());
            if below.len() > PATH_MAX || !names.add(entry.ino(), &below) {
                names.cut = true;
                continue;
            }
            level.push_back((entry.path(), below));
        }
    }
    names
}

fn is_cgroup2(dir: &Path) -> bool {
    statfs(dir).is_ok_and(|stat| stat.filesystem_type() == CGROUP2_SUPER_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn tree(dirs: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for dir in dirs {
            fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        fs::write(root.path().join("cgroup.procs"), "").unwrap();
        root
    }

    #[test]
    fn ids_are_inode_numbers() {
        let root = tree(&["system.slice/web.service/worker", "user.slice"]);
        let names = walk(root.path());
        let id = |dir: &str| fs::metadata(root.path().join(dir)).unwrap().ino();
        assert_eq!(names.map.len(), 5);
        assert_eq!(names.map[&id("")], "/");
        assert_eq!(
            names.map[&id("system.slice/web.service/worker")],
            "/system.slice/web.service/worker"
        );
    }

    #[test]
    fn the_gone_stay_named() {
        let root = tree(&["a"]);
        let mut meta =
            Meta { cgroups: BTreeMap::from([(u64::MAX, "/gone".into())]), ..Meta::default() };
        let groups = Groups { root: Some(root.path().into()) };
        groups.refresh(&meta).expect("new ones")(&mut meta);
        assert_eq!(meta.cgroups.len(), 3);
        assert!(meta.cgroups.values().any(|path| path == "/gone") && !meta.cgroups_cut);
        assert!(groups.refresh(&meta).is_none(), "nothing is new");
        assert!(
            Groups::default().refresh(&meta).is_none(),
            "without the file system nothing changes"
        );
        fs::create_dir(root.path().join("b")).unwrap();
        groups.refresh(&meta).expect("a new one")(&mut meta);
        assert!(meta.cgroups.values().any(|path| path == "/b") && meta.cgroups.len() == 4);
    }

    #[test]
    fn names_are_bounded() {
        let mut names = Names::default();
        let taken = (0..100_000).take_while(|id| names.add(*id, &"\n".repeat(PATH_MAX))).count();
        assert!(taken < GROUPS_MAX && taken * 6 * PATH_MAX <= BYTES_MAX);
        let mut names = Names::default();
        assert_eq!((0..100_000).take_while(|id| names.add(*id, "")).count(), BYTES_MAX / 26);
        let root = tree(&[&"long/".repeat(60)]);
        assert!(walk(root.path()).cut);
    }
}
