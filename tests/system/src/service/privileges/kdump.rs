//! Both hooks of kdump, on directories that the user `flightrec` can write to.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};

use super::{ROOTS, as_service, secrets, untouched};
use crate::service::container::INSIDE;
use crate::service::trial::{STATE, Trial, check, lossy};

/// The drop-in by which kdump-tools runs the hook.
const DROP_IN: &str = "/usr/lib/systemd/system/kdump-tools-dump.service.d/flightrec.conf";
/// In the place of flightctl: leaves a file as `recover FILE -o OUTPUT` does.
const FLIGHTCTL: &str = "#!/bin/sh\n[ \"$1 $3\" = 'recover -o' ] && echo recovered > \"$4\"\n";
const STAND_IN: &str = "/run/stand-in";
/// The file system of the dump, as kdump's initramfs sees it, and around it what the hook needs.
const INITRAMFS: &str = "/run/initramfs-of-kdump";

/// What the user puts into its state directory, and where the hook is led then.
const LEADS: &[(&str, &str)] = &[
    ("true", ""),
    ("mkdir attack", "attack"),
    ("ln -s {root} attack", "attack"),
    ("ln -s {root} attack", "attack/new"),
    ("mkdir attack; ln -s {root} attack/deep", "attack/deep"),
    ("ln -s /var/lib/flightrec-crash attack", "attack"),
    ("mkfifo attack", "attack"),
    ("mkfifo attack", "attack/new"),
    ("ln -s {root}/made attack", "attack"),
];

pub(in crate::service) fn hooks(_: &mut Trial) -> Result<String> {
    secrets()?;
    fs::write(STAND_IN, FLIGHTCTL)?;
    fs::set_permissions(STAND_IN, fs::Permissions::from_mode(0o755))?;
    let cases = recover()? + before_the_dump()?;
    fs::remove_file(STAND_IN)?;
    Ok(format!("{cases} ways to lead them elsewhere are refused; where they belong, both work"))
}

/// The hook as kdump-tools runs it.
fn recover() -> Result<usize> {
    let text = fs::read_to_string(DROP_IN)?;
    let line =
        text.lines().find_map(|line| line.strip_prefix("ExecStartPre=-")).context("no hook")?;
    let (program, dir) = line.split_once(' ').context("no directory")?;
    let meta = fs::symlink_metadata(dir)?;
    ensure!(meta.is_dir() && meta.uid() == 0, "{dir} is of user {}", meta.uid());
    for attempt in [
        "ln -s {root} {dir}/x",
        "mv {dir} {dir}.old",
        "rmdir {dir}",
        "mkfifo {dir}/x",
        "chmod 777 {dir}",
    ] {
        let attempt = attempt.replace("{root}", ROOTS[0]).replace("{dir}", dir);
        ensure!(as_service(&attempt).is_err(), "the user may: {attempt}");
    }
    let hook = |dir: &str| -> Result<Output> {
        let mut hook = Command::new("timeout");
        hook.args(["20", program, dir]).env("VMCORE", "/dev/null").env("FLIGHTCTL", STAND_IN);
        Ok(hook.output()?)
    };
    for (script, to) in LEADS {
        for root in ROOTS {
            as_service(&format!("cd {STATE}; {}", script.replace("{root}", root)))?;
            let output = hook(&format!("{STATE}/{to}"))?;
            untouched("the hook")?;
            let refused = output.status.code() == Some(1);
            ensure!(refused, "the hook, {script}, in {to}: {}: {}", output.status, lossy(&output));
            as_service(&format!("rm -rf {STATE}/attack"))?;
        }
    }
    let output = hook(dir)?;
    ensure!(output.status.success(), "the hook: {}", lossy(&output));
    let files = fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
    ensure!(files.len() == 1, "{} files in {dir}", files.len());
    for file in files {
        let meta = file.metadata()?;
        ensure!(
            meta.uid() == 0 && meta.mode() & 0o777 == 0o640,
            "{} {:o}",
            file.path().display(),
            meta.mode()
        );
        fs::remove_file(file.path())?;
    }
    Ok(LEADS.len() * ROOTS.len())
}

