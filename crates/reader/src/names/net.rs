//! Numbers of calls on sockets and on what is waited for with them.

use std::sync::LazyLock;

use nix::sys::epoll::EpollCreateFlags;
use nix::sys::eventfd::EfdFlags;
use nix::sys::signalfd::SfdFlags;
use nix::sys::timerfd::TimerFlags;

use super::set::{LazySet, Set, flags_of, names};

/// Address family
pub(super) static FAMILY: LazySet = LazyLock::new(|| {
    Set::values(names![
        AF_UNSPEC,
        AF_UNIX,
        AF_INET,
        AF_INET6,
        AF_NETLINK,
        AF_PACKET,
        AF_VSOCK,
        AF_ALG,
        AF_BLUETOOTH,
        AF_CAN,
        AF_TIPC,
        AF_XDP,
        AF_KEY,
        AF_RXRPC,
        AF_RDS,
        AF_PPPOX,
        AF_IB,
        AF_MPLS,
        AF_AX25,
        AF_X25,
        AF_LLC,
        AF_NFC,
    ])
});
/// Socket type with its flags
pub(super) static SOCKET_TYPE: LazySet = LazyLock::new(|| {
    Set::flags(names![SOCK_CLOEXEC, SOCK_NONBLOCK]).with_field(
        !((libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) as u64),
        names![SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_RDM, SOCK_SEQPACKET, SOCK_DCCP],
    )
});
/// `accept4`
pub(super) static SOCKET_FLAGS: LazySet =
    LazyLock::new(|| Set::flags(names![SOCK_CLOEXEC, SOCK_NONBLOCK]));

static IP: LazySet = LazyLock::new(|| {
    Set::values(names![
        IPPROTO_IP,
        IPPROTO_ICMP,
        IPPROTO_TCP,
        IPPROTO_UDP,
        IPPROTO_IPV6,
        IPPROTO_ICMPV6,
        IPPROTO_SCTP,
        IPPROTO_UDPLITE,
        IPPROTO_DCCP,
        IPPROTO_MPTCP,
        IPPROTO_RAW,
        IPPROTO_IGMP,
        IPPROTO_GRE,
    ])
});
static NETLINK: LazySet = LazyLock::new(|| {
    Set::values(names![
        NETLINK_ROUTE,
        NETLINK_USERSOCK,
        NETLINK_SOCK_DIAG,
        NETLINK_XFRM,
        NETLINK_SELINUX,
        NETLINK_AUDIT,
        NETLINK_CONNECTOR,
        NETLINK_NETFILTER,
        NETLINK_KOBJECT_UEVENT,
        NETLINK_GENERIC,
        NETLINK_CRYPTO,
    ])
});

/// Names of a socket's protocols in its address family.
pub fn protocol(family: u64) -> Option<&'static Set> {
    match family as i32 {
        libc::AF_INET | libc::AF_INET6 => Some(&IP),
        libc::AF_NETLINK => Some(&NETLINK),
        _ => None,
    }
}

