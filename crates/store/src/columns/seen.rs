//! What the encoder's walk over a block's pages sees of what is in them, for the block's summary.
//!
//! The models know what is new in a block, so little is asked of an event that is like the one
//! before: a thread, a call, an error, a string is taken where its model meets it first. Of every
//! call that ends, a count and the longest duration are kept.

use flightrec_format::abi::args;
use flightrec_format::abi::field::{Type, Unit};
use flightrec_format::abi::kinds::Kind;
use flightrec_format::abi::page::UNIT;
use flightrec_format::abi::pointee;
use flightrec_format::abi::record::{
    Abi, StringStatus, TICK_NS, call_abi, call_aux, errno, fold, kind,
};
use flightrec_format::meta::{Meta, Syscall, is_path};
use rustc_hash::{FxHashMap, FxHashSet};

use super::item::At;
use super::plain::{LONGEST, is_event};
use super::record::{Call, form};
use super::threads::Ids;
use crate::components::{hash, names};
use crate::missing::Missing;

/// Numbers of calls with their tables, as the `aux` of their records has them.
const CALLS: usize = 1 << 14;
/// All arguments that a call may have, a bit for each.
const ARGUMENTS: u8 = 0x3f;
/// `EFAULT`
const EFAULT: i64 = 14;
/// Most threads whose calls are open.
const OPEN_MAX: usize = 1 << 18;

/// Which arguments of the calls of a machine are paths.
pub(crate) struct Paths(Table<u8>);

impl std::fmt::Debug for Paths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Paths").finish_non_exhaustive()
    }
}

impl Default for Paths {
    /// Where nothing is known, any may be.
    fn default() -> Self {
        Self(Table::filled(ARGUMENTS))
    }
}

impl Paths {
    /// No argument is.
    pub(crate) fn none() -> Self {
        Self(Table::filled(0))
    }

    /// Of the calls of a recording.
    pub(crate) fn new(meta: &Meta) -> Self {
        let mut paths = Self::default();
        let native: FxHashMap<&str, u8> =
            meta.native.iter().filter_map(|call| Some((&*call.name, of_call(call)?))).collect();
        let tables = [(Abi::Native, &meta.native), (Abi::X32, &meta.native)];
        for (abi, calls) in tables.into_iter().chain([(Abi::Compat, &meta.compat)]) {
            for call in calls {
                let known = of_call(call).or_else(|| native.get(&*call.name).copied());
                if let Some(known) = known {
                    *paths.0.of(call_aux(call.nr, abi as u8)) = known;
                }
            }
        }
        paths
    }

    /// Of the call of a record, a bit for each.
    #[inline]
    pub(super) fn of(&self, aux: u16) -> u8 {
        self.0.0[place(aux)]
    }
}

/// `None`: the kernel does not publish its arguments.
fn of_call(call: &Syscall) -> Option<u8> {
    let of = |(i, argument)| u8::from(is_path(&call.name, argument)) << i;
    Some(call.args.as_ref()?.iter().take(6).enumerate().map(of).fold(0, |all, bit| all | bit))
}

/// A table by call.
struct Table<T>(Vec<T>);

impl<T: Copy> Table<T> {
    fn filled(with: T) -> Self {
        Self(vec![with; CALLS])
    }

    #[inline]
    fn of(&mut self, aux: u16) -> &mut T {
        &mut self.0[place(aux)]
    }
}

#[inline]
fn place(aux: u16) -> usize {
    usize::from(aux) % CALLS
}

/// What was seen of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    /// How many end.
    pub(crate) ended: u32,
    /// The longest of those whose beginning is in the same record, in ticks.
    ticks: u16,
    /// What beginnings lack.
    pub(crate) missing: Missing,
    /// The longest of the others whose beginning is known, ns.
    alone: u64,
    /// What those lack whose beginning is not; `None`: there are none.
    pub(crate) unbegun: Option<Missing>,
}

