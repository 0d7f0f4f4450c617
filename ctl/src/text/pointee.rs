//! What arguments of system calls point to, strings aside, in strace's notation; but that the
//! address of a socket is `{AF_INET, 10.0.0.2:5432}`, and that of buffers the lengths alone are
//! known.

use std::net::{Ipv4Addr, Ipv6Addr};

use flightrec_format::abi::pointee::Shape;
use flightrec_format::abi::record::StringStatus;
use flightrec_format::architecture::Architecture;
use flightrec_format::decode::{Call, Text};
use flightrec_reader::names::{Member, open_flags, signal};

use super::argument::write_signal;
use super::escape::quote;
use super::names::flags;
use super::number::{decimal, hex, hex_or_zero, mode};
use super::si_code;

/// Appends what argument `index` points to, if that is recorded.
pub(super) fn write(machine: Architecture, call: &Call, index: usize, out: &mut Vec<u8>) -> bool {
    let of = |text: &&Text| {
        !text.is_string() && text.argument() == index && text.status != StringStatus::Unreadable
    };
    // What the kernel told is more than what it was given.
    let texts = || call.strings.iter().rev().filter(of);
    let pointees = || texts().filter_map(|text| Some((text.pointee()?, text.is_cut())));
    let Some(((shape, told, bytes), cut)) =
        pointees().find(|((shape, ..), _)| !is_part(call, index, *shape))
    else {
        return false;
    };
    let start = out.len();
    let done = if shape == Shape::Message {
        let part = |wanted: Shape| {
            pointees()
                .find(|((shape, side, _), _)| *shape == wanted && *side == told)
                .map(|((_, _, bytes), cut)| (bytes, cut))
        };
        message(bytes, told, [Shape::SocketAddress, Shape::Iovec].map(part), out)
    } else {
        one(machine, (shape, told, bytes), cut, call, index, out)
    };
    if done.is_none() {
        out.truncate(start);
    }
    done.is_some()
}

/// Whether it belongs to the message that the same argument points to.
fn is_part(call: &Call, index: usize, shape: Shape) -> bool {
    matches!(shape, Shape::SocketAddress | Shape::Iovec)
        && call.strings.iter().any(|text| {
            text.argument() == index
                && text.pointee().is_some_and(|(shape, ..)| shape == Shape::Message)
        })
}

/// Appends a thing of any shape but a message; `None`: it has too few bytes.
fn one(
    machine: Architecture,
    (shape, told, bytes): (Shape, bool, &[u8]),
    cut: bool,
    call: &Call,
    index: usize,
    out: &mut Vec<u8>,
) -> Option<()> {
    match shape {
        Shape::SocketAddress => return address(bytes, cut, out),
        Shape::Timespec => return time(bytes, "nsec", out),
        Shape::Timespecs => return list(bytes, 16, cut, out, file_time),
        Shape::Timevals if bytes.len() == 16 => return time(bytes, "usec", out),
        Shape::Timevals if is_file_time(call) => {
            return list(bytes, 16, cut, out, |value, out| time(value, "usec", out));
        }
        Shape::Timevals => return interval(bytes, "usec", out),
        Shape::TimerSpec => return interval(bytes, "nsec", out),
        Shape::Iovec => return buffers(bytes, cut, out),
        Shape::PollFds => return list(bytes, 8, cut, out, |fd, out| poll(fd, told, out)),
        Shape::EpollEvents if told => {
            let size = usize::from(machine.epoll_event());
            return list(bytes, size, cut, out, |event, out| epoll(machine, event, out));
        }
        Shape::EpollEvents => return epoll(machine, bytes, out),
        Shape::OpenHow => return open_how(machine, bytes, out),
        Shape::CloneArgs => return clone_args(bytes, out),
        Shape::Rlimit => {
            out.extend_from_slice(b"{rlim_cur=");
            limit(u64_at(bytes, 0)?, out);
            out.extend_from_slice(b", rlim_max=");
            limit(u64_at(bytes, 8)?, out);
        }
        Shape::SignalAction => return action(bytes, out),
        Shape::SignalSet => {
            signals(u64_at(bytes, 0)?, out);
            return Some(());
        }
        Shape::WaitStatus => {
            wait_status(u32_at(bytes, 0)?, out);
            return Some(());
        }
        Shape::Descriptors => {
            return list(bytes, 4, cut, out, |fd, out| {
                decimal(u32_at(fd, 0)? as i32, out);
                Some(())
            });
        }
        Shape::DescriptorSet => {
            bits(bytes, u32::try_from(*call.args.first()?).ok(), cut, out);
            return Some(());
        }
        Shape::CpuSet => {
            bits(bytes, None, cut, out);
            return Some(());
        }
        Shape::Int | Shape::Room => {
            let value = u32_at(bytes, 0)? as i32;
            out.push(b'[');
            // As strace has it: the room for an address, then how long that is.
            if let Some(given) = room(call, index).filter(|given| told && *given != value) {
                decimal(given, out);
                out.extend_from_slice(b" => ");
            }
            decimal(value, out);
            out.push(b']');
            return Some(());
        }
        Shape::MessageRoom => {
            out.extend_from_slice(b"{msg_namelen=");
            decimal(u32_at(bytes, 0)? as i32, out);
        }
        Shape::Offset => {
            out.push(b'[');
            decimal(u64_at(bytes, 0)? as i64, out);
            out.push(b']');
            return Some(());
        }
        Shape::SignalInfo => return signal_info(bytes, out),
        Shape::FileLock => return file_lock(bytes, out),
        Shape::SocketOption => return socket_option(bytes, cut, call, index, out),
        Shape::Message | Shape::Socket => return None,
    }
    out.push(b'}');
    Some(())
}

