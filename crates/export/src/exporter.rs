//! What an exporter is, and what it is given.

use std::io;

use flightrec_format::decode::{Call, Event};
use flightrec_format::meta::Meta;
use flightrec_format::ring::Gap;
use flightrec_reader::coverage::Coverage;
use flightrec_reader::pipeline::EventContext;
use flightrec_reader::source::PageSet;
use flightrec_reader::wall::WallClock;
use flightrec_reader::window::Window;
use thiserror::Error;

/// Why an export can't go on.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The format holds one machine's time since one boot, and the window has another one's too.
    #[error(
        "the window has recordings of two boots, and this format has one clock: export each boot \
         by itself (--boot, or one file at a time)"
    )]
    OtherBoot,
    /// A file of the export can't be written.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// Why not.
        source: io::Error,
    },
}

/// A recording, or a stretch of one, whose events come next.
pub struct Session<'a> {
    /// The recording.
    pub recording: &'a PageSet,
    /// Where the events are, ns of `CLOCK_MONOTONIC`.
    pub window: Window,
    /// The recording's wall clock.
    pub wall: &'a mut WallClock,
}

impl Session<'_> {
    /// Its description.
    pub fn meta(&self) -> &Meta {
        &self.recording.meta
    }
}

/// A value of an argument or of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number.
    Signed(i64),
    /// One that may be too great for that.
    Unsigned(u64),
    /// Printable text.
    Text(&'a str),
}

/// What events mean, in words. All texts are printable.
pub trait Words: Send {
    /// Name of a system call; `syscall_400` where the recording has none.
    fn call(&mut self, call: &Call) -> &str;

    /// Which arguments of a call stand for files, a bit for each from the lowest on: what
    /// [`Self::arguments`] gives of the others does not depend on what is known beside the call.
    fn descriptors(&mut self, call: &Call) -> u8 {
        let _ = call;
        u8::MAX
    }

    /// Gives each argument of a call that is recorded: its name, and its value as people read it
    /// (flags by name, a descriptor with what it stands for).
    fn arguments(
        &mut self,
        call: &Call,
        known: &EventContext<'_>,
        each: &mut dyn FnMut(&str, Value<'_>),
    );

    /// Name of the error that a call returned, as in `ENOENT`; `None`: it did not fail.
    fn error(&mut self, call: &Call, ret: i64) -> Option<&str>;

    /// Gives each field of any other event: what `flightctl dump --format jsonl` has of it after
    /// what every event has.
    fn fields(
        &mut self,
        event: &Event,
        known: &EventContext<'_>,
        each: &mut dyn FnMut(&str, Value<'_>),
    );
}

/// Makes the bytes of a format. What it appends to `out` is written in that order; a format of
/// several files writes them by itself.
pub trait Exporter: Send {
    /// The events of a recording come next, or more of them. It is called again with the same
    /// recording where a long window is read in parts: its tables may have grown.
    fn begin(&mut self, session: &mut Session<'_>, out: &mut Vec<u8>) -> Result<(), ExportError>;

    /// What the recording has of a window; called before the window's events, once for each.
    fn coverage(&mut self, report: &Coverage, wall: &mut WallClock, out: &mut Vec<u8>);

    /// Events are missing: within `window`, the part of the gap that was asked for. Called before
    /// the events around it.
    fn gap(&mut self, gap: &Gap, window: Window, wall: &mut WallClock, out: &mut Vec<u8>);

    /// An event. They come in the order of time, but where a recording follows another one.
    fn event(
        &mut self,
        event: &Event,
        known: &EventContext<'_>,
        words: &mut dyn Words,
        out: &mut Vec<u8>,
    ) -> Result<(), ExportError>;

    /// No more events come.
    fn end(&mut self, out: &mut Vec<u8>) -> Result<(), ExportError>;

    /// Appends what stands after what [`Self::end`] made, some of it; `false`: there was none
    /// left.
    fn more(&mut self, out: &mut Vec<u8>) -> Result<bool, ExportError> {
        let _ = out;
        Ok(false)
    }

    /// What the format had no place for, in sentences; asked for after [`Self::end`].
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}
