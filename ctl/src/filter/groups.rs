//! Control groups by id, by path and by the name of a systemd unit.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use flightrec_format::meta::Meta;

use super::FilterError;
use crate::suggest::{hint, nearest};

/// The ids of the groups with these ids or paths, and of all below those paths.
pub(super) fn groups(
    wanted: &[String],
    meta: &Meta,
) -> Result<Option<FxHashSet<u64>>, FilterError> {
    resolve(wanted, |name| {
        if let Ok(id) = name.parse::<u64>() {
            return Ok(vec![id]);
        }
        let path = name.trim_matches('/');
        let below = |group: &str| {
            let rest = group.trim_matches('/').strip_prefix(path);
            path.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        found(meta, below).ok_or_else(|| FilterError::Cgroup {
            name: name.to_owned(),
            hint: advice(&format!("/{path}"), meta, meta.cgroups.values().map(String::as_str)),
        })
    })
}

/// The ids of the groups of these units, and of all below them.
pub(super) fn units(wanted: &[String], meta: &Meta) -> Result<Option<FxHashSet<u64>>, FilterError> {
    resolve(wanted, |name| {
        // As systemctl: a name without a kind is a service's.
        let full = if name.contains('.') { name.to_owned() } else { format!("{name}.service") };
        let unit = |group: &str| group.split('/').any(|part| part == full);
        found(meta, unit).ok_or_else(|| {
            let parts = meta.cgroups.values().flat_map(|group| group.split('/'));
            let hint = advice(&full, meta, parts.filter(|part| part.contains('.')));
            FilterError::Unit { name: full.clone(), hint }
        })
    })
}

fn resolve(
    wanted: &[String],
    ids: impl Fn(&str) -> Result<Vec<u64>, FilterError>,
) -> Result<Option<FxHashSet<u64>>, FilterError> {
    let mut set = FxHashSet::default();
    for name in wanted {
        set.extend(ids(name)?);
    }
    Ok((!wanted.is_empty()).then_some(set))
}

fn found(meta: &Meta, wanted: impl Fn(&str) -> bool) -> Option<Vec<u64>> {
    let groups: &BTreeMap<u64, String> = &meta.cgroups;
    let ids: Vec<u64> = groups.iter().filter(|(_, path)| wanted(path)).map(|(id, _)| *id).collect();
    (!ids.is_empty()).then_some(ids)
}

/// What to do about a name that is not there.
fn advice<'a>(wrong: &str, meta: &Meta, names: impl Iterator<Item = &'a str>) -> String {
    if meta.cgroups.is_empty() {
        return "; it names no control group at all (flightd found no cgroup2 file system): give \
                --cgroup an id"
            .into();
    }
    let mut hint = hint(&nearest(wrong, names));
    if meta.cgroups_cut {
        hint.push_str(
            "; there were more groups than it has room to name: give --cgroup an id (stat -c %i \
             DIRECTORY)",
        );
    }
    hint
}
