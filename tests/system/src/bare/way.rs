//! How flightrec comes onto a machine, and how it goes.

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use xtask::architecture::Architecture;

use xtask::{deb, rpm, tarball};

/// By which package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// Debian's.
    Deb,
    /// The tarball.
    Tarball,
    /// The RPM; on a Debian it shows what the package itself leaves, and not what a distribution's
    /// `dnf` does.
    Rpm,
    /// Debian's, in a machine without a network (`cargo xtask vm --boot --arch aarch64`).
    Dpkg,
}

const UPDATE: &str = "apt-get update -q";

/// What docs/install.md says, as it is typed in the directory that has the package.
const DEB: &[&str] =
    &["apt-get install -y ./flightrec_*.deb", "flightctl drill", "apt-get purge -y flightrec"];
const ENABLED: &str =
    "systemctl enable --now flightd || { journalctl --no-pager -u 'flight*'; exit 1; }";
/// The package again: the recorder is enabled, and records when the package goes.
const DEB_ENABLED: &[&str] = &[
    "apt-get install -y ./flightrec_*.deb",
    ENABLED,
    "flightctl status",
    "apt-get purge -y flightrec",
];

/// The same without a mirror of Debian's.
const DPKG: &[&str] =
    &["dpkg --install flightrec_*.deb", "flightctl drill", "dpkg --purge flightrec"];
const DPKG_ENABLED: &[&str] =
    &["dpkg --install flightrec_*.deb", ENABLED, "flightctl status", "dpkg --purge flightrec"];

const TARBALL: &[&str] = &[
    "tar -xzf flightrec-*.tar.gz",
    "flightrec-*/install.sh",
    "flightctl drill",
    "/usr/local/lib/flightrec/install.sh --uninstall --purge",
];

/// The tarball again: the recorder is enabled and records when it goes, its recordings stay until
/// they are purged, and an upgrade leaves it recording.
const TARBALL_KEPT: &[&str] = &[
    "flightrec-*/install.sh",
    ENABLED,
    "flightctl status",
    "echo '# the administrator' >> /etc/flightrec/flightd.toml",
    "flightrec-*/install.sh",
    "systemctl is-active flightd && flightctl status && test -e /etc/flightrec/flightd.toml.new",
    "/usr/local/lib/flightrec/install.sh --uninstall",
    "! command -v flightd && getent passwd flightrec && test -d /var/lib/flightrec && \
     grep administrator /etc/flightrec/flightd.toml",
    "flightrec-*/install.sh --uninstall --purge",
];

/// What the installer refuses, each with a sentence that names it, and that it does nothing then.
const TARBALL_REFUSED: &[&str] = &[
    "! unshare -m sh -c 'mount -t tmpfs none /sys/kernel/btf && flightrec-*/install.sh' 2> said",
    "grep 'this kernel has no BTF' said",
    "! unshare -m sh -c 'mount -t tmpfs none /run/systemd && flightrec-*/install.sh' 2> said",
    "grep 'there is no systemd' said",
    "! setpriv --reuid=65534 --clear-groups flightrec-*/install.sh 2> said",
    "grep 'only root' said",
    "! flightrec-*/install.sh --prefix /usr/../x 2> said",
    "grep 'full path' said",
    "touch /usr/lib/systemd/system/flightd.service && ! flightrec-*/install.sh 2> said && \
     rm /usr/lib/systemd/system/flightd.service",
    "grep 'a package has installed' said",
    "echo mine > /usr/local/bin/flightctl && ! flightrec-*/install.sh 2> said && \
     grep mine /usr/local/bin/flightctl && rm /usr/local/bin/flightctl",
    "grep '/usr/local/bin/flightctl is there already' said",
    "! flightrec-*/install.sh --uninstall 2> said",
    "grep 'has installed nothing' said",
];

/// Into an image: the tree is the same afterwards, but for the files of users and their backups.
const TARBALL_IMAGE: &[&str] = &[
    "mkdir -p image/usr/lib/systemd image/etc image/var/lib image/run && cp /etc/passwd /etc/group \
     /etc/shadow /etc/gshadow image/etc && cp image/etc/passwd . && find image | sort > before",
    "flightrec-*/install.sh --root image --prefix /usr",
    "test -x image/usr/bin/flightd && test -e image/usr/lib/systemd/system/flightd.service && \
     grep flightrec image/etc/passwd && test -d image/var/lib/flightrec-crash && test ! -e \
     /usr/bin/flightd",
    "flightrec-*/install.sh --root image --prefix /usr --uninstall --purge",
    "find image | grep -v '^image/etc/.*-$' | grep -v '[.]pwd[.]lock$' | sort | diff before -",
    "cmp passwd image/etc/passwd",
];

