//! `flightctl dump --list-boots`: the boots, as journalctl(1) prints it.

use std::fmt::Write as _;

use anyhow::Result;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::boots::id_text;
use crate::exit::Exit;
use crate::output::{Output, note};
use crate::source::HistoryPlan;
use crate::source::files::catalog::BootFiles;
use crate::source::files::session::SessionSource;
use crate::source::{Clock, history};

/// Lists the boots that there are files of.
pub fn run(plan: &HistoryPlan) -> Result<Exit> {
    // All are listed, whichever is named: the numbers are what is asked for.
    let boots = history::boots(&HistoryPlan { boot: None, ..plan.clone() })?;
    let zone = crate::zone::system();
    let mut text = String::from(
        "IDX BOOT ID                          FIRST ENTRY                 LAST ENTRY\n",
    );
    let count = boots.len();
    for (at, boot) in boots.into_iter().enumerate() {
        let id = id_text(&boot.id);
        let (first, last) = ends(boot);
        let (first, last) = (moment(first, &zone), moment(last, &zone));
        // Writing to a string can't fail.
        let _ = writeln!(text, "{:>3} {id} {first:<27} {last}", -((count - at - 1) as i64));
    }
    Output::standard().print(text.as_bytes())?;
    Ok(if count == 0 { Exit::Nothing } else { Exit::Fine })
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

/// `Wed 2026-01-28 14:03:07 CET`
fn moment(clock: Option<Clock>, zone: &TimeZone) -> String {
    let Some(Clock { now, wall_offset }) = clock else { return "?".to_owned() };
    let moment = Timestamp::from_nanosecond(i128::from(now) + i128::from(wall_offset))
        .unwrap_or(Timestamp::UNIX_EPOCH);
    moment.to_zoned(zone.clone()).strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string()
}
