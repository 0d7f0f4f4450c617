//! Frames of stacks by name.

use flightrec_format::abi::record::stack::Status;
use flightrec_format::decode::{Sample, Stack};
use flightrec_format::meta::Meta;
use flightrec_format::symbols::Symbols;
use flightrec_reader::binaries::Binaries;

use crate::printable::printable;

/// A frame of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The function; where it is not known, where in its file it is: `libc.so.6+0x12af`.
    pub function: String,
    /// The file that it is of: `kernel`, a module's name, a path; empty: not known.
    pub file: String,
    /// The file's build id; empty: not known.
    pub build_id: String,
}

/// What gives frames their names.
#[derive(Debug, Default)]
pub struct Frames {
    symbols: Symbols,
    binaries: Binaries,
}

/// Functions that are no more than the act of sleeping, or the way there: what the kernel leaves
/// out of `/proc/PID/wchan`, and what locks sleep in.
const SLEEP: [&str; 10] = [
    "schedule",
    "__schedule",
    "preempt_schedule",
    "schedule_timeout",
    "schedule_hrtimeout_range",
    "schedule_hrtimeout_range_clock",
    "schedule_preempt_disabled",
    "io_schedule",
    "io_schedule_timeout",
    "do_nanosleep",
];

impl Frames {
    /// Of a recording.
    pub fn new(meta: &Meta) -> Self {
        Self { symbols: Symbols::new(meta), binaries: Binaries::new(meta) }
    }

    /// A kernel's frame.
    fn kernel(&self, frame: u32) -> Frame {
        let (function, file) = match self.symbols.find(frame) {
            Some(of) => (of.function.to_owned(), of.module.unwrap_or("kernel").to_owned()),
            None => (format!("?{frame:#x}"), "kernel".to_owned()),
        };
        let clean = |text: String| printable(text.as_bytes()).into_owned();
        Frame { function: clean(function), file: clean(file), build_id: String::new() }
    }

    /// Where a thread waited, from the innermost frame out; `None`: there is no stack.
    pub fn of_wait(&self, stack: &Stack) -> Option<Vec<Frame>> {
        let frames = || stack.frames.iter().map(|frame| self.kernel(*frame)).collect();
        (stack.status == Status::Taken).then(frames)
    }

    /// What ran, from the innermost frame out; `None`: there is no stack.
    pub fn of_sample(&self, sample: &Sample) -> Option<Vec<Frame>> {
        if sample.status != Status::Taken {
            return None;
        }
        let mut frames: Vec<Frame> =
            sample.kernel.iter().map(|frame| self.kernel(*frame)).collect();
        for (i, frame) in sample.user.iter().enumerate() {
            let place = self.binaries.find(*frame, i == 0);
            let path = place.binary.map_or("", |of| &*of.path);
            let name = path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("?");
            let function = place
                .function
                .map_or_else(|| format!("{name}+{:#x}", frame.at), |(function, _)| function);
            frames.push(Frame {
                function: printable(function.as_bytes()).into_owned(),
                file: printable(path.as_bytes()).into_owned(),
                build_id: printable(place.binary.map_or("", |of| &*of.build_id).as_bytes())
                    .into_owned(),
            });
        }
        Some(frames)
    }

    /// The function that a wait is named after: the innermost one that is more than sleeping.
    pub fn blocked(frames: &[Frame]) -> Option<&str> {
        let mut names = frames.iter().map(|frame| frame.function.as_str());
        let bare = |name: &str| name.split_once('.').map_or(0, |(name, _)| name.len());
        names.find(|name| {
            let bare = name.get(..bare(name)).filter(|name| !name.is_empty()).unwrap_or(name);
            !SLEEP.contains(&bare)
        })
    }
}
