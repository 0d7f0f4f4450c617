//! Programs for aarch64, run by this machine's kernel, which hands them to QEMU's emulation of a
//! process (Documentation/admin-guide/binfmt-misc.rst). Where the machine is set up for that
//! already, it is left as it is.

use std::fs;
use std::path::Path;

use crate::architecture::Architecture;
use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount, umount};

/// Debian's rule for the kernel (package qemu-user-static). By its flag F the kernel opens the
/// emulation once, so it need not be in a root file system whose programs are run.
pub const RULE: &str = "/usr/lib/binfmt.d/qemu-aarch64.conf";
/// Where rules are.
const RULES: &str = "/proc/sys/fs/binfmt_misc";
/// Its name there.
const NAME: &str = "qemu-aarch64";

/// While this is, programs for aarch64 can be run.
#[derive(Debug)]
pub struct Foreign {
    mounted: bool,
    added: bool,
}

impl Foreign {
    /// Adds what is missing.
    ///
    /// # Errors
    /// The kernel has no `binfmt_misc`, or there is no emulation.
    pub fn new() -> Result<Self> {
        let mut foreign = Self { mounted: false, added: false };
        if Architecture::HERE == Architecture::Aarch64 {
            return Ok(foreign);
        }
        let register = Path::new(RULES).join("register");
        if !register.exists() {
            let kind = Some("binfmt_misc");
            mount(kind, RULES, kind, MsFlags::empty(), None::<&str>)
                .with_context(|| format!("binfmt_misc at {RULES}"))?;
            foreign.mounted = true;
        }
        if !Path::new(RULES).join(NAME).exists() {
            let rule =
                fs::read(RULE).with_context(|| format!("{RULE}: install qemu-user-static"))?;
            fs::write(&register, rule).with_context(|| register.display().to_string())?;
            foreign.added = true;
        }
        Ok(foreign)
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let rule = Path::new(RULES).join(NAME);
        // What can't be undone stays as packages leave it: this machine's programs don't notice.
        if self.added
            && let Err(e) = fs::write(&rule, "-1")
        {
            eprintln!("{}: {e}", rule.display());
        }
        if self.mounted
            && let Err(e) = umount(RULES)
        {
            eprintln!("{RULES}: {e}");
        }
    }
}
