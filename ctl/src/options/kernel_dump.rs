//! A recording in a kernel dump.

use std::path::PathBuf;

use anyhow::Result;

use flightrec_reader::source::history::{self, Chapter, Question, Visitor};
use flightrec_reader::source::vmcore::DumpError;
use flightrec_reader::source::{Source, VmcoreSource};

/// Which recording of which dump.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelDump {
    /// The dump.
    pub file: PathBuf,
    /// Which recording in it; `None`: the one that the files in `state_dir` identify, else the
    /// newest.
    pub session: Option<u64>,
    /// Directory with the files of its boot, which reach further back than the rings.
    pub store: Option<PathBuf>,
    /// Where files may be that identify a recording in it.
    pub state_dir: PathBuf,
}

impl KernelDump {
    /// Opens the dump, and looks for the recording.
    pub fn open(&self) -> Result<VmcoreSource, DumpError> {
        VmcoreSource::open(&self.file, self.session, &self.state_dir)
    }

    /// Reads the rings in it, with the files of its boot.
    pub fn read(
        &self,
        source: &mut VmcoreSource,
        question: Question,
        visitor: &mut impl Visitor<anyhow::Error>,
    ) -> Result<()> {
        if let Some(dir) = &self.store {
            return history::read_beside(source, dir, question, visitor);
        }
        let clock = source.clock();
        let recording = source.read(question.of_rings(clock))?;
        visitor.take(Chapter::only(recording, clock, question.since, question.until)).map(drop)
    }
}