/// Levels of socket options
pub(super) static LEVEL: LazySet = LazyLock::new(|| {
    Set::values(names![
        SOL_SOCKET,
        SOL_IP,
        SOL_TCP,
        SOL_UDP,
        SOL_IPV6,
        SOL_ICMPV6,
        SOL_RAW,
        SOL_PACKET,
        SOL_NETLINK,
        SOL_TLS,
        SOL_ALG,
        SOL_BLUETOOTH,
        SOL_XDP,
    ])
});
static SOCKET_OPTION: LazySet = LazyLock::new(|| {
    Set::values(names![
        SO_DEBUG,
        SO_REUSEADDR,
        SO_TYPE,
        SO_ERROR,
        SO_DONTROUTE,
        SO_BROADCAST,
        SO_SNDBUF,
        SO_RCVBUF,
        SO_SNDBUFFORCE,
        SO_RCVBUFFORCE,
        SO_KEEPALIVE,
        SO_OOBINLINE,
        SO_PRIORITY,
        SO_LINGER,
        SO_REUSEPORT,
        SO_PASSCRED,
        SO_PEERCRED,
        SO_RCVLOWAT,
        SO_SNDLOWAT,
        SO_RCVTIMEO,
        SO_SNDTIMEO,
        SO_BINDTODEVICE,
        SO_ATTACH_FILTER,
        SO_DETACH_FILTER,
        SO_PEERNAME,
        SO_TIMESTAMP,
        SO_ACCEPTCONN,
        SO_PEERSEC,
        SO_PASSSEC,
        SO_TIMESTAMPNS,
        SO_MARK,
        SO_TIMESTAMPING,
        SO_PROTOCOL,
        SO_DOMAIN,
        SO_RXQ_OVFL,
        SO_PEEK_OFF,
        SO_BUSY_POLL,
        SO_INCOMING_CPU,
        SO_ATTACH_BPF,
        SO_COOKIE,
        SO_PEERGROUPS,
        SO_ZEROCOPY,
        SO_TXTIME,
        SO_BINDTOIFINDEX,
    ])
});
static TCP_OPTION: LazySet = LazyLock::new(|| {
    Set::values(names![
        TCP_NODELAY,
        TCP_MAXSEG,
        TCP_CORK,
        TCP_KEEPIDLE,
        TCP_KEEPINTVL,
        TCP_KEEPCNT,
        TCP_SYNCNT,
        TCP_LINGER2,
        TCP_DEFER_ACCEPT,
        TCP_WINDOW_CLAMP,
        TCP_INFO,
        TCP_QUICKACK,
        TCP_CONGESTION,
        TCP_USER_TIMEOUT,
        TCP_FASTOPEN,
        TCP_NOTSENT_LOWAT,
        TCP_ULP,
    ])
});

/// Names of the options of a level.
pub fn socket_option(level: u64) -> Option<&'static Set> {
    match level as i32 {
        libc::SOL_SOCKET => Some(&SOCKET_OPTION),
        libc::SOL_TCP => Some(&TCP_OPTION),
        _ => None,
    }
}

/// Flags of sending and receiving
pub(super) static MESSAGE: LazySet = LazyLock::new(|| {
    Set::flags(names![
        MSG_OOB,
        MSG_PEEK,
        MSG_DONTROUTE,
        MSG_CTRUNC,
        MSG_TRUNC,
        MSG_DONTWAIT,
        MSG_EOR,
        MSG_WAITALL,
        MSG_CONFIRM,
        MSG_ERRQUEUE,
        MSG_NOSIGNAL,
        MSG_MORE,
        MSG_WAITFORONE,
        MSG_ZEROCOPY,
        MSG_FASTOPEN,
        MSG_CMSG_CLOEXEC,
    ])
});
/// `shutdown`
pub(super) static SHUTDOWN: LazySet =
    LazyLock::new(|| Set::values(names![SHUT_RD, SHUT_WR, SHUT_RDWR]));
/// `epoll_ctl`
pub(super) static EPOLL_OP: LazySet =
    LazyLock::new(|| Set::values(names![EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD]));
/// `epoll_create1`
pub(super) static EPOLL_CREATE: LazySet = LazyLock::new(|| Set::flags(flags_of!(EpollCreateFlags)));
/// `eventfd2`
pub(super) static EVENTFD: LazySet = LazyLock::new(|| Set::flags(flags_of!(EfdFlags)));
/// `signalfd4`
pub(super) static SIGNALFD: LazySet = LazyLock::new(|| Set::flags(flags_of!(SfdFlags)));
/// `timerfd_create`
pub(super) static TIMERFD: LazySet = LazyLock::new(|| Set::flags(flags_of!(TimerFlags)));
/// `timerfd_settime`
pub(super) static TIMERFD_SET: LazySet =
    LazyLock::new(|| Set::flags(names![TFD_TIMER_ABSTIME, TFD_TIMER_CANCEL_ON_SET]));
