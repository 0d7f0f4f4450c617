//! Makes sums of what is new in the files of a state directory, a turn at a time.

use std::io;
use std::path::{Path, PathBuf};

use flightrec_store::{FileInfo, Store, read_header};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::follow::{Follower, Seen};
use crate::keeper::{Keeper, Limits};
use crate::maker::Maker;
use crate::model::{Period, flags};

/// How long before the first event that counts events are read: they tell what goes on then, ns.
const LEAD: u64 = 10_000_000_000;
/// How long events of a recording that goes on are left, ns: until the names of new control groups
/// are in the files.
const DELAY: u64 = 20_000_000_000;

/// What is left of a recording that has ended is not worth the while below this, ns.
const REST: u64 = 1_000_000_000;

/// A recording: boot and session.
type Recording = ([u8; 16], u64);

/// What is made at present.
#[derive(Debug)]
struct Present {
    of: Recording,
    follower: Follower,
    maker: Maker,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// There is more.
    More,
    /// Nothing is to be done until events have been written.
    Idle,
}

/// Makes sums.
#[derive(Debug)]
pub struct Worker {
    state_dir: PathBuf,
    keeper: Keeper,
    present: Option<Present>,
    /// The session of each file, by its number.
    sessions: FxHashMap<u32, u64>,
    /// Recordings that have ended and of which all sums are made.
    finished: FxHashSet<Recording>,
    /// Periods that could not be written, with their recording.
    unwritten: Vec<(Recording, Period)>,
    /// Events that were added up.
    events: u64,
    /// Time of which the events were deleted before they were added up, ns.
    unsummed: u64,
    backlog: Backlog,
}

/// Files of recordings, by whether their events were added up, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Of files that were, which are older than the others.
    pub done: u64,
    /// Of files with events that were not.
    pub waiting: u64,
}

impl Worker {
    /// Of a state directory, which must be there.
    pub fn open(state_dir: &Path, limits: Limits, group: Option<u32>) -> io::Result<Self> {
        Ok(Self {
            state_dir: state_dir.into(),
            keeper: Keeper::open(state_dir, limits, group)?,
            present: None,
            sessions: FxHashMap::default(),
            finished: FxHashSet::default(),
            unwritten: Vec::new(),
            events: 0,
            unsummed: 0,
            backlog: Backlog::default(),
        })
    }

    /// Events that were added up so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Time of which the events were deleted before they were added up, ns.
    pub fn unsummed(&self) -> u64 {
        self.unsummed
    }

    /// What the last turn began with.
    pub fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Up to when events of a recording are added up, ns of `CLOCK_MONOTONIC`; `None`: those of
    /// others are, or none.
    pub fn added(&self, boot: [u8; 16], session: u64) -> Option<u64> {
        let present = self.present.as_ref().filter(|present| present.of == (boot, session));
        present.map(|present| present.follower.next())
    }

    /// The sums in files.
    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// Does so much as a slice of events is. `live`: the recording that goes on, if any.
    pub fn turn(&mut self, live: Option<Recording>) -> io::Result<Turn> {
        self.write()?;
        self.keeper.catch_up()?;
        let store = Store::open(&self.state_dir).map_err(io::Error::other)?;
        let Some((of, infos, is_last)) = self.next(&store, live) else {
            self.backlog = Backlog::default();
            return Ok(Turn::Idle);
        };
        let is_live = live == Some(of);
        if self.present.as_ref().is_none_or(|present| present.of != of) {
            // Those of another one that went on were finished when it ended, unless its files were
            // deleted.
            self.end()?;
            self.present = self.begin(of, &infos, !is_live);
        }
        let Some(present) = &mut self.present else {
            if !is_live {
                self.finished.insert(of);
            }
            return Ok(if is_last { Turn::Idle } else { Turn::More });
        };
        let Present { follower, maker, .. } = present;
        follower.look(&infos, !is_live);
        self.backlog = backlog(store.all(), follower.number());
        if follower.is_overtaken() {
            // What is known of threads holds no longer: the next turn begins anew, after a period
            // that says what there are no sums of.
            self.end()?;
            return Ok(Turn::More);
        }
        if let Some(meta) = follower.meta() {
            maker.know(&meta, follower.wall_offset(follower.next()));
        }
        let until = if is_live { follower.limit().saturating_sub(DELAY) } else { u64::MAX };
        let mut events = 0u64;
        let is_done = follower.slice(until, |seen| match seen {
            Seen::Event(event) => {
                events += 1;
                maker.event(event);
            }
            Seen::Gap(gap) => maker.miss(gap),
        });
        self.events = self.events.saturating_add(events);
        while let Some(period) = maker.next_period() {
            self.unwritten.push((of, period));
        }
        if is_done && !is_live {
            self.end()?;
            self.finished.insert(of);
            return Ok(if is_last { Turn::Idle } else { Turn::More });
        }
        self.write()?;
        Ok(if is_done { Turn::Idle } else { Turn::More })
    }

