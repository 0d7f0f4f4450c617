//! What runs in the container, as root: the commands, and the comparison.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::allowed::{ALLOWED, LEFT_BY_OTHERS, is_ours, reason};
use super::state::{Difference, State, packages};
use super::way::{Round, Way};
use crate::service::container::INSIDE;
use xtask::command::{read, run as run_command};

/// Goes through it all; the first thing that is not as it must be ends it.
pub(crate) fn run(way: Way) -> Result<()> {
    ensure!(Path::new(INSIDE).exists(), "this runs in the container that `cargo xtask bare` makes");
    for command in way.needs() {
        typed(command)?;
    }
    let before = State::take()?;
    let ours = before.ours();
    ensure!(ours.is_empty(), "there before anything is installed:\n{}", lines(&ours));
    let installed = packages()?;
    let mut along = Along::default();
    for Round { commands, kept } in way.rounds() {
        for command in *commands {
            typed(command)?;
        }
        let after = State::settled(&before)?;
        along.packages = packages()?.difference(&installed).cloned().collect();
        along.files = files_of(&along.packages)?;
        let Judged { left, allowed } =
            judged(&after.since(&before), &along, &[ALLOWED, LEFT_BY_OTHERS, kept]);
        ensure!(left.is_empty(), "left, changed or gone:\n{}", lines(&left));
        let packages = &along.packages;
        println!("nothing is left of flightrec; packages that came along stay: {packages:?}");
        for (why, paths) in &allowed {
            println!("allowed: {paths} paths: {why}");
        }
    }
    planted(&before, &along)
}

/// Packages that came along, and their files.
#[derive(Debug, Default)]
struct Along {
    packages: BTreeSet<String>,
    files: BTreeSet<String>,
}

/// The files of packages.
fn files_of(packages: &BTreeSet<String>) -> Result<BTreeSet<String>> {
    if packages.is_empty() {
        return Ok(BTreeSet::new());
    }
    let listed = read(Command::new("dpkg-query").arg("-L").args(packages))?;
    let mut files: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
    // Their paths may go through /lib and the like, which are links to directories below /usr.
    let real = files.iter().filter(|file| file.starts_with("/lib") || file.starts_with("/sbin"));
    let real: Vec<String> = real.map(|file| format!("/usr{file}")).collect();
    files.extend(real);
    Ok(files)
}

/// What of a difference may not be, and how many paths may be, by reason.
struct Judged {
    left: Vec<String>,
    allowed: Vec<(&'static str, usize)>,
}

/// `lists`: paths that may be different, with the reason.
fn judged(
    difference: &Difference,
    along: &Along,
    lists: &[&[(&'static str, &'static str)]],
) -> Judged {
    let mut judged = Judged { left: Vec::new(), allowed: Vec::new() };
    for other in &difference.others {
        let package = other.strip_prefix("package ");
        if is_ours(other) || !package.is_some_and(|package| along.packages.contains(package)) {
            judged.left.push(other.clone());
        }
    }
    for (path, how) in &difference.files {
        let theirs = along.files.contains(path) && !is_ours(path);
        let theirs = theirs.then_some("files of packages that apt installed along");
        match theirs.or_else(|| reason(path, lists)) {
            None => judged.left.push(format!("{how}: {path}")),
            Some(why) => match judged.allowed.iter_mut().find(|(of, _)| *of == why) {
                Some((_, paths)) => *paths += 1,
                None => judged.allowed.push((why, 1)),
            },
        }
    }
    judged
}

fn lines(of: &[impl AsRef<str>]) -> String {
    of.iter().flat_map(|line| ["  ", line.as_ref(), "\n"]).collect()
}

/// Leaves one of each kind on purpose, and fails unless each is found.
fn planted(before: &State, along: &Along) -> Result<()> {
    let flightd = "/usr/local/bin/flightd";
    fs::copy("/usr/bin/sleep", flightd).context("a program")?;
    let mut process = Command::new(flightd).arg("1000").spawn().context("a process")?;
    let plant = "mkdir -p /var/lib/flightrec /run/flightrec-mount && \
                 mount -t tmpfs none /run/flightrec-mount && groupadd -r flightrec && \
                 useradd -r -g flightrec -M flightrec && \
                 touch /etc/systemd/system/flightd.service && systemctl daemon-reload && \
                 chmod 0700 /srv";
    let planted = run_command(Command::new("/bin/sh").args(["-c", plant]));
    let found = planted.and_then(|()| State::take());
    process.kill().context("the process")?;
    process.wait().context("the process")?;
    let left = judged(&found?.since(before), along, &[ALLOWED, LEFT_BY_OTHERS]).left;
    for wanted in [
        "left: /var/lib/flightrec",
        "left: /usr/local/bin/flightd",
        "changed: /etc/passwd",
        "changed: /etc/group",
        "changed: /srv",
        "mount /run/flightrec-mount",
        "unit flightd.service",
        "process /usr/local/bin/flightd",
    ] {
        ensure!(
            left.iter().any(|line| line.starts_with(wanted)),
            "what was left on purpose is not found: {wanted}; found:\n{}",
            lines(&left)
        );
    }
    println!("what was left on purpose is found: {} things", left.len());
    Ok(())
}

/// Types a command.
fn typed(command: &str) -> Result<()> {
    println!("$ {command}");
    // What the command writes comes after it.
    std::io::stdout().flush()?;
    let begun = Instant::now();
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).current_dir(INSIDE).stdin(Stdio::null());
    // A systemd unit has no HOME.
    shell.env("DEBIAN_FRONTEND", "noninteractive").env("HOME", "/root");
    run_command(&mut shell)?;
    println!("({:.1} s)", begun.elapsed().as_secs_f64());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_is_counted_and_all_else_is_left() {
        let difference = Difference {
            files: [
                ("/var/log/a", "left"),
                ("/var/log/b", "changed"),
                ("/srv/c", "gone"),
                ("/usr/bin/zstd", "left"),
            ]
            .map(|(path, how)| (path.to_owned(), how))
            .into(),
            others: ["mount /x", "package zstd", "package flightrec"].map(str::to_owned).into(),
        };
        let set = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let along = Along { packages: set(&["zstd", "flightrec"]), files: set(&["/usr/bin/zstd"]) };
        let found = judged(&difference, &along, &[ALLOWED]);
        assert_eq!(found.left, ["mount /x", "package flightrec", "gone: /srv/c"]);
        assert_eq!(found.allowed.iter().map(|(_, paths)| *paths).collect::<Vec<_>>(), [2, 1]);
    }
}