/// The room for an address that the program gave by this argument; `None`: not recorded.
fn room(call: &Call, index: usize) -> Option<i32> {
    let texts = call.strings.iter().filter(|text| text.argument() == index);
    let mut pointees = texts.filter_map(Text::pointee);
    let (_, _, bytes) = pointees.find(|(shape, ..)| *shape == Shape::Room)?;
    Some(u32_at(bytes, 0)? as i32)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Appends elements of `size` bytes, `...` after them where there are more.
fn list(
    bytes: &[u8],
    size: usize,
    cut: bool,
    out: &mut Vec<u8>,
    mut element: impl FnMut(&[u8], &mut Vec<u8>) -> Option<()>,
) -> Option<()> {
    out.push(b'[');
    for (i, one) in bytes.chunks_exact(size).enumerate() {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        element(one, out)?;
    }
    if cut {
        out.extend_from_slice(b", ...");
    }
    out.push(b']');
    Some(())
}

/// `AF_INET, 10.0.0.2:5432`
fn address(bytes: &[u8], cut: bool, out: &mut Vec<u8>) -> Option<()> {
    let family = u16_at(bytes, 0)?;
    out.push(b'{');
    flags(Member::Family.names(), family.into(), out);
    let rest = bytes.get(2..)?;
    let port = || Some(u16::from_be_bytes(*rest.first_chunk()?));
    match i32::from(family) {
        libc::AF_INET => {
            let ip = Ipv4Addr::from(*rest.get(2..)?.first_chunk::<4>()?);
            out.extend_from_slice(format!(", {ip}:{}", port()?).as_bytes());
        }
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(*rest.get(6..)?.first_chunk::<16>()?);
            let scope = match u32_at(bytes, 24) {
                None | Some(0) => String::new(),
                Some(scope) => format!("%{scope}"),
            };
            out.extend_from_slice(format!(", [{ip}{scope}]:{}", port()?).as_bytes());
        }
        libc::AF_UNIX => match rest.split_first() {
            None => {}
            // Of the abstract namespace: all bytes count.
            Some((0, name)) => {
                out.extend_from_slice(b", @");
                quote(name, cut, out);
            }
            Some(_) => {
                out.extend_from_slice(b", ");
                let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
                quote(rest.get(..end)?, cut && end == rest.len(), out);
            }
        },
        libc::AF_NETLINK => {
            let (pid, groups) = (u32_at(bytes, 4)?, u32_at(bytes, 8)?);
            out.extend_from_slice(format!(", pid={pid}, groups={groups:08x}").as_bytes());
        }
        _ if rest.is_empty() => {}
        _ => {
            out.extend_from_slice(b", ");
            quote(rest, cut, out);
        }
    }
    out.push(b'}');
    Some(())
}

