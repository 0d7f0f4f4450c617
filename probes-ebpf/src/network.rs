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

use crate::context;
use crate::files::{AF_INET6, peek};
use crate::kernel::number;
use crate::lane::this_cpu;
use crate::pseudonym::pseudonym;
use crate::trace::{Payer, open, room};

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
};

/// The two ends of a connection.
struct Ends {
    local: Ip,
    remote: Ip,
    local_port: u32,
    remote_port: u32,
}

impl Ends {
    #[inline(always)]
    fn of(socket: u64) -> Self {
        // SAFETY: a static of ours; volatile because the loader replaces its value.
        let at = unsafe { (&raw const SOCKET_OFFSETS).read_volatile() };
        let family: u16 = peek(socket, at.family);
        let (local, remote) = if family == AF_INET6 && at.local6 != ABSENT {
            (Ip(peek(socket, at.local6)), Ip(peek(socket, at.remote6)))
        } else {
            (Ip::v4(peek(socket, at.local4)), Ip::v4(peek(socket, at.remote4)))
        };
        Self {
            local,
            remote,
            local_port: u32::from(u16::from_be(peek(socket, at.sport))),
            remote_port: u32::from(u16::from_be(peek(socket, at.dport))),
        }
    }
}

/// `inet_sock_set_state(sk, oldstate, newstate)`
#[btf_tracepoint(function = "inet_sock_set_state")]
fn inet_sock_set_state(ctx: BtfTracePointContext) -> Option<()> {
    let ctx = ctx.as_ptr();
    let state = this_cpu();
    if state.enabled & ENABLE_NETWORK == 0 {
        return None;
    }
    let context = context::now(state.preempt_count);
    let (socket, protocol) = of(ctx);
    let Ends { local, remote, local_port, remote_port } = Ends::of(number::<0>(ctx));
    let body = SockState {
        socket,
        protocol,
        old_state: number::<1>(ctx) as u32,
        new_state: number::<2>(ctx) as u32,
        local,
        remote,
        local_port,
        remote_port,
        context: u32::from(context),
        reserved: 0,
    };
    let mut w =
        open::<{ room(size_of::<SockState>()) }>(state, kind::SOCK_STATE, Payer::of(context))?;
    w.record(kind::SOCK_STATE, body);
    w.publish(kind::SOCK_STATE);
    Some(())
}

/// `tcp_retransmit_skb(sk, skb)`; from Linux 6.15 on with the result, which is left out.
#[btf_tracepoint(function = "tcp_retransmit_skb")]
fn tcp_retransmit_skb(ctx: BtfTracePointContext) -> Option<()> {
    let ctx = ctx.as_ptr();
    let state = this_cpu();
    if state.enabled & ENABLE_NETWORK == 0 {
        return None;
    }
    let context = context::now(state.preempt_count);
    let address = number::<0>(ctx);
    // SAFETY: a static of ours; volatile because the loader replaces its value.
    let at = unsafe { (&raw const SOCKET_OFFSETS).read_volatile() };
    let Ends { local, remote, local_port, remote_port } = Ends::of(address);
    let body = TcpRetransmit {
        socket: pseudonym(address),
        state: u32::from(peek::<u8>(address, at.state)),
        local,
        remote,
        local_port,
        remote_port,
        context: u32::from(context),
        reserved: 0,
    };
    let mut w = open::<{ room(size_of::<TcpRetransmit>()) }>(
        state,
        kind::TCP_RETRANSMIT,
        Payer::of(context),
    )?;
    w.record(kind::TCP_RETRANSMIT, body);
    w.publish(kind::TCP_RETRANSMIT);
    Some(())
}

/// Which socket, and of which protocol.
#[inline(always)]
fn of(ctx: *mut c_void) -> (u32, u32) {
    let address = number::<0>(ctx);
    // SAFETY: a static of ours; volatile because the loader replaces its value.
    let at = unsafe { (&raw const SOCKET_OFFSETS).read_volatile() };
    (pseudonym(address), u32::from(peek::<u16>(address, at.protocol)))
}
