//! What may be different on a Debian after a package has come and gone, each with its reason.
//!
//! A path with the package's own names in it is never one of these ([`is_ours`]).

/// Below or at which paths something may be new, changed or gone, and why.
pub(super) const ALLOWED: &[(&str, &str)] = &[
    ("/var/lib/apt", "apt's lists and its note of packages that came by themselves"),
    ("/var/cache/apt", "apt's cache of packages, until `apt-get clean`"),
    ("/var/lib/dpkg", "dpkg's own records"),
    ("/var/cache/debconf", "debconf's database of templates"),
    ("/var/log", "logs are kept: dpkg's, apt's, the journal"),
    ("/etc/passwd-", "the file before its last change (shadow-utils)"),
    ("/etc/group-", "the file before its last change (shadow-utils)"),
    ("/etc/shadow-", "the file before its last change (shadow-utils)"),
    ("/etc/gshadow-", "the file before its last change (shadow-utils)"),
    ("/etc/subuid-", "the file before its last change (shadow-utils)"),
    ("/etc/subgid-", "the file before its last change (shadow-utils)"),
    ("/etc/.pwd.lock", "the lock of passwd and shadow (lckpwdf)"),
    ("/var/lib/systemd", "when systemd's timers ran last, and its random seed"),
    ("/var/cache/ldconfig", "ldconfig's cache, which is made again by each of its runs"),
    ("/etc/ld.so.cache", "ldconfig's cache, which is made again by each of its runs"),
    ("/run/systemd", "systemd's own state of units that ran meanwhile"),
    ("/run/log", "the journal of this boot"),
    ("/run/user", "sessions"),
    ("/run/mount", "notes of mount(8)"),
    ("/run/credentials", "systemd's own services"),
    ("/run/adduser", "the lock of adduser"),
    ("/run/utmp", "who is logged in: what has booted"),
    ("/tmp/systemd-private-", "directories of systemd's own services (PrivateTmp=)"),
    ("/var/tmp/systemd-private-", "directories of systemd's own services (PrivateTmp=)"),
];

/// What packages make beside their own files that came along because ours recommends them.
pub(super) const LEFT_BY_OTHERS: &[(&str, &str)] = &[
    ("/etc/ssl", "ca-certificates: its postinst makes a bundle of all authorities"),
    ("/etc/ca-certificates.conf", "ca-certificates: made by its postinst"),
    ("/etc/ca-certificates", "ca-certificates: made by its postinst"),
    ("/usr/local/share/ca-certificates", "ca-certificates: made by its postinst"),
    ("/usr/lib/ssl", "openssl: links to its configuration"),
];

/// Whether a name is of this package.
pub(super) fn is_ours(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // Icons of planes are called `flight` as well, but no path of a Debian without a desktop.
    ["flightd", "flightctl", "flightrec", "flight-ship", "flight-snapshot"]
        .iter()
        .any(|own| name.contains(own))
}

/// Why a path may be different, if it may.
pub(super) fn reason(path: &str, lists: &[&[(&str, &'static str)]]) -> Option<&'static str> {
    if is_ours(path) {
        return None;
    }
    let rows = lists.iter().copied().flatten();
    let covers = |of: &str| {
        path.strip_prefix(of)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || of.ends_with('-'))
    };
    rows.into_iter().find(|(of, _)| covers(of)).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_of_a_path_and_what_is_below_it() {
        assert!(reason("/var/log", &[ALLOWED]).is_some());
        assert!(reason("/var/log/apt/term.log", &[ALLOWED]).is_some());
        assert_eq!(reason("/var/logs", &[ALLOWED]), None);
        assert_eq!(reason("/etc/passwd", &[ALLOWED]), None);
        assert!(reason("/etc/passwd-", &[ALLOWED]).is_some());
        assert!(reason("/tmp/systemd-private-0a1b", &[ALLOWED]).is_some());
        assert_eq!(reason("/etc/ssl/certs", &[ALLOWED]), None);
        assert!(reason("/etc/ssl/certs", &[ALLOWED, LEFT_BY_OTHERS]).is_some());
    }

    #[test]
    fn nothing_of_ours_is_allowed() {
        for path in [
            "/var/lib/dpkg/info/flightrec.list",
            "/var/log/flightd.log",
            "/run/systemd/units/invocation:flight-ship.service",
        ] {
            assert_eq!(reason(path, &[ALLOWED, LEFT_BY_OTHERS]), None, "{path}");
        }
    }
}
