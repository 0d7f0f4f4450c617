//! Stacks added up: folded, one line a stack, for flame graphs; and as speedscope's JSON.
//!
//! Samples count, one each; stacks of long waits have the time that was slept, in microseconds. A
//! file of folded stacks has one unit, so it has the samples, or, where there are none (`--event
//! stack`), the waits. Speedscope has both, a profile each.
//!
//! The outermost frame is the thread's name. Samples that a gap is known to lack stand under
//! `[not recorded]`.

use std::fmt::Write as _;

use rustc_hash::FxHashMap;

use flightrec_format::abi::kinds::Kind;
use flightrec_format::abi::record::Comm;
use flightrec_format::decode::{Body, Event};
use flightrec_format::ring::Gap;
use flightrec_reader::coverage::Coverage;
use flightrec_reader::pipeline::EventContext;
use flightrec_reader::threads::trim;
use flightrec_reader::wall::WallClock;
use flightrec_reader::window::Window;

use crate::exporter::{ExportError, Exporter, Session, Words};
use crate::json;
use crate::printable::printable;
use crate::stacks::{Frame, Frames};

/// Most bytes of different stacks; what comes then stands under `[other stacks]`.
const BYTES_MAX: usize = 64 << 20;
const ENTRIES_MAX: usize = 500_000;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `name;outer;inner 17`
    Folded,
    /// <https://www.speedscope.app>
    Speedscope,
}

/// Stacks, by the numbers of their frames from the outermost in, with their weights.
#[derive(Debug, Default)]
struct Sums {
    stacks: FxHashMap<Box<[u32]>, u64>,
    total: u64,
}

/// Adds up stacks.
#[derive(Debug)]
pub struct Profile {
    form: Form,
    names: Frames,
    /// Frames by their name and file, and in order.
    numbers: FxHashMap<(Box<str>, Box<str>), u32>,
    frames: Vec<(Box<str>, Box<str>)>,
    samples: Sums,
    waits: Sums,
    bytes: usize,
    /// Events that have no stack, or are of kinds without.
    others: u64,
    gaps: u64,
}

impl Profile {
    /// An empty one.
    pub fn new(form: Form) -> Self {
        Self {
            form,
            names: Frames::default(),
            numbers: FxHashMap::default(),
            frames: Vec::new(),
            samples: Sums::default(),
            waits: Sums::default(),
            bytes: 0,
            others: 0,
            gaps: 0,
        }
    }

    fn number(&mut self, name: &str, file: &str) -> u32 {
        let key: (Box<str>, Box<str>) = (name.into(), file.into());
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let number = self.frames.len() as u32;
        self.bytes += 2 * (name.len() + file.len() + 48);
        self.frames.push(key.clone());
        self.numbers.insert(key, number);
        number
    }

    fn add(&mut self, is_sample: bool, comm: &Comm, frames: &[Frame], weight: u64) {
        let entries = self.samples.stacks.len() + self.waits.stacks.len();
        let stack: Box<[u32]> = if self.bytes > BYTES_MAX || entries > ENTRIES_MAX {
            Box::new([self.number("[other stacks]", "")])
        } else {
            let name = printable(trim(comm));
            let outermost = self.number(if name.is_empty() { "[unknown]" } else { &name }, "");
            let inner = frames.iter().rev().map(|frame| self.number(&frame.function, &frame.file));
            let inner: Vec<u32> = inner.collect();
            [outermost].into_iter().chain(inner).collect()
        };
        let sums = if is_sample { &mut self.samples } else { &mut self.waits };
        sums.total = sums.total.saturating_add(weight);
        let length = stack.len();
        let sum = sums.stacks.entry(stack).or_insert_with(|| {
            self.bytes += 4 * length + 48;
            0
        });
        *sum = sum.saturating_add(weight);
    }

    fn name(&self, frame: u32) -> &str {
        self.frames.get(frame as usize).map_or("?", |(name, _)| name)
    }