/// The hook of kdump's initramfs, which runs the other one.
fn before_the_dump() -> Result<usize> {
    let make = format!(
        "set -e; R={INITRAMFS}; mkdir $R; mount -t tmpfs -o mode=755 none $R; cd $R
         mkdir usr proc etc dev kdumproot etc/alternatives
         for dir in usr dev proc etc/alternatives; do
             mount --rbind /$dir $dir; mount --make-rslave $dir
         done
         for dir in bin lib lib64 sbin; do ln -s usr/$dir $dir; done
         cp {INSIDE}/pre-dump.sh {STAND_IN} .
         mount -t tmpfs -o mode=755 none kdumproot
         mkdir -p kdumproot/var/lib kdumproot/var/crash kdumproot/root
         install -d -o flightrec -g flightrec -m 750 kdumproot{STATE}
         cp -a {root} kdumproot/root/",
        root = ROOTS[0]
    );
    check(Command::new("/bin/sh").args(["-c", &make]))?;
    let tried = lead_it();
    check(Command::new("umount").args(["-R", INITRAMFS]))?;
    fs::remove_dir(INITRAMFS)?;
    tried
}

fn lead_it() -> Result<usize> {
    let target = format!("{INITRAMFS}/kdumproot");
    let roots = format!("{target}/root/roots");
    let hook = |path: &str| -> Result<Output> {
        fs::write(format!("{INITRAMFS}/etc/kdump.conf"), format!("path {path}\n"))?;
        let mut hook = Command::new("timeout");
        hook.args(["20", "chroot", INITRAMFS, "/bin/sh", "/pre-dump.sh"]);
        hook.env("RECOVER", "/usr/lib/flightrec/kdump-recover").env("VMCORE", "/dev/null");
        Ok(hook.env("FLIGHTCTL", "/stand-in").output()?)
    };
    // The paths that kdump.conf may name, and what is made there by the user.
    let cases = [
        (STATE.to_owned(), "true"),
        (STATE.to_owned(), "ln -s ../../../root/roots flightrec"),
        (STATE.to_owned(), "ln -s /kdumproot/root/roots flightrec"),
        (STATE.to_owned(), "mkfifo flightrec"),
        (STATE.to_owned(), "mkdir flightrec"),
        (format!("{STATE}/deep"), "ln -s ../../../root/roots deep"),
    ];
    for (path, script) in &cases {
        as_service(&format!("cd {target}{STATE}; {script}"))?;
        let output = hook(path)?;
        let refused = output.status.code() == Some(1);
        ensure!(
            refused,
            "the hook before the dump, {script}: {}: {}",
            output.status,
            lossy(&output)
        );
        ensure!(
            fs::read_dir(&roots)?.count() == 1,
            "{script}: something was put into root's directory"
        );
        as_service(&format!("cd {target}{STATE}; rm -rf flightrec deep"))?;
    }
    // A link in the place of the directory that it takes by itself.
    let crash = format!("{target}{STATE}-crash");
    std::os::unix::fs::symlink("../../root/roots", &crash)?;
    let output = hook("/var/crash")?;
    ensure!(output.status.code() == Some(1), "through {crash}: {}", lossy(&output));
    fs::remove_file(&crash)?;
    for made in [Path::new(&target).join("var/crash/flightrec"), crash.into()] {
        let output = hook("/var/crash")?;
        ensure!(output.status.success(), "the hook before the dump: {}", lossy(&output));
        ensure!(fs::read_dir(&made)?.count() == 1, "nothing in {}", made.display());
        fs::create_dir_all(format!("{target}{STATE}-crash"))?;
    }
    Ok(cases.len() + 1)
}
