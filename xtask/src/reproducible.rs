//! `cargo xtask reproducible`, and what makes two builds of one commit the same bytes: programs
//! that do not tell where they were built, and packages whose only time is the commit's.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::command::{cargo, read, repository, run as run_command, tools};

/// What stands in programs in the place of the repository's path, and of cargo's home.
const REPOSITORY: &str = "/flightrec";
const CARGO_HOME: &str = "/cargo";
/// What cargo separates the words of `CARGO_ENCODED_RUSTFLAGS` by.
const SEPARATOR: &str = "\u{1f}";
/// The variable that gives packages their time, s since 1970
/// (<https://reproducible-builds.org/specs/source-date-epoch/>).
const EPOCH: &str = "SOURCE_DATE_EPOCH";
/// The tasks that make packages, and where each leaves them.
const TASKS: [(&str, &str); 2] = [("deb", "target/debian"), ("rpm", "target/rpm/RPMS/x86_64")];
/// Programs in them, so that it is seen which one differs.
const PROGRAMS: [&str; 4] = [
    "target/release/flightd",
    "target/release/flightctl",
    "target/release/flight-ship",
    "target/static/flightctl",
];

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

/// Makes the packages here and in a fresh clone of the same commit in `folder`, and compares all of
/// them byte by byte.
///
/// # Errors
/// Something is not committed; a build fails; two files differ.
pub(crate) fn run(folder: &Path) -> Result<()> {
    let git = |args: &[&str]| read(Command::new("git").current_dir(repository()).args(args));
    let changed = git(&["status", "--porcelain"])?;
    ensure!(changed.is_empty(), "reproducible: not committed, so no clone has it:\n{changed}");
    let commit = git(&["rev-parse", "HEAD"])?;
    ensure!(!folder.exists(), "{} is there already", folder.display());
    run_command(Command::new("git").args(["clone", "--quiet"]).arg(repository()).arg(folder))?;
    let clone = folder.canonicalize().with_context(|| folder.display().to_string())?;
    run_command(Command::new("git").current_dir(&clone).args([
        "checkout",
        "--quiet",
        commit.trim(),
    ]))?;
    // What compiles is not what is compared; building these tools takes minutes.
    fs::create_dir_all(clone.join("target"))?;
    symlink(tools(), clone.join("target/tools"))?;
    for (task, _) in TASKS {
        for place in [&repository(), &clone] {
            println!("reproducible: {task} in {}", place.display());
            run_command(cargo().current_dir(place).args(["xtask", task]))?;
        }
    }
    let [here, there] = [hashes(&repository())?, hashes(&clone)?];
    let mut differ = Vec::new();
    for (name, hash) in &here {
        let other = there.get(name);
        let verdict = if other == Some(hash) { "same" } else { "DIFFERS" };
        println!("{verdict} {hash} {name}");
        if other != Some(hash) {
            differ.push(name.as_str());
        }
    }
    if !differ.is_empty() {
        bail!("reproducible: {} of commit {}", differ.join(", "), commit.trim());
    }
    println!("reproducible: {} files of commit {}", here.len(), commit.trim());
    Ok(())
}

/// The sums of a tree's packages and programs, by their paths in it.
fn hashes(tree: &Path) -> Result<BTreeMap<String, String>> {
    let mut files: Vec<PathBuf> = PROGRAMS.iter().map(|file| tree.join(file)).collect();
    for (task, folder) in TASKS {
        let folder = tree.join(folder);
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        let paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.extend(paths.into_iter().filter(|path| path.extension().is_some_and(|e| e == task)));
    }
    let hash = |path: &PathBuf| {
        let text = read(Command::new("sha256sum").arg(path))?;
        let hash = text.split_whitespace().next().context("sha256sum said nothing")?;
        let name = path.strip_prefix(tree).unwrap_or(path).display().to_string();
        Ok((name, hash.to_owned()))
    };
    files.iter().map(hash).collect()
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
