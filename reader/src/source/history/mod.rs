//! One history in the order of time, from rings and files, of any number of recordings and boots.
//!
//! Each recording session is a *chapter*. It has its own metadata and its own page numbers. It ends
//! at the latest where the next session of its boot begins. The rings are read before any file,
//! because they are overwritten meanwhile. Files are read only for what is no longer in the rings.

mod chapters;
mod own;
mod rings;
#[cfg(test)]
mod tests;

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use flightrec_format::abi::page::Lane;

use super::files::FilesError;
use super::files::catalog::{self, BootFiles, Refused};
pub use super::files::narrow::{Chosen, Only, Sought};
pub use super::files::who::Names;
use super::origin::{HistoryPlace, HistoryPlan, Origin, STATE_DIR};
use super::snapshots::{SnapshotError, directory, find};
use super::{Clock, Recording, Source, SourceError, open_live};
use crate::boots::{self, BootArg, BootId};
use crate::control::ControlError;
use crate::memory;
use crate::observe::note;
use crate::redact;
use crate::wall::WallClock;
use crate::window::{Edge, Window, nanos, with_leads};
use crate::windows::Windows;
use chapters::stored;
use rings::with_rings;

/// The window that is asked of a history.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    /// Start of the window.
    pub since: Edge,
    /// End of the window.
    pub until: Edge,
    /// Also read what was recorded before the window. It helps to name what is in the window. The
    /// rings are then read whole, and files from the start of the one in which the window begins.
    pub everything: bool,
}

/// A chapter that has been read.
#[derive(Debug)]
pub struct Chapter {
    /// Its pages and metadata.
    pub recording: Recording,
    /// The chapter has no events before this moment, ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// The end of the chapter, and the wall clock at that moment.
    pub clock: Clock,
    /// The moment that relative times such as "10 s ago" are counted from, ns of
    /// `CLOCK_MONOTONIC`.
    pub present: u64,
    /// Start of the window in this chapter.
    pub since: Edge,
    /// End of the window in this chapter.
    pub until: Edge,
    /// The windows that a file was saved of, if only these parts of the window are wanted. Empty if
    /// all of the window is wanted.
    pub own: Vec<Window>,
    /// Lines to show the user beside the coverage.
    pub remarks: Vec<String>,
    /// Whether this is the only chapter of the history.
    pub is_only: bool,
    /// Not all pages of rings were read: [`Needs`].
    pub is_narrow: bool,
    /// It is a stretch of the window that [`Visitor::ahead`] was given.
    pub is_foretold: bool,
    /// How this stretch of the window joins the others. `None`: the window is read in one piece,
    /// because it fits into memory.
    pub joins: Option<Joins>,
}

/// How a stretch of a window joins the others. A program that keeps its state from one stretch to
/// the next sees all events of the window, each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joins {
    /// The window that all stretches in files make up.
    pub whole: Window,
    /// Whether the stretches are all that is wanted of this recording. If not, the rings follow the
    /// files.
    pub is_whole: bool,
    /// Events before this moment belong to the previous stretch, or lie before the window.
    pub from: u64,
    /// Events from this moment on belong to the next stretch, or lie behind the window.
    pub until: u64,
    /// Whether there is a previous stretch.
    pub before: bool,
    /// Whether there is a next stretch.
    pub behind: bool,
}

impl Joins {
    /// All that may be told of together: what the stretches make up, and the rings that follow.
    pub fn reach(&self) -> Window {
        if self.is_whole { self.whole } else { Window { until: u64::MAX, ..self.whole } }
    }
}

impl Chapter {
    /// The only chapter of a history, from one source.
    pub fn only(recording: Recording, clock: Clock, since: Edge, until: Edge) -> Self {
        Self {
            recording,
            from: 0,
            clock,
            present: clock.now,
            since,
            until,
            own: Vec::new(),
            remarks: Vec::new(),
            is_only: true,
            is_narrow: false,
            is_foretold: false,
            joins: None,
        }
    }

    /// The part of the window that the chapter can have events of.
    pub fn windows(&self, wall: &WallClock) -> Windows {
        self.windows_from(self.from, wall)
    }

    /// The same, including the stretches before this one.
    pub fn windows_so_far(&self, wall: &WallClock) -> Windows {
        self.windows_from(self.joins.map_or(self.from, |joins| joins.whole.from), wall)
    }

