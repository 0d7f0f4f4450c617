//! JSON lines as an output format.

use flightrec_format::decode::Event;
use flightrec_format::meta::Meta;
use flightrec_format::ring::Gap;
use flightrec_reader::fds::Naming;
use flightrec_reader::pipeline::{EventContext, Merging, Wants};
use flightrec_reader::wall::WallClock;

use super::{Renderer, coverage};
use crate::render::{self, Following, Render, Start};

/// JSON lines for programs.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// Whether a call whose exit directly follows is one object.
    pub merge: bool,
    /// Which descriptors are shown by what they stand for.
    pub fds: Naming,
    /// Whether events have the span that their thread works for.
    pub traces: bool,
}

impl render::Format for Format {
    fn begin(&self, Start { recording, reports, wall, .. }: &mut Start<'_>) -> Vec<u8> {
        let lines = reports
            .iter()
            .flat_map(|report| coverage::line(report, &recording.meta, wall).into_bytes());
        lines.collect()
    }

    fn follow(&self, following: &Following<'_>) -> Vec<u8> {
        coverage::following_line(following).into_bytes()
    }

    fn gap(&self, gap: &Gap, wall: &mut WallClock) -> Vec<u8> {
        coverage::gap_line(gap, wall).into_bytes()
    }

    /// JSON has no comments.
    fn remark(&self, _line: &str) -> Vec<u8> {
        Vec::new()
    }

    fn events(&self, meta: &Meta) -> Box<dyn Render> {
        Box::new(Renderer::new(meta, self.merge, []).name_fds(self.fds).with_traces(self.traces))
    }
}

impl Render for Renderer {
    fn wants(&self) -> Wants {
        let merging = if self.merge { Merging::AtExit } else { Merging::Never };
        Wants { naming: self.naming, merging, traces: self.traces }
    }

    fn expect(&mut self, Start { reports, windows, wall, .. }: &mut Start<'_>) {
        let mut asides = coverage::clock_asides(windows.hull(), wall);
        asides.extend(reports.iter().flat_map(|report| coverage::gap_lines(report, wall)));
        asides.sort_by_key(|aside| aside.time);
        self.add(asides);
    }

    fn event(&mut self, event: &Event, known: &EventContext<'_>, out: &mut Vec<u8>) {
        self.object(event, known, out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.rest(out);
    }
}
