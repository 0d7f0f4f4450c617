//! The name of another host, with its port.

/// Where ssh connects to.
#[derive(Debug, PartialEq, Eq)]
pub struct Host<'a> {
    /// As ssh takes it: without the port and without brackets.
    pub name: String,
    /// The port; `None`: what ssh's configuration says, or 22.
    pub port: Option<&'a str>,
}

/// Takes a port off: of `name:2222`, `user@name:2222` and `[::1]:2222`. What else ssh takes stays
/// as it is: aliases, URIs, and addresses of IPv6 without brackets, which have no port. `None`:
/// there is a colon, and no port after it.
pub fn parse(host: &str) -> Option<Host<'_>> {
    let whole = || Some(Host { name: host.to_owned(), port: None });
    if host.contains("://") {
        return whole();
    }
    let (user, place) = host.rsplit_once('@').map_or(("", host), |(user, place)| {
        host.split_at_checked(user.len() + 1).unwrap_or(("", place))
    });
    let (name, port) = if let Some(rest) = place.strip_prefix('[') {
        let (name, rest) = rest.split_once(']')?;
        match rest.strip_prefix(':') {
            Some(port) => (name, Some(port)),
            None if rest.is_empty() => (name, None),
            None => return None,
        }
    } else {
        match place.split_once(':') {
            Some((_, rest)) if rest.contains(':') => return whole(),
            Some((name, port)) => (name, Some(port)),
            None => return whole(),
        }
    };
    let is_port = |port: &str| {
        port.bytes().all(|c| c.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    (!name.is_empty() && port.is_none_or(is_port))
        .then(|| Host { name: format!("{user}{name}"), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(host: &str) -> Option<(String, Option<&str>)> {
        parse(host).map(|host| (host.name, host.port))
    }

    #[test]
    fn a_port_is_taken_off() {
        for (host, name, port) in [
            ("web1", "web1", None),
            ("web1:2222", "web1", Some("2222")),
            ("root@web1:22", "root@web1", Some("22")),
            ("a@corp@web1:22", "a@corp@web1", Some("22")),
            ("10.0.0.1:65535", "10.0.0.1", Some("65535")),
            ("[::1]:2222", "::1", Some("2222")),
            ("root@[fe80::1%eth0]:2222", "root@fe80::1%eth0", Some("2222")),
            ("[::1]", "::1", None),
            ("::1", "::1", None),
            ("root@fe80::1", "root@fe80::1", None),
            ("ssh://root@web1:2222", "ssh://root@web1:2222", None),
        ] {
            assert_eq!(parsed(host), Some((name.to_owned(), port)), "{host}");
        }
    }

    #[test]
    fn what_is_no_port_is_refused() {
        for host in [
            "web1:",
            "web1:ssh",
            "web1:0",
            "web1:65536",
            "web1:+22",
            ":22",
            "[::1",
            "[::1]x",
            "[]:2",
        ] {
            assert_eq!(parsed(host), None, "{host}");
        }
    }
}
