//! What a recording holds that this release does not know: it is passed over, and told by name.

use std::collections::BTreeMap;

use serde::Serialize;

use flightrec_format::abi::page::Lane;

use crate::human::counted;
use crate::source::Recording;
use crate::text::escape;
use crate::window::Window;

/// Lanes and kinds of a newer release.
#[derive(Debug, Default, Serialize)]
pub(super) struct Unknown {
    /// Lanes, none of whose events is shown.
    pub(super) lanes: Vec<String>,
    /// Events of the window by the names of their kinds.
    pub(super) kinds: BTreeMap<String, u64>,
}

impl Unknown {
    /// What `recording` has of them in `window`.
    pub(super) fn of(recording: &Recording, window: Window) -> Self {
        let all = &recording.meta.lanes;
        let is_unknown = |number: u8| Lane::RINGS.iter().all(|lane| *lane as u8 != number);
        let lanes = all.iter().filter(|lane| is_unknown(lane.number));
        let mut kinds = BTreeMap::new();
        for stream in &recording.streams {
            for (kind, n) in stream.unknown(window.from, window.until) {
                let name = all.kind(kind).map_or_else(|| format!("{kind:#04x}"), printable);
                let sum: &mut u64 = kinds.entry(name).or_default();
                *sum = sum.saturating_add(n);
            }
        }
        Self { lanes: lanes.map(|lane| printable(&lane.name)).collect(), kinds }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty() && self.kinds.is_empty()
    }

    /// `2 kinds of a newer release not shown: 512 events (500 net_drop, 12 oom)`
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for lane in &self.lanes {
            lines.push(format!("lane {lane}: of a newer release, not shown"));
        }
        if !self.kinds.is_empty() {
            let total = self.kinds.values().fold(0u64, |sum, n| sum.saturating_add(*n));
            let named: Vec<String> =
                self.kinds.iter().map(|(name, n)| format!("{n} {name}")).collect();
            lines.push(format!(
                "{} of a newer release not shown: {} ({})",
                counted(self.kinds.len() as u64, "kind"),
                counted(total, "event"),
                named.join(", ")
            ));
        }
        lines
    }
}

/// What the recording says of itself is as hostile as any name.
fn printable(text: &str) -> String {
    let mut out = Vec::new();
    escape(text.as_bytes(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}
