//! `flightctl page`: a recording as one page that anyone can open.
//!
//! The window is read three times. `survey` adds up tables, and what each thread comes to; `why` is
//! asked; of both `chosen` takes the threads that matter, and `drawing` draws these. `answer` and
//! `tables` put what was found into the page (`flightrec_export::page`), in bounded memory.

mod answer;
pub mod args;
mod chosen;
mod drawing;
mod lines;
mod occurrences;
pub mod plan;
mod run;
mod survey;
mod tables;
mod whats;

pub use self::args::PageArgs;
pub use self::plan::PagePlan;
use super::prelude::*;

impl Arguments for PageArgs {
    const HELP: Help = Help {
        about: "Write what happened as one HTML page, to send to others",
        examples: &[
            ("flightctl page -o slow.html", "the last 10 seconds, and what was worst in them"),
            ("flightctl page --snapshot latest -o incident.html", "the newest snapshot"),
            ("flightctl page incident.flight -o incident.html", "a saved file"),
            (
                "flightctl page --unit nginx --slower-than 200ms --last 1m -o nginx.html",
                "the slowest call of a service",
            ),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error, Exit::Incomplete],
    };
    type Plan = PagePlan;

    fn plan(self, recorder: RecorderArgs, now: &Zoned) -> Result<PagePlan> {
        PagePlan::new(self, &recorder, now)
    }

    fn remarks(&self, now: &Zoned) -> Vec<String> {
        self.ask.past.window.remarks(now)
    }

    fn file(&self) -> Option<&Path> {
        Some(&*self.output).filter(|output| *output != Path::new("-"))
    }
}

impl Plan for PagePlan {
    fn run(&self) -> Result<Exit> {
        run::run(self)
    }
}
