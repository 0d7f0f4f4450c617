//! The recordings in a dump, told apart by their session id.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use flightrec_format::abi::page::Lane;
use flightrec_format::meta::{self, Meta, MetaError};

use crate::dump::{Dump, Reader};
use crate::page_ref::PageRef;

/// Lanes from this number on are tables, not rings.
const TABLES: u8 = 8;
/// Most copies of one page that are read: the ring's own, and what a daemon may have had in its
/// hands.
const COPIES_MAX: usize = 4;
/// Most sessions that are told of: those with the most pages.
const SESSIONS_MAX: usize = 1 << 14;
/// Most pages of metadata of a session that are read: the newest, a hundred times what a recording
/// has.
const META_PAGES_MAX: usize = 1 << 14;

/// A recording, or what is left of one: memory that was freed keeps its pages until somebody else
/// writes there.
#[derive(Debug)]
pub struct Session {
    /// Its public id: the hash of what its pages say ([`flightrec_format::identity`]).
    pub id: u64,
    /// What its metadata tell; `None` where no generation of them is whole.
    pub about: Option<About>,
    /// How much of it there is, by lane.
    pub lanes: Vec<LaneCount>,
    /// When its oldest ring page was opened, ns of `CLOCK_MONOTONIC`.
    pub first: Option<u64>,
    /// When its newest ring page was opened, ns of `CLOCK_MONOTONIC`.
    pub last: Option<u64>,
    /// The same moment, ns of `CLOCK_TAI`.
    pub last_tai: Option<u64>,
    /// Pages of its quiet ring ([`flightrec_format::kept`]).
    pub kept: u64,
    /// Sorted by lane, CPU and number; of copies the fullest first.
    pages: Vec<PageRef>,
    /// Those of the quiet ring.
    quiet: Vec<PageRef>,
}

/// What a recording tells of itself, in short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Boot that it was made in.
    pub boot_id: String,
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// When it began, ns of `CLOCK_MONOTONIC`.
    pub started: u64,
    /// When it was ended for another one, ns of `CLOCK_MONOTONIC`; 0: it was not.
    pub ended: u64,
    /// `CLOCK_TAI` minus `CLOCK_REALTIME` at its last page, seconds.
    pub tai_offset: i64,
}

/// How many pages of a lane there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneCount {
    /// The lane, by number.
    pub lane: u8,
    /// Pages, each once.
    pub pages: u64,
    /// Copies beside them.
    pub copies: u64,
}

/// Sorts pages into sessions, and sessions by age.
pub(crate) fn all(mut pages: Vec<PageRef>, reader: &mut Reader<'_>) -> Vec<Session> {
    pages.sort_unstable_by_key(|page| (page.identity(), Reverse(page.used), page.place));
    let mut sessions: Vec<Session> = Vec::new();
    let least = least_pages(&pages);
    // From the last on, so that nothing is there twice but what is cut off.
    while let Some(last) = pages.last().map(|page| page.session) {
        let of_last = match pages.partition_point(|page| page.session < last) {
            0 => std::mem::take(&mut pages),
            first => pages.split_off(first),
        };
        if of_last.len() >= least {
            sessions.push(Session::new(of_last, reader));
        }
        if pages.len() < pages.capacity() / 2 {
            pages.shrink_to_fit();
        }
    }
    // Of a boot, the one that began last. Of boots, the one that was last heard of: their monotonic
    // clocks have nothing in common.
    let mut boots: BTreeMap<String, u64> = BTreeMap::new();
    for session in &sessions {
        if let (Some(about), Some(last)) = (&session.about, session.last_tai) {
            let heard = boots.entry(about.boot_id.clone()).or_default();
            *heard = last.max(*heard);
        }
    }
    sessions.sort_by_cached_key(|session| {
        let age = session.about.as_ref().map(|about| {
            (
                boots.get(&about.boot_id).copied(),
                about.boot_id.clone(),
                about.started,
                session.last_tai,
            )
        });
        Reverse((age, session.last_tai, session.id))
    });
    sessions
}

/// How many pages a session has at least that is told of: 1, but where there are more of them than
/// [`SESSIONS_MAX`], which only somebody makes who wants to hide one among them.
fn least_pages(pages: &[PageRef]) -> usize {
    let mut sizes: Vec<usize> =
        pages.chunk_by(|a, b| a.session == b.session).map(<[PageRef]>::len).collect();
    sizes.sort_unstable_by_key(|size| Reverse(*size));
    sizes.get(SESSIONS_MAX).map_or(1, |size| size + 1)
}

impl Session {
    fn new(mut pages: Vec<PageRef>, reader: &mut Reader<'_>) -> Self {
        let quiet: Vec<PageRef> = pages.iter().filter(|page| page.kept).copied().collect();
        pages.retain(|page| !page.kept);
        let mut lanes: Vec<LaneCount> = Vec::new();
        let mut last_seen = None;
        for page in &pages {
            let count = match lanes.last_mut() {
                Some(count) if count.lane == page.lane => count,
                _ => {
                    lanes.push(LaneCount { lane: page.lane, pages: 0, copies: 0 });
                    match lanes.last_mut() {
                        Some(count) => count,
                        None => continue,
                    }
                }
            };
            if last_seen == Some(page.identity()) {
                count.copies += 1;
            } else {
                count.pages += 1;
            }
            last_seen = Some(page.identity());
        }
        let ring = || pages.iter().filter(|page| page.lane < TABLES);
        let newest = ring().max_by_key(|page| page.base_mono);
        let mut session = Self {
            id: pages.first().or(quiet.first()).map_or(0, |page| page.session),
            kept: quiet.len() as u64,
            about: None,
            lanes,
            first: ring().map(|page| page.base_mono).min(),
            last: newest.map(|page| page.base_mono),
            last_tai: newest.map(|page| page.base_tai),
            pages,
            quiet,
        };
        let last = session.last.unwrap_or(0);
        session.about = session.unpack(reader).ok().map(|meta| About {
            tai_offset: meta.tai_offset(last),
            boot_id: meta.boot_id,
            host: meta.host,
            kernel: meta.kernel,
            started: meta.started,
            ended: meta.ended,
        });
        session
    }

