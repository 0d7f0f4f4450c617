//! One history in the order of time, out of rings and files, of any number of recordings and boots.
//!
//! A recording session is a *chapter*: it has its own metadata and its own page numbers, and ends at the latest where the
//! next one of its boot begins. The rings are read before any file, as they are overwritten meanwhile; files only for
//! what the rings do not reach.

use std::path::{Path, PathBuf};

use flightrec_format::abi::page::Lane;
use flightrec_format::part;
use flightrec_format::ring::{LaneStream, Rings};

use super::files::FilesError;
use super::files::catalog::{self, BootFiles, Refused, SessionFiles};
use super::files::session::{Found, STRETCH, SessionSource};
use super::{Clock, Live, Recording, SourceError, open_live};
use crate::boots::{self, BootArg, BootId};
use crate::control::ControlError;
use crate::output::note;
use crate::pipeline::wall::WallClock;
use crate::pipeline::with_leads;
use crate::plan::{HistoryPlan, Origin, Place, STATE_DIR};
use crate::window::{Edge, Window};

/// What is asked of a history.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    /// Start of the window.
    pub since: Edge,
    /// End of the window.
    pub until: Edge,
    /// What was before the window is wanted as well: the rings whole, files from the beginning of the one in which the
    /// window begins.
    pub everything: bool,
}

/// A chapter, read.
#[derive(Debug)]
pub struct Chapter {
    /// Its pages.
    pub recording: Recording,
    /// Nothing that was before this moment is told by it, ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// Where it ends, and the wall clock there.
    pub clock: Clock,
    /// What times before now count back from.
    pub present: u64,
    /// Start of the window in it.
    pub since: Edge,
    /// End of the window in it.
    pub until: Edge,
    /// What is to be said beside its coverage.
    pub remarks: Vec<String>,
    /// Whether it is the only chapter of the history.
    pub is_only: bool,
}

impl Chapter {
    /// The chapter of a source that is the only one.
    pub fn only(recording: Recording, clock: Clock, since: Edge, until: Edge) -> Self {
        Self { recording, from: 0, clock, present: clock.now, since, until, remarks: Vec::new(), is_only: true }
    }

