//! `flightctl ls`: the recording's files.

use std::fmt::Write as _;
use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use flightrec_reader::boots::{self, BootId, id_text};
use flightrec_reader::source::FilesPlan;
use flightrec_reader::source::files::{FilesError, catalog};
use flightrec_reader::source::state_dir;
use flightrec_store::{FileReader, Kind, What};

use super::prelude::*;
use crate::guard;
use crate::output::Output;
use crate::schema::document;
use crate::text::printable;
use flightrec_cli::note;
use flightrec_format::human::bytes;

/// Arguments of `ls`.
#[derive(Debug, clap::Args)]
pub struct LsArgs {
    /// Files, or directories with files in or below them [default: the state directory].
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Files to list.
#[derive(Debug, PartialEq)]
pub struct LsPlan {
    files: FilesPlan,
    json: bool,
}

impl Arguments for LsArgs {
    const HELP: Help = Help {
        about: "List the recording's files: boot, time range, size, events, state",
        examples: &[
            ("flightctl ls", "the files of this machine"),
            ("flightctl ls --json /mnt/var/lib/flightrec", "the files of another machine, as JSON"),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error],
    };
    type Plan = LsPlan;

    fn plan(self, recorder: RecorderArgs, _: &Zoned) -> Result<LsPlan> {
        Ok(LsPlan { files: recorder.files(self.paths), json: self.json })
    }
}

impl Plan for LsPlan {
    fn run(&self) -> Result<Exit> {
        guard::watch();
        let paths = state_dir::paths(&self.files)?;
        let found = catalog::find(&paths)?;
        let present = boots::present();
        let mut entries: Vec<(i64, BootId, Entry)> = Vec::new();
        for path in &found {
            match FileReader::open(path) {
                Ok(reader) => {
                    let header = reader.header();
                    entries.push((header.created_wall, header.boot_id, entry(&reader)));
                }
                Err(error) => note(&format!("left out: {}", FilesError::from(error))),
            }
        }
        if entries.is_empty() {
            let dir = paths.first().cloned().unwrap_or_default();
            return Err(FilesError::Empty(dir).into());
        }
        // By boot, and by number within it, as they were written.
        let mut first: Vec<(i64, BootId)> =
            entries.iter().map(|(wall, boot, _)| (*wall, *boot)).collect();
        first.sort_unstable();
        let began = |boot: &BootId| first.iter().position(|(_, id)| id == boot);
        entries.sort_by_key(|(wall, boot, entry)| (began(boot), entry.number, *wall));
        if let Some((_, boot, entry)) = entries
            .iter_mut()
            .rev()
            .find(|(_, boot, entry)| Some(*boot) == present && entry.number != 0)
            && Some(*boot) == present
            && entry.state == State::Unclosed
        {
            entry.state = State::Open;
        }
        let entries: Vec<Entry> = entries.into_iter().map(|(_, _, entry)| entry).collect();
        let text = if self.json {
            document(Document { files: &entries })?
        } else {
            table(&entries, &crate::zone::system())
        };
        Output::standard().print(text.as_bytes())?;
        Ok(Exit::Fine)
    }
}

/// What a file is.
#[derive(Debug, Serialize)]
struct Entry {
    /// Its path; bytes that are no UTF-8 are replaced.
    path: String,
    /// Boot id, 32 hexadecimal digits.
    boot_id: String,
    /// Recording session, 16 hexadecimal digits.
    session: String,
    /// Its number in the store; 0: saved by itself.
    number: u32,
    /// Time of the first event.
    from: Option<Timestamp>,
    /// Time of the last.
    until: Option<Timestamp>,
    /// Its size.
    bytes: u64,
    /// Events in it. A page that two files share is counted in both.
    events: u64,
    state: State,
}

/// How a file ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// In order: nothing will be appended.
    Closed,
    /// It is the last of the boot that is running: being written, or the recorder was killed.
    Open,
    /// Not closed, and nobody will: the recorder or the machine ended without warning.
    Unclosed,
    /// Part of it can't be read; `flightctl verify` says more.
    Damaged,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::Unclosed => "unclosed",
            Self::Damaged => "damaged",
        }
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    files: &'a [Entry],
}

fn entry(reader: &FileReader) -> Entry {
    let header = reader.header();
    let pages = || reader.of(Kind::Pages).map(|block| block.header);
    let moment = |mono: u64| {
        let offset = i128::from(header.created_wall) - i128::from(header.created_mono);
        // A file whose header is damaged has no wall time.
        let known = header.created_wall != 0;
        known.then(|| Timestamp::from_nanosecond(i128::from(mono) + offset).ok()).flatten()
    };
    // A file that ends within a block was cut, or is being written: nothing that was whole is lost
    // by it.
    let damaged = reader.damage().iter().any(|damage| damage.what != What::Cut);
    Entry {
        path: reader.path().to_string_lossy().into_owned(),
        boot_id: id_text(&header.boot_id),
        session: format!("{:016x}", header.session),
        number: header.number,
        from: pages().map(|block| block.first).min().and_then(moment),
        until: pages().map(|block| block.last).max().and_then(moment),
        bytes: reader.size(),
        events: pages().map(|block| block.events).fold(0, u64::saturating_add),
        state: match (damaged, reader.complete()) {
            (true, _) => State::Damaged,
            (false, true) => State::Closed,
            (false, false) => State::Unclosed,
        },
    }
}

fn table(entries: &[Entry], zone: &TimeZone) -> String {
    let head = ["FROM", "UNTIL", "SIZE", "EVENTS", "STATE"];
    let mut text = format!(
        "{:<23} {:<23} {:>9} {:>12} {:<8} FILE\n",
        head[0], head[1], head[2], head[3], head[4]
    );
    let mut boot = "";
    for entry in entries {
        if entry.boot_id != boot {
            boot = &entry.boot_id;
            // Writing to a string can't fail.
            let _ = writeln!(text, "boot {boot}");
        }
        let time = |moment: Option<Timestamp>| {
            let local = |moment: Timestamp| {
                moment.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S%.3f").to_string()
            };
            moment.map_or_else(|| "?".to_owned(), local)
        };
        let (from, until, size) = (time(entry.from), time(entry.until), bytes(entry.bytes));
        let _ = writeln!(
            text,
            "{from:<23} {until:<23} {size:>9} {:>12} {:<8} {}",
            entry.events,
            entry.state.name(),
            printable(&entry.path)
        );
    }
    text
}