    /// The stacks in an order that does not depend on chance.
    fn sorted<'a>(&'a self, sums: &'a Sums) -> Vec<(&'a [u32], u64)> {
        let mut all: Vec<(&[u32], u64)> =
            sums.stacks.iter().map(|(stack, n)| (&**stack, *n)).collect();
        all.sort_by(|(a, _), (b, _)| {
            let names = |stack: &&[u32]| stack.iter().map(|frame| self.name(*frame)).collect();
            let (a, b): (Vec<&str>, Vec<&str>) = (names(a), names(b));
            a.cmp(&b)
        });
        all
    }

    fn folded(&self, out: &mut Vec<u8>) {
        let sums = if self.samples.stacks.is_empty() { &self.waits } else { &self.samples };
        for (stack, weight) in self.sorted(sums) {
            for (i, frame) in stack.iter().enumerate() {
                if i > 0 {
                    out.push(b';');
                }
                // A `;` would end the frame.
                out.extend(self.name(*frame).bytes().map(|b| if b == b';' { b':' } else { b }));
            }
            out.extend_from_slice(format!(" {weight}\n").as_bytes());
        }
    }

    fn speedscope(&self, out: &mut Vec<u8>) {
        let mut text = String::from(
            "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\
             \"exporter\":\"flightrec\",\"name\":\"flightrec\",\"activeProfileIndex\":0,\
             \"shared\":{\"frames\":[",
        );
        for (i, (name, file)) in self.frames.iter().enumerate() {
            text.push_str(if i > 0 { ",{\"name\":" } else { "{\"name\":" });
            json::string(name, &mut text);
            if !file.is_empty() {
                text.push_str(",\"file\":");
                json::string(file, &mut text);
            }
            text.push('}');
        }
        text.push_str("]},\"profiles\":[");
        let profiles =
            [("on CPU (samples)", "none", &self.samples), ("waits", "microseconds", &self.waits)];
        let there = profiles.iter().filter(|(.., sums)| !sums.stacks.is_empty());
        // The schema takes a file without profiles, speedscope does not.
        let some: Vec<_> = there.collect();
        let shown = if some.is_empty() { vec![&profiles[0]] } else { some };
        for (i, (name, unit, sums)) in shown.into_iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "{comma}{{\"type\":\"sampled\",\"name\":\"{name}\",\"unit\":\"{unit}\",\
                 \"startValue\":0,\"endValue\":{},\"samples\":[",
                sums.total
            );
            let all = self.sorted(sums);
            for (i, (stack, _)) in all.iter().enumerate() {
                let numbers: Vec<String> = stack.iter().map(ToString::to_string).collect();
                let comma = if i > 0 { "," } else { "" };
                let _ = write!(text, "{comma}[{}]", numbers.join(","));
            }
            let weights: Vec<String> = all.iter().map(|(_, n)| n.to_string()).collect();
            let _ = write!(text, "],\"weights\":[{}]}}", weights.join(","));
        }
        text.push_str("]}\n");
        out.extend_from_slice(text.as_bytes());
    }
}

impl Exporter for Profile {
    fn begin(&mut self, session: &mut Session<'_>, _out: &mut Vec<u8>) -> Result<(), ExportError> {
        self.names = Frames::new(session.meta());
        Ok(())
    }

    fn coverage(&mut self, _report: &Coverage, _wall: &mut WallClock, _out: &mut Vec<u8>) {}

    fn gap(&mut self, gap: &Gap, _window: Window, _wall: &mut WallClock, _out: &mut Vec<u8>) {
        self.gaps += 1;
        let of = |kind: Kind| match gap.lost.filter(|_| gap.lane == kind.lane()) {
            Some(lost) if gap.reason != flightrec_format::ring::Reason::Refused => {
                lost.of(kind as u8)
            }
            _ => 0,
        };
        let lost = of(Kind::Sample);
        if lost != 0 {
            let missing: Comm = *b"[not recorded]\0\0";
            self.add(true, &missing, &[], lost);
        }
    }

    fn event(
        &mut self,
        event: &Event,
        known: &EventContext<'_>,
        _words: &mut dyn Words,
        _out: &mut Vec<u8>,
    ) -> Result<(), ExportError> {
        match &event.body {
            Body::Sample(sample) => {
                let frames = self.names.of_sample(sample).unwrap_or_default();
                self.add(true, &known.comm, &frames, 1);
            }
            Body::Stack(stack) => match (self.names.of_wait(stack), stack.slept) {
                (Some(frames), Some(slept)) => {
                    self.add(false, &known.comm, &frames, slept / 1000);
                }
                _ => self.others += 1,
            },
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<(), ExportError> {
        match self.form {
            Form::Folded => self.folded(out),
            Form::Speedscope => self.speedscope(out),
        }
        Ok(())
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let is_mixed = !self.samples.stacks.is_empty() && !self.waits.stacks.is_empty();
        if self.form == Form::Folded && is_mixed {
            remarks.push(
                "folded stacks have one unit: these are the samples; --event stack exports the \
                 waits, in microseconds"
                    .to_owned(),
            );
        }
        if self.samples.stacks.is_empty() && self.waits.stacks.is_empty() {
            remarks
                .push("the window has no stacks: samples need [sampling], waits [stacks]".into());
        }
        if self.others != 0 {
            remarks.push(format!(
                "{} waits without a stack, or since before the recording, are left out",
                self.others
            ));
        }
        if self.gaps != 0 {
            remarks.push(format!(
                "this format has no time, and so no place for gaps: there are {} in the window",
                self.gaps
            ));
        }
        remarks
    }
}
