//! The file that a program's or a library's name stands for.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use flightrec_format::architecture::Architecture;

/// Where libraries are, beside the directories of `LD_LIBRARY_PATH`. Debian has a directory for
/// those of each machine.
fn libraries_of_machine() -> [PathBuf; 8] {
    let own = |below: &str| format!("{below}/{}-linux-gnu", Architecture::HERE.name()).into();
    [
        "/usr/local/lib".into(),
        own("/usr/local/lib"),
        own("/lib"),
        own("/usr/lib"),
        "/lib64".into(),
        "/usr/lib64".into(),
        "/lib".into(),
        "/usr/lib".into(),
    ]
}

/// The file: a path as it is, else a program of `$PATH`, else a library. The error is for the user.
pub(super) fn locate(name: &str) -> Result<PathBuf, String> {
    let libraries = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    locate_in(name, &env::var_os("PATH").unwrap_or_default(), &libraries)
}

fn locate_in(name: &str, programs: &OsStr, libraries: &OsStr) -> Result<PathBuf, String> {
    if name.contains('/') {
        // As the kernel has it, also after this process's directory is another one.
        return std::fs::canonicalize(name).map_err(|e| format!("{name}: {e}"));
    }
    let folders = env::split_paths(programs).chain(env::split_paths(libraries));
    let folders = folders.chain(libraries_of_machine());
    let file = |folder: PathBuf| Some(folder.join(name)).filter(|path| is_file(path));
    let found = folders.filter(|folder| folder.is_absolute()).find_map(file);
    let path = found.ok_or_else(|| {
        format!(
            "{name} is no program of $PATH, nor a library of the usual directories: give its path"
        )
    })?;
    std::fs::canonicalize(&path).map_err(|e| format!("{}: {e}", path.display()))
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|of| of.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_path_and_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        std::fs::write(folder.join("libx.so.1"), "").unwrap();
        let (here, none) = (folder.as_os_str(), OsStr::new(""));
        let wanted = Ok(folder.join("libx.so.1"));
        assert_eq!(locate_in("libx.so.1", here, none), wanted);
        assert_eq!(locate_in("libx.so.1", none, here), wanted);
        assert_eq!(locate_in(folder.join("libx.so.1").to_str().unwrap(), none, none), wanted);
        assert!(locate_in("libx.so.2", here, here).unwrap_err().contains("give its path"));
        assert!(locate_in("/nonexistent/x", here, here).unwrap_err().contains("No such file"));
    }
}