/// `{tv_sec=1, tv_nsec=0}`
fn time(bytes: &[u8], unit: &str, out: &mut Vec<u8>) -> Option<()> {
    let (seconds, rest) = (u64_at(bytes, 0)? as i64, u64_at(bytes, 8)? as i64);
    out.extend_from_slice(format!("{{tv_sec={seconds}, tv_{unit}={rest}}}").as_bytes());
    Some(())
}

/// A time of a file: `utimensat` takes two numbers that are none.
fn file_time(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    match u64_at(bytes, 8)? as i64 {
        libc::UTIME_NOW => out.extend_from_slice(b"UTIME_NOW"),
        libc::UTIME_OMIT => out.extend_from_slice(b"UTIME_OMIT"),
        _ => return time(bytes, "nsec", out),
    }
    Some(())
}

/// Whether a call takes two times of a file, and not a timer's interval and value: it has a path.
fn is_file_time(call: &Call) -> bool {
    call.strings.iter().any(Text::is_string)
}

fn interval(bytes: &[u8], unit: &str, out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(b"{it_interval=");
    time(bytes, unit, out)?;
    out.extend_from_slice(b", it_value=");
    time(bytes.get(16..)?, unit, out)?;
    out.push(b'}');
    Some(())
}

/// `[{iov_len=5}, {iov_len=8}]`
fn buffers(bytes: &[u8], cut: bool, out: &mut Vec<u8>) -> Option<()> {
    list(bytes, 4, cut, out, |length, out| {
        let length = u32_at(length, 0)?;
        out.extend_from_slice(b"{iov_len=");
        if length == u32::MAX {
            out.extend_from_slice(b">=");
        }
        decimal(length, out);
        out.push(b'}');
        Some(())
    })
}

fn poll(bytes: &[u8], told: bool, out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(b"{fd=");
    decimal(u32_at(bytes, 0)? as i32, out);
    out.extend_from_slice(b", events=");
    flags(Member::Poll.names(), u16_at(bytes, 4)?.into(), out);
    if told {
        out.extend_from_slice(b", revents=");
        flags(Member::Poll.names(), u16_at(bytes, 6)?.into(), out);
    }
    out.push(b'}');
    Some(())
}

fn epoll(machine: Architecture, bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(b"{events=");
    flags(Member::Epoll.names(), u32_at(bytes, 0)?.into(), out);
    let at = machine.epoll_data();
    let (low, all) = (u32_at(bytes, at)?, u64_at(bytes, at)?);
    out.extend_from_slice(format!(", data={{u32={low}, u64={all}}}}}").as_bytes());
    Some(())
}

fn open_how(machine: Architecture, bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (open, permissions) = (u64_at(bytes, 0)?, u64_at(bytes, 8)?);
    out.extend_from_slice(b"{flags=");
    flags(open_flags(machine), open, out);
    if permissions != 0 || open & libc::O_CREAT as u64 != 0 {
        out.extend_from_slice(b", mode=");
        mode(permissions, out);
    }
    out.extend_from_slice(b", resolve=");
    flags(Member::Resolve.names(), u64_at(bytes, 16)?, out);
    out.push(b'}');
    Some(())
}

/// `struct clone_args` (include/uapi/linux/sched.h): eight members, and later releases' after.
fn clone_args(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let member = |i: usize| u64_at(bytes, 8 * i);
    let clone = member(0)?;
    out.extend_from_slice(b"{flags=");
    flags(Member::CloneFlags.names(), clone, out);
    let pointers = [
        (libc::CLONE_PIDFD, "pidfd", 1),
        (libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID, "child_tid", 2),
        (libc::CLONE_PARENT_SETTID, "parent_tid", 3),
    ];
    for (flag, name, at) in pointers {
        if clone & flag as u64 != 0 {
            out.extend_from_slice(format!(", {name}=").as_bytes());
            address_or_null(member(at)?, out);
        }
    }
    out.extend_from_slice(b", exit_signal=");
    match member(4)? {
        0 => out.push(b'0'),
        number => write_signal(number as u32, out),
    }
    out.extend_from_slice(b", stack=");
    address_or_null(member(5)?, out);
    out.extend_from_slice(b", stack_size=");
    hex_or_zero(member(6)?, out);
    if clone & libc::CLONE_SETTLS as u64 != 0 {
        out.extend_from_slice(b", tls=");
        hex(member(7)?, out);
    }
    out.push(b'}');
    Some(())
}

