//! `flightctl top`: the busiest threads, live: accounting over events ([`model`], [`table`]), what
//! threads are in ([`doing`]), what the screen shows ([`screen`]) and how it looks ([`view`],
//! [`plain`]), its keys ([`keys`]), a terminal that is gone (`hangup`), and what drives them
//! ([`run`]).

pub mod args;
pub mod column;
pub mod doing;
pub mod events;
mod hangup;
pub mod keys;
pub mod model;
pub mod past;
pub mod plain;
pub mod plan;
pub mod run;
pub mod screen;
pub mod table;
pub mod view;

pub use self::args::TopArgs;
pub use self::plan::TopPlan;
use super::prelude::*;

impl Arguments for TopArgs {
    const HELP: Help = Help {
        about: "Show the busiest threads, live or for a past window: system calls, errors, run \
                time, run-queue delay, time asleep",
        examples: &[
            ("flightctl top", "the busiest threads, live; q quits"),
            ("flightctl top --once -n 5 --interval 3s", "one table of three seconds, as text"),
            (
                "flightctl top --around 14:03:07 --sort delay",
                "threads that waited for a CPU at that time",
            ),
            ("flightctl top incident.flight", "for the window of a saved file or a snapshot"),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error],
    };
    type Plan = TopPlan;

    fn plan(self, recorder: RecorderArgs, now: &Zoned) -> Result<TopPlan> {
        Ok(TopPlan::new(self, &recorder, now)?)
    }

    fn remarks(&self, now: &Zoned) -> Vec<String> {
        self.past.window.remarks(now)
    }
}

impl Plan for TopPlan {
    fn run(&self) -> Result<Exit> {
        run::run(self, &crate::zone::system())
    }
}
