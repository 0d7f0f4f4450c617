//! All tests have the same environment, whoever runs them.
//!
//! The programs ask it for the time zone, the language, colours, the terminal's width, credentials,
//! proxies, and their own directories and limits. Of what the caller has set, [`KEPT`] is kept; what
//! else a test needs, it sets for its command. New files have the usual mode.

use std::env;

use nix::sys::stat::{Mode, umask};

/// How names begin of what is kept: where programs and files are, and what is for tests.
const KEPT: [&str; 16] = [
    "CARGO",
    "CI",
    "FLIGHTREC_BIN_DIR",
    "FLIGHTREC_FOLLOW_SECONDS",
    "FLIGHTREC_STACKS_SECONDS",
    "FLIGHTREC_STORE_SECONDS",
    "FLIGHTREC_STRESS_SECONDS",
    "FLIGHTREC_WITNESS",
    "FLIGHTREC_ZOO",
    "HOME",
    "NEXTEST",
    "PATH",
    "PYENV",
    "RUST",
    "TMPDIR",
    "USER",
];

const SET: [(&str, &str); 3] = [("LC_ALL", "C.UTF-8"), ("TERM", "xterm"), ("TZ", "UTC")];

/// Run by the C library before `main`, which starts the threads of the tests.
#[used]
// SAFETY: entries of this section are pointers to functions that take nothing they need.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = make_usual;

extern "C" fn make_usual() {
    for (name, _) in env::vars_os() {
        let name_bytes = name.as_encoded_bytes();
        if !KEPT.iter().any(|kept| name_bytes.starts_with(kept.as_bytes())) {
            // SAFETY: no other thread runs yet.
            unsafe { env::remove_var(&name) };
        }
    }
    for (name, value) in SET {
        // SAFETY: as above.
        unsafe { env::set_var(name, value) };
    }
    umask(Mode::S_IWGRP | Mode::S_IWOTH);
}

#[test]
fn is_the_same_for_all() {
    let names: Vec<_> = env::vars_os().map(|(name, _)| name.into_encoded_bytes()).collect();
    let is_known = |name: &Vec<u8>| {
        KEPT.iter().any(|kept| name.starts_with(kept.as_bytes()))
            || SET.iter().any(|(set, _)| name == set.as_bytes())
    };
    assert!(names.iter().all(is_known), "{:?}", env::vars_os());
    assert!(SET.iter().all(|(name, value)| env::var(name).as_deref() == Ok(value)));
}
