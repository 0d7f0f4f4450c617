//! The recording's metadata: what a reader needs to make sense of the pages on any machine.
//!
//! It is one JSON document, unknown fields ignored, cut into chunks that stand in pages of lane
//! `meta` ([`crate::chunks`]).
//!
//! The map of these pages is double-buffered: a new generation of the document goes into the half
//! that the present one does not use, so that a reader, or a crash, at any moment finds a whole
//! one.

mod arguments;
mod lanes;
mod tracepoint;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::abi::page::{Lane, PAGE_SIZE};
use crate::chunks::{self, Chunks, TooLarge};
pub use crate::chunks::{CHUNK_BYTES, first_page};
pub use arguments::{is_descriptor, is_directory, is_path};
pub use lanes::{KindMeta, LaneMeta, Lanes};
pub use tracepoint::{Field, Mask, Place, Tracepoint, ValueForm, ValueNames};

/// Pages of the metadata map.
pub const PAGES: usize = 512;
/// Fewest pages of the map of a recording that a build before this began.
pub const PAGES_LEAST: usize = 192;
/// Pages that one generation of the document may take.
pub const HALF_PAGES: usize = PAGES / 2;

/// CPUs that Linux has at most (`NR_CPUS_RANGE_END`, arch/x86/Kconfig, Linux 6.18).
pub const CPUS_MAX: usize = 8192;

/// Metadata that can't be written or read.
#[derive(Debug, Error)]
pub enum MetaError {
    /// The document does not fit in its half of the map.
    #[error("the metadata takes {bytes} bytes, {limit} fit: shorten the configuration")]
    TooLarge {
        /// What it takes.
        bytes: usize,
        /// What fits.
        limit: usize,
    },
    /// No generation of the document is there completely and undamaged.
    #[error(
        "no complete metadata of a recording ({pages} of its pages found): use a source that \
         holds them all"
    )]
    Incomplete {
        /// Metadata pages that were found.
        pages: usize,
    },
    /// The document is whole, but not what it should be.
    #[error("the recording's metadata can't be read: {0}")]
    Document(#[from] serde_json::Error),
}

/// Metadata of one recording session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// Public id of the recording session, as in the headers of copied pages
    /// ([`crate::identity`]).
    pub session: u64,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// Host name.
    pub host: String,
    /// Kernel release (`uname -r`).
    pub kernel: String,
    /// Machine (`uname -m`).
    pub machine: String,
    /// Version of the recorder that made the session.
    pub recorder: String,
    /// Identity of the probes and of what is frozen into them; a daemon adopts only its own.
    pub program: String,
    /// Form of the system call programs: `tp_btf` or `tracepoint`.
    pub syscall_programs: String,
    /// When the session began, ns of `CLOCK_MONOTONIC`.
    pub started: u64,
    /// When it was ended for another one, ns of `CLOCK_MONOTONIC`; 0: it was not.
    pub ended: u64,
    /// `CLOCK_TAI` minus `CLOCK_REALTIME`: its values over the session, in order. A time service
    /// sets it some time after boot.
    pub tai_offsets: Vec<TaiOffset>,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, ns: what the recorder read it to be, in order; a
    /// new one after each step of the wall clock. A page's own reading differs from it by what
    /// came between the two clocks.
    pub wall_offsets: Vec<i64>,
    /// CPUs with rings.
    pub cpus: Vec<u16>,
    /// The lanes that are rings, each with the kinds of event that it may hold.
    pub lanes: Lanes,
    /// Bytes of the quiet ring, of all CPUs ([`crate::kept`]).
    pub quiet_bytes: u64,
    /// Whether strings of system calls are recorded.
    pub strings: bool,
    /// What the configuration leaves out, by its keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub switched_off: Vec<SwitchedOff>,
    /// What this kernel lacks of what is optional: not recorded, wherever it happens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lacking: Vec<Lacking>,
    /// The configuration in force, as TOML.
    pub config: String,
    /// Paths of the v2 control groups in their hierarchy, by id; those that are gone stay while
    /// there is room.
    pub cgroups: BTreeMap<u64, String>,
    /// What containers and their pods are called, by control group ([`crate::containers`]); of
    /// those that are gone as long as their groups stay.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub containers: BTreeMap<u64, ContainerNames>,
    /// Names of block devices, by their number (`dev_t` inside the kernel, as
    /// [`crate::abi::kinds::Unit::Device`]); those that are gone stay while there is room.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<u32, String>,
    /// Whether there were more control groups than fit.
    pub cgroups_cut: bool,
    /// Functions of the kernel that the recording's stacks go through, as far as they have been
    /// looked up and there is room.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub symbols: Vec<Symbol>,
    /// Binaries that the recording's samples have frames in, as far as they are known and there is
    /// room.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub binaries: Vec<Binary>,
    /// What was probed, by the files it is in ([`crate::abi::kinds::Function`]).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub probed: Vec<Probed>,
    /// Tracepoints that the configuration names, or did since the recording began.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tracepoints: Vec<Tracepoint>,
    /// System calls of the machine's own table.
    pub native: Vec<Syscall>,
    /// System calls of the 32-bit table.
    pub compat: Vec<Syscall>,
}

