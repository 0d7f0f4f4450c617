//! Room for what is written on that day.

use std::path::Path;

use flightrec_reader::source::STATE_DIR;

use super::machine::Dumper;
use super::{Check, Machine};
use crate::state::State;
use flightrec_format::human::bytes;

/// The kernel's own memory, which `-d 31` keeps (`/proc/meminfo`).
const KERNEL: [&str; 6] = ["Slab", "KernelStack", "PageTables", "Percpu", "VmallocUsed", "Shmem"];

/// Room for the dump.
pub(super) fn dump(machine: &Machine, state: Option<&State>) -> Check {
    const NAME: &str = "dump's space";
    let dumper = machine.dumper();
    let (setting, usual) = match dumper {
        Some(Dumper::KdumpUtils) => ("path", "/var/crash"),
        _ => ("KDUMP_COREDIR", "/var/crash"),
    };
    let remote = match dumper {
        Some(Dumper::KdumpTools) => ["SSH", "NFS", "FTP"].as_slice(),
        Some(Dumper::KdumpUtils) => {
            ["ssh", "nfs", "raw", "ext4", "xfs", "btrfs", "virtiofs"].as_slice()
        }
        None => &[],
    };
    let elsewhere = |name: &&&str| {
        dumper.and_then(|dumper| machine.setting(dumper, name)).is_some_and(|v| !v.is_empty())
    };
    if let Some(name) = remote.iter().find(elsewhere) {
        return Check::unknown(
            NAME,
            format!("dumps go elsewhere ({name})"),
            "make sure that there is space",
        );
    }
    let dir = dumper
        .and_then(|dumper| machine.setting(dumper, setting))
        .unwrap_or_else(|| usual.to_owned());
    let kept = KERNEL.iter().filter_map(|field| machine.memory(field)).fold(0, u64::saturating_add);
    let kept = kept.saturating_add(state.map_or(0, |state| state.memory_bytes));
    match machine.free(&dir) {
        Ok(free) if free < kept => Check::missing(
            NAME,
            format!(
                "{} free in {dir}; a dump of the kernel's memory as it is now would take up to {}",
                bytes(free),
                bytes(kept)
            ),
            "make room, or name another directory (KDUMP_COREDIR in /etc/default/kdump-tools, \
             path in /etc/kdump.conf)",
        ),
        Ok(free) => Check::ok(
            NAME,
            format!(
                "{} free in {dir}; the kernel's memory is {} now, before compression",
                bytes(free),
                bytes(kept)
            ),
        ),
        Err(e) => Check::unknown(NAME, format!("{dir}: {e}"), "run this as root to know"),
    }
}

/// Room for the recording that the hook recovers.
pub(super) fn rings(machine: &Machine, state: Option<&State>) -> Check {
    const NAME: &str = "rings' space";
    let dir = state
        .and_then(|state| state.store.as_ref())
        .map_or(STATE_DIR, |store| store.directory.as_str());
    let dir = if dir.is_empty() { STATE_DIR } else { dir };
    // The hook's directory; where there is none yet, the hook makes it beside the state directory.
    let crash = flightrec_store::dir::crash_dir(Path::new(dir)).unwrap_or_default();
    let crash = crash.display().to_string();
    let dir = if machine.exists(&crash) == Some(true) { crash.as_str() } else { dir };
    let Some(state) = state else {
        return Check::unknown(
            NAME,
            "nothing is recorded, so the size of the rings is unknown",
            "start flightd, then run this again",
        );
    };
    let most = state.memory_bytes;
    match machine.free(dir) {
        Ok(free) if free < most => Check::missing(
            NAME,
            format!(
                "{} free in {dir}; the recovered rings take up to {}",
                bytes(free),
                bytes(most)
            ),
            "make room there, or raise keep_free in [store] of flightd.toml: flightd then keeps \
             its own files smaller",
        ),
        Ok(free) => Check::ok(
            NAME,
            format!(
                "{} free in {dir}; the recovered rings take at most {}",
                bytes(free),
                bytes(most)
            ),
        ),
        Err(e) => Check::unknown(NAME, format!("{dir}: {e}"), "run this as root to know"),
    }
}
