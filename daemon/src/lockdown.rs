//! Whether the kernel lets BPF programs read its memory.
//!
//! A kernel that is locked down for confidentiality does not: it knows no `bpf_probe_read_kernel`
//! then (`bpf_base_func_proto`, kernel/bpf/helpers.c, and `LOCKDOWN_BPF_READ_KERNEL`,
//! include/linux/security.h, Linux 6.1), and lets nobody read tracefs (`LOCKDOWN_TRACEFS`). Locked
//! down for integrity, as under Secure Boot, it does.

use std::fs;
use std::path::Path;

use thiserror::Error;

/// Where the kernel says how it is locked down, with the mode in force in brackets
/// (`lockdown_read`, security/lockdown/lockdown.c).
pub const FILE: &str = "/sys/kernel/security/lockdown";

/// The kernel is locked down, so that nothing can be recorded.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "this kernel is locked down (confidentiality), so no BPF program may read its memory, and \
     flightd can't record; boot it with lockdown=integrity, which Secure Boot asks for as well, or \
     without that parameter"
)]
pub struct LockedDown;

/// Whether the kernel is locked down too far; no, where it does not say.
pub fn check(file: &Path) -> Result<(), LockedDown> {
    match fs::read_to_string(file) {
        Ok(modes) if modes.contains("[confidentiality]") => Err(LockedDown),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_modes_one_is_too_much() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("lockdown");
        assert_eq!(check(&file), Ok(()), "a kernel without lockdown");
        for (modes, is_too_much) in [
            ("[none] integrity confidentiality\n", false),
            ("none [integrity] confidentiality\n", false),
            ("none integrity [confidentiality]\n", true),
        ] {
            fs::write(&file, modes).unwrap();
            assert_eq!(check(&file).is_err(), is_too_much, "{modes}");
        }
    }
}