/// What a container is called, by its runtime or by the node's kubelet; empty: not known. In the
/// document: `["name", "pod", "namespace", "image"]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(String, String, String, String)", into = "(String, String, String, String)")]
pub struct ContainerNames {
    /// Its name: in a pod, that of the container in it.
    pub name: String,
    /// Name of its pod.
    pub pod: String,
    /// Namespace of its pod.
    pub namespace: String,
    /// Its image.
    pub image: String,
}

impl From<(String, String, String, String)> for ContainerNames {
    fn from((name, pod, namespace, image): (String, String, String, String)) -> Self {
        Self { name, pod, namespace, image }
    }
}

impl From<ContainerNames> for (String, String, String, String) {
    fn from(ContainerNames { name, pod, namespace, image }: ContainerNames) -> Self {
        (name, pod, namespace, image)
    }
}

/// Kinds of event that the configuration leaves out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SwitchedOff {
    /// The key of `[record]` that is false; or `sampling.hz`, which is 0.
    pub key: String,
    /// The kinds, by name.
    pub kinds: Vec<String>,
}

/// A program of the probes that this kernel can't run, or offsets that a program can do without and
/// this kernel does not have; and what the recording lacks for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lacking {
    /// The name in the probes: of the program, or of the global that has the offsets.
    pub program: String,
    /// What is missing, in words.
    pub what: String,
    /// Kinds of event that are not recorded, by name; none where the program records no events.
    pub kinds: Vec<String>,
    /// Why: what the kernel has not, or what it said.
    pub why: String,
}

/// [`Lacking::program`] where the walk over all threads at the beginning did not see those of other
/// PID namespaces: of them it is not known who they are, unless an event of task life says it.
pub const WALK_OF_THREADS: &str = "walk_tasks:namespace";
/// The same of the walk over descriptors.
pub const WALK_OF_DESCRIPTORS: &str = "walk_files:namespace";

impl Lacking {
    /// Whether it says that some threads are not known ([`WALK_OF_THREADS`]).
    pub fn is_of_threads(&self) -> bool {
        self.program == WALK_OF_THREADS
    }
}

impl Meta {
    /// Why some threads are not known; `None`: all are.
    pub fn unseen_threads(&self) -> Option<&Lacking> {
        self.lacking.iter().find(|of| of.is_of_threads())
    }
}

/// A function of the kernel. In the document: `[at, size, "name"]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, u32, String)", into = "(u32, u32, String)")]
pub struct Symbol {
    /// Where it begins, as frames are counted ([`crate::abi::record::stack`]).
    pub at: u32,
    /// Its bytes.
    pub size: u32,
    /// Its name; of one of a module with that, as the kernel prints it: `xfs_file_fsync [xfs]`.
    pub name: String,
}

