//! `flightctl report`: sums over what was recorded, a report each.

mod args;
mod functions;
mod plan;
mod run;

use clap::Subcommand;

pub use self::plan::ReportPlan;
use super::prelude::*;
use args::{FunctionsArgs, StackSumArgs, SumArgs};

/// Arguments of `report`.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    #[command(subcommand)]
    report: ReportCommand,
}

/// The reports that there are.
#[derive(Debug, Subcommand)]
pub enum ReportCommand {
    /// System calls: count, errors, time, like strace -c.
    Calls(Box<SumArgs>),
    /// What threads waited for: the reason in words, count, average, maximum, percent.
    Waits(Box<SumArgs>),
    /// How long threads waited for a CPU, and which threads ran there instead.
    Runq(Box<SumArgs>),
    /// Off-CPU time by the place in the kernel where threads waited.
    Offcpu(Box<StackSumArgs>),
    /// Off-CPU time by what woke the threads.
    Wakers(Box<StackSumArgs>),
    /// Requests to disks: count, bytes, time at the disk and in the queue before it.
    Block(Box<SumArgs>),
    /// Bytes that processes read and wrote, by process or file.
    Bytes(Box<SumArgs>),
    /// Functions that ran, according to samples. With --probed: exact counts of the calls of all
    /// functions that were probed since flightd started, including calls that the budget refused to
    /// record.
    Functions(Box<FunctionsArgs>),
    /// Interrupts that took long.
    Irq(Box<SumArgs>),
    /// Connections: who made them, to where, how long that took, retransmissions, who closed them.
    Net(Box<SumArgs>),
    /// Signals: who sent which to whom.
    Signals(Box<SumArgs>),
}

impl Arguments for ReportArgs {
    const HELP: Help = Help {
        about: "Add up what was recorded: calls, waits, delays, bytes, requests",
        examples: &[
            ("flightctl report calls --last 1m --unit nginx", "the calls of a service"),
            ("flightctl report calls --by comm,syscall --top 10", "the busiest, by program"),
            ("flightctl report waits --comm postgres --hist", "why it waited, with histograms"),
            ("flightctl report runq --by unit", "what waits for CPUs, and what ran instead"),
            (
                "flightctl report offcpu --pid 4711 --format folded > off.folded",
                "stacks for a flame graph",
            ),
            ("flightctl report wakers --comm mysqld", "which threads and disks it waits for"),
            ("flightctl report block --by device,op,comm", "which programs use which disk"),
            ("flightctl report bytes --by file --snapshot latest", "the busiest files"),
            ("flightctl report net --format json | jq .rows", "connections, as JSON"),
            ("flightctl report functions --by stack --top 20", "where the CPU time goes"),
            ("flightctl report functions --probed", "exact counts of probed functions"),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error],
    };
    type Plan = ReportPlan;

    fn plan(self, recorder: RecorderArgs, now: &Zoned) -> Result<ReportPlan> {
        ReportPlan::new(self.report, &recorder, now)
    }

    fn remarks(&self, now: &Zoned) -> Vec<String> {
        self.report.sum().past.window.remarks(now)
    }
}

impl ReportCommand {
    /// What is typed for a sum.
    fn sum(&self) -> &SumArgs {
        match self {
            Self::Calls(sum)
            | Self::Waits(sum)
            | Self::Runq(sum)
            | Self::Block(sum)
            | Self::Bytes(sum)
            | Self::Irq(sum)
            | Self::Net(sum)
            | Self::Signals(sum) => sum,
            Self::Offcpu(of) | Self::Wakers(of) => &of.sum,
            Self::Functions(of) => &of.sum,
        }
    }
}
