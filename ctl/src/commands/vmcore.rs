//! `flightctl dump --vmcore`: what a kernel dump holds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Result;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use flightrec_format::abi::page::Lane;
use flightrec_vmcore::Session;

use super::dump;
use super::ps::tell_missing;
use crate::announce::{announce, moment};
use crate::args::FormatArg;
use crate::exit::Exit;
use crate::in_flight::{HEAD, at_death, document, without_place};
use crate::output::{Output, note, refuse};
use crate::plan::{PsPlan, VmcorePlan, VmcoreShow};
use crate::schema::Versioned;
use crate::source::Origin;
use crate::source::anchor::Files;
use crate::source::vmcore::Image;
use crate::source::{Source, VmcoreSource};
use crate::text::{Options, Renderer, escape};
use crate::window::with_leads;
use crate::window::{Edge, Window};

/// What it means that the dump lacks the table of threads.
pub(super) const WITHOUT_TABLE: &str =
    "the recording's thread table is not in the dump: blocked threads are unknown";

/// Shows what was asked for.
pub fn run(plan: &VmcorePlan) -> Result<Exit> {
    let zone = crate::zone::system();
    plan.dump.output.iter().try_for_each(|path| refuse(path, plan.dump.force))?;
    if plan.show == VmcoreShow::Sessions {
        let image = Image::open(&plan.file)?;
        image.missing().iter().for_each(|line| note(line));
        let files = Files::read(&plan.state_dir);
        let text = match plan.dump.format {
            FormatArg::Text => sessions(image.sessions(), &files, &zone),
            FormatArg::Jsonl => {
                let list = List { sessions: json(image.sessions(), &files) };
                serde_json::to_string(&Versioned::new(list))? + "\n"
            }
        };
        return print(plan, text.as_bytes()).map(|()| Exit::Fine);
    }
    let mut source = VmcoreSource::open(&plan.file, plan.session, &plan.state_dir)?;
    announce(&source, &zone);
    match plan.show {
        VmcoreShow::InFlight => in_flight(plan, &mut source),
        _ => dump::run_on(&plan.dump, &mut source, plan.store.as_deref(), &zone),
    }
}

fn print(plan: &VmcorePlan, text: &[u8]) -> Result<()> {
    let mut output = Output::to(plan.dump.output.as_deref(), plan.dump.force)?;
    output.write_all(text).and_then(|()| output.flush()).map_err(|e| output.explain(e))
}

/// What every thread was in the middle of.
fn in_flight(plan: &VmcorePlan, source: &mut VmcoreSource) -> Result<Exit> {
    let now = source.clock().now;
    // The window bounds how far back the beginning of a call is looked for.
    let from = match plan.dump.since {
        Edge::Ago(ago) => now.saturating_sub(ago),
        Edge::Open | Edge::Wall(_) => 0,
    };
    let recording = source.read(with_leads(Window { from, until: now }))?;
    let of_ps = PsPlan {
        origin: Origin::Pinned { bpffs_dir: plan.file.clone() },
        all: false,
        states: vec![],
        pids: vec![],
        tids: vec![],
        comms: vec![],
        vmcore: Some(plan.file.clone()),
        session: plan.session,
        state_dir: plan.state_dir.clone(),
        json: false,
        color: crate::args::ColorArg::Never,
    };
    let threads = at_death(&recording, &of_ps, now);
    let renderer = Renderer::new(&recording.meta, Options::default());
    let mut text = Vec::new();
    if plan.dump.format == FormatArg::Jsonl {
        let document = document(&threads, &recording, now, &renderer);
        serde_json::to_writer(&mut text, &Versioned::new(document))?;
        text.push(b'\n');
    } else if !threads.is_empty() {
        text.extend_from_slice(HEAD.as_bytes());
        for thread in &threads {
            thread.line(&renderer, &mut text);
        }
    }
    print(plan, &text)?;
    let missing = (recording.misplaced() != 0).then(|| without_place(&recording));
    tell_missing(&recording, missing.as_deref());
    if recording.slots.is_empty() {
        note(WITHOUT_TABLE);
    }
    Ok(match threads.is_empty() {
        _ if plan.dump.strict && !source.disputed_by().is_empty() => Exit::Incomplete,
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

/// What stands in a dump is as hostile as any text.
fn printable(text: &str) -> String {
    let mut out = Vec::new();
    escape(text.as_bytes(), &mut out);
    String::from_utf8(out).unwrap_or_default()
}
