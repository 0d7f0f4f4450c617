//! Machines made up.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;

fn machine(files: &[(&str, &str)]) -> (TempDir, Machine) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        put(dir.path(), path, text);
    }
    let machine = Machine::below(dir.path());
    (dir, machine)
}

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path.trim_start_matches('/'));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// All that there is to find on a Debian machine that is ready.
const READY: &[(&str, &str)] = &[
    ("/run/systemd/system/x", ""),
    ("/etc/systemd/system/sysinit.target.wants/flightd.service", ""),
    ("/sys/kernel/btf/vmlinux", "x"),
    ("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id", "17\n"),
    ("/sys/kernel/kexec_crash_loaded", "1\n"),
    ("/sys/kernel/kexec_crash_size", "268435456\n"),
    ("/proc/sys/kernel/panic_on_oops", "1\n"),
    ("/proc/meminfo", "MemTotal:       16000000 kB\nSlab:             1000 kB\n"),
    (
        "/etc/default/kdump-tools",
        "USE_KDUMP=1\n#MAKEDUMP_ARGS=\"-c -d 99\"\nKDUMP_COREDIR=\"/var/crash\"\n",
    ),
    ("/usr/lib/systemd/system/kdump-tools-dump.service.d/flightrec.conf", ""),
];

fn without(path: &str) -> Vec<(&'static str, &'static str)> {
    READY.iter().copied().filter(|(file, _)| *file != path).collect()
}

fn with(path: &'static str, text: &'static str) -> Vec<(&'static str, &'static str)> {
    let mut files = without(path);
    files.push((path, text));
    files
}

/// What is said of one thing.
fn of(files: &[(&str, &str)], name: &str) -> Check {
    let (_dir, machine) = machine(files);
    let checks = examine(&machine, &Err(Silence::Absent("flightd is not running".to_owned())));
    checks.into_iter().find(|check| check.check == name).unwrap()
}

#[test]
fn a_machine_that_is_ready_but_for_the_daemon() {
    let (_dir, machine) = machine(READY);
    let checks = examine(&machine, &Err(Silence::Absent("flightd is not running".to_owned())));
    let not_ok: Vec<(&str, Verdict)> =
        checks.iter().filter(|c| c.verdict != Verdict::Ok).map(|c| (c.check, c.verdict)).collect();
    let unknown = Verdict::Unknown;
    assert_eq!(
        not_ok,
        [("recording", Verdict::Missing), ("memory", unknown), ("rings' space", unknown)]
    );
    assert!(
        checks.iter().all(|check| (check.verdict == Verdict::Ok) == check.fix.is_none()),
        "{checks:#?}"
    );
}

#[test]
fn whatever_is_missing_is_named_with_what_to_do() {
    let cases = [
        (
            without("/etc/systemd/system/sysinit.target.wants/flightd.service"),
            "service",
            "systemctl enable flightd",
        ),
        (without("/sys/kernel/btf/vmlinux"), "BTF", "CONFIG_DEBUG_INFO_BTF"),
        (
            with("/sys/kernel/security/lockdown", "none integrity [confidentiality]\n"),
            "lockdown",
            "lockdown=integrity",
        ),
        (
            without("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id"),
            "tracepoints",
            "mount -t tracefs",
        ),
        (without("/sys/kernel/kexec_crash_loaded"), "crash kernel", "CONFIG_CRASH_DUMP"),
        (with("/sys/kernel/kexec_crash_loaded", "0"), "crash kernel", "enable --now kdump-tools"),
        (with("/etc/default/kdump-tools", "MAKEDUMP_ARGS='-c -d 64'"), "dump level", "-d 31"),
    ];
    for (files, name, words) in cases {
        let check = of(&files, name);
        assert_eq!(check.verdict, Verdict::Missing, "{check:?}");
        assert!(check.fix.as_ref().is_some_and(|fix| fix.contains(words)), "{words}: {check:?}");
    }
    let (_dir, integrity) =
        machine(&with("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n"));
    assert_eq!(recorder::lockdown(&integrity), None);
    let mut none = without("/sys/kernel/kexec_crash_loaded");
    none.retain(|(path, _)| !path.contains("kdump") && !path.contains("crash"));
    none.extend([("/sys/kernel/kexec_crash_loaded", "0"), ("/sys/kernel/kexec_crash_size", "0")]);
    none.push(("/etc/os-release", "NAME=x\nID_LIKE=\"rhel fedora\"\n"));
    let fix = of(&none, "crash kernel").fix.unwrap();
    assert!(fix.contains("dnf install") && fix.contains("crashkernel=256M"), "{fix}");
    none.push(("/proc/cmdline", "quiet crashkernel=1Z"));
    assert!(of(&none, "crash kernel").found.contains("no memory was reserved"));
}

