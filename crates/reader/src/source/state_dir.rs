//! Where the recorder's files are.

use std::fs;
use std::path::{Path, PathBuf};

use super::origin::{FilesPlan, STATE_DIR};
use crate::control::{Client, ControlError};

/// The state directory: as typed, as the daemon says, or the usual one. Fails where the daemon may
/// not be asked, and the usual one not be looked into either.
///
/// # Errors
/// As said.
pub fn find(runtime_dir: &Path, typed: Option<&Path>) -> Result<PathBuf, ControlError> {
    if let Some(typed) = typed {
        return Ok(typed.to_owned());
    }
    match Client::connect(runtime_dir).and_then(|mut client| client.status()) {
        Ok(status) if !status.store.directory.is_empty() => Ok(status.store.directory.into()),
        Err(denied @ ControlError::Permission(_)) if fs::read_dir(STATE_DIR).is_err() => {
            Err(denied)
        }
        _ => Ok(STATE_DIR.into()),
    }
}

/// The paths that were typed; without any, the state directory.
///
/// # Errors
/// As of [`find`].
pub fn paths(plan: &FilesPlan) -> Result<Vec<PathBuf>, ControlError> {
    if plan.paths.is_empty() {
        return Ok(vec![find(&plan.runtime_dir, plan.state_dir.as_deref())?]);
    }
    Ok(plan.paths.clone())
}
