//! Events that are shown: which, how, and where.

use std::path::PathBuf;

use clap::Args;
use flightrec_reader::fds::Naming;
use flightrec_reader::kind::Kind;

use super::color::ColorArg;
use super::format::{FormatArg, FormatArgs};
use super::traces::TraceArgs;
use crate::filter::{FilterError, FilterPlan, FilterSpec};

/// The same for every command that shows events.
#[derive(Debug, Args)]
pub struct ShownArgs {
    /// Which events.
    #[command(flatten)]
    pub filter: FilterSpec,
    /// Of which distributed traces.
    #[command(flatten)]
    pub traces: TraceArgs,
    /// How they look.
    #[command(flatten)]
    pub format: FormatArgs,
    /// Write to FILE instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace FILE if it exists.
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// What is shown.
#[derive(Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "switches that do not depend on one another")]
pub struct ShownPlan {
    /// Which events.
    pub filter: FilterPlan,
    /// How they look.
    pub format: FormatArg,
    /// Whether calls are shown as one.
    pub merge: bool,
    /// Whether it is shown where in the kernel threads waited, and what ran.
    pub stacks: bool,
    /// Whether what a thread does is indented by the probed functions that it is in.
    pub graph: bool,
    /// Which descriptors are shown by what they stand for.
    pub fds: Naming,
    /// Whether the spans that threads work for are shown.
    pub traces: bool,
    /// File to write; `None`: standard output.
    pub output: Option<PathBuf>,
    /// Whether one that is there is replaced.
    pub force: bool,
    /// Colour.
    pub color: ColorArg,
}

impl ShownArgs {
    /// What they mean.
    pub fn plan(self, color: ColorArg) -> Result<ShownPlan, FilterError> {
        let Self { filter, traces, format, output, force } = self;
        let FormatArgs { format, merge, stacks, graph, fds } = format;
        // Who asks for paths asks for those of descriptors too, wherever they were opened.
        let usual = if filter.path.is_empty() { Naming::Near } else { Naming::All };
        let fds = fds.map_or(usual, Naming::from);
        let kinds = [Kind::Stack, Kind::Sample];
        let names_stacks =
            filter.event.iter().any(|name| kinds.iter().any(|kind| name == kind.name()));
        let mut filter = FilterPlan::new(filter)?;
        if stacks {
            filter = kinds.into_iter().fold(filter, FilterPlan::with);
        }
        let stacks = stacks || names_stacks;
        let (traces, filter) = traces.plan(filter);
        Ok(ShownPlan { filter, format, merge, stacks, graph, fds, traces, output, force, color })
    }
}

impl ShownPlan {
    /// Whether what was recorded before the window is wanted as well: descriptors may have been
    /// opened long before it.
    pub fn wants_everything(&self) -> bool {
        self.fds == Naming::All || self.filter.wants_files()
    }
}