    fn windows_from(&self, from: u64, wall: &WallClock) -> Windows {
        let windows = wall.windows(self.since, self.until, self.present);
        // What happens while the pages are read is another dump's; before the recording there is
        // nothing.
        let limits = Window { from: self.recording.meta.started.max(from), until: self.clock.now };
        let within = if self.own.is_empty() {
            windows.within(limits)
        } else {
            Windows::new(self.own.iter().copied(), 0)
                .and_then(|own| own.within(windows.hull()))
                .and_then(|own| own.within(limits))
        };
        within.unwrap_or_else(|| {
            let at = windows.hull().from.max(limits.from).min(limits.until);
            Window { from: at, until: at }.into()
        })
    }
}

/// A window of several stretches, before they are read, if it is known already that nothing of it
/// is missing.
#[derive(Debug)]
pub struct Foretold {
    /// The chapter, with only a few of its pages.
    chapter: Chapter,
    /// Nothing of this window is missing. The chapter has all pages outside of it that matter.
    sure: Window,
    /// The wall clock ran evenly all the time, so the pages of any lane tell it alike.
    is_even: bool,
}

impl Foretold {
    /// The chapter, with only a few of its pages.
    pub fn chapter(&self) -> &Chapter {
        &self.chapter
    }

    /// The window of which nothing is missing, whichever pages are read later.
    pub fn sure(&self) -> Window {
        self.sure
    }
}

/// Which events a visitor needs of a stretch that [`Visitor::ahead`] was given.
#[derive(Debug, Clone)]
pub enum Needs {
    /// Those of all lanes.
    All,
    /// Those of these lanes alone, of which the task lane is one, beside all else that is no event.
    /// The recording then lacks the pages of the other lanes, of which is known that none is
    /// missing in the files.
    Lanes(&'static [Lane]),
    /// As [`Self::Lanes`], what [`Ends`](crate::pipeline::ends::Ends) takes: system calls without
    /// what their arguments and strings hold, and the task lane. Of the stretches that follow the
    /// same is needed, unless blocks of them were chosen: each is read while the visitor has the
    /// one before.
    CallEnds,
    /// Those of some blocks, and of the task lane. It is known that nothing is missing.
    Chosen(Arc<Chosen>),
}

/// Receives the chapters of a history.
pub trait Visitor<E> {
    /// Whether [`Self::ahead`] is of any use. To know it costs reading.
    fn listens(&self) -> bool {
        false
    }

    /// Whether that is so only where it is known, before they are read, of which events it can't
    /// tell whether it wants them: where there are none behind the first stretch of a window, and
    /// [`Self::sought`] is little. It is [asked](Self::ask) then what it seeks.
    fn doubts(&self) -> bool {
        false
    }

    /// Takes the window that [`Self::ahead`] may be given, to tell what it seeks in it.
    fn ask(&mut self, _chapter: &Foretold) {}

    /// What is read of the window behind its first stretch: blocks with all that it seeks.
    fn chosen(&mut self, _chosen: &Chosen) {}

    /// Takes a window of several stretches before the first of them is read, if nothing of it is
    /// missing; else the window without its first stretch, before the second is read.
    ///
    /// # Errors
    /// The visitor's own; it ends the reading.
    fn ahead(&mut self, _chapter: &Foretold) -> Result<(), E> {
        Ok(())
    }

    /// Whether [`Self::names`] may save it events of the window that [`Self::ahead`] was given.
    fn wants_names(&self) -> bool {
        false
    }

    /// Takes all names that any thread may have in the window that [`Self::ahead`] was given.
    fn names(&mut self, _names: &Names) {}

    /// What it seeks in the window that [`Self::ahead`] was given, where that is little: the blocks
    /// without any of it are then left unread, as far as that changes nothing of what is found.
    /// `names`: all that any thread may have in it.
    fn sought(&self, _names: &Names) -> Option<Box<dyn Sought>> {
        None
    }

    /// What it needs of the next chapter, if that is a stretch of the window that [`Self::ahead`]
    /// was given.
    fn needs(&self) -> Needs {
        Needs::All
    }