impl Ends {
    const NONE: Self = Self { ended: 0, ticks: 0, missing: Missing::NONE, alone: 0, unbegun: None };

    /// How long the longest of those took of which that is known, ns.
    pub(crate) fn known(&self) -> u64 {
        self.alone.max(u64::from(self.ticks) * TICK_NS)
    }

    /// How long the longest took, ns; `None`: that is not known.
    pub(crate) fn longest(&self) -> Option<u64> {
        self.unbegun.is_none().then(|| self.known())
    }
}

/// A record of a call's beginning or end alone.
#[derive(Debug, Clone, Copy)]
struct Lone {
    time: u64,
    tid: u32,
    /// The `aux` of its record.
    aux: u16,
    /// Whether it is an end, and what that lacks.
    end: Option<Missing>,
}

/// The calls of a file that are open where its blocks end so far: one may begin in an earlier block
/// than it ends in.
#[derive(Debug, Default)]
pub(crate) struct Open {
    /// By thread: when its call began.
    began: FxHashMap<u32, u64>,
}

impl Open {
    /// Takes the records of a block, for what is known of calls.
    fn pair(&mut self, records: &mut [Lone], calls: &mut Table<Ends>) {
        // The pages of a block are of all CPUs. Of one moment in the order in which they are
        // recorded.
        records.sort_by_key(|record| record.time);
        for Lone { time, tid, aux, end } in records {
            let Some(missing) = end else {
                if self.began.len() >= OPEN_MAX {
                    self.began.clear();
                }
                self.began.insert(*tid, *time);
                continue;
            };
            let of = calls.of(*aux);
            match self.began.remove(tid).filter(|began| began <= time) {
                Some(began) => of.alone = of.alone.max(*time - began),
                None => of.unbegun = Some(of.unbegun.map_or(*missing, |of| of.and(*missing))),
            }
        }
    }
}

/// A CPU's switches.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Idle {
    /// Time of the last one.
    at: u64,
    /// Whether one is to idle, and whether the last one is.
    pub(super) ever: bool,
    pub(super) last: bool,
}

impl Idle {
    /// Takes a switch.
    #[inline]
    pub(super) fn switched(of: &mut Option<Self>, time: u64, idle: bool) {
        let of = of.get_or_insert_default();
        of.ever |= idle;
        // Pages of a CPU need not stand in order.
        if time >= of.at {
            (of.at, of.last) = (time, idle);
        }
    }
}

/// What was seen so far in a block.
pub(super) struct Seen {
    /// Something is damaged, or of nobody: what is in the block is not known.
    pub(super) odd: bool,
    /// Which arguments are paths.
    pub(super) paths: Paths,
    ends: Table<Ends>,
    /// The calls that are there, a bit for each.
    calls: Box<[u64; CALLS / 64]>,
    /// Errors, with the `aux` of their calls above.
    errors: FxHashSet<u32>,
    lone: Vec<Lone>,
    /// By thread: the call that it is in, and its paths that could not be read when it began.
    unread: FxHashMap<u32, (u16, u8)>,
    /// Ids of threads and processes that the models do not know.
    ids: Ids,
    /// Kinds of events that have no model, a bit for each.
    kinds: u16,
    /// By kind: where in the body of an event there are such.
    places: Vec<Vec<usize>>,
    /// The `aux` of all strings, a bit for each.
    texts: [u64; 4],
    /// Hashes of the names in paths.
    names: FxHashSet<u32>,
}

impl Seen {
    /// With room for nothing: [`Self::know`] makes it.
    pub(super) fn new() -> Self {
        Self {
            odd: false,
            paths: Paths(Table(Vec::new())),
            ends: Table(Vec::new()),
            calls: Box::new([0; CALLS / 64]),
            errors: FxHashSet::default(),
            lone: Vec::new(),
            unread: FxHashMap::default(),
            ids: Ids::default(),
            kinds: 0,
            places: Vec::new(),
            texts: [0; 4],
            names: FxHashSet::default(),
        }
    }

