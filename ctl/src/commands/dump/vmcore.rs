//! `flightctl dump --vmcore`: what a kernel dump holds.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use flightrec_format::abi::page::Lane;
use flightrec_reader::source::trust::Files;
use flightrec_reader::source::vmcore::Image;
use flightrec_reader::source::{Source, VmcoreSource};
use flightrec_reader::window::{Edge, Window, with_leads};
use flightrec_vmcore::Session;

use super::plan::{VmcorePlan, What};
use crate::announce::{announce, moment};
use crate::events;
use crate::exit::Exit;
use crate::in_flight::blocked::Wanted;
use crate::in_flight::document::Document;
use crate::in_flight::requests::{RequestInFlight, requests};
use crate::in_flight::{HEAD, at_death, without_place};
use crate::in_flight::{WITHOUT_TABLE, tell_missing};
use crate::options::format::FormatArg;
use crate::output::{Output, refuse};
use crate::schema::Versioned;
use crate::text::{Options, Renderer, printable};
use flightrec_cli::note;

/// Shows what was asked for.
pub fn run(plan: &VmcorePlan) -> Result<Exit> {
    let zone = crate::zone::system();
    let shown = &plan.events.shown;
    shown.output.iter().try_for_each(|path| refuse(path, shown.force))?;
    if plan.what == What::Sessions {
        let image = Image::open(&plan.dump.file)?;
        image.missing().iter().for_each(|line| note(line));
        let files = Files::read(&plan.dump.state_dir);
        let text = match shown.format {
            FormatArg::Text => sessions(image.sessions(), &files, &zone),
            FormatArg::Jsonl => {
                let list = List { sessions: json(image.sessions(), &files) };
                serde_json::to_string(&Versioned::new(list))? + "\n"
            }
        };
        return print(plan, text.as_bytes()).map(|()| Exit::Fine);
    }
    let mut source = plan.dump.open()?;
    announce(&source, &zone);
    match plan.what {
        What::InFlight => in_flight(plan, &mut source),
        _ => events::run_on(&plan.events, &plan.dump, &mut source, &zone),
    }
}

fn print(plan: &VmcorePlan, text: &[u8]) -> Result<()> {
    let shown = &plan.events.shown;
    Output::to(shown.output.as_deref(), shown.force)?.print(text)
}

/// What every thread was in the middle of.
fn in_flight(plan: &VmcorePlan, source: &mut VmcoreSource) -> Result<Exit> {
    let now = source.clock().now;
    // The window bounds how far back the beginning of a call is looked for.
    let from = match plan.events.past.since {
        Edge::Ago(ago) => now.saturating_sub(ago),
        Edge::Open | Edge::Wall(_) => 0,
    };
    let recording = source.read(with_leads(Window { from, until: now }))?;
    let threads = at_death(&recording, &Wanted::default(), now);
    let requests = requests(&recording, now);
    let renderer = Renderer::new(&recording.meta, Options::default());
    let mut text = Vec::new();
    if plan.events.shown.format == FormatArg::Jsonl {
        let threads = threads.iter().map(|thread| thread.json(&renderer)).collect();
        let document = Document::new(now, threads, &recording, &[]).with_requests(requests);
        serde_json::to_writer(&mut text, &Versioned::new(document))?;
        text.push(b'\n');
    } else {
        if !threads.is_empty() {
            text.extend_from_slice(HEAD.as_bytes());
        }
        for thread in &threads {
            thread.line(&renderer, &mut text);
        }
        if !requests.is_empty() {
            text.extend_from_slice(RequestInFlight::HEAD.as_bytes());
        }
        for request in &requests {
            text.extend_from_slice(request.line().as_bytes());
        }
    }
    print(plan, &text)?;
    let missing = (recording.misplaced() != 0).then(|| without_place(&recording));
    tell_missing(&recording, missing.as_deref());
    if recording.slots.is_empty() {
        note(WITHOUT_TABLE);
    }
    Ok(match threads.is_empty() {
        _ if plan.events.strict && !source.disputed_by().is_empty() => Exit::Incomplete,
        true => Exit::Nothing,
        false => Exit::Fine,
    })
}

