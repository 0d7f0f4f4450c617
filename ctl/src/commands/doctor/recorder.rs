//! What recording needs.

use super::{Check, Machine, Silence, machine::Seen};
use crate::state::State;
use flightrec_format::human::{bytes, span};

const ROOT: &str = "run this as root to know";
/// Who may ask the recorder.
const MEMBER: &str = "run this as root, or as a member of the group flightrec, to know";

/// Whether something is recorded at all.
pub(super) fn recording(state: &Result<&State, Silence>) -> Check {
    const NAME: &str = "recording";
    match state {
        Ok(state) if state.daemon.is_some() => {
            let since = span((state.recording_seconds * 1e9) as u64);
            Check::ok(
                NAME,
                format!("flightd has been recording for {since}, session {}", state.session),
            )
        }
        Ok(_) => Check::advice(
            NAME,
            "the kernel records, but flightd does not run: nothing is written to files",
            "systemctl start flightd",
        ),
        Err(Silence::Denied(why)) => Check::unknown(NAME, why.clone(), MEMBER),
        Err(Silence::Absent(why)) => {
            Check::missing(NAME, why.clone(), "systemctl enable --now flightd")
        }
    }
}

/// Whether it will be after the next boot.
pub(super) fn service(machine: &Machine) -> Check {
    const NAME: &str = "service";
    if machine.exists("/run/systemd/system") != Some(true) {
        return Check::unknown(
            NAME,
            "systemd does not run here, so it is unknown whether flightd starts at boot",
            "start it with this machine's service manager",
        );
    }
    let wanted = |dir: &&str| {
        let targets =
            machine.names(dir).into_iter().filter(|name| name.strip_suffix(".wants").is_some());
        let mut units = targets.map(|target| format!("{dir}/{target}/flightd.service"));
        units.any(|unit| machine.exists(&unit) == Some(true))
    };
    if ["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"].iter().any(wanted)
    {
        Check::ok(NAME, "flightd.service is enabled: it records from boot on")
    } else {
        Check::missing(
            NAME,
            "flightd.service is not enabled: after the next boot nothing is recorded",
            "systemctl enable flightd",
        )
    }
}

/// Whether the kernel keeps its memory from BPF programs: nothing to say where it does not, as
/// nearly everywhere (`daemon/src/lockdown.rs` has what the modes mean).
pub(super) fn lockdown(machine: &Machine) -> Option<Check> {
    let Seen::Text(modes) = machine.read("/sys/kernel/security/lockdown") else { return None };
    modes.contains("[confidentiality]").then(|| {
        Check::missing(
            "lockdown",
            "the kernel is locked down (confidentiality): flightd can't record",
            "boot it with lockdown=integrity, or without that parameter",
        )
    })
}

/// The kernel's types.
pub(super) fn types(machine: &Machine) -> Check {
    const NAME: &str = "BTF";
    const FILE: &str = "/sys/kernel/btf/vmlinux";
    match machine.exists(FILE) {
        Some(true) => Check::ok(NAME, format!("the kernel describes its types in {FILE}")),
        Some(false) => Check::missing(
            NAME,
            format!("there is no {FILE}: flightd can't load its programs"),
            "boot a kernel with CONFIG_DEBUG_INFO_BTF=y: those of Debian 12, RHEL 8, Ubuntu 22.04 \
             and later have it",
        ),
        None => Check::unknown(NAME, format!("{FILE} may not be looked at"), ROOT),
    }
}

/// The kernel's events.
pub(super) fn tracepoints(machine: &Machine) -> Check {
    const NAME: &str = "tracepoints";
    const COPY: &str = "/run/flightrec/tracepoints.json";
    const EVENT: &str = "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id";
    match machine.read(EVENT) {
        Seen::Text(_) => {
            Check::ok(NAME, "the kernel names its system calls in /sys/kernel/tracing")
        }
        _ if machine.exists(COPY) == Some(true) => Check::ok(
            NAME,
            format!("root left a copy of the kernel's description of its system calls in {COPY}"),
        ),
        Seen::Denied => Check::unknown(NAME, "only root may read /sys/kernel/tracing", ROOT),
        Seen::Absent if machine.names("/sys/kernel/tracing").is_empty() => Check::missing(
            NAME,
            "no tracefs is mounted on /sys/kernel/tracing",
            "mount -t tracefs nodev /sys/kernel/tracing (systemd does it where it runs)",
        ),
        Seen::Absent => Check::missing(
            NAME,
            "the kernel has no tracepoints of system calls",
            "boot a kernel with CONFIG_FTRACE_SYSCALLS=y and CONFIG_DEBUG_INFO_BTF=y",
        ),
    }
}

/// What the rings take, and of what.
pub(super) fn memory(machine: &Machine, state: &Result<&State, Silence>) -> Check {
    const NAME: &str = "memory";
    /// What the daemon needs beside its rings: buffers of a drain, and of an answer.
    const DAEMON: u64 = 64 << 20;
    let state = match state {
        Ok(state) => state,
        Err(Silence::Denied(_)) => {
            return Check::unknown(
                NAME,
                "no access to the recorder, so its memory use is \
                                         unknown",
                MEMBER,
            );
        }
        Err(Silence::Absent(_)) => {
            return Check::unknown(
                NAME,
                "nothing is recorded, so memory use is unknown",
                "start flightd, then run this again",
            );
        }
    };
    let rings = state.memory_bytes;
    let mut found = format!("rings and tables take {}", bytes(rings));
    if let Some(total) = machine.memory("MemTotal").filter(|total| *total != 0) {
        let percent = rings as f64 * 100.0 / total as f64;
        found = format!("{found}, {percent:.1} % of the machine's memory");
    }
    let limit = state.daemon.as_ref().and_then(|daemon| {
        let groups = machine.text(&format!("/proc/{}/cgroup", daemon.pid))?;
        let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?.to_owned();
        let limit = machine.number(&format!("/sys/fs/cgroup{group}/memory.max"))?;
        Some((group, limit))
    });
    match limit {
        Some((group, limit)) if limit < rings.saturating_add(DAEMON) => Check::missing(
            NAME,
            format!("{found}, but {group} may have no more than {}", bytes(limit)),
            "raise MemoryMax= of flightd.service (`systemctl edit flightd`), or lower [rings] \
             max_total in flightd.toml",
        ),
        Some((_, limit)) => {
            Check::ok(NAME, format!("{found}; its control group may have {}", bytes(limit)))
        }
        None => Check::ok(NAME, found),
    }
}
