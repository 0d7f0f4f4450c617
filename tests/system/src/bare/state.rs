//! A machine as it stands: files, mounts, units, processes, BPF objects.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::hash::{Hash, Hasher};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use flightrec_tests::{bpf_objects, wait_until};

use super::allowed::is_ours;
use crate::service::container::INSIDE;
use xtask::command::read;

/// Where files are compared: file systems of their own are looked into if they are here.
const ROOTS: [&str; 4] = ["/", "/run", "/tmp", "/dev/shm"];
/// BPF objects of systemd's, which come and go with its units (`IPAddressDeny=`,
/// `DevicePolicy=`; systemd's src/core/bpf-*).
const SYSTEMDS: &str = "sd_";
/// How long the kernel may take to free programs and maps, and another recorder on this kernel to
/// end, if a test runs beside.
const FREED_WITHIN: Duration = Duration::from_mins(1);

/// What there is, by name, each with what tells whether it is still the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Files of all kinds, by path: kind, mode, owner, and what is in them.
    pub(super) files: BTreeMap<String, String>,
    /// All else: `mount /x`, `unit x.service`, `process x`, `package x`.
    pub(super) others: BTreeSet<String>,
    /// BPF programs and maps: kind and name, by id.
    bpf: BTreeMap<String, String>,
}

/// What two of them differ by.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// Paths.
    pub(super) files: Vec<(String, &'static str)>,
    /// All else, what is there now and was not before.
    pub(super) others: Vec<String>,
}

impl State {
    /// As it is now.
    pub(super) fn take() -> Result<Self> {
        let mut state = Self::default();
        for root in ROOTS {
            // Not every container has each.
            if let Ok(metadata) = fs::symlink_metadata(root) {
                state.walk(Path::new(root), metadata.dev())?;
            }
        }
        state.others.extend(mounts()?);
        state.others.extend(units()?);
        state.others.extend(processes()?);
        for package in packages()? {
            state.others.insert(format!("package {package}"));
        }
        for object in bpf_objects().context("BPF objects")? {
            if !object.name.starts_with(SYSTEMDS) {
                let id = format!("{:?} {}", object.kind, object.id);
                state.bpf.insert(id, object.name);
            }
        }
        Ok(state)
    }

    /// As it is when the BPF objects that `before` does not have are gone, or not in time.
    pub(super) fn settled(before: &Self) -> Result<Self> {
        let mut last = Self::take();
        wait_until(FREED_WITHIN, || {
            let Ok(state) = &last else { return true };
            if state.bpf.keys().all(|id| before.bpf.contains_key(id)) {
                return true;
            }
            last = Self::take();
            false
        });
        last
    }

    /// What of it is the package's.
    pub(super) fn ours(&self) -> Vec<String> {
        self.files.keys().chain(&self.others).filter(|name| is_ours(name)).cloned().collect()
    }

    /// What is different now.
    pub(super) fn since(&self, before: &Self) -> Difference {
        let mut files = Vec::new();
        for (path, what) in &self.files {
            match before.files.get(path) {
                None => files.push((path.clone(), "left")),
                Some(was) if was != what => files.push((path.clone(), "changed")),
                Some(_) => {}
            }
        }
        let gone = before.files.keys().filter(|path| !self.files.contains_key(*path));
        files.extend(gone.map(|path| (path.clone(), "gone")));
        let mut others: Vec<String> = self.others.difference(&before.others).cloned().collect();
        let objects = self.bpf.iter().filter(|(id, _)| !before.bpf.contains_key(*id));
        others.extend(objects.map(|(id, name)| format!("BPF: {id} {name}")));
        Difference { files, others }
    }

    fn walk(&mut self, directory: &Path, device: u64) -> Result<()> {
        for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
            let path = entry?.path();
            // Some end while they are looked at.
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if metadata.dev() != device || path == Path::new(INSIDE) {
                continue;
            }
            let what = described(&path, &metadata);
            self.files.insert(path.to_string_lossy().into_owned(), what);
            if metadata.is_dir() {
                self.walk(&path, device)?;
            }
        }
        Ok(())
    }
}

