//! kdump's hook, which is root's: it goes where root alone can lead it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::unistd::User;
use tempfile::TempDir;

/// The user whose directory is the hostile one.
const USER: &str = "nobody";
/// In the place of flightctl: leaves a file as `recover FILE -o OUTPUT` does.
const FLIGHTCTL: &str = "#!/bin/sh\n[ \"$1 $3\" = 'recover -o' ] && echo recovered > \"$4\"\n";

fn packaged(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/kdump").join(name)
}

fn folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("flightrec-hook-").tempdir().expect("folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("mode");
    let program = folder.path().join("flightctl");
    fs::write(&program, FLIGHTCTL).expect("program");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("mode");
    folder
}

fn hook(folder: &Path, dir: &Path) -> Output {
    let mut command = Command::new(packaged("kdump-recover"));
    command
        .arg(dir)
        .env("FLIGHTCTL", folder.join("flightctl"))
        .env("VMCORE", "/dev/null")
        .env("KEEP", "2");
    command.stdin(Stdio::null()).output().expect("the hook")
}

fn directory(path: &Path, owner: u32, mode: u32) {
    fs::create_dir(path).expect("directory");
    chown(path, Some(owner), Some(owner)).expect("chown");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("mode");
}

#[test]
fn leads_root_into_no_directory_of_others() {
    let user = User::from_name(USER).expect("users").expect("nobody").uid.as_raw();
    let folder = folder();
    let root = folder.path();
    directory(&root.join("root"), 0, 0o755);
    directory(&root.join("state"), user, 0o750);
    directory(&root.join("open"), 0, 0o777);
    directory(&root.join("sticky"), 0, 0o1777);
    directory(&root.join("sticky/theirs"), user, 0o755);
    for (place, to) in
        [("state/crash", "root"), ("state/in", "root"), ("link", "root"), ("sticky/link", "root")]
    {
        symlink(root.join(to), root.join(place)).expect("link");
    }
    // `state` as the hook was called once, with a directory `crash` in it.
    for dir in [
        "state",
        "state/crash",
        "state/in/new",
        "state/new",
        "open",
        "open/new",
        "link",
        "sticky/theirs",
        "sticky/link",
    ] {
        let output = hook(root, &root.join(dir));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{dir}: {said}");
        assert!(said.contains("not recovered there"), "{dir}: {said}");
        assert_eq!(
            fs::metadata(root.join("root")).expect("root's").uid(),
            0,
            "{dir}: root's directory was given away"
        );
        assert_eq!(
            fs::read_dir(root.join("root")).expect("root's").count(),
            0,
            "{dir}: something is in root's directory"
        );
    }
}

#[test]
fn leaves_the_newest_files_for_the_group_of_its_directory() {
    let group = User::from_name(USER).expect("users").expect("nobody").gid.as_raw();
    let folder = folder();
    // As the package makes it.
    let dir = folder.path().join("state-crash");
    directory(&dir, 0, 0o750);
    chown(&dir, Some(0), Some(group)).expect("chown");
    fs::set_permissions(&dir, Permissions::from_mode(0o2750)).expect("mode");
    for old in ["20200101T000000Z.flight", "20210101T000000Z.flight"] {
        fs::write(dir.join(old), "").expect("file");
    }
    let output = hook(folder.path(), &dir);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut names: Vec<_> =
        fs::read_dir(&dir).expect("dir").map(|entry| entry.expect("entry").file_name()).collect();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(names[0], "20210101T000000Z.flight");
    let file = fs::metadata(dir.join(&names[1])).expect("file");
    assert_eq!((file.uid(), file.gid(), file.mode() & 0o777), (0, group, 0o640));
    // Where there is none it makes one.
    let new = folder.path().join("a/b/flightrec");
    assert!(hook(folder.path(), &new).status.success());
    assert_eq!(fs::metadata(&new).expect("made").mode() & 0o777, 0o750);
    assert_eq!(fs::read_dir(&new).expect("made").count(), 1);
}

/// In kdump's initramfs: the file system that the dump goes to is mounted below `/kdumproot`.
#[test]
fn finds_the_directory_on_the_file_system_of_the_dump() {
    let folder = folder();
    for name in ["kdump-recover", "pre-dump.sh"] {
        fs::copy(packaged(name), folder.path().join(name)).expect("copy");
    }
    let script = "
        cd \"$1\"; mkdir -p root; mount -t tmpfs -o mode=755 none root; mkdir root/usr root/proc \
                  root/etc root/dev root/kdumproot
        mkdir root/etc/alternatives; for dir in usr dev proc etc/alternatives; do mount --rbind \
                  /$dir root/$dir; done
        for dir in bin lib lib64 sbin; do ln -s usr/$dir root/$dir; done
        mount -t tmpfs -o mode=755 none root/kdumproot; mkdir -p root/kdumproot/var/lib \
                  root/kdumproot/var/crash
        cp kdump-recover pre-dump.sh flightctl root; echo 'path /var/crash' > root/etc/kdump.conf
        run() { RECOVER=/kdump-recover VMCORE=/dev/null FLIGHTCTL=/flightctl chroot root /bin/sh \
                  /pre-dump.sh; }
        run; ls root/kdumproot/var/crash/flightrec
        mkdir root/kdumproot/var/lib/flightrec-crash; run; ls \
                  root/kdumproot/var/lib/flightrec-crash";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "/bin/sh", "-ec", script, "sh"])
        .arg(folder.path());
    let output = command.stdin(Stdio::null()).output().expect("unshare");
    let files = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(files.lines().filter(|line| line.ends_with("Z.flight")).count(), 2, "{files}");
}
