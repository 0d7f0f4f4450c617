//! The output formats that there are.

use jiff::tz::TimeZone;

use crate::options::format::FormatArg;
use crate::options::shown::ShownPlan;
use crate::output::Output;
use crate::render::Format;
use crate::{json, text};

/// The format of what is shown on an output.
pub fn of(plan: &ShownPlan, output: &Output, zone: &TimeZone) -> Box<dyn Format> {
    let &ShownPlan { format, merge, stacks, graph, fds, traces, color, .. } = plan;
    match format {
        FormatArg::Text => {
            let colour = output.colours(color, std::env::var_os("NO_COLOR").as_deref());
            let time_zone = zone.clone();
            let options = text::Options {
                colour,
                merge,
                fds,
                stacks,
                graph,
                traces,
                time_zone,
                ..text::Options::default()
            };
            // Beside what is kept, nobody sees what is said.
            Box::new(text::Format { options, is_kept: !output.is_terminal() })
        }
        FormatArg::Jsonl => Box::new(json::Format { merge, fds, traces }),
    }
}
