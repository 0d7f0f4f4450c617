//! What keeps out of packages where and when they were built: programs tell no path of the machine,
//! and the only time in archives is the commit's.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{read, repository};

/// What stands in programs in the place of the repository's path, and of cargo's home.
const REPOSITORY: &str = "/flightrec";
const CARGO_HOME: &str = "/cargo";
/// What cargo separates the words of `CARGO_ENCODED_RUSTFLAGS` by.
const SEPARATOR: &str = "\u{1f}";
/// The variable that gives packages their time, s since 1970
/// (<https://reproducible-builds.org/specs/source-date-epoch/>).
const EPOCH: &str = "SOURCE_DATE_EPOCH";
/// The folders whose paths a build must not tell, and what it tells instead.
fn places() -> Vec<(PathBuf, &'static str)> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or(home);
    let cargo_home = cargo_home.map(|path| (path, CARGO_HOME));
    [(repository(), REPOSITORY)].into_iter().chain(cargo_home).collect()
}

/// Flags for the Rust compiler, one behind the other as in `CARGO_ENCODED_RUSTFLAGS`; `first`: what
/// is wanted beside them.
pub(crate) fn rust_flags(first: &[&str]) -> String {
    let flag = |(from, to): (PathBuf, _)| format!("--remap-path-prefix={}={to}", from.display());
    let flags = first.iter().map(|&flag| flag.to_owned()).chain(places().into_iter().map(flag));
    flags.collect::<Vec<_>>().join(SEPARATOR)
}

/// Has a build tell no path.
pub(crate) fn placeless(command: &mut Command) -> &mut Command {
    // For what is C in the dependencies: the linker's build id covers its debug information.
    let flag = |(from, to): (PathBuf, _)| format!("-ffile-prefix-map={}={to}", from.display());
    let flags: Vec<String> = places().into_iter().map(flag).collect();
    command.env("CARGO_ENCODED_RUSTFLAGS", rust_flags(&[])).env("CFLAGS", flags.join(" "))
}

/// Gives what a command packs the time of the commit, or the one that the variable has.
///
/// # Errors
/// Of a tree that is no checkout, no time is known.
pub(crate) fn timed(command: &mut Command) -> Result<&mut Command> {
    let time = match std::env::var(EPOCH) {
        Ok(time) => time,
        Err(_) => {
            read(Command::new("git").current_dir(repository()).args(["log", "-1", "--format=%ct"]))
                .with_context(|| format!("the time of the commit; without git, set {EPOCH}"))?
        }
    };
    Ok(command.env(EPOCH, time.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_name_both_places_behind_what_is_wanted() {
        let flags = rust_flags(&["-Ctarget-feature=+crt-static"]);
        let mut words = flags.split(SEPARATOR);
        assert_eq!(words.next(), Some("-Ctarget-feature=+crt-static"));
        let repository = format!("--remap-path-prefix={}=/flightrec", repository().display());
        assert_eq!(words.next(), Some(&*repository));
        assert!(words.all(|word| word.ends_with("=/cargo")), "{flags}");
    }

    #[test]
    fn the_time_is_the_commits_unless_one_is_given() {
        let mut command = Command::new("true");
        // In a tree without git there is none.
        let Ok(command) = timed(&mut command) else { return };
        let time = command.get_envs().find(|(name, _)| *name == EPOCH).and_then(|(_, time)| time);
        let time: u64 = time.unwrap().to_str().unwrap().parse().unwrap();
        assert!(time > 1_000_000_000, "{time}");
    }
}
