//! `flightctl dump --list-boots`: the boots, as journalctl(1) prints it.

use std::fmt::Write as _;

use anyhow::Result;
use flightrec_reader::boots::id_text;
use flightrec_reader::source::files::catalog::BootFiles;
use flightrec_reader::source::files::session::SessionSource;
use flightrec_reader::source::{Clock, history};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::plan::BootsPlan;
use crate::exit::Exit;
use crate::options::format::FormatArg;
use crate::output::{Output, refuse};
use crate::schema::Versioned;
use flightrec_cli::note;

/// Lists the boots that there are files of.
pub fn run(plan: &BootsPlan) -> Result<Exit> {
    plan.output.iter().try_for_each(|path| refuse(path, plan.force))?;
    let found = history::boots(&plan.history)?;
    let last = found.len() as i64 - 1;
    let boots: Vec<Listed> =
        (0..).zip(found).map(|(at, boot): (i64, _)| Listed::new(at - last, boot)).collect();
    let exit = if boots.is_empty() { Exit::Nothing } else { Exit::Fine };
    let text = match plan.format {
        FormatArg::Text => table(&boots, &crate::zone::system()),
        FormatArg::Jsonl => serde_json::to_string(&Versioned::new(List { boots }))? + "\n",
    };
    Output::to(plan.output.as_deref(), plan.force)?.print(text.as_bytes())?;
    Ok(exit)
}

/// What `--format jsonl` prints.
#[derive(Serialize)]
struct List {
    /// The earliest first.
    boots: Vec<Listed>,
}

/// A boot.
#[derive(Serialize)]
struct Listed {
    /// As `--boot` takes it: 0 is the last, -1 the one before it.
    index: i64,
    /// Its id, 32 hexadecimal digits.
    boot_id: String,
    /// The first moment of its first recording.
    from: Option<Timestamp>,
    /// The last moment of its last.
    until: Option<Timestamp>,
}

impl Listed {
    fn new(index: i64, boot: BootFiles) -> Self {
        let boot_id = id_text(&boot.id);
        let (first, last) = ends(boot);
        Self { index, boot_id, from: first.and_then(moment), until: last.and_then(moment) }
    }
}

/// A line for each boot.
fn table(boots: &[Listed], zone: &TimeZone) -> String {
    let mut text = String::from(
        "IDX BOOT ID                          FIRST ENTRY                 LAST ENTRY\n",
    );
    for Listed { index, boot_id, from, until } in boots {
        let (from, until) = (local(*from, zone), local(*until, zone));
        // Writing to a string can't fail.
        let _ = writeln!(text, "{index:>3} {boot_id} {from:<27} {until}");
    }
    text
}

/// The first moment of a boot's first recording, and the last of its last.
fn ends(boot: BootFiles) -> (Option<Clock>, Option<Clock>) {
    let open = |session| match SessionSource::open(session) {
        Ok(session) => Some(session),
        Err(error) => {
            note(&format!("left out: {error}"));
            None
        }
    };
    let mut sessions: Vec<SessionSource> = boot.sessions.into_iter().filter_map(open).collect();
    (sessions.first_mut().map(SessionSource::first), sessions.last().map(SessionSource::clock))
}

/// By the wall clock; `None`: outside of what can be written.
fn moment(Clock { now, wall_offset }: Clock) -> Option<Timestamp> {
    Timestamp::from_nanosecond(i128::from(now) + i128::from(wall_offset)).ok()
}

/// `Wed 2026-01-28 14:03:07 CET`
fn local(moment: Option<Timestamp>, zone: &TimeZone) -> String {
    let text =
        |moment: Timestamp| moment.to_zoned(zone.clone()).strftime("%a %Y-%m-%d %H:%M:%S %Z");
    moment.map_or_else(|| "?".to_owned(), |moment| text(moment).to_string())
}
