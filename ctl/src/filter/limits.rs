//! What may be wanted of a window that is read in part, once it is known.

use std::sync::{Arc, OnceLock};

use flightrec_reader::source::history::Only;

/// It becomes known between two stretches of a window; the filter of the pass that goes through
/// all of them learns it then.
#[derive(Debug, Clone, Default)]
pub struct Limits(Arc<OnceLock<Arc<Only>>>);

impl Limits {
    /// Now it is known; only the first time counts.
    pub fn set(&self, only: Arc<Only>) {
        let _ = self.0.set(only);
    }

    /// Whether an event may be wanted.
    pub fn has(&self, tid: u32, time: u64) -> bool {
        self.0.get().is_none_or(|only| only.has(tid, time))
    }
}
