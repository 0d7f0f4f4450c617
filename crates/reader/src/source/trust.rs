//! Which of the recordings in a dump is the machine's own.
//!
//! Any process can map pages that look like a recording's, and a dump that was not filtered has
//! them. What they say of themselves decides nothing, then: neither when it began, nor the boot,
//! nor how late its last event is. What a process can't do is make pages whose public id
//! ([`flightrec_format::identity`]) stands in the files that flightd wrote, or is the one that the
//! user names.

use std::fs;
use std::path::{Path, PathBuf};

use flightrec_vmcore::Session;

use super::files::catalog;

/// The recordings that the files of a directory are of.
#[derive(Debug, Default)]
pub struct Files {
    dir: PathBuf,
    /// Session, and the number of its last file.
    known: Vec<(u64, u32)>,
}

impl Files {
    /// Looks at the headers of the files in a state directory. One that is not there, or can't be
    /// read, vouches for nothing. Neither does what was saved or recovered from a dump by
    /// itself: it is in no series.
    pub fn read(dir: &Path) -> Self {
        let mut known: Vec<(u64, u32)> = Vec::new();
        for path in catalog::find(&[dir.to_owned()]).unwrap_or_default() {
            if !fs::symlink_metadata(&path).is_ok_and(|file| file.is_file()) {
                continue;
            }
            let Ok(header) = flightrec_store::read_header(&path) else { continue };
            match known.iter_mut().find(|(session, _)| *session == header.session) {
                _ if header.number == 0 => {}
                Some((_, number)) => *number = header.number.max(*number),
                None => known.push((header.session, header.number)),
            }
        }
        Self { dir: dir.to_owned(), known }
    }

    /// The number of the last file of a session; `None`: there are none of it.
    pub fn number(&self, session: u64) -> Option<u32> {
        self.known.iter().find(|(known, _)| *known == session).map(|(_, number)| *number)
    }
}

/// The recording that is taken to be the machine's own.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its place among the sessions.
    pub index: usize,
    /// The others that claim as much, while nothing decides between them.
    pub disputed_by: Vec<u64>,
    /// What is to be said of that.
    pub remark: Option<String>,
}

/// Chooses one of the recordings in a dump, of which those that claim most come first: the one that
/// was named; else the last one that files vouch for; else the first. `None`: it is not there.
pub fn choose(sessions: &[Session], named: Option<u64>, files: &Files) -> Option<Choice> {
    let vouched = |session: &&Session| files.number(session.id).is_some();
    // The last by the files' numbers, whatever pages claim. One that was ended made room for
    // another, which is not in them.
    let by_files =
        sessions.iter().enumerate().filter(|(_, session)| vouched(session) && !is_ended(session));
    let by_files =
        by_files.max_by_key(|(_, session)| files.number(session.id)).map(|(index, _)| index);
    let index = match named {
        Some(id) => sessions.iter().position(|session| session.id == id)?,
        None => by_files.or_else(|| sessions.iter().position(claims)).unwrap_or(0),
    };
    let chosen = sessions.get(index)?;
    let rivals =
        |other: &&Session| claims(other) || other.about.is_none() && was_after(other, chosen);
    let others =
        sessions.iter().filter(|other| other.id != chosen.id && rivals(other) && !vouched(other));
    let others: Vec<u64> = others.map(|other| other.id).collect();
    let (id, dir) = (list(&[chosen.id]), files.dir.display());
    let claim = if others.len() == 1 { "claims" } else { "claim" };
    let named_others = list(&others);
    let forged = "any process can forge a recording's pages";
    let choice = |disputed_by, remark| Some(Choice { index, disputed_by, remark });
    match (named, by_files) {
        (Some(_), Some(known)) if !vouched(&chosen) => {
            let known = sessions.get(known).map_or(0, |known| known.id);
            let remark = format!(
                "recording {id} is not in the files of {dir}, which identify {}: {forged}",
                list(&[known])
            );
            choice(Vec::new(), Some(remark))
        }
        _ if others.is_empty() => choice(Vec::new(), None),
        (Some(_), _) | (_, Some(_)) => {
            let why = named.map_or_else(
                || format!("the files of {dir} identify it"),
                |_| "--session says so".to_owned(),
            );
            let remark = format!(
                "recording {id} is used, because {why}; {named_others} {claim} to be the \
                 machine's last as well, and nothing confirms that"
            );
            choice(Vec::new(), Some(remark))
        }
        (None, None) => {
            let remark = format!(
                "recordings {id}, {named_others} all claim to be the machine's last, and nothing \
                 decides between them: {forged}. None counts as complete. Give the right one with \
                 --session (its id is in flightd's journal), or the directory of its files with \
                 --state-dir"
            );
            choice(others, Some(remark))
        }
    }
}

/// Whether its own description says that it was ended for another.
fn is_ended(session: &Session) -> bool {
    session.about.as_ref().is_some_and(|about| about.ended != 0)
}

/// Whether it may be the one that recorded to the end: what is left of it in freed memory has
/// mostly lost its description.
fn claims(session: &Session) -> bool {
    session.about.is_some() && !is_ended(session)
}

/// Whether a recording that has lost its description has pages of after another one's beginning.
fn was_after(bare: &Session, other: &Session) -> bool {
    let began = other.about.as_ref().map(|about| about.started).or(other.first);
    let began_tai = other
        .last_tai
        .zip(other.last.zip(began))
        .map(|(tai, (last, began))| tai.saturating_sub(last.saturating_sub(began)));
    bare.last_tai > began_tai
}

/// Sessions, as they are named.
pub fn list(sessions: &[u64]) -> String {
    hex(sessions).join(", ")
}

/// The same, one by one.
pub fn hex(sessions: &[u64]) -> Vec<String> {
    sessions.iter().map(|id| format!("{id:016x}")).collect()
}
