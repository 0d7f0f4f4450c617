//! `report net`: connections: who made them, to where, for how long that took, what was sent again,
//! and who ended them.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use flightrec_analysis::groups::Order;
use flightrec_format::abi::ip::Ip;
use flightrec_format::abi::kinds::{Kind, SockState, TcpRetransmit};
use flightrec_format::abi::record::WakeContext;
use flightrec_format::abi::value_names::MPTCP_SUBFLOW;
use flightrec_format::decode::Body;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Column, Extra, Facts, Key, Needs, Report, Seen, Shape, Sums, Unit};

const RETRANSMITS: usize = 0;
const FAILED: usize = 1;
const OPEN: usize = 2;

/// Most connections that are followed at a time.
const CONNECTIONS_MAX: usize = if cfg!(test) { 8 } else { 65_536 };
/// Most connections that are known to be in the sums already, though they go on.
const COUNTED_MAX: usize = if cfg!(test) { 32 } else { 1 << 20 };

// States of TCP (include/net/tcp_states.h, Linux 6.1 to 6.18).
const ESTABLISHED: u32 = 1;
const SYN_SENT: u32 = 2;
const SYN_RECV: u32 = 3;
const FIN_WAIT1: u32 = 4;
const CLOSE: u32 = 7;
const CLOSE_WAIT: u32 = 8;
const LISTEN: u32 = 10;

/// The table of connections.
pub(super) static SHAPE: Shape = Shape {
    name: "net",
    keys: &[Key::Local, Key::Remote, Key::ClosedBy],
    default: &[Key::Comm, Key::Local, Key::Remote, Key::ClosedBy],
    unit: Unit::Ns,
    value: "establish",
    counted: "CONNECTIONS",
    extras: &[
        Extra { name: "retransmits", head: "RETRANSMITS", unit: Unit::None },
        Extra { name: "failed", head: "FAILED", unit: Unit::None },
        Extra { name: "open", head: "OPEN", unit: Unit::None },
    ],
    columns: &[
        Column::Count,
        Column::Extra(FAILED),
        Column::Extra(OPEN),
        Column::Extra(RETRANSMITS),
        Column::Average,
        Column::P99,
        Column::Max,
    ],
    partners: None,
    order: Order::Count,
    needs: Needs::EVENTS,
    remarks: &[
        "a connection counts if it changed its state, or retransmitted, in the window; the port of \
         the end that made it is left out, as each connection has another",
    ],
};

/// A connection, as far as it is known.
#[derive(Debug, Clone, Default)]
struct Connection {
    tid: u32,
    pid: u32,
    comm: Box<[u8]>,
    cgroup: u64,
    local: (Ip, u32),
    remote: (Ip, u32),
    /// Whether this end made it; `None`: not known.
    is_active: Option<bool>,
    began: Option<u64>,
    establish_ns: Option<u64>,
    is_established: bool,
    closed_by: Option<&'static str>,
    retransmits: u64,
    /// Anything of it is wanted.
    is_wanted: bool,
}

/// Follows connections.
#[derive(Default)]
pub(super) struct Net {
    connections: FxHashMap<u32, Connection>,
    /// Sockets of connections that are in the sums already, as there was no room to follow them to
    /// their ends.
    counted: FxHashSet<u32>,
    /// How many such there were.
    cut: u64,
    /// There were too many of them to remember.
    is_counted_twice: bool,
}

