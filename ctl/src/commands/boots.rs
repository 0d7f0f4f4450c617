//! `flightctl dump --list-boots`, as journalctl(1) prints it.

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Result;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::boots::id_text;
use crate::exit::Exit;
use crate::output::{Output, note};
use crate::plan::HistoryPlan;
use crate::source::files::catalog::BootFiles;
use crate::source::files::session::SessionSource;
use crate::source::history;

/// Lists the boots that there are files of.
pub fn run(plan: &HistoryPlan) -> Result<Exit> {
    // All are listed, whichever is named: the numbers are what is asked for.
    let boots = history::boots(&HistoryPlan { boot: None, ..plan.clone() })?;
    let zone = TimeZone::system();
    let mut text = String::from("IDX BOOT ID                          FIRST ENTRY                 LAST ENTRY\n");
    let count = boots.len();
    for (at, boot) in boots.into_iter().enumerate() {
        let (id, first) = (id_text(&boot.id), moment(i128::from(boot.created()), &zone));
        let last = last(boot).map_or_else(|| "?".to_owned(), |last| moment(last, &zone));
        // Writing to a string can't fail.
        let _ = writeln!(text, "{:>3} {id} {first:<27} {last}", -((count - at - 1) as i64));
    }
    let mut output = Output::open(None)?;
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(|e| output.explain(e))?;
    Ok(if count == 0 { Exit::Nothing } else { Exit::Fine })
}

/// The last moment of a boot's last session, ns since 1970.
fn last(mut boot: BootFiles) -> Option<i128> {
    match SessionSource::open(boot.sessions.pop()?) {
        Ok(session) => {
            let clock = session.clock();
            Some(i128::from(clock.now) + i128::from(clock.wall_offset))
        }
        Err(error) => {
            note(&format!("left out: {error}"));
            None
        }
    }
}

/// `Wed 2026-01-28 14:03:07 CET`
fn moment(ns: i128, zone: &TimeZone) -> String {
    let moment = Timestamp::from_nanosecond(ns).unwrap_or(Timestamp::UNIX_EPOCH);
    moment.to_zoned(zone.clone()).strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string()
}