/// Kind, mode, owner and contents; of a directory not its time, as its entries are compared.
fn described(path: &Path, metadata: &Metadata) -> String {
    let kind = metadata.file_type();
    let contents = if kind.is_symlink() {
        fs::read_link(path).map_or_else(|e| e.to_string(), |to| to.to_string_lossy().into_owned())
    } else if kind.is_file() {
        fs::read(path).map_or_else(
            |e| e.to_string(),
            |bytes| {
                let mut hasher = DefaultHasher::new();
                bytes.hash(&mut hasher);
                format!("{} bytes, {:016x}", bytes.len(), hasher.finish())
            },
        )
    } else if kind.is_socket() {
        "socket".to_owned()
    } else {
        String::new()
    };
    format!("{:o} {}:{} {contents}", metadata.mode(), metadata.uid(), metadata.gid())
}

fn mounts() -> Result<Vec<String>> {
    let text = fs::read_to_string("/proc/self/mountinfo").context("/proc/self/mountinfo")?;
    // mount_point is the fifth word (Documentation/filesystems/proc.rst).
    let points = text.lines().filter_map(|line| line.split(' ').nth(4));
    // Of systemd's own units, while they run.
    let points = points.filter(|point| !point.starts_with("/run/credentials/"));
    Ok(points.map(|point| format!("mount {point}")).collect())
}

/// Units of the package: those that systemd finds, and those that it has loaded.
fn units() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for list in ["list-unit-files", "list-units"] {
        let mut command = Command::new("systemctl");
        command.args([list, "--all", "--plain", "--no-legend", "--no-pager"]);
        let text = read(&mut command)?;
        let names = text.lines().filter_map(|line| line.split_whitespace().next());
        found.extend(names.filter(|name| is_ours(name)).map(|name| format!("unit {name}")));
    }
    Ok(found)
}

/// Processes of the package: by their program, or by a user whom nobody knows any more.
fn processes() -> Result<Vec<String>> {
    let passwd = fs::read_to_string("/etc/passwd").context("/etc/passwd")?;
    let uids: BTreeSet<u32> =
        passwd.lines().filter_map(|line| line.split(':').nth(2)?.parse().ok()).collect();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("/proc")? {
        let path = entry?.path();
        let Some(pid) = path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()) else {
            continue;
        };
        // Threads of the kernel have no program, and a process may end meanwhile.
        let (Ok(program), Ok(metadata)) = (fs::read_link(path.join("exe")), fs::metadata(&path))
        else {
            continue;
        };
        let program = program.to_string_lossy();
        if is_ours(&program) || !uids.contains(&metadata.uid()) {
            found.push(format!("process {program} ({pid}, user {})", metadata.uid()));
        }
    }
    Ok(found)
}

/// The packages that are installed, or whose configuration is.
pub(super) fn packages() -> Result<BTreeSet<String>> {
    let text = read(Command::new("dpkg-query").args(["-W", "-f", "${binary:Package}\n"]))?;
    Ok(text.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_changed_or_gone_is_told() {
        let file = |path: &str, what: &str| (path.to_owned(), what.to_owned());
        let before = State {
            files: [file("/a", "1"), file("/b", "1"), file("/c", "1")].into(),
            others: ["mount /".to_owned()].into(),
            bpf: [file("Program 1", "theirs")].into(),
        };
        let after = State {
            files: [file("/a", "1"), file("/b", "2"), file("/d", "1")].into(),
            others: ["mount /".to_owned(), "mount /x".to_owned()].into(),
            bpf: [file("Program 1", "theirs"), file("Map 2", "ours")].into(),
        };
        assert_eq!(before.since(&before), Difference::default());
        let found = after.since(&before);
        let files = [("/b", "changed"), ("/d", "left"), ("/c", "gone")];
        assert_eq!(found.files, files.map(|(path, how)| (path.to_owned(), how)));
        assert_eq!(found.others, ["mount /x", "BPF: Map 2 ours"]);
    }

    #[test]
    fn what_is_the_packages_is_known_by_its_name() {
        let state = State {
            files: ["/etc/flightrec", "/etc/passwd"]
                .map(|path| (path.to_owned(), String::new()))
                .into(),
            others: ["unit flightd.service", "mount /"].map(str::to_owned).into(),
            bpf: BTreeMap::new(),
        };
        assert_eq!(state.ours(), ["/etc/flightrec", "unit flightd.service"]);
    }

    #[test]
    fn a_file_is_told_by_mode_owner_and_contents() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let tell = || described(&path, &fs::symlink_metadata(&path).unwrap());
        fs::write(&path, "one").unwrap();
        let first = tell();
        fs::write(&path, "two").unwrap();
        assert_ne!(first, tell());
        fs::write(&path, "one").unwrap();
        assert_eq!(first, tell());
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("one", &path).unwrap();
        assert_ne!(first, tell());
    }
}
