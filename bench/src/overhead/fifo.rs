//! Named pipes, by which peers are asked and answer.

use std::fs::File;
use std::path::Path;

use anyhow::Result;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

/// The pipe of that name, made if it is not there. It is open for both, so that neither end waits
/// for the other to be there, or sees its end.
pub(super) fn open(path: &Path) -> Result<File> {
    if !path.exists() {
        mkfifo(path, Mode::from_bits_truncate(0o600))?;
    }
    Ok(File::options().read(true).write(true).open(path)?)
}
