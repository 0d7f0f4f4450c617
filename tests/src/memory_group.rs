//! A control group whose members may take little memory.

use std::fs;
use std::io;
use std::ops::Deref;

use crate::control_group::ControlGroup;

/// Its members are those whose ids are written to `cgroup.procs` in its directory.
#[derive(Debug)]
pub struct MemoryGroup(ControlGroup);

impl MemoryGroup {
    /// One of at most so many bytes, without swap.
    ///
    /// # Panics
    /// Where the machine has no memory controller: [`Self::try_make`] asks.
    pub fn make(bytes: u64) -> Self {
        Self::try_make(bytes).unwrap_or_else(|e| {
            panic!(
                "this test needs a control group with a limit to its memory: {e}; `cargo xtask \
                 test` leaves it out where there is none"
            )
        })
    }

    /// The same, where it can be had.
    ///
    /// # Errors
    /// No control group can be made here, or it has no memory controller.
    pub fn try_make(bytes: u64) -> io::Result<Self> {
        let group = ControlGroup::make("memory")?;
        let (files, limits) = if group.is_v2() {
            (["memory.max", "memory.swap.max"], [bytes, 0])
        } else {
            (["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"], [bytes; 2])
        };
        let [memory, swap] = files.map(|file| group.dir().join(file));
        fs::write(memory, limits[0].to_string())?;
        // Without swap there is nothing to limit.
        let _ = fs::write(swap, limits[1].to_string());
        Ok(Self(group))
    }
}

impl Deref for MemoryGroup {
    type Target = ControlGroup;

    fn deref(&self) -> &ControlGroup {
        &self.0
    }
}