    /// Its metadata.
    pub fn meta(&self, dump: &Dump) -> Result<Meta, MetaError> {
        self.unpack(&mut dump.reader())
    }

    fn unpack(&self, reader: &mut Reader<'_>) -> Result<Meta, MetaError> {
        let of_meta = self
            .pages
            .iter()
            .rev()
            .filter(|page| page.lane == Lane::Meta as u8)
            .take(META_PAGES_MAX);
        let meta = meta::unpack(of_meta.filter_map(|page| reader.page(page).copied()))?;
        // A description of another recording, in pages of this one, is none.
        let is_own = meta.session == self.id;
        if is_own { Ok(meta) } else { Err(MetaError::Incomplete { pages: 0 }) }
    }

    /// CPUs that it has ring pages of.
    pub fn cpus(&self) -> Vec<u16> {
        let mut cpus: Vec<u16> = self.rings().filter_map(|ring| Some(ring.first()?.cpu)).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// The pages of its rings that may hold events of a window (ns of `CLOCK_MONOTONIC`; all of the
    /// task lane's, since they tell names), the first after it, whose counters tell what is
    /// missing at its end, and its tables but for the metadata. With copies, where they may
    /// differ.
    pub fn pages(&self, from: u64, until: u64) -> impl Iterator<Item = &PageRef> {
        let wanted = move |(i, ring): (usize, &[PageRef])| {
            let all = ring.first().is_none_or(|page| page.lane == Lane::Task as u8);
            let (page, after) = (ring.get(i), ring.get(i..).unwrap_or_default());
            // A page's time ends where the next one's begins.
            let next = after.iter().find(|next| Some(next.seq) != page.map(|page| page.seq));
            let before = ring.get(..i).unwrap_or_default().iter();
            let before = before.rev().find(|before| Some(before.seq) != page.map(|page| page.seq));
            let begun = before.or(page).is_some_and(|page| page.base_mono < until);
            all || begun && next.is_none_or(|next| next.base_mono > from)
        };
        let rings = self.rings().flat_map(move |ring| {
            (0..ring.len()).filter(move |i| wanted((*i, ring))).filter_map(move |i| best(ring, i))
        });
        // What the quiet ring holds of the rings' pages gives way to these.
        let quiet = self.quiet.iter().filter(move |page| page.base_mono < until);
        rings.chain(quiet).chain(
            self.pages.iter().filter(|page| page.lane >= TABLES && page.lane != Lane::Meta as u8),
        )
    }

    /// Its newest page of each ring, with its copies.
    pub fn newest(&self) -> impl Iterator<Item = &PageRef> {
        self.rings().flat_map(|ring| {
            let last = ring.last().map(|page| page.seq);
            let first = ring.partition_point(|page| Some(page.seq) < last);
            (first..ring.len()).filter_map(|i| best(ring, i))
        })
    }

    /// Whether every ring that has pages has all that it can have, with `ring_bytes` the size of a
    /// ring by lane: none is missing between them, and there are as many as fit, or all since
    /// the first. What is missing at the end of a ring can't be seen so. But pages of a ring
    /// are all of one kind to whoever filters a dump.
    pub fn is_whole(&self, ring_bytes: &[u64]) -> bool {
        self.rings().all(|ring| {
            let (Some(first), Some(last)) = (ring.first(), ring.last()) else { return true };
            let size = ring_bytes.get(usize::from(first.lane)).map_or(0, |bytes| bytes / 4096);
            let pages = ring.chunk_by(|a, b| a.seq == b.seq).count() as u64;
            let contiguous = pages == (last.seq - first.seq).saturating_add(1);
            // The page that is being opened again holds nothing.
            contiguous && (first.seq == 1 || pages.saturating_add(1) >= size)
        })
    }

    /// The pages of each ring.
    fn rings(&self) -> impl Iterator<Item = &[PageRef]> {
        let rings = self.pages.partition_point(|page| page.lane < TABLES);
        let rings = self.pages.get(..rings).unwrap_or_default();
        rings.chunk_by(|a, b| (a.lane, a.cpu) == (b.lane, b.cpu))
    }
}

/// The page at an index, unless there are fuller copies before it, or more of its kind than are of
/// use.
fn best(ring: &[PageRef], i: usize) -> Option<&PageRef> {
    let page = ring.get(i)?;
    let before = ring.get(..i)?.iter().rev().take_while(|copy| copy.seq == page.seq);
    let (fuller, copies) = before
        .take(COPIES_MAX)
        .fold((false, 0), |(fuller, n), copy| (fuller || copy.used > page.used, n + 1));
    (!fuller && copies < COPIES_MAX).then_some(page)
}
