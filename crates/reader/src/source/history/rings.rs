//! The rings, and what the files have before them.

use std::path::Path;

use flightrec_format::abi::page::Lane;
use flightrec_format::part;
use flightrec_format::ring::{LaneStream, Rings};

use super::chapter::{Chapter, Joins};
use super::chapters::{chapters, stretches, told};
use super::part::Part;
use super::question::Question;
use crate::boots;
use crate::memory;
use crate::source::files::FilesError;
use crate::source::files::catalog::{self, BootFiles, SessionFiles};
use crate::source::files::pick::Pick;
use crate::source::files::session::{FoundWindow, SessionSource};
use crate::source::{PageSet, Source, SourceError, in_order};
use crate::window::{Edge, Window};
use crate::window::{LEAD_IN_NS, with_leads};

/// The rings, what files have before them, and, unless it is the only boot that is asked for,
/// earlier boots.
pub(super) fn with_rings(
    source: &mut dyn Source,
    dir: &Path,
    is_named: bool,
    is_only: bool,
    question: Question,
) -> Result<Vec<Part>, SourceError> {
    let clock = source.clock();
    let recording = source.read(question.of_rings(clock))?;
    let mut chapter = Chapter::only(recording, clock, question.since, question.until);
    // What the rings hold is read; whatever the files are good for, it is shown.
    let from = match question.since {
        Edge::Ago(ago) => with_leads(Window { from: clock.now.saturating_sub(ago), until: 0 }).from,
        Edge::Open => 0,
        Edge::Wall(_) => {
            let wall = chapter.recording.wall_clock(clock.wall_offset);
            with_leads(wall.windows(question.since, Edge::Open, clock.now).hull()).from
        }
    };
    let recording = &chapter.recording;
    memory::hold_rings(recording.streams.iter().map(|stream| stream.pages().len()).sum());
    let is_short = |from| recording.streams.iter().any(|stream| !reaches(stream, from));
    let needs_files = is_damaged(recording) || is_short(from) || from < recording.meta.started;
    // A clock that was set may have shown a time of day before what the rings hold as well.
    let by_wall = question.is_by_wall();
    if !needs_files && !by_wall {
        return Ok(vec![Part::Rings(Box::new(chapter))]);
    }
    let earlier = by_wall || from < recording.meta.started;
    let mut boots = match catalog::store(dir) {
        Ok(found) => told(found),
        // A recorder that writes no files has none.
        Err(FilesError::Absent(_) | FilesError::Empty(_)) if !is_named => Vec::new(),
        Err(_) if !needs_files => Vec::new(),
        Err(error) => {
            chapter.remarks.push(format!("the rings alone were read: {error}"));
            Vec::new()
        }
    };
    let id = boots::of_meta(&chapter.recording.meta);
    let session = chapter.recording.meta.session;
    // A session's id is enough where its description, and with it the boot's, is lost.
    let is_own = |boot: &BootFiles| boot.sessions.iter().any(|of_boot| of_boot.session == session);
    let at = boots.iter().position(|boot| boot.id == id || is_own(boot));
    let mut sessions = at.map(|at| boots.remove(at).sessions).unwrap_or_default();
    let own = sessions.iter().position(|of_boot| of_boot.session == session);
    let own = own.map(|own| sessions.remove(own));

    let mut parts = Vec::new();
    if !is_only && let Some(question) = question.of_boot(false) {
        for boot in boots {
            match chapters(boot.sessions, question, None, false) {
                Ok(of_boot) => parts.extend(of_boot),
                // The rings are whole without it.
                Err(error) if !needs_files => chapter.remarks.push(format!("left out: {error}")),
                Err(error) => return Err(error.into()),
            }
        }
    }
    if earlier {
        let started = chapter.recording.meta.started;
        match chapters(sessions, question, Some((clock, started)), true) {
            Ok(of_boot) => parts.extend(of_boot),
            Err(error) if !needs_files => chapter.remarks.push(format!("left out: {error}")),
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(own) = own {
        match extend(&mut chapter, &own, question, from) {
            Ok(before) => parts.extend(before),
            Err(error) => chapter.remarks.push(format!("the rings alone were read: {error}")),
        }
    }
    parts.push(Part::Rings(Box::new(chapter)));
    Ok(parts)
}

/// Whether the source can't vouch for its rings: out of a dump, pages or the description may be
/// missing.
fn is_damaged(recording: &PageSet) -> bool {
    recording.copied == 0 || recording.meta.boot_id.is_empty()
}

/// Whether a ring's pages go back to a moment, or to the ring's first event.
fn reaches(stream: &LaneStream, from: u64) -> bool {
    // What the quiet ring holds of older ones is not all of them.
    stream.first_of_ring().is_none_or(|page| {
        let header = page.header();
        (header.seq == 1 && !part::is_part(header)) || header.base_mono <= from
    })
}

/// Puts before the rings' pages what the files have of the same session. What is too much for that
/// comes back, as stretches of its own.
fn extend(
    chapter: &mut Chapter,
    session: &SessionFiles,
    question: Question,
    from: u64,
) -> Result<Vec<Part>, FilesError> {
    let clock = chapter.clock;
    let mut files = SessionSource::beside(session.clone(), &chapter.recording.meta)?;
    let asked = files.around(question.since, question.until, clock.now, Some(clock.wall_offset));
    // What the rings do not reach back to is the files' alone, but for the last window.
    let reach = short_of(&chapter.recording.streams, 0).map_or(0, |(_, begins)| begins);
    let mut windows: Vec<Window> = asked.iter().collect();
    let of_rings = windows.iter().position(|window| with_leads(*window).until > reach);
    let of_rings = of_rings.unwrap_or(windows.len()).min(windows.len().saturating_sub(1));
    let mut earlier = Vec::new();
    // They are read while the rings' pages are held.
    let pages = chapter.recording.streams.iter().map(|stream| stream.pages().len()).sum();
    let most = memory::stretch_beside(pages);
    for window in windows.drain(..of_rings) {
        let source = SessionSource::beside(session.clone(), &chapter.recording.meta)?;
        chapter.from = window.until;
        earlier.extend(stretches(session, source, window, false, clock.now, question, most)?);
    }
    let asked = match (windows.first(), windows.last()) {
        (Some(first), Some(last)) => Window { from: first.from, until: last.until },
        _ => asked.hull(),
    };
    let asked_from = with_leads(asked).from;
    let from = if earlier.is_empty() { from.min(asked_from) } else { asked_from };
    let recording = &mut chapter.recording;
    // Where pages are missing between others, the files may have them.
    let short = if is_damaged(recording) {
        Some((Lane::RINGS.to_vec(), u64::MAX - 1))
    } else {
        short_of(&recording.streams, from)
    };
    let Some((lanes, until)) = short else { return Ok(earlier) };
    let until = until.saturating_add(1).min(with_leads(asked).until);

    // The last stretch is the rings' own.
    let before = Window { from, until };
    let mut window = before;
    let parts = files.parted(before, (LEAD_IN_NS, 0), memory::stretch() / 2);
    let last = parts.last().filter(|last| parts.len() > 1 && last.from > asked.from).copied();
    if let Some(last) = last {
        let source = SessionSource::beside(session.clone(), &recording.meta)?;
        let whole = Window { from: asked.from, until: last.from };
        earlier.extend(stretches(session, source, whole, true, clock.now, question, most)?);
        window.from = last.read.from;
        chapter.from = last.from;
        let joins = Joins {
            whole,
            is_whole: false,
            from: last.from,
            until: u64::MAX,
            before: true,
            after: false,
        };
        chapter.joins = Some(joins);
    }
    if question.everything && last.is_none() {
        window.from = files.file_begins(window.from);
    }
    let FoundWindow { meta, pages, slots, tables, descriptors, before, marks, whole, .. } =
        files.find(window, Pick::Lanes(&lanes))?;
    if recording.meta.boot_id.is_empty() {
        recording.meta = meta;
        let leap = recording.meta.tai_offset(clock.now).saturating_mul(1_000_000_000);
        chapter.clock.wall_offset = clock.wall_offset.saturating_sub(leap);
    }
    let mut rings = Rings::new(recording.meta.session);
    let (again, same): (Vec<LaneStream>, Vec<LaneStream>) = std::mem::take(&mut recording.streams)
        .into_iter()
        .partition(|stream| lanes.contains(&stream.lane()));
    for stream in again {
        rings.expect(stream.lane(), stream.cpu());
        for page in stream.into_pages() {
            rings.add(page);
        }
    }
    for (page, summary) in pages {
        rings.add_summed(page, summary);
    }
    let mut streams = rings.finish();
    streams.extend(same);
    streams.sort_by_key(|stream| (stream.lane(), stream.cpu()));
    recording.streams = streams;
    let held = recording.slots.len();
    recording.slots.extend(slots);
    recording.tables.extend(tables.into_iter().map(|(begin, moment)| (held + begin, moment)));
    recording.descriptors =
        in_order([descriptors, std::mem::take(&mut recording.descriptors)].concat());
    recording.before = before;
    recording.marks = marks;
    recording.whole_files = whole;
    chapter.remarks.extend(files.take_remarks());
    Ok(earlier)
}

/// The lanes of which some ring does not go back to a moment, and where the last of those begins.
fn short_of(streams: &[LaneStream], from: u64) -> Option<(Vec<Lane>, u64)> {
    let short: Vec<&LaneStream> = streams.iter().filter(|stream| !reaches(stream, from)).collect();
    let lanes = Lane::RINGS
        .into_iter()
        .filter(|lane| short.iter().any(|stream| stream.lane() == *lane))
        .collect();
    let begins = short
        .iter()
        .filter_map(|stream| stream.first_of_ring())
        .map(|page| page.header().base_mono);
    begins.max().map(|begins| (lanes, begins))
}
