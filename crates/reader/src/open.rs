//! Where a recording is, and the events of a window of it.

use std::path::{Path, PathBuf};

use crate::events::Events;
use crate::fds::Naming;
use crate::pipeline::{Merging, Wants};
use crate::source::history::{Chapters, Question};
use crate::source::{HistoryPlace, HistoryPlan, Origin, Source, SourceError, VmcoreSource};

/// What was recorded, wherever it is: files, the rings of a running recorder, a kernel dump.
///
/// Nothing is read before [`Self::events`] or [`Self::chapters`] is called, but for a kernel dump,
/// which is searched when it is opened.
pub struct Reader {
    from: From,
    wants: Wants,
}

enum From {
    /// Files, or the recorder's rings with its files.
    History(HistoryPlan),
    /// One source, and the state directory whose files reach further back than its rings.
    Source(Box<dyn Source>, Option<PathBuf>),
}

impl Reader {
    /// Files that flightd wrote, or that `flightctl save` did, in any order. Where all of them
    /// are saved windows, it is those windows that are read.
    pub fn files(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        let paths = paths.into_iter().map(Into::into).collect();
        Self::of_place(HistoryPlace::OwnWindows(paths))
    }

    /// All recordings of a state directory of flightd (`/var/lib/flightrec`), or of a copy of it.
    pub fn store(dir: impl Into<PathBuf>) -> Self {
        Self::of_place(HistoryPlace::Store(dir.into()))
    }

    /// The recorder of this machine: its rings, by its daemon or as they are pinned in `bpf` of its
    /// runtime directory (`/run/flightrec`), and its files where those do not reach. It takes root,
    /// or membership in the group `flightrec`.
    pub fn recorder(runtime_dir: impl Into<PathBuf>) -> Self {
        let runtime_dir = runtime_dir.into();
        let bpffs_dir = runtime_dir.join("bpf");
        let origin = Origin::Daemon { runtime_dir, bpffs_dir };
        Self::of_place(HistoryPlace::Recorder { origin, state_dir: None })
    }

    /// A kernel dump of any form that `flightctl dump --vmcore` takes: what was in the rings when
    /// the machine stopped, and before that what is in the files of `state_dir`, if any.
    ///
    /// Those files also tell the real recording from a forged one. Without a `state_dir`, the files
    /// in `/var/lib/flightrec` do that, if they are of the dump's machine; no events are read from
    /// them.
    ///
    /// # Errors
    /// The file is no dump, or there is no recording in it.
    pub fn vmcore(path: &Path, state_dir: Option<&Path>) -> Result<Self, SourceError> {
        let vouching = state_dir.unwrap_or(Path::new(crate::source::STATE_DIR));
        let source = VmcoreSource::open(path, None, vouching)?;
        Ok(Self::of_source(Box::new(source), state_dir))
    }

    /// Any place of a history, as `flightctl` resolves its arguments to one.
    pub fn of_place(place: HistoryPlace) -> Self {
        Self::new(From::History(HistoryPlan { place, boot: None }))
    }

    /// A source of pages, and the state directory whose files reach further back.
    pub fn of_source(source: Box<dyn Source>, state_dir: Option<&Path>) -> Self {
        Self::new(From::Source(source, state_dir.map(Into::into)))
    }

    fn new(from: From) -> Self {
        let wants = Wants { naming: Naming::Near, merging: Merging::Never, traces: false };
        Self { from, wants }
    }

    /// Gives a call as one event, with its arguments, its result and its duration, in place of one
    /// for its entry and one for its exit; a call that does not end in the window is its entry.
    #[must_use]
    pub fn merging(mut self, merging: Merging) -> Self {
        self.wants.merging = merging;
        self
    }

    /// Which descriptors have names. [`Naming::All`] reads all of the rings, and of files from the
    /// beginning of one on.
    #[must_use]
    pub fn naming(mut self, naming: Naming) -> Self {
        self.wants.naming = naming;
        self
    }

    /// The events of a window, in the order of time.
    ///
    /// # Errors
    /// There is nothing to be read, or no access to it: the error says what to do.
    pub fn events(&mut self, question: Question) -> Result<Events, SourceError> {
        let everything = question.everything || self.wants.naming == Naming::All;
        let chapters = self.chapters(Question { everything, ..question })?;
        Ok(Events::new(chapters, self.wants, everything))
    }

    /// The pages of a window, recording by recording: for those who count or copy pages rather than
    /// read events.
    ///
    /// # Errors
    /// As [`Self::events`].
    pub fn chapters(&mut self, question: Question) -> Result<Chapters, SourceError> {
        match &mut self.from {
            From::History(plan) => Chapters::of(plan, question),
            From::Source(source, Some(dir)) => Chapters::beside(source.as_mut(), dir, question),
            From::Source(source, None) => Chapters::only(source.as_mut(), question),
        }
    }
}
