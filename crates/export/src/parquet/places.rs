//! What control groups stand for: units, containers and pods, fit to print.

use rustc_hash::FxHashMap;

use flightrec_format::containers::Containers;
use flightrec_format::meta::Meta;
use flightrec_reader::unit;

use super::columns::Rows;
use crate::printable::printable;

/// A control group.
#[derive(Debug, Default)]
struct Place {
    path: Box<str>,
    unit: Box<str>,
    /// Id of its container, what that is called, its pod, the pod's uid and namespace, its image.
    container: Option<Box<[String; 6]>>,
}

/// Those of a recording, by id.
#[derive(Debug, Default)]
pub(super) struct Places(FxHashMap<u64, Place>);

impl Places {
    /// Of a recording.
    pub(super) fn new(meta: &Meta) -> Self {
        let containers = Containers::new(meta);
        let text = |text: &str| printable(text.as_bytes()).into_owned();
        let place = |(group, path): (&u64, &String)| {
            let path = text(path).into_boxed_str();
            let container = containers.get(*group).map(|of| {
                let texts = [&of.id, &of.name, &of.pod, &of.pod_uid, &of.namespace, &of.image];
                Box::new(texts.map(|of| text(of)))
            });
            (*group, Place { unit: unit(&path).unwrap_or_default().into(), path, container })
        };
        Self(meta.cgroups.iter().map(place).collect())
    }

    /// Appends the unit of a group, and its path.
    pub(super) fn unit(&self, group: u64, rows: &mut Rows) {
        let place = self.0.get(&group);
        rows.text(place.and_then(|of| some(&of.unit)));
        rows.text(place.and_then(|of| some(&of.path)));
    }

    /// Appends the columns of its container.
    pub(super) fn container(&self, group: u64, rows: &mut Rows) {
        match self.0.get(&group).and_then(|of| of.container.as_deref()) {
            Some(texts) => texts.iter().for_each(|text| {
                rows.text(some(text));
            }),
            None => {
                rows.none(6);
            }
        }
    }
}

fn some(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}
