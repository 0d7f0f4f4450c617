//! Values of the network's fields that have names.

use super::kinds::Names;

/// Protocols of sockets that have a state: `IPPROTO_…`, include/uapi/linux/in.h.
pub const PROTOCOLS: Names = &[(6, "tcp"), (33, "dccp"), (132, "sctp"), (262, "mptcp")];

/// States of a socket: include/net/tcp_states.h, Linux 6.1 and 6.18.
pub const TCP_STATES: Names = &[
    (1, "ESTABLISHED"),
    (2, "SYN_SENT"),
    (3, "SYN_RECV"),
    (4, "FIN_WAIT1"),
    (5, "FIN_WAIT2"),
    (6, "TIME_WAIT"),
    (7, "CLOSE"),
    (8, "CLOSE_WAIT"),
    (9, "LAST_ACK"),
    (10, "LISTEN"),
    (11, "CLOSING"),
    (12, "NEW_SYN_RECV"),
    (13, "BOUND_INACTIVE"),
];