    /// From now on, these arguments of calls are paths.
    pub(super) fn know(&mut self, paths: Paths) {
        self.paths = paths;
        if self.ends.0.is_empty() {
            self.ends = Table::filled(Ends::NONE);
            self.places = places();
        }
    }

    /// Forgets all, but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.odd = false;
        let calls: Vec<u16> = self.calls().collect();
        for aux in calls {
            *self.ends.of(aux) = Ends::NONE;
        }
        self.calls.fill(0);
        self.errors.clear();
        self.lone.clear();
        self.unread.clear();
        self.ids.clear();
        self.kinds = 0;
        self.texts = [0; 4];
        self.names.clear();
    }

    /// Takes a call.
    #[inline(always)]
    pub(super) fn call(&mut self, call: &Call, at: &At) {
        let ends = self.ends.of(call.what.aux());
        ends.ended += u32::from(call.what.form() != form::ENTERED);
        ends.ticks = ends.ticks.max(call.ticks);
        if call.what.form() != form::FOLDED {
            self.lone(call, at);
        }
        if !self.unread.is_empty() && call.what.form() != form::EXITED {
            self.give_up(at);
        }
    }

    /// A thread begins another call: what could not be read of the one before is not read.
    #[cold]
    fn give_up(&mut self, at: &At) {
        if let Some((of, unread)) = at.true_tid.and_then(|tid| self.unread.remove(&tid)) {
            self.lacks(of, unread);
        }
    }

    /// Takes a beginning or an end alone.
    #[inline]
    fn lone(&mut self, call: &Call, at: &At) {
        let (aux, tid) = (call.what.aux(), at.true_tid.unwrap_or_default());
        let time = at.true_base.wrapping_add(call.upper.into());
        let end = (call.what.form() == form::EXITED)
            .then(|| Missing { strings: self.paths.of(aux), arguments: ARGUMENTS & !given(call) });
        self.lone.push(Lone { time, tid, aux, end });
    }

    /// Takes which arguments a call has, where none of the same was like it.
    pub(super) fn shape(&mut self, call: &Call) {
        let at = place(call.what.aux());
        self.calls[at / 64] |= 1 << (at % 64);
        if call.what.form() != form::EXITED {
            self.ends.of(call.what.aux()).missing.arguments |= ARGUMENTS & !given(call);
        }
    }

    /// Takes a result that differs from that of the call before it.
    pub(super) fn result(&mut self, aux: u16, result: i64) {
        if let Some(error) = errno(result) {
            self.errors.insert((place(aux) as u32) << 16 | error as u32);
        }
    }

    /// Takes which strings a call that takes paths has: those that were `read`, and those that
    /// could not be. Nothing follows from one whose paths were all read, unless it is an end.
    #[cold]
    pub(super) fn strings(&mut self, call: &Call, at: &At, read: u8, unreadable: u8) {
        let (aux, form) = (call.what.aux(), call.what.form());
        let tid = at.true_tid.unwrap_or_default();
        let lacking = self.paths.of(aux) & !read;
        let strings = if lacking == 0 { 0 } else { lacking & !null(call) };
        if form == form::EXITED {
            if let Some(Lone { end: Some(missing), .. }) = self.lone.last_mut() {
                missing.strings = strings;
            }
            match self.unread.remove(&tid) {
                // The address was bad, so the call had no path.
                Some((of, _)) if of == aux && call.result as i64 == -EFAULT => {}
                Some((of, unread)) if of == aux => self.lacks(of, unread & strings),
                Some((of, unread)) => self.lacks(of, unread),
                None => {}
            }
            return;
        }
        // The end of a call may have what could not be read when it began.
        let unread = if form == form::ENTERED { strings & unreadable } else { 0 };
        self.lacks(aux, strings & !unread);
        if unread != 0 {
            self.unread.insert(tid, (aux, unread));
        }
    }

    fn lacks(&mut self, aux: u16, strings: u8) {
        self.ends.of(aux).missing.strings |= strings;
    }

    /// Takes a string's `aux`.
    #[inline]
    pub(super) fn text(&mut self, aux: u8) {
        self.texts[usize::from(aux >> 6)] |= 1 << (aux & 63);
    }

    /// Takes the names in a string that is new in the block; `shared` bytes of it are those of
    /// another one.
    pub(super) fn names(&mut self, content: &[u8], shared: usize) {
        let shared = content.get(..shared).unwrap_or_default();
        let known = shared.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        // Readers cut a string at a NUL.
        let rest = content.get(known..).unwrap_or_default().split(|byte| *byte == 0).next();
        self.names.extend(names(rest.unwrap_or_default()).map(hash));
    }

    /// Takes a record without a model.
    pub(super) fn plain(&mut self, record: &[[u8; 8]; LONGEST], at: &At) {
        let head = u64::from_le_bytes(record[0]);
        let number = head as u8;
        if number == kind::THREAD {
            return self.id((head >> 32) as u32);
        }
        if !is_event(number, at.lane) {
            return;
        }
        self.kinds |= 1 << (number & 0xf);
        match number {
            kind::ENTER | kind::EXIT => return self.plain_call(record, at),
            // Not as the probes write them.
            kind::SWITCH | kind::WAKING | kind::WAKEUP_NEW | kind::MIGRATE => self.odd = true,
            _ => {}
        }
        let body = record.as_flattened().get(8..).unwrap_or_default();
        for n in 0..self.places.get(usize::from(number)).map_or(0, Vec::len) {
            let at = self.places[usize::from(number)][n];
            let id = body.get(at..).and_then(|bytes| bytes.first_chunk());
            self.id(id.map_or(0, |id| u32::from_le_bytes(*id)));
        }
    }

    /// Takes a call that has more arguments than the model takes.
    fn plain_call(&mut self, record: &[[u8; 8]; LONGEST], at: &At) {
        let (head, second) = (u64::from_le_bytes(record[0]), u64::from_le_bytes(record[1]));
        let (aux, time) = ((head >> 16) as u16, at.true_base.wrapping_add(head >> 32));
        let (tid, call) = (at.true_tid.unwrap_or_default(), place(aux));
        self.calls[call / 64] |= 1 << (call % 64);
        self.id(tid);
        let paths = self.paths.of(aux);
        let is_exit = head as u8 == kind::EXIT;
        let begin = if is_exit { 16 } else { 8 + fold::SLOT };
        let length = UNIT * usize::from((head >> 8) as u8);
        let arguments = record.as_flattened().get(begin..length);
        let given = arguments.map_or(Some(0), |bytes| match bytes {
            [] => Some(0),
            bytes => args::decode(bytes).map(|(n, _)| n),
        });
        let fold = second as u32;
        let is_damaged = length < begin || !is_exit && fold != 0 && fold::unpack(fold).is_none();
        self.odd |= is_damaged || given.is_none() || call_abi(aux).is_none();
        let lacks = ARGUMENTS & !(((1u16 << given.unwrap_or(0)) - 1) as u8);
        if is_exit {
            self.ends.of(aux).ended += 1;
            self.result(aux, second as i64);
            let end = Some(Missing { strings: paths, arguments: lacks });
            return self.lone.push(Lone { time, tid, aux, end });
        }
        // Its strings follow as records of their own.
        self.lacks(aux, paths);
        self.give_up(at);
        let ends = self.ends.of(aux);
        ends.missing.arguments |= lacks;
        match fold::unpack(fold) {
            Some((result, ns)) => {
                ends.ended += 1;
                ends.ticks = ends.ticks.max(ns.div_ceil(TICK_NS) as u16);
                self.result(aux, result);
            }
            None => self.lone.push(Lone { time, tid, aux, end: None }),
        }
    }

    /// Takes the id of a thread that its model may not know.
    #[inline]
    pub(super) fn id(&mut self, tid: u32) {
        self.ids.name(tid);
    }

    /// The `aux` of the calls that are there, in order.
    fn calls(&self) -> impl Iterator<Item = u16> + '_ {
        let words = self.calls.iter().copied().enumerate().filter(|(_, word)| *word != 0);
        words.flat_map(|(at, word)| {
            let bits = (0..64).filter(move |bit| word >> bit & 1 != 0);
            bits.map(move |bit| (64 * at + bit) as u16)
        })
    }

    /// All of it, but for the threads that the models know and CPUs.
    pub(super) fn take(&mut self, open: &mut Open) -> Sight<'_> {
        open.pair(&mut self.lone, &mut self.ends);
        let unread: Vec<(u16, u8)> = self.unread.drain().map(|(_, of)| of).collect();
        for (aux, strings) in unread {
            self.lacks(aux, strings);
        }
        let calls = self.calls().map(|aux| (aux, self.ends.0[place(aux)])).collect();
        let cut = |aux: usize| {
            let status = [StringStatus::Cut as usize, StringStatus::Ends as usize];
            aux & 0xf < usize::from(pointee::INDEX) && status.contains(&(aux >> 4))
        };
        let is_there = |aux: &usize| self.texts[aux >> 6] >> (aux & 63) & 1 != 0;
        Sight {
            calls,
            errors: &self.errors,
            vague: (0..256).filter(is_there).any(cut),
            names: &self.names,
            kinds: self.kinds,
            threads: std::mem::take(&mut self.ids).0,
            cpus: Vec::new(),
        }
    }
}

