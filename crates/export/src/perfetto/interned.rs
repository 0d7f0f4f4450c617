//! What is told once and then goes by a number.

use rustc_hash::FxHashMap;

use super::field::interned as field;
use super::proto::{bytes, message, number};
use crate::stacks::Frame;

/// Most bytes of texts, and most entries, that are remembered; then all is forgotten, and told
/// again.
const BYTES_MAX: usize = 16 << 20;
const ENTRIES_MAX: usize = 200_000;

type Texts = FxHashMap<Box<str>, u64>;

/// The tables of a sequence.
#[derive(Debug, Default)]
pub(super) struct Interned {
    categories: Texts,
    names: Texts,
    keys: Texts,
    functions: Texts,
    paths: Texts,
    build_ids: Texts,
    symbols: Texts,
    /// By path and build id.
    mappings: FxHashMap<(u64, u64), u64>,
    /// By function and mapping.
    frames: FxHashMap<(u64, u64), u64>,
    stacks: FxHashMap<Box<[u64]>, u64>,
    /// What the next packet has to tell.
    fresh: Vec<u8>,
    bytes: usize,
    entries: usize,
}

impl Interned {
    /// Whether it is time to forget all.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > BYTES_MAX || self.entries > ENTRIES_MAX
    }

    /// Appends what is new since the last packet, as `field` of a packet.
    pub(super) fn tell(&mut self, of: u64, out: &mut Vec<u8>) {
        if !self.fresh.is_empty() {
            bytes(of, &self.fresh, out);
            self.fresh.clear();
        }
    }

    /// Whether there is something new.
    pub(super) fn is_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    pub(super) fn category(&mut self, text: &str) -> u64 {
        self.text(|all| &mut all.categories, field::CATEGORIES, text)
    }

    pub(super) fn name(&mut self, text: &str) -> u64 {
        self.text(|all| &mut all.names, field::EVENT_NAMES, text)
    }

    pub(super) fn key(&mut self, text: &str) -> u64 {
        self.text(|all| &mut all.keys, field::ANNOTATION_NAMES, text)
    }

    pub(super) fn symbol(&mut self, text: &str) -> u64 {
        self.text(|all| &mut all.symbols, field::KERNEL_SYMBOLS, text)
    }

    /// A stack, whose innermost frame is the first.
    pub(super) fn stack(&mut self, frames: &[Frame]) -> u64 {
        let ids: Box<[u64]> = frames.iter().rev().map(|frame| self.frame(frame)).collect();
        if let Some(id) = self.stacks.get(&ids) {
            return *id;
        }
        let id = self.stacks.len() as u64 + 1;
        message(field::CALLSTACKS, &mut self.fresh, |out| {
            number(field::IID, id, out);
            // A repeated field that is not packed.
            for frame in &ids {
                number(field::STACK_FRAMES, *frame, out);
            }
        });
        self.count(ids.len() * 8);
        self.stacks.insert(ids, id);
        id
    }

    fn frame(&mut self, frame: &Frame) -> u64 {
        let function = self.text(|all| &mut all.functions, field::FUNCTIONS, &frame.function);
        let path = self.text(|all| &mut all.paths, field::PATHS, &frame.file);
        let build = match &*frame.build_id {
            "" => 0,
            id => self.text(|all| &mut all.build_ids, field::BUILD_IDS, id),
        };
        let mapping = self.mappings.get(&(path, build)).copied().unwrap_or_else(|| {
            let id = self.mappings.len() as u64 + 1;
            message(field::MAPPINGS, &mut self.fresh, |out| {
                number(field::IID, id, out);
                if build != 0 {
                    number(field::MAPPING_BUILD_ID, build, out);
                }
                number(field::MAPPING_PATH, path, out);
            });
            self.count(16);
            self.mappings.insert((path, build), id);
            id
        });
        if let Some(id) = self.frames.get(&(function, mapping)) {
            return *id;
        }
        let id = self.frames.len() as u64 + 1;
        message(field::FRAMES, &mut self.fresh, |out| {
            number(field::IID, id, out);
            number(field::FRAME_FUNCTION, function, out);
            number(field::FRAME_MAPPING, mapping, out);
        });
        self.count(16);
        self.frames.insert((function, mapping), id);
        id
    }

    fn text(&mut self, table: impl Fn(&mut Self) -> &mut Texts, of: u64, text: &str) -> u64 {
        let known = table(self);
        if let Some(id) = known.get(text) {
            return *id;
        }
        let id = known.len() as u64 + 1;
        known.insert(text.into(), id);
        message(of, &mut self.fresh, |out| {
            number(field::IID, id, out);
            bytes(field::TEXT, text.as_bytes(), out);
        });
        self.count(text.len());
        id
    }

    fn count(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.entries += 1;
    }
}
