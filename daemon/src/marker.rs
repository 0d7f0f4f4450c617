//! Marks, and recorder events, into the recording: by a program in the kernel, as all that is
//! recorded is written there.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;

use flightrec_format::abi::record::{Act, STRING_MAX, kind};
use flightrec_format::live::map::ArrayMap;
use flightrec_format::live::sys;
use thiserror::Error;

/// Why a note was not recorded.
#[derive(Debug, Error)]
pub enum NoteError {
    /// The text is too long.
    #[error("the text has {0} bytes; at most {max} can be recorded", max = STRING_MAX - 1)]
    TooLong(usize),
    /// The kernel did not run the program.
    #[error("the kernel did not run the note program: {0}")]
    Run(#[from] io::Error),
    /// No CPU that has a ring took it: offline, or its lane busy each time.
    #[error("no CPU took the line; try again")]
    Refused,
}

/// The program and the map through which it gets its text.
#[derive(Debug)]
pub struct Notes {
    program: OwnedFd,
    text: Mutex<ArrayMap>,
    cpus: Vec<u16>,
    own: u32,
}

impl Notes {
    /// Opens a generation's note program; `cpus` are those with rings.
    pub fn open(generation: &Path, cpus: Vec<u16>) -> io::Result<Self> {
        let program = sys::obj_get(&generation.join("progs/note"))?;
        let own = sys::prog_run(program.as_fd(), &[0; 4], None)?;
        Ok(Self {
            program,
            cpus,
            own,
            text: Mutex::new(ArrayMap::open(&generation.join("maps/note_text"), true)?),
        })
    }

    /// This process's id as the kernel and the probes know it, whatever pid namespace it is in.
    pub fn own_tgid(&self) -> u32 {
        self.own
    }

    /// Records a user's line, on behalf of thread `tid`.
    pub fn mark(&self, text: &str, tid: u32) -> Result<(), NoteError> {
        if text.len() >= STRING_MAX {
            return Err(NoteError::TooLong(text.len()));
        }
        self.write(kind::MARK, 0, tid, text)
    }

    /// Records an act of the recorder; a text that is too long is cut.
    pub fn act(&self, act: Act, text: &str) -> Result<(), NoteError> {
        let end = text.floor_char_boundary(STRING_MAX - 1);
        self.write(kind::ACT, act as u16, self.own, &text[..end])
    }

    fn write(&self, kind: u8, aux: u16, tid: u32, text: &str) -> Result<(), NoteError> {
        let map = self
            .text
            .lock()
            .map_err(|_| io::Error::other("a thread died while it wrote a note"))?;
        let mut bytes = [0u8; STRING_MAX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        map.write(0, 0, &bytes);
        let args = [u64::from(kind), u64::from(aux), u64::from(tid), text.len() as u64];
        // A busy lane is free again within a microsecond, and the next CPU's is another.
        for cpu in self.cpus.iter().cycle().take(self.cpus.len() * 10) {
            match sys::prog_run(self.program.as_fd(), &args, Some(*cpu)) {
                Ok(0) => return Ok(()),
                Err(e) if e.raw_os_error() != Some(libc::ENXIO) => return Err(e.into()),
                _ => {}
            }
        }
        Err(NoteError::Refused)
    }
}
