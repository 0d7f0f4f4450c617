//! Names of the kernel's functions that stacks go through: what events have is numbers, and a
//! reader on another machine, or after the next boot, can't ask.
//!
//! The probes enter each frame that a stack has into a table of the kernel's memory (map `frames`),
//! whoever reads the events, and whether a daemon runs. Here the new ones are looked up again and
//! again, by a program in the kernel (`symbol`): the kernel says to that what it would say in its
//! own log, so the daemon needs no right to read /proc/kallsyms, and modules that come and go are
//! no case of their own. Bounds: the table's [`FRAMES`] frames, and `BYTES_MAX` of the metadata. Once
//! one of them is reached, the metadata say so; a frame beyond it, or in a module that was gone
//! before it was looked up, stays a number.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use flightrec_format::abi::kinds::Kind;
use flightrec_format::abi::probe::{FRAME_PAGES, FRAME_WORDS, FRAMES, SYMBOL_TEXT};
use flightrec_format::live::map::ArrayMap;
use flightrec_format::live::sys;
use flightrec_format::meta::{Lacking, Meta, Symbol};
use flightrec_format::symbols;
use tracing::warn;

use crate::attachments::SYMBOL;
use crate::load;

/// Most bytes of the metadata that the names take; each takes [`bytes`].
pub const BYTES_MAX: usize = 512 << 10;
/// What the metadata's `lacking` has as program where there was no room for a name.
const NO_ROOM: &str = "symbol:room";

/// What names the functions of a recording's stacks.
#[derive(Debug)]
pub struct Symbols {
    /// `None`: this kernel, or this recording, has no such program.
    asked: Option<Asked>,
    /// The table as it was at the last look. A frame that stands there has been looked up.
    seen: Mutex<Vec<u32>>,
}

#[derive(Debug)]
struct Asked {
    program: OwnedFd,
    frames: ArrayMap,
    text: ArrayMap,
}

/// What a look at the table found that a recording's metadata do not say yet.
#[derive(Debug, Default)]
pub struct News {
    /// Functions.
    pub functions: Vec<Symbol>,
    /// That there was no room for some.
    pub lacking: Option<Lacking>,
}

impl Symbols {
    /// Those of the recording in a directory.
    pub fn open(dir: &Path) -> Self {
        let map = |name: &str| ArrayMap::open(&dir.join("maps").join(name), true);
        let asked = || -> io::Result<Asked> {
            Ok(Asked {
                program: sys::obj_get(&dir.join("progs").join(SYMBOL))?,
                frames: map(load::FRAMES)?,
                text: map(load::SYMBOL_TEXT)?,
            })
        };
        // Why there is none, the recording's metadata say.
        Self { asked: asked().ok(), seen: Mutex::new(vec![0; FRAMES]) }
    }

    /// What is new since the last look; the names take no more than `room` bytes.
    pub fn refresh(&self, meta: &Meta, room: usize) -> News {
        let Some(asked) = self.asked.as_ref() else { return News::default() };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut frames = asked.new_frames(&seen);
        let why_full = || "the table of frames is full".to_owned();
        let mut lacking = asked.is_full().then(why_full);
        frames.sort_unstable_by_key(|(_, frame)| *frame);
        let mut room = Room::of(meta).within(room);
        let known = symbols::Symbols::new(meta);
        let mut functions: Vec<Symbol> = Vec::new();
        for (place, frame) in frames {
            // They are in order, so what is new is the function of the frame before, or another.
            let is_last = functions.last().is_some_and(|of| has(of, frame));
            let is_known = is_last || known.find(frame).is_some();
            let found = if is_known { Ok(None) } else { asked.look_up(frame) };
            match found {
                Ok(Some(symbol)) if room.take(&symbol) => functions.push(symbol),
                Ok(Some(_)) => lacking = Some("the metadata have no room for more".into()),
                Ok(None) => {}
                // At the next look again, as the frames after it.
                Err(e) => {
                    warn!("the kernel did not name a function of a stack: {e}");
                    break;
                }
            }
            if let Some(seen) = seen.get_mut(place) {
                *seen = frame;
            }
        }
        let is_told = meta.lacking.iter().any(|of| of.program == NO_ROOM);
        let lacking = lacking.filter(|_| !is_told).map(|why| Lacking {
            program: NO_ROOM.into(),
            what: "names of some functions in stacks".into(),
            kinds: [Kind::Stack, Kind::Sample].map(|kind| kind.name().to_owned()).to_vec(),
            why,
        });
        News { functions, lacking }
    }
}

/// Whether a frame is in a function.
fn has(symbol: &Symbol, frame: u32) -> bool {
    frame.wrapping_sub(1).wrapping_sub(symbol.at) < symbol.size
}

