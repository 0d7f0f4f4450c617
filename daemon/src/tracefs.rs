//! What the kernel publishes of its tracepoints in tracefs, read there, or handed on by root to a
//! daemon that may not.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flightrec_format::architecture::Architecture;
use flightrec_format::meta::Syscall;
use nix::sys::utsname::uname;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tracing::debug;

use crate::attachments::{Attachment, ProgramForm, Tracepoint};
use crate::configured_tracepoints::{self, ConfiguredTracepoint, Published};
use crate::dir::Dir;
use crate::syscalls::{SyscallTables, TracefsError, tracepoint_id};

/// Name of the file in the runtime directory by which root hands them on.
pub const FILE: &str = "tracepoints.json";
/// Longest such file, bytes; they have some 100 KiB.
const FILE_MAX: u64 = 4 << 20;

/// What the running kernel publishes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tracepoints {
    /// Kernel that it is of (`uname -r`): another publishes other things.
    kernel: String,
    native: Vec<Syscall>,
    compat: Vec<Syscall>,
    unpublished: bool,
    /// Numbers of those tracepoints that it has and programs are for, by `category:name`.
    numbers: BTreeMap<String, u32>,
    /// What it publishes of those that the configuration names, or what it has not, in words.
    #[serde(default)]
    published: BTreeMap<String, Result<Published, String>>,
}