    /// Ends the sums of the present recording where they are.
    fn end(&mut self) -> io::Result<()> {
        if let Some(Present { of, maker, .. }) = &mut self.present {
            let of = *of;
            self.unwritten.extend(maker.finish().into_iter().map(|period| (of, period)));
            self.flush()?;
            self.present = None;
        }
        Ok(())
    }

    /// Writes what is done, so that it is in the files when this ends.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write()?;
        self.keeper.flush()
    }

    fn write(&mut self) -> io::Result<()> {
        while let Some(((boot, session), period)) = self.unwritten.first().cloned() {
            // It waits in the keeper where that can't write.
            self.unwritten.remove(0);
            self.keeper.add(boot, session, period)?;
        }
        Ok(())
    }

    /// The first recording with events of which there are no sums; its files; whether it is the
    /// last one.
    fn next(
        &mut self,
        store: &Store,
        live: Option<Recording>,
    ) -> Option<(Recording, Vec<FileInfo>, bool)> {
        let mut recordings: Vec<(Recording, Vec<FileInfo>)> = Vec::new();
        let mut files: Vec<&FileInfo> = store.all().iter().collect();
        files.sort_by_key(|file| file.number);
        self.sessions.retain(|number, _| files.iter().any(|file| file.number == *number));
        for file in files {
            let session = if let Some(session) = self.sessions.get(&file.number) {
                *session
            } else {
                let Ok(header) = read_header(&file.path) else { continue };
                self.sessions.insert(file.number, header.session);
                header.session
            };
            match recordings.last_mut().filter(|(of, _)| *of == (file.boot, session)) {
                Some((_, files)) => files.push(file.clone()),
                None => recordings.push(((file.boot, session), vec![file.clone()])),
            }
        }
        let last = recordings.last().map(|(of, _)| *of);
        recordings
            .into_iter()
            .find(|(of, _)| live == Some(*of) || !self.finished.contains(of))
            .map(|(of, files)| (of, files, last == Some(of)))
    }

    /// Begins with a recording where its sums end.
    fn begin(&mut self, of: Recording, infos: &[FileInfo], ended: bool) -> Option<Present> {
        let mut follower = Follower::new(of.1, 0);
        follower.look(infos, ended);
        let meta = follower.meta()?;
        // The first file of a recording holds it from its beginning on.
        let begins = follower.begins()?.max(meta.started);
        let reached = self.keeper.reached(of.0, of.1);
        let counts = reached.unwrap_or(0).max(begins);
        let offset = follower.wall_offset(counts);
        let lacks = reached.unwrap_or(meta.started);
        if lacks < begins {
            // Retention was faster.
            let wall = i64::try_from(i128::from(lacks) + i128::from(offset)).unwrap_or(0);
            let lacking = Period {
                from: lacks,
                until: begins,
                wall,
                flags: flags::NOT_SUMMED | flags::PART,
                ..Period::default()
            };
            self.unsummed = self.unsummed.saturating_add(begins - lacks);
            self.unwritten.push((of, lacking));
        }
        if ended && reached.is_some_and(|reached| reached.saturating_add(REST) >= follower.limit())
        {
            return None;
        }
        // Also what was recorded before all of it was attached tells. But where the first files are
        // gone, pages of idle CPUs alone reach back past them: an entry on one may have had its
        // exit on another.
        let whole = if begins > meta.started { begins } else { 0 };
        let from = counts.saturating_sub(LEAD).max(whole);
        follower.begin(from);
        let mut maker = Maker::new(&meta, follower.slots(), counts, offset);
        follower.tasks(|event| maker.learn(event));
        Some(Present { of, follower, maker })
    }
}

/// What there is before the file with this number, and from it on.
fn backlog(files: &[FileInfo], number: u32) -> Backlog {
    let bytes = |is_done: bool| {
        let of = files.iter().filter(|file| (file.number < number) == is_done);
        of.map(|file| file.bytes).fold(0, u64::saturating_add)
    };
    Backlog { done: bytes(true), waiting: bytes(false) }
}
