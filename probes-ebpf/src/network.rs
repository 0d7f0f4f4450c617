//! Connections: each change of a socket's state, and what is sent again.
//!
//! Both tracepoints run in threads (`connect`, `close`), and in softirqs, where packets and timers
//! are handled. What the kernel's own events have is read of the same members
//! (`inet_sock_set_state`, include/trace/events/sock.h; `tcp_retransmit_skb`,
//! include/trace/events/tcp.h, Linux 6.1 and 6.18). A socket is in unions and casts that the
//! verifier does not follow, so that its members are read by `bpf_probe_read_kernel`.

use core::ffi::c_void;

use aya_ebpf::EbpfContext;
use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;
use flightrec_format::abi::ip::Ip;
use flightrec_format::abi::kinds::{SockState, TcpRetransmit};
use flightrec_format::abi::probe::{ABSENT, SocketOffsets};
use flightrec_format::abi::record::kind;
use flightrec_format::abi::state::ENABLE_NETWORK;
use flightrec_format::abi::value_names::MPTCP_SUBFLOW;

use crate::context;
use crate::cpu::this_cpu;
use crate::files::{AF_INET6, peek};
use crate::kernel::number;
use crate::kernel_lane::{Payer, open, room};
use crate::pseudonym::pseudonym;

/// Filled by the loader, where the kernel tells.
#[unsafe(no_mangle)]
static SOCKET_OFFSETS: SocketOffsets = SocketOffsets {
    family: 0,
    state: 0,
    protocol: 0,
    sport: 0,
    dport: 0,
    local4: 0,
    remote4: 0,
    local6: 0,
    remote6: 0,
    is_mptcp: 0,
    ulp_data: 0,
    subflow_conn: 0,
};

/// include/uapi/linux/in.h
const IPPROTO_TCP: u32 = 6;

/// A socket, as its events have it.
struct Socket {
    address: u64,
    /// Of a subflow of MPTCP, the connection's own socket; 0: it is none, or not known.
    whole: u64,
    protocol: u32,
    state: u32,
    local: Ip,
    remote: Ip,
    local_port: u32,
    remote_port: u32,
}

impl Socket {
    /// The first argument of both tracepoints.
    #[inline(always)]
    fn of(ctx: *mut c_void) -> Self {
        let socket = number::<0>(ctx);
        // SAFETY: a static of ours; volatile because the loader replaces its value.
        let at = unsafe { (&raw const SOCKET_OFFSETS).read_volatile() };
        let family: u16 = peek(socket, at.family);
        let (local, remote) = if family == AF_INET6 && at.local6 != ABSENT {
            (Ip(peek(socket, at.local6)), Ip(peek(socket, at.remote6)))
        } else {
            (Ip::v4(peek(socket, at.local4)), Ip::v4(peek(socket, at.remote4)))
        };
        let mut protocol = u32::from(peek::<u16>(socket, at.protocol));
        let mut whole = 0;
        if protocol == IPPROTO_TCP && at.is_mptcp != ABSENT && peek::<u8>(socket, at.is_mptcp) != 0
        {
            protocol = MPTCP_SUBFLOW;
            whole = peek(peek(socket, at.ulp_data), at.subflow_conn);
        }
        Self {
            address: socket,
            whole,
            protocol,
            state: u32::from(peek::<u8>(socket, at.state)),
            local,
            remote,
            local_port: u32::from(u16::from_be(peek(socket, at.sport))),
            remote_port: u32::from(u16::from_be(peek(socket, at.dport))),
        }
    }
}

/// Records an event of a connection; `body` makes it of the socket and the context.
#[inline(always)]
fn record<T: Copy, const ROOM: usize>(
    ctx: *mut c_void,
    kind: u8,
    body: impl FnOnce(Socket, u32) -> T,
) -> Option<()> {
    let state = this_cpu();
    if state.enabled & ENABLE_NETWORK == 0 {
        return None;
    }
    let context = context::now(state.preempt_count);
    let body = body(Socket::of(ctx), u32::from(context));
    let mut w = open::<ROOM>(state, kind, Payer::of(context))?;
    w.record(kind, body);
    w.publish(kind);
    Some(())
}

/// `inet_sock_set_state(sk, oldstate, newstate)`
#[btf_tracepoint(function = "inet_sock_set_state")]
fn inet_sock_set_state(ctx: BtfTracePointContext) -> Option<()> {
    let ctx = ctx.as_ptr();
    record::<_, { room(size_of::<SockState>()) }>(ctx, kind::SOCK_STATE, |socket, context| {
        let Socket { address, protocol, local, remote, local_port, remote_port, .. } = socket;
        SockState {
            socket: pseudonym(address),
            protocol,
            old_state: number::<1>(ctx) as u32,
            new_state: number::<2>(ctx) as u32,
            local,
            remote,
            local_port,
            remote_port,
            context,
            reserved: 0,
        }
    })
}

/// `tcp_retransmit_skb(sk, skb)`; from Linux 6.15 on with the result, which is left out.
#[btf_tracepoint(function = "tcp_retransmit_skb")]
fn tcp_retransmit_skb(ctx: BtfTracePointContext) -> Option<()> {
    let ctx = ctx.as_ptr();
    record::<_, { room(size_of::<TcpRetransmit>()) }>(
        ctx,
        kind::TCP_RETRANSMIT,
        |socket, context| {
            let Socket { address, whole, state, local, remote, local_port, remote_port, .. } =
                socket;
            TcpRetransmit {
                socket: pseudonym(if whole == 0 { address } else { whole }),
                state,
                local,
                remote,
                local_port,
                remote_port,
                context,
                reserved: 0,
            }
        },
    )
}
