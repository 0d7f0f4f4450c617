//! The fields that tell of an event's container and pod. They are the same from line to line, so
//! they are made once for each control group.

use rustc_hash::FxHashMap;

use flightrec_format::containers::Containers;
use flightrec_format::meta::Meta;

use super::escape;

/// The fields, by control group.
#[derive(Debug, Default)]
pub(super) struct Contained(FxHashMap<u64, Box<[u8]>>);

impl Contained {
    /// Of a recording.
    pub(super) fn new(meta: &Meta) -> Self {
        let containers = Containers::new(meta);
        let fields = containers.iter().map(|(group, of)| {
            let mut out = Vec::new();
            let texts = [
                ("container", &of.id),
                ("container_name", &of.name),
                ("pod", &of.pod),
                ("pod_uid", &of.pod_uid),
                ("namespace", &of.namespace),
                ("image", &of.image),
            ];
            for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
                out.extend_from_slice(format!(",\"{name}\":\"").as_bytes());
                escape::name(text.as_bytes(), &mut out);
                out.push(b'"');
            }
            (group, out.into_boxed_slice())
        });
        Self(fields.collect())
    }

    /// Appends those of a group: nothing where it is in no container.
    #[inline]
    pub(super) fn write(&self, group: u64, out: &mut Vec<u8>) {
        if !self.0.is_empty()
            && let Some(fields) = self.0.get(&group)
        {
            out.extend_from_slice(fields);
        }
    }
}
