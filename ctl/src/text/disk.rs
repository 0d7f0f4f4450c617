//! Requests to disks: what is known of one, and what those of a call or a wait come to.

use flightrec_reader::pipeline::{DiskUse, Request};

use super::number::{decimal, duration};

/// ` queue=1200ns service=345000ns issued_by=4711`, as fields in ns are written.
pub(super) fn request(request: Option<&Request>, out: &mut Vec<u8>) {
    let Some(Request { issued_by, queue_ns, service_ns }) = request else { return };
    for (name, ns) in [(" queue=", queue_ns), (" service=", service_ns)] {
        if let Some(ns) = ns {
            out.extend_from_slice(name.as_bytes());
            decimal(*ns, out);
            out.extend_from_slice(b"ns");
        }
    }
    if let Some(tid) = issued_by {
        out.extend_from_slice(b" issued_by=");
        decimal(*tid, out);
    }
}

/// ` disk: 3 requests in 4.2 ms, queue 0.2 ms, service 4.1 ms`
pub(super) fn of_call(disk: Option<&DiskUse>, out: &mut Vec<u8>) {
    let Some(DiskUse { requests, busy_ns, queue_ns, service_ns }) = disk else { return };
    out.extend_from_slice(b" disk: ");
    decimal(*requests, out);
    out.extend_from_slice(if *requests == 1 { b" request in " } else { b" requests in " });
    duration(*busy_ns, out);
    out.extend_from_slice(b", queue ");
    duration(*queue_ns, out);
    out.extend_from_slice(b", service ");
    duration(*service_ns, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_not_known_is_not_said() {
        let done =
            Request { issued_by: Some(7), queue_ns: Some(1200), service_ns: Some(4_100_000) };
        let all = " queue=1200ns service=4100000ns issued_by=7";
        assert_eq!(text(|out| request(Some(&done), out)), all);
        assert_eq!(text(|out| request(Some(&Request::default()), out)), "");
        assert_eq!(text(|out| request(None, out)), "");
    }

    #[test]
    fn the_requests_of_a_call_are_added_up() {
        let mut disk =
            DiskUse { requests: 3, busy_ns: 4_200_000, queue_ns: 200_000, service_ns: 4_100_000 };
        let said = " disk: 3 requests in 4.2 ms, queue 200 us, service 4.1 ms";
        assert_eq!(text(|out| of_call(Some(&disk), out)), said);
        disk.requests = 1;
        assert!(text(|out| of_call(Some(&disk), out)).starts_with(" disk: 1 request in "));
        assert_eq!(text(|out| of_call(None, out)), "");
    }
}
