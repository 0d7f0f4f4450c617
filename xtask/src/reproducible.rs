//! `cargo xtask reproducible`, and what makes two builds of one commit the same bytes: programs
//! that do not tell where they were built, and packages whose only time is the commit's.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::command::{REPOSITORY, read, repository, run as run_command, tools};

/// What stands in programs in the place of the repository's path, and of cargo's home.
const PLACE: &str = "/flightrec";
const CARGO_HOME: &str = "/cargo";
/// What cargo separates the words of `CARGO_ENCODED_RUSTFLAGS` by.
const SEPARATOR: &str = "\u{1f}";
/// The variable that gives packages their time, s since 1970
/// (<https://reproducible-builds.org/specs/source-date-epoch/>).
const EPOCH: &str = "SOURCE_DATE_EPOCH";
/// The tasks that make packages, in words.
const TASKS: [&[&str]; 6] = [
    &["deb"],
    &["deb", "--arch", "aarch64"],
    &["rpm"],
    &["tarball"],
    &["tarball", "--arch", "aarch64"],
    &["sbom"],
];
/// Where they leave them, and how many there are at least.
const FOLDERS: [(&str, usize); 4] = [
    ("target/debian", 2),
    ("target/rpm/RPMS/x86_64", 1),
    ("target/tarball", 2),
    ("target/sbom", 1),
];
/// Programs in them, so that it is seen which one differs.
const PROGRAMS: [&str; 8] = [
    "target/release/flightd",
    "target/release/flightctl",
    "target/release/flight-ship",
    "target/static/flightctl",
    "target/aarch64-unknown-linux-gnu/release/flightd",
    "target/aarch64-unknown-linux-gnu/release/flightctl",
    "target/aarch64-unknown-linux-gnu/release/flight-ship",
    "target/static/aarch64/flightctl",
];

/// Where cargo keeps the sources of dependencies.
fn cargo_home() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or(home)
}

/// The folders whose paths a build must not tell, and what it tells instead.
fn places() -> Vec<(PathBuf, &'static str)> {
    let cargo_home = cargo_home().map(|path| (path, CARGO_HOME));
    [(repository(), PLACE)].into_iter().chain(cargo_home).collect()
}

/// The first of these paths that a program's bytes have in them.
fn told<'p>(program: &[u8], places: &'p [PathBuf]) -> Option<&'p Path> {
    let has = |path: &&PathBuf| {
        let path = path.as_os_str().as_encoded_bytes();
        !path.is_empty() && program.windows(path.len()).any(|bytes| bytes == path)
    };
    places.iter().find(has).map(PathBuf::as_path)
}

/// Flags for the Rust compiler, one after the other as in `CARGO_ENCODED_RUSTFLAGS`; `first`: what
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

/// The time of the commit, or the one that the variable has: s since 1970.
///
/// # Errors
/// Of a tree that is no checkout, no time is known.
pub(crate) fn time() -> Result<String> {
    let time = match std::env::var(EPOCH) {
        Ok(time) => time,
        Err(_) => {
            read(Command::new("git").current_dir(repository()).args(["log", "-1", "--format=%ct"]))
                .with_context(|| format!("the time of the commit; without git, set {EPOCH}"))?
        }
    };
    Ok(time.trim().to_owned())
}

/// Gives what a command packs that time.
///
/// # Errors
/// As of [`time`].
pub(crate) fn timed(command: &mut Command) -> Result<&mut Command> {
    Ok(command.env(EPOCH, time()?))
}

/// Builds the current commit from nothing in two clones, one after the other, and compares what
/// they make byte by byte. Leaves what each has made in `folder`, as `1` and `2`, for a look by
/// `diffoscope` or `cmp`.
///
/// # Errors
/// Something is not committed; a build fails; two files differ.
pub(crate) fn run(folder: &Path) -> Result<()> {
    let commit = commit()?;
    ensure!(!folder.exists(), "{} is there already", folder.display());
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let folder = folder.canonicalize().with_context(|| folder.display().to_string())?;
    let mut made = Vec::new();
    for (name, place) in ["1", "2"].into_iter().zip(PLACES) {
        let clone = folder.join(place.path);
        println!("reproducible: building {commit} in {}", clone.display());
        place.clone_to(&clone, &commit)?;
        for task in TASKS {
            place.task(&clone, task)?;
        }
        let hashes = taken(&clone, &folder.join(name))?;
        // A build takes gigabytes.
        let top = Path::new(place.path).iter().next().unwrap_or(place.path.as_ref());
        fs::remove_dir_all(folder.join(top)).with_context(|| clone.display().to_string())?;
        made.push(hashes);
    }
    let [first, second] = &made[..] else { bail!("reproducible: not two builds") };
    let (text, differ) = compared(first, second);
    print!("{text}");
    ensure!(differ.is_empty(), "reproducible: {} of commit {commit}", differ.join(", "));
    println!("reproducible: {} files of commit {commit} are the same", first.len());
    Ok(())
}

/// The commit that is checked out.
///
/// # Errors
/// Something is not committed, so that what is built is of no commit.
pub(crate) fn commit() -> Result<String> {
    let git = |args: &[&str]| read(Command::new("git").current_dir(repository()).args(args));
    let changed = git(&["status", "--porcelain"])?;
    ensure!(changed.is_empty(), "not committed:\n{changed}");
    Ok(git(&["rev-parse", "HEAD"])?.trim().to_owned())
}

/// Where and how a build runs.
struct Place {
    /// Of the clone, below the folder: paths of different lengths.
    path: &'static str,
    time_zone: &'static str,
    umask: &'static str,
}

