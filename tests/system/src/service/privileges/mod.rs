//! The user `flightrec`, taken over, and all that root does where that user owns the directories.
//!
//! Each attack is made as that user, with a shell; what only an unprotected kernel lets it do (hard
//! links to files of root's, `fs.protected_hardlinks`) root does in its place. Behind all of them
//! stand [`ROOTS`], which must stay as they are.

mod kdump;
mod package;
mod rights;

pub(super) use kdump::hooks;
pub(super) use package::{plant, scripts};
pub(super) use rights::{ATTACK, connections, loads_nothing};

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::trial::{RUNTIME, Trial, UNIT, check, lossy, read};

/// Directories of root's with one file each: on the disk, and on the file system of [`RUNTIME`], to
/// which a hard link can lead.
pub(super) const ROOTS: [&str; 2] = ["/root/roots", "/run/roots"];
const SECRET: &str = "root's own\n";
const RECORDING: &str = "flightrec-recording.service";
/// What root's part may take at most, seconds: nothing that stands in its way makes it wait.
const PATIENCE: &str = "20";
/// How long the user changes names beside root's part.
const RACE: Duration = Duration::from_secs(15);

/// What the user leaves in [`RUNTIME`], while nothing is mounted there, and whether `--prepare`
/// works then.
const FOR_PREPARE: &[(&str, &str, bool)] = &[
    ("a link for the copy", "ln -s {root}/file tracepoints.json", true),
    ("a link for the new copy", "ln -s {root}/file tracepoints.json.new", true),
    ("a link to nothing", "ln -s {root}/made tracepoints.json.new", true),
    ("a pipe for the copy", "mkfifo tracepoints.json", true),
    ("a pipe for the new copy", "mkfifo tracepoints.json.new", true),
    ("a directory for the new copy", "mkdir tracepoints.json.new", false),
    ("a link to a directory for the new copy", "ln -s {root} tracepoints.json.new", true),
    ("a link to mount on", "ln -s {root} bpf", false),
    ("a link to a link to mount on", "ln -s {root} a; ln -s a bpf", false),
    (
        "a link to mount on, in a directory",
        "mkdir bpf; ln -s {root} bpf/gen-00000000000000aa",
        true,
    ),
    ("a pipe to mount on", "mkfifo bpf", false),
    ("a file to mount on", "echo > bpf", false),
    ("another's BPF file system", "ln -s /run/bpf-of-root bpf", false),
];

/// What the user leaves in its BPF file system, all of which `--remove` removes.
const FOR_REMOVE: &[&str] = &[
    "mkdir gen-00000000000000aa; ln -s {root} gen-00000000000000aa/links",
    "mkdir new-00000000000000aa; ln -s {root} new-00000000000000aa/maps",
    "mkdir -p gen-00000000000000aa/progs; ln -s {root}/file gen-00000000000000aa/progs/sys_enter",
    "ln -s {root} gen-00000000000000aa",
    "ln -s . gen-00000000000000aa; ln -s gen-00000000000000aa gen-00000000000000bb",
    "mkdir -p gen-00000000000000aa/links/deep/deeper; ln -s {root} \
     gen-00000000000000aa/links/deep/deeper/link",
    "ln -s /run/bpf-of-root/gen-00000000000000cc gen-00000000000000aa",
    "chmod 0 .; true",
];

