//! Requests of `ioctl`, as strace writes them.

use flightrec_reader::names::ioctl;

use super::number::hex_or_zero;

/// Appends a request: its name (`A or B`, where two drivers have given it different ones), or what
/// it is made of, as `_IOC` of include/uapi/asm-generic/ioctl.h puts it together.
pub(super) fn write(request: u32, out: &mut Vec<u8>) {
    if let Some(name) = ioctl::request(request) {
        out.extend_from_slice(name.as_bytes());
        return;
    }
    out.extend_from_slice(match request >> 30 {
        0 => b"_IOC(_IOC_NONE".as_slice(),
        1 => b"_IOC(_IOC_WRITE",
        2 => b"_IOC(_IOC_READ",
        _ => b"_IOC(_IOC_READ|_IOC_WRITE",
    });
    for part in [request >> 8 & 0xff, request & 0xff, request >> 16 & 0x3fff] {
        out.extend_from_slice(b", ");
        hex_or_zero(u64::from(part), out);
    }
    out.push(b')');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(request: u64) -> String {
        let mut out = Vec::new();
        write(request as u32, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// As strace 6.1 writes them.
    #[test]
    fn requests_read_as_straces() {
        for (request, expected) in [
            (libc::TCGETS, "TCGETS"),
            (libc::TIOCGWINSZ, "TIOCGWINSZ"),
            (libc::FIONREAD, "FIONREAD"),
            (libc::FICLONE, "FICLONE"),
            (0x8008_1272, "BLKGETSIZE64"),
            (0x2400, "PERF_EVENT_IOC_ENABLE"),
            (0xae80, "KVM_RUN"),
            (0x8946, "SIOCETHTOOL"),
            (0x1234_5678, "_IOC(_IOC_NONE, 0x56, 0x78, 0x1234)"),
            (0xc040_5435, "_IOC(_IOC_READ|_IOC_WRITE, 0x54, 0x35, 0x40)"),
            (0, "_IOC(_IOC_NONE, 0, 0, 0)"),
        ] {
            assert_eq!(text(request), expected);
        }
    }
}