impl From<(u32, u32, String)> for Symbol {
    fn from((at, size, name): (u32, u32, String)) -> Self {
        Self { at, size, name }
    }
}

impl From<Symbol> for (u32, u32, String) {
    fn from(Symbol { at, size, name }: Symbol) -> Self {
        (at, size, name)
    }
}

/// A binary that programs run code of: `[number, "build id", "path"]` in the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u16, String, String)", into = "(u16, String, String)")]
pub struct Binary {
    /// Its number in the recording's samples ([`crate::abi::record::sample`]).
    pub number: u16,
    /// Its build id, 40 hexadecimal digits; after shorter ones are zeros.
    pub build_id: String,
    /// Its path as the recorder sees it; empty: not known.
    pub path: String,
}

impl From<(u16, String, String)> for Binary {
    fn from((number, build_id, path): (u16, String, String)) -> Self {
        Self { number, build_id, path }
    }
}

impl From<Binary> for (u16, String, String) {
    fn from(Binary { number, build_id, path }: Binary) -> Self {
        (number, build_id, path)
    }
}

/// A file whose functions were probed while it was recorded, or the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Probed {
    /// Its path, as who asked for it saw it; `kernel`: the kernel's own functions.
    pub path: String,
    /// Its build id, as [`Binary::build_id`]; empty: it has none.
    pub build_id: String,
    /// Number and name of each function, and of each mark (`provider:name`).
    pub functions: Vec<(u32, String)>,
}

/// What `CLOCK_TAI` is ahead of `CLOCK_REALTIME`, from a moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaiOffset {
    /// From when on, ns of `CLOCK_MONOTONIC`.
    pub since: u64,
    /// Seconds.
    pub seconds: i64,
}

/// Readings of one offset of the wall clock are nearer together than this, ns; a step is more.
pub const WALL_STEP_NS: i64 = 1_000_000;

/// Most changes of the offset that are kept; a clock that is set more often than that is broken.
const TAI_OFFSETS_MAX: usize = 64;

impl Meta {
    /// `CLOCK_TAI` minus `CLOCK_REALTIME` at a moment, seconds.
    pub fn tai_offset(&self, mono: u64) -> i64 {
        let later = self.tai_offsets.partition_point(|offset| offset.since <= mono);
        self.tai_offsets.get(later.saturating_sub(1)).map_or(0, |offset| offset.seconds)
    }

    /// What the wall clock was ahead of `CLOCK_MONOTONIC`, ns, by a reading of it: one value for
    /// all readings between two steps of the clock, where the recorder knew it.
    pub fn wall_offset(&self, read: i64) -> i64 {
        let apart = |known: &i64| known.abs_diff(read);
        let nearest = self.wall_offsets.iter().copied().min_by_key(apart);
        nearest.filter(|known| apart(known) < WALL_STEP_NS as u64).unwrap_or(read)
    }

    /// Whether [`Self::set_wall_offset`] would enter nothing.
    pub fn knows_wall_offset(&self, read: i64) -> bool {
        let is_known = |known: &i64| known.abs_diff(read) < WALL_STEP_NS as u64;
        self.wall_offsets.len() >= TAI_OFFSETS_MAX || self.wall_offsets.iter().any(is_known)
    }

    /// Enters the present offset of the wall clock, if it is none of those that are known.
    pub fn set_wall_offset(&mut self, read: i64) {
        if !self.knows_wall_offset(read) {
            self.wall_offsets.push(read);
        }
    }

    /// The least and the greatest that it was between two moments, seconds.
    pub fn tai_range(&self, from: u64, until: u64) -> RangeInclusive<i64> {
        let between =
            self.tai_offsets.iter().filter(|offset| (from..=until).contains(&offset.since));
        let all = between.map(|offset| offset.seconds).chain([self.tai_offset(until)]);
        let begin = self.tai_offset(from);
        let (least, greatest) = all.fold((begin, begin), |(a, b), of| (a.min(of), b.max(of)));
        least..=greatest
    }

