//! How many files may be open at once: a history may lie in thousands.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files as far as this process may. The usual 1024 is kept low for
/// programs that use select(2) only (systemd.exec(5), "LimitNOFILE="), which this one does not.
pub fn raise_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // Where it can't be raised, a history in too many files tells so when it is read.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