/// Links, hard links and pipes, one after the other, and directories that are swapped meanwhile.
pub(super) fn links(_: &mut Trial) -> Result<String> {
    secrets()?;
    // By the units, as they are.
    as_service(&format!(
        "cd {RUNTIME}; rm -f tracepoints.json; ln -s {}/file tracepoints.json.new; cd bpf; {}",
        ROOTS[0],
        FOR_REMOVE[0].replace("{root}", ROOTS[0])
    ))?;
    check(Command::new("systemctl").args(["stop", UNIT, RECORDING]))?;
    untouched("stopping it")?;
    as_service(&format!("cd {RUNTIME}; rm -rf bpf; ln -s {} bpf", ROOTS[0]))?;
    let started = Command::new("systemctl").args(["start", RECORDING]).status()?;
    untouched("starting it")?;
    ensure!(!started.success(), "root's part works through a link");
    check(Command::new("systemctl").args(["reset-failed", RECORDING]))?;
    cleared()?;
    // Root's part alone: without the unit's sandbox it may do anything.
    let another = another_bpffs()?;
    for root in ROOTS {
        for (what, script, works) in FOR_PREPARE {
            as_service(&format!("cd {RUNTIME}; {}", script.replace("{root}", root)))?;
            prepared(what, *works)?;
        }
        for script in FOR_REMOVE {
            removed_with(&script.replace("{root}", root))?;
        }
    }
    let file = format!("{}/file", ROOTS[1]);
    for (name, works) in
        [("tracepoints.json", true), ("tracepoints.json.new", true), ("bpf", false)]
    {
        fs::hard_link(&file, Path::new(RUNTIME).join(name))
            .with_context(|| format!("a hard link {name}"))?;
        prepared(&format!("a hard link {name}"), works)?;
    }
    let rounds = races()?;
    drop(another);
    check(Command::new("systemctl").args(["start", UNIT]))?;
    untouched("starting it again")?;
    let cases = ROOTS.len() * (FOR_PREPARE.len() + FOR_REMOVE.len()) + 3;
    Ok(format!(
        "{cases} cases of --prepare and --remove, and {rounds} rounds of both beside swaps: no \
         link was followed"
    ))
}

/// `--prepare` and `--remove` on what the user left, and that it is as it was then.
fn prepared(what: &str, works: bool) -> Result<()> {
    let output = root_part(&["--prepare", "flightrec"])?;
    untouched(&format!("--prepare, {what}"))?;
    ensure!(output.status.code() != Some(124), "--prepare waits for {what}");
    ensure!(output.status.success() == works, "--prepare, {what}: {}", lossy(&output));
    let output = root_part(&["--remove"])?;
    untouched(&format!("--remove, {what}"))?;
    ensure!(output.status.code() != Some(124), "--remove waits for {what}");
    cleared()
}

/// `--remove` of a BPF file system in which the user left this.
fn removed_with(script: &str) -> Result<()> {
    let output = root_part(&["--prepare", "flightrec"])?;
    ensure!(output.status.success(), "--prepare: {}", lossy(&output));
    as_service(&format!("cd {RUNTIME}/bpf; {script}"))?;
    let output = root_part(&["--remove"])?;
    untouched(&format!("--remove, {script}"))?;
    ensure!(output.status.success(), "--remove, {script}: {}", lossy(&output));
    ensure!(!is_mounted()?, "--remove, {script}: still mounted");
    cleared()
}

/// Root's part again and again, while the user swaps what it works on; how often.
fn races() -> Result<u32> {
    let swaps = [
        // What is mounted on, and given away.
        format!(
            "rm -rf bpf; ln -s {0} bpf; rm -f bpf; mkdir bpf; mv bpf b; ln -s {0} bpf; mv -T b bpf",
            ROOTS[0]
        ),
        // What is written.
        format!(
            "ln -sf {0}/file tracepoints.json.new; ln -sf {0}/file tracepoints.json; rm -f \
             tracepoints.json*",
            ROOTS[1]
        ),
        // What is emptied.
        format!(
            "mkdir -p bpf/gen-00000000000000aa/links; ln -s {0} bpf/gen-00000000000000aa/l; mv -T \
             bpf/gen-00000000000000aa/links bpf/gen-00000000000000aa/m; mv -T \
             bpf/gen-00000000000000aa/l bpf/gen-00000000000000aa/links; rm -rf \
             bpf/gen-00000000000000aa",
            ROOTS[0]
        ),
    ];
    let mut rounds = 0;
    for swap in swaps {
        let script = format!(
            "cd {RUNTIME}; while [ ! -e stop ]; do {{ {swap}; }} 2>/dev/null || true; done"
        );
        let mut swapping = Command::new("runuser")
            .args(["-u", "flightrec", "--", "/bin/sh", "-c", &script])
            .spawn()?;
        let begun = Instant::now();
        let mut tried = Ok(());
        while begun.elapsed() < RACE / 3 && tried.is_ok() {
            // Either may fail: that it can be made to is known.
            tried = root_part(&["--prepare", "flightrec"])
                .and_then(|_| untouched("--prepare beside swaps"));
            tried = tried
                .and_then(|()| root_part(&["--remove"]))
                .and_then(|_| untouched("--remove beside swaps"));
            rounds += 1;
        }
        fs::write(Path::new(RUNTIME).join("stop"), "")?;
        swapping.wait()?;
        tried?;
        fs::remove_file(Path::new(RUNTIME).join("stop"))?;
        cleared()?;
    }
    ensure!(rounds > 20, "{rounds} rounds only");
    Ok(rounds)
}