    /// Takes the next chapter.
    ///
    /// # Errors
    /// The visitor's own; it ends the reading.
    fn take(&mut self, chapter: Chapter) -> Result<Go, E>;
}

impl<E, F: FnMut(Chapter) -> Result<Go, E>> Visitor<E> for F {
    fn take(&mut self, chapter: Chapter) -> Result<Go, E> {
        self(chapter)
    }
}

/// Whether the following chapters are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Go {
    /// Yes.
    On,
    /// No.
    Enough,
}

/// A chapter that is still to be read, or the rings, which are.
enum Part {
    Files(Box<chapters::FilesPart>),
    Rings(Box<Chapter>),
}

/// Reads the chapters of the window, the earliest first, and drops each before the next; of those
/// of which the ends of calls are needed ([`Needs::CallEnds`]), two are held at a time.
///
/// # Errors
/// The source's, and the visitor's.
pub fn read<E: From<SourceError>>(
    plan: &HistoryPlan,
    question: Question,
    visitor: &mut impl Visitor<E>,
) -> Result<(), E> {
    visit_all(Chapters::of(plan, question)?, visitor)
}

/// The same of the rings of any source, and of the files of its boot in `dir`, which reach further
/// back.
///
/// # Errors
/// The source's, and the visitor's.
pub fn read_beside<E: From<SourceError>>(
    source: &mut dyn Source,
    dir: &Path,
    question: Question,
    visitor: &mut impl Visitor<E>,
) -> Result<(), E> {
    visit_all(Chapters::beside(source, dir, question)?, visitor)
}

fn visit_all<E: From<SourceError>>(
    mut chapters: Chapters,
    visitor: &mut impl Visitor<E>,
) -> Result<(), E> {
    // Whether the parts that come belong to a window that was foretold, and may be read in part.
    let (mut is_foretold, mut is_even) = (false, false);
    // What of the stretches behind the first is read.
    let mut chosen = None;
    while let Some(mut next) = chapters.next_part() {
        is_foretold &= next.goes_on();
        if !next.goes_on() {
            chosen = None;
        }
        let doubts = visitor.doubts();
        let listens = !is_foretold && visitor.listens() && (!doubts || next.goes_on());
        let foretold = if listens { next.foretold() } else { None };
        if let Some(foretold) = foretold.as_ref().filter(|of| doubts && of.is_even) {
            visitor.ask(foretold);
            let rings = chapters.rings();
            let names = next.names(rings);
            let sought = names.as_ref().and_then(|names| Some((names, visitor.sought(names)?)));
            let blocks = sought.and_then(|(names, sought)| next.choose(rings, names, &*sought));
            if let Some(blocks) = blocks {
                visitor.ahead(foretold)?;
                // Where it could not tell of the window, it needs all of it.
                if visitor.wants_names() {
                    visitor.chosen(&blocks);
                    chosen = Some(Arc::new(blocks));
                }
                (is_foretold, is_even) = (true, true);
            }
        } else if let Some(foretold) = foretold.filter(|_| !doubts) {
            visitor.ahead(&foretold)?;
            (is_foretold, is_even) = (true, foretold.is_even);
            chosen = None;
            if is_even
                && visitor.wants_names()
                && let Some(names) = next.names(chapters.rings())
            {
                visitor.names(&names);
                let sought = visitor.sought(&names);
                let blocks =
                    sought.and_then(|sought| next.choose(chapters.rings(), &names, &*sought));
                chosen = blocks.map(Arc::new);
            }
        }
        let mut needs = if is_foretold && is_even { visitor.needs() } else { Needs::All };
        // The first stretch of a window tells what is known where the others begin.
        let is_inside = is_foretold && next.goes_on();
        let is_of_many = !matches!(needs, Needs::Lanes(&[Lane::Task]));
        if let (true, Some(chosen), true) = (is_of_many, &chosen, is_inside) {
            needs = Needs::Chosen(chosen.clone());
        }
        // What the rings have that follow is told by themselves.
        let is_told = is_foretold && matches!(next.part, Part::Files(_));
        let mut chapter = next.read(&needs, is_inside)?;
        loop {
            chapter.is_foretold = is_told;
            chapter.recording.redact(redact::kept());
            // Of those behind the first, fewer blocks may have been chosen.
            let is_known = matches!(needs, Needs::CallEnds) && chosen.is_none();
            let ahead = is_known.then(|| chapters.next_stretch(&chapter)).flatten();
            let (go, read) = take(visitor, chapter, ahead);
            if go? == Go::Enough {
                return Ok(());
            }
            let Some(read) = read else { break };
            chapter = read?;
        }
    }
    Ok(())
}