/// What `--list-sessions --format jsonl` prints.
#[derive(Serialize)]
struct List {
    /// The newest first.
    sessions: Vec<Listed>,
}

/// A recording in a dump.
#[derive(Serialize)]
struct Listed {
    /// Its id, 16 hexadecimal digits, as `--session` takes it.
    session: String,
    /// Since when it has been recording or, without its description, when its oldest page was
    /// opened.
    from: Option<Timestamp>,
    /// When its newest page was opened.
    until: Option<Timestamp>,
    /// Pages of each lane, each page once.
    pages: BTreeMap<&'static str, u64>,
    /// Copies beside them.
    copies: u64,
    /// Whether the files of the state directory are of it: no process can have made it up.
    vouched: bool,
    /// Whether it was ended for another recording.
    ended: bool,
    /// Whether its description is there; what follows is `null` without.
    described: bool,
    boot_id: Option<String>,
    host: Option<String>,
    kernel: Option<String>,
}

/// The recordings, for programs.
fn json(sessions: &[Session], files: &Files) -> Vec<Listed> {
    let of = |session: &Session| {
        let at =
            |mono: Option<u64>| Timestamp::from_nanosecond(i128::from(mono?) + wall(session)?).ok();
        let about = session.about.as_ref();
        Listed {
            session: format!("{:016x}", session.id),
            from: at(began(session)),
            until: at(session.last),
            pages: Lane::RINGS
                .into_iter()
                .map(|lane| (lane.name(), pages_of(session, lane)))
                .collect(),
            copies: session.lanes.iter().map(|count| count.copies).sum(),
            vouched: files.number(session.id).is_some(),
            ended: about.is_some_and(|about| about.ended != 0),
            described: about.is_some(),
            boot_id: about.map(|about| printable(&about.boot_id)),
            host: about.map(|about| printable(&about.host)),
            kernel: about.map(|about| printable(&about.kernel)),
        }
    };
    sessions.iter().map(of).collect()
}

/// What the wall clock was ahead of the monotonic one where the newest page was opened, ns.
fn wall(session: &Session) -> Option<i128> {
    let offset = session.about.as_ref().map_or(0, |about| about.tai_offset);
    let (mono, tai) = session.last.zip(session.last_tai)?;
    Some(i128::from(tai) - i128::from(offset) * 1_000_000_000 - i128::from(mono))
}

/// When it began, as far as that is known.
fn began(session: &Session) -> Option<u64> {
    session.about.as_ref().map(|about| about.started).or(session.first)
}

/// Pages of a lane.
fn pages_of(session: &Session, lane: Lane) -> u64 {
    session.lanes.iter().find(|count| count.lane == lane as u8).map_or(0, |count| count.pages)
}

/// A line for each recording.
fn sessions(sessions: &[Session], files: &Files, zone: &TimeZone) -> String {
    let mut text = format!(
        "{:<16}  {:<23}  {:<23}  {:>24}  {:>6}  {:<7}  OF\n",
        "SESSION", "FROM", "UNTIL", "PAGES", "COPIES", "VOUCHED"
    );
    for session in sessions {
        let at = |mono: Option<u64>| match (mono, wall(session)) {
            (Some(mono), Some(wall)) => moment(i128::from(mono) + wall, zone),
            _ => "?".to_owned(),
        };
        let pages = Lane::RINGS.map(|lane| format!("{} {}", pages_of(session, lane), lane.name()));
        let copies: u64 = session.lanes.iter().map(|count| count.copies).sum();
        let vouched = if files.number(session.id).is_some() { "files" } else { "-" };
        let of = session.about.as_ref().map_or_else(
            || "unknown: its description is incomplete".to_owned(),
            |about| format!("{}, Linux {}", printable(&about.host), printable(&about.kernel)),
        );
        // Writing to a string can't fail.
        let _ = writeln!(
            text,
            "{:016x}  {:<23}  {:<23}  {:>24}  {copies:>6}  {vouched:<7}  {of}",
            session.id,
            at(began(session)),
            at(session.last),
            pages.join(", "),
        );
    }
    text
}
