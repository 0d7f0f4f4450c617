//! The output formats that there are.

use jiff::tz::TimeZone;

use crate::args::{ColorArg, FormatArg};
use crate::fds::Naming;
use crate::output::Output;
use crate::render::Format;
use crate::{json, text};

/// How events are to look.
#[derive(Debug, Clone)]
pub struct Look {
    /// Terminal colours, where the format has any.
    pub colour: bool,
    /// Whether calls are shown as one.
    pub merge: bool,
    /// Which descriptors are shown by what they stand for.
    pub fds: Naming,
    /// Time zone of times of day.
    pub time_zone: TimeZone,
    /// Whether the output is kept: nobody sees what is said beside it.
    pub is_kept: bool,
}

impl Look {
    /// As events look on this output.
    pub fn of(
        output: &Output,
        color: ColorArg,
        merge: bool,
        fds: Naming,
        time_zone: &TimeZone,
    ) -> Self {
        Self {
            colour: output.colours(color, std::env::var_os("NO_COLOR").as_deref()),
            merge,
            fds,
            time_zone: time_zone.clone(),
            is_kept: !output.is_terminal(),
        }
    }
}

/// The format of a name.
pub fn of(format: FormatArg, look: Look) -> Box<dyn Format> {
    let Look { colour, merge, fds, time_zone, is_kept } = look;
    match format {
        FormatArg::Text => {
            let options =
                text::Options { colour, merge, fds, time_zone, ..text::Options::default() };
            Box::new(text::Format { options, is_kept })
        }
        FormatArg::Jsonl => Box::new(json::Format { merge, fds }),
    }
}
