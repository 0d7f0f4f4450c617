//! What the arguments of `flightctl why` mean.

use std::time::Duration;

use anyhow::Result;
use flightrec_analysis::why::Subject;
use flightrec_reader::window::{Edge, nanos};
use jiff::Zoned;

use super::args::{AskArgs, WhyFormat};
use super::cause::Cause;
use super::hidden::Hidden;
use crate::options::around::Around;
use crate::options::kernel_dump::KernelDump;
use crate::options::past::Past;
use crate::options::recorder::RecorderArgs;
use crate::options::time::Twice;

/// How much is read around a moment that is asked about.
const AROUND: Duration = Duration::from_secs(5);

/// A question.
#[derive(Debug, Clone, PartialEq)]
pub struct WhyPlan {
    /// Which time of which recording.
    pub past: Past,
    /// Out of this kernel dump instead.
    pub dump: Option<KernelDump>,
    /// Whom it is about.
    pub subject: Subject,
    /// About the longest call of this name.
    pub call: Option<String>,
    /// About the longest call that took as long, ns.
    pub slower_than: Option<u64>,
    /// About this moment.
    pub at: Option<Edge>,
    /// Nothing is asked: of a snapshot, its cause is meant.
    pub of_cause: bool,
    /// How the answer looks.
    pub format: WhyFormat,
    /// How many waits in spans of traces are told; 0: none.
    pub spans: usize,
    /// What is left out.
    pub(crate) hidden: Hidden,
}

impl WhyPlan {
    /// What a question means, whose answer is shown so.
    pub(crate) fn new(
        args: AskArgs,
        format: WhyFormat,
        recorder: &RecorderArgs,
        now: &Zoned,
    ) -> Result<Self> {
        let AskArgs { files, tid, pid, comm, unit, container, pod, call, slower_than, .. } = args;
        let AskArgs { at, mut past, .. } = args;
        past.store.file.extend(files);
        let store = past.store.store.clone();
        let dump = args.vmcore.map(|file| recorder.kernel_dump(file, args.session, store));
        let at = match at {
            None => None,
            Some(time) => {
                let wrong = |reason| anyhow::anyhow!("--at: {reason}");
                let edge = time.edge(now, Twice::Refuse).map_err(wrong)?;
                past.window.around = Some(Around { time, radius: AROUND });
                Some(edge)
            }
        };
        let past = past.plan(recorder, now)?;
        let subject = Subject {
            tids: tid,
            pids: pid,
            comms: comm,
            units: unit,
            containers: container,
            pods: pod,
        };
        let of_cause = subject.is_any() && at.is_none() && call.is_none() && slower_than.is_none();
        let slower_than = slower_than.map(nanos);
        Ok(Self {
            past,
            dump,
            subject,
            call,
            slower_than,
            at,
            of_cause,
            format,
            spans: 0,
            hidden: Hidden::default(),
        })
    }

    /// Whether it is about threads that are named, whatever they did.
    pub(crate) fn is_of_threads(&self) -> bool {
        !self.subject.is_any() && self.call.is_none() && self.slower_than.is_none()
    }

    /// Whether it names threads by anything but their ids.
    pub(super) fn asks_who(&self) -> bool {
        let Subject { pids, comms, units, containers, pods, .. } = &self.subject;
        !pids.is_empty() || [comms, units, containers, pods].iter().any(|of| !of.is_empty())
    }

    /// The cause of the snapshot that is read, if that is asked about.
    pub(super) fn cause(&self) -> Option<Cause> {
        let is_of = self.of_cause && self.dump.is_none();
        is_of.then(|| Cause::of(&self.past.history)).flatten()
    }
}
