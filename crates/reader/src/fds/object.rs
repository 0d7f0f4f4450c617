//! How what a descriptor stands for is written: as strace's -yy has it.

use std::net::SocketAddr;
use std::sync::Arc;

use flightrec_format::architecture::Architecture;
use flightrec_format::descriptors::{Ends, Object, Socket};

use crate::names::set_for;

/// What is shown for an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    /// A path, or `TCP:[127.0.0.1:80->127.0.0.1:50000]`.
    pub(super) name: Arc<[u8]>,
    /// Of a socket that is bound or connected: what it was before, `TCP:[4711]`.
    pub(super) bare: Option<Arc<[u8]>>,
}

/// What is shown for an object; `None`: nothing is known of it.
pub(super) fn shown(object: &Object) -> Option<Shown> {
    match object {
        Object::Named(name) if name.is_empty() => None,
        Object::Named(name) => Some(Shown { name: name.as_ref().into(), bare: None }),
        Object::Socket(socket) => {
            let bare = bracketed(&protocol(socket), format!("{}", socket.inode).as_bytes());
            Some(match ends(socket) {
                Some(ends) => Shown { name: bracketed(&protocol(socket), &ends), bare: Some(bare) },
                None => Shown { name: bare, bare: None },
            })
        }
    }
}

/// Whether a name is a socket's, as `shown` writes them.
pub fn is_socket(name: &[u8]) -> bool {
    if !name.ends_with(b"]") {
        return false;
    }
    let protocol = name.iter().position(|b| *b == b':').and_then(|end| name.split_at_checked(end));
    protocol.is_some_and(|(protocol, rest)| {
        (protocol == b"socket" || protocol.first().is_some_and(u8::is_ascii_uppercase))
            && rest.starts_with(b":[")
    })
}

fn bracketed(protocol: &str, inside: &[u8]) -> Arc<[u8]> {
    [protocol.as_bytes(), b":[", inside, b"]"].concat().into()
}

/// The protocol's name, as in strace; where it has none, the family's, or `socket`.
fn protocol(socket: &Socket) -> String {
    let (family, kind, protocol) =
        (i32::from(socket.family), i32::from(socket.kind), i32::from(socket.protocol));
    let six = if family == libc::AF_INET6 { "v6" } else { "" };
    match (family, kind, protocol) {
        (libc::AF_INET | libc::AF_INET6, libc::SOCK_RAW, _) => format!("RAW{six}"),
        (libc::AF_INET | libc::AF_INET6, _, libc::IPPROTO_TCP) => format!("TCP{six}"),
        (libc::AF_INET | libc::AF_INET6, _, libc::IPPROTO_UDP) => format!("UDP{six}"),
        (libc::AF_INET, _, libc::IPPROTO_ICMP) => "PING".to_owned(),
        (libc::AF_INET6, _, libc::IPPROTO_ICMPV6) => "PINGv6".to_owned(),
        (libc::AF_INET | libc::AF_INET6, _, libc::IPPROTO_SCTP) => format!("SCTP{six}"),
        (libc::AF_INET | libc::AF_INET6, _, libc::IPPROTO_MPTCP) => format!("MPTCP{six}"),
        (libc::AF_INET | libc::AF_INET6, _, libc::IPPROTO_UDPLITE) => format!("UDPLITE{six}"),
        (libc::AF_UNIX, libc::SOCK_STREAM, _) => "UNIX-STREAM".to_owned(),
        (libc::AF_UNIX, libc::SOCK_DGRAM, _) => "UNIX-DGRAM".to_owned(),
        (libc::AF_UNIX, libc::SOCK_SEQPACKET, _) => "UNIX-SEQPACKET".to_owned(),
        _ => {
            let families = set_for(Architecture::default(), "socket", "family");
            let name = families.and_then(|families| families.name(u64::from(socket.family)));
            name.and_then(|name| name.strip_prefix("AF_")).unwrap_or("socket").to_owned()
        }
    }
}

/// What stands within the brackets beside the bare number; `None`: nothing is known.
fn ends(socket: &Socket) -> Option<Vec<u8>> {
    match &socket.ends {
        Ends::Inet { local, remote } if remote.port() != 0 => {
            Some(format!("{local}->{remote}").into_bytes())
        }
        Ends::Inet { local, .. } if is_bound(local) => Some(local.to_string().into_bytes()),
        Ends::Unix { peer, name } if *peer != 0 || !name.is_empty() => {
            let mut inside = socket.inode.to_string().into_bytes();
            if *peer != 0 {
                inside.extend_from_slice(format!("->{peer}").as_bytes());
            }
            if let Some((first, rest)) = name.split_first() {
                inside.extend_from_slice(if *first == 0 { b",@\"" } else { b",\"" });
                inside.extend_from_slice(if *first == 0 { rest } else { name });
                inside.push(b'"');
            }
            Some(inside)
        }
        _ => None,
    }
}

fn is_bound(local: &SocketAddr) -> bool {
    local.port() != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(family: i32, kind: i32, protocol: i32, ends: Ends) -> (String, Option<String>) {
        let (family, kind, protocol) = (family as u16, kind as u16, protocol as u16);
        let shown =
            shown(&Object::Socket(Socket { inode: 77, family, kind, protocol, ends })).unwrap();
        let text = |name: &Arc<[u8]>| String::from_utf8_lossy(name).into_owned();
        (text(&shown.name), shown.bare.as_ref().map(text))
    }

    fn inet(local: &str, remote: &str) -> Ends {
        Ends::Inet { local: local.parse().unwrap(), remote: remote.parse().unwrap() }
    }

    #[test]
    fn sockets_read_as_in_strace() {
        let tcp = |ends| name(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP, ends);
        let bare = Some("TCP:[77]".to_owned());
        assert_eq!(tcp(inet("0.0.0.0:0", "0.0.0.0:0")), ("TCP:[77]".into(), None));
        assert_eq!(tcp(inet("0.0.0.0:80", "0.0.0.0:0")), ("TCP:[0.0.0.0:80]".into(), bare.clone()));
        assert_eq!(
            tcp(inet("127.0.0.1:80", "127.0.0.1:5")),
            ("TCP:[127.0.0.1:80->127.0.0.1:5]".into(), bare)
        );
        let (udp, _) =
            name(libc::AF_INET6, libc::SOCK_DGRAM, libc::IPPROTO_UDP, inet("[::1]:53", "[::1]:9"));
        assert_eq!(udp, "UDPv6:[[::1]:53->[::1]:9]");
        let unix = |peer, bound: &[u8]| {
            name(libc::AF_UNIX, libc::SOCK_STREAM, 0, Ends::Unix { peer, name: bound.into() }).0
        };
        assert_eq!(unix(0, b""), "UNIX-STREAM:[77]");
        assert_eq!(unix(78, b""), "UNIX-STREAM:[77->78]");
        assert_eq!(unix(0, b"/run/x"), "UNIX-STREAM:[77,\"/run/x\"]");
        assert_eq!(unix(78, b"\0abstract"), "UNIX-STREAM:[77->78,@\"abstract\"]");
        assert_eq!(name(libc::AF_NETLINK, libc::SOCK_RAW, 0, Ends::Unknown).0, "NETLINK:[77]");
        assert_eq!(name(999, 1, 0, Ends::Unknown).0, "socket:[77]");
    }

    #[test]
    fn what_the_kernel_did_not_name_is_not_known() {
        assert_eq!(shown(&Object::Named(Box::default())), None);
        let name = shown(&Object::Named(b"pipe:[5]".as_slice().into())).unwrap().name;
        assert_eq!(&*name, b"pipe:[5]");
    }
}