/// Gives a chapter to the visitor; what is `ahead`, a stretch of which the ends of calls are
/// needed, is read meanwhile.
fn take<E>(
    visitor: &mut impl Visitor<E>,
    chapter: Chapter,
    ahead: Option<Unread>,
) -> (Result<Go, E>, Option<Result<Chapter, SourceError>>) {
    let Some(ahead) = ahead else { return (visitor.take(chapter), None) };
    thread::scope(|scope| {
        let reading = scope.spawn(move || ahead.read(&Needs::CallEnds, true));
        let go = visitor.take(chapter);
        (go, Some(reading.join().unwrap_or_else(|panic| resume_unwind(panic))))
    })
}

/// The chapters of a window, the earliest first. Each is read when it is asked for; the rings have
/// been read before any.
pub struct Chapters {
    parts: std::vec::IntoIter<Part>,
    is_only: bool,
}

impl Chapters {
    /// Of a history.
    ///
    /// # Errors
    /// The plan names no recording that can be read.
    pub fn of(plan: &HistoryPlan, question: Question) -> Result<Self, SourceError> {
        Ok(Self::new(parts(plan, question)?))
    }

    /// Of the rings of any source, and of the files of its boot in `dir`, which reach further back.
    ///
    /// # Errors
    /// As of [`Self::of`].
    pub fn beside(
        source: &mut dyn Source,
        dir: &Path,
        question: Question,
    ) -> Result<Self, SourceError> {
        Ok(Self::new(with_rings(source, dir, true, true, question)?))
    }

    /// Of the rings of a source alone.
    ///
    /// # Errors
    /// The source can not be read.
    pub fn only(source: &mut dyn Source, question: Question) -> Result<Self, SourceError> {
        let clock = source.clock();
        let recording = source.read(question.of_rings(clock))?;
        let chapter = Chapter::only(recording, clock, question.since, question.until);
        Ok(Self::new(vec![Part::Rings(Box::new(chapter))]))
    }

    fn new(parts: Vec<Part>) -> Self {
        let begins = |part: &&Part| part.joins().is_none_or(|joins| !joins.before);
        let is_only = parts.iter().filter(begins).count() == 1;
        Self { parts: parts.into_iter(), is_only }
    }

    /// The rings that go on with the window of which the last part was a stretch.
    fn rings(&self) -> Option<&Recording> {
        // They come last, behind the stretches of that window alone.
        let next = self.parts.as_slice().iter().find(|part| !matches!(part, Part::Files(_)))?;
        let Part::Rings(chapter) = next else { return None };
        let joins = chapter.joins.filter(|joins| joins.before)?;
        let is_same = |of: Joins| of.before && of.whole == joins.whole;
        let files = self.parts.as_slice().iter().take_while(|part| matches!(part, Part::Files(_)));
        let all = files.map(Part::joins).all(|of| of.is_some_and(is_same));
        all.then_some(&chapter.recording)
    }

    /// The next part, if it is a stretch of files that goes on with a chapter, and both fit into
    /// memory.
    fn next_stretch(&mut self, chapter: &Chapter) -> Option<Unread> {
        let Part::Files(next) = self.parts.as_slice().first()? else { return None };
        let pages = chapter.recording.streams.iter().map(|stream| stream.pages().len());
        let held = (pages.sum::<usize>() as u64).saturating_mul(memory::PAGE_WEIGHT);
        let fits = held.saturating_add(next.weight()) <= memory::pages_max();
        let goes_on = next.joins().is_some_and(|joins| joins.before);
        if fits && goes_on { self.next_part() } else { None }
    }

    fn next_part(&mut self) -> Option<Unread> {
        Some(Unread { part: self.parts.next()?, is_only: self.is_only })
    }
}

impl Iterator for Chapters {
    type Item = Result<Chapter, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.next_part()?.read(&Needs::All, false))
    }
}

/// A chapter that comes next, not yet read.
struct Unread {
    part: Part,
    is_only: bool,
}

