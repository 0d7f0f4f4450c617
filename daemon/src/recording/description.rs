//! What a recording says of itself in its metadata, kept up to date while it runs.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use flightrec_format::meta::{self, CHUNK_BYTES, Meta};
use tracing::warn;

use super::{Recording, RecordingError};
use crate::function_names::{self, Names};
use crate::{cgroups, clock, containers, devices, symbols};

/// How long who asks for the metadata waits for names of containers.
const NAMES_WITHIN: Duration = Duration::from_millis(100);
/// What the metadata may come to take besides names of functions and binaries, bytes: entries of
/// disks that are added, of steps of the clock, and of what is lacking.
const OTHERS: usize = 8 << 10;

impl Recording {
    /// Changes the metadata, in the half of the map that the present document does not use.
    pub fn update_meta(&self, change: impl FnOnce(&mut Meta)) -> Result<(), RecordingError> {
        let mut guard = self.meta.lock().unwrap_or_else(PoisonError::into_inner);
        let mut document = Meta::clone(&guard);
        change(&mut document);
        if document == **guard {
            return Ok(());
        }
        self.live.publish_meta(&document)?;
        self.room.store(room(&document, self.live.meta_half()), Ordering::Relaxed);
        *guard = Arc::new(document);
        self.changes.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Enters names of functions that are to be probed; their numbers. The error is for the user.
    pub fn name_functions(&self, names: &Names<'_>) -> Result<Vec<u32>, String> {
        // First beside the document: what does not fit is not to stay in it.
        let numbers = names.enter(&mut Meta::clone(&self.meta()))?;
        let entered = self.update_meta(|meta| drop(names.enter(meta)));
        entered.map_err(|e| format!("the functions' names could not be entered: {e}"))?;
        Ok(numbers)
    }

    /// How often the metadata have changed so far.
    pub fn meta_changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Has processes asked from now on which files they have mapped, for [`Self::follow`].
    pub fn name_binaries(&self) {
        if let Err(e) = self.binaries.start() {
            warn!("binaries in samples get no names: a thread could not be started: {e}");
        }
    }

    /// Has the processes asked in which binaries without a name were sampled. It waits for none.
    pub fn ask_binaries(&self) {
        if self.names().paths {
            self.binaries.ask();
        }
    }

    /// Has names of containers looked for from now on, in files below `root`.
    pub fn name_containers(&self, root: &Path) {
        if let Err(e) = self.containers.start(root) {
            warn!("containers get no names: a thread could not be started: {e}");
        }
    }

    /// Enters the names of containers that have been found. It waits for none.
    pub fn enter_containers(&self) {
        let found = self.containers.found();
        if found.is_empty() {
            return;
        }
        if let Err(e) = self.update_meta(|meta| containers::enter(meta, found)) {
            warn!("names of containers could not be entered: {e}");
        }
    }

    /// As [`Self::follow`], for who asks by the names of containers: it waits a moment for those.
    pub fn follow_for_reader(&self) {
        self.follow();
        self.containers.wait(NAMES_WITHIN);
        self.enter_containers();
    }

    /// Brings the offsets of the wall clock and its scale, the names of control groups, of block
    /// devices, of functions in stacks and of binaries up to date, and the CPUs' clocks. That it
    /// could not is no reason to stop. It waits for no process.
    pub fn follow(&self) {
        self.enter_containers();
        self.follow_others();
        self.containers.ask(&self.meta());
    }

    fn follow_others(&self) {
        let mut told = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        self.set_clocks();
        let (now, offset, wall) = (clock::mono(), clock::tai_offset(), clock::wall_offset());
        let meta = self.meta();
        let groups = self.groups.refresh(&meta);
        let devices = devices::refresh(&meta);
        let room = self.room.load(Ordering::Relaxed);
        let symbols = self.symbols.refresh(&meta, room);
        let room = room.saturating_sub(symbols.functions.iter().map(symbols::bytes).sum());
        let binaries = self.binaries.refresh(&meta, room, self.names().paths);
        let is_known = groups.is_none() && devices.is_none();
        let has_names = is_known && symbols.functions.is_empty() && binaries.is_empty();
        let is_told = has_names && symbols.lacking.is_none();
        if is_told && meta.tai_offset(now) == offset && meta.knows_wall_offset(wall) {
            return;
        }
        let updated = self.update_meta(|meta| {
            meta.set_tai_offset(now, offset);
            meta.set_wall_offset(wall);
            if let Some(groups) = groups {
                groups(meta);
                containers::enter(meta, Vec::new());
            }
            if let Some(devices) = devices {
                devices(meta);
            }
            meta.symbols.extend(symbols.functions);
            meta.lacking.extend(symbols.lacking);
            for binary in &binaries {
                meta.binaries.retain(|of| of.number != binary.number);
                meta.binaries.push(binary.clone());
            }
        });
        let failure = updated.err().map(|e| e.to_string());
        match &failure {
            None => binaries.iter().for_each(|binary| self.binaries.named(binary)),
            Some(e) if told.as_ref() != Some(e) => {
                warn!("the recording's metadata could not be refreshed: {e}");
            }
            Some(_) => {}
        }
        *told = failure;
    }
}

/// Bytes of a half of the metadata that are left for names of functions and binaries: control
/// groups and containers have their share whether they take it or not, since they come and go, and
/// so have functions that somebody may probe. `half`: pages that it has, of a recording that an
/// earlier build began maybe fewer.
pub(super) fn room(document: &Meta, half: usize) -> usize {
    let taken = meta::to_json(document).map_or(usize::MAX, |text| text.len());
    let groups = cgroups::BYTES_MAX.saturating_sub(cgroups::bytes(document));
    let containers = containers::BYTES_MAX.saturating_sub(containers::bytes(document));
    let functions = function_names::BYTES_MAX.saturating_sub(function_names::bytes(document));
    let kept = groups + containers + functions + OTHERS;
    (half * CHUNK_BYTES).saturating_sub(taken).saturating_sub(kept)
}

#[cfg(test)]
mod tests {
    use flightrec_format::control::NewProbe;
    use flightrec_format::meta::{ContainerNames, HALF_PAGES, Symbol, pack};

    use super::*;

    #[test]
    fn names_leave_room_for_control_groups() {
        // As long as the tables of system calls and the configuration are, and longer.
        for others in [10_000, 80_000, 130_000] {
            let mut meta = Meta { config: "x".repeat(others), ..Meta::default() };
            let mut left = room(&meta, HALF_PAGES);
            let symbol = Symbol { at: u32::MAX, size: 99_999, name: "x".repeat(60) };
            while let Some(less) = left.checked_sub(symbols::bytes(&symbol)) {
                left = less;
                meta.symbols.push(symbol.clone());
            }
            assert!(!meta.symbols.is_empty(), "{others}");
            let path = "x".repeat(60);
            for id in 0.. {
                meta.cgroups.insert(u64::MAX - id, path.clone());
                if cgroups::bytes(&meta) > cgroups::BYTES_MAX {
                    break;
                }
            }
            let of = ContainerNames { image: "y".repeat(90), ..ContainerNames::default() };
            let all = meta.cgroups.keys().map(|group| (*group, of.clone())).collect();
            containers::enter(&mut meta, all);
            assert!(meta.containers.len() > 300, "{others}");
            let names: Vec<String> = (0..1000).map(|i| format!("{i:060}")).collect();
            let new = NewProbe { path: "/x".into(), functions: names, ..NewProbe::default() };
            assert_eq!(Names::of(&new).enter(&mut meta).err(), None, "{others}");
            assert!(pack(&meta, 1, HALF_PAGES).is_ok(), "{others}");
        }
    }
}
