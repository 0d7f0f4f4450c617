//! Tracepoints that the configuration names, as they are typed: `ext4:ext4_sync_file_exit`, or
//! `ext4:*`.

use rustc_hash::FxHashSet;

use flightrec_format::meta::Meta;

use super::FilterError;
use crate::suggest::{hint, nearest};

/// Whether a name among kinds of event is that of a tracepoint.
pub(super) fn is_one(name: &str) -> bool {
    name.contains(':')
}

/// Their numbers in a recording.
pub(super) fn numbers(typed: &[String], meta: &Meta) -> Result<FxHashSet<u16>, FilterError> {
    let mut numbers = FxHashSet::default();
    for name in typed {
        let is_it = |known: &str| match name.strip_suffix('*') {
            Some(beginning) => known.starts_with(beginning),
            None => known == name,
        };
        let found = meta.tracepoints.iter().filter(|of| is_it(&of.name)).map(|of| of.id);
        let before = numbers.len();
        numbers.extend(found);
        if numbers.len() == before {
            let known = meta.tracepoints.iter().map(|of| &*of.name);
            let hint = match hint(&nearest(name, known)) {
                none if none.is_empty() => {
                    "; [[tracepoint]] of flightd.toml has it recorded".into()
                }
                hint => hint,
            };
            return Err(FilterError::Tracepoint { name: name.clone(), hint });
        }
    }
    Ok(numbers)
}