/// `flightd` with these arguments, as root, for a while at most: code 124 says that it waited.
fn root_part(args: &[&str]) -> Result<Output> {
    Ok(Command::new("timeout")
        .args(["-k", "1", PATIENCE, "/usr/bin/flightd"])
        .args(args)
        .output()?)
}

/// A BPF file system of root's, with what looks like a recording in it.
struct Another;

fn another_bpffs() -> Result<Another> {
    fs::create_dir_all("/run/bpf-of-root")?;
    check(Command::new("mount").args(["-t", "bpf", "bpf", "/run/bpf-of-root"]))?;
    fs::create_dir_all("/run/bpf-of-root/gen-00000000000000cc/links")?;
    Ok(Another)
}

impl Another {
    fn is_there() -> bool {
        fs::metadata("/run/bpf-of-root/gen-00000000000000cc/links")
            .is_ok_and(|meta| meta.uid() == 0)
            && fs::metadata("/run/bpf-of-root").is_ok_and(|meta| meta.uid() == 0)
    }
}

impl Drop for Another {
    fn drop(&mut self) {
        if let Err(e) = check(Command::new("umount").arg("/run/bpf-of-root")) {
            eprintln!("{e:#}");
        }
    }
}

/// Takes away what an attack left in [`RUNTIME`], as an administrator would: mounts, and every
/// name.
fn cleared() -> Result<()> {
    while is_mounted()? {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let last = mounts
            .lines()
            .rev()
            .find_map(|line| line.split(' ').nth(4).filter(|path| path.starts_with(RUNTIME)));
        check(Command::new("umount").arg(last.context("no mount")?))?;
    }
    check(Command::new("find").args([RUNTIME, "-mindepth", "1", "-delete"]))
}

fn is_mounted() -> Result<bool> {
    Ok(fs::read_to_string("/proc/self/mountinfo")?.contains(&format!(" {RUNTIME}/")))
}

fn as_service(script: &str) -> Result<String> {
    read(Command::new("runuser").args(["-u", "flightrec", "--", "/bin/sh", "-ec", script]))
}

/// Makes [`ROOTS`].
fn secrets() -> Result<()> {
    for root in ROOTS {
        fs::create_dir_all(root)?;
        fs::write(Path::new(root).join("file"), SECRET)?;
    }
    // So that the user gets as far as it can: the way there is open to it.
    check(Command::new("chmod").args(["755", "/root", ROOTS[0], ROOTS[1]]))
}

/// Whether all that stands behind the links is as it was.
pub(super) fn untouched(by: &str) -> Result<()> {
    for root in ROOTS {
        let (dir, file) = (Path::new(root), Path::new(root).join("file"));
        ensure!(
            fs::read_to_string(&file).is_ok_and(|text| text == SECRET),
            "{by}: {root}/file is not what it was"
        );
        for (path, mode) in [(dir, 0o755), (&file, 0o644)] {
            let meta = fs::metadata(path)?;
            ensure!(meta.uid() == 0 && meta.gid() == 0, "{by}: {} was given away", path.display());
            ensure!(
                meta.mode() & 0o7777 == mode,
                "{by}: {} has mode {:o}",
                path.display(),
                meta.mode()
            );
        }
        ensure!(fs::read_dir(dir)?.count() == 1, "{by}: something was put into {root}");
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    ensure!(
        !ROOTS.iter().any(|root| mounts.contains(&format!(" {root}"))),
        "{by}: something is mounted there: {mounts}"
    );
    ensure!(
        !mounts.contains(" /run/bpf-of-root ") || Another::is_there(),
        "{by}: another's BPF file system was changed"
    );
    Ok(())
}