    /// Enters the present offset, if it has changed.
    pub fn set_tai_offset(&mut self, now: u64, seconds: i64) {
        if self.tai_offset(now) != seconds && self.tai_offsets.len() < TAI_OFFSETS_MAX {
            self.tai_offsets.push(TaiOffset { since: now, seconds });
        }
    }
}

/// One system call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Syscall {
    /// Its number in its table.
    pub nr: u16,
    /// Its name, as in the manual.
    pub name: String,
    /// Its arguments; `None` where the kernel does not publish them (six are then recorded).
    pub args: Option<Vec<Argument>>,
}

/// One argument, as the kernel's tracepoint format publishes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argument {
    /// Its name in the kernel.
    pub name: String,
    /// Its C type, without `__user`.
    pub ctype: String,
}

/// The document's text.
pub fn to_json(meta: &Meta) -> Result<String, MetaError> {
    Ok(serde_json::to_string(meta)?)
}

/// The document from its text.
pub fn from_json(text: &str) -> Result<Meta, MetaError> {
    Ok(parse(text.as_bytes())?)
}

/// The document from its bytes; also of a recording made before lanes were listed in it.
fn parse(text: &[u8]) -> Result<Meta, serde_json::Error> {
    let mut meta: Meta = serde_json::from_slice(text)?;
    if meta.cpus.len() > CPUS_MAX {
        let told = format!("{} CPUs, of which Linux has at most {CPUS_MAX}", meta.cpus.len());
        return Err(serde_json::Error::custom(told));
    }
    if meta.lanes.is_empty() {
        meta.lanes = Lanes::earlier(&serde_json::from_slice(text)?);
    }
    Ok(meta)
}

/// The pages of a generation (counted from 1), chunk by chunk; `half`: how many there may be,
/// [`HALF_PAGES`] in a map of [`PAGES`].
pub fn pack(meta: &Meta, generation: u64, half: usize) -> Result<Vec<[u8; PAGE_SIZE]>, MetaError> {
    let text = to_json(meta)?;
    chunks::pack(Lane::Meta, meta.session, generation, half, text.as_bytes())
        .map_err(|TooLarge { bytes, limit }| MetaError::TooLarge { bytes, limit })
}

/// Reads the document from any set of pages, in any order; what is no metadata is passed over.
/// The greatest complete generation counts; of several sessions, the one that started last.
pub fn unpack<P: AsRef<[u8]>>(pages: impl IntoIterator<Item = P>) -> Result<Meta, MetaError> {
    unpack_generation(pages).map(|(_, meta)| meta)
}

/// As [`unpack`], with the document's generation. A writer's next one is this plus 1: it then
/// leaves the half alone that holds the only document known to be whole.
pub fn unpack_generation<P: AsRef<[u8]>>(
    pages: impl IntoIterator<Item = P>,
) -> Result<(u64, Meta), MetaError> {
    let mut found = Chunks::new(Lane::Meta);
    for page in pages {
        found.add(page.as_ref());
    }
    let pages = found.pages();
    let mut best: Option<(u64, Meta)> = None;
    let mut failure = None;
    let mut done = None;
    // Greatest session first, and in it the greatest generation: the first good one of each session
    // is its own.
    for document in found.documents() {
        if done == Some(document.session) {
            continue;
        }
        match parse(&document.bytes) {
            Ok(meta) => {
                done = Some(document.session);
                if best.as_ref().is_none_or(|(_, b)| meta.started > b.started) {
                    best = Some((document.generation, meta));
                }
            }
            Err(error) => failure = Some(error.into()),
        }
    }
    best.ok_or_else(|| failure.unwrap_or(MetaError::Incomplete { pages }))
}
