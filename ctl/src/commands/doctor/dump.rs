//! What the kernel's crash dump needs, so that there is one and the rings are in it.

use super::machine::{Dumper, Seen};
use super::{Check, Machine};
use flightrec_format::human::bytes;

/// A crash kernel with less does not get through a boot and makedumpfile's and our own work
/// reliably: the kernel and its initrd take about 40 MiB of what is reserved, `flightctl recover`
/// some dozens.
const CRASH_LEAST: u64 = 160 << 20;
/// What to reserve.
const RESERVE: &str = "crashkernel=256M";
/// All bits of makedumpfile's dump level.
const LEVELS: u32 = 31;

/// What to install.
fn install(machine: &Machine) -> &'static str {
    let os = machine.text("/etc/os-release").unwrap_or_default();
    let is_red = os.lines().any(|line| {
        line.starts_with("ID")
            && ["rhel", "fedora", "centos"].iter().any(|name| line.contains(name))
    });
    if is_red {
        "dnf install kdump-utils (on RHEL 9 and before: kexec-tools)"
    } else {
        "apt install kdump-tools"
    }
}

/// Whether a crash kernel is loaded.
pub(super) fn kernel(machine: &Machine) -> Check {
    const NAME: &str = "crash kernel";
    let Some(loaded) = machine.number("/sys/kernel/kexec_crash_loaded") else {
        return Check::missing(
            NAME,
            "this kernel can't take crash dumps (there is no /sys/kernel/kexec_crash_loaded)",
            "boot a kernel with CONFIG_CRASH_DUMP=y; in a virtual machine, have the host take \
             dumps instead (`virsh dump --memory-only`, QEMU's dump-guest-memory): flightctl \
             reads those too",
        );
    };
    let size = machine.number("/sys/kernel/kexec_crash_size").unwrap_or(0);
    let reserved = machine.text("/proc/cmdline").is_some_and(|line| line.contains("crashkernel="));
    match (loaded, size, machine.dumper()) {
        (0, 0, _) if reserved => Check::missing(
            NAME,
            "the kernel's command line has crashkernel=, but no memory was reserved: too little \
             memory, or an invalid size",
            format!("try {RESERVE}; `dmesg | grep -i crash` says more"),
        ),
        (0, 0, dumper) => {
            let first = if dumper.is_none() {
                format!("{}, then ", install(machine))
            } else {
                String::new()
            };
            Check::missing(
                NAME,
                "no memory is reserved for a crash kernel",
                format!(
                    "{first}add {RESERVE} to the kernel's command line (GRUB_CMDLINE_LINUX in \
                     /etc/default/grub), and reboot"
                ),
            )
        }
        (0, _, None) => Check::missing(
            NAME,
            "memory is reserved, but nothing loads a crash kernel",
            install(machine),
        ),
        (0, _, Some(Dumper::KdumpTools)) => Check::missing(
            NAME,
            "memory is reserved, but no crash kernel is loaded",
            "systemctl enable --now kdump-tools",
        ),
        (0, _, Some(Dumper::KdumpUtils)) => Check::missing(
            NAME,
            "memory is reserved, but no crash kernel is loaded",
            "systemctl enable --now kdump",
        ),
        (_, size, _) if size < CRASH_LEAST => Check::advice(
            NAME,
            format!("a crash kernel is loaded, with {}: that may be too little", bytes(size)),
            format!(
                "raise crashkernel= on the kernel's command line, as in {RESERVE}, and try it: \
                 echo c > /proc/sysrq-trigger"
            ),
        ),
        (_, size, _) => Check::ok(NAME, format!("loaded, with {}", bytes(size))),
    }
}

/// Whether a fault in the kernel is a panic.
pub(super) fn oops(machine: &Machine) -> Check {
    const NAME: &str = "panic";
    match machine.number("/proc/sys/kernel/panic_on_oops") {
        Some(0) => Check::advice(
            NAME,
            "a fault in the kernel (an oops) ends a thread and not the machine: no dump is taken \
             then",
            "sysctl kernel.panic_on_oops=1 (and into /etc/sysctl.d, to keep it)",
        ),
        Some(_) => Check::ok(NAME, "a fault in the kernel (an oops) is a panic, and so a dump"),
        None => Check::unknown(
            NAME,
            "kernel.panic_on_oops can't be read",
            "look at it by `sysctl kernel.panic_on_oops`",
        ),
    }
}