impl Asked {
    /// What is in the table and was not seen there, with its place.
    fn new_frames(&self, seen: &[u32]) -> Vec<(usize, u32)> {
        let mut page = vec![0; FRAME_WORDS * size_of::<u32>()];
        let mut new = Vec::new();
        for (entry, seen) in seen.chunks(FRAME_WORDS).enumerate() {
            if self.frames.read(entry, 0, &mut page) {
                let (words, _) = page.as_chunks();
                let frames = words.iter().map(|word| u32::from_le_bytes(*word));
                let places = frames.zip(seen).enumerate();
                let is_new = places.filter(|(_, (frame, seen))| frame != *seen);
                new.extend(is_new.map(|(at, (frame, _))| (entry * FRAME_WORDS + at, frame)));
            }
        }
        new
    }

    /// Whether a frame found no place in the table.
    fn is_full(&self) -> bool {
        let mut word = [0; 8];
        self.frames.read(FRAME_PAGES, 0, &mut word) && word != [0; 8]
    }

    /// Asks the kernel. `None`: it knows nothing there.
    fn look_up(&self, frame: u32) -> io::Result<Option<Symbol>> {
        sys::prog_run(self.program.as_fd(), &[u64::from(frame)], None)?;
        let mut text = [0; SYMBOL_TEXT];
        self.text.read(0, 0, &mut text);
        Ok(parse(frame, &text))
    }
}

/// What the kernel says of a return address: `function+0x12/0x345`, and the module after it,
/// as `[ext4]`; where it knows nothing, the address, which goes no further. Names that are cut at
/// the end of the text are told from whole ones by their missing length.
fn parse(frame: u32, text: &[u8]) -> Option<Symbol> {
    let end = text.iter().position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(text.get(..end)?).ok()?;
    if !text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
        return None;
    }
    let (place, module) = text.split_once(" [").map_or((text, None), |(a, b)| (a, Some(b)));
    // The name of a module of a kernel that was built so is followed by its build id.
    let module = module.and_then(|module| module.strip_suffix(']')?.split(' ').next());
    let (place, size) = place.rsplit_once("/0x")?;
    let (name, offset) = place.rsplit_once("+0x")?;
    let (size, offset) =
        (u32::from_str_radix(size, 16).ok()?, u32::from_str_radix(offset, 16).ok()?);
    let name = module.map_or_else(|| name.to_owned(), |module| format!("{name} [{module}]"));
    let symbol = Symbol { at: frame.wrapping_sub(offset), size, name };
    has(&symbol, frame).then_some(symbol)
}

/// What a function takes of the metadata: in JSON brackets, commas, quotes, two numbers, its name.
pub fn bytes(symbol: &Symbol) -> usize {
    28 + symbol.name.len()
}

/// Bytes that are left for names.
struct Room(usize);

impl Room {
    fn of(meta: &Meta) -> Self {
        Self(BYTES_MAX.saturating_sub(meta.symbols.iter().map(bytes).sum()))
    }

    /// The same, but no more than so many bytes.
    fn within(self, bytes: usize) -> Self {
        Self(self.0.min(bytes))
    }

    /// `false`: there is none for it.
    fn take(&mut self, symbol: &Symbol) -> bool {
        let left = self.0.checked_sub(bytes(symbol));
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<Symbol> {
        let mut bytes = [0; SYMBOL_TEXT];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        parse(1000, &bytes)
    }

    #[test]
    fn what_the_kernel_says_of_an_address() {
        let symbol = |at, size, name: &str| Some(Symbol { at, size, name: name.into() });
        assert_eq!(parsed("vfs_read+0x10/0x200"), symbol(984, 512, "vfs_read"));
        assert_eq!(parsed("read+0x64/0x65 [ext4]"), symbol(900, 101, "read [ext4]"));
        assert_eq!(
            parsed("read+0x64/0x64 [ext4 0123456789abcdef]"),
            symbol(900, 100, "read [ext4]")
        );
        assert_eq!(parsed("a::<b+0x1>+0x1/0x9"), symbol(999, 9, "a::<b+0x1>"));
        // Unknown, cut, after the function's end, at its beginning.
        for nothing in
            ["0xffffffff81234567", "", "vfs_read", "vfs_read+0x10/", "f+0x12/0x11", "f+0x0/0x11"]
        {
            assert_eq!(parsed(nothing), None, "{nothing}");
        }
        assert_eq!(parse(1000, &[b'a'; SYMBOL_TEXT]), None, "no end");
        assert_eq!(parse(1000, b"\x1b+0x1/0x2\0"), None);
    }

    #[test]
    fn names_are_bounded() {
        let long = Symbol { at: 0, size: 1, name: "x".repeat(SYMBOL_TEXT) };
        let mut room = Room::of(&Meta::default());
        let taken = (0..20_000).take_while(|_| room.take(&long)).count();
        assert_eq!(taken, BYTES_MAX / (28 + SYMBOL_TEXT));
        let meta = Meta { symbols: vec![long.clone(); taken], ..Meta::default() };
        assert!(!Room::of(&meta).take(&long), "what is there counts");
        let little = || Room::of(&Meta::default()).within(28 + SYMBOL_TEXT);
        assert!(little().take(&long) && !little().within(28).take(&long));
        let short = Symbol { at: 0, size: 1, name: String::new() };
        let json = serde_json::to_string(&Symbol { at: u32::MAX, size: 99_999, ..short }).unwrap();
        assert!(json.len() < 28, "{json}");
    }
}
