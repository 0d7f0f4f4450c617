//! Credentials that systemd hands over: files in `$CREDENTIALS_DIRECTORY`, each named as the key of
//! the storage's library that it has the value of (`aws_access_key_id`), or as the setting of a
//! collector (`otlp_headers`).

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::PathBuf;

use tracing::warn;

/// Longest credential: systemd allows 1 MiB for all of a service's.
const LENGTH_MAX: u64 = 1 << 20;

/// A credential.
pub(crate) struct Credential {
    /// Its name, in small letters.
    pub(crate) name: String,
    /// Its file.
    pub(crate) path: PathBuf,
    /// Its text, without the end of the line.
    pub(crate) text: String,
}

/// What the names of a collector's begin with.
const OF_COLLECTOR: &str = "otlp_";

/// Those of the storage.
pub(crate) fn of_storage() -> Vec<Credential> {
    all().into_iter().filter(|of| !of.name.starts_with(OF_COLLECTOR)).collect()
}

/// Those of a collector.
pub(crate) fn of_collector() -> Vec<Credential> {
    all().into_iter().filter(|of| of.name.starts_with(OF_COLLECTOR)).collect()
}

/// All that there are.
fn all() -> Vec<Credential> {
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

/// A credential that nobody has a use for.
pub(crate) fn unknown(name: &str, example: &str) {
    warn!("the credential {name:?} is not used: known are {example} and others");
}
