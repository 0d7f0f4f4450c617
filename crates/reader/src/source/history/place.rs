//! Where the chapters of a history are: files, snapshots, a recorder's rings and its files.

use std::path::{Path, PathBuf};

use super::chapters::{stored, told};
use super::own;
use super::part::Part;
use super::question::Question;
use super::rings::with_rings;
use crate::boots::{self, BootArg, BootId};
use crate::control::ControlError;
use crate::observe::note;
use crate::source::files::FilesError;
use crate::source::files::catalog::{self, BootFiles};
use crate::source::origin::{HistoryPlace, HistoryPlan, Origin, STATE_DIR};
use crate::source::snapshots::{SnapshotError, directory, find};
use crate::source::{SourceError, open_live};

/// The boots that there are recordings of, the earliest first.
///
/// # Errors
/// The directory can not be read.
pub fn boots(plan: &HistoryPlan) -> Result<Vec<BootFiles>, SourceError> {
    let boots = match &plan.place {
        HistoryPlace::Store(dir) => told(catalog::store(dir)?),
        HistoryPlace::Files(paths) | HistoryPlace::OwnWindows(paths) => catalog::files(paths)?,
        HistoryPlace::Snapshot { runtime_dir, state_dir, id, .. } => {
            catalog::files(&[find(&directory(runtime_dir, state_dir.as_deref())?, id)?.path])?
        }
        HistoryPlace::Recorder { origin, state_dir } => {
            let live = open_live(origin);
            let known = live.as_ref().ok().and_then(|live| live.state_dir());
            match (catalog::store(&state_dir_of(state_dir.as_deref(), known)), live) {
                (Ok(found), _) => told(found),
                // Whose files these are may not be asked.
                (
                    Err(FilesError::Absent(_)),
                    Err(denied @ SourceError::Control(ControlError::Permission(_))),
                ) => {
                    return Err(denied);
                }
                (Err(error), _) => return Err(error.into()),
            }
        }
    };
    Ok(chosen(boots, plan.boot.as_ref())?)
}

/// The parts of a history, the earliest first.
pub(super) fn parts(plan: &HistoryPlan, question: Question) -> Result<Vec<Part>, SourceError> {
    let boot = plan.boot.as_ref();
    match &plan.place {
        HistoryPlace::Store(dir) => {
            Ok(stored(chosen(told(catalog::store(dir)?), boot)?, question)?)
        }
        HistoryPlace::Files(paths) => Ok(stored(chosen(catalog::files(paths)?, boot)?, question)?),
        HistoryPlace::OwnWindows(paths) => {
            let boots = chosen(catalog::files(paths)?, boot)?;
            match own::windows(&boots) {
                Some(windows) => Ok(own::parts(windows, question)?),
                None => Ok(stored(boots, question)?),
            }
        }
        HistoryPlace::Snapshot { runtime_dir, state_dir, id, own_window } => {
            let path = find(&directory(runtime_dir, state_dir.as_deref())?, id)?.path;
            let boots = chosen(catalog::files(std::slice::from_ref(&path))?, boot)?;
            if !own_window {
                return Ok(stored(boots, question)?);
            }
            Ok(own::parts(own::windows(&boots).ok_or(SnapshotError::Silent(path))?, question)?)
        }
        HistoryPlace::Recorder { origin, state_dir } => {
            recorder(origin, state_dir.as_deref(), boot, question)
        }
    }
}

/// The state directory: as typed, as the daemon says, or the usual one.
fn state_dir_of(typed: Option<&Path>, live: Option<PathBuf>) -> PathBuf {
    typed.map(Path::to_owned).or(live).unwrap_or_else(|| STATE_DIR.into())
}

/// The boot that is asked for, or all.
fn chosen(mut boots: Vec<BootFiles>, boot: Option<&BootArg>) -> Result<Vec<BootFiles>, FilesError> {
    let Some(boot) = boot else { return Ok(boots) };
    let ids: Vec<BootId> = boots.iter().map(|boot| boot.id).collect();
    let index = boot.choose(&ids, boots::present())?;
    Ok(boots.drain(..).skip(index).take(1).collect())
}

/// The recorder's own rings and files.
fn recorder(
    origin: &Origin,
    state_dir: Option<&Path>,
    boot: Option<&BootArg>,
    question: Question,
) -> Result<Vec<Part>, SourceError> {
    let mut live = match open_live(origin) {
        Ok(live) => live,
        Err(absent @ SourceError::Control(ControlError::NotRunning(_))) => {
            let dir = state_dir_of(state_dir, None);
            let found = catalog::store(&dir);
            let found =
                found.map_err(|files| SourceError::Nothing { live: Box::new(absent), files })?;
            note(&format!(
                "flightd is not running, and no rings are left; reading the files in {}",
                dir.display()
            ));
            return Ok(stored(chosen(told(found), boot)?, question)?);
        }
        Err(error) => return Err(error),
    };
    let dir = state_dir_of(state_dir, live.state_dir());
    match boot {
        None | Some(BootArg::Present) => {
            with_rings(live.as_mut(), &dir, state_dir.is_some(), boot.is_some(), question)
        }
        Some(boot) => {
            let present = boots::present().unwrap_or_default();
            let mut boots = told(catalog::store(&dir)?);
            // The rings' boot is there whether there are files of it or not.
            if boots.iter().all(|boot| boot.id != present) {
                boots.push(BootFiles { id: present, sessions: Vec::new() });
            }
            let boots = chosen(boots, Some(boot))?;
            if boots.iter().any(|boot| boot.id == present) {
                return with_rings(live.as_mut(), &dir, true, true, question);
            }
            Ok(stored(boots, question)?)
        }
    }
}
