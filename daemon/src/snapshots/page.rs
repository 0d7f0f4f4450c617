//! The page of a snapshot, as `flightctl page` makes it, beside the snapshot's file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flightrec_store::snapshots;

use super::tool::{self, ToolError};

/// Longest that it may take.
const LIMIT: Duration = Duration::from_secs(20);
/// Most bytes of a page: a little more than `flightctl page` makes of any window.
pub(super) const PAGE_MAX: u64 = 6 << 20;

/// Makes the page of the snapshot in `file`. `create`: makes a file that is not there yet, with the
/// access that it is to have.
///
/// # Errors
/// See [`ToolError`]; the snapshot is complete without.
pub(super) fn make(
    file: &Path,
    create: impl FnOnce(&Path) -> io::Result<File>,
) -> Result<PathBuf, ToolError> {
    make_by(&tool::installed()?, file, create, LIMIT)
}

fn make_by(
    program: &Path,
    file: &Path,
    create: impl FnOnce(&Path) -> io::Result<File>,
    limit: Duration,
) -> Result<PathBuf, ToolError> {
    let path = snapshots::page(file);
    let name = path.file_name().map(|name| format!(".{}", name.to_string_lossy()));
    let making = path.with_file_name(name.unwrap_or_default());
    let keep = |source| ToolError::Keep { path: path.clone(), source };
    let out = create(&making).map_err(keep)?;
    let ended = tool::run(program, &["page", "-o", "-", "--file"], file, &out, (limit, PAGE_MAX));
    let kept = match ended {
        Ok(ended) if ended.code() == Some(0) => fs::rename(&making, &path).map_err(keep),
        Ok(ended) => Err(ended.failed()),
        Err(e) => Err(e),
    };
    if kept.is_err() {
        // What is wrong is told already.
        drop(fs::remove_file(&making));
    }
    kept.map(|()| path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// The page that a program makes; and what is left in the directory.
    fn of(script: &str, limit: Duration) -> (Result<String, String>, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("flightctl");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let file = dir.path().join("x.flight");
        let made = make_by(&program, &file, |path| File::create_new(path), limit);
        let made = made.map(|path| fs::read_to_string(path).unwrap()).map_err(|e| e.to_string());
        fs::remove_file(program).unwrap();
        let left = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        (made, left.collect())
    }

    #[test]
    fn a_page_stands_beside_its_snapshot() {
        let script = r#"test "${*%/*}" = "page -o - --file ${5%/*}" && echo page"#;
        let (made, left) = of(script, Duration::from_mins(1));
        assert_eq!((made.as_deref(), &left[..]), (Ok("page\n"), &["x.html".to_owned()][..]));
    }

    #[test]
    fn what_fails_leaves_nothing() {
        for (script, said) in [
            ("echo half; echo bad file >&2; exit 2", "flightctl page failed: bad file"),
            ("exit 1", "flightctl page failed: exit status: 1"),
            ("exec sleep 1000", "flightctl page did not end within 500ms"),
            ("exec head -c 7000000 /dev/zero", "flightctl page failed: it wrote more than it may"),
        ] {
            let limit = if said.contains("500ms") { 500 } else { 60_000 };
            let (made, left) = of(script, Duration::from_millis(limit));
            assert_eq!((made, left), (Err(said.to_owned()), vec![]), "{script}");
        }
    }
}
