//! `flightctl export`: what was recorded, in the formats of other tools.

pub mod args;
pub mod plan;
mod run;
mod sums;

pub use self::args::{ExportArgs, ExportFormat};
pub use self::plan::ExportPlan;
use super::prelude::*;

impl Arguments for ExportArgs {
    const HELP: Help = Help {
        about: "Write recorded events as a file for other tools, such as Perfetto",
        examples: &[
            (
                "flightctl export --format perfetto -o trace.pftrace",
                "the last 10 seconds for https://ui.perfetto.dev",
            ),
            (
                "flightctl export --snapshot latest --format perfetto -o trace.pftrace",
                "the window of the newest snapshot",
            ),
            (
                "flightctl export a.flight --unit nginx --format perfetto -o nginx.pftrace",
                "one service in a saved file",
            ),
            (
                "flightctl export --last 1m --format parquet -o tables",
                "tables for DuckDB and other engines",
            ),
            (
                "flightctl export --last 1m --comm nginx --format folded -o - | flamegraph.pl",
                "a flame graph of what ran",
            ),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error, Exit::Incomplete],
    };
    type Plan = ExportPlan;

    fn plan(self, recorder: RecorderArgs, now: &Zoned) -> Result<ExportPlan> {
        ExportPlan::new(self, &recorder, now)
    }

    fn remarks(&self, now: &Zoned) -> Vec<String> {
        self.past.window.remarks(now)
    }

    fn file(&self) -> Option<&Path> {
        Some(&*self.output).filter(|output| *output != Path::new("-"))
    }
}

impl Plan for ExportPlan {
    fn run(&self) -> Result<Exit> {
        run::run(self)
    }
}
