//! `flightctl why`: why a thread was slow ([`crate::why`]).

use super::prelude::*;
use crate::why::hidden::Hidden;
use crate::why::run;
pub use crate::why::{WhyArgs, WhyFormat, WhyPlan};

impl Arguments for WhyArgs {
    const HELP: Help = Help {
        about: "Explain why a thread was slow: what it waited for, in which call, who caused it",
        examples: &[
            ("flightctl why", "what was worst in the last 10 seconds"),
            ("flightctl why --tid 4711 --last 1m", "one thread"),
            ("flightctl why --comm orders --at 14:03:07.25", "what it waited for at that moment"),
            (
                "flightctl why --unit nginx --slower-than 200ms --last 5m",
                "the slowest call of a service",
            ),
            ("flightctl why --pid 4711 --call fsync", "the longest fsync of a process"),
            ("flightctl why incident.flight", "in a saved file"),
            ("flightctl why --snapshot latest", "the cause of the newest snapshot"),
            (
                "flightctl why a.flight --format json --spans 100",
                "and the waits in spans of distributed traces",
            ),
            (
                "flightctl why --format json | jq -r '.culprits[0].thread.name'",
                "the culprit's name, for programs",
            ),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error],
    };
    type Plan = WhyPlan;

    fn plan(self, recorder: RecorderArgs, now: &Zoned) -> Result<WhyPlan> {
        if self.spans.is_some() && self.format != WhyFormat::Json {
            anyhow::bail!("--spans is for --format json");
        }
        let plan = WhyPlan::new(self.ask, self.format, &recorder, now)?;
        let spans = self.spans.map_or(0, |n| n as usize);
        Ok(WhyPlan { spans, hidden: Hidden::new(self.hidden)?, ..plan })
    }

    fn remarks(&self, now: &Zoned) -> Vec<String> {
        self.ask.past.window.remarks(now)
    }
}

impl Plan for WhyPlan {
    fn run(&self) -> Result<Exit> {
        self.hidden.begin();
        run::run(self, &crate::zone::system())
    }
}