/// Neither tracefs nor root's copy can be used.
#[derive(Debug, Error)]
pub enum TracepointsError {
    /// Tracefs, and there is no copy.
    #[error("{tracefs}; or have root make a copy for this user: flightd --prepare USER ({copy})")]
    Tracefs {
        /// What is wrong with tracefs.
        tracefs: TracefsError,
        /// What is wrong with the copy.
        copy: String,
    },
    /// The copy can't be written.
    #[error("{path}: {source}")]
    Write {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Tracefs, where nothing else is asked.
    #[error(transparent)]
    Root(#[from] TracefsError),
}

impl Tracepoints {
    /// From tracefs, what `rows` may be attached to, and what the configuration names besides.
    pub fn read(
        tracefs: &Path,
        rows: &[Attachment],
        tables: &[ConfiguredTracepoint],
    ) -> Result<Self, TracefsError> {
        let SyscallTables { native, compat, unpublished } =
            SyscallTables::read(tracefs, Architecture::HERE)?;
        let mut numbers = BTreeMap::new();
        for row in rows {
            let Some((tracepoint, form)) = row.tracepoint() else { continue };
            match tracepoint_id(tracefs, tracepoint.category, tracepoint.name) {
                Ok(number) => drop(numbers.insert(tracepoint.to_string(), number)),
                // Only needed where programs of the classic form are attached, and then missed
                // there.
                Err(TracefsError::NoEvent { .. }) => {}
                Err(_) if row.optional || form == ProgramForm::TpBtf => {}
                Err(e) => return Err(e),
            }
        }
        let mut published = BTreeMap::new();
        for table in tables {
            let found = configured_tracepoints::look_up(tracefs, &table.event);
            published.insert(table.event.clone(), found.unwrap_or_else(|e| Err(e.to_string())));
        }
        Ok(Self { kernel: kernel(), native, compat, unpublished, numbers, published })
    }

    /// From tracefs, or, where this user may not read that, from root's copy in `runtime_dir`.
    pub fn find(
        tracefs: &Path,
        rows: &[Attachment],
        tables: &[ConfiguredTracepoint],
        runtime_dir: &Path,
    ) -> Result<Self, TracepointsError> {
        let refused = match Self::read(tracefs, rows, tables) {
            Ok(found) => return Ok(found),
            Err(e) => e,
        };
        let path = runtime_dir.join(FILE);
        match load(&path) {
            Ok(found) => {
                debug!(error = %refused, "tracefs can't be read; using {}", path.display());
                Ok(found)
            }
            Err(e) => Err(TracepointsError::Tracefs {
                tracefs: refused,
                copy: format!("{}: {e}", path.display()),
            }),
        }
    }

    /// Leaves a copy in the runtime directory, for all to read.
    pub fn hand_on(&self, runtime_dir: &Dir) -> Result<(), TracepointsError> {
        let text = serde_json::to_string(self).map_err(io::Error::other);
        text.and_then(|text| runtime_dir.replace(FILE, text.as_bytes(), 0o644)).map_err(|source| {
            TracepointsError::Write { path: runtime_dir.path().join(FILE), source }
        })
    }

    /// Those of a kernel that publishes nothing but these numbers, by `category:name`.
    #[cfg(test)]
    pub(crate) fn with_numbers(numbers: &[(&str, u32)]) -> Self {
        let numbers = numbers.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect();
        let (native, compat) = (Vec::new(), Vec::new());
        let published = BTreeMap::new();
        Self { kernel: kernel(), native, compat, unpublished: true, numbers, published }
    }

    /// Of the tracepoints that the configuration names, by their names.
    pub fn published(&self) -> &BTreeMap<String, Result<Published, String>> {
        &self.published
    }

    /// The tables of system calls.
    pub fn tables(&self) -> SyscallTables {
        SyscallTables {
            native: self.native.clone(),
            compat: self.compat.clone(),
            unpublished: self.unpublished,
        }
    }

    /// Number of a tracepoint; `None`: this kernel does not have it, or nobody could look.
    pub fn number(&self, tracepoint: Tracepoint) -> Option<u32> {
        self.numbers.get(&tracepoint.to_string()).copied()
    }
}

fn kernel() -> String {
    uname().map(|names| names.release().to_string_lossy().into_owned()).unwrap_or_default()
}

fn load(path: &Path) -> io::Result<Tracepoints> {
    let mut text = String::new();
    File::open(path)?.take(FILE_MAX).read_to_string(&mut text)?;
    let found: Tracepoints = serde_json::from_str(&text)?;
    if found.kernel != kernel() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is of another kernel"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::attachments::ATTACHMENTS;

    fn held(dir: &tempfile::TempDir) -> Dir {
        Dir::open(dir.path()).unwrap()
    }

    fn some() -> Tracepoints {
        let call = Syscall { nr: 3, name: "close".into(), args: None };
        Tracepoints {
            kernel: kernel(),
            native: vec![call],
            compat: Vec::new(),
            unpublished: false,
            numbers: [("raw_syscalls:sys_enter".to_owned(), 17)].into(),
            published: [
                ("a:b".to_owned(), Ok(Published { id: 5, format: "x".into() })),
                ("a:c".to_owned(), Err("none".to_owned())),
            ]
            .into(),
        }
    }

    #[test]
    fn a_copy_serves_where_tracefs_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let nowhere = dir.path().join("none");
        some().hand_on(&held(&dir)).unwrap();
        let found = Tracepoints::find(&nowhere, ATTACHMENTS, &[], dir.path()).unwrap();
        assert_eq!(found, some());
        let number = |name| found.number(Tracepoint { category: "raw_syscalls", name });
        assert_eq!((number("sys_enter"), number("sys_exit")), (Some(17), None));
        assert_eq!(found.tables().native[0].name, "close");
    }

    #[test]
    fn without_either_both_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = Tracepoints::find(&dir.path().join("none"), ATTACHMENTS, &[], dir.path())
            .unwrap_err()
            .to_string();
        for word in [
            "none: no tracefs is mounted there",
            "flightd --prepare USER",
            "tracepoints.json: No such file",
        ] {
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_copy_of_another_kernel_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        Tracepoints { kernel: "another".into(), ..some() }.hand_on(&held(&dir)).unwrap();
        let error = Tracepoints::find(&dir.path().join("none"), ATTACHMENTS, &[], dir.path())
            .unwrap_err()
            .to_string();
        assert!(error.contains("another kernel"), "{error}");
        fs::write(dir.path().join(FILE), "{").unwrap();
        assert!(Tracepoints::find(&dir.path().join("none"), ATTACHMENTS, &[], dir.path()).is_err());
    }
}