/// Where the hook may stand, by who takes the dump.
const DEBIAN_HOOKS: &[&str] = &[
    "/usr/lib/systemd/system/kdump-tools-dump.service.d/flightrec.conf",
    "/lib/systemd/system/kdump-tools-dump.service.d/flightrec.conf",
    "/etc/systemd/system/kdump-tools-dump.service.d/flightrec.conf",
];
const DRACUT_HOOK: &str = "/usr/lib/dracut/modules.d/99flightrec/module-setup.sh";

/// Whether the crash kernel recovers the recording by itself.
pub(super) fn hook(machine: &Machine) -> Check {
    const NAME: &str = "hook";
    let by_hand = "the dump still has the recording: `flightctl recover` extracts it afterwards";
    let reinstall = "install the package flightrec again, or copy packaging/kdump from its source";
    match machine.dumper() {
        None => Check::unknown(NAME, "no program that takes dumps is installed", install(machine)),
        Some(Dumper::KdumpTools) => match machine.any(DEBIAN_HOOKS) {
            Some(path) => {
                Check::ok(NAME, format!("the crash kernel recovers the recording first ({path})"))
            }
            None => Check::advice(NAME, format!("no hook in kdump-tools: {by_hand}"), reinstall),
        },
        Some(Dumper::KdumpUtils) if machine.exists(DRACUT_HOOK) != Some(true) => {
            Check::advice(NAME, format!("no hook in kdump's initramfs: {by_hand}"), reinstall)
        }
        Some(Dumper::KdumpUtils) => {
            let release = machine.text("/proc/sys/kernel/osrelease").unwrap_or_default();
            let image = format!("/boot/initramfs-{}kdump.img", release.trim());
            match (machine.modified(&image), machine.modified(DRACUT_HOOK)) {
                (Some(made), Some(hook)) if made < hook => Check::advice(
                    NAME,
                    format!("{image} is older than the hook, and so without it: {by_hand}"),
                    "kdumpctl rebuild && kdumpctl restart",
                ),
                (Some(_), _) => Check::ok(
                    NAME,
                    format!("the crash kernel recovers the recording first ({image})"),
                ),
                (None, _) => Check::unknown(
                    NAME,
                    format!(
                        "the hook is installed, but {image}, which must contain it, can't be \
                             read"
                    ),
                    "run this as root; kdumpctl rebuild makes it again",
                ),
            }
        }
    }
}

/// Whether the dump keeps the rings.
pub(super) fn level(machine: &Machine) -> Check {
    const NAME: &str = "dump level";
    let Some(dumper) = machine.dumper() else {
        return Check::unknown(NAME, "no program that takes dumps is installed", install(machine));
    };
    let (name, file, usual) = match dumper {
        Dumper::KdumpTools => ("MAKEDUMP_ARGS", "/etc/default/kdump-tools", "-c -d 31"),
        Dumper::KdumpUtils => ("core_collector", "/etc/kdump.conf", "makedumpfile -l -d 31"),
    };
    if machine.read(file) == Seen::Denied {
        return Check::unknown(NAME, format!("{file} may not be read"), "run this as root to know");
    }
    let arguments = machine
        .setting(dumper, name)
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| usual.to_owned());
    let words: Vec<&str> = arguments.split_whitespace().collect();
    if let Some(word) = words.iter().find(|word| word.starts_with("--config")) {
        return Check::advice(
            NAME,
            format!(
                "{name} has {word}, by which makedumpfile erases memory: it may erase the rings"
            ),
            format!(
                "try it: panic a test machine, and run `flightctl dump --vmcore` on the dump; \
                 else remove it from {file}"
            ),
        );
    }
    let number =
        words.iter().zip(words.iter().skip(1).map(Some).chain([None])).find_map(|(word, next)| {
            let level = word.strip_prefix("-d")?;
            let level = if level.is_empty() { next.copied()? } else { level };
            // One for each of a row of attempts: all are tried, so each must keep the rings.
            level
                .split(',')
                .map(|level| level.parse::<u32>().ok())
                .collect::<Option<Vec<u32>>>()?
                .into_iter()
                .max()
        });
    match number {
        // Bits 1 to 16 leave out pages of zeros, page cache, user's data and free pages. The rings
        // are the kernel's own.
        None => Check::ok(
            NAME,
            format!(
                "all of memory is dumped ({name}: {arguments}); -d 31 is smaller and keeps the \
                 rings"
            ),
        ),
        Some(level) if level <= LEVELS => Check::ok(
            NAME,
            format!("-d {level} keeps the rings: they are neither cache nor a user's nor free"),
        ),
        Some(level) => Check::missing(
            NAME,
            format!(
                "makedumpfile knows no level {level} ({name} in {file}): there would be no dump"
            ),
            format!("write -d 31 there, as in {usual}"),
        ),
    }
}