fn address_or_null(value: u64, out: &mut Vec<u8>) {
    match value {
        0 => out.extend_from_slice(b"NULL"),
        value => hex(value, out),
    }
}

/// `8192*1024`, `RLIM64_INFINITY`
fn limit(value: u64, out: &mut Vec<u8>) {
    match value {
        u64::MAX => out.extend_from_slice(b"RLIM64_INFINITY"),
        value if value > 1024 && value.is_multiple_of(1024) => {
            decimal(value / 1024, out);
            out.extend_from_slice(b"*1024");
        }
        value => decimal(value, out),
    }
}

/// `struct sigaction` of the kernel (include/linux/signal_types.h): handler, flags, restorer, mask.
fn action(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    const SA_RESTORER: u64 = 0x0400_0000;
    out.extend_from_slice(b"{sa_handler=");
    match u64_at(bytes, 0)? {
        0 => out.extend_from_slice(b"SIG_DFL"),
        1 => out.extend_from_slice(b"SIG_IGN"),
        handler => hex(handler, out),
    }
    out.extend_from_slice(b", sa_mask=");
    signals(u64_at(bytes, 24)?, out);
    out.extend_from_slice(b", sa_flags=");
    let action = u64_at(bytes, 8)?;
    flags(Member::SignalAction.names(), action, out);
    if action & SA_RESTORER != 0 {
        out.extend_from_slice(b", sa_restorer=");
        hex_or_zero(u64_at(bytes, 16)?, out);
    }
    out.push(b'}');
    Some(())
}

/// `[INT TERM]`; `~[KILL STOP]` of a set that has most.
fn signals(set: u64, out: &mut Vec<u8>) {
    let most = set.count_ones() >= 64 * 2 / 3;
    let mut set = set;
    if most {
        out.push(b'~');
        set = !set;
    }
    out.push(b'[');
    let start = out.len();
    for number in (1..=64).filter(|number| set >> (number - 1) & 1 != 0) {
        if out.len() > start {
            out.push(b' ');
        }
        let name = signal(number).unwrap_or_default();
        out.extend_from_slice(name.strip_prefix("SIG").unwrap_or(&name).as_bytes());
    }
    out.push(b']');
}

fn message(
    bytes: &[u8],
    told: bool,
    [name, vector]: [Option<(&[u8], bool)>; 2],
    out: &mut Vec<u8>,
) -> Option<()> {
    let member = |i: usize| u32_at(bytes, 4 * i);
    out.extend_from_slice(b"{msg_name=");
    match name {
        Some((bytes, cut)) => address(bytes, cut, out)?,
        // The kernel leaves the length 0 where the program asks for no address.
        None if told && member(0)? != 0 => out.push(b'?'),
        None => out.extend_from_slice(b"NULL"),
    }
    out.extend_from_slice(b", msg_namelen=");
    decimal(member(0)?, out);
    out.extend_from_slice(b", msg_iov=");
    match vector {
        Some((bytes, cut)) => buffers(bytes, cut, out)?,
        None => out.extend_from_slice(b"NULL"),
    }
    out.extend_from_slice(b", msg_iovlen=");
    decimal(member(1)?, out);
    out.extend_from_slice(b", msg_controllen=");
    decimal(member(2)?, out);
    out.extend_from_slice(b", msg_flags=");
    flags(Member::MessageFlags.names(), member(3)?.into(), out);
    out.push(b'}');
    Some(())
}

/// As the C library's macros take it apart.
fn wait_status(status: u32, out: &mut Vec<u8>) {
    let status = status as i32;
    out.extend_from_slice(b"[{");
    if libc::WIFEXITED(status) {
        out.extend_from_slice(b"WIFEXITED(s) && WEXITSTATUS(s) == ");
        decimal(libc::WEXITSTATUS(status), out);
    } else if libc::WIFSTOPPED(status) {
        out.extend_from_slice(b"WIFSTOPPED(s) && WSTOPSIG(s) == ");
        write_signal(libc::WSTOPSIG(status) as u32, out);
    } else if libc::WIFCONTINUED(status) {
        out.extend_from_slice(b"WIFCONTINUED(s)");
    } else {
        out.extend_from_slice(b"WIFSIGNALED(s) && WTERMSIG(s) == ");
        write_signal(libc::WTERMSIG(status) as u32, out);
        if libc::WCOREDUMP(status) {
            out.extend_from_slice(b" && WCOREDUMP(s)");
        }
    }
    out.extend_from_slice(b"}]");
}

