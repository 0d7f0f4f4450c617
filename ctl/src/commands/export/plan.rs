//! What the arguments of `flightctl export` mean.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use flightrec_reader::fds::Naming;
use jiff::Zoned;

use super::args::{ExportArgs, ExportFormat};
use crate::events::EventsPlan;
use crate::filter::FilterPlan;
use crate::options::color::ColorArg;
use crate::options::format::FormatArg;
use crate::options::kernel_dump::KernelDump;
use crate::options::recorder::RecorderArgs;
use crate::options::redact::RedactPlan;
use crate::options::shown::ShownPlan;

/// An export.
#[derive(Debug, PartialEq)]
pub struct ExportPlan {
    /// Which events of which recording.
    pub events: EventsPlan,
    /// The kernel dump that it is in, if it is in one.
    pub dump: Option<KernelDump>,
    /// The format.
    pub format: ExportFormat,
    /// Where it goes; `None`: standard output.
    pub output: Option<PathBuf>,
    /// Whether what is there is replaced.
    pub force: bool,
    /// What is left out.
    pub redact: RedactPlan,
}

impl ExportPlan {
    pub(super) fn new(args: ExportArgs, recorder: &RecorderArgs, now: &Zoned) -> Result<Self> {
        let ExportArgs {
            mut files,
            mut past,
            vmcore,
            session,
            filter,
            traces,
            format,
            output,
            force,
            fds,
            redact,
            strict,
        } = args;
        let redact = redact.plan()?;
        if !redact.redact.is_none() && format != ExportFormat::Parquet {
            bail!("--hide is for --format parquet; --strings is for all formats");
        }
        past.store.file.append(&mut files);
        let usual = if filter.path.is_empty() { Naming::Near } else { Naming::All };
        let (traces, filter) = traces.plan(FilterPlan::new(filter)?);
        let shown = ShownPlan {
            filter,
            traces,
            format: FormatArg::Jsonl,
            merge: false,
            stacks: true,
            graph: false,
            fds: fds.map_or(usual, Naming::from),
            output: None,
            force,
            color: ColorArg::Never,
        };
        let events = EventsPlan { past: past.plan(recorder, now)?, shown, strict };
        let dump = vmcore.map(|file| recorder.kernel_dump(file, session, past.store.store));
        let output = (output != Path::new("-")).then_some(output);
        Ok(Self { events, dump, format, output, force, redact })
    }
}
