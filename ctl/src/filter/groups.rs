//! Control groups by id, by path, by the name of a systemd unit, and by what runs in them: a
//! container, a pod.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use flightrec_format::containers::{Container, Containers, PREFIX_LEAST};
use flightrec_format::meta::Meta;
use flightrec_format::units;

use super::{FilterError, FilterPlan};
use crate::suggest::{hint, nearest};

/// The ids of the groups that each kind of filter lets through; none where nothing is asked for.
pub(super) fn sets(plan: &FilterPlan, meta: &Meta) -> Result<Vec<FxHashSet<u64>>, FilterError> {
    let sets = [
        groups(&plan.cgroups, meta)?,
        of_units(&plan.units, meta)?,
        containers(&plan.containers, meta)?,
        pods(&plan.pods, meta)?,
    ];
    Ok(sets.into_iter().flatten().collect())
}

/// The ids of the groups with these ids or paths, and of all below those paths.
fn groups(wanted: &[String], meta: &Meta) -> Result<Option<FxHashSet<u64>>, FilterError> {
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
fn of_units(wanted: &[String], meta: &Meta) -> Result<Option<FxHashSet<u64>>, FilterError> {
    resolve(wanted, |name| {
        found(meta, |group| units::is_in(group, name)).ok_or_else(|| {
            let full = units::full_name(name);
            let all = meta.cgroups.values().flat_map(|group| {
                let parts = group.split('/').filter(|part| !part.is_empty());
                let slices = parts.take_while(|part| units::is_slice(part));
                units::unit(group).into_iter().chain(slices)
            });
            let hint = advice(&full, meta, all);
            FilterError::Unit { name: full, hint }
        })
    })
}

/// The ids of the groups of these containers, and of what is in them.
fn containers(wanted: &[String], meta: &Meta) -> Result<Option<FxHashSet<u64>>, FilterError> {
    if wanted.is_empty() {
        return Ok(None);
    }
    let all = Containers::new(meta);
    resolve(wanted, |name| {
        let ids = meta.cgroups.keys().copied().filter(|group| all.is_in(*group, name));
        some(ids.collect()).ok_or_else(|| {
            let is_short = name.len() < PREFIX_LEAST && name.bytes().all(|b| b.is_ascii_hexdigit());
            let hint = if is_short {
                format!("; of an id, give at least {PREFIX_LEAST} digits")
            } else {
                contained(name, meta, &all, |of| vec![of.name.as_str(), of.short()])
            };
            FilterError::Container { name: name.to_owned(), hint }
        })
    })
}

/// The ids of the groups of these pods.
fn pods(wanted: &[String], meta: &Meta) -> Result<Option<FxHashSet<u64>>, FilterError> {
    if wanted.is_empty() {
        return Ok(None);
    }
    let all = Containers::new(meta);
    resolve(wanted, |name| {
        let ids = meta.cgroups.keys().copied().filter(|group| all.is_in_pod(*group, name));
        some(ids.collect()).ok_or_else(|| {
            let hint = contained(name, meta, &all, |of| vec![of.pod.as_str(), of.pod_uid.as_str()]);
            FilterError::Pod { name: name.to_owned(), hint }
        })
    })
}

/// What to do about a name of a container or a pod that is not there.
fn contained<'a>(
    wrong: &str,
    meta: &Meta,
    all: &'a Containers,
    names: impl Fn(&'a Container) -> Vec<&'a str>,
) -> String {
    let names = all.iter().flat_map(|(_, of)| names(of)).filter(|name| !name.is_empty());
    let names: Vec<&str> = names.collect();
    if names.is_empty() && !meta.cgroups.is_empty() {
        return "; no control group in it is a container's or a pod's by its path".into();
    }
    advice(wrong, meta, names.into_iter())
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
    some(ids)
}

fn some(ids: Vec<u64>) -> Option<Vec<u64>> {
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
