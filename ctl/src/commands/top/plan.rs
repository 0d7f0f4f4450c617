//! What the arguments of `flightctl top` mean.

use std::time::Duration;

use flightrec_reader::source::Origin;
use jiff::Zoned;

use super::args::TopArgs;
use super::column::Column;
use crate::options::color::ColorArg;
use crate::options::kernel_dump::KernelDump;
use crate::options::past::{Past, PastError};
use crate::options::recorder::RecorderArgs;

/// The table of threads.
#[derive(Debug, PartialEq)]
pub struct TopPlan {
    /// Where from.
    pub origin: Origin,
    /// What a table covers.
    pub interval: Duration,
    /// Order at the start.
    pub sort: Column,
    /// Which threads at the start.
    pub filter: String,
    /// One table as text; else the screen.
    pub once: bool,
    /// Most threads in a table of text.
    pub lines: usize,
    /// Colour.
    pub color: ColorArg,
    /// A time that is over, instead of what comes.
    pub past: Option<Box<PastPlan>>,
}

/// A time that is over.
#[derive(Debug, PartialEq)]
pub struct PastPlan {
    /// Which, of which recording.
    pub past: Past,
    /// Out of this kernel dump instead.
    pub dump: Option<KernelDump>,
}

impl TopPlan {
    pub(super) fn new(
        args: TopArgs,
        recorder: &RecorderArgs,
        now: &Zoned,
    ) -> Result<Self, PastError> {
        let TopArgs { interval, sort, filter, once, lines, files, mut past, .. } = args;
        past.store.file.extend(files);
        let past = if past.is_given() || args.vmcore.is_some() {
            let store = past.store.store.clone();
            let dump = args.vmcore.map(|file| recorder.kernel_dump(file, args.session, store));
            Some(Box::new(PastPlan { past: past.plan(recorder, now)?, dump }))
        } else {
            None
        };
        let color = args.color.color;
        Ok(Self { origin: recorder.origin(), interval, sort, filter, once, lines, color, past })
    }
}