impl Unread {
    /// What is known, before it is read, of the window of which it is the first stretch.
    fn foretold(&mut self) -> Option<Foretold> {
        let Part::Files(part) = &mut self.part else { return None };
        let mut foretold = part.foretell()?;
        foretold.chapter.is_only = self.is_only;
        Some(foretold)
    }

    /// Whether it is a stretch behind another one of its window.
    fn goes_on(&self) -> bool {
        self.part.joins().is_some_and(|joins| joins.before)
    }

    /// The names that threads may have in the window of which it is the first stretch; `None`: they
    /// are not known, or too many.
    fn names(&mut self, rings: Option<&Recording>) -> Option<Names> {
        let Part::Files(part) = &mut self.part else { return None };
        part.names(rings)
    }

    /// The blocks of it and of the stretches behind it that hold what is sought there and in the
    /// rings behind them; `None`: all are to be read.
    fn choose(
        &mut self,
        rings: Option<&Recording>,
        names: &Names,
        sought: &dyn Sought,
    ) -> Option<Chosen> {
        let Part::Files(part) = &mut self.part else { return None };
        part.choose(rings, names, sought)
    }

    fn read(self, needs: &Needs, is_sure: bool) -> Result<Chapter, SourceError> {
        let chapter = match self.part {
            Part::Rings(mut chapter) => {
                if let Needs::Chosen(chosen) = needs {
                    chapter.recording.skips = chosen.skips.clone();
                }
                *chapter
            }
            Part::Files(part) => part.read(needs, is_sure)?,
        };
        Ok(Chapter { is_only: self.is_only, ..chapter })
    }
}

impl Part {
    fn joins(&self) -> Option<Joins> {
        match self {
            Self::Files(part) => part.joins(),
            Self::Rings(chapter) => chapter.joins,
        }
    }
}

/// The boots that there are recordings of, the earliest first.
///
/// # Errors
/// The directory can not be read.
pub fn boots(plan: &HistoryPlan) -> Result<Vec<BootFiles>, SourceError> {
    let boots = match &plan.place {
        HistoryPlace::Store(dir) => told(catalog::store(dir)?),
        HistoryPlace::Files(paths) | HistoryPlace::OwnWindows(paths) => catalog::files(paths)?,
        HistoryPlace::Snapshot { runtime_dir, state_dir, id, .. } => {
            catalog::files(&[find(&directory(runtime_dir, state_dir.as_deref())?, id)?.path])?
        }
        HistoryPlace::Recorder { origin, state_dir } => {
            let live = open_live(origin);
            let known = live.as_ref().ok().and_then(|live| live.state_dir());
            match (catalog::store(&state_dir_of(state_dir.as_deref(), known)), live) {
                (Ok(found), _) => told(found),
                // Whose files these are may not be asked.
                (
                    Err(FilesError::Absent(_)),
                    Err(denied @ SourceError::Control(ControlError::Permission(_))),
                ) => {
                    return Err(denied);
                }
                (Err(error), _) => return Err(error.into()),
            }
        }
    };
    Ok(chosen(boots, plan.boot.as_ref())?)
}

fn parts(plan: &HistoryPlan, question: Question) -> Result<Vec<Part>, SourceError> {
    let boot = plan.boot.as_ref();
    match &plan.place {
        HistoryPlace::Store(dir) => {
            Ok(stored(chosen(told(catalog::store(dir)?), boot)?, question)?)
        }
        HistoryPlace::Files(paths) => Ok(stored(chosen(catalog::files(paths)?, boot)?, question)?),
        HistoryPlace::OwnWindows(paths) => {
            let boots = chosen(catalog::files(paths)?, boot)?;
            match own::windows(&boots) {
                Some(windows) => Ok(own::parts(windows, question)?),
                None => Ok(stored(boots, question)?),
            }
        }
        HistoryPlace::Snapshot { runtime_dir, state_dir, id, own_window } => {
            let path = find(&directory(runtime_dir, state_dir.as_deref())?, id)?.path;
            let boots = chosen(catalog::files(std::slice::from_ref(&path))?, boot)?;
            if !own_window {
                return Ok(stored(boots, question)?);
            }
            Ok(own::parts(own::windows(&boots).ok_or(SnapshotError::Silent(path))?, question)?)
        }
        HistoryPlace::Recorder { origin, state_dir } => {
            recorder(origin, state_dir.as_deref(), boot, question)
        }
    }
}