impl Report for Net {
    fn shape(&self) -> &'static Shape {
        &SHAPE
    }

    fn event(&mut self, seen: &Seen<'_>, to: &mut Sums) {
        let Body::Plain(plain) = &seen.event.body else { return };
        match plain.kind() {
            Kind::SockState => {
                if let Some(of) = SockState::read(plain.bytes()) {
                    self.state(&of, seen, to);
                }
            }
            Kind::TcpRetransmit => {
                if let Some(of) = TcpRetransmit::read(plain.bytes()) {
                    let Some(connection) = self.connection(of.socket, to) else { return };
                    // A subflow of MPTCP may have other addresses than its connection.
                    if connection.remote.1 == 0 {
                        connection.local = (of.local, of.local_port);
                        connection.remote = (of.remote, of.remote_port);
                    }
                    connection.is_established |= of.state == ESTABLISHED;
                    if seen.is_wanted {
                        connection.is_wanted = true;
                        connection.retransmits += 1;
                    }
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, to: &mut Sums) {
        let mut open: Vec<(u32, Connection)> = self.connections.drain().collect();
        open.sort_unstable_by_key(|(socket, _)| *socket);
        for (_, connection) in open {
            tell(&connection, true, to);
        }
        self.counted.clear();
    }

    fn limits(&self) -> Vec<String> {
        let line = |cut: u64| {
            let twice = if self.is_counted_twice { ", and some twice" } else { "" };
            format!(
                "more than {CONNECTIONS_MAX} connections at a time: {cut} were counted as open \
                 before their end was read{twice}; their rows lack who closed them and later \
                 retransmits"
            )
        };
        Some(self.cut).filter(|cut| *cut != 0).map(line).into_iter().collect()
    }
}

impl Net {
    /// The connection of a socket. To make room, those that are followed are counted as open;
    /// `None`: it is one of them.
    fn connection(&mut self, socket: u32, to: &mut Sums) -> Option<&mut Connection> {
        if self.counted.contains(&socket) {
            return None;
        }
        if self.connections.len() >= CONNECTIONS_MAX && !self.connections.contains_key(&socket) {
            let mut open: Vec<(u32, Connection)> = self.connections.drain().collect();
            open.sort_unstable_by_key(|(socket, _)| *socket);
            for (socket, connection) in open {
                // What nobody asked for, or not yet, is in no sum.
                if !connection.is_wanted {
                    continue;
                }
                tell(&connection, true, to);
                self.cut = self.cut.saturating_add(1);
                if self.counted.len() < COUNTED_MAX {
                    self.counted.insert(socket);
                } else {
                    self.is_counted_twice = true;
                }
            }
        }
        Some(self.connections.entry(socket).or_default())
    }

    fn state(&mut self, of: &SockState, seen: &Seen<'_>, to: &mut Sums) {
        // A subflow of MPTCP is a part of a connection that has events of its own; and that ends once.
        if of.protocol == MPTCP_SUBFLOW || of.old_state == of.new_state {
            return;
        }
        // A socket that listens is no connection.
        if of.new_state == LISTEN || of.old_state == LISTEN && of.new_state == CLOSE {
            return;
        }
        let time = seen.event.time;
        let is_new = matches!(of.new_state, SYN_SENT | SYN_RECV);
        if is_new {
            self.counted.remove(&of.socket);
        }
        if is_new && let Some(before) = self.connections.remove(&of.socket) {
            tell(&before, true, to);
        }
        let Some(connection) = self.connection(of.socket, to) else {
            if of.new_state == CLOSE {
                self.counted.remove(&of.socket);
            }
            return;
        };
        connection.is_wanted |= seen.is_wanted;
        if of.remote_port != 0 {
            connection.remote = (of.remote, of.remote_port);
        }
        if of.local_port != 0 {
            connection.local = (of.local, of.local_port);
        }
        // A worker of the kernel acts for MPTCP.
        let is_known = !connection.comm.is_empty() && !connection.comm.starts_with(b"kworker/");
        if of.context == WakeContext::Thread as u32 && !is_known {
            let facts = seen.facts();
            (connection.tid, connection.pid) = (facts.tid, facts.pid);
            (connection.comm, connection.cgroup) = (facts.comm.into(), facts.cgroup);
        }
        match (of.old_state, of.new_state) {
            (_, SYN_SENT) => {
                (connection.is_active, connection.began) = (Some(true), Some(time));
            }
            (_, SYN_RECV) => {
                (connection.is_active, connection.began) = (Some(false), Some(time));
            }
            (old, ESTABLISHED) => {
                connection.is_active = connection.is_active.or((old == SYN_RECV).then_some(false));
                connection.is_established = true;
                // What comes in is told when it is there: from when on is not known.
                let is_timed = connection.is_active == Some(true);
                connection.establish_ns =
                    connection.began.filter(|_| is_timed).map(|began| time.saturating_sub(began));
            }
            (ESTABLISHED, FIN_WAIT1) => {
                (connection.is_established, connection.closed_by) = (true, Some("local"));
            }
            (ESTABLISHED, CLOSE_WAIT) => {
                (connection.is_established, connection.closed_by) = (true, Some("remote"));
            }
            (ESTABLISHED, CLOSE) => {
                connection.is_established = true;
                // A reset that came, or one that this end sent as it closed with data unread.
                let is_own = of.context == WakeContext::Thread as u32;
                connection.closed_by = Some(if is_own { "local_reset" } else { "remote_reset" });
            }
            _ => {}
        }
        if of.new_state == CLOSE
            && let Some(connection) = self.connections.remove(&of.socket)
        {
            tell(&connection, false, to);
        }
    }
}

/// Adds a connection to the sums.
fn tell(connection: &Connection, is_open: bool, to: &mut Sums) {
    if !connection.is_wanted {
        return;
    }
    let is_failed = !is_open && connection.is_active == Some(true) && !connection.is_established;
    let closed_by = match connection.closed_by {
        Some(closed_by) => closed_by,
        None if is_failed => "failed",
        None if is_open => "",
        None => "unknown",
    };
    let (local, remote) = (
        address(connection.local, connection.is_active != Some(true)),
        address(connection.remote, connection.is_active != Some(false)),
    );
    let own = [
        (Key::Local, local.as_bytes()),
        (Key::Remote, remote.as_bytes()),
        (Key::ClosedBy, closed_by.as_bytes()),
    ];
    let Connection { tid, pid, ref comm, cgroup, .. } = *connection;
    let sum = to.of(&Facts { tid, pid, comm, cgroup, own: &own, ..Facts::default() });
    match connection.establish_ns {
        Some(ns) => sum.add(ns),
        None => sum.add_untold(),
    }
    sum.extra(RETRANSMITS, connection.retransmits);
    sum.extra(FAILED, u64::from(is_failed));
    sum.extra(OPEN, u64::from(is_open && connection.closed_by.is_none()));
}

/// `10.0.0.1:443`, or the address alone.
fn address((ip, port): (Ip, u32), with_port: bool) -> String {
    let ip: IpAddr = Ipv6Addr::from(ip.0).to_canonical();
    match u16::try_from(port) {
        Ok(port) if with_port && port != 0 => SocketAddr::new(ip, port).to_string(),
        _ => ip.to_string(),
    }
}