/// What differs between the two builds besides the time.
const PLACES: [Place; 2] = [
    Place { path: "clone", time_zone: "UTC0", umask: "022" },
    Place { path: "another/place/of/the-clone", time_zone: "XXX-13", umask: "027" },
];

impl Place {
    /// A command with this build's umask and time zone.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("/bin/sh");
        command.env("TZ", self.time_zone).args(["-c", "umask \"$1\"; shift; exec \"$@\"", "sh"]);
        command.arg(self.umask).arg(program);
        command
    }

    /// Runs a task of this program on the clone, as it is of the same commit.
    fn task(&self, clone: &Path, task: &[&str]) -> Result<()> {
        let program = std::env::current_exe().context("where this program is")?;
        let mut command = self.command(program);
        command.current_dir(clone).env(REPOSITORY, clone).env_remove("CARGO_TARGET_DIR");
        run_command(command.args(task))
    }

    /// Clones the repository at this commit, with the tools that it has already: building them
    /// takes minutes, and they are no part of a package.
    fn clone_to(&self, clone: &Path, commit: &str) -> Result<()> {
        let mut git = self.command("git");
        run_command(git.args(["clone", "--quiet"]).arg(repository()).arg(clone))?;
        let mut git = self.command("git");
        run_command(git.current_dir(clone).args(["checkout", "--quiet", commit]))?;
        fs::create_dir_all(tools()).context("target/tools")?;
        fs::create_dir_all(clone.join("target"))?;
        symlink(tools(), clone.join("target/tools")).context("a link to target/tools")
    }
}

/// Copies what a tree's tasks have made, and the programs in it, to a folder; their sums, by name.
fn taken(tree: &Path, to: &Path) -> Result<BTreeMap<String, String>> {
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    let mut files: Vec<PathBuf> = PROGRAMS.iter().map(|file| tree.join(file)).collect();
    // Cargo's home is the same for both builds: a path of it would be no difference.
    let places: Vec<PathBuf> = [tree.to_path_buf()].into_iter().chain(cargo_home()).collect();
    for file in &files {
        let bytes = fs::read(file).with_context(|| file.display().to_string())?;
        let told = told(&bytes, &places);
        ensure!(told.is_none(), "{} tells {}", file.display(), told.unwrap_or(tree).display());
    }
    for (folder, count) in FOLDERS {
        let folder = tree.join(folder);
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        let paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        let before = files.len();
        files.extend(paths.into_iter().filter(|path| path.is_file()));
        let there = files.len() - before;
        ensure!(there >= count, "{there} of {count} files are in {}", folder.display());
    }
    let mut hashes = BTreeMap::new();
    for file in files {
        let name = file.strip_prefix(tree.join("target")).unwrap_or(&file).display().to_string();
        let copy = to.join(name.replace('/', "-"));
        fs::copy(&file, &copy).with_context(|| file.display().to_string())?;
        let text = read(Command::new("sha256sum").arg(&copy))?;
        let hash = text.split_whitespace().next().context("sha256sum said nothing")?;
        hashes.insert(name, hash.to_owned());
    }
    Ok(hashes)
}

/// A line for each file, and the names of those that are not in both, or not the same.
fn compared(
    first: &BTreeMap<String, String>,
    second: &BTreeMap<String, String>,
) -> (String, Vec<String>) {
    let names: BTreeSet<&String> = first.keys().chain(second.keys()).collect();
    let (mut text, mut differ) = (String::new(), Vec::new());
    for name in names {
        let hash = |of: &BTreeMap<String, String>| of.get(name).cloned().unwrap_or("-".into());
        let [one, two] = [hash(first), hash(second)];
        if one == two {
            text.extend(["same    ", &one, " ", name, "\n"]);
        } else {
            text.extend(["DIFFERS ", &one, " ", &two, " ", name, "\n"]);
            differ.push(name.clone());
        }
    }
    (text, differ)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_name_both_places_after_what_is_wanted() {
        let flags = rust_flags(&["-Ctarget-feature=+crt-static"]);
        let mut words = flags.split(SEPARATOR);
        assert_eq!(words.next(), Some("-Ctarget-feature=+crt-static"));
        let repository = format!("--remap-path-prefix={}=/flightrec", repository().display());
        assert_eq!(words.next(), Some(&*repository));
        assert!(words.all(|word| word.ends_with("=/cargo")), "{flags}");
    }

    #[test]
    fn a_program_that_tells_a_path_is_found() {
        let places = ["/work/clone", "/root/.cargo"].map(PathBuf::from);
        let told = |program: &[u8]| told(program, &places).map(Path::to_path_buf);
        assert_eq!(told(b"\x7fELF /cargo/registry/a.rs /flightrec/b.rs"), None);
        assert_eq!(told(b"\x7fELF /root/.cargo/registry/a.rs"), Some(places[1].clone()));
        assert_eq!(told(b"/work/clone"), Some(places[0].clone()));
    }

    #[test]
    fn a_file_that_differs_or_is_in_one_build_only_is_named() {
        let build = |rows: &[(&str, &str)]| {
            rows.iter().map(|&(name, hash)| (name.to_owned(), hash.to_owned())).collect()
        };
        let first = build(&[("a", "1"), ("b", "1"), ("c", "1")]);
        assert!(compared(&first, &first).1.is_empty());
        let (text, differ) = compared(&first, &build(&[("a", "1"), ("b", "2"), ("d", "1")]));
        assert_eq!(differ, ["b", "c", "d"]);
        assert!(text.starts_with("same    1 a\nDIFFERS 1 2 b\nDIFFERS 1 - c\n"), "{text}");
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
