//! Finding the recording below a bpffs directory.
//!
//! A generation is a directory `gen-<session>` with `maps/`, `progs/` and `links/`. One that is
//! still being made, or removed, has another name, and does not count. (A bpffs takes no names with
//! a dot in them: `bpf_lookup`, kernel/bpf/inode.c, Linux 6.1.)

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::LiveError;
use super::map::ArrayMap;
use super::tables::read_meta;

/// What names a complete generation, before its session id in 16 hexadecimal digits.
pub const PREFIX: &str = "gen-";

/// A recording's directory in a bpffs.
#[derive(Debug, Clone, Copy)]
pub struct Generation;

impl Generation {
    /// The directory of a session's generation.
    pub fn dir(bpffs: &Path, session: u64) -> PathBuf {
        bpffs.join(format!("{PREFIX}{session:016x}"))
    }

    /// The session that a directory's name tells.
    pub fn session(dir: &Path) -> Option<u64> {
        let digits = dir.file_name()?.to_str()?.strip_prefix(PREFIX)?;
        let hex =
            digits.len() == 16 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if hex { u64::from_str_radix(digits, 16).ok() } else { None }
    }

    /// All complete generations, in no order.
    pub fn all(bpffs: &Path) -> Result<Vec<PathBuf>, LiveError> {
        let entries = match std::fs::read_dir(bpffs) {
            Ok(entries) => entries,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound) => {
                return Err(LiveError::NoRecording(bpffs.into()));
            }
            Err(e) => return Err(LiveError::at(bpffs, e)),
        };
        if !is_bpffs(bpffs).map_err(|e| LiveError::at(bpffs, e))? {
            return Err(LiveError::NotBpffs(bpffs.into()));
        }
        let mut dirs = Vec::new();
        for entry in entries {
            let path = entry.map_err(|e| LiveError::at(bpffs, e))?.path();
            if Self::session(&path).is_some() {
                dirs.push(path);
            }
        }
        Ok(dirs)
    }

    /// The newest complete generation: the one whose metadata says that it started last. One that
    /// vanishes or is unreadable while another is fine does not count.
    pub fn find(bpffs: &Path) -> Result<PathBuf, LiveError> {
        let mut best: Option<(u64, PathBuf)> = None;
        let mut failure = None;
        for dir in Self::all(bpffs)? {
            match started(&dir) {
                Ok(started) if best.as_ref().is_none_or(|(t, _)| started > *t) => {
                    best = Some((started, dir));
                }
                Ok(_) => {}
                Err(e) => failure = Some(e),
            }
        }
        match (best, failure) {
            (Some((_, dir)), _) => Ok(dir),
            (None, Some(failure)) => Err(failure),
            (None, None) => Err(LiveError::NoRecording(bpffs.into())),
        }
    }
}

/// When a generation's recording began.
fn started(dir: &Path) -> Result<u64, LiveError> {
    let path = dir.join("maps/meta");
    let map = ArrayMap::open(&path, false).map_err(|e| LiveError::at(&path, e))?;
    Ok(read_meta(&map)?.started)
}

/// Whether a directory is on a bpffs.
fn is_bpffs(dir: &Path) -> io::Result<bool> {
    let c = CString::new(dir.as_os_str().as_bytes())
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut stat = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: a NUL-terminated path and a buffer of the right type, both live.
    if unsafe { libc::statfs(c.as_ptr(), stat.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: statfs succeeded, so it filled the buffer.
    let kind = unsafe { stat.assume_init() }.f_type;
    Ok(kind as u64 & 0xffff_ffff == BPF_FS_MAGIC)
}

/// `BPF_FS_MAGIC` of `include/uapi/linux/magic.h`.
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_generations_have_a_session() {
        let session = |name: &str| Generation::session(Path::new(name));
        assert_eq!(session("/x/gen-00000000deadbeef"), Some(0xdead_beef));
        assert_eq!(Generation::session(&Generation::dir(Path::new("/x"), 7)), Some(7));
        for bad in [
            ".new-00000000deadbeef",
            "gen-deadbeef",
            "gen-00000000DEADBEEF",
            "gen-+0000000deadbeef",
            "/",
        ] {
            assert_eq!(session(bad), None, "{bad}");
        }
    }

    #[test]
    fn directories_without_a_recording_say_so() {
        assert!(matches!(
            Generation::find(Path::new("/nonexistent/flightrec")),
            Err(LiveError::NoRecording(_))
        ));
        assert!(matches!(Generation::find(Path::new("/proc")), Err(LiveError::NotBpffs(_))));
    }
}
