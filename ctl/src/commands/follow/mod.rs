//! `flightctl follow`: events as they are recorded.

pub mod lines;
pub mod show;
pub mod tally;

use std::time::Duration;

use flightrec_reader::source::Origin;

use super::prelude::*;
use crate::follow::stop::Stop;
use crate::options::color::ColorArgs;
use crate::options::shown::{ShownArgs, ShownPlan};
use crate::value::interval;

/// Arguments of `follow`.
#[derive(Debug, clap::Args)]
pub struct FollowArgs {
    /// Stop after this time, for example `60s` [default: at Ctrl-C].
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
    time: Option<Duration>,
    /// How often to fetch new events, 10ms to 30s.
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "200ms")]
    interval: Duration,
    /// What is shown.
    #[command(flatten)]
    shown: ShownArgs,
    /// Exit with status 3 if any event was skipped or refused.
    #[arg(long)]
    strict: bool,
    /// Colour.
    #[command(flatten)]
    color: ColorArgs,
}

/// A recording to follow.
#[derive(Debug, PartialEq)]
pub struct FollowPlan {
    /// Where from.
    origin: Origin,
    /// For how long; `None`: until a signal comes.
    time: Option<Duration>,
    /// How often to ask for what is new.
    interval: Duration,
    shown: ShownPlan,
    /// Whether a loss is a failure.
    strict: bool,
}

impl Arguments for FollowArgs {
    const HELP: Help = Help {
        about: "Print events as they are recorded, until Ctrl-C",
        examples: &[
            ("flightctl follow --comm nginx --errors", "failed calls, live"),
            ("flightctl follow --syscall process --merge", "programs that are started, live"),
            (
                "flightctl follow --for 60s --strict -o /tmp/minute.txt",
                "one minute; fail if anything was skipped",
            ),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error, Exit::Incomplete],
    };
    type Plan = FollowPlan;

    fn plan(self, recorder: RecorderArgs, _: &Zoned) -> Result<FollowPlan> {
        let Self { time, interval, shown, strict, color } = self;
        let shown = shown.plan(color.color)?;
        Ok(FollowPlan { origin: recorder.origin(), time, interval, shown, strict })
    }

    fn file(&self) -> Option<&Path> {
        self.shown.output.as_deref()
    }
}

impl Plan for FollowPlan {
    fn run(&self) -> Result<Exit> {
        let stop = Stop::on_signals(self.time)?.or_without_reader();
        show::run(self, &stop, &crate::zone::system())
    }
}
