//! Asking a recording for what is new, through everything that may happen to the daemon meanwhile.

use flightrec_format::decode::Page;
use flightrec_format::live::clock::monotonic;
use flightrec_format::ring::LaneStream;
use flightrec_reader::control::ControlError;
use flightrec_reader::source::Origin;
use flightrec_reader::source::{self, Live, News, PageSet, SourceError};
use flightrec_reader::window::Window;
use flightrec_reader::window::with_leads;

use super::tail::{Round, Tail};

/// How long an event must be old to be taken, ns: an exit folds into its entry up to 1.05 ms later
/// ([`flightrec_format::abi::record::fold`]), and a CPU may be held up between reading the clock
/// and publishing.
pub const SETTLED_NS: u64 = 10_000_000;
/// Most pages of one round, over all rings: 16 MiB. It bounds the memory, and how far what is shown
/// lags behind.
const PAGES: usize = 4096;
/// Yet at least so many of each ring.
const PAGES_OF_RING: usize = 16;

/// The newest page may just have been opened, and hold nothing.
const PAGES_TO_BEGIN: u32 = 2;
/// Another recording may begin in the middle of it; not every time.
const ATTEMPTS: usize = 3;

/// A recording, followed.
pub struct Follower {
    origin: Origin,
    /// All that is still there is read at the beginning, not only what was recorded shortly
    /// before.
    everything: bool,
    /// `None`: the daemon is gone.
    source: Option<Box<dyn Live>>,
    session: u64,
    tail: Tail,
}

/// The recording up to the moment at which the following begins.
#[derive(Debug)]
pub struct Beginning {
    /// What was recorded shortly before, with all that names need.
    pub recording: PageSet,
    /// The moment, ns of `CLOCK_MONOTONIC`.
    pub now: u64,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, ns.
    pub wall_offset: i64,
}

impl Beginning {
    /// What was recorded before the moment.
    pub fn past(&self) -> Round<'_> {
        let pages = self.recording.streams.iter().flat_map(LaneStream::pages);
        Tail::new(&self.recording.meta.cpus).take(pages, self.now)
    }
}

/// What a question brought.
#[derive(Debug)]
pub enum Answer {
    /// What is new, to be taken up to this moment; and whether there was more than could be asked
    /// for, so that it is better asked again at once.
    News(News, u64, bool),
    /// The daemon is gone, for this reason; another may come.
    Gone(SourceError),
    /// The recording has ended: [`Follower::restart`].
    Ended,
}

impl Follower {
    /// Begins to follow what the plan names. `everything`: the beginning has all that is still
    /// there, not only what was recorded shortly before.
    pub fn start(origin: &Origin, everything: bool) -> Result<(Self, Beginning), SourceError> {
        let mut follower = Self {
            origin: origin.clone(),
            everything,
            source: None,
            session: 0,
            tail: Tail::default(),
        };
        let beginning = follower.restart()?;
        Ok((follower, beginning))
    }

    /// Begins anew, with the recording that is there now.
    pub fn restart(&mut self) -> Result<Beginning, SourceError> {
        for _ in 0..ATTEMPTS {
            let mut source = source::open_live(&self.origin)?;
            let (session, wall_offset) = (source.session(), source.clock().wall_offset);
            let mut tail = Tail::new(&source.cpus());
            let now = monotonic();
            // First the place in each ring, which takes no time; a busy ring may go round while the
            // past is read.
            let Some(news) = source.since(session, &tail.positions(), PAGES_TO_BEGIN)? else {
                continue;
            };
            tail.take(&news.pages, now);
            tail.begin(&news.totals);
            let from = if self.everything { 0 } else { now };
            let recording = source.read(with_leads(Window { from, until: u64::MAX }))?;
            if recording.meta.session == session {
                (self.tail, self.session, self.source) = (tail, session, Some(source));
                return Ok(Beginning { recording, now, wall_offset });
            }
        }
        Err(ControlError::Unexpected.into())
    }

    /// Asks for what is new. `last`: up to this very moment, as nothing will be asked any more.
    pub fn ask(&mut self, last: bool) -> Result<Answer, SourceError> {
        let source = match &mut self.source {
            Some(source) => source,
            gone => match source::open_live(&self.origin) {
                Ok(source) => gone.insert(source),
                Err(e) => return absent(e),
            },
        };
        let asked = monotonic();
        let newest = (PAGES / self.tail.rings().max(1)).max(PAGES_OF_RING) as u32;
        match source.since(self.session, &self.tail.positions(), newest) {
            Ok(Some(news)) => {
                let until = if last { asked } else { asked.saturating_sub(SETTLED_NS) };
                let more = is_cut(&news, newest as usize);
                Ok(Answer::News(news, until, more))
            }
            Ok(None) => Ok(Answer::Ended),
            Err(e) => {
                self.source = None;
                absent(e)
            }
        }
    }

    /// Reads the recording as any command does; and how far the wall clock is ahead of
    /// `CLOCK_MONOTONIC`, ns.
    pub fn read(&mut self, window: Window) -> Result<(PageSet, i64), SourceError> {
        let mut source = source::open_live(&self.origin)?;
        let wall_offset = source.clock().wall_offset;
        Ok((source.read(window)?, wall_offset))
    }

    /// Takes what is new up to a moment.
    pub fn take<'p>(&mut self, pages: &'p [Page], until: u64) -> Round<'p> {
        self.tail.take(pages, until)
    }

    /// Events recorded since the (re)start.
    pub fn recorded(&self) -> u64 {
        self.tail.recorded()
    }

    /// Session id of the recording.
    pub fn session(&self) -> u64 {
        self.session
    }
}

/// Whether a ring had as many pages as were asked for.
fn is_cut(news: &News, newest: usize) -> bool {
    let ring = |page: &Page| (page.lane(), page.header().cpu);
    news.pages.chunk_by(|a, b| ring(a) == ring(b)).any(|pages| pages.len() >= newest)
}

/// A daemon that ends or is restarted is waited for: the recording goes on without it. Anything
/// else is an error.
fn absent(e: SourceError) -> Result<Answer, SourceError> {
    match e {
        SourceError::Control(
            ControlError::NotRunning(_)
            | ControlError::Closed
            | ControlError::Silent
            | ControlError::Socket { .. },
        )
        | SourceError::Live(_) => Ok(Answer::Gone(e)),
        e => Err(e),
    }
}
