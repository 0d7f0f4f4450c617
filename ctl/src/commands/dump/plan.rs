//! What the arguments of `flightctl dump` mean.

use std::path::PathBuf;

use anyhow::Result;
use flightrec_reader::source::HistoryPlan;
use jiff::Zoned;

use super::args::{DumpArgs, VmcoreArgs};
use crate::events::EventsPlan;
use crate::options::format::FormatArg;
use crate::options::kernel_dump::KernelDump;
use crate::options::recorder::RecorderArgs;
use crate::options::shown::ShownArgs;

/// What is printed.
#[derive(Debug, PartialEq)]
pub enum DumpPlan {
    /// The boots that there are recordings of.
    Boots(BootsPlan),
    /// Events.
    Events(Box<EventsPlan>),
    /// What is in a kernel dump.
    Vmcore(Box<VmcorePlan>),
}

/// The boots, to list.
#[derive(Debug, PartialEq)]
pub struct BootsPlan {
    /// Where their files are.
    pub history: HistoryPlan,
    /// As text, or as one JSON object.
    pub format: FormatArg,
    /// File to write; `None`: standard output.
    pub output: Option<PathBuf>,
    /// Whether one that is there is replaced.
    pub force: bool,
}

/// A kernel dump, read.
#[derive(Debug, PartialEq)]
pub struct VmcorePlan {
    /// Which recording of which dump.
    pub dump: KernelDump,
    /// What is shown of it.
    pub what: What,
    /// Which events, and how they look; where they are is `dump`.
    pub events: EventsPlan,
}

/// What is shown of a kernel dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Events.
    Events,
    /// Threads in the middle of something.
    InFlight,
    /// The recordings in it.
    Sessions,
}

impl DumpPlan {
    pub(super) fn new(args: DumpArgs, recorder: &RecorderArgs, now: &Zoned) -> Result<Self> {
        let DumpArgs { mut files, mut past, list_boots, vmcore, shown, strict, color } = args;
        past.store.file.append(&mut files);
        if list_boots {
            let ShownArgs { format, output, force, .. } = shown;
            let history = past.history(recorder)?;
            return Ok(Self::Boots(BootsPlan { history, format: format.format, output, force }));
        }
        let events =
            EventsPlan { past: past.plan(recorder, now)?, shown: shown.plan(color.color)?, strict };
        let VmcoreArgs { vmcore: Some(file), in_flight, list_sessions, session } = vmcore else {
            return Ok(Self::Events(Box::new(events)));
        };
        let what = match (in_flight, list_sessions) {
            (true, _) => What::InFlight,
            (_, true) => What::Sessions,
            _ => What::Events,
        };
        let dump = recorder.kernel_dump(file, session, past.store.store);
        Ok(Self::Vmcore(Box::new(VmcorePlan { dump, what, events })))
    }
}