const RPM: &[&str] = &[
    // It finds no packages of Debian's in its own database.
    "rpm -i --nodeps flightrec-*.rpm",
    "flightctl drill",
    "rpm -e flightrec",
];

/// As docs/install.md says.
const RPM_USERS: &[&str] = &["userdel flight-ship", "userdel flightrec"];

/// Users and groups stay: the files of a removed package may be theirs, and would become those of
/// the next user who gets the number (Fedora's packaging guidelines, Users and Groups).
const USERS: &[(&str, &str)] = &[
    ("/etc/passwd", "users stay, as Fedora's guidelines want"),
    ("/etc/group", "groups stay, as Fedora's guidelines want"),
    ("/etc/shadow", "users stay, as Fedora's guidelines want"),
    ("/etc/gshadow", "groups stay, as Fedora's guidelines want"),
    ("/etc/subuid", "users stay, as Fedora's guidelines want"),
    ("/etc/subgid", "groups stay, as Fedora's guidelines want"),
    RPM_DATABASE[0],
    RPM_DATABASE[1],
];
/// Where Debian has rpm's own database; that of Debian 12 is root's.
const RPM_DATABASE: [(&str, &str); 2] =
    [("/root/.rpmdb", "rpm's own database"), ("/var/lib/rpm", "rpm's own database")];

/// Commands after which nothing may be left.
#[derive(Debug)]
pub(super) struct Round {
    /// As they are typed.
    pub(super) commands: &'static [&'static str],
    /// What may be different all the same, and why.
    pub(super) kept: &'static [(&'static str, &'static str)],
}

impl Way {
    /// What was asked for; the Debian package if nothing was.
    pub(super) fn of(tarball: bool, rpm: bool) -> Self {
        match (tarball, rpm) {
            (true, _) => Self::Tarball,
            (_, true) => Self::Rpm,
            _ => Self::Deb,
        }
    }

    /// As `bare-trial` is told.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Deb => "deb",
            Self::Tarball => "tarball",
            Self::Rpm => "rpm",
            Self::Dpkg => "dpkg",
        }
    }

    /// Makes the package.
    pub(super) fn build(self) -> Result<PathBuf> {
        match self {
            Self::Deb | Self::Dpkg => deb::run(None, Architecture::HERE),
            Self::Tarball => tarball::run(Architecture::HERE),
            Self::Rpm => rpm::run(),
        }
    }

    /// What the machine needs beforehand.
    pub(super) fn needs(self) -> &'static [&'static str] {
        match self {
            // apt's lists are as old as the root file system.
            Self::Deb | Self::Tarball => &[UPDATE],
            Self::Rpm => &[UPDATE, "apt-get install -y --no-install-recommends rpm"],
            Self::Dpkg => &[],
        }
    }

    /// What is typed, one after the other.
    pub(super) fn rounds(self) -> &'static [Round] {
        const fn of(commands: &'static [&'static str]) -> Round {
            Round { commands, kept: &[] }
        }
        match self {
            Self::Deb => const { &[of(DEB), of(DEB_ENABLED)] },
            Self::Dpkg => const { &[of(DPKG), of(DPKG_ENABLED)] },
            Self::Tarball => {
                const { &[of(TARBALL), of(TARBALL_REFUSED), of(TARBALL_KEPT), of(TARBALL_IMAGE)] }
            }
            Self::Rpm => &[
                Round { commands: RPM, kept: USERS },
                Round { commands: RPM_USERS, kept: &RPM_DATABASE },
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_those_of_the_page() {
        let page = include_str!("../../../../docs/install.md");
        for command in [DEB, TARBALL, RPM_USERS].concat() {
            assert!(page.lines().any(|line| line.starts_with(command)), "{command}");
        }
    }

    #[test]
    fn a_way_is_told_by_the_name_that_it_is_read_by() {
        for way in Way::value_variants() {
            assert_eq!(Way::from_str(way.name(), false), Ok(*way));
        }
    }
}
