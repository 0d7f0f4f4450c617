//! A control group whose members may take little memory.

use std::fs;
use std::io;
use std::ops::Deref;

use crate::control_group::ControlGroup;
use crate::needs::left_out;

/// Its members are those whose ids are written to `cgroup.procs` in its directory.
#[derive(Debug)]
pub struct MemoryGroup(ControlGroup);

impl MemoryGroup {
    /// One of at most so many bytes, without swap.
    ///
    /// Where the machine has no memory controller, the test is left out ([`left_out`]).
    pub fn make(bytes: u64) -> Self {
        Self::try_make(bytes).unwrap_or_else(|e| {
            left_out(&format!("no control group with a limit to its memory ({e})"))
        })
    }

    fn try_make(bytes: u64) -> io::Result<Self> {
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
