//! Keeping the limits: before a write that would break one, the oldest files go.

use std::path::Path;
use std::time::Duration;

use super::faults::Fault;
use super::state::{Deleted, Gone};
use super::{Now, StoreWriter};
use crate::retention::{self, Held, Short};

impl StoreWriter {
    /// Makes room for bytes that are about to be written.
    pub(super) fn room(&mut self, incoming: u64) -> Result<(), Fault> {
        let dir = self.options.state_dir.clone();
        let free = self.disk.free(&dir).map_err(|e| Fault::at(&dir, &e))?;
        let plan = {
            let files = self.files.as_deref().unwrap_or_default();
            let writing = self.current.as_ref().map(|current| current.path.as_path());
            retention::plan(&self.options.limits, &Held { files, writing, incoming, free })
        };
        let (for_total, for_free) = plan.delete.split_at(plan.for_total.min(plan.delete.len()));
        self.delete(for_total, |deleted| &mut deleted.total)?;
        let moved = for_total.len();
        let for_free: Vec<usize> = for_free.iter().map(|i| i.saturating_sub(moved)).collect();
        self.delete(&for_free, |deleted| &mut deleted.free)?;
        match plan.short {
            None => Ok(()),
            Some(Short::Total) => Err(Fault::says(format!(
                "{}: {} bytes for all files leave no room for one: raise the limit",
                dir.display(),
                self.options.limits.max_total
            ))),
            Some(Short::Free(free)) => Err(Fault::says(format!(
                "{}: no space left: {free} bytes are free, {} must stay free, and there is no \
                 older file to delete: free some space, or lower keep_free",
                dir.display(),
                self.options.limits.keep_free
            ))),
        }
    }

    /// Deletes files that are too old.
    pub(super) fn expire(&mut self, now: Now) -> Result<(), Fault> {
        if self.options.limits.max_age.is_none() {
            return Ok(());
        }
        let wall = self.clock.wall(now);
        let files = self.files.as_deref().unwrap_or_default();
        let writing = self.current.as_ref().map(|current| current.path.as_path());
        let boot = self.options.boot_id;
        let age = |i: usize| {
            let file = files.get(i)?;
            // Within this boot by the clock that nobody sets; it runs only since the boot.
            let ended = self.ended.get(&file.number).filter(|_| file.boot == boot);
            Some(match ended {
                Some(ended) => Duration::from_nanos(now.mono.saturating_sub(*ended)),
                None => Duration::from_nanos(
                    u64::try_from(wall.saturating_sub(file.modified)).unwrap_or(0),
                ),
            })
        };
        let old = retention::expired(&self.options.limits, files, writing, age);
        self.delete(&old, |deleted| &mut deleted.age)
    }

    /// Deletes the files at these indexes, which ascend.
    fn delete(
        &mut self,
        which: &[usize],
        reason: fn(&mut Deleted) -> &mut Gone,
    ) -> Result<(), Fault> {
        // From the last on, so that indexes stay right; but the oldest is deleted first.
        let mut done = Vec::new();
        let mut result = Ok(());
        for &i in which {
            let Some(file) = self.files.as_ref().and_then(|files| files.get(i)).cloned() else {
                continue;
            };
            let path = file.path;
            if let Err(e) = self.disk.remove(&path) {
                result = Err(Fault::at(&path, &e));
                break;
            }
            self.forget(&path);
            done.push(i);
            let gone = reason(&mut self.stats.deleted);
            gone.files += 1;
            gone.bytes = gone.bytes.saturating_add(file.bytes);
        }
        if let Some(files) = &mut self.files {
            for i in done.into_iter().rev() {
                files.remove(i);
            }
        }
        result
    }

    fn forget(&mut self, path: &Path) {
        if self.predecessor.as_deref() == Some(path) {
            self.predecessor = None;
        }
    }
}
