//! The commands, a module each, with all there is of one: its arguments ([`Arguments`]: what was
//! typed), its plan ([`Plan`]: what that means), what its help says, and what it does.
//!
//! [`Command`] has a line for each, in the order of `flightctl --help`.

pub mod budget;
pub mod collect;
pub mod diff;
pub mod doctor;
pub mod drill;
pub mod dump;
#[cfg(feature = "export")]
pub mod export;
pub mod follow;
pub mod ls;
pub mod mark;
pub mod metrics;
#[cfg(feature = "export")]
pub mod page;
pub mod probe;
pub mod ps;
pub mod recover;
pub mod report;
pub mod save;
pub mod snapshot;
pub mod snapshots;
pub mod status;
pub mod top;
pub mod verify;
pub mod why;

use std::path::Path;

use anyhow::Result;
use clap::Subcommand;
use jiff::Zoned;

use crate::exit::Exit;
use crate::help::Help;
use crate::options::recorder::RecorderArgs;

/// What the module of every command has use for.
mod prelude {
    pub(super) use std::path::Path;

    pub(super) use anyhow::Result;
    pub(super) use jiff::Zoned;

    pub(super) use super::{Arguments, Plan};
    pub(super) use crate::exit::Exit;
    pub(super) use crate::help::Help;
    pub(super) use crate::options::recorder::RecorderArgs;
}

/// The arguments of a command, as typed.
pub trait Arguments: clap::Args {
    /// What its help says beside them.
    const HELP: Help;
    /// What they mean.
    type Plan: Plan + 'static;

    /// Makes sense of them without any I/O, `now` being the present time in the user's time zone.
    fn plan(self, recorder: RecorderArgs, now: &Zoned) -> Result<Self::Plan>;

    /// What the user should know of the times among them, a line each.
    fn remarks(&self, _now: &Zoned) -> Vec<String> {
        Vec::new()
    }

    /// The file, or the directory, that it writes instead of standard output.
    fn file(&self) -> Option<&Path> {
        None
    }
}

/// What a command is to do: everything is decided, nothing is done yet.
pub trait Plan {
    /// Does it.
    fn run(&self) -> Result<Exit>;
}

/// Makes [`Command`] of the commands' arguments.
macro_rules! commands {
    ($($(#[$cfg:meta])? $name:ident($args:ty),)*) => {
        /// What to do.
        #[derive(Debug, Subcommand)]
        #[expect(missing_docs, reason = "the commands' arguments say it")]
        pub enum Command {
            $(
                $(#[$cfg])?
                #[command(about = <$args>::HELP.about, after_help = <$args>::HELP.after())]
                $name(Box<$args>),
            )*
        }

        impl Command {
            /// What it means ([`Arguments::plan`]).
            pub fn plan(self, recorder: RecorderArgs, now: &Zoned) -> Result<Box<dyn Plan>> {
                Ok(match self {
                    $(
                        $(#[$cfg])?
                        Self::$name(args) => Box::new(args.plan(recorder, now)?),
                    )*
                })
            }

            /// What the user should know of the times that were typed ([`Arguments::remarks`]).
            pub fn remarks(&self, now: &Zoned) -> Vec<String> {
                match self {
                    $(
                        $(#[$cfg])?
                        Self::$name(args) => args.remarks(now),
                    )*
                }
            }

            /// The file that it writes ([`Arguments::file`]).
            pub fn file(&self) -> Option<&Path> {
                match self {
                    $(
                        $(#[$cfg])?
                        Self::$name(args) => args.file(),
                    )*
                }
            }
        }
    };
}

commands! {
    Dump(dump::DumpArgs),
    #[cfg(feature = "export")]
    Export(export::ExportArgs),
    #[cfg(feature = "export")]
    Page(page::PageArgs),
    Save(save::SaveArgs),
    Collect(collect::CollectArgs),
    Recover(recover::RecoverArgs),
    Follow(follow::FollowArgs),
    Top(top::TopArgs),
    Ps(ps::PsArgs),
    Mark(mark::MarkArgs),
    Snapshot(snapshot::SnapshotArgs),
    Snapshots(snapshots::SnapshotsArgs),
    Status(status::StatusArgs),
    Doctor(doctor::DoctorArgs),
    Drill(drill::DrillArgs),
    Budget(budget::BudgetArgs),
    Probe(probe::ProbeArgs),
    Why(why::WhyArgs),
    Report(report::ReportArgs),
    Diff(diff::DiffArgs),
    Metrics(metrics::MetricsArgs),
    Ls(ls::LsArgs),
    Verify(verify::VerifyArgs),
}
