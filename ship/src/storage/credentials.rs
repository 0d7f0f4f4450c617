//! Credentials that systemd hands over: files in `$CREDENTIALS_DIRECTORY`, each named as the key of
//! the storage's library that it has the value of (`aws_access_key_id`).

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::PathBuf;

use tracing::warn;

/// Longest credential: systemd allows 1 MiB for all of a service's.
const LENGTH_MAX: u64 = 1 << 20;

/// A credential.
pub(super) struct Credential {
    /// Its name, in small letters.
    pub(super) name: String,
    /// Its file.
    pub(super) path: PathBuf,
    /// Its text, without the end of the line.
    pub(super) text: String,
}

/// All that there are.
pub(super) fn all() -> Vec<Credential> {
    let Some(dir) = std::env::var_os("CREDENTIALS_DIRECTORY") else { return Vec::new() };
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(e) => {
            warn!("$CREDENTIALS_DIRECTORY: {}: {e}", PathBuf::from(dir).display());
            return Vec::new();
        }
    };
    let mut all = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        match read(&path) {
            Ok(text) => {
                let name = entry.file_name().to_string_lossy().to_ascii_lowercase();
                all.push(Credential { name, path, text: text.trim_end().to_owned() });
            }
            Err(e) => warn!("$CREDENTIALS_DIRECTORY: {}: {e}", path.display()),
        }
    }
    all
}

fn read(path: &std::path::Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(LENGTH_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// A credential that the storage has no use for.
pub(super) fn unknown(name: &str, example: &str) {
    warn!("the credential {name:?} is not used: this storage knows {example} and others");
}