/// `[3 5]`: the bits that are set, of those below `limit`.
fn bits(bytes: &[u8], limit: Option<u32>, cut: bool, out: &mut Vec<u8>) {
    out.push(b'[');
    let start = out.len();
    let set = |i: &u32| bytes.get(*i as usize / 8).is_some_and(|byte| byte >> (i % 8) & 1 != 0);
    let all = (8 * bytes.len() as u32).min(limit.unwrap_or(u32::MAX));
    for i in (0..all).filter(set) {
        if out.len() > start {
            out.push(b' ');
        }
        decimal(i, out);
    }
    if cut {
        out.extend_from_slice(b" ...");
    }
    out.push(b']');
}

/// `siginfo_t` (include/uapi/asm-generic/siginfo.h, 64 bits): number, error, code; of a child its
/// process, user and status.
fn signal_info(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let number = u32_at(bytes, 0)?;
    if number == 0 {
        // waitid with WNOHANG, and no child has ended.
        out.extend_from_slice(b"{}");
        return Some(());
    }
    let code = u32_at(bytes, 8)? as i32;
    out.extend_from_slice(b"{si_signo=");
    write_signal(number, out);
    out.extend_from_slice(b", si_code=");
    match si_code::name(number, code) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => decimal(code, out),
    }
    if number as i32 == libc::SIGCHLD {
        let (pid, uid, status) = (u32_at(bytes, 16)?, u32_at(bytes, 20)?, u32_at(bytes, 24)?);
        out.extend_from_slice(format!(", si_pid={pid}, si_uid={uid}, si_status=").as_bytes());
        // Of a child that was killed or stopped, the signal.
        if code == libc::CLD_EXITED {
            decimal(status as i32, out);
        } else {
            write_signal(status, out);
        }
    }
    out.push(b'}');
    Some(())
}

fn file_lock(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(b"{l_type=");
    flags(Member::LockType.names(), u16_at(bytes, 0)?.into(), out);
    out.extend_from_slice(b", l_whence=");
    flags(Member::Whence.names(), u16_at(bytes, 2)?.into(), out);
    let (start, length) = (u64_at(bytes, 8)? as i64, u64_at(bytes, 16)? as i64);
    out.extend_from_slice(format!(", l_start={start}, l_len={length}}}").as_bytes());
    Some(())
}