#[test]
fn levels_that_keep_the_rings() {
    let level = |text| of(&with("/etc/default/kdump-tools", text), "dump level");
    for text in [
        "",
        "MAKEDUMP_ARGS=",
        "MAKEDUMP_ARGS=\"-c -d 31\"",
        "MAKEDUMP_ARGS=\"-d1\"",
        "MAKEDUMP_ARGS='-d 31,16'",
    ] {
        assert_eq!(level(text).verdict, Verdict::Ok, "{text}: {:?}", level(text));
    }
    assert!(level("MAKEDUMP_ARGS='-l'").found.contains("all of memory"));
    assert_eq!(level("MAKEDUMP_ARGS='-d 31 --config /x'").verdict, Verdict::Advice);
    let red = |text| {
        let mut files = without("/etc/default/kdump-tools");
        files.push(("/etc/kdump.conf", text));
        of(&files, "dump level").found
    };
    assert!(
        red("path /var/crash\ncore_collector makedumpfile -l --message-level 7 -d 17\n")
            .contains("-d 17 keeps")
    );
    assert!(red("core_collector cp\n").contains("all of memory"));
}

#[test]
fn what_could_be_better_is_no_failure() {
    let cases = [
        (with("/sys/kernel/kexec_crash_size", "67108864"), "crash kernel"),
        (with("/proc/sys/kernel/panic_on_oops", "0"), "panic"),
        (without("/usr/lib/systemd/system/kdump-tools-dump.service.d/flightrec.conf"), "hook"),
    ];
    for (files, name) in cases {
        assert_eq!(of(&files, name).verdict, Verdict::Advice, "{name}");
    }
}

#[test]
fn a_dump_larger_than_the_disk_is_told() {
    let huge = "MemTotal: 1 kB\nSlab: 9000000000000 kB\n";
    assert_eq!(of(&with("/proc/meminfo", huge), "dump's space").verdict, Verdict::Missing);
    let remote = with("/etc/default/kdump-tools", "SSH=\"root@dumps\"\n");
    assert_eq!(of(&remote, "dump's space").verdict, Verdict::Unknown);
}

#[test]
fn the_initramfs_must_be_newer_than_the_hook() {
    let mut files = without("/etc/default/kdump-tools");
    files.extend([
        ("/boot/initramfs-6.1.0kdump.img", "x"),
        ("/etc/kdump.conf", ""),
        ("/proc/sys/kernel/osrelease", "6.1.0\n"),
        ("/usr/lib/dracut/modules.d/99flightrec/module-setup.sh", ""),
    ]);
    let (dir, machine) = machine(&files);
    let hook = || dump::hook(&machine).verdict;
    let image = fs::File::open(dir.path().join("boot/initramfs-6.1.0kdump.img")).unwrap();
    let hour = std::time::Duration::from_hours(1);
    image.set_modified(std::time::SystemTime::now() - hour).unwrap();
    assert_eq!(hook(), Verdict::Advice);
    image.set_modified(std::time::SystemTime::now() + hour).unwrap();
    assert_eq!(hook(), Verdict::Ok);
}