    /// The window as far as the chapter can have events of it.
    pub fn window(&self, wall: &WallClock) -> Window {
        let window = wall.window(self.since, self.until, self.present);
        // What happens while the pages are read is another dump's; before the recording there is nothing.
        let until = window.until.min(self.clock.now);
        let from = window.from.max(self.recording.meta.started).max(self.from);
        Window { from: from.min(until), until }
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
    Files(Box<FilesPart>),
    Rings(Box<Chapter>),
}

/// A chapter in files.
struct FilesPart {
    source: SessionSource,
    /// What is read.
    window: Window,
    /// What is told of it.
    from: u64,
    /// Where the next one begins.
    cut: u64,
    present: u64,
    question: Question,
}

/// Reads the chapters of the window, the earliest first, and drops each before the next.
pub fn read<E: From<SourceError>>(
    plan: &HistoryPlan,
    question: Question,
    mut visit: impl FnMut(Chapter) -> Result<Go, E>,
) -> Result<(), E> {
    let parts = parts(plan, question)?;
    let is_only = parts.len() == 1;
    for part in parts {
        let mut chapter = match part {
            Part::Rings(chapter) => *chapter,
            Part::Files(part) => part.read()?,
        };
        chapter.is_only = is_only;
        if visit(chapter)? == Go::Enough {
            break;
        }
    }
    Ok(())
}

/// The boots that there are recordings of, the earliest first.
pub fn boots(plan: &HistoryPlan) -> Result<Vec<BootFiles>, SourceError> {
    let boots = match &plan.place {
        Place::Store(dir) => told(catalog::store(dir)?),
        Place::Files(paths) => catalog::files(paths)?,
        Place::Recorder { origin, state_dir } => {
            let live = open_live(origin).ok().and_then(|live| live.state_dir());
            told(catalog::store(&state_dir_of(state_dir.as_deref(), live))?)
        }
    };
    Ok(chosen(boots, plan.boot.as_ref())?)
}

fn parts(plan: &HistoryPlan, question: Question) -> Result<Vec<Part>, SourceError> {
    let boot = plan.boot.as_ref();
    match &plan.place {
        Place::Store(dir) => Ok(stored(chosen(told(catalog::store(dir)?), boot)?, question)?),
        Place::Files(paths) => Ok(stored(chosen(catalog::files(paths)?, boot)?, question)?),
        Place::Recorder { origin, state_dir } => recorder(origin, state_dir.as_deref(), boot, question),
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

/// Chapters of files alone.
fn stored(boots: Vec<BootFiles>, question: Question) -> Result<Vec<Part>, FilesError> {
    let newest = boots.len().saturating_sub(1);
    let mut parts = Vec::new();
    for (at, boot) in boots.into_iter().enumerate() {
        if let Some(question) = question.of_boot(at == newest) {
            parts.extend(chapters(boot.sessions, question, None, at == newest)?);
        }
    }
    Ok(parts)
}

/// The recorder's own rings and files.
fn recorder(
    origin: &Origin,
    state_dir: Option<&Path>,
    boot: Option<&BootArg>,
    question: Question,
) -> Result<Vec<Part>, SourceError> {
    let live = match open_live(origin) {
        Ok(live) => live,
        Err(absent @ SourceError::Control(ControlError::NotRunning(_))) => {
            let dir = state_dir_of(state_dir, None);
            let found = catalog::store(&dir);
            let found = found.map_err(|files| SourceError::Nothing { live: Box::new(absent), files })?;
            note(&format!("flightd is not running, and no rings are left; reading the files in {}", dir.display()));
            return Ok(stored(chosen(told(found), boot)?, question)?);
        }
        Err(error) => return Err(error),
    };
    let dir = state_dir_of(state_dir, live.state_dir());
    match boot {
        None | Some(BootArg::Present) => with_rings(live, &dir, state_dir.is_some(), boot.is_some(), question),
        Some(boot) => {
            let present = boots::present().unwrap_or_default();
            let mut boots = told(catalog::store(&dir)?);
            // The rings' boot is there whether there are files of it or not.
            if boots.iter().all(|boot| boot.id != present) {
                boots.push(BootFiles { id: present, sessions: Vec::new() });
            }
            let boots = chosen(boots, Some(boot))?;
            if boots.iter().any(|boot| boot.id == present) {
                return with_rings(live, &dir, true, true, question);
            }
            Ok(stored(boots, question)?)
        }
    }
}

/// The rings, what files have before them, and, unless it is the only boot that is asked for, earlier boots.
fn with_rings(
    mut live: Box<dyn Live>,
    dir: &Path,
    is_named: bool,
    is_only: bool,
    question: Question,
) -> Result<Vec<Part>, SourceError> {
    let clock = live.clock();
    let recording = live.read(question.of_rings(clock))?;
    let mut chapter = Chapter {
        recording,
        from: 0,
        clock,
        present: clock.now,
        since: question.since,
        until: question.until,
        remarks: Vec::new(),
        is_only: true,
    };
    // What the rings hold is read; whatever the files are good for, it is shown.
    let from = match question.since {
        Edge::Ago(ago) => with_leads(Window { from: clock.now.saturating_sub(ago), until: 0 }).from,
        Edge::Open => 0,
        Edge::Wall(_) => {
            let wall = chapter.recording.wall_clock(clock.wall_offset);
            with_leads(wall.window(question.since, Edge::Open, clock.now)).from
        }
    };
    let recording = &chapter.recording;
    let earlier = from < recording.meta.started;
    if !earlier && recording.streams.iter().all(|stream| reaches(stream, from)) {
        return Ok(vec![Part::Rings(Box::new(chapter))]);
    }
    let mut boots = match catalog::store(dir) {
        Ok(found) => told(found),
        // A recorder that writes no files has none.
        Err(FilesError::Absent(_) | FilesError::Empty(_)) if !is_named => Vec::new(),
        Err(error) => {
            chapter.remarks.push(format!("the rings alone were read: {error}"));
            Vec::new()
        }
    };
    let id = boots::of_meta(&chapter.recording.meta);
    let at = boots.iter().position(|boot| boot.id == id);
    let mut sessions = at.map(|at| boots.remove(at).sessions).unwrap_or_default();
    let own = sessions.iter().position(|session| session.session == chapter.recording.meta.session);
    let own = own.map(|own| sessions.remove(own));

    let mut parts = Vec::new();
    if !is_only && let Some(question) = question.of_boot(false) {
        for boot in boots {
            parts.extend(chapters(boot.sessions, question, None, false)?);
        }
    }
    if earlier {
        let started = chapter.recording.meta.started;
        parts.extend(chapters(sessions, question, Some((clock, started)), true)?);
    }
    if let Some(own) = own {
        match extend(&mut chapter, own, question, from) {
            Ok(before) => parts.extend(before),
            Err(error) => chapter.remarks.push(format!("the rings alone were read: {error}")),
        }
    }
    parts.push(Part::Rings(Box::new(chapter)));
    Ok(parts)
}

/// Whether a ring's pages go back to a moment, or to the ring's first event.
fn reaches(stream: &LaneStream, from: u64) -> bool {
    stream.pages().first().is_none_or(|page| {
        let header = page.header();
        (header.seq == 1 && !part::is_part(header)) || header.base_mono <= from
    })
}

/// Puts before the rings' pages what the files have of the same session. What is too much for that comes back, as
/// stretches of its own.
fn extend(
    chapter: &mut Chapter,
    session: SessionFiles,
    question: Question,
    from: u64,
) -> Result<Vec<Part>, FilesError> {
    let clock = chapter.clock;
    let mut files = SessionSource::open(session.clone())?;
    let asked = files.around(question.since, question.until, clock.now, Some(clock.wall_offset));
    let from = from.min(with_leads(asked).from);
    let recording = &mut chapter.recording;
    let Some((lanes, until)) = short_of(&recording.streams, from) else { return Ok(Vec::new()) };
    let until = until.saturating_add(1).min(with_leads(asked).until);

    // The last stretch is the rings' own.
    let before = Window { from, until };
    let mut earlier = Vec::new();
    let mut window = before;
    if let Some(cut) = files.parted(before, STRETCH).into_iter().rfind(|cut| before.contains(*cut)) {
        let source = SessionSource::open(session.clone())?;
        let stretches = Window { from: asked.from, until: cut };
        earlier = stretches_of(session, source, stretches, clock.now, question)?;
        window.from = with_leads(Window { from: cut, until }).from;
        chapter.from = cut;
    }
    if question.everything {
        window.from = files.file_begins(window.from);
    }
    let Found { pages, slots, before, .. } = files.find(window, &lanes)?;
    let mut rings = Rings::new(recording.meta.session);
    let (again, same): (Vec<LaneStream>, Vec<LaneStream>) =
        std::mem::take(&mut recording.streams).into_iter().partition(|stream| lanes.contains(&stream.lane()));
    for stream in again {
        rings.expect(stream.lane(), stream.cpu());
        for page in stream.into_pages() {
            rings.add(page);
        }
    }
    for page in pages {
        rings.add(page);
    }
    let mut streams = rings.finish();
    streams.extend(same);
    streams.sort_by_key(|stream| (stream.lane(), stream.cpu()));
    recording.streams = streams;
    recording.slots.extend(slots);
    recording.before = before;
    chapter.remarks.extend(files.take_remarks());
    Ok(earlier)
}

/// The lanes of which some ring does not go back to a moment, and where the last of those begins.
fn short_of(streams: &[LaneStream], from: u64) -> Option<(Vec<Lane>, u64)> {
    let short: Vec<&LaneStream> = streams.iter().filter(|stream| !reaches(stream, from)).collect();
    let lanes = Lane::RINGS.into_iter().filter(|lane| short.iter().any(|stream| stream.lane() == *lane)).collect();
    let begins = short.iter().filter_map(|stream| stream.pages().first()).map(|page| page.header().base_mono);
    begins.max().map(|begins| (lanes, begins))
}

/// The chapters of one boot, the earliest first. `end`: the present, and where the chapter behind these begins; else they end with
/// the last one.
fn chapters(
    sessions: Vec<SessionFiles>,
    question: Question,
    end: Option<(Clock, u64)>,
    is_newest: bool,
) -> Result<Vec<Part>, FilesError> {
    let mut cut = end.map_or(u64::MAX, |(_, started)| started);
    let mut present = end.map(|(clock, _)| clock.now);
    let offset = end.map(|(clock, _)| clock.wall_offset);
    let mut parts = Vec::new();
    for session in sessions.into_iter().rev() {
        let mut source = SessionSource::open(session.clone())?;
        let present = *present.get_or_insert(source.clock().now);
        let asked = source.around(question.since, question.until, present, offset);
        let read = with_leads(asked);
        if read.from >= cut {
            break;
        }
        let meta = source.meta()?;
        let end = source.clock().now.min(cut);
        // A boot that has nothing of the window is not told of; of the newest it is said that it has not.
        let touches = asked.from < end && asked.until > meta.started;
        if touches || is_newest && parts.is_empty() && cut == u64::MAX {
            let stretches = Window { from: asked.from, until: asked.until.min(cut) };
            parts.extend(stretches_of(session, source, stretches, present, question)?.into_iter().rev());
        }
        cut = cut.min(meta.started);
    }
    parts.reverse();
    Ok(parts)
}

/// A session's window, parted into stretches that fit into memory; the earliest first.
fn stretches_of(
    session: SessionFiles,
    mut source: SessionSource,
    window: Window,
    present: u64,
    question: Question,
) -> Result<Vec<Part>, FilesError> {
    let cuts: Vec<u64> = source.parted(window, STRETCH).into_iter().filter(|cut| window.contains(*cut)).collect();
    let begins = [window.from].into_iter().chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([window.until]);
    let mut sources = vec![source];
    for _ in &cuts {
        sources.push(SessionSource::open(session.clone())?);
    }
    let part = |((from, cut), source): ((u64, u64), SessionSource)| {
        let read = with_leads(Window { from, until: cut });
        let begin = if question.everything { source.file_begins(read.from) } else { read.from };
        let window = Window { from: begin, until: read.until };
        Part::Files(Box::new(FilesPart { source, window, from, cut, present, question }))
    };
    Ok(begins.zip(ends).zip(sources).map(part).collect())
}

impl FilesPart {
    fn read(mut self) -> Result<Chapter, SourceError> {
        let recording = self.source.read(self.window)?;
        let clock = self.source.clock();
        let clock = Clock { now: clock.now.min(self.cut), ..clock };
        let Question { since, until, .. } = self.question;
        let remarks = self.source.take_remarks();
        Ok(Chapter { recording, from: self.from, clock, present: self.present, since, until, remarks, is_only: true })
    }
}

impl Question {
    /// What it means for a boot: a length of time counts back from the newest one's end.
    fn of_boot(self, is_newest: bool) -> Option<Self> {
        match (self.since, self.until) {
            _ if is_newest => Some(self),
            (Edge::Ago(_), _) => None,
            (_, Edge::Ago(_)) => Some(Self { until: Edge::Open, ..self }),
            _ => Some(self),
        }
    }

    /// The pages of the rings to ask for. Where the wall clock stood in the past only the pages tell, so for a time of
    /// day all are asked for.
    pub fn of_rings(self, clock: Clock) -> Window {
        match (self.since, self.until) {
            (Edge::Wall(_), _) | (_, Edge::Wall(_)) => Window::ALL,
            (since, until) => {
                let since = if self.everything { Edge::Open } else { since };
                let edge = |edge, open| if let Edge::Ago(ago) = edge { clock.now.saturating_sub(ago) } else { open };
                with_leads(Window { from: edge(since, 0), until: edge(until, u64::MAX) })
            }
        }
    }
}