/// `[1]`; `{l_onoff=1, l_linger=5}`; else its bytes.
fn socket_option(
    bytes: &[u8],
    cut: bool,
    call: &Call,
    index: usize,
    out: &mut Vec<u8>,
) -> Option<()> {
    let before = |back: usize| call.args.get(index.checked_sub(back)?).map(|arg| *arg as i32);
    match bytes.len() {
        4 => {
            out.push(b'[');
            decimal(u32_at(bytes, 0)? as i32, out);
            out.push(b']');
        }
        8 if (before(2), before(1)) == (Some(libc::SOL_SOCKET), Some(libc::SO_LINGER)) => {
            let (on, seconds) = (u32_at(bytes, 0)?, u32_at(bytes, 4)?);
            out.extend_from_slice(format!("{{l_onoff={on}, l_linger={seconds}}}").as_bytes());
        }
        _ => quote(bytes, cut, out),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::pointee::{HEAD, INDEX, head};
    use flightrec_format::abi::record::Abi;
    use proptest::prelude::*;

    use super::*;

    fn text(index: u8, shape: Shape, told: bool, bytes: &[u8]) -> Text {
        let head = head(shape as u32, told).to_le_bytes();
        Text {
            index: INDEX + index,
            status: StringStatus::Whole,
            bytes: [&head, bytes].concat().into(),
        }
    }

    fn call(strings: Vec<Text>) -> Call {
        Call { nr: 7, abi: Abi::Native, nargs: 3, args: [3, 0x7ffd_0000, 16, 0, 0, 0], strings }
    }

    fn shown(strings: Vec<Text>, index: usize) -> Option<String> {
        let mut out = Vec::new();
        let is_there = write(Architecture::X86_64, &call(strings), index, &mut out);
        assert_eq!(is_there, !out.is_empty());
        is_there.then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn addresses_of_sockets() {
        let of = |bytes: &[u8]| shown(vec![text(1, Shape::SocketAddress, false, bytes)], 1);
        let four = [2, 0, 0x15, 0x38, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(of(&four).unwrap(), "{AF_INET, 10.0.0.2:5432}");
        let six = [&[10, 0, 0, 80, 0, 0, 0, 0][..], &[0; 15], &[1], &[2, 0, 0, 0]].concat();
        assert_eq!(of(&six).unwrap(), "{AF_INET6, [::1%2]:80}");
        assert_eq!(of(b"\x01\0/run/\x1bx\0junk").unwrap(), r#"{AF_UNIX, "/run/\33x"}"#);
        assert_eq!(of(b"\x01\0\0na\0me").unwrap(), r#"{AF_UNIX, @"na\0me"}"#);
        assert_eq!(of(b"\x01\0").unwrap(), "{AF_UNIX}");
        // Too short for its family: as if nothing were recorded.
        assert_eq!(of(&four[..5]), None);
        assert_eq!(of(b""), None);
    }

    #[test]
    fn events_of_epoll_are_as_long_as_on_the_machine() {
        let packed = [[1u8, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]; 2].concat();
        let aligned = [[1u8, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]; 2].concat();
        for (machine, bytes) in [(Architecture::X86_64, packed), (Architecture::Aarch64, aligned)] {
            let mut out = Vec::new();
            let call = call(vec![text(1, Shape::EpollEvents, true, &bytes)]);
            assert!(write(machine, &call, 1, &mut out));
            let event = "{events=EPOLLIN, data={u32=7, u64=7}}";
            assert_eq!(String::from_utf8(out).unwrap(), format!("[{event}, {event}]"));
        }
    }

    #[test]
    fn what_the_kernel_told_comes_first() {
        let fd = |revents| [7, 0, 0, 0, 1, 0, revents, 0];
        let given = text(0, Shape::PollFds, false, &fd(0));
        let told = text(0, Shape::PollFds, true, &fd(1));
        assert_eq!(shown(vec![given.clone()], 0).unwrap(), "[{fd=7, events=POLLIN}]");
        assert_eq!(shown(vec![given, told], 0).unwrap(), "[{fd=7, events=POLLIN, revents=POLLIN}]");
    }

    #[test]
    fn a_message_has_its_parts() {
        let numbers: Vec<u8> = [16u32, 2, 0, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
        let lengths: Vec<u8> = [2u32, u32::MAX].iter().flat_map(|n| n.to_le_bytes()).collect();
        let strings = vec![
            text(1, Shape::Message, false, &numbers),
            text(1, Shape::SocketAddress, false, b"\x01\0/x"),
            text(1, Shape::Iovec, false, &lengths),
        ];
        assert_eq!(
            shown(strings, 1).unwrap(),
            "{msg_name={AF_UNIX, \"/x\"}, msg_namelen=16, msg_iov=[{iov_len=2}, \
             {iov_len=>=4294967295}], msg_iovlen=2, msg_controllen=0, msg_flags=0}"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_of_any_shape_are_printable(
            shape in 0..32u8,
            told: bool,
            cut: bool,
            bytes in prop::collection::vec(any::<u8>(), 0..140),
        ) {
            let bytes = [&[shape, u8::from(told), 0, 0][..HEAD], &bytes].concat().into();
            let status = if cut { StringStatus::Cut } else { StringStatus::Whole };
            let mut out = Vec::new();
            let call = call(vec![Text { index: INDEX + 1, status, bytes }]);
            for machine in [Architecture::X86_64, Architecture::Aarch64] {
                write(machine, &call, 1, &mut out);
            }
            prop_assert!(out.iter().all(|byte| (b' '..=b'~').contains(byte)));
        }
    }
}
