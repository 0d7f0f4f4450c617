//! Text as an output format.

use flightrec_format::decode::Event;
use flightrec_format::meta::Meta;
use flightrec_format::ring::Gap;
use flightrec_reader::pipeline::{EventContext, Merging, Wants};
use flightrec_reader::wall::WallClock;

use super::coverage::{skipped, time};
use super::{Options, Renderer};
use crate::render::{self, Following, Render, Start};

/// Lines for people.
#[derive(Debug, Clone)]
pub struct Format {
    /// How they look.
    pub options: Options,
    /// Whether they are kept: a text that is kept says what it covers.
    pub is_kept: bool,
}

/// A line that is no event.
fn comment(line: &str) -> Vec<u8> {
    format!("# {line}\n").into_bytes()
}

impl render::Format for Format {
    fn begin(&self, start: &mut Start<'_>) -> Vec<u8> {
        start.coverage.iter().flat_map(|line| self.remark(line)).collect()
    }

    fn follow(&self, Following { meta, wall_ns, .. }: &Following<'_>) -> Vec<u8> {
        let from = time(*wall_ns, &self.options.time_zone);
        self.remark(&format!("following session {:016x} from {from}", meta.session))
    }

    fn gap(&self, gap: &Gap, wall: &mut WallClock) -> Vec<u8> {
        comment(&skipped(gap, wall, &self.options.time_zone))
    }

    fn remark(&self, line: &str) -> Vec<u8> {
        if self.is_kept { comment(line) } else { Vec::new() }
    }

    fn events(&self, meta: &Meta) -> Box<dyn Render> {
        Box::new(Renderer::new(meta, self.options.clone()))
    }
}

impl Render for Renderer {
    fn wants(&self) -> Wants {
        let merging = if self.merge { Merging::AtEntry } else { Merging::Never };
        Wants { naming: self.naming, merging, traces: self.traces }
    }

    /// What is missing is said before the events.
    fn expect(&mut self, _start: &mut Start<'_>) {}

    fn event(&mut self, event: &Event, known: &EventContext<'_>, out: &mut Vec<u8>) {
        self.line(event, known, out);
    }

    fn end(&mut self, _out: &mut Vec<u8>) {}
}
