//! What a recording holds that this release does not know: it is passed over, and told by name.

use std::collections::BTreeMap;

use flightrec_format::abi::page::Lane;

use crate::source::PageSet;
use crate::window::Window;

/// Lanes and kinds of a newer release. Names are as the recording has them: any text.
#[derive(Debug, Default)]
pub struct Unknown {
    /// Lanes, none of whose events is shown.
    pub lanes: Vec<String>,
    /// Events of the window by the names of their kinds.
    pub kinds: BTreeMap<String, u64>,
}

impl Unknown {
    /// What `recording` has of them in `window`.
    pub(super) fn of(recording: &PageSet, window: Window) -> Self {
        let all = &recording.meta.lanes;
        let is_unknown = |number: u8| Lane::RINGS.iter().all(|lane| *lane as u8 != number);
        let lanes = all.iter().filter(|lane| is_unknown(lane.number));
        let mut kinds = BTreeMap::new();
        for stream in &recording.streams {
            for (kind, n) in stream.unknown(window.from, window.until) {
                let name = all.kind(kind).map_or_else(|| format!("{kind:#04x}"), str::to_owned);
                let sum: &mut u64 = kinds.entry(name).or_default();
                *sum = sum.saturating_add(n);
            }
        }
        Self { lanes: lanes.map(|lane| lane.name.clone()).collect(), kinds }
    }
}
