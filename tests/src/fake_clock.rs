//! Another time for one program: libfaketime between it and the C library
//! (`tests/judges/faketime`).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::needs::left_out;

/// Where Debian has the library.
#[cfg(target_arch = "x86_64")]
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
/// Where Debian has the library.
#[cfg(target_arch = "aarch64")]
const LIBRARY: &str = "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1";

/// A clock that may be set while programs run by it.
#[derive(Debug)]
pub struct FakeClock {
    file: PathBuf,
}

impl FakeClock {
    /// One that goes wrong by so much, as `+20m` or `-5s`; told by a file in a directory.
    ///
    /// # Errors
    /// The library is not installed.
    pub fn new(dir: &Path, by: &str) -> Result<Self> {
        let setup = "tests/judges/faketime/setup.sh installs it";
        ensure!(Path::new(LIBRARY).is_file(), "libfaketime is not there: {setup}");
        let clock = Self { file: dir.join("clock") };
        clock.set(by)?;
        Ok(clock)
    }

    /// Leaves the calling test out where there is none to be had.
    pub fn require() {
        if !Path::new(LIBRARY).is_file() {
            left_out("libfaketime is not installed (tests/judges/faketime/setup.sh)");
        }
    }

    /// Sets it, also for programs that run.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn set(&self, by: &str) -> Result<()> {
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{by}\n"))?;
        Ok(fs::rename(new, &self.file)?)
    }

    /// Variables of the environment of a program that is to have it. Only the time of day is
    /// another one.
    pub fn variables(&self) -> [(&'static str, String); 4] {
        [
            ("LD_PRELOAD", LIBRARY.to_owned()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }
}