/// The state directory: as typed, as the daemon says, or the usual one.
fn state_dir_of(typed: Option<&Path>, live: Option<PathBuf>) -> PathBuf {
    typed.map(Path::to_owned).or(live).unwrap_or_else(|| STATE_DIR.into())
}

/// Files that could not be taken in are named; the others are read.
fn told((boots, refused): (Vec<BootFiles>, Refused)) -> Vec<BootFiles> {
    for (_, error) in refused {
        note(&format!("left out: {error}"));
    }
    boots
}

/// The boot that is asked for, or all.
fn chosen(mut boots: Vec<BootFiles>, boot: Option<&BootArg>) -> Result<Vec<BootFiles>, FilesError> {
    let Some(boot) = boot else { return Ok(boots) };
    let ids: Vec<BootId> = boots.iter().map(|boot| boot.id).collect();
    let index = boot.choose(&ids, boots::present())?;
    Ok(boots.drain(..).skip(index).take(1).collect())
}

/// The recorder's own rings and files.
fn recorder(
    origin: &Origin,
    state_dir: Option<&Path>,
    boot: Option<&BootArg>,
    question: Question,
) -> Result<Vec<Part>, SourceError> {
    let mut live = match open_live(origin) {
        Ok(live) => live,
        Err(absent @ SourceError::Control(ControlError::NotRunning(_))) => {
            let dir = state_dir_of(state_dir, None);
            let found = catalog::store(&dir);
            let found =
                found.map_err(|files| SourceError::Nothing { live: Box::new(absent), files })?;
            note(&format!(
                "flightd is not running, and no rings are left; reading the files in {}",
                dir.display()
            ));
            return Ok(stored(chosen(told(found), boot)?, question)?);
        }
        Err(error) => return Err(error),
    };
    let dir = state_dir_of(state_dir, live.state_dir());
    match boot {
        None | Some(BootArg::Present) => {
            with_rings(live.as_mut(), &dir, state_dir.is_some(), boot.is_some(), question)
        }
        Some(boot) => {
            let present = boots::present().unwrap_or_default();
            let mut boots = told(catalog::store(&dir)?);
            // The rings' boot is there whether there are files of it or not.
            if boots.iter().all(|boot| boot.id != present) {
                boots.push(BootFiles { id: present, sessions: Vec::new() });
            }
            let boots = chosen(boots, Some(boot))?;
            if boots.iter().any(|boot| boot.id == present) {
                return with_rings(live.as_mut(), &dir, true, true, question);
            }
            Ok(stored(boots, question)?)
        }
    }
}

impl Question {
    /// Everything that is recorded.
    pub const ALL: Self = Self { since: Edge::Open, until: Edge::Open, everything: false };

    /// The last stretch of what is recorded, of this length.
    pub fn last(length: Duration) -> Self {
        Self { since: Edge::Ago(nanos(length)), ..Self::ALL }
    }

    /// From one time of day to another (exclusive), wherever the machine's clock showed such times.
    pub fn between(from: SystemTime, until: SystemTime) -> Self {
        Self { since: Edge::from(from), until: Edge::from(until), ..Self::ALL }
    }

    /// Whether an edge is a time of day, which the wall clock may have shown at any moment.
    fn is_by_wall(self) -> bool {
        matches!((self.since, self.until), (Edge::Wall(_), _) | (_, Edge::Wall(_)))
    }

    /// What it means for a boot: a length of time counts back from the newest one's end.
    fn of_boot(self, is_newest: bool) -> Option<Self> {
        match (self.since, self.until) {
            _ if is_newest => Some(self),
            (Edge::Ago(_), _) => None,
            (_, Edge::Ago(_)) => Some(Self { until: Edge::Open, ..self }),
            _ => Some(self),
        }
    }

    /// The pages of the rings to ask for. Where the wall clock stood in the past only the pages
    /// tell, so for a time of day all are asked for.
    pub fn of_rings(self, clock: Clock) -> Window {
        if self.is_by_wall() {
            return Window::ALL;
        }
        let since = if self.everything { Edge::Open } else { self.since };
        let edge = |edge, open| {
            if let Edge::Ago(ago) = edge { clock.now.saturating_sub(ago) } else { open }
        };
        with_leads(Window { from: edge(since, 0), until: edge(self.until, u64::MAX) })
    }
}
