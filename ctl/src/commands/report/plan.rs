//! What the arguments of `flightctl report` mean.

use std::path::PathBuf;

use anyhow::{Result, bail};
use flightrec_reader::fds::Naming;
use jiff::Zoned;

use super::args::{FunctionsArgs, ReportFormat, StackSumArgs, SumArgs};
use super::{ReportCommand, functions, run};
use crate::commands::Plan;
use crate::exit::Exit;
use crate::filter::FilterPlan;
use crate::options::recorder::RecorderArgs;
use crate::report::minutes::Wanted;
use crate::report::pass::Scope;
use crate::report::{self, Key, ReportKind, Shape};
use crate::suggest::{hint, nearest};

/// Most rows, unless it was said.
const TOP: usize = 40;

/// A report to make.
#[derive(Debug)]
pub enum ReportPlan {
    /// Sums over a window.
    Sum(Box<SumPlan>),
    /// The counts of probed functions.
    Probed {
        /// Directory of the control socket.
        runtime_dir: PathBuf,
        /// How they look.
        format: ReportFormat,
    },
}

/// Sums over a window.
#[derive(Debug)]
pub struct SumPlan {
    /// The report.
    pub kind: ReportKind,
    /// Of what.
    pub scope: Scope,
    /// By what it is grouped.
    pub by: Vec<Key>,
    /// No keys were asked for.
    pub is_by_default: bool,
    /// Most rows.
    pub top: usize,
    /// With histograms.
    pub hist: bool,
    /// How it looks.
    pub format: ReportFormat,
}

impl ReportPlan {
    pub(super) fn new(report: ReportCommand, recorder: &RecorderArgs, now: &Zoned) -> Result<Self> {
        let folded = |of: StackSumArgs| SumArgs {
            format: if of.folded { ReportFormat::Folded } else { of.sum.format },
            ..of.sum
        };
        let (name, sum) = match report {
            ReportCommand::Calls(sum) => ("calls", *sum),
            ReportCommand::Waits(sum) => ("waits", *sum),
            ReportCommand::Runq(sum) => ("runq", *sum),
            ReportCommand::Offcpu(of) => ("offcpu", folded(*of)),
            ReportCommand::Wakers(of) => ("wakers", folded(*of)),
            ReportCommand::Block(sum) => ("block", *sum),
            ReportCommand::Bytes(sum) => ("bytes", *sum),
            ReportCommand::Irq(sum) => ("irq", *sum),
            ReportCommand::Net(sum) => ("net", *sum),
            ReportCommand::Signals(sum) => ("signals", *sum),
            ReportCommand::Functions(of) => {
                let FunctionsArgs { probed, folded, sum } = *of;
                if probed {
                    let runtime_dir = recorder.runtime_dir.clone();
                    return Ok(Self::Probed { runtime_dir, format: sum.format });
                }
                let format = if folded { ReportFormat::Folded } else { sum.format };
                ("functions", SumArgs { format, ..sum })
            }
        };
        let Some(kind) = report::of(name) else { bail!("there is no report {name}") };
        Ok(Self::Sum(Box::new(SumPlan::new(kind, sum, recorder, now)?)))
    }
}

impl SumPlan {
    fn new(kind: ReportKind, args: SumArgs, recorder: &RecorderArgs, now: &Zoned) -> Result<Self> {
        let SumArgs { files, by, hist, top, format, fds, mut past, vmcore, session, filter } = args;
        let shape = kind.shape;
        past.store.file.extend(files);
        // Folded stacks need stacks.
        let is_folded = format == ReportFormat::Folded;
        if is_folded && !shape.has_key(Key::Stack) {
            bail!("--format folded: report {} has no stacks; those that have: {}", shape.name, {
                let has = |kind: &ReportKind| kind.shape.has_key(Key::Stack);
                let names = report::ALL.into_iter().filter(has).map(|kind| kind.shape.name);
                names.collect::<Vec<_>>().join(", ")
            });
        }
        let is_by_default = by.is_empty();
        let mut by = keys(shape, &by)?;
        if is_folded && !by.contains(&Key::Stack) {
            by = vec![Key::Comm, Key::Stack];
        }
        if shape.needs.stretches {
            refuse_for_stretches(shape, &filter)?;
        }
        let usual = if filter.path.is_empty() { Naming::Near } else { Naming::All };
        let naming = fds.map_or(usual, Naming::from);
        let wanted = Wanted::of(&filter);
        let plan = FilterPlan::new(filter)?;
        let store = past.store.store.clone();
        let dump = vmcore.map(|file| recorder.kernel_dump(file, session, store));
        let scope = Scope { past: past.plan(recorder, now)?, dump, filter: plan, naming, wanted };
        // A flame graph without most of its stacks is wrong.
        let top = top.unwrap_or(if is_folded { usize::MAX } else { TOP });
        Ok(Self { kind, scope, by, is_by_default, top, hist, format })
    }
}

/// The keys of a report that were asked for, or its usual ones.
pub(super) fn keys(shape: &Shape, typed: &[String]) -> Result<Vec<Key>> {
    if typed.is_empty() {
        return Ok(shape.default.to_vec());
    }
    let names = shape.all_keys().map(Key::name).collect::<Vec<_>>();
    let mut by: Vec<Key> = Vec::new();
    for name in typed {
        let Some(key) = Key::of(name).filter(|key| shape.has_key(*key)) else {
            let hint = hint(&nearest(name, names.iter().copied()));
            bail!(
                "--by: report {} has no key `{name}`{hint} (keys: {})",
                shape.name,
                names.join(", ")
            );
        };
        if by.contains(&key) {
            bail!("--by: `{name}` is named twice");
        }
        by.push(key);
    }
    if by.len() > flightrec_analysis::groups::KEYS {
        bail!("--by: at most {} keys", flightrec_analysis::groups::KEYS);
    }
    Ok(by)
}

/// Filters of events mean nothing to the states of threads.
fn refuse_for_stretches(shape: &Shape, filter: &crate::filter::FilterSpec) -> Result<()> {
    let given = [
        ("--errors", filter.errors),
        ("--errno", !filter.errno.is_empty()),
        ("--device", !filter.device.is_empty()),
        ("--event", !filter.event.is_empty()),
    ];
    if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
        bail!(
            "{option} selects events, but report {} adds up the states of threads: select threads \
             (--pid, --tid, --tree, --comm, --unit, --cgroup, --container, --pod, --cpu), calls \
             that they are in (--syscall, --path), or lengths (--slower-than, --faster-than)",
            shape.name
        );
    }
    Ok(())
}

impl Plan for ReportPlan {
    fn run(&self) -> Result<Exit> {
        match self {
            Self::Sum(plan) => run::run(plan),
            Self::Probed { runtime_dir, format } => functions::run(*format, runtime_dir),
        }
    }
}
