//! Names of the functions that programs run: what a sample has is a byte of a binary's file; the
//! file itself says which function that is.
//!
//! A file is only believed if it has the build id that was recorded, so a reader on any machine
//! that has the same binaries gives the same names, and one that has others gives none. The
//! recording may be a stranger's, and so may be the file: nothing but regular files is opened, and
//! what is read is bounded (`elf`). Files are read when the first of their frames is asked for.

mod bounded;
mod elf;
mod operand;
mod probed;
mod program;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use flightrec_format::abi::probe::BINARIES;
use flightrec_format::abi::record::sample::UserFrame;
use flightrec_format::meta::{self, Meta};
use rustc_hash::FxHashMap;

use self::elf::Functions;
pub use self::probed::Functions as ProbedFunctions;
pub use self::program::{Mark, Program, ProgramError, Table};

/// Most bytes that the functions of all files take.
const BYTES_MAX: usize = 192 << 20;
/// Where separate debug files are, by build id, as GDB looks for them.
const DEBUG_DIR: &str = "/usr/lib/debug/.build-id";

/// The binaries of a recording.
#[derive(Debug, Default)]
pub struct Binaries {
    known: FxHashMap<u16, meta::Binary>,
    read: Mutex<Read>,
}

/// What was read of their files.
#[derive(Debug, Default)]
struct Read {
    functions: FxHashMap<u16, Option<Arc<Functions>>>,
    bytes: usize,
}

/// What a program's frame is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place<'a> {
    /// The function, and the byte of it; `None`: not known.
    pub function: Option<(String, u64)>,
    /// The binary; `None`: the frame is in none, or the recording does not tell in which.
    pub binary: Option<&'a meta::Binary>,
}

impl Binaries {
    /// Those that a recording's metadata name, as many as a recorder names.
    pub fn new(meta: &Meta) -> Self {
        let all = meta.binaries.iter().take(BINARIES);
        let known = all.map(|of| (of.number, of.clone())).collect();
        Self { known, read: Mutex::default() }
    }

    /// What a frame is in. `ran`: it is the instruction that ran; else one that is returned to,
    /// which is after a call, and that may be a function's last instruction.
    pub fn find(&self, frame: UserFrame, ran: bool) -> Place<'_> {
        let binary = self.known.get(&frame.binary);
        let functions = binary.and_then(|of| self.functions(of));
        let function = functions.and_then(|of| {
            let (name, offset) = of.find(frame.at.checked_sub(u64::from(!ran))?)?;
            Some((name.to_owned(), offset.checked_add(u64::from(!ran))?))
        });
        Place { function, binary }
    }

    /// The functions of a binary's file, if it is there, the same one, and tells.
    fn functions(&self, binary: &meta::Binary) -> Option<Arc<Functions>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(functions) = read.functions.get(&binary.number) {
            return functions.clone();
        }
        let room = BYTES_MAX.saturating_sub(read.bytes);
        let path = Path::new(&binary.path);
        let functions = build_id(&binary.build_id).filter(|_| path.is_absolute()).and_then(|id| {
            Functions::read(path, debug_file(&binary.build_id).as_deref(), &id, room)
        });
        read.bytes += functions.as_ref().map_or(0, Functions::bytes);
        let functions = functions.map(Arc::new);
        read.functions.insert(binary.number, functions.clone());
        functions
    }
}

/// A build id's bytes.
fn build_id(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().as_chunks::<2>().0;
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.iter().map(byte).collect()
}

/// Where a binary's separate debug file would be.
fn debug_file(build_id: &str) -> Option<PathBuf> {
    let is_hex = build_id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (first, rest) = build_id.split_at_checked(2).filter(|_| is_hex)?;
    Some(Path::new(DEBUG_DIR).join(first).join(format!("{rest}.debug")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_known_as_a_recorder_names() {
        let of = |number| meta::Binary { number, build_id: String::new(), path: String::new() };
        let meta = Meta { binaries: (1..=u16::MAX).map(of).collect(), ..Meta::default() };
        let binaries = Binaries::new(&meta);
        let known = |binary| {
            let frame = UserFrame { binary, at: u64::MAX };
            binaries.find(frame, false).binary.is_some()
        };
        assert_eq!((known(BINARIES as u16), known(BINARIES as u16 + 1)), (true, false));
    }
}