/// What was seen in a block.
pub(crate) struct Sight<'a> {
    /// By the `aux` of their records, in order.
    pub(crate) calls: Vec<(u16, Ends)>,
    /// Errors, with the `aux` of their calls above.
    pub(crate) errors: &'a FxHashSet<u32>,
    /// Some strings are not recorded whole.
    pub(crate) vague: bool,
    /// Hashes of the names in strings.
    pub(crate) names: &'a FxHashSet<u32>,
    /// Kinds of events that have no model, a bit for each.
    pub(crate) kinds: u16,
    /// Ids of threads and processes, in any order.
    pub(crate) threads: Vec<u32>,
    /// Whether each CPU idles, and whether its last switch is to idle.
    pub(crate) cpus: Vec<(u16, bool, bool)>,
}

/// By kind: where in the body of an event there are ids of threads and processes.
fn places() -> Vec<Vec<usize>> {
    let mut places = vec![Vec::new(); 256];
    for kind in Kind::ALL {
        let row = kind.row();
        let is_id = |unit| matches!(unit, Unit::Thread | Unit::Process);
        let ids = row.fields.iter().filter(|field| is_id(field.unit) && field.ty == Type::U32);
        if let Some(places) = places.get_mut(usize::from(row.number)) {
            places.extend(ids.map(|field| field.at));
        }
    }
    places
}

/// Which arguments a call's record has, a bit for each.
fn given(call: &Call) -> u8 {
    if call.what.arguments() == 0 {
        return 0;
    }
    ((1u16 << (call.words[0] >> 12 & 7)) - 1) as u8
}

/// Which arguments are null pointers.
fn null(call: &Call) -> u8 {
    let mut bytes = [0; 8 * super::record::WORDS];
    for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(&call.words) {
        *to = word.to_le_bytes();
    }
    let given = given(call);
    let values = args::decode(&bytes).map_or([1; 6], |(_, values)| values);
    let of = |(i, value): (usize, &u64)| u8::from(*value == 0) << i;
    given & values.iter().enumerate().map(of).fold(0, |all, bit| all | bit)
}

/// Which string of a call a record is, if it was read and if it could not be; a bit for each.
#[inline]
pub(super) fn text_bits(aux: u8) -> (u8, u8) {
    let bit = 1u8.checked_shl((aux & 0xf).into()).unwrap_or(0);
    if aux >> 4 == StringStatus::Unreadable as u8 { (0, bit) } else { (bit, 0) }
}
